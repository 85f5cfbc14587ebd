"""The reorder buffer: takes rows in any order, and releases them in (event time, arrival) order behind the watermark.

Rows that come in order, the usual case, are never copied or sorted: whole batches are released, and the batch that
the watermark cuts is sliced. Otherwise the released rows are sorted: O(held + released log released) a call.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from panewise.aggregates.columns import empty_batch
from panewise.operators.row_batch import Rows, concatenated
from panewise.schema import Schema


class ReorderBuffer:
    """Holds the rows that the watermark has not passed yet.

    `_parts` are the held rows in order of arrival. If `_ordered`, they are in order of event time too, within each part
    and across parts.
    """

    def __init__(self, schema: Schema) -> None:
        self._empty = Rows(empty_batch(schema.to_arrow()), np.empty(0, np.int64), np.empty(0, np.int64))
        self._parts: list[Rows] = []
        self._ordered = True

    def __len__(self) -> int:
        return sum(len(part) for part in self._parts)

    @property
    def bytes_held(self) -> int:
        return sum(part.batch.nbytes + part.times.nbytes + part.arrivals.nbytes for part in self._parts)

    def insert(self, rows: Rows) -> None:
        """Takes rows in any order; their arrival numbers are greater than those of all rows before."""
        if not len(rows):
            return
        if self._ordered:
            follows = not self._parts or bool(self._parts[-1].times[-1] <= rows.times[0])
            self._ordered = follows and bool((rows.times[1:] >= rows.times[:-1]).all())
        self._parts.append(rows)

    def release(self, watermark: int) -> Rows:
        """Removes and returns the rows with event times before the watermark, in (time, arrival) order."""
        return self._release_ordered(watermark) if self._ordered else self._release_sorted(watermark)

    def _release_ordered(self, watermark: int) -> Rows:
        released = []
        while self._parts:
            part = self._parts[0]
            cut = int(np.searchsorted(part.times, watermark, side="left"))
            if cut:
                released.append(part.slice(0, cut))
            if cut < len(part):
                self._parts[0] = part.slice(cut, len(part))
                break
            self._parts.pop(0)
        return concatenated(released) if released else self._empty

    def _release_sorted(self, watermark: int) -> Rows:
        rows = concatenated(self._parts)
        due = np.flatnonzero(rows.times < watermark)
        if not len(due):
            self._parts = [rows]
            return self._empty
        # Rows are in order of arrival, which a stable sort by time keeps for equal times.
        order = due[np.argsort(rows.times[due], kind="stable")]
        self._parts, self._ordered = [], True
        self.insert(rows.take(rows.times >= watermark))
        return rows.take(order)

    def snapshot(self) -> dict[str, Any]:
        rows = concatenated([*self._parts, self._empty])
        return {"batch": rows.batch, "times": rows.times.copy(), "arrivals": rows.arrivals.copy()}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._parts, self._ordered = [], True
        self.insert(Rows(snapshot["batch"], snapshot["times"], snapshot["arrivals"]))
