"""The contract of reporting: writes the due reports of a family's members from its slices.

Each kind of store has its own: `dense_reporting.py` answers the windows of all members in one call,
`sparse_reporting.py` goes from instant to instant and judges only groups that have changed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.columns import wrapped
from panewise.arrays import Ints
from panewise.operators.arguments import empty_fields
from panewise.operators.due_reports import due_reports
from panewise.operators.family.first_reports import whole_ones
from panewise.operators.family.groups import Groups
from panewise.operators.family.member import Member
from panewise.operators.family.members import Members
from panewise.operators.family.timeline import HeldSlices, Timeline
from panewise.operators.reports import Reports
from panewise.plan.aggregation import Aggregation, StateKey

TIME = pa.timestamp("us", tz="UTC")


class Reporting(ABC):
    """Writes the reports of members and moves their marks. Changes nothing else in the family."""

    def __init__(self, members: Members, timeline: Timeline, groups: Groups) -> None:
        self.members = members
        self.timeline = timeline
        self.groups = groups

    @abstractmethod
    def due(self, fresh: Member | None) -> Reports:
        """The reports that the watermark has reached and that are not out yet; `fresh`: only those of this member."""

    @abstractmethod
    def skip_due(self) -> None:
        """Skips the due reports: for all members, reports up to the watermark count as out."""

    @abstractmethod
    def answered(self, member: Member, report: int) -> pa.RecordBatch | None:
        """One report of a window, now or of the past. Only if the store `answers_past`."""

    def empty(self, member: Member, ends: Ints) -> pa.RecordBatch | None:
        """The reports of an ungrouped query over empty windows that end at these points; None if HAVING drops them."""
        fields = {key: empty_fields(key, len(ends)) for key in member.aggregation.asked}
        answers, kept = self.passing(member.aggregation, [], fields)
        if not answers.num_rows:
            return None
        return stamped(member, ends if kept is None else ends[kept], member.aggregation.selected(answers))

    def passing(
        self, aggregation: Aggregation, keys: list[pa.Array], fields: dict[StateKey, list[NDArray[Any]]]
    ) -> tuple[pa.RecordBatch, Ints | None]:
        """The answers that HAVING keeps, and their positions (None: all)."""
        answers = aggregation.answer_batch(keys, fields, self.groups.pools)
        passing = aggregation.passing(answers)
        if passing is None or passing.all():
            return answers, None
        kept = np.flatnonzero(passing)
        return answers.take(wrapped(kept)), kept

    def due_of(self, member: Member, slices: HeldSlices) -> Ints:
        """The reports of non-empty, whole windows that the watermark has reached and that are not out yet."""
        cadence, watermark = member.cadence, self.timeline.watermark
        due = due_reports(cadence, slices.starts, slices.ends, member.reported, watermark)
        if cadence.range is None and (len(due) or member.endless):
            # Rows never leave a window without a beginning, so all reports are due from its first one on.
            first = cadence.next_report(member.reported) if member.endless else int(due[0])
            member.hold_for_ever()
            return np.arange(first, watermark + 1, cadence.slide, dtype=np.int64)
        return whole_ones(cadence, due, member.held_from)


def stamped(member: Member, ends: Ints, columns: list[pa.Array]) -> pa.RecordBatch:
    """A batch with the reports of one member."""
    cadence = member.cadence
    starts = None if cadence.range is None else ends - (cadence.offset + cadence.range)
    return stamped_from(member, starts, ends, columns)


def stamped_from(member: Member, starts: Ints | None, ends: Ints, columns: list[pa.Array]) -> pa.RecordBatch:
    """A batch with reports of members with the same shape as this one, over windows of any range."""
    aggregation = member.aggregation
    axis = TIME if member.timed else pa.int64()
    first = pa.nulls(len(ends), axis) if starts is None else wrapped(starts).view(axis)
    schema = aggregation.timed_schema if member.timed else aggregation.report_schema
    return pa.RecordBatch.from_arrays([first, wrapped(ends).view(axis), *columns], schema=schema)
