"""A member of a family: an aggregation over a window, for one query or for several that are alike.

An ungrouped query reports every window from the first one that holds a row, before any WHERE, on. So a member notes the
first report that shows a row (`first_report`) until its reports have begun (`first_reports.py` finds it).

What is fixed is the aggregation, the window (`cadence`) and what it counts by. All else changes, and is assigned by the
methods here alone: others tell a member what has happened.
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

# What is written down of a member, under these names; the last one was never more than False.
MEMBER_MARKS = ("reported", "held_from", "first_report", "begun", "endless", "suspended")


class Member:
    """Reports up to `reported` are out; windows that begin before `held_from` are not whole.

    `window` is its number among the windows of the family (0 is nobody's), `shape` is equal for members that select and
    aggregate alike. `timed`: the axis is event time.
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
        self.endless = False  # a window without a beginning holds rows by now, and always will
        self.passing: NDArray[np.bool_] = np.zeros(0, np.bool_)  # by group: HAVING keeps it; sparse slices only
        self.touched: list[Ints] = []  # groups to be judged at the next report; sparse slices only
        self.row = 0
        self._schedule: MemberSchedule | None = None  # keeps `reported` once the member is in a family
        self._reported = reported

    def enter(self, schedule: MemberSchedule) -> None:
        """Takes a row of a family's schedule."""
        self.row = schedule.add(self.cadence, self._reported, self.window, self.shape)
        self._schedule = schedule

    def join(self, reported: int, touched: list[Ints]) -> None:
        """The family has its slices: up to where it counts as having reported, and the groups that it finds changed."""
        self._report_up_to(reported)
        self.touched = touched

    def take_row(self, row: int) -> None:
        """It has another row of the schedule from now on."""
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

    def come_to(self, watermark: int) -> None:
        """Reports up to the watermark are out."""
        self._report_up_to(max(self.reported, watermark))

    def hold_back(self, point: int) -> None:
        """Rows before the point turn out not to have been seen all."""
        self.held_from = point if self.held_from is None else max(point, self.held_from)
        self._look_closer()

    def hold_for_ever(self) -> None:
        """A window without a beginning holds rows: what it holds stays, also when its slices have gone."""
        assert self.cadence.range is None
        self.endless = True

    def _look_closer(self) -> None:
        """It is not easy until it has been looked at again; see `schedule.py`."""
        if self._schedule is not None:
            self._schedule.set_easy(self.row, False)

    def settle(self, grouped: bool) -> None:
        """It has been looked at: it is easy from now on where nothing speaks against it."""
        assert self._schedule is not None
        self._schedule.set_easy(self.row, self._is_easy(grouped))

    def _is_easy(self, grouped: bool) -> bool:
        """Whether its reports to come need no closer look; see `schedule.py`. Once true it stays so."""
        cadence = self.cadence
        if cadence.range is None or not (grouped or self.begun) or self.reported == INT64_MIN:
            return False
        return is_whole(cadence, cadence.next_report(self.reported), self.held_from)

    # -- the weave -----------------------------------------------------------------------------------------------

    @property
    def tree(self) -> int:
        """The tree of the weave that answers it; 0 is the one of the store's own slices."""
        return 0 if self._schedule is None else int(self._schedule.column("tree")[self.row])

    def move_to(self, tree: int) -> None:
        """Another tree answers it from now on."""
        assert self._schedule is not None
        self._schedule.column("tree")[self.row] = tree

    @property
    def can_move(self) -> bool:
        """Whether slices of other edges than the store's own may answer it."""
        return self.cadence.range is not None and not self.aggregation.holistic

    # -- the first report of an ungrouped query ------------------------------------------------------------------

    def go_on_from(self, other: Member) -> None:
        """Another one has given its reports so far."""
        self.begun = self.begun or other.begun

    def note_first(self, report: int) -> None:
        """A report that shows a row; the earliest counts."""
        self.first_report = report if self.first_report is None else min(report, self.first_report)

    def note_rows(self, points: Ints, least: int, latest: int) -> None:
        """Rows of the stream, before any WHERE: an ungrouped query begins with the first whole window that holds one.
        `least` and `latest` are the ends of the points."""
        cadence, since, known = self.cadence, self.held_from, self.first_report
        if known is not None and known <= first_candidate(cadence, since, least):
            return
        found = first_showing(cadence, since, points, least, latest)
        if found is not None:
            self.note_first(found)

    def take_note(self) -> int | None:
        """The first report that shows a row, of those noted since the last call; forgotten here."""
        taken, self.first_report = self.first_report, None
        return taken

    def begin_easily(self, watermark: int, oldest: int) -> bool:
        """Whether its reports have begun by what was noted, and are easy from there on; `oldest`: where the slices held
        begin. Where these may hold older rows, or nothing was noted, it is looked at more closely elsewhere."""
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
        """The next report of an ungrouped query; None where its reports have not begun. They begin with the first one
        that was noted, or `shown`, the first that slices held answer: one that joins may find rows in these."""
        following = self.cadence.next_report(self.reported)
        if self.begun:
            return following
        known = [report for report in (shown, self.first_report) if report is not None]
        if not known or min(known) > watermark:
            return None
        self.begun = True
        return max(min(known), following)

    def is_before_the_first(self, report: int) -> bool:
        """Whether an ungrouped query had not begun; one in mid-stream may have begun with what others held."""
        if self.first_report is None:
            return not self.begun
        return self.held_from is None and report < self.first_report

    # -- the groups that it judges, where slices are sparse ------------------------------------------------------

    def touch(self, groups: list[Ints]) -> None:
        """These groups have changed since its last report."""
        self.touched.extend(groups)

    def touch_anew(self, groups: list[Ints]) -> None:
        """These groups, and no others, are to be judged at its next report."""
        self.touched = groups

    def take_touched(self) -> Ints | None:
        """The groups to be judged now, some of them twice, which does no harm; None where there are none."""
        taken, self.touched = self.touched, []
        return np.concatenate(taken) if taken else None

    def judge(self, groups: Ints, passing: NDArray[np.bool_], room: int) -> None:
        """What HAVING says of some groups, of as many as there is room for."""
        if len(self.passing) < room:
            self.passing = np.append(self.passing, np.zeros(room - len(self.passing), np.bool_))
        self.passing[groups] = passing

    def regroup(self, kept: Ints, renamed: Ints, room: int) -> None:
        """Only these groups are left, under new numbers, with room for so many."""
        passing = np.zeros(room, np.bool_)
        known = kept[kept < len(self.passing)]
        passing[: len(known)] = self.passing[known]
        self.passing = passing
        touched = [renamed[groups] for groups in self.touched]
        self.touched = [groups[groups >= 0] for groups in touched]

    # -- what is written down ------------------------------------------------------------------------------------

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
