"""A table as an edge of a plan: what statements have changed since the last step, as a delta.

A change of a table holds for a plan from the instant up to which the plan has come, which is where its next step
begins; before the first step, from the beginning. So all that changes between two steps changes at one instant, and
only what is left of it is told: a row that came and went in between never shows, an update is an end and a birth.

Cost: O(changes) a step, none where nothing changed. State: the changes that wait for the next step. Golab 2006,
section 3.3.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import empty_batch, wrapped
from panewise.operators.deltas import FOREVER, NONE, Delta, Ints, no_delta

Key = tuple[Any, ...]
CHANGES_APART = 256  # statements that wait before their changes are put together


class TableSource:
    """The changes of a table that wait for a plan's next step; `retired`: keys that they take away."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._batches: list[pa.RecordBatch] = []
        self._numbers: list[Ints] = []
        self._ended: list[Ints] = []
        self._begun = False
        self.retired: set[Key] = set()

    @property
    def bytes_held(self) -> int:
        return sum(int(batch.nbytes) for batch in self._batches) + sum(a.nbytes for a in self._numbers + self._ended)

    def change(self, ended: Ints, batch: pa.RecordBatch, numbers: Ints) -> None:
        """Rows that go, by number, and rows that come: their numbers ascend and were never used before."""
        self._batches.append(batch)
        self._numbers.append(numbers)
        self._ended.append(ended)
        if len(self._batches) >= CHANGES_APART:
            self._put_together()

    def retire(self, keys: set[Key]) -> None:
        """Keys that no row has any more. Before the first step nothing has met them."""
        if self._begun:
            self.retired |= keys

    def take(self, since: int) -> Delta:
        """What a step that begins at this instant has to know."""
        self._begun = True
        self.retired = set()
        if not self._batches:
            return no_delta(self._schema)
        self._put_together()
        (batch,), (numbers,), (ended,) = self._batches, self._numbers, self._ended
        self._batches, self._numbers, self._ended = [], [], []
        births = np.full(len(numbers), since, np.int64)
        deaths = np.full(len(numbers), FOREVER, np.int64)
        return Delta(batch, numbers, births, deaths, ended, np.full(len(ended), since, np.int64))

    def _put_together(self) -> None:
        """One change instead of many, without rows that came and went in it."""
        numbers, ended = np.concatenate([NONE, *self._numbers]), np.concatenate([NONE, *self._ended])
        whole = pa.Table.from_batches(self._batches, self._schema).combine_chunks()
        batch = whole.to_batches()[0] if whole.num_rows else empty_batch(self._schema)
        stays = ~np.isin(numbers, ended)
        if not stays.all():
            batch = batch.filter(wrapped(stays))
        self._batches, self._numbers = [batch], [numbers[stays]]
        self._ended = [np.sort(ended[~np.isin(ended, numbers)])]

    def snapshot(self) -> dict[str, Any]:
        self._put_together()
        return {
            "batch": self._batches[0],
            "numbers": self._numbers[0],
            "ended": self._ended[0],
            "begun": self._begun,
            "retired": [list(key) for key in sorted(self.retired, key=repr)],
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._batches, self._numbers = [snapshot["batch"]], [snapshot["numbers"]]
        self._ended, self._begun = [snapshot["ended"]], snapshot["begun"]
        self.retired = {tuple(key) for key in snapshot["retired"]}
