"""The windows of all groups of a continuous aggregate: the rows in them, and their states at every change.

There are three ways to keep them, depending on the window and the grouping:

| rows leave     | for                                               | held per row      | cost of an event     |
| -------------- | ------------------------------------------------- | ----------------- | -------------------- |
| never          | [UNBOUNDED]                                       | nothing once born | O(1)                 |
| first in first | time windows; ROWS unless partitioned otherwise   | its state         | O(1) amortised       |
| in any order   | PARTITION BY columns that are not grouping keys   | its state         | O(rows of the group) |

Counts and sums of integers cost O(1) in any order. Earlier answers are not kept: the previous answer of a group is
folded again from the rows that it held then, in the same order, so it is equal to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panewise.aggregates.matrix import StateMatrix
from panewise.aggregates.states import Operation
from panewise.arrays import Ints
from panewise.language.expressions import ColumnRef
from panewise.operators.alive_rows import AliveRows
from panewise.operators.arguments import ranks_of
from panewise.operators.continuous.row_states import (
    MatrixMaker,
    RowStates,
    chosen_states,
    guarded,
    matrix_snapshot,
    restore_matrix,
)
from panewise.operators.continuous.window_folds import change_events, fold_growing, fold_scattered
from panewise.operators.lifetimes import Assigned
from panewise.operators.partition_tail import grouped_order
from panewise.operators.row_batch import Rows
from panewise.plan.aggregation import ROW_COUNT, Aggregation, StateKey
from panewise.temporal import RowsWindow, TimeWindow, Window

Mask = NDArray[np.bool_]
States = dict[StateKey, StateMatrix]


class Leaving(Enum):
    """The order in which rows leave a group's window."""

    NEVER = "never"
    FIRST_IN_FIRST = "first in first"
    ANY_ORDER = "any order"


def leaving_of(window: Window, aggregation: Aggregation) -> Leaving:
    if isinstance(window, TimeWindow):
        return Leaving.NEVER if window.range_us is None else Leaving.FIRST_IN_FIRST
    keys = {key.name.lower() for key in aggregation.keys if isinstance(key, ColumnRef)}
    within = isinstance(window, RowsWindow) and keys.issuperset(name.lower() for name in window.partition_by)
    return Leaving.FIRST_IN_FIRST if within else Leaving.ANY_ORDER


@dataclass(frozen=True)
class Events:
    """States of groups at instants, by group and then by time. The first event of a group is its state before."""

    groups: Ints
    times: Ints
    opens: Mask  # where an event is the first of its group
    states: States

    def before(self, instant: int) -> Events:
        """The first event of each group, and the events before an instant."""
        chosen = np.flatnonzero(self.opens | (self.times < instant))
        states = chosen_states(self.states, chosen)
        return Events(self.groups[chosen], self.times[chosen], self.opens[chosen], states)

    @property
    def counts(self) -> Ints:
        result: Ints = self.states[ROW_COUNT].ints[0]
        return result


@dataclass(frozen=True)
class _Segments:
    """The rows of some groups: `order[starts[s]:starts[s + 1]]` belong to `groups[s]`, in stream order."""

    groups: Ints
    order: Ints
    starts: Ints

    @property
    def of_row(self) -> Ints:
        return np.repeat(np.arange(len(self.groups)), np.diff(self.starts))


class GroupWindows:
    """`take` inserts rows, `events` and `at` return states, and `forget` drops rows that have died."""

    def __init__(self, aggregation: Aggregation, leaving: Leaving, matrix_of: MatrixMaker = StateMatrix) -> None:
        self._leaving = leaving
        self._grouped = bool(aggregation.keys)
        self.rows = RowStates(aggregation, matrix_of)
        self.alive = AliveRows()
        self._in_front: Mask = np.empty(0, np.bool_)  # rows before the middle of their segment; see window_folds.py
        self._base: States = {}
        if leaving is Leaving.NEVER:
            self._base = {key: matrix_of(key.kind, 1) for key in aggregation.states}

    @property
    def bytes_held(self) -> int:
        base = sum(matrix.bytes_held for matrix in self._base.values())
        return self.rows.bytes_held + self.alive.bytes_held + self._in_front.nbytes + base

    @property
    def grows(self) -> bool:
        """Whether rows never leave; `events` must then be called in every step, to fold them into the groups."""
        return self._leaving is Leaving.NEVER

    def take(self, rows: Rows, assigned: Assigned, passing: Mask | None) -> None:
        """Takes new rows with their lifetimes; only those that pass WHERE are held."""
        self.alive.take(assigned, passing)
        self.rows.append(rows if passing is None else rows.take(passing))
        self._in_front = np.concatenate([self._in_front, np.zeros(len(self.rows) - len(self._in_front), np.bool_)])
        if self._base:
            self._widen_base()

    def _widen_base(self) -> None:
        needed, room = len(self.rows.table), self._base[ROW_COUNT].slots
        if needed <= room:
            return
        for key, old in self._base.items():
            wider = self.rows.matrix_of(key.kind, max(needed, 2 * room))
            wider.ints[:, :room], wider.floats[:, :room] = old.ints, old.floats
            self._base[key] = wider

    def events(self, since: int, until: int, forced: int) -> Events:
        """The state of each group at since - 1, and at every change in [since, until) and at the instant `forced`."""
        alive = self.alive
        shows = (alive.births < alive.deaths) & (alive.births < until)
        changes = shows & ((alive.births >= since) | ((alive.deaths >= since) & (alive.deaths < until)))
        touched = self._touched(changes)
        segments = self._segments(touched, shows)
        births, deaths = alive.births[segments.order], alive.deaths[segments.order]
        if self._leaving is Leaving.ANY_ORDER:
            return self._scattered_events(segments, births, deaths, since, until, forced)
        room = 2 * len(segments.groups) + int(np.count_nonzero(births >= since))
        room += int(np.count_nonzero((deaths >= since) & (deaths < until)))
        segment, times, first, last = (np.empty(room, np.int64) for _ in range(4))
        count = change_events(births, deaths, segments.starts, since, until, forced, segment, times, first, last)
        segment, times, first, last = segment[:count], times[:count], first[:count], last[:count]
        if self._leaving is Leaving.NEVER:
            states, base = self._grown(segments, segment, last)
            for key, matrix in self._base.items():
                matrix.ints[:, segments.groups] = base[key].ints
                matrix.floats[:, segments.groups] = base[key].floats
        else:
            states, middles = self.rows.fold_fifo(segments.order, segment, first, last, self._middles(segments))
            self._in_front[segments.order] = np.arange(len(segments.order)) < middles[segments.of_row]
        return Events(segments.groups[segment], times, _opens(segment), states)

    def at(self, instant: int) -> Events:
        """The states of all groups with rows at an instant, one event each; changes nothing."""
        alive = self.alive
        shows = (alive.births <= instant) & (instant < alive.deaths)
        touched = self._touched(shows)
        if self._base:
            touched |= self._base[ROW_COUNT].ints[0, : len(touched)] > 0
        segments = self._segments(touched, shows)
        segment = np.arange(len(segments.groups))
        if self._leaving is Leaving.NEVER:
            states, _ = self._grown(segments, segment, segments.starts[1:])
        elif self._leaving is Leaving.ANY_ORDER:
            births = alive.births[segments.order]
            deaths = np.full(len(births), instant + 1)
            return self._scattered_events(segments, births, deaths, instant + 1, instant + 1, instant)
        else:
            bounds = segments.starts
            states, _ = self.rows.fold_fifo(segments.order, segment, bounds[:-1], bounds[1:], self._middles(segments))
        times = np.full(len(segment), instant)
        return Events(segments.groups, times, np.ones(len(segment), np.bool_), states)

    def forget(self, watermark: int) -> None:
        """Drops the rows that died before the watermark; if rows never leave, those that were born before it."""
        alive = self.alive
        kept = alive.absorb(watermark) if self._leaving is Leaving.NEVER else alive.forget(watermark)
        if kept is None:
            return
        self.rows.keep(kept)
        self._in_front = self._in_front[kept]
        self.rows.forget_strings([self._base] if self._base else [])
        if not self._base:
            self.rows.forget_groups()

    def _touched(self, rows: Mask) -> Mask:
        """The mask of the groups of these rows; without GROUP BY always the one group."""
        touched = np.zeros(max(1, len(self.rows.table)), np.bool_)
        touched[self.rows.groups[rows]] = True
        if not self._grouped:
            touched[0] = True
        return touched

    def _segments(self, touched: Mask, shows: Mask) -> _Segments:
        chosen = np.flatnonzero(shows & touched[self.rows.groups])
        order = chosen[grouped_order(self.rows.groups[chosen])]
        groups = np.flatnonzero(touched)
        starts = np.searchsorted(self.rows.groups[order], groups)
        return _Segments(groups, order, np.append(starts, len(order)))

    def _middles(self, segments: _Segments) -> Ints:
        fronts = np.concatenate([[0], np.cumsum(self._in_front[segments.order])])
        middles: Ints = segments.starts[:-1] + fronts[segments.starts[1:]] - fronts[segments.starts[:-1]]
        return middles

    def _grown(self, segments: _Segments, segment: Ints, last: Ints) -> tuple[States, States]:
        """The states of the events, and the new base of each segment."""
        states, bases = {}, {}
        for key, matrix in self.rows.matrices.items():
            ints, floats = (np.take(fields, segments.order, axis=1) for fields in (matrix.ints, matrix.floats))
            base, out = self.rows.matrix_of(key.kind, 0), self.rows.matrix_of(key.kind, len(segment))
            base.ints = np.take(self._base[key].ints, segments.groups, axis=1)
            base.floats = np.take(self._base[key].floats, segments.groups, axis=1)
            with guarded(key.kind):
                self.rows.kernel(fold_growing, matrix)(
                    int(key.kind.operation), ints, floats, segment, last, segments.starts,
                    ranks_of(key, self.rows.pools), base.ints, base.floats, out.ints, out.floats,
                )  # fmt: skip
            states[key], bases[key] = out, base
        return states, bases

    def _scattered_events(
        self, segments: _Segments, births: Ints, deaths: Ints, since: int, until: int, forced: int
    ) -> Events:
        """The events if rows leave in any order: births, deaths, and since - 1 and `forced` of each segment."""
        dying = np.flatnonzero(deaths < until)
        every = np.arange(len(segments.groups))
        marks = [since - 1, forced] if since <= forced < until else [since - 1]
        where = np.concatenate([segments.of_row, segments.of_row[dying], *(every for _ in marks)])
        when = np.concatenate([births, deaths[dying], *(np.full(len(every), mark) for mark in marks)])
        rows = np.concatenate([np.arange(len(births)), dying, *(np.zeros_like(every) for _ in marks)])
        comes = np.zeros(len(rows), np.int64)
        comes[: len(births)] = 1
        comes[len(births) : len(births) + len(dying)] = -1
        order = np.lexsort((rows, when, where))
        where, when, rows, comes = where[order], np.maximum(when[order], since - 1), rows[order], comes[order]
        opens = _opens(where)
        opens[1:] |= when[1:] != when[:-1]
        starts = np.flatnonzero(opens)
        segment = where[starts]
        event = np.cumsum(opens) - 1
        states = self._scattered(segments.order, rows, comes, event, starts, _opens(segment))
        return Events(segments.groups[segment], when[starts], _opens(segment), states)

    def _scattered(self, order: Ints, rows: Ints, comes: Ints, event: Ints, starts: Ints, opens: Mask) -> States:
        states = {}
        for key, matrix in self.rows.matrices.items():
            ints, floats = (np.take(fields, order, axis=1) for fields in (matrix.ints, matrix.floats))
            out = self.rows.matrix_of(key.kind, len(starts))
            if key.kind.operation is Operation.ADD and len(order):
                # Subtracting integers is exact, even if sums wrap around.
                sums = np.cumsum(np.add.reduceat(np.take(ints, rows, axis=1) * comes, starts, axis=1), axis=1)
                opening = np.flatnonzero(opens)
                before = np.where(opening > 0, sums[:, opening - 1], 0)
                out.ints = np.ascontiguousarray(sums - np.take(before, np.cumsum(opens) - 1, axis=1))
            else:
                following, preceding = np.empty(len(order) + 1, np.int64), np.empty(len(order) + 1, np.int64)
                with guarded(key.kind):
                    self.rows.kernel(fold_scattered, matrix)(
                        int(key.kind.operation), ints, floats, rows, comes, event, opens.astype(np.int64), following,
                        preceding, ranks_of(key, self.rows.pools), out.ints, out.floats,
                    )  # fmt: skip
            states[key] = out
        return states

    def snapshot(self) -> dict[str, Any]:
        return {
            "alive": self.alive.snapshot(),
            "rows": self.rows.snapshot(),
            "in_front": self._in_front.astype(np.uint8),
            "base": [matrix_snapshot(matrix) for matrix in self._base.values()],
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.alive.restore(snapshot["alive"])
        self.rows.restore(snapshot["rows"])
        self._in_front = snapshot["in_front"].astype(np.bool_)
        for matrix, states in zip(self._base.values(), snapshot["base"], strict=True):
            restore_matrix(matrix, states)


def _opens(segment: Ints) -> Mask:
    """The mask of the events that are the first of their segment."""
    result = np.ones(len(segment), np.bool_)
    result[1:] = segment[1:] != segment[:-1]
    return result
