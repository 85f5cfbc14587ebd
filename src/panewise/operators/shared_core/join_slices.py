"""Slices of a join's results by when they expire: a basic interval synopsis (BIJ) with uneven intervals.

The windows of a join have the lengths r_1, r_2, ... At the report e they hold the results with `birth < e` whose rows
are all young enough: `time_i >= e - r_i`. With R the longest and `point = min_i(time_i - (R - r_i))` this is one
condition, `point >= e - R`, and no point is later than its result's birth. Windows whose lengths differ by the same
amounts have the same points. They are of one *shape* (usually all lengths are equal), and read one sequence of slices
of points, cut at the edges of them all:

    point    ----|------|--|------|--|------|--|---        a result enters the slice of its point, however old that is,
    births   up to e:                       e              and is in all reports after its birth that reach back so far
                 [      window of R         )

Every slice up to e may have changed since the last report. A report therefore combines them all, from the youngest on,
and all windows that are due at e are answered on the way (rule CS5). Dense slices have a state for every group. When
that would be too many states, slices become sparse: they have entries for the groups in them only. Answers are the
same.

Cost: O(1) a result; a report O(slices of the longest window due x groups); space slices x groups. The synopses RJ, IJ
and BIJ of `panewise.synopses` are the techniques to compare with. They need intervals of one length; this one takes any
ranges, slides and alignments, and queries may begin at any time. Golab 2006, section 8.3.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panewise.aggregates.matrix import NO_INTS, Encoded, StateMatrix, identity
from panewise.arrays import Ints
from panewise.operators.arguments import ranks_of
from panewise.operators.continuous.row_states import chosen_states, matrix_snapshot, restore_matrix
from panewise.operators.lifetimes import NEVER
from panewise.operators.row_windows.row_window import spread
from panewise.operators.shared_core.join_reports import LONG_AGO, DueJoinReports, JoinSchedule, JoinWindow
from panewise.operators.shared_core.join_slice_loops import DueArrays, count_touched, report_dense, report_sparse
from panewise.plan.aggregation import ROW_COUNT, Pools, StateKey
from panewise.slicing.open_slices import OpenSlices
from panewise.slicing.pairs import Cadence
from panewise.slicing.window_set import WindowSet
from panewise.synopses.counting import loop_for

Mask = NDArray[np.bool_]
States = dict[StateKey, StateMatrix]
DENSE_SLOTS_MAX = 1 << 22  # about the most states of dense slices
ANSWERS_MAX = 1 << 20  # about the most states that are answered at once


@dataclass(frozen=True)
class Results:
    """New results of a join, in order of birth, with the argument columns of the states."""

    births: Ints
    points: Ints
    groups: Ints
    arguments: dict[StateKey, list[Encoded]]

    def slice(self, begin: int, end: int) -> Results:
        if begin == 0 and end == len(self.births):
            return self
        arguments = {key: [_part(column, begin, end) for column in some] for key, some in self.arguments.items()}
        return Results(self.births[begin:end], self.points[begin:end], self.groups[begin:end], arguments)


@dataclass(frozen=True)
class SliceAnswers:
    """A row for each group in a report: by window (its position), then by instant."""

    windows: Ints
    ends: Ints
    groups: Ints
    states: States


class JoinSlices:
    """The slices of one shape; `shortfalls[i]` is by how much the window of input i is shorter than the longest."""

    def __init__(self, shortfalls: tuple[int, ...], grouped: bool, pools: Pools) -> None:
        self.shortfalls = shortfalls
        self._grouped = grouped
        self._pools = pools
        self._open = OpenSlices(1)
        self.matrices: States = {}
        self.windows: tuple[JoinWindow, ...] = ()
        self._wanted: dict[StateKey, Mask] = {}
        self._schedule, self._longest = JoinSchedule(), 0
        self._edges = WindowSet()
        self._horizon = NEVER  # No future report reads points before it.

    @property
    def bytes_held(self) -> int:
        return self._open.bytes_held + sum(matrix.bytes_held for matrix in self.matrices.values())

    # -- what is asked ---------------------------------------------------------------------------------------------

    def arrange(self, readers: dict[JoinWindow, set[StateKey]], point: int) -> None:
        """Sets the windows, each with the states that it reads. New windows read points from `point` on."""
        self.windows = tuple(readers)
        needed = {ROW_COUNT: None} | dict.fromkeys(
            key for keys in readers.values() for key in sorted(keys, key=lambda key: key.name)
        )
        self.matrices = {key: self.matrices.get(key) or StateMatrix(key.kind, self._open.slots) for key in needed}
        self._wanted = {key: np.array([key in readers[w] for w in self.windows], np.bool_) for key in needed}
        self._schedule = JoinSchedule(self.windows)
        self._longest = max(window.range for window in self.windows)
        self._edges = WindowSet(Cadence(w.range, w.slide, 0, w.align) for w in self.windows)
        self._open.cut_from(point, self._edges)
        self._horizon = min(self._horizon, point)

    def points(self, times: list[Ints]) -> Ints:
        """The point of each result: when its first row expires from the shape's windows, minus the longest range."""
        found = times[0] - self.shortfalls[0]
        for shortfall, more in zip(self.shortfalls[1:], times[1:], strict=True):
            np.minimum(found, more - shortfall, out=found)
        return found

    # -- a step ----------------------------------------------------------------------------------------------------

    def step(self, new: Results, groups: int, since: int, until: int, starts: Ints) -> Iterator[SliceAnswers]:
        """Takes the results born in [since, until); gives all reports in (since, until].

        `starts`: see `JoinSchedule.started`.
        """
        # Results that are too old for all reports go into one slice, which is dropped. To filter them would cost more.
        points = np.maximum(new.points, max(self._horizon - 1, NEVER))
        held = self._open.count > 0
        self._make_room(points, groups)
        slots = self._open.assign(points, new.groups if self._grouped else NO_INTS)
        for matrix in self.matrices.values():
            _lengthen(matrix, self._open.slots)
        if self._grouped:
            # Without slices from before, no report up to the first result's birth has rows.
            begins = since if held or not len(new.births) else max(since, int(new.births[0]))
            upto = min(until, int(self._open.ends[-1]) + self._longest) if self._open.count else since
            after = np.full(len(self.windows), max(begins, LONG_AGO))
        else:
            after, upto = self._schedule.started(since, starts), until
        slices = self._open.starts, self._open.ends
        due = self._schedule.due(new.births, slices, after, upto, only_with_slices=self._grouped)
        yield from self._reports(new, slots, due, groups)
        last = int(due.cuts[-1]) if len(due.cuts) else 0
        for key in self.matrices:
            self._fold(key, new, slots, last, len(slots))
        self._forget(until)

    def _fold(self, key: StateKey, new: Results, slots: Ints, begin: int, end: int) -> None:
        """Folds the results [begin, end) into their slices, one after the other: sums of doubles must not depend on how
        time is divided into steps."""
        if begin < end:
            arguments = [_part(column, begin, end) for column in new.arguments[key]]
            births, ranks = new.births[begin:end], ranks_of(key, self._pools)
            self.matrices[key].fold(slots[begin:end], arguments, births, NO_INTS, ranks)

    def _reports(self, new: Results, slots: Ints, due: DueJoinReports, groups: int) -> Iterator[SliceAnswers]:
        if self._open.width is not None:
            groups = min(groups, self._open.width)  # Newer groups have no results in this shape.
        sizes = np.full(len(due.ends), groups, np.int64)
        if self._open.width is None:
            seen = np.full(groups, -1, np.int64)
            count_touched(0, len(due.instants), self._arrays_of(due), self._open.entries, seen, sizes)
        before = np.append(0, np.cumsum(sizes))[np.append(0, due.due_ends)]
        begin = 0
        while begin < len(due.instants):
            end = max(begin + 1, int(np.searchsorted(before, before[begin] + ANSWERS_MAX, side="right")) - 1)
            yield self._answers(new, slots, due, begin, end, groups, sizes)
            begin = end

    def _answers(
        self, new: Results, slots: Ints, due: DueJoinReports, begin: int, end: int, groups: int, sizes: Ints
    ) -> SliceAnswers:
        """The reports of the instants [begin, end). Results are folded in before the first report after their birth."""
        dues = np.arange(due.due_ends[begin - 1] if begin else 0, due.due_ends[end - 1])
        order = dues[np.lexsort((due.ends[dues], due.windows[dues]))]
        offsets = np.zeros(len(due.ends), np.int64)
        offsets[order] = np.cumsum(sizes[order]) - sizes[order]
        found = np.repeat(order, sizes[order])
        numbers = spread(np.zeros_like(order), sizes[order])  # the groups of dense slices
        runs = np.append(np.flatnonzero(np.append(True, np.diff(due.cuts[begin:end]) > 0)) + begin, end).tolist()
        states: States = {}
        for key in self.matrices:
            states[key] = self._read(key, new, slots, due, runs, groups, offsets, numbers)
        if self._grouped:
            some = np.flatnonzero(states[ROW_COUNT].ints[0])
            if len(some) < len(found):
                found, numbers, states = found[some], numbers[some], chosen_states(states, some)
        return SliceAnswers(due.windows[found], due.ends[found], numbers, states)

    def _arrays_of(self, due: DueJoinReports) -> DueArrays:
        return self._open.rooms, due.highs, due.due_ends, due.lows

    def _read(
        self, key: StateKey, new: Results, slots: Ints, due: DueJoinReports, runs: list[int], groups: int,
        offsets: Ints, numbers: Ints,
    ) -> StateMatrix:  # fmt: skip
        """One state of these reports. Results and reports take turns; `runs` of instants without results between them
        are one call of the loop."""
        matrix, ranks = self.matrices[key], ranks_of(key, self._pools)
        blank, total, out = StateMatrix(key.kind, groups), _unset(key, groups), _unset(key, len(numbers))
        held: tuple[Any, ...] = int(key.kind.operation), (matrix.ints, matrix.floats)
        if self._open.width is not None:
            loop = loop_for(report_dense, key.kind, counted=False)
            held += self._open.width, groups
        else:
            loop = loop_for(report_sparse, key.kind, counted=False)
            out_groups = numbers if key == ROW_COUNT else np.empty_like(numbers)
            held += self._open.entries, np.full(groups, -1, np.int64), np.empty(groups, np.int64), out_groups
        asked = self._arrays_of(due), self._wanted[key][due.windows], offsets
        made = (blank.ints, blank.floats), (total.ints, total.floats), (out.ints, out.floats)
        done = int(due.cuts[runs[0] - 1]) if runs[0] else 0
        for first, last in pairwise(runs):
            self._fold(key, new, slots, done, int(due.cuts[first]))
            done = int(due.cuts[first])
            loop(*held, first, last, *asked, *made, ranks)
        return out

    # -- room ------------------------------------------------------------------------------------------------------

    def _make_room(self, points: Ints, groups: int) -> None:
        """Gives dense slices a slot for each group, with some to spare. Makes them sparse if that is too many slots."""
        width = self._open.width
        if width is None or not len(points):
            return
        needed = width if groups <= width else 2 * groups
        slides, _ = self._edges.edges
        most = (int(points.max()) - int(points.min())) * float((1.0 / slides).sum()) + 2 * len(slides) + 2
        slices = self._open.count + min(len(points), most)
        if needed > 1 and 2 * slices * needed > DENSE_SLOTS_MAX:
            self._become_sparse()
        elif needed > width:
            self._open.widen(needed)
            self.matrices = _widened(self.matrices, width, needed)

    def _become_sparse(self) -> None:
        """Converts the slices to sparse ones, with an entry for each group in a slice."""
        sparse = OpenSlices(None)
        slots, sources = self._open.hand_over(sparse, self.matrices[ROW_COUNT].ints[0])
        matrices = {}
        for key, held in self.matrices.items():
            matrix = matrices[key] = StateMatrix(key.kind, sparse.slots)
            matrix.ints[:, slots], matrix.floats[:, slots] = held.ints[:, sources], held.floats[:, sources]
        self._open, self.matrices = sparse, matrices

    def _forget(self, until: int) -> None:
        """Drops the slices that no report after `until` reads."""
        self._horizon = max(self._horizon, self._schedule.horizon(until))
        count = self._open.closable(self._horizon)
        if count and self._open.width is not None:
            rooms = self._open.rooms[:count].copy()
            for matrix in self.matrices.values():
                matrix.reset_rooms(rooms, self._open.width)
        elif count:
            slots = np.concatenate([self._open.entries_of(position)[0] for position in range(count)])
            for matrix in self.matrices.values():
                matrix.reset(slots)
        self._open.close(count)
        self._open.forget_epochs(self._horizon)

    def live_groups(self) -> Ints:
        """The groups in some slice; a group may be listed several times."""
        if self._open.width is None:
            return self._open.groups_held()
        counts = self.matrices[ROW_COUNT].ints[0].reshape(-1, self._open.width)
        return np.flatnonzero(counts.any(axis=0))

    def regroup(self, kept: Ints, renamed: Ints) -> None:
        """Keeps only these groups; slices must hold no others. `renamed`: the new number of each old one."""
        width = self._open.width
        if width is None:
            self._open.rename_groups(renamed)
            return
        kept = kept[kept < width]
        self._open.widen(max(1, 2 * len(kept)))
        self.matrices = _widened(self.matrices, width, max(1, 2 * len(kept)), kept)

    def snapshot(self) -> dict[str, Any]:
        return {
            "open": self._open.snapshot(),
            "horizon": self._horizon,
            "states": {key.name: matrix_snapshot(matrix) for key, matrix in self.matrices.items()},
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """`arrange` must have been called already."""
        self._open = OpenSlices(snapshot["open"]["width"])
        self._open.restore(snapshot["open"])
        self._horizon = snapshot["horizon"]
        for key, matrix in self.matrices.items():
            restore_matrix(matrix, snapshot["states"][key.name])


def _unset(key: StateKey, slots: int) -> StateMatrix:
    """Uninitialised states."""
    result = StateMatrix(key.kind, 0)
    result.ints = np.empty((key.kind.int_fields, slots), np.int64)
    result.floats = np.empty((key.kind.float_fields, slots))
    return result


def _part(column: Encoded, begin: int, end: int) -> Encoded:
    return Encoded(column.values[begin:end], column.valid[begin:end])


def _lengthen(matrix: StateMatrix, slots: int) -> None:
    more = slots - matrix.slots
    if more > 0:
        ints, floats = identity(matrix.kind, more)
        matrix.ints = np.concatenate([matrix.ints, ints], axis=1)
        matrix.floats = np.concatenate([matrix.floats, floats], axis=1)


def _widened(matrices: States, old: int, width: int, kept: Ints | None = None) -> States:
    """The states of dense slices with `width` groups each instead of `old`: all groups so far, or those kept."""
    result = {}
    for key, matrix in matrices.items():
        rooms = matrix.slots // old
        wider = result[key] = StateMatrix(key.kind, rooms * width)
        for new, fields in ((wider.ints, matrix.ints), (wider.floats, matrix.floats)):
            states = fields.reshape(len(fields), rooms, old)
            states = states if kept is None else states[:, :, kept]
            new.reshape(len(fields), rooms, width)[:, :, : states.shape[2]] = states
    return result
