"""A member of a family: an aggregation over a window, for one query or for several that are alike.

An ungrouped query reports every window from the first one that holds a row, before any WHERE, on. So a member notes the
first report that shows a row (`first_report`) until its reports have begun.

    reports      e1        e2        e3        RANGE shorter than SLIDE
    windows   [--)      [--)      [--)
    rows            *         *                the first lies between two windows; e3 is the first report
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from panewise.operators.family.schedule import Schedule
from panewise.plan.aggregation import Aggregation
from panewise.plan.family_plan import MemberPlan
from panewise.slicing.pairs import Cadence

Ints = NDArray[np.int64]
INT64_MIN = -(2**63)
# What is written down of a member, under these names.
MEMBER_MARKS = ("reported", "held_from", "first_report", "begun", "endless", "suspended")


class Member:
    """Reports up to `reported` are out; windows that begin before `held_from` are not whole."""

    def __init__(
        self,
        aggregation: Aggregation,
        cadence: Cadence,
        reported: int,
        held_from: int | None = None,
        timed: bool = True,
        name: str = "",
    ) -> None:
        self.name = name
        self.aggregation = aggregation
        self.cadence = cadence
        self.held_from = held_from
        self.timed = timed  # the axis is event time
        self.first_report: int | None = None
        self.begun = False
        self.endless = False  # a window without a beginning holds rows by now, and always will
        self.window = 0  # its number among the windows of the family; 0 is nobody's
        self.shape = 0  # equal for members that select and aggregate alike
        self.passing: NDArray[np.bool_] = np.zeros(0, np.bool_)  # by group: HAVING keeps it; sparse slices only
        self.touched: list[Ints] = []  # groups to be judged at the next report; sparse slices only
        self.row = 0
        self._schedule: Schedule | None = None  # keeps `reported` once the member is in a family
        self._reported = reported
        self._suspended = False

    def enter(self, schedule: Schedule) -> None:
        """Takes a row of a family's schedule."""
        self.row = schedule.add(self.cadence, self._reported, self.window, self.shape)
        self._schedule = schedule

    @property
    def reported(self) -> int:
        return self._reported if self._schedule is None else self._schedule.reported(self.row)

    @reported.setter
    def reported(self, point: int) -> None:
        if self._schedule is None:
            self._reported = point
        else:
            self._schedule.set_reported(self.row, point)

    @property
    def tree(self) -> int:
        """The tree of the weave that answers it; 0 is the one of the store's own slices."""
        return 0 if self._schedule is None else int(self._schedule.column("tree")[self.row])

    @tree.setter
    def tree(self, number: int) -> None:
        assert self._schedule is not None
        self._schedule.column("tree")[self.row] = number

    @property
    def suspended(self) -> bool:
        return self._suspended

    @suspended.setter
    def suspended(self, suspended: bool) -> None:
        self._suspended = suspended
        self.look_closer()

    def look_closer(self) -> None:
        """It is not easy until it has been looked at again; see `schedule.py`."""
        if self._schedule is not None:
            self._schedule.set_easy(self.row, False)

    def hold_back(self, point: int) -> None:
        """Rows before the point turn out not to have been seen all."""
        self.held_from = point if self.held_from is None else max(point, self.held_from)
        self.look_closer()

    def settle(self, grouped: bool) -> None:
        """It has been looked at: it is easy from now on where nothing speaks against it."""
        assert self._schedule is not None
        self._schedule.set_easy(self.row, self._is_easy(grouped))

    def _is_easy(self, grouped: bool) -> bool:
        """Whether its reports to come need no closer look; see `schedule.py`. Once true it stays so."""
        cadence = self.cadence
        if cadence.range is None or self._suspended or not (grouped or self.begun) or self.reported == INT64_MIN:
            return False
        if self.held_from is None:
            return True
        return cadence.next_report(self.reported) - cadence.range - cadence.offset >= self.held_from

    @property
    def can_move(self) -> bool:
        """Whether slices of other edges than the store's own may answer it."""
        return self.cadence.range is not None and not self.aggregation.holistic

    @property
    def plan(self) -> MemberPlan:
        return MemberPlan(self.name, self.aggregation, self.cadence, self.can_move)

    # -- the first report of an ungrouped query ------------------------------------------------------------------

    def go_on_from(self, other: Member) -> None:
        """Another one has given its reports so far."""
        self.begun = self.begun or other.begun

    def note_first(self, report: int) -> None:
        """A report that shows a row; the earliest counts."""
        self.first_report = report if self.first_report is None else min(report, self.first_report)

    def note_rows(self, points: Ints, least: int, latest: int) -> None:
        """Rows of the stream, before any WHERE: an ungrouped query begins with the first whole window that holds one.

        `least` and `latest` of the points decide, unless they lie on both sides of where a window begins.
        """
        cadence = self.cadence
        reach = (cadence.range or 0) + cadence.offset
        first = cadence.next_report(least + cadence.offset)
        whole = INT64_MIN
        if cadence.range is not None and self.held_from is not None:
            whole = cadence.next_report(self.held_from + reach - 1)
            first = max(first, whole)
        if self.first_report is not None and first >= self.first_report:
            return
        if cadence.range is None or first - reach <= least:
            self.first_report = first
            return
        if latest < first - reach:
            return
        points = points[points >= first - reach]
        if cadence.slide <= cadence.range:
            points = points.min(keepdims=True)  # windows leave no gap in which it could lie
        reports = points + cadence.offset
        reports = np.maximum(reports - (reports - cadence.align) % cadence.slide + cadence.slide, whole)
        reports = reports[reports - reach <= points]  # else the row lies between two windows
        if len(reports):
            self.note_first(int(reports.min()))

    def is_before_the_first(self, report: int) -> bool:
        """Whether an ungrouped query had not begun; one in mid-stream may have begun with what others held."""
        if self.first_report is None:
            return not self.begun
        return self.held_from is None and report < self.first_report

    # -- what is written down ------------------------------------------------------------------------------------

    @property
    def marks(self) -> list[Any]:
        return [getattr(self, mark) for mark in MEMBER_MARKS]

    def set_marks(self, values: list[Any]) -> None:
        for mark, value in zip(MEMBER_MARKS, values, strict=True):
            setattr(self, mark, value)

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
