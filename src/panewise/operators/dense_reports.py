"""Reports of a tree with dense slices: due windows of all members answered in one call, then written out per member."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.errors import QueryFailed
from panewise.operators.aggregation import ROW_COUNT, StateKey
from panewise.operators.dense_slices import DenseSlices
from panewise.operators.due_reports import EmptyReports, due_reports
from panewise.operators.members import Member

if TYPE_CHECKING:
    from panewise.operators.periodic import PeriodicTree

Ints = NDArray[np.int64]
Piece: TypeAlias = pa.RecordBatch | EmptyReports

ANSWERS_AT_ONCE = 1 << 21  # groups times windows: bounds the memory of one call
GAP_MATERIALISED = 1024  # longer runs of empty reports stay ranges


def due_of(tree: PeriodicTree, member: Member) -> Ints:
    """The reports of non-empty, whole windows that the watermark has reached since the last time."""
    cadence = member.cadence
    due = due_reports(cadence, tree.store.starts, tree.store.ends, member.reported, tree.watermark)
    if cadence.range is None and (len(due) or member.endless):
        # What an endless window holds stays, also when its slices have gone: every report is due from the first one on.
        first = cadence.next_report(member.reported) if member.endless else int(due[0])
        member.endless = True
        return np.arange(first, tree.watermark + 1, cadence.slide, dtype=np.int64)
    if member.held_from is not None and member.cadence.range is not None and len(due):
        due = due[due - member.cadence.range - member.cadence.offset >= member.held_from]
    return due


def dense_reports(tree: PeriodicTree) -> dict[str, list[Piece]]:
    """All that has come due, answered together."""
    assert isinstance(tree.store, DenseSlices)
    requests: list[tuple[str, Ints]] = []
    pieces: dict[str, list[Piece]] = {}
    for name, member in tree.members.items():
        if name in tree.failures:
            continue
        due = due_of(tree, member)
        if not tree.keys:
            due, gaps = _with_gaps(tree, member, due)
            if gaps:
                pieces[name] = list(gaps)
        if len(due) and not member.suspended:
            requests.append((name, due))
    _finish(tree, requests, pieces)
    return pieces


def _finish(tree: PeriodicTree, requests: list[tuple[str, Ints]], pieces: dict[str, list[Piece]]) -> None:
    """Answers the requests in chunks of bounded size and moves every member's mark to the watermark."""
    limit = max(1, ANSWERS_AT_ONCE // max(1, len(tree.table)))
    longest = max((len(due) for _, due in requests), default=0)
    step = max(1, limit // max(1, len(requests)))
    for begin in range(0, longest, step):
        chunk = [(name, due[begin : begin + step]) for name, due in requests if begin < len(due)]
        for name, batch in answered(tree, chunk):
            pieces.setdefault(name, []).append(batch)
    for name, member in tree.members.items():
        member.reported = max(member.reported, tree.watermark)
        if name in pieces and len(pieces[name]) > 1:
            pieces[name].sort(key=_first_end)


def _with_gaps(tree: PeriodicTree, member: Member, due: Ints) -> tuple[Ints, list[EmptyReports]]:
    """The reports of an ungrouped query: those of empty windows between and after, long runs as ranges."""
    cadence, slide = member.cadence, member.cadence.slide
    if not member.begun:
        begins = member.first_report if member.first_report is not None else (int(due[0]) if len(due) else None)
        if begins is None or begins > tree.watermark:
            return due, []
        member.begun = True
        first = max(begins, cadence.next_report(member.reported))
    else:
        first = cadence.next_report(member.reported)
    last = tree.watermark - (tree.watermark - cadence.align) % slide
    if last < first:
        return due, []
    known = np.concatenate([[first - slide], due, [last + slide]])
    missing = (np.diff(known) // slide) - 1
    filled, gaps = [due], []
    for i in np.flatnonzero(missing > 0):
        begin, count = int(known[i]) + slide, int(missing[i])
        if count <= GAP_MATERIALISED:
            filled.append(begin + slide * np.arange(count, dtype=np.int64))
        else:
            gaps.append(EmptyReports(begin, count, slide))
    return np.sort(np.concatenate(filled)), [] if member.suspended else gaps


def answered(tree: PeriodicTree, requests: list[tuple[str, Ints]]) -> list[tuple[str, pa.RecordBatch]]:
    store = tree.store
    assert isinstance(store, DenseSlices)
    starts, ends, sizes = [], [], []
    for name, due in requests:
        cadence = tree.members[name].cadence
        last = due - cadence.offset
        ends.append(store.first + np.searchsorted(store.starts, last, side="left"))
        if cadence.range is None:
            starts.append(np.full(len(due), -1, np.int64))
        else:
            starts.append(store.first + np.searchsorted(store.starts, last - cadence.range, side="left"))
        sizes.append(len(due))
    all_starts, all_ends = np.concatenate(starts), np.concatenate(ends)
    keys = list(dict.fromkeys(k for name, _ in requests for k in tree.members[name].aggregation.states))
    if len(requests) == 1:
        places = np.arange(len(all_starts))
        answers = store.answers(keys, all_starts, all_ends, len(tree.table))
    else:
        # Equal windows are answered once; those that end together build on each other, shortest first.
        windows, places = np.unique(np.stack([all_ends, -all_starts], axis=1), axis=0, return_inverse=True)
        places = places.reshape(-1)
        starts_, ends_ = np.ascontiguousarray(-windows[:, 1]), np.ascontiguousarray(windows[:, 0])
        answers = store.answers(keys, starts_, ends_, len(tree.table))
    result: list[tuple[str, pa.RecordBatch]] = []
    begin = 0
    for (name, due), size in zip(requests, sizes, strict=True):
        chosen = places[begin : begin + size]
        begin += size
        result.extend((name, batch) for batch in _written_out(tree, name, due, chosen, answers, len(requests) == 1))
    return result


def _written_out(
    tree: PeriodicTree, name: str, due: Ints, chosen: Ints, answers: dict[StateKey, Any], whole: bool
) -> list[pa.RecordBatch]:
    """A member's reports; where one cannot be answered, those before it are out all the same and the member fails."""
    member = tree.members[name]
    try:
        batch = _member_batch(tree, member, due, chosen, answers, whole)
        return [batch] if batch is not None else []
    except QueryFailed:
        batches = []
        for i in range(len(due)):
            try:
                batch = _member_batch(tree, member, due[i : i + 1], chosen[i : i + 1], answers, False)
            except QueryFailed as problem:
                tree.failures[name] = problem.message
                break
            if batch is not None:
                batches.append(batch)
        return batches


def _member_batch(
    tree: PeriodicTree, member: Member, due: Ints, chosen: Ints, answers: dict[StateKey, Any], whole: bool
) -> pa.RecordBatch | None:
    """The rows of a member's reports, from the answers at the chosen places."""
    count = len(tree.table)
    rows = answers[ROW_COUNT][0][0]
    everything = not tree.keys or bool((rows if whole else rows[chosen]).all())
    flat = None if everything else np.flatnonzero((rows if whole else rows[chosen]).reshape(-1))
    if flat is not None and not len(flat):
        return None
    fields = {}
    for key in member.aggregation.states:
        ints, floats = answers[key]
        picked = [(part if whole else part[chosen]).reshape(-1) for part in (*ints, *floats)]
        fields[key] = picked if flat is None else [part[flat] for part in picked]
    if flat is not None:
        return result_of(tree, member, due[flat // count], keys_of(tree, flat % count), fields)
    return result_of(tree, member, np.repeat(due, count), _all_keys(tree, len(due)), fields)


def keys_of(tree: PeriodicTree, ids: Ints) -> list[pa.Array]:
    return tree.table.keys(ids) if tree.keys else []


def _all_keys(tree: PeriodicTree, times: int) -> list[pa.Array]:
    """The key columns of all groups, so many times; the same for report after report, so they are kept."""
    count = len(tree.table)
    kept = tree.repeated_keys
    if kept is None or kept[0] < times or kept[1] != (count, tree.table.version):
        ids = np.tile(np.arange(count, dtype=np.int64), times + 1)
        kept = tree.repeated_keys = times + 1, (count, tree.table.version), keys_of(tree, ids)
    return [column.slice(0, times * count) for column in kept[2]]


def result_of(
    tree: PeriodicTree, member: Member, ends: Ints, keys: list[pa.Array], fields: dict[StateKey, list[NDArray[Any]]]
) -> pa.RecordBatch | None:
    aggregation = member.aggregation
    answers = aggregation.answer_batch(keys, fields, tree.pools)
    passing = aggregation.passing(answers)
    if passing is not None and not passing.all():
        if not passing.any():
            return None
        kept = np.flatnonzero(passing)
        answers, ends = answers.take(pa.array(kept)), ends[kept]
    return stamped(member, ends, aggregation.selected(answers))


def stamped(member: Member, ends: Ints, columns: list[pa.Array]) -> pa.RecordBatch:
    cadence = member.cadence
    last = ends - cadence.offset
    starts = pa.array(last - cadence.range) if cadence.range is not None else pa.nulls(len(ends), pa.int64())
    return pa.RecordBatch.from_arrays([starts, pa.array(ends), *columns], schema=member.aggregation.report_schema)


def _first_end(piece: Piece) -> int:
    if isinstance(piece, EmptyReports):
        return piece.first
    first: int = piece.column(1)[0].as_py()
    return first
