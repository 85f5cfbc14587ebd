"""Slices that hold only the groups they touch: the store of families with very many groups.

Open slices give a slot to each (slice, group) that occurs. A closed slice is a list of groups and partials. Per
distinct (range, offset) of the family's windows a *cursor* slides over the closed slices and keeps every group's answer
up to date, touching only groups of slices that enter or leave. Memory follows what is touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.columns import wrapped
from panewise.aggregates.holistic import HeldKind, StatisticKind
from panewise.aggregates.user import matrix_of
from panewise.arrays import Floats, Ints
from panewise.operators.arguments import Arguments, ranks_of
from panewise.operators.family.groups import Groups
from panewise.operators.family.members import Members
from panewise.operators.family.partials import Drained
from panewise.operators.family.past_reports import Technique
from panewise.operators.family.reporting import Reporting
from panewise.operators.family.slice_store import SliceStore, state_matrix
from panewise.operators.family.sparse_reporting import Span, SparseReporting
from panewise.operators.family.timeline import Timeline
from panewise.plan.aggregation import Pools, StateKey
from panewise.slicing.pairs import Cadence
from panewise.slicing.window_set import WindowSet
from panewise.synopses.windows.sparse_two_stacks import SparseTwoStacks


@dataclass
class SparseSlice:
    """The groups that a slice touched, each once, and per state their partials in the groups' order."""

    start: int
    end: int
    groups: Ints
    partials: dict[StateKey, tuple[Ints, Floats]]

    @property
    def bytes_held(self) -> int:
        return self.groups.nbytes + sum(i.nbytes + f.nbytes for i, f in self.partials.values())


class Cursor:
    """A window of one range and offset sliding over closed slices; slices are named by their number."""

    def __init__(self, keys: list[StateKey], groups: int, position: int, endless: bool) -> None:
        self.endless = endless
        self.stacks = {key: SparseTwoStacks(key.kind, groups, endless) for key in keys}
        # Slices below `inserted` came in; those below `evicted` left again or, in an endless window, are not needed.
        self.evicted = self.inserted = position


class SparseSlices(SliceStore):
    """Closed slices as lists of pairs, with cursors over them. One that does not answer has no cursors."""

    is_sparse = True
    answers_past = False

    def __init__(self, groups: int, pools: Pools, answers: bool = True) -> None:
        super().__init__(pools, answers, None)
        self.groups = groups
        self.first = 0
        self.slices: list[SparseSlice] = []
        self._spans_of = (-1, 0)  # the first number and how many, of the slices whose starts and ends follow
        self._starts = self._ends = np.empty(0, np.int64)
        self.cursors: dict[Span, Cursor] = {}

    @property
    def after(self) -> int:
        return self.first + len(self.slices)

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
        """Starts and ends; they are asked for many times between two changes, of many slices."""
        held = self.first, len(self.slices)
        if self._spans_of != held:
            self._spans_of = held
            self._starts = np.array([s.start for s in self.slices], np.int64)
            self._ends = np.array([s.end for s in self.slices], np.int64)
        return self._starts, self._ends

    @property
    def bytes_held(self) -> int:
        stacks = sum(s.bytes_held for cursor in self.cursors.values() for s in cursor.stacks.values())
        slices = sum(held.bytes_held for held in self.slices)
        matrices = sum(m.bytes_held for m in self.matrices.values())
        return self.open.bytes_held + matrices + slices + stacks + self.held.bytes_held

    def make_cursors(self, windows: Iterable[Cadence]) -> None:
        """For slices that were kept otherwise so far: cursors for these windows, before the first slice held."""
        for span in {(window.range, window.offset) for window in windows} if self.answering else ():
            self.cursors[span] = self._cursor(span)

    def begin_endless(self, groups: Ints, states: dict[StateKey, tuple[Ints, Floats]]) -> None:
        """What windows without a beginning hold of slices that have gone."""
        for cursor in self.cursors.values():
            if cursor.endless:
                for key, stack in cursor.stacks.items():
                    stack.insert(groups, *states[key], ranks_of(key, self.pools))

    @property
    def can_weave(self) -> bool:
        return False

    def weave(self, trees: Sequence[Technique], own: Technique) -> None:
        raise AssertionError("there are no trees over sparse slices")

    def follow(self, windows: WindowSet) -> None:
        """One that nobody moves would hold slices for ever."""
        if not self.answering:
            return
        wanted = {(window.range, window.offset) for window in windows}
        for span in self.cursors.keys() - wanted:
            del self.cursors[span]
        for span in wanted - self.cursors.keys():
            assert span[0] is not None or not self.first, "slices have gone that a window without a beginning needs"
            self.cursors[span] = self._cursor(span)

    def _cursor(self, span: Span) -> Cursor:
        return Cursor(list(self.matrices), self.groups, self.first, span[0] is None)

    def has_place(self, cadence: Cadence) -> bool:
        return (cadence.range, cadence.offset) in self.cursors

    def touched(self, cadence: Cadence) -> list[Ints]:
        """Those that it finds in the cadence's cursor, or will when that moves on."""
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
            cursor.stacks[key] = SparseTwoStacks(key.kind, self.groups, cursor.endless)
            for number in range(cursor.evicted, cursor.inserted):
                held = self.slices[number - self.first]
                cursor.stacks[key].insert(held.groups, *held.partials[key], ranks_of(key, self.pools))

    def drop_state(self, key: StateKey) -> None:
        if isinstance(key.kind, HeldKind):
            self.held.drop(key)
            return
        del self.matrices[key]
        for held in self.slices:
            del held.partials[key]
        for cursor in self.cursors.values():
            del cursor.stacks[key]

    def int_arrays(self, key: StateKey) -> list[Ints]:
        slices = [held.partials[key][0] for held in self.slices]
        stacks = [array for cursor in self.cursors.values() for array in cursor.stacks[key].int_arrays()]
        return [self.matrices[key].ints, *slices, *stacks]

    def live_ints(self, key: StateKey) -> list[Ints]:
        """Everything is in use."""
        return self.int_arrays(key)

    def assign_alone(self, points: Ints, ascending: bool) -> Ints | None:
        return None

    def assign_known(self, points: Ints, words: Ints, base: int, direct: Ints) -> Ints:
        return points[:0]

    def note_nulls(self, arguments: Arguments) -> None:
        """Every count has a state of its own here."""

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
        assert sparse, "sparse slices do not become others"
        return self

    def _widen(self, groups: int) -> None:
        self.groups = groups
        for cursor in self.cursors.values():
            for stack in cursor.stacks.values():
                stack.widen(groups)

    def live_groups(self) -> Ints | None:
        """A window without a beginning needs all of them."""
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
            for stack in cursor.stacks.values():
                stack.regroup(kept, renamed, self.groups)
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
        """The span's cursor now covers the slices from `start` to `end`; the groups of what came and went."""
        cursor = self.cursors[span]
        touched: list[Ints] = []
        while cursor.inserted < self.after and self.slices[cursor.inserted - self.first].end <= end:
            held = self.slices[cursor.inserted - self.first]
            for key, stack in cursor.stacks.items():
                stack.insert(held.groups, *held.partials[key], ranks_of(key, self.pools))
            touched.append(held.groups)
            cursor.inserted += 1
            if cursor.endless:
                cursor.evicted = cursor.inserted
        while start is not None and cursor.evicted < cursor.inserted:
            held = self.slices[cursor.evicted - self.first]
            if held.start >= start:
                break
            for key, stack in cursor.stacks.items():
                stack.evict(held.groups, *held.partials[key], ranks_of(key, self.pools))
            touched.append(held.groups)
            cursor.evicted += 1
        return touched

    def states_of(self, span: Span, keys: list[StateKey], groups: Ints) -> dict[StateKey, list[NDArray[Any]]]:
        """The fields of these groups' answers under the span's cursor."""
        cursor = self.cursors[span]
        first, after = np.array([cursor.evicted]), np.array([cursor.inserted])
        result = {}
        for key in keys:
            if isinstance(key.kind, StatisticKind):
                some, others = self.held.answer(key, first, after, groups)
                result[key] = [field[0] for field in (*some, *others)]
            else:
                ints, floats = cursor.stacks[key].answer(groups, ranks_of(key, self.pools))
                result[key] = [*ints, *floats]
        return result

    def evict(self, before: int) -> None:
        """Of them those that no cursor holds any more."""
        needed = min((cursor.evicted for cursor in self.cursors.values()), default=before)
        gone = min(before, needed) - self.first
        if gone > 0:
            del self.slices[:gone]
            self.first += gone
            self.held.evict(self.first)

    def leave(self, tree: int, cadence: Cadence, window: int) -> None:
        """Its cursor goes when nobody else follows it."""

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
            "slices": [self._page(held) for held in self.slices],
            "starts": self.starts,
            "ends": self.ends,
            "cursors": [
                {
                    "range": span[0],
                    "offset": span[1],
                    "evicted": c.evicted,
                    "inserted": c.inserted,
                    "totals": self._page(self._totals(c)) if c.endless else None,
                }
                for span, c in self.cursors.items()
            ],
            "held": self.held.snapshot(),
        }

    def _totals(self, cursor: Cursor) -> SparseSlice:
        """All that an endless window has seen, as one slice."""
        groups = np.arange(self.groups, dtype=np.int64)
        states = {key: stack.answer(groups, ranks_of(key, self.pools)) for key, stack in cursor.stacks.items()}
        return SparseSlice(0, 0, groups, states)

    def _slice_of(self, page: pa.RecordBatch, start: int, end: int) -> SparseSlice:
        """The inverse of `_page`."""
        partials = {}
        for i, key in enumerate(self.matrices):
            whole, total = key.kind.int_fields, key.kind.int_fields + key.kind.float_fields
            held = matrix_of(key.kind, page.num_rows)
            for j in range(total):
                field = page.column(f"state_{i}_{j}").to_numpy()
                if j < whole:
                    held.ints[j] = field
                else:
                    held.floats[j - whole] = field
            partials[key] = held.ints, held.floats
        return SparseSlice(start, end, page.column("group").to_numpy().copy(), partials)

    @staticmethod
    def _page(held: SparseSlice) -> pa.RecordBatch:
        columns = {"group": wrapped(held.groups)}
        for i, fields in enumerate(held.partials.values()):
            for j, field in enumerate([*fields[0], *fields[1]]):
                columns[f"state_{i}_{j}"] = wrapped(field)
        return pa.record_batch(columns)

    def restore(self, snapshot: dict[str, Any]) -> None:
        by_name = {key.written: key for key in self.matrices}
        self.matrices = {by_name[name]: self.matrices[by_name[name]] for name in snapshot["states"]}
        self.groups, self.first = snapshot["groups"], snapshot["first"]
        self.held.restore(snapshot["held"])
        self.open.restore(snapshot["open"])
        for i, (key, matrix) in enumerate(self.matrices.items()):
            matrix.ints = state_matrix(snapshot["ints"][i], key.kind.int_fields, self.open.slots)
            matrix.floats = state_matrix(snapshot["floats"][i], key.kind.float_fields, self.open.slots)
        self.slices = [
            self._slice_of(page, int(start), int(end))
            for page, start, end in zip(snapshot["slices"], snapshot["starts"], snapshot["ends"], strict=True)
        ]
        self.cursors = {}
        for saved in snapshot["cursors"]:
            endless = saved["range"] is None
            cursor = Cursor(list(self.matrices), self.groups, saved["evicted"], endless)
            self.cursors[saved["range"], saved["offset"]] = cursor
            entering = [self.slices[n - self.first] for n in range(saved["evicted"], saved["inserted"])]
            if endless:
                entering = [self._slice_of(saved["totals"], 0, 0)]
            for held in entering:
                for key, stack in cursor.stacks.items():
                    stack.insert(held.groups, *held.partials[key], ranks_of(key, self.pools))
            cursor.inserted = saved["inserted"]
