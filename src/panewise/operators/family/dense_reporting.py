"""Reports of dense slices: one call answers the due windows of all members, and reports are written together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.columns import wrapped
from panewise.aggregates.overflows import Overflows
from panewise.arrays import INT64_MIN, Ints
from panewise.errors import QueryFailed
from panewise.operators.due_reports import EmptyReports
from panewise.operators.family.first_reports import is_whole
from panewise.operators.family.groups import Groups
from panewise.operators.family.member import Member
from panewise.operators.family.members import Members
from panewise.operators.family.reporting import Reporting, stamped, stamped_from
from panewise.operators.family.sought_windows import Answers, Slices, SoughtWindows
from panewise.operators.family.timeline import HeldSlices, Timeline
from panewise.operators.reports import MemberBatches, Reports
from panewise.operators.window_order import distinct_windows, slice_places
from panewise.plan.aggregation import ROW_COUNT, Aggregation, StateKey

# Easy members with more due reports than this are handled one by one. Ungrouped members report empty windows too.
DUE_GROUPED_MAX, DUE_UNGROUPED_MAX = 256, 8192
_NONE: Ints = np.empty(0, np.int64)
ANSWERS_AT_ONCE = 1 << 21  # groups times windows in one call, which bounds its memory
GAP_MATERIALISED = 1024  # longer runs of empty reports are returned as ranges


class WovenSlices(HeldSlices, Protocol):
    """A store whose members may be in trees of the weave."""

    def slices_of(self, tree: int, watermark: int) -> Slices: ...


@dataclass
class RequestedReports:
    """Reports that are asked for: report `due[i]` belongs to member `owners[i]`, and members are in order.

    The other arrays have one value per member.
    """

    members: list[Member]
    owners: Ints
    due: Ints
    offset: Ints
    range: Ints
    number: Ints
    shape: Ints
    tree: Ints

    @classmethod
    def of(cls, requests: list[tuple[Member, Ints]]) -> RequestedReports:
        members = [member for member, _ in requests]
        owners = np.repeat(np.arange(len(requests)), [len(due) for _, due in requests])
        columns = np.array(
            [(m.cadence.offset, m.cadence.range or 0, m.window, m.shape, m.tree) for m in members], np.int64
        )
        return cls(members, owners, np.concatenate([due for _, due in requests]), *columns.T)

    def only(self, chosen: NDArray[np.bool_]) -> RequestedReports:
        """The reports of the members where the mask is true."""
        if chosen.all():
            return self
        rows = np.flatnonzero(chosen)
        mine = chosen[self.owners]
        owners = (np.cumsum(chosen) - 1)[self.owners[mine]]
        columns = (column[rows] for column in (self.offset, self.range, self.number, self.shape, self.tree))
        return RequestedReports([self.members[row] for row in rows], owners, self.due[mine], *columns)


class DenseReporting(Reporting):
    """Finds due reports of easy members (`schedule.py`) by columns, and handles the few other members one by one."""

    def __init__(self, store: WovenSlices, members: Members, timeline: Timeline, groups: Groups) -> None:
        super().__init__(members, timeline, groups)
        self._store = store
        self._grouped = members.grouped

    # -- which reports are due -----------------------------------------------------------------------------------

    def due(self, fresh: Member | None) -> Reports:
        """All due reports, answered together; `fresh`: only those of this member, because all others are out."""
        members, watermark = self.members, self.timeline.watermark
        reports = Reports(members.names)
        one_by_one = [] if fresh is None else [fresh]
        if fresh is None:
            members.begin_reports(watermark, self._store.starts)
            asked, one_by_one = self._due_of_easy()
            if asked is not None:
                self._write(asked, reports)
        requests: list[tuple[Member, Ints]] = []
        for member in one_by_one:
            if member.name in members.failures:
                continue
            due = self._candidates(member) if self._grouped else self.due_of(member, self._store)
            if not self._grouped:
                due, gaps = self._with_gaps(member, due)
                if gaps:
                    reports.apart[member.name] = list(gaps)
            if len(due):
                requests.append((member, due))
        self._write_in_parts(requests, reports)
        members.schedule.move_to(watermark)
        for member in one_by_one:
            member.settle(self._grouped)
        return reports

    def skip_due(self) -> None:
        for member in self.members.in_order:
            if not self._grouped:
                self._with_gaps(member, self.due_of(member, self._store))  # notes whether its reports have begun
        self.members.schedule.move_to(self.timeline.watermark)

    def _due_of_easy(self) -> tuple[RequestedReports | None, list[Member]]:
        """The due reports of easy members, and the members to be handled one by one: those that are not easy, or that
        have too many due reports for one call."""
        members, schedule = self.members.in_order, self.members.schedule
        easy, failures = schedule.easy, self.members.failures
        if failures:
            easy = easy & np.array([member.name not in failures for member in members])
        slide = schedule.column("slide")
        first = schedule.next_reports(np.where(easy, schedule.column("reported"), 0))
        counts = np.where(easy, np.maximum((self.timeline.watermark - first) // slide + 1, 0), 0)
        if not self._grouped:
            self._leave_out_empty(first, counts)
        odd = ~easy | (counts > (DUE_GROUPED_MAX if self._grouped else DUE_UNGROUPED_MAX))
        counts[odd] = 0
        total = int(counts.sum())
        if total * max(1, len(self.groups)) > ANSWERS_AT_ONCE:
            return None, list(members)
        one_by_one = [members[row] for row in np.flatnonzero(odd)]
        if not total:
            return None, one_by_one
        rows = np.flatnonzero(counts)
        counts, first, slide = counts[rows], first[rows], slide[rows]
        owners = np.repeat(np.arange(len(rows)), counts)
        steps = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        columns = (schedule.column(name)[rows] for name in ("offset", "range", "number", "shape", "tree"))
        found = [members[row] for row in rows]
        return RequestedReports(found, owners, first[owners] + slide[owners] * steps, *columns), one_by_one

    def _leave_out_empty(self, first: Ints, counts: Ints) -> None:
        """Reduces the counts of members whose HAVING drops empty windows: windows after the last slice are empty."""
        schedule, ends = self.members.schedule, self._store.ends
        shapes, known = schedule.column("shape"), self.members.shapes
        silent = [shape for shape in np.unique(shapes).tolist() if known.is_silent_when_empty(shape, self.groups.pools)]
        if not silent or not len(ends):
            return
        # The last report whose window holds a row.
        reach = int(ends[-1]) - 1 + schedule.column("range") + schedule.column("offset")
        upto = np.minimum(reach, self.timeline.watermark)
        held = np.maximum((upto - first) // schedule.column("slide") + 1, 0)
        counts[:] = np.where(np.isin(shapes, silent), np.minimum(counts, held), counts)

    def _with_gaps(self, member: Member, due: Ints) -> tuple[Ints, list[EmptyReports]]:
        """All due reports of an ungrouped query: `due` and those of empty windows, of which long runs become ranges."""
        slide, watermark = member.cadence.slide, self.timeline.watermark
        first = member.first_due(int(due[0]) if len(due) else None, watermark)
        last = member.cadence.last_report(watermark)
        if first is None or last < first:
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
        return np.sort(np.concatenate(filled)), gaps

    def _candidates(self, member: Member) -> Ints:
        """Like `due_of`, but fast if few reports are due; windows without rows may be among them."""
        cadence, watermark = member.cadence, self.timeline.watermark
        if member.reported == INT64_MIN or cadence.range is None:
            return self.due_of(member, self._store)
        first = cadence.next_report(member.reported)
        if first > watermark:
            return _NONE
        count = (watermark - first) // cadence.slide + 1
        if count > DUE_GROUPED_MAX or not is_whole(cadence, first, member.held_from):
            return self.due_of(member, self._store)
        return first + cadence.slide * np.arange(count, dtype=np.int64)

    # -- writing them --------------------------------------------------------------------------------------------

    def answered(self, member: Member, report: int) -> pa.RecordBatch | None:
        """One report of a window: a member's next report, one of the past, or of a window that no member has."""
        reports = Reports({0: member.name})
        asked = RequestedReports.of([(member, np.array([report], np.int64))])
        asked.number[:] = asked.tree[:] = 0  # techniques keep nothing for this window
        self._write(asked, reports)
        found = reports.get(member.name)
        assert found is None or isinstance(found[0], pa.RecordBatch)
        return found[0] if found else None

    def _write_in_parts(self, requests: list[tuple[Member, Ints]], reports: Reports) -> None:
        """Writes the reports asked for, in parts of bounded size."""
        limit = max(1, ANSWERS_AT_ONCE // max(1, len(self.groups)))
        longest = max((len(due) for _, due in requests), default=0)
        step = max(1, limit // max(1, len(requests)))
        for begin in range(0, longest, step):
            part = [(member, due[begin : begin + step]) for member, due in requests if begin < len(due)]
            self._write(RequestedReports.of(part), reports)

    def _write(self, asked: RequestedReports, reports: Reports) -> None:
        """Writes the reports asked for, one tree of the weave after the other."""
        for number in np.unique(asked.tree).tolist():
            slices = self._store.slices_of(number, self.timeline.watermark)
            self._write_tree(slices, asked.only(asked.tree == number), reports)

    def _write_tree(self, slices: Slices, asked: RequestedReports, reports: Reports) -> None:
        """Writes reports of one tree. Equal windows are answered once; members of one shape are written together."""
        owners, shapes = asked.owners, self.members.shapes
        last = asked.due - asked.offset[owners]
        ends = slice_places(slices.starts, last)
        starts = slice_places(slices.starts, last - asked.range[owners])
        endless = asked.range == 0
        if endless.any():
            starts[endless[owners]] = -1
        firsts, places = distinct_windows(starts, ends, len(slices.starts))
        keys = list(dict.fromkeys(key for shape in np.unique(asked.shape).tolist() for key in shapes.asked_by(shape)))
        begins = np.where(starts[firsts] < 0, -1, slices.first + starts[firsts])
        numbers = asked.number[owners[firsts]]
        questions = _windows_needed(asked.members, keys, owners, places, len(firsts))
        sought = SoughtWindows(begins, slices.first + ends[firsts], len(self.groups), numbers, questions)
        answers = slices.answers(keys, sought)
        kinds = asked.shape * 2 + endless
        found = np.unique(kinds)
        for kind in found:
            mine = np.flatnonzero((kinds == kind)[owners]) if len(found) > 1 else slice(None)
            self._write_together(asked, owners[mine], asked.due[mine], places[mine], answers, reports, len(found) == 1)

    def _write_together(
        self,
        asked: RequestedReports,
        owners: Ints,
        due: Ints,
        places: Ints,
        answers: Answers,
        reports: Reports,
        alike: bool,
    ) -> None:
        """Writes reports of members of one shape, whatever their windows, as one batch with a cut at each member."""
        member = asked.members[int(owners[0])]
        aggregation = member.aggregation
        try:
            # If all windows belong to members of one shape, each distinct window is evaluated only once.
            once = not self._grouped and len(places) > len(answers[ROW_COUNT][0][0]) and alike
            with Overflows() as overflows:
                written = (self._written_once if once else self._written)(aggregation, due, places, answers)
        except QueryFailed:
            for owner in np.unique(owners):
                mine = owners == owner
                name = asked.members[owner].name
                found = self._written_out(asked.members[owner], due[mine], places[mine], answers)
                reports.apart.setdefault(name, []).extend(found)
            return
        if overflows.count:
            self._note_overflows(asked, owners, due, places, answers)
        if written is None:
            return
        chosen, columns = written
        owner, ends = owners[chosen], due[chosen]
        starts = None
        if member.cadence.range is not None:
            starts = ends - (asked.offset + asked.range)[owner]
        batch = stamped_from(member, starts, ends, columns)
        cuts = np.flatnonzero(np.diff(owner, prepend=-1, append=-1))
        reports.together.append(MemberBatches(member.shape, batch, asked.number[owner[cuts[:-1]]], cuts))

    def _note_overflows(self, asked: RequestedReports, owners: Ints, due: Ints, places: Ints, answers: Answers) -> None:
        """Counts answers outside their type for each member, by computing again what was computed together."""
        for owner in np.unique(owners):
            member, mine = asked.members[owner], owners == owner
            with Overflows(apart=True) as found:
                self._written(member.aggregation, due[mine], places[mine], answers)
            self.members.note_overflows(member.name, found.count)

    def _written_out(self, member: Member, due: Ints, places: Ints, answers: Answers) -> list[pa.RecordBatch]:
        """The reports of a member. If one of them fails, the member fails, and the reports before it are returned."""
        try:
            batch = self._member_batch(member, due, places, answers)
            return [batch] if batch is not None else []
        except QueryFailed:
            batches = []
            for i in range(len(due)):
                try:
                    batch = self._member_batch(member, due[i : i + 1], places[i : i + 1], answers)
                except QueryFailed as problem:
                    self.members.fail(member.name, problem.message)
                    break
                if batch is not None:
                    batches.append(batch)
            return batches

    def _member_batch(self, member: Member, due: Ints, places: Ints, answers: Answers) -> pa.RecordBatch | None:
        written = self._written(member.aggregation, due, places, answers)
        if written is None:
            return None
        reports, columns = written
        return stamped(member, due[reports], columns)

    def _written(
        self, aggregation: Aggregation, due: Ints, places: Ints, answers: Answers
    ) -> tuple[Ints, list[pa.Array]] | None:
        """The report of each row and the items; report i takes the answer at `places[i]`. None if there are no rows."""
        count = len(self.groups)
        rows = answers[ROW_COUNT][0][0][places]
        flat = None if not self._grouped or bool(rows.all()) else np.flatnonzero(rows.reshape(-1))
        if flat is not None and not len(flat):
            return None
        fields = {}
        for key in aggregation.asked:
            ints, floats = answers[key]
            picked = [part[places].reshape(-1) for part in (*ints, *floats)]
            fields[key] = picked if flat is None else [part[flat] for part in picked]
        if flat is None:
            reports, keys = np.repeat(np.arange(len(due)), count), self.groups.all_keys(len(due))
        else:
            reports, keys = flat // count, self.groups.keys_of(flat % count)
        batch, kept = self.passing(aggregation, keys, fields)
        if kept is not None:
            reports = reports[kept]
        return (reports, aggregation.selected(batch)) if batch.num_rows else None

    def _written_once(
        self, aggregation: Aggregation, due: Ints, places: Ints, answers: Answers
    ) -> tuple[Ints, list[pa.Array]] | None:
        """Like `_written`, for an ungrouped query to which all answers belong: evaluates each answer once."""
        fields = {key: [part.reshape(-1) for parts in answers[key] for part in parts] for key in aggregation.asked}
        batch, kept = self.passing(aggregation, [], fields)
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


def _windows_needed(
    members: list[Member], keys: list[StateKey], owners: Ints, places: Ints, windows: int
) -> dict[StateKey, NDArray[np.bool_]]:
    """For each statistic of a state without a fixed size, the windows in which some member needs it.

    It is too expensive to compute in all windows.
    """
    result = {}
    for key in keys:
        if key.held is not key:
            asking = np.array([key in member.aggregation.asked for member in members])
            result[key] = np.zeros(windows, np.bool_)
            result[key][places[asking[owners]]] = True
    return result
