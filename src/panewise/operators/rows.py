"""Rows on their way through operators: an Arrow batch with its event times and arrival numbers beside it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """`times` are the event times in microseconds, `arrivals` number the stream's rows as they came."""

    batch: pa.RecordBatch
    times: Ints
    arrivals: Ints

    @cached_property
    def latest(self) -> int:
        """The greatest event time; there must be rows."""
        return int(self.times.max())

    def __len__(self) -> int:
        return len(self.times)

    def take(self, chosen: NDArray[np.generic]) -> Rows:
        """The rows at these positions, or where the mask is true."""
        positions = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
        return Rows(self.batch.take(pa.array(positions)), self.times[positions], self.arrivals[positions])

    def slice(self, start: int, stop: int) -> Rows:
        return Rows(self.batch.slice(start, stop - start), self.times[start:stop], self.arrivals[start:stop])


def concatenated(parts: list[Rows]) -> Rows:
    """The parts one after the other; at least one is needed for the schema."""
    parts = [part for part in parts if len(part)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    batches = pa.Table.from_batches([p.batch for p in parts]).combine_chunks().to_batches()
    return Rows(batches[0], np.concatenate([p.times for p in parts]), np.concatenate([p.arrivals for p in parts]))
