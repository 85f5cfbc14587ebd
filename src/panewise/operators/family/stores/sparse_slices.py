"""Slices that list the groups they touch: the store of families with very many groups.

An open slice gives a slot to each (slice, group) that occurs. A closed slice is a list of groups and their partials.
For each distinct (range, offset) of the family's windows, a *cursor* slides over the closed slices and keeps the answer
of every group. It touches only the groups of slices that enter or leave. Memory is proportional to the groups touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panewise.aggregates.holistic import HeldKind, StatisticKind
from panewise.aggregates.user import matrix_of
from panewise.arrays import Floats, Ints
from panewise.operators.arguments import Arguments
from panewise.operators.family.groups import Groups
from panewise.operators.family.members import Members
from panewise.operators.family.partials import Drained
from panewise.operators.family.reporting import Reporting
from panewise.operators.family.sought_windows import Technique
from panewise.operators.family.sparse_reporting import Span, SparseReporting
from panewise.operators.family.stores.cursor import Cursor, SparseSlice
from panewise.operators.family.stores.slice_store import SliceStore
from panewise.operators.family.timeline import Timeline
from panewise.operators.held.held_values import HeldValues
from panewise.plan.aggregation import Pools, StateKey
from panewise.slicing.pairs import Cadence
from panewise.slicing.window_set import WindowSet


class SparseSlices(SliceStore):
    """Closed slices as lists of groups, with cursors over them. A store that does not answer has no cursors."""

    is_sparse = True
    answers_past = False

    def __init__(self, groups: int, pools: Pools, answers: bool = True) -> None:
        super().__init__(pools, answers, None)
        self.groups = groups  # there is room for groups below this number
        self.slices: list[SparseSlice] = []  # closed ones
        self._first = 0
        self._spans_of = (-1, 0)  # `first` and the number of slices for which starts and ends were computed
        self._starts = self._ends = np.empty(0, np.int64)
        self.cursors: dict[Span, Cursor] = {}

    @property
    def first(self) -> int:
        return self._first

    @property
    def closed_span(self) -> tuple[int, int] | None:
        return (self.slices[0].start, self.slices[-1].end) if self.slices else None

    @property
    def starts(self) -> Ints:
        return self._spans[0]

    @property
    def ends(self) -> Ints:
        return self._spans[1]

    @property
    def _spans(self) -> tuple[Ints, Ints]:
        """Starts and ends of the closed slices; cached, because they are read far more often than they change."""
        held = self.first, len(self.slices)
        if self._spans_of != held:
            self._spans_of = held
            self._starts = np.array([s.start for s in self.slices], np.int64)
            self._ends = np.array([s.end for s in self.slices], np.int64)
        return self._starts, self._ends

    @property
    def bytes_held(self) -> int:
        stacks = sum(cursor.bytes_held for cursor in self.cursors.values())
        slices = sum(held.bytes_held for held in self.slices)
        matrices = sum(m.bytes_held for m in self.matrices.values())
        return self.open.bytes_held + matrices + slices + stacks + self.held.bytes_held

    # -- taking over from another store --------------------------------------------------------------------------

    def take_closed(
        self,
        first: int,
        slices: list[SparseSlice],
        keys: Iterable[StateKey],
        held: HeldValues,
        windows: Iterable[Cadence],
        evicted: tuple[Ints, dict[StateKey, tuple[Ints, Floats]]] | None,
    ) -> None:
        """A fresh store takes the states and closed slices of another store, with new cursors before the first slice.

        `evicted`: groups and states of the slices before `first`, if windows without a beginning need them.
        """
        self._first, self.slices, self.held = first, slices, held
        self.matrices = {key: matrix_of(key.kind, self.open.slots) for key in keys}
        for span in {(window.range, window.offset) for window in windows} if self.answering else ():
            self.cursors[span] = self._cursor(span)
        if evicted is not None:
            for cursor in self.cursors.values():
                if cursor.endless:
                    cursor.begin_with(*evicted)

    def take_open(self, slots: Ints, states: dict[StateKey, tuple[Ints, Floats]]) -> None:
        """Writes the partials of another store's open slices to slots that are still empty."""
        self.fit()
        for key, (ints, floats) in states.items():
            self.matrices[key].ints[:, slots], self.matrices[key].floats[:, slots] = ints, floats

    # -- members, states and groups ------------------------------------------------------------------------------

    @property
    def can_weave(self) -> bool:
        return False

    def weave(self, trees: Sequence[Technique], own: Technique) -> None:
        raise AssertionError("there are no trees over sparse slices")

    def follow(self, windows: WindowSet) -> None:
        """Drops cursors that no member moves: they would hold slices for ever."""
        if not self.answering:
            return
        wanted = {(window.range, window.offset) for window in windows}
        for span in self.cursors.keys() - wanted:
            del self.cursors[span]
        for span in wanted - self.cursors.keys():
            assert span[0] is not None or not self.first, "slices that a window without a beginning needs were evicted"
            self.cursors[span] = self._cursor(span)

    def _cursor(self, span: Span) -> Cursor:
        """A cursor before the first slice held."""
        return Cursor(self.matrices, self.groups, self.first, span[0] is None, self.pools)

    def has_place(self, cadence: Cadence) -> bool:
        return (cadence.range, cadence.offset) in self.cursors

    def touched(self, cadence: Cadence) -> list[Ints]:
        """The groups that the cursor of the window holds, or will hold when it moves on."""
        if cadence.range is None:
            return [np.arange(self.groups, dtype=np.int64)]
        return [held.groups for held in self.slices]

    def passed(self, cadence: Cadence, report: int) -> bool:
        cursor = self.cursors[cadence.range, cadence.offset]
        start, end = cadence.start(report), report - cadence.offset
        came, left = self.slices[: cursor.inserted - self.first], self.slices[: cursor.evicted - self.first]
        too_new = bool(came) and came[-1].end > end
        return too_new or (start is not None and bool(left) and left[-1].start >= start)

    def turn_back(self, cadence: Cadence, report: int) -> None:
        if self.passed(cadence, report):
            span = cadence.range, cadence.offset
            self.cursors[span] = self._cursor(span)

    def add_state(self, key: StateKey) -> None:
        if isinstance(key.kind, HeldKind):
            self.held.add(key, self.first, self.starts)
            return
        self.matrices[key] = matrix_of(key.kind, self.open.slots)
        for held in self.slices:
            empty = matrix_of(key.kind, len(held.groups))
            held.partials[key] = empty.ints, empty.floats
        for cursor in self.cursors.values():
            covered = self.slices[cursor.evicted - self.first : cursor.inserted - self.first]
            cursor.add_state(key, self.groups, covered)

    def drop_state(self, key: StateKey) -> None:
        if isinstance(key.kind, HeldKind):
            self.held.drop(key)
            return
        del self.matrices[key]
        for held in self.slices:
            del held.partials[key]
        for cursor in self.cursors.values():
            cursor.drop_state(key)

    def int_arrays(self, key: StateKey) -> list[Ints]:
        slices = [held.partials[key][0] for held in self.slices]
        stacks = [array for cursor in self.cursors.values() for array in cursor.int_arrays(key)]
        return [self.matrices[key].ints, *slices, *stacks]

    def live_ints(self, key: StateKey) -> list[Ints]:
        """All arrays: every place is in use."""
        return self.int_arrays(key)

    def assign_alone(self, points: Ints, ascending: bool) -> Ints | None:
        return None

    def assign_known(self, points: Ints, words: Ints, base: int, direct: Ints) -> Ints:
        return points[:0]

    def note_nulls(self, arguments: Arguments) -> None:
        """Nothing to do: every count has its own state."""

    def note_states(self, names: set[str]) -> None: ...

    def drain(self) -> Drained:
        begins, rooms = self.open.starts.copy(), self.open.rooms.copy()
        slots, starts, ends, groups = self.open.drain_sparse()
        states = {}
        for key, matrix in self.matrices.items():
            states[key] = np.take(matrix.ints, slots, axis=1), np.take(matrix.floats, slots, axis=1)
            matrix.reset(slots if 2 * len(slots) < matrix.slots else slice(None))
        return starts, ends, groups, states, self.held.drain(begins, rooms, starts, groups)

    def with_room(self, groups: int, dense_most: int, windows: Iterable[Cadence]) -> SliceStore:
        if groups > self.groups:
            self._widen(2 * groups)
        return self

    def as_written(self, sparse: bool, windows: Iterable[Cadence]) -> SliceStore:
        assert sparse, "sparse slices never become dense"
        return self

    def _widen(self, groups: int) -> None:
        self.groups = groups
        for cursor in self.cursors.values():
            cursor.widen(groups)

    def live_groups(self) -> Ints | None:
        """None if some window has no beginning: it needs all groups."""
        if any(cursor.endless for cursor in self.cursors.values()):
            return None
        return np.unique(np.concatenate([self.open.groups_held(), *(held.groups for held in self.slices)]))

    def regroup(self, kept: Ints, renamed: Ints) -> int:
        self.groups = 2 * len(kept) + 64
        self.open.rename_groups(renamed)
        self.held.regroup(renamed)
        for held in self.slices:
            held.groups = renamed[held.groups]
        for cursor in self.cursors.values():
            cursor.regroup(kept, renamed, self.groups)
        return self.groups

    def close(self, watermark: int) -> None:
        count = self.open.closable(watermark)
        self.held.close(self.open.rooms[:count].copy(), self.open.starts[:count].copy())
        for i in range(count):
            slots, groups = self.open.entries_of(i)
            partials = {}
            for key, matrix in self.matrices.items():
                partials[key] = matrix.ints[:, slots], matrix.floats[:, slots]
                matrix.reset(slots)
            self.slices.append(SparseSlice(int(self.open.starts[i]), int(self.open.ends[i]), groups, partials))
        self.open.close(count)

    def move(self, span: Span, start: int | None, end: int) -> list[Ints]:
        """Moves the cursor of the span to the slices from `start` to `end`; returns the groups of slices that entered
        or left."""
        cursor, first = self.cursors[span], self.first
        touched: list[Ints] = []
        while cursor.inserted < first + len(self.slices) and self.slices[cursor.inserted - first].end <= end:
            entering = self.slices[cursor.inserted - first]
            cursor.insert(entering)
            touched.append(entering.groups)
        while start is not None and cursor.evicted < cursor.inserted:
            leaving = self.slices[cursor.evicted - first]
            if leaving.start >= start:
                break
            cursor.evict(leaving)
            touched.append(leaving.groups)
        return touched

    def states_of(self, span: Span, keys: list[StateKey], groups: Ints) -> dict[StateKey, list[NDArray[Any]]]:
        """The fields of the answers for these groups, from the cursor of the span."""
        cursor = self.cursors[span]
        first, after = np.array([cursor.evicted]), np.array([cursor.inserted])
        result = {}
        for key in keys:
            if isinstance(key.kind, StatisticKind):
                some, others = self.held.answer(key, first, after, groups)
                result[key] = [field[0] for field in (*some, *others)]
            else:
                ints, floats = cursor.answer(key, groups)
                result[key] = [*ints, *floats]
        return result

    def evict(self, before: int) -> None:
        """Evicts those of the slices that no cursor covers."""
        needed = min((cursor.evicted for cursor in self.cursors.values()), default=before)
        gone = min(before, needed) - self.first
        if gone > 0:
            del self.slices[:gone]
            self._first += gone
            self.held.evict(self.first)

    def leave(self, tree: int, cadence: Cadence, window: int) -> None:
        """Nothing to do: `follow` drops the cursor with its last window."""

    def technique_of(self, tree: int, key: StateKey) -> str:
        return "sparse_two_stacks"

    def reporting(self, members: Members, timeline: Timeline, groups: Groups) -> Reporting:
        return SparseReporting(self, members, timeline, groups)

    # -- snapshots -----------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        return {
            "groups": self.groups,
            "states": [key.written for key in self.matrices],
            "open": self.open.snapshot(),
            "first": self.first,
            "ints": [matrix.ints.reshape(-1) for matrix in self.matrices.values()],
            "floats": [matrix.floats.reshape(-1) for matrix in self.matrices.values()],
            "slices": [held.page() for held in self.slices],
            "starts": self.starts,
            "ends": self.ends,
            "cursors": [
                {
                    "range": span[0],
                    "offset": span[1],
                    "evicted": c.evicted,
                    "inserted": c.inserted,
                    "totals": c.totals(self.groups).page() if c.endless else None,
                }
                for span, c in self.cursors.items()
            ],
            "held": self.held.snapshot(),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.groups, self._first = snapshot["groups"], snapshot["first"]
        self._restore_open(snapshot)
        self.slices = [
            SparseSlice.from_page(self.matrices, page, int(start), int(end))
            for page, start, end in zip(snapshot["slices"], snapshot["starts"], snapshot["ends"], strict=True)
        ]
        self.cursors = {}
        for saved in snapshot["cursors"]:
            endless = saved["range"] is None
            cursor = Cursor(self.matrices, self.groups, saved["evicted"], endless, self.pools)
            self.cursors[saved["range"], saved["offset"]] = cursor
            if endless:
                totals = SparseSlice.from_page(self.matrices, saved["totals"], 0, 0)
                cursor.begin_with(totals.groups, totals.partials)
            else:
                for number in range(saved["evicted"], saved["inserted"]):
                    cursor.insert(self.slices[number - self.first])
