"""A table as an edge of a plan: its changes since the last step, as a delta.

A change by a statement holds for a plan from the beginning of the plan's next step; before the first step, from the
beginning of time. All changes by statements between two steps thus happen at one instant. A change by a stream happens
at its event time, and waits for the step that accounts for this instant. Rows that come and go at one instant are left
out; an update is an end and a birth.

    instants     NEVER (from where the next step begins)      17      17      29          those below `until` are taken
    changes      rows that are there, statements              +row    -row    -row

Cost: O(1) amortised a change, nothing without changes. State: the changes that wait for a step, which are the versions
that a plan has not reached yet. Golab 2006, section 3.3.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import empty_batch, wrapped
from panewise.arrays import Ints
from panewise.errors import QueryFailed
from panewise.operators.lifetimes import NEVER
from panewise.operators.relation_delta import FOREVER, NONE, Delta, no_delta

Key = tuple[Any, ...]
CHANGES_APART = 256  # number of waiting changes from which on they are merged


@dataclass(frozen=True)
class Changes:
    """Rows that come, with their numbers (ascending) and births, and the numbers of rows that go, with the instants."""

    batch: pa.RecordBatch
    numbers: Ints
    births: Ints
    ended: Ints
    ended_at: Ints

    def __len__(self) -> int:
        return len(self.numbers) + len(self.ended)

    @property
    def nbytes(self) -> int:
        arrays = self.numbers, self.births, self.ended, self.ended_at
        return int(self.batch.nbytes) + sum(array.nbytes for array in arrays)

    @property
    def first(self) -> int:
        """The first instant; there must be changes."""
        return int(min([*self.births[:1], *self.ended_at[:1]]))

    def part(self, rows: slice, ends: slice) -> Changes:
        batch = self.batch.slice(rows.start or 0, len(self.numbers[rows]))
        return Changes(batch, self.numbers[rows], self.births[rows], self.ended[ends], self.ended_at[ends])


class TableSource:
    """The changes of a table that wait for a plan's steps. `retired`: keys that waiting statements remove."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._waiting: list[Changes] = []  # in order of instants; a stream's changes of one instant are in one element
        self._begun = False
        self._failed: tuple[int, str] | None = None
        self.retired: set[Key] = set()

    @property
    def bytes_held(self) -> int:
        return sum(changes.nbytes for changes in self._waiting)

    def change(
        self,
        ended: Ints,
        batch: pa.RecordBatch,
        numbers: Ints,
        ended_at: Ints | None = None,
        births: Ints | None = None,
    ) -> None:
        """Adds rows that go, by number, and rows that come, with new ascending numbers.

        Instants ascend, and are later than those of earlier changes. None: the change holds from the next step on.
        """
        births = np.full(len(numbers), NEVER, np.int64) if births is None else births
        ended_at = np.full(len(ended), NEVER, np.int64) if ended_at is None else ended_at
        changes = Changes(batch, numbers, births, ended, ended_at)
        if not len(changes):
            return
        self._waiting.append(changes)
        if len(self._waiting) >= CHANGES_APART and sum(map(len, self._waiting)) >= 2 * len(self._waiting[0]):
            self._waiting = [self._together(self._waiting)]

    def retire(self, keys: set[Key]) -> None:
        """Notes keys that no row has any more. Before the first step no row has met them."""
        if self._begun:
            self.retired |= keys

    def fail(self, at: int, reason: str) -> None:
        """The table is unknown from this instant on: a step that goes further fails with this reason."""
        self._failed = at, reason

    @property
    def known_until(self) -> int:
        """The instant up to which steps do not fail."""
        return FOREVER if self._failed is None else self._failed[0]

    def take(self, since: int, until: int) -> Delta:
        """Takes the changes for a step that accounts for [since, until)."""
        if self._failed is not None and until > self._failed[0]:
            raise QueryFailed(self._failed[1])
        self._begun = True
        self.retired = set()
        count = next((i for i, changes in enumerate(self._waiting) if changes.first >= until), len(self._waiting))
        if not count:
            return no_delta(self._schema)
        due, later = self._waiting[:count], self._waiting[count:]
        last = due[-1]
        born, gone = int(np.searchsorted(last.births, until)), int(np.searchsorted(last.ended_at, until))
        due[-1], rest = last.part(slice(born), slice(gone)), last.part(slice(born, None), slice(gone, None))
        self._waiting = [rest, *later] if len(rest) else later
        taken = self._together(due)
        return Delta(
            taken.batch,
            taken.numbers,
            np.maximum(taken.births, since),
            np.full(len(taken.numbers), FOREVER, np.int64),
            taken.ended,
            np.maximum(taken.ended_at, since),
        )

    def _together(self, parts: list[Changes]) -> Changes:
        """Merges changes into one, without rows that come and go at one instant."""
        numbers, births = np.concatenate([p.numbers for p in parts]), np.concatenate([p.births for p in parts])
        ended, ended_at = np.concatenate([p.ended for p in parts]), np.concatenate([p.ended_at for p in parts])
        whole = pa.Table.from_batches([p.batch for p in parts], self._schema).combine_chunks()
        batch = whole.to_batches()[0] if whole.num_rows else empty_batch(self._schema)
        places = np.searchsorted(numbers, ended)
        unseen = np.append(numbers, -1)[places] == ended
        unseen[unseen] = births[places[unseen]] == ended_at[unseen]
        if unseen.any():
            stays = np.ones(len(numbers), np.bool_)
            stays[places[unseen]] = False
            batch, numbers, births = batch.filter(wrapped(stays)), numbers[stays], births[stays]
            ended, ended_at = ended[~unseen], ended_at[~unseen]
        return Changes(batch, numbers, births, ended, ended_at)

    def snapshot(self) -> dict[str, Any]:
        nothing = Changes(empty_batch(self._schema), NONE, NONE, NONE, NONE)
        waiting = self._together(self._waiting or [nothing])
        return {
            "batch": waiting.batch,
            "numbers": waiting.numbers,
            "births": waiting.births,
            "ended": waiting.ended,
            "ended_at": waiting.ended_at,
            "begun": self._begun,
            "failed": list(self._failed) if self._failed is not None else None,
            "retired": [list(key) for key in sorted(self.retired, key=repr)],
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        columns = (snapshot[name] for name in ("batch", "numbers", "births", "ended", "ended_at"))
        waiting = Changes(*columns)
        self._waiting = [waiting] if len(waiting) else []
        self._begun = snapshot["begun"]
        self._failed = None if snapshot["failed"] is None else (snapshot["failed"][0], snapshot["failed"][1])
        self.retired = {tuple(key) for key in snapshot["retired"]}
