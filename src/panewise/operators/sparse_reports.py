"""Reports of a tree with sparse slices, one instant after the other: only groups that changed are judged anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.overflows import Overflows
from panewise.errors import QueryFailed
from panewise.operators.aggregation import ROW_COUNT, StateKey
from panewise.operators.dense_reports import due_of, stamped
from panewise.operators.members import Member
from panewise.operators.reports import Reports
from panewise.operators.slice_store import SlidSlices, Span

if TYPE_CHECKING:
    from panewise.operators.periodic import PeriodicTree

Ints = NDArray[np.int64]
INT64_MIN = -(2**63)


def sparse_reports(store: SlidSlices, tree: PeriodicTree) -> Reports:
    """All that has come due, in order of time."""
    due = [(int(e), name) for name, member in tree.members.items() for e in due_of(tree, member)]
    reports = Reports(tree.names)
    marks: dict[Span, int] = {}
    for report, name in sorted(due):
        if name in tree.failures:
            continue
        member = tree.members[name]
        cadence = member.cadence
        span = cadence.range, cadence.offset
        marks[span] = report
        _move(store, tree, span, report)
        try:
            with Overflows() as found:
                batch = _sparse_batch(store, tree, member, report)
            tree.note_overflows(name, found.count)
        except QueryFailed as problem:
            tree.failures[name] = problem.message
            continue
        if batch is not None and not member.suspended:
            reports.apart.setdefault(name, []).append(batch)
    pass_by(store, tree, marks)
    return reports


def pass_by(store: SlidSlices, tree: PeriodicTree, marks: dict[Span, int]) -> None:
    """Every member has come to the watermark; `marks`: the last report that each cursor was moved to."""
    for member in tree.members.values():
        member.reported = max(member.reported, tree.watermark)
        # Windows without rows report nothing, but what has left must leave the cursor too.
        cadence = member.cadence
        last = tree.watermark - (tree.watermark - cadence.align) % cadence.slide
        if last > marks.get((cadence.range, cadence.offset), INT64_MIN):
            marks[cadence.range, cadence.offset] = last
            _move(store, tree, (cadence.range, cadence.offset), last)


def _move(store: SlidSlices, tree: PeriodicTree, span: Span, report: int) -> None:
    end = report - span[1]
    touched = store.move(span, None if span[0] is None else end - span[0], end)
    for member in tree.members.values():
        if (member.cadence.range, member.cadence.offset) == span:
            member.touched.extend(touched)


def _sparse_batch(store: SlidSlices, tree: PeriodicTree, member: Member, report: int) -> pa.RecordBatch | None:
    """Judges the touched groups anew, then reports all groups that pass."""
    span = member.cadence.range, member.cadence.offset
    keys = list(member.aggregation.asked)
    if len(member.passing) < store.groups:
        member.passing = np.append(member.passing, np.zeros(store.groups - len(member.passing), np.bool_))
    if member.touched:
        groups = np.concatenate(member.touched)  # some of them twice, which does no harm
        member.touched = []
        member.passing[groups] = _judge(store, tree, member, span, keys, groups)
    ids = np.flatnonzero(member.passing)
    if not len(ids):
        return None
    fields = store.states_of(span, keys, ids)
    answers = member.aggregation.answer_batch(tree.table.keys(ids), fields, tree.pools)
    ends = np.full(len(ids), report, np.int64)
    return stamped(member, ends, member.aggregation.selected(answers))


def _judge(
    store: SlidSlices, tree: PeriodicTree, member: Member, span: Span, keys: list[StateKey], groups: Ints
) -> NDArray[np.bool_]:
    having = member.aggregation.having is not None
    fields = store.states_of(span, keys if having else [ROW_COUNT], groups)
    present: NDArray[np.bool_] = fields[ROW_COUNT][0] > 0
    if not having or not present.any():
        return present
    there = np.flatnonzero(present)
    some = {key: [part[there] for part in parts] for key, parts in fields.items()}
    keys = tree.table.keys(groups[there], member.aggregation.having_keys)
    answers = member.aggregation.answer_batch(keys, some, tree.pools)
    passing = member.aggregation.passing(answers)
    assert passing is not None
    present[there] = passing
    return present
