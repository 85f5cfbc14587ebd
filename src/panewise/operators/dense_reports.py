"""Reports of a tree with dense slices: due windows of all members answered in one call, then written out per member."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.columns import integers, wrapped
from panewise.errors import QueryFailed
from panewise.operators.aggregation import ROW_COUNT, Aggregation, StateKey
from panewise.operators.dense_slices import DenseSlices
from panewise.operators.due_reports import EmptyReports, due_reports
from panewise.operators.members import Member

if TYPE_CHECKING:
    from panewise.operators.periodic import PeriodicTree

Ints = NDArray[np.int64]
Piece: TypeAlias = pa.RecordBatch | EmptyReports

Answers: TypeAlias = dict[StateKey, tuple[NDArray[Any], NDArray[Any]]]

TIME = pa.timestamp("us", tz="UTC")
FEW = 256  # reports of one member that are looked at one by one
INT64_MIN = -(2**63)
_NONE: Ints = np.empty(0, np.int64)
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
        due = _soon_due(tree, member) if tree.keys else due_of(tree, member)
        if not tree.keys:
            due, gaps = _with_gaps(tree, member, due)
            if gaps:
                pieces[name] = list(gaps)
        if len(due) and not member.suspended:
            requests.append((name, due))
    _finish(tree, requests, pieces)
    return pieces


def pass_over(tree: PeriodicTree) -> None:
    """The reports that are due are left out, and every member has come to the watermark."""
    for member in tree.members.values():
        if not tree.keys:
            _with_gaps(tree, member, due_of(tree, member))  # says whether its reports have begun
        member.reported = max(member.reported, tree.watermark)


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


def _soon_due(tree: PeriodicTree, member: Member) -> Ints:
    """The same as `due_of`, quickly, where few reports are due; windows without rows may be among them."""
    cadence = member.cadence
    if member.reported == INT64_MIN or cadence.range is None:
        return due_of(tree, member)
    first = cadence.next_report(member.reported)
    if first > tree.watermark:
        return _NONE
    count = (tree.watermark - first) // cadence.slide + 1
    whole = member.held_from is None or first - cadence.range - cadence.offset >= member.held_from
    if count > FEW or not whole:
        return due_of(tree, member)
    return first + cadence.slide * np.arange(count, dtype=np.int64)


def answered(
    tree: PeriodicTree, requests: list[tuple[str, Ints]], in_turn: bool = True
) -> list[tuple[str, pa.RecordBatch]]:
    """The requested reports of some members; equal windows are answered once, equal queries written out together.

    `in_turn`: they are the next ones of their members, not some of the past.
    """
    store = tree.store
    assert isinstance(store, DenseSlices)
    members = [tree.members[name] for name, _ in requests]
    sizes = [len(due) for _, due in requests]
    due = np.concatenate([due for _, due in requests])
    owners = np.repeat(np.arange(len(requests)), sizes)
    last = due - np.array([member.cadence.offset for member in members])[owners]
    ends = store.first + np.searchsorted(store.starts, last, side="left")
    reaches = np.array([member.cadence.range or 0 for member in members])[owners]
    starts = store.first + np.searchsorted(store.starts, last - reaches, side="left")
    starts[np.array([member.cadence.range is None for member in members])[owners]] = -1
    keys = list(dict.fromkeys(key for member in members for key in member.aggregation.asked))
    numbers = np.array([member.window if in_turn else 0 for member in members], np.int64)
    if len(requests) == 1:
        answers = store.answers(keys, starts, ends, len(tree.table), np.repeat(numbers, len(due)))
        name = requests[0][0]
        return [(name, batch) for batch in _written_out(tree, name, due, None, answers)]
    # Those that end together build on each other, shortest first.
    windows, firsts, places = np.unique(
        np.stack([ends, -starts], axis=1), axis=0, return_index=True, return_inverse=True
    )
    places = places.reshape(-1)
    answers = store.answers(
        keys,
        np.ascontiguousarray(-windows[:, 1]),
        np.ascontiguousarray(windows[:, 0]),
        len(tree.table),
        numbers[owners[firsts]],
        _asked_for(members, keys, owners, places, len(windows)),
    )
    alike: dict[tuple[int, bool], list[int]] = {}
    for i, member in enumerate(members):
        alike.setdefault((member.shape, member.cadence.range is None), []).append(i)
    result: list[tuple[str, pa.RecordBatch]] = []
    for chosen in alike.values():
        mine = np.isin(owners, chosen) if len(alike) > 1 else slice(None)
        names = [name for name, _ in requests]
        result.extend(_written_together(tree, names, due[mine], owners[mine], places[mine], answers))
    return result


def _asked_for(
    members: list[Member], keys: list[StateKey], owners: Ints, places: Ints, windows: int
) -> dict[StateKey, NDArray[np.bool_]]:
    """In which windows each question to a state without a fixed size is asked: it costs too much to ask it in all."""
    result = {}
    for key in keys:
        if key.held is not key:
            asking = np.array([key in member.aggregation.asked for member in members])
            result[key] = np.zeros(windows, np.bool_)
            result[key][places[asking[owners]]] = True
    return result


def _written_together(
    tree: PeriodicTree, names: list[str], due: Ints, owners: Ints, places: Ints, answers: Answers
) -> list[tuple[str, pa.RecordBatch]]:
    """The reports of members that select alike, whatever their windows: one batch, cut where the next member begins."""
    members = [tree.members[name] for name in names]
    aggregation = members[int(owners[0])].aggregation
    try:
        written = _written(tree, aggregation, due, places, answers)
    except QueryFailed:
        return [
            (names[owner], batch)
            for owner in np.unique(owners)
            for batch in _written_out(tree, names[owner], due[owners == owner], places[owners == owner], answers)
        ]
    if written is None:
        return []
    reports, columns = written
    owner, ends = owners[reports], due[reports]
    last = ends - np.array([member.cadence.offset for member in members])[owner]
    starts = None
    if members[int(owners[0])].cadence.range is not None:
        starts = last - np.array([member.cadence.range or 0 for member in members])[owner]
    batch = _stamped(members[0], aggregation, starts, ends, columns)
    cuts = [0, *(np.flatnonzero(np.diff(owner)) + 1).tolist(), len(owner)]
    return [(names[owner[a]], batch.slice(a, b - a)) for a, b in pairwise(cuts)]


def _written_out(
    tree: PeriodicTree, name: str, due: Ints, places: Ints | None, answers: Answers
) -> list[pa.RecordBatch]:
    """A member's reports; where one cannot be answered, those before it are out all the same and the member fails."""
    member = tree.members[name]
    try:
        batch = _member_batch(tree, member, due, places, answers)
        return [batch] if batch is not None else []
    except QueryFailed:
        batches = []
        places = np.arange(len(due)) if places is None else places
        for i in range(len(due)):
            try:
                batch = _member_batch(tree, member, due[i : i + 1], places[i : i + 1], answers)
            except QueryFailed as problem:
                tree.failures[name] = problem.message
                break
            if batch is not None:
                batches.append(batch)
        return batches


def _member_batch(
    tree: PeriodicTree, member: Member, due: Ints, places: Ints | None, answers: Answers
) -> pa.RecordBatch | None:
    written = _written(tree, member.aggregation, due, places, answers)
    if written is None:
        return None
    reports, columns = written
    return stamped(member, due[reports], columns)


def _written(
    tree: PeriodicTree, aggregation: Aggregation, due: Ints, places: Ints | None, answers: Answers
) -> tuple[Ints, list[pa.Array]] | None:
    """The items of reports, from the answers at their places (None: all, in order), and which report each row is of."""
    count = len(tree.table)
    rows = answers[ROW_COUNT][0][0]
    rows = rows if places is None else rows[places]
    flat = None if not tree.keys or bool(rows.all()) else np.flatnonzero(rows.reshape(-1))
    if flat is not None and not len(flat):
        return None
    fields = {}
    for key in aggregation.asked:
        ints, floats = answers[key]
        picked = [(part if places is None else part[places]).reshape(-1) for part in (*ints, *floats)]
        fields[key] = picked if flat is None else [part[flat] for part in picked]
    if flat is None:
        reports, keys = np.repeat(np.arange(len(due)), count), _all_keys(tree, len(due))
    else:
        reports, keys = flat // count, keys_of(tree, flat % count)
    batch, kept = passing_of(tree, aggregation, keys, fields)
    if kept is not None:
        reports = reports[kept]
    return (reports, aggregation.selected(batch)) if batch.num_rows else None


def passing_of(
    tree: PeriodicTree, aggregation: Aggregation, keys: list[pa.Array], fields: dict[StateKey, list[NDArray[Any]]]
) -> tuple[pa.RecordBatch, Ints | None]:
    """The answers that HAVING keeps, and which they are (None: all)."""
    answers = aggregation.answer_batch(keys, fields, tree.pools)
    passing = aggregation.passing(answers)
    if passing is None or passing.all():
        return answers, None
    kept = np.flatnonzero(passing)
    return answers.take(wrapped(kept)), kept


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


def stamped(member: Member, ends: Ints, columns: list[pa.Array]) -> pa.RecordBatch:
    """Reports of one member."""
    cadence = member.cadence
    starts = None if cadence.range is None else ends - (cadence.offset + cadence.range)
    return _stamped(member, member.aggregation, starts, ends, columns)


def _stamped(
    member: Member, aggregation: Aggregation, starts: Ints | None, ends: Ints, columns: list[pa.Array]
) -> pa.RecordBatch:
    axis = TIME if member.timed else pa.int64()
    first = pa.nulls(len(ends), axis) if starts is None else wrapped(starts).view(axis)
    schema = aggregation.timed_schema if member.timed else aggregation.report_schema
    return pa.RecordBatch.from_arrays([first, wrapped(ends).view(axis), *columns], schema=schema)


def _first_end(piece: Piece) -> int:
    if isinstance(piece, EmptyReports):
        return piece.first
    return int(integers(piece.column(1).slice(0, 1))[0])
