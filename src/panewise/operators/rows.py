"""Rows on their way through operators: an Arrow batch with its event times and arrival numbers beside it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.columns import wrapped

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """`times` are the event times in microseconds. `arrived` numbers the stream's rows as they came: the number of the
    first one where they follow each other, else the number of each. `ascends`: times are known to ascend."""

    batch: pa.RecordBatch
    times: Ints
    arrived: int | Ints
    ascends: bool = False

    @cached_property
    def arrivals(self) -> Ints:
        """The number of each row; made only when somebody needs them."""
        if isinstance(self.arrived, np.ndarray):
            return self.arrived
        return np.arange(self.arrived, self.arrived + len(self), dtype=np.int64)

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
    """The parts one after the other; at least one is needed for the schema."""
    parts = [part for part in parts if len(part)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    batches = pa.Table.from_batches([p.batch for p in parts]).combine_chunks().to_batches()
    return Rows(batches[0], np.concatenate([p.times for p in parts]), np.concatenate([p.arrivals for p in parts]))
