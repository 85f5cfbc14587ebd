"""Single reports of a tree, asked for out of turn: one of a member's past, or of a window that is no member's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from panewise.errors import NotHeldError, QueryFailed
from panewise.operators.aggregation import Aggregation
from panewise.operators.dense_reports import stamped
from panewise.operators.members import Member, is_whole
from panewise.slicing.pairs import Cadence
from panewise.temporal import format_instant

if TYPE_CHECKING:
    from panewise.operators.periodic import PeriodicTree


def past_report(tree: PeriodicTree, member: Member, report: int, query: str) -> pa.RecordBatch | None:
    """A report of the past, where the slices held still answer it; `query` is the one that asks, for messages."""
    if not tree.store.answers_past or member.cadence.range is None:
        raise NotHeldError(f"only the last report of '{query}' is held")
    if not is_whole(tree, member.cadence, report, member.held_from):
        raise NotHeldError(
            f"the report of '{query}' at {format_instant(report) if tree.timed else f'row {report:,}'} is not held",
            hint="rows of its window are not kept any more, or came before the query; CREATE ARCHIVE keeps the past",
        )
    if not tree.keys and _is_before_the_first(member, report):
        return None
    return _answered(tree, member, report)


def _is_before_the_first(member: Member, report: int) -> bool:
    """Whether an ungrouped query had not begun; one that came in mid-stream may have begun with what others held."""
    if member.first_report is None:
        return not member.begun
    return member.held_from is None and report < member.first_report


def last_report_of(tree: PeriodicTree, aggregation: Aggregation, cadence: Cadence) -> pa.RecordBatch | None:
    """The last report of a window that is no member's, where the slices held answer it exactly; else None."""
    report = cadence.next_report(tree.watermark) - cadence.slide
    if not tree.store.answers_past or cadence.range is None:
        return None
    since = [point for key in aggregation.states if (point := tree.state_held_from[key]) is not None]
    if not is_whole(tree, cadence, report, max(since, default=tree.held_from)):
        return None
    member = Member(aggregation, cadence, report, timed=tree.timed)
    member.shape = tree.shapes.number(aggregation)
    found = _answered(tree, member, report)
    if found is not None:
        return found
    return stamped(member, np.empty(0, np.int64), [pa.nulls(0, field.type) for field in aggregation.item_schema])


def _answered(tree: PeriodicTree, member: Member, report: int) -> pa.RecordBatch | None:
    found = tree.store.answered(tree, member, report)
    if member.name in tree.failures:
        raise QueryFailed(tree.failures.pop(member.name))
    return found
