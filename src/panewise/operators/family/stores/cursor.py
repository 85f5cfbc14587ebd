"""Cursors: windows that slide over sparse slices.

           evicted              inserted
    ....|----|----|----|----|----|----|----|      closed slices, by number
             [ covered by the cursor  )

A cursor keeps the answer of every group over the slices that it covers. Inserting or evicting a slice touches only the
groups in that slice, so its cost is O(groups in the slice), amortised.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import wrapped
from panewise.aggregates.user import matrix_of
from panewise.arrays import Floats, Ints
from panewise.operators.arguments import ranks_of
from panewise.plan.aggregation import Pools, StateKey
from panewise.synopses.windows.sparse_two_stacks import SparseTwoStacks


@dataclass
class SparseSlice:
    """The distinct groups that a slice touched, and for each state their partials, in the order of the groups."""

    start: int
    end: int
    groups: Ints
    partials: dict[StateKey, tuple[Ints, Floats]]

    @property
    def bytes_held(self) -> int:
        return self.groups.nbytes + sum(i.nbytes + f.nbytes for i, f in self.partials.values())

    def page(self) -> pa.RecordBatch:
        """The slice as a record batch, without start and end."""
        columns = {"group": wrapped(self.groups)}
        for i, fields in enumerate(self.partials.values()):
            for j, field in enumerate([*fields[0], *fields[1]]):
                columns[f"state_{i}_{j}"] = wrapped(field)
        return pa.record_batch(columns)

    @classmethod
    def from_page(cls, keys: Iterable[StateKey], page: pa.RecordBatch, start: int, end: int) -> SparseSlice:
        """The inverse of `page`; `keys` are the states in its order."""
        partials = {}
        for i, key in enumerate(keys):
            whole, total = key.kind.int_fields, key.kind.int_fields + key.kind.float_fields
            held = matrix_of(key.kind, page.num_rows)
            for j in range(total):
                field = page.column(f"state_{i}_{j}").to_numpy()
                if j < whole:
                    held.ints[j] = field
                else:
                    held.floats[j - whole] = field
            partials[key] = held.ints, held.floats
        return cls(start, end, page.column("group").to_numpy().copy(), partials)


class Cursor:
    """A window of one range and offset that slides over closed slices; it covers slices [evicted, inserted).

    An endless cursor, of a window without a beginning, keeps the sum of all slices inserted and covers none.
    """

    def __init__(self, keys: Iterable[StateKey], groups: int, position: int, endless: bool, pools: Pools) -> None:
        self.endless = endless
        self.stacks = {key: SparseTwoStacks(key.kind, groups, endless) for key in keys}
        self.evicted = self.inserted = position
        self._pools = pools

    @property
    def bytes_held(self) -> int:
        return sum(stack.bytes_held for stack in self.stacks.values())

    def insert(self, entering: SparseSlice) -> None:
        """Inserts the next slice."""
        self.begin_with(entering.groups, entering.partials)
        self.inserted += 1
        if self.endless:
            self.evicted = self.inserted

    def begin_with(self, groups: Ints, partials: dict[StateKey, tuple[Ints, Floats]]) -> None:
        """Adds partials without moving: slices before the cursor's position, which an endless window still needs."""
        for key, stack in self.stacks.items():
            stack.insert(groups, *partials[key], ranks_of(key, self._pools))

    def evict(self, leaving: SparseSlice) -> None:
        """Evicts the oldest slice that it covers."""
        for key, stack in self.stacks.items():
            stack.evict(leaving.groups, *leaving.partials[key], ranks_of(key, self._pools))
        self.evicted += 1

    def add_state(self, key: StateKey, groups: int, covered: list[SparseSlice]) -> None:
        """Adds a state; `covered` are the slices that the cursor covers."""
        stack = self.stacks[key] = SparseTwoStacks(key.kind, groups, self.endless)
        for held in covered:
            stack.insert(held.groups, *held.partials[key], ranks_of(key, self._pools))

    def answer(self, key: StateKey, groups: Ints) -> tuple[Ints, Floats]:
        """The state of these groups over the slices covered."""
        return self.stacks[key].answer(groups, ranks_of(key, self._pools))

    def totals(self, groups: int) -> SparseSlice:
        """Everything that an endless cursor has taken in, as one slice of groups 0 to `groups`."""
        everyone = np.arange(groups, dtype=np.int64)
        return SparseSlice(0, 0, everyone, {key: self.answer(key, everyone) for key in self.stacks})

    def widen(self, groups: int) -> None:
        """Makes room for more groups."""
        for stack in self.stacks.values():
            stack.widen(groups)

    def regroup(self, kept: Ints, renamed: Ints, room: int) -> None:
        """Keeps only these groups, under new numbers, with room for `room` groups."""
        for stack in self.stacks.values():
            stack.regroup(kept, renamed, room)

    def drop_state(self, key: StateKey) -> None:
        del self.stacks[key]

    def int_arrays(self, key: StateKey) -> list[Ints]:
        return self.stacks[key].int_arrays()
