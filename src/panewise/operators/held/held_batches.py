"""Rows that may be needed again, by slot: appended in order, read at random, and compacted now and then.

Batches are merged like the digits of a binary counter: there are O(log rows) of them, and each row is copied O(log
rows) times. Reading from the newest batch, the common case, is one Arrow take.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import empty_batch, wrapped
from panewise.arrays import Ints


class HeldBatches:
    """Rows by slot, from 0.

    >>> held = HeldBatches(pa.schema([("a", pa.int64())]))
    >>> for values in ([1, 2, 3, 4, 5], [6], [7, 8]):
    ...     held.append(pa.record_batch({"a": values}))
    >>> held.take(np.array([6, 0, 6])).to_pydict()
    {'a': [7, 1, 7]}
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._batches: list[pa.RecordBatch] = []
        self._starts: list[int] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def bytes_held(self) -> int:
        return sum(int(batch.nbytes) for batch in self._batches)

    def append(self, batch: pa.RecordBatch) -> None:
        if not len(batch):
            return
        self._batches.append(batch)
        self._starts.append(self._size)
        self._size += len(batch)
        count = 1
        while count < len(self._batches) and 2 * sum(map(len, self._batches[-count:])) >= len(
            self._batches[-count - 1]
        ):
            count += 1
        if count > 1:
            self._batches[-count:] = [pa.concat_batches(self._batches[-count:])]
            del self._starts[len(self._batches) :]

    def take(self, slots: Ints) -> pa.RecordBatch:
        if not len(slots):
            return empty_batch(self._schema)
        least = int(slots.min())
        if least >= self._starts[-1]:
            batch = self._batches[-1]
            first = least - self._starts[-1]
            if int(slots[-1]) - int(slots[0]) == len(slots) - 1 and bool((slots[1:] > slots[:-1]).all()):
                return batch.slice(first, len(slots))
            return batch.take(wrapped(slots - self._starts[-1]))
        owners = np.searchsorted(np.array(self._starts), slots, side="right") - 1
        parts, places = [], []
        for i in np.flatnonzero(np.bincount(owners)).tolist():
            chosen = np.flatnonzero(owners == i)
            places.append(chosen)
            parts.append(self._batches[i].take(wrapped(slots[chosen] - self._starts[i])))
        if len(parts) == 1:
            return parts[0]
        back = np.empty(len(slots), np.int64)
        back[np.concatenate(places)] = np.arange(len(slots))
        return pa.concat_batches(parts).take(wrapped(back))

    def keep(self, slots: Ints) -> None:
        """Keeps only the rows in these slots, which ascend; they get the first slots."""
        kept = self.take(slots)
        self._batches, self._starts, self._size = [], [], 0
        self.append(kept)

    def all(self) -> pa.RecordBatch:
        return pa.concat_batches(self._batches) if self._batches else empty_batch(self._schema)
