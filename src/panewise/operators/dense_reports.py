"""Reports of a tree with dense slices: due windows of all members answered in one call, written out together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.columns import wrapped
from panewise.aggregates.overflows import Overflows
from panewise.errors import QueryFailed
from panewise.operators.aggregation import ROW_COUNT, Aggregation, StateKey
from panewise.operators.due_reports import EmptyReports, due_reports
from panewise.operators.members import Member
from panewise.operators.reports import Reports, Together
from panewise.operators.slice_store import Answers, Slices, Sought, WovenSlices
from panewise.operators.window_order import distinct_windows, slice_places

if TYPE_CHECKING:
    from panewise.operators.periodic import PeriodicTree

Ints = NDArray[np.int64]

TIME = pa.timestamp("us", tz="UTC")
FEW = 256  # reports of one member of a grouped tree that are all asked for, also those without rows
MANY = 8192  # the same without groups, where reports without rows are reports too
INT64_MIN = -(2**63)
_NONE: Ints = np.empty(0, np.int64)
ANSWERS_AT_ONCE = 1 << 21  # groups times windows: bounds the memory of one call
GAP_MATERIALISED = 1024  # longer runs of empty reports stay ranges


@dataclass
class Asked:
    """Reports that are asked for: `due[i]` of member `owners[i]`, those of a member in a row; the rest by member."""

    members: list[Member]
    owners: Ints
    due: Ints
    offset: Ints
    range: Ints
    number: Ints
    shape: Ints
    tree: Ints

    @classmethod
    def of(cls, requests: list[tuple[Member, Ints]]) -> Asked:
        members = [member for member, _ in requests]
        owners = np.repeat(np.arange(len(requests)), [len(due) for _, due in requests])
        columns = np.array(
            [(m.cadence.offset, m.cadence.range or 0, m.window, m.shape, m.tree) for m in members], np.int64
        )
        return cls(members, owners, np.concatenate([due for _, due in requests]), *columns.T)

    def only(self, chosen: NDArray[np.bool_]) -> Asked:
        """What is asked for by some of the members."""
        if chosen.all():
            return self
        rows = np.flatnonzero(chosen)
        mine = chosen[self.owners]
        owners = (np.cumsum(chosen) - 1)[self.owners[mine]]
        columns = (column[rows] for column in (self.offset, self.range, self.number, self.shape, self.tree))
        return Asked([self.members[row] for row in rows], owners, self.due[mine], *columns)


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


def dense_reports(store: WovenSlices, tree: PeriodicTree, fresh: Member | None = None) -> Reports:
    """All that has come due, answered together; `fresh`: all others have said theirs already."""
    schedule, reports = tree.schedule, Reports(tree.names)
    closer = [] if fresh is None else [fresh]
    if fresh is None:
        tree.begin_reports()
        asked, closer = _easily_due(tree)
        if asked is not None:
            _write(store, tree, asked, reports)
    requests: list[tuple[Member, Ints]] = []
    for member in closer:
        if member.name in tree.failures:
            continue
        due = _soon_due(tree, member) if tree.keys else due_of(tree, member)
        if not tree.keys:
            due, gaps = _with_gaps(tree, member, due)
            if gaps:
                reports.apart[member.name] = list(gaps)
        if len(due) and not member.suspended:
            requests.append((member, due))
    _write_in_parts(store, tree, requests, reports)
    schedule.come_to(tree.watermark)
    for member in closer:
        schedule.set_easy(member.row, member.is_easy(bool(tree.keys)))
    return reports


def _easily_due(tree: PeriodicTree) -> tuple[Asked | None, list[Member]]:
    """What is due of easy members, and the members that need a closer look, or have too much due for one call."""
    schedule = tree.schedule
    easy = schedule.easy
    if tree.failures:
        easy = easy & np.array([member.name not in tree.failures for member in schedule.members])
    slide = schedule.column("slide")
    first = schedule.next_reports(np.where(easy, schedule.column("reported"), 0))
    counts = np.where(easy, np.maximum((tree.watermark - first) // slide + 1, 0), 0)
    if not tree.keys:
        _leave_out_empty(tree, first, counts)
    odd = ~easy | (counts > (FEW if tree.keys else MANY))
    counts[odd] = 0
    total = int(counts.sum())
    if total * max(1, len(tree.table)) > ANSWERS_AT_ONCE:
        return None, list(schedule.members)
    closer = [schedule.members[row] for row in np.flatnonzero(odd)]
    if not total:
        return None, closer
    rows = np.flatnonzero(counts)
    counts, first, slide = counts[rows], first[rows], slide[rows]
    owners = np.repeat(np.arange(len(rows)), counts)
    steps = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    columns = (schedule.column(name)[rows] for name in ("offset", "range", "number", "shape", "tree"))
    members = [schedule.members[row] for row in rows]
    return Asked(members, owners, first[owners] + slide[owners] * steps, *columns), closer


def _leave_out_empty(tree: PeriodicTree, first: Ints, counts: Ints) -> None:
    """Windows that begin behind the last slice are empty: no report of those whose HAVING says so."""
    schedule, ends = tree.schedule, tree.store.ends
    shapes = schedule.column("shape")
    silent = [shape for shape in np.unique(shapes).tolist() if tree.shapes.is_silent_when_empty(shape, tree.pools)]
    if not silent or not len(ends):
        return
    reach = int(ends[-1]) - 1 + schedule.column("range") + schedule.column("offset")  # the last report to hold a row
    held = np.maximum((np.minimum(reach, tree.watermark) - first) // schedule.column("slide") + 1, 0)
    counts[:] = np.where(np.isin(shapes, silent), np.minimum(counts, held), counts)


def pass_over(tree: PeriodicTree) -> None:
    """The reports that are due are left out, and every member has come to the watermark."""
    for member in tree.schedule.members:
        if not tree.keys:
            _with_gaps(tree, member, due_of(tree, member))  # says whether its reports have begun
    tree.schedule.come_to(tree.watermark)


def _write_in_parts(
    store: WovenSlices, tree: PeriodicTree, requests: list[tuple[Member, Ints]], reports: Reports
) -> None:
    """Answers the requests in parts of bounded size."""
    limit = max(1, ANSWERS_AT_ONCE // max(1, len(tree.table)))
    longest = max((len(due) for _, due in requests), default=0)
    step = max(1, limit // max(1, len(requests)))
    for begin in range(0, longest, step):
        part = [(member, due[begin : begin + step]) for member, due in requests if begin < len(due)]
        _write(store, tree, Asked.of(part), reports)


def _with_gaps(tree: PeriodicTree, member: Member, due: Ints) -> tuple[Ints, list[EmptyReports]]:
    """The reports of an ungrouped query: those of empty windows between and after, long runs as ranges."""
    cadence, slide = member.cadence, member.cadence.slide
    if not member.begun:
        # One that joins may find rows in slices held, before any row has come since.
        begins = min([*due[:1].tolist(), *([] if member.first_report is None else [member.first_report])], default=None)
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


def answered(store: WovenSlices, tree: PeriodicTree, member: Member, report: int) -> pa.RecordBatch | None:
    """One report of a window, whether it is a member's next one, one of the past, or nobody's."""
    reports = Reports({0: member.name})
    asked = Asked.of([(member, np.array([report], np.int64))])
    asked.number[:] = asked.tree[:] = 0  # no window goes on from here
    _write(store, tree, asked, reports)
    found = reports.get(member.name)
    assert found is None or isinstance(found[0], pa.RecordBatch)
    return found[0] if found else None


def _write(store: WovenSlices, tree: PeriodicTree, asked: Asked, reports: Reports) -> None:
    """The reports asked for, tree by tree of the weave."""
    for number in np.unique(asked.tree).tolist():
        slices = store.slices_of(number, tree.watermark)
        _write_tree(tree, slices, asked.only(asked.tree == number), reports)


def _write_tree(tree: PeriodicTree, slices: Slices, asked: Asked, reports: Reports) -> None:
    """Equal windows are answered once, members that select alike written together."""
    owners = asked.owners
    last = asked.due - asked.offset[owners]
    ends = slice_places(slices.starts, last)
    starts = slice_places(slices.starts, last - asked.range[owners])
    endless = asked.range == 0
    if endless.any():
        starts[endless[owners]] = -1
    firsts, places = distinct_windows(starts, ends, len(slices.starts))
    keys = list(dict.fromkeys(key for shape in np.unique(asked.shape).tolist() for key in tree.shapes.asked_by(shape)))
    begins = np.where(starts[firsts] < 0, -1, slices.first + starts[firsts])
    numbers = asked.number[owners[firsts]]
    questions = _asked_for(asked.members, keys, owners, places, len(firsts))
    sought = Sought(begins, slices.first + ends[firsts], len(tree.table), numbers, questions)
    answers = slices.answers(keys, sought)
    kinds = asked.shape * 2 + endless
    found = np.unique(kinds)
    for kind in found:
        mine = np.flatnonzero((kinds == kind)[owners]) if len(found) > 1 else slice(None)
        _write_together(tree, asked, owners[mine], asked.due[mine], places[mine], answers, reports, len(found) == 1)


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


def _write_together(
    tree: PeriodicTree, asked: Asked, owners: Ints, due: Ints, places: Ints, answers: Answers, reports: Reports,
    alike: bool,
) -> None:  # fmt: skip
    """The reports of members that select alike, whatever their windows: one batch, cut where the next member begins."""
    member = asked.members[int(owners[0])]
    aggregation = member.aggregation
    try:
        # Where all windows are of members that select alike, each is evaluated once, however many have it.
        once = not tree.keys and len(places) > len(answers[ROW_COUNT][0][0]) and alike
        with Overflows() as overflows:
            written = (_written_once if once else _written)(tree, aggregation, due, places, answers)
    except QueryFailed:
        for owner in np.unique(owners):
            mine = owners == owner
            name = asked.members[owner].name
            found = _written_out(tree, asked.members[owner], due[mine], places[mine], answers)
            reports.apart.setdefault(name, []).extend(found)
        return
    if overflows.count:
        _note_overflows(tree, asked, owners, due, places, answers)
    if written is None:
        return
    chosen, columns = written
    owner, ends = owners[chosen], due[chosen]
    starts = None
    if member.cadence.range is not None:
        starts = ends - (asked.offset + asked.range)[owner]
    batch = _stamped(member, aggregation, starts, ends, columns)
    cuts = np.flatnonzero(np.diff(owner, prepend=-1, append=-1))
    reports.together.append(Together(member.shape, batch, asked.number[owner[cuts[:-1]]], cuts))


def _note_overflows(tree: PeriodicTree, asked: Asked, owners: Ints, due: Ints, places: Ints, answers: Answers) -> None:
    """Reports that were lowered together have answers outside their type: lowered again, to see whose they are."""
    for owner in np.unique(owners):
        member, mine = asked.members[owner], owners == owner
        with Overflows(apart=True) as found:
            _written(tree, member.aggregation, due[mine], places[mine], answers)
        tree.note_overflows(member.name, found.count)


def _written_out(tree: PeriodicTree, member: Member, due: Ints, places: Ints, answers: Answers) -> list[pa.RecordBatch]:
    """A member's reports; where one cannot be answered, those before it are out all the same and the member fails."""
    try:
        batch = _member_batch(tree, member, due, places, answers)
        return [batch] if batch is not None else []
    except QueryFailed:
        batches = []
        for i in range(len(due)):
            try:
                batch = _member_batch(tree, member, due[i : i + 1], places[i : i + 1], answers)
            except QueryFailed as problem:
                tree.failures[member.name] = problem.message
                break
            if batch is not None:
                batches.append(batch)
        return batches


def _member_batch(
    tree: PeriodicTree, member: Member, due: Ints, places: Ints, answers: Answers
) -> pa.RecordBatch | None:
    written = _written(tree, member.aggregation, due, places, answers)
    if written is None:
        return None
    reports, columns = written
    return stamped(member, due[reports], columns)


def _written(
    tree: PeriodicTree, aggregation: Aggregation, due: Ints, places: Ints, answers: Answers
) -> tuple[Ints, list[pa.Array]] | None:
    """The items of reports, from the answers at their places, and which report each row is of."""
    count = len(tree.table)
    rows = answers[ROW_COUNT][0][0][places]
    flat = None if not tree.keys or bool(rows.all()) else np.flatnonzero(rows.reshape(-1))
    if flat is not None and not len(flat):
        return None
    fields = {}
    for key in aggregation.asked:
        ints, floats = answers[key]
        picked = [part[places].reshape(-1) for part in (*ints, *floats)]
        fields[key] = picked if flat is None else [part[flat] for part in picked]
    if flat is None:
        reports, keys = np.repeat(np.arange(len(due)), count), _all_keys(tree, len(due))
    else:
        reports, keys = flat // count, keys_of(tree, flat % count)
    batch, kept = passing_of(tree, aggregation, keys, fields)
    if kept is not None:
        reports = reports[kept]
    return (reports, aggregation.selected(batch)) if batch.num_rows else None


def _written_once(
    tree: PeriodicTree, aggregation: Aggregation, due: Ints, places: Ints, answers: Answers
) -> tuple[Ints, list[pa.Array]] | None:
    """The same without groups, where every window that was answered is one of these reports'."""
    fields = {key: [part.reshape(-1) for parts in answers[key] for part in parts] for key in aggregation.asked}
    batch, kept = passing_of(tree, aggregation, [], fields)
    if not batch.num_rows:
        return None
    reports = np.arange(len(due))
    if kept is not None:
        rows = np.full(len(answers[ROW_COUNT][0][0]), -1, np.int64)
        rows[kept] = np.arange(len(kept))
        places = rows[places]
        reports = np.flatnonzero(places >= 0)
        places = places[reports]
    chosen = wrapped(places)
    return reports, [column.take(chosen) for column in aggregation.selected(batch)]


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
