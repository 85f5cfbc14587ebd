"""All members of a family: their names, the numbers of their windows, their schedule, failures and overflows.

Windows are numbered from 1. A new member takes a free number if there is one, so numbers stay small: techniques and
ledgers keep arrays by them. A member of an ungrouped family waits until its reports have begun.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from panewise.arrays import INT64_MAX, INT64_MIN, Ints
from panewise.operators.family.member import Member
from panewise.operators.family.schedule import MemberSchedule
from panewise.operators.query_shapes import Shapes
from panewise.plan.aggregation import Aggregation, StateKey
from panewise.slicing.pairs import Cadence
from panewise.slicing.window_set import WindowSet

RowsSpan = Callable[[], tuple[int, int] | None]


class Members:
    """`in_order[i]` has row i of the schedule; `changes` counts the members added and removed."""

    def __init__(self, grouped: bool, timed: bool) -> None:
        self.grouped = grouped
        self._timed = timed
        self.by_name: dict[str, Member] = {}
        self.in_order: list[Member] = []
        self.schedule = MemberSchedule()
        self.shapes = Shapes()
        self.windows = WindowSet()
        self.names: dict[int, str] = {}  # by window number
        self.changes = 0
        self.failures: dict[str, str] = {}  # the reason, by member; the host removes the member
        self._overflows: dict[str, int] = {}  # answers outside their type since the last call, by member
        self._free_windows: list[int] = []
        self._waiting: dict[str, Member] = {}  # members of an ungrouped family whose reports have not begun

    def __iter__(self) -> Iterator[Member]:
        return iter(self.by_name.values())

    def add(self, name: str, aggregation: Aggregation, cadence: Cadence, held_from: int | None) -> Member:
        window = self._free_windows.pop() if self._free_windows else len(self.by_name) + 1
        shape = self.shapes.number(aggregation)
        member = Member(aggregation, cadence, INT64_MIN, held_from, self._timed, name, window, shape)
        self.by_name[name] = member
        member.enter(self.schedule)
        self.in_order.append(member)
        self.names[member.window] = name
        self.windows.add(cadence)
        self.changes += 1
        if not self.grouped:
            self._waiting[name] = member
        return member

    def remove(self, name: str) -> Member:
        member = self.by_name.pop(name)
        self._waiting.pop(name, None)
        self.schedule.remove(member.row)
        last = self.in_order.pop()
        if last is not member:
            self.in_order[member.row] = last
            last.take_row(member.row)
        del self.names[member.window]
        self._free_windows.append(member.window)
        self.windows.remove(member.cadence)
        self.changes += 1
        return member

    def rename(self, name: str, to: str) -> None:
        member = self.by_name[to] = self.by_name.pop(name)
        member.rename(to)
        self.names[member.window] = to
        if name in self._waiting:
            self._waiting[to] = self._waiting.pop(name)
        if name in self.failures:
            self.failures[to] = self.failures.pop(name)

    @property
    def states(self) -> set[StateKey]:
        """All states that some member needs."""
        return {key for aggregation in {m.aggregation for m in self} for key in aggregation.states}

    # -- failures and overflows ----------------------------------------------------------------------------------

    def fail(self, name: str, reason: str) -> None:
        self.failures[name] = reason

    def fail_readers_of(self, key: StateKey, reason: str) -> None:
        """A state cannot be kept any more: all members that read it fail."""
        for name, member in self.by_name.items():
            if key in member.aggregation.states:
                self.failures[name] = reason

    def take_failures(self) -> dict[str, str]:
        """The reasons of all failures, by member; they are no longer known here."""
        taken, self.failures = self.failures, {}
        return taken

    def take_failure(self, name: str) -> str | None:
        """The reason of a member's failure, or None; it is no longer known here."""
        return self.failures.pop(name, None)

    def note_overflows(self, name: str, count: int) -> None:
        """A member had this many more answers outside their type, which are NULL."""
        if count:
            self._overflows[name] = self._overflows.get(name, 0) + count

    def take_overflows(self) -> dict[str, int]:
        """The number of answers outside their type since the last call, by member."""
        taken, self._overflows = self._overflows, {}
        return taken

    def take_troubles_of(self, other: Members) -> None:
        """Takes over failures and overflows of another family's members."""
        for name, reason in other.take_failures().items():
            self.fail(name, reason)
        for name, count in other.take_overflows().items():
            self.note_overflows(name, count)

    # -- when reports begin --------------------------------------------------------------------------------------

    def notice(self, points: Ints, latest: int) -> None:
        """Rows have arrived, before any WHERE; `latest` is the greatest of their points."""
        if not self._waiting:
            return
        least = int(points.min())
        for name, member in list(self._waiting.items()):
            if member.begun:
                del self._waiting[name]
            else:
                member.note_rows(points, least, latest)

    def hold_back(self, point: int) -> None:
        """Not all rows before the point were seen, after all."""
        for member in self:
            member.hold_back(point)

    def begin_reports(self, watermark: int, starts: Ints) -> None:
        """Begins the reports of waiting members whose first report is due; they are easy from then on.

        Members that know no first report, or that may find older rows in the slices held, are handled one by one
        elsewhere. `starts`: where the slices held begin.
        """
        oldest = int(starts[0]) if self._waiting and len(starts) else INT64_MAX
        for name, member in list(self._waiting.items()):
            if member.begun or member.begin_easily(watermark, oldest):
                del self._waiting[name]

    def take_notes(self) -> dict[str, int]:
        """The first report noted by each member since the last call; of an ungrouped family that folds."""
        return {member.name: noted for member in self if (noted := member.take_note()) is not None}

    def note(self, notes: dict[str, int]) -> None:
        """Takes over what the members of another family noted."""
        for name, report in notes.items():
            member = self.by_name.get(name)
            if member is not None and not member.begun:
                member.note_first(report)

    # -- how many reports are due --------------------------------------------------------------------------------

    def step_to(self, reached: int, watermark: int, most: int, rows_span: RowsSpan) -> int:
        """The furthest point up to a watermark at which at most `most` reports are due, from `reached` on.

        If the next point with due reports has more, that point. `rows_span`: where the slices held begin and end.
        """
        slide = self.windows.shortest_slide
        # The search below is for long steps, which are rare.
        if slide is None or ((watermark - reached) // slide + 1) * len(self.by_name) <= most:
            return watermark
        span = rows_span() or (watermark, watermark)

        def is_few(point: int) -> bool:
            return self.schedule.due_count(reached, point, span) <= most

        if is_few(watermark):
            return watermark
        begun = few = max(reached, -(2**62))
        step = slide
        while few + step < watermark and is_few(few + step):
            few, step = few + step, 2 * step
        too_many = min(watermark, few + step)
        while too_many - few > slide:
            middle = (few + too_many) // 2
            few, too_many = (middle, too_many) if is_few(middle) else (few, middle)
        return few if few > begun else self.schedule.next_due(reached)

    # -- the weave -----------------------------------------------------------------------------------------------

    def leave_trees(self) -> None:
        """Moves all members to tree 0."""
        self.schedule.column("tree")[:] = 0

    def by_tree(self) -> dict[int, list[Member]]:
        """Members by the number of their tree; tree 0 has the store's own slices."""
        found: dict[int, list[Member]] = {}
        for member, number in zip(self.in_order, self.schedule.column("tree").tolist(), strict=True):
            found.setdefault(number, []).append(member)
        return found

    # -- outlines and snapshots ----------------------------------------------------------------------------------

    def outline(self) -> dict[str, list[Any]]:
        return {name: member.marks for name, member in self.by_name.items()}

    def adopt(self, outline: dict[str, list[Any]]) -> None:
        assert set(self.by_name) == set(outline), "other members than those of the outline"
        for name, saved in outline.items():
            self.by_name[name].set_marks(saved)
        self.schedule.unsettle_all()

    def snapshot(self) -> dict[str, Any]:
        return {name: member.snapshot() for name, member in self.by_name.items()}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """The members must have been added already."""
        for name, saved in snapshot.items():
            self.by_name[name].restore(saved)
        self.schedule.unsettle_all()
