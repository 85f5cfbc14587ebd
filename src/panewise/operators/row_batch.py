"""Rows as operators exchange them: an Arrow batch with event times and arrival numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.columns import wrapped
from panewise.arrays import Ints


@dataclass(frozen=True)
class Rows:
    """`times` are event times in microseconds. `arrived` has the arrival numbers of the rows in the stream: the number
    of the first row if they are consecutive, else the number of each. `ascends`: times are known to ascend."""

    batch: pa.RecordBatch
    times: Ints
    arrived: int | Ints
    ascends: bool = False

    @cached_property
    def arrivals(self) -> Ints:
        """The arrival number of each row; computed on first use."""
        if isinstance(self.arrived, np.ndarray):
            return self.arrived
        return np.arange(self.arrived, self.arrived + len(self), dtype=np.int64)

    @property
    def first_arrived(self) -> int:
        """The arrival number of the first row; there must be rows."""
        return int(self.arrived[0]) if isinstance(self.arrived, np.ndarray) else self.arrived

    @property
    def last_arrived(self) -> int:
        """The arrival number of the last row; there must be rows."""
        return int(self.arrived[-1]) if isinstance(self.arrived, np.ndarray) else self.arrived + len(self) - 1

    @cached_property
    def latest(self) -> int:
        """The greatest event time; there must be rows."""
        return int(self.times.max())

    def __len__(self) -> int:
        return len(self.times)

    def take(self, chosen: NDArray[np.generic]) -> Rows:
        """The rows at these positions, or where the mask is true."""
        positions = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
        if isinstance(self.arrived, np.ndarray):
            arrived: Ints = self.arrived[positions]
        else:
            arrived = positions.astype(np.int64) + self.arrived
        ascends = self.ascends and chosen.dtype == np.bool_
        return Rows(self.batch.take(wrapped(positions)), self.times[positions], arrived, ascends)

    def slice(self, start: int, stop: int) -> Rows:
        arrived = self.arrived[start:stop] if isinstance(self.arrived, np.ndarray) else self.arrived + start
        return Rows(self.batch.slice(start, stop - start), self.times[start:stop], arrived, self.ascends)


def concatenated(parts: list[Rows]) -> Rows:
    """The rows of all parts, in order; there must be at least one part, for the schema."""
    parts = [part for part in parts if len(part)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    batches = pa.Table.from_batches(_alike([p.batch for p in parts])).combine_chunks().to_batches()
    pairs = list(pairwise(parts))
    ascends = all(part.ascends for part in parts) and all(a.times[-1] <= b.times[0] for a, b in pairs)
    arrived = parts[0].arrived
    if not all(_is_followed(a, b) for a, b in pairs):
        arrived = np.concatenate([part.arrivals for part in parts])
    return Rows(batches[0], np.concatenate([part.times for part in parts]), arrived, ascends)


def _is_followed(before: Rows, after: Rows) -> bool:
    """Whether both have consecutive numbers, and the second continues those of the first."""
    first, second = before.arrived, after.arrived
    return not isinstance(first, np.ndarray) and not isinstance(second, np.ndarray) and first + len(before) == second


def _alike(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The batches with one schema: some batches of a stream may have strings as dictionaries, others not."""
    if all(batch.schema.equals(batches[0].schema) for batch in batches):
        return batches
    plain = pa.schema(
        [
            pa.field(column.name, column.type.value_type if pa.types.is_dictionary(column.type) else column.type)
            for column in batches[0].schema
        ]
    )
    return [batch.cast(plain) for batch in batches]
