"""Reports that are asked for one at a time: reports of the past, and of windows that no member has.

The slices held answer them exactly or not at all. Nothing in the family changes.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panewise.errors import NotHeldError, QueryFailed
from panewise.operators.family.family_slices import FamilySlices
from panewise.operators.family.member import Member
from panewise.operators.family.members import Members
from panewise.operators.family.reporting import stamped
from panewise.operators.family.timeline import Timeline
from panewise.plan.aggregation import Aggregation
from panewise.slicing.pairs import Cadence
from panewise.temporal import format_instant


class PastReports:
    """`timed`: the axis is event time, not row numbers."""

    def __init__(self, members: Members, timeline: Timeline, slices: FamilySlices, timed: bool) -> None:
        self._members = members
        self._timeline = timeline
        self._slices = slices
        self._timed = timed

    def report_of(self, member: Member, report: int, query: str) -> pa.RecordBatch | None:
        """One report of a member; NotHeldError, which names the query, if the slices held do not answer it."""
        store = self._slices.store
        if not store.answers_past or member.cadence.range is None:
            raise NotHeldError(f"only the last report of '{query}' is held")
        if not self._timeline.is_whole(member.cadence, report, member.held_from, store):
            raise NotHeldError(
                f"the report of '{query}' at {format_instant(report) if self._timed else f'row {report:,}'} "
                "is not held",
                hint="rows of its window have gone, or came before the query; CREATE ARCHIVE keeps the past",
            )
        if not self._members.grouped and member.is_before_the_first(report):
            return None
        return self._answered(member, report)

    def last_report_of(self, aggregation: Aggregation, cadence: Cadence) -> pa.RecordBatch | None:
        """The last report of a window that no member has; None if the slices held do not answer it."""
        report = cadence.next_report(self._timeline.watermark) - cadence.slide
        if not self._slices.store.answers_past or cadence.range is None:
            return None
        if not self.is_answered(aggregation, cadence, report):
            return None
        shape = self._members.shapes.number(aggregation)
        member = Member(aggregation, cadence, report, timed=self._timed, shape=shape)
        found = self._answered(member, report)
        if found is not None:
            return found
        return stamped(member, np.empty(0, np.int64), [pa.nulls(0, field.type) for field in aggregation.item_schema])

    def is_answered(self, aggregation: Aggregation, cadence: Cadence, report: int) -> bool:
        """Whether the slices held answer a report of any window; the states that it needs must be kept."""
        since = self._timeline.held_since(aggregation.states)
        return self._timeline.is_whole(cadence, report, since, self._slices.store)

    def _answered(self, member: Member, report: int) -> pa.RecordBatch | None:
        found = self._slices.reporting.answered(member, report)
        reason = self._members.take_failure(member.name)
        if reason is not None:
            raise QueryFailed(reason)
        return found
