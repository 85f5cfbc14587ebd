"""A member of a family: an aggregation over a window, for one query or for several equal ones.

An ungrouped query reports all windows from the first one with a row, even a row that WHERE drops. Until its reports
have begun, the member therefore notes the first report that shows a row (`first_report`; see `first_reports.py`).

The aggregation and the window (`cadence`) are fixed. Only the methods here assign the other fields; others tell a
member what has happened.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from panewise.arrays import INT64_MIN, Ints
from panewise.operators.family.first_reports import first_candidate, first_showing, is_whole
from panewise.operators.family.schedule import MemberSchedule
from panewise.plan.aggregation import Aggregation
from panewise.plan.family_plan import MemberPlan
from panewise.slicing.pairs import Cadence

# The fields in a snapshot, by their names there; the last one is always False.
MEMBER_MARKS = ("reported", "held_from", "first_report", "begun", "endless", "suspended")


class Member:
    """Reports up to `reported` are out; windows that begin before `held_from` are not whole.

    `window` numbers the members' windows in the family; 0 is not used. `shape` is equal for members with equal SELECT
    and HAVING. `timed`: the axis is event time.
    """

    def __init__(
        self,
        aggregation: Aggregation,
        cadence: Cadence,
        reported: int,
        held_from: int | None = None,
        timed: bool = True,
        name: str = "",
        window: int = 0,
        shape: int = 0,
    ) -> None:
        self.name = name
        self.aggregation = aggregation
        self.cadence = cadence
        self.held_from = held_from
        self.timed = timed
        self.window = window
        self.shape = shape
        self.first_report: int | None = None
        self.begun = False
        self.endless = False  # the window has no beginning and holds rows, so it will hold rows for ever
        self.passing: NDArray[np.bool_] = np.zeros(0, np.bool_)  # by group, whether HAVING keeps it; sparse slices only
        self.touched: list[Ints] = []  # groups to be judged at the next report; sparse slices only
        self.row = 0
        self._schedule: MemberSchedule | None = None  # keeps `reported` once the member is in a family
        self._reported = reported

    def enter(self, schedule: MemberSchedule) -> None:
        """Takes a row of a family's schedule."""
        self.row = schedule.add(self.cadence, self._reported, self.window, self.shape)
        self._schedule = schedule

    def join(self, reported: int, touched: list[Ints]) -> None:
        """Reports up to `reported` count as out, and `touched` groups as changed; called once slices are ready."""
        self._report_up_to(reported)
        self.touched = touched

    def take_row(self, row: int) -> None:
        """The member has another row of the schedule from now on."""
        self.row = row

    def rename(self, name: str) -> None:
        self.name = name

    @property
    def plan(self) -> MemberPlan:
        return MemberPlan(self.name, self.aggregation, self.cadence, self.can_move)

    # -- how far its reports have come ---------------------------------------------------------------------------

    @property
    def reported(self) -> int:
        return self._reported if self._schedule is None else self._schedule.reported(self.row)

    def _report_up_to(self, point: int) -> None:
        if self._schedule is None:
            self._reported = point
        else:
            self._schedule.set_reported(self.row, point)

    def report_until(self, watermark: int) -> None:
        """Reports up to the watermark are out."""
        self._report_up_to(max(self.reported, watermark))

    def hold_back(self, point: int) -> None:
        """Not all rows before the point were seen, after all."""
        self.held_from = point if self.held_from is None else max(point, self.held_from)
        self._unsettle()

    def hold_for_ever(self) -> None:
        """A window without a beginning holds rows; they stay in it even when their slices are evicted."""
        assert self.cadence.range is None
        self.endless = True

    def _unsettle(self) -> None:
        """The member is not easy until `settle` is called; see `schedule.py`."""
        if self._schedule is not None:
            self._schedule.set_easy(self.row, False)

    def settle(self, grouped: bool) -> None:
        """The member was handled by itself; it is easy from now on if nothing prevents it."""
        assert self._schedule is not None
        self._schedule.set_easy(self.row, self._is_easy(grouped))

    def _is_easy(self, grouped: bool) -> bool:
        """Whether the member is easy (`schedule.py`). Once true, it stays true."""
        cadence = self.cadence
        if cadence.range is None or not (grouped or self.begun) or self.reported == INT64_MIN:
            return False
        return is_whole(cadence, cadence.next_report(self.reported), self.held_from)

    # -- the weave -----------------------------------------------------------------------------------------------

    @property
    def tree(self) -> int:
        """The number of the tree that answers it; tree 0 has the store's own slices."""
        return 0 if self._schedule is None else int(self._schedule.column("tree")[self.row])

    def move_to(self, tree: int) -> None:
        """Another tree answers it from now on."""
        assert self._schedule is not None
        self._schedule.column("tree")[self.row] = tree

    @property
    def can_move(self) -> bool:
        """Whether another tree than 0 may answer it."""
        return self.cadence.range is not None and not self.aggregation.holistic

    # -- the first report of an ungrouped query ------------------------------------------------------------------

    def go_on_from(self, other: Member) -> None:
        """Another member gave its reports so far."""
        self.begun = self.begun or other.begun

    def note_first(self, report: int) -> None:
        """Notes a report that shows a row; the earliest one counts."""
        self.first_report = report if self.first_report is None else min(report, self.first_report)

    def note_rows(self, points: Ints, least: int, latest: int) -> None:
        """Rows have arrived at these points, before any WHERE: notes the first whole report that shows one.

        `least` and `latest` are the ends of the points.
        """
        cadence, since, known = self.cadence, self.held_from, self.first_report
        if known is not None and known <= first_candidate(cadence, since, least):
            return
        found = first_showing(cadence, since, points, least, latest)
        if found is not None:
            self.note_first(found)

    def take_note(self) -> int | None:
        """The first report noted since the last call; it is no longer known here."""
        taken, self.first_report = self.first_report, None
        return taken

    def begin_easily(self, watermark: int, oldest: int) -> bool:
        """Begins the reports with the first one noted, and makes the member easy; returns whether it could.

        It cannot if nothing was noted, or if slices held may contain older rows. `oldest`: where these slices begin.
        """
        first, cadence = self.first_report, self.cadence
        if first is None or first > watermark or cadence.range is None:
            return False
        if oldest < first - cadence.slide - cadence.offset:
            return False
        self._report_up_to(max(first, cadence.next_report(self.reported)) - cadence.slide)
        self.begun = True
        self.settle(grouped=False)
        return True

    def first_due(self, shown: int | None, watermark: int) -> int | None:
        """The next report of an ungrouped query; None if its reports have not begun.

        They begin with the first report noted, or with `shown`: the first report for which slices held contain rows.
        """
        following = self.cadence.next_report(self.reported)
        if self.begun:
            return following
        known = [report for report in (shown, self.first_report) if report is not None]
        if not known or min(known) > watermark:
            return None
        self.begun = True
        return max(min(known), following)

    def is_before_the_first(self, report: int) -> bool:
        """Whether a report comes before the first one of an ungrouped query, which may have begun with slices held."""
        if self.first_report is None:
            return not self.begun
        return self.held_from is None and report < self.first_report

    # -- the groups that it judges, if slices are sparse ---------------------------------------------------------

    def touch(self, groups: list[Ints]) -> None:
        """These groups have changed since its last report."""
        self.touched.extend(groups)

    def touch_anew(self, groups: list[Ints]) -> None:
        """These groups, and no others, are to be judged at its next report."""
        self.touched = groups

    def take_touched(self) -> Ints | None:
        """The groups to be judged now, or None; a group may occur twice, which does no harm."""
        taken, self.touched = self.touched, []
        return np.concatenate(taken) if taken else None

    def judge(self, groups: Ints, passing: NDArray[np.bool_], room: int) -> None:
        """Stores whether HAVING keeps some groups; there is room for `room` groups."""
        if len(self.passing) < room:
            self.passing = np.append(self.passing, np.zeros(room - len(self.passing), np.bool_))
        self.passing[groups] = passing

    def regroup(self, kept: Ints, renamed: Ints, room: int) -> None:
        """Only the groups `kept` are left, under new numbers, and there is room for `room` groups."""
        passing = np.zeros(room, np.bool_)
        known = kept[kept < len(self.passing)]
        passing[: len(known)] = self.passing[known]
        self.passing = passing
        touched = [renamed[groups] for groups in self.touched]
        self.touched = [groups[groups >= 0] for groups in touched]

    # -- snapshots -----------------------------------------------------------------------------------------------

    @property
    def marks(self) -> list[Any]:
        return [self.reported, self.held_from, self.first_report, self.begun, self.endless, False]

    def set_marks(self, values: list[Any]) -> None:
        reported, self.held_from, self.first_report, self.begun, self.endless, _ = values
        self._report_up_to(reported)

    def snapshot(self) -> dict[str, Any]:
        return {
            **dict(zip(MEMBER_MARKS, self.marks, strict=True)),
            "passing": self.passing.view(np.uint8).astype(np.int64),
            "touched": np.concatenate(self.touched) if self.touched else np.empty(0, np.int64),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.set_marks([snapshot[mark] for mark in MEMBER_MARKS])
        self.passing = snapshot["passing"].astype(np.bool_)
        self.touched = [snapshot["touched"]] if len(snapshot["touched"]) else []
