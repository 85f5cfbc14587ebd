"""Reports of sparse slices, one instant after the other: HAVING is evaluated only for groups that have changed."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.overflows import Overflows
from panewise.arrays import INT64_MIN, Ints
from panewise.errors import QueryFailed
from panewise.operators.family.groups import Groups
from panewise.operators.family.member import Member
from panewise.operators.family.members import Members
from panewise.operators.family.reporting import Reporting, stamped
from panewise.operators.family.timeline import HeldSlices, Timeline
from panewise.operators.reports import Reports
from panewise.plan.aggregation import ROW_COUNT, StateKey

Span = tuple[int | None, int]  # range, offset


class SlidSlices(HeldSlices, Protocol):
    """A store with a cursor over its slices for each range and offset."""

    groups: int

    def move(self, span: Span, start: int | None, end: int) -> list[Ints]: ...
    def states_of(self, span: Span, keys: list[StateKey], groups: Ints) -> dict[StateKey, list[NDArray[Any]]]: ...


class SparseReporting(Reporting):
    def __init__(self, store: SlidSlices, members: Members, timeline: Timeline, groups: Groups) -> None:
        super().__init__(members, timeline, groups)
        self._store = store

    def due(self, fresh: Member | None) -> Reports:
        """All due reports, in order of time."""
        members = self.members
        due = [(int(e), member.name) for member in members for e in self.due_of(member, self._store)]
        reports = Reports(members.names)
        marks: dict[Span, int] = {}
        for report, name in sorted(due):
            if name in members.failures:
                continue
            member = members.by_name[name]
            span = member.cadence.range, member.cadence.offset
            marks[span] = report
            self._move(span, report)
            try:
                with Overflows() as found:
                    batch = self._batch(member, report)
                members.note_overflows(name, found.count)
            except QueryFailed as problem:
                members.fail(name, problem.message)
                continue
            if batch is not None:
                reports.apart.setdefault(name, []).append(batch)
        self._pass_by(marks)
        return reports

    def skip_due(self) -> None:
        self._pass_by({})

    def answered(self, member: Member, report: int) -> pa.RecordBatch | None:
        raise AssertionError("sparse slices do not answer reports of the past")

    def _pass_by(self, marks: dict[Span, int]) -> None:
        """Moves all members to the watermark; `marks`: the last report to which each cursor was moved."""
        watermark = self.timeline.watermark
        for member in self.members:
            member.report_until(watermark)
            # Empty windows report nothing, but the cursor must still move: slices that have left the window leave it.
            cadence = member.cadence
            last = cadence.last_report(watermark)
            if last > marks.get((cadence.range, cadence.offset), INT64_MIN):
                marks[cadence.range, cadence.offset] = last
                self._move((cadence.range, cadence.offset), last)

    def _move(self, span: Span, report: int) -> None:
        end = report - span[1]
        touched = self._store.move(span, None if span[0] is None else end - span[0], end)
        for member in self.members:
            if (member.cadence.range, member.cadence.offset) == span:
                member.touch(touched)

    def _batch(self, member: Member, report: int) -> pa.RecordBatch | None:
        """Evaluates HAVING for the touched groups, then reports all groups that pass."""
        store = self._store
        span = member.cadence.range, member.cadence.offset
        keys = list(member.aggregation.asked)
        groups = member.take_touched()
        if groups is not None:
            member.judge(groups, self._judge(member, span, keys, groups), store.groups)
        ids = np.flatnonzero(member.passing)
        if not len(ids):
            return None
        fields = store.states_of(span, keys, ids)
        answers = member.aggregation.answer_batch(self.groups.table.keys(ids), fields, self.groups.pools)
        ends = np.full(len(ids), report, np.int64)
        return stamped(member, ends, member.aggregation.selected(answers))

    def _judge(self, member: Member, span: Span, keys: list[StateKey], groups: Ints) -> NDArray[np.bool_]:
        having = member.aggregation.having is not None
        fields = self._store.states_of(span, keys if having else [ROW_COUNT], groups)
        present: NDArray[np.bool_] = fields[ROW_COUNT][0] > 0
        if not having or not present.any():
            return present
        there = np.flatnonzero(present)
        some = {key: [part[there] for part in parts] for key, parts in fields.items()}
        columns = self.groups.table.keys(groups[there], member.aggregation.having_keys)
        answers = member.aggregation.answer_batch(columns, some, self.groups.pools)
        passing = member.aggregation.passing(answers)
        assert passing is not None
        present[there] = passing
        return present
