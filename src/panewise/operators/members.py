"""Members of a tree, and the first report that a member can answer exactly.

A query that joins in mid-stream starts with history where the slices held answer it exactly, otherwise with its first
whole window: one whose rows were all seen, whose states were kept all along, and whose ends straddle no slice.

Where a host gives the cuts, it runs several trees for one set of members, each with a part of the groups. They must
agree on a member's first report whatever rows they hold, so there edges and marks alone decide, not slices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from panewise.operators.aggregation import Aggregation
from panewise.operators.schedule import Schedule
from panewise.slicing.pairs import Cadence

if TYPE_CHECKING:
    from panewise.operators.periodic import PeriodicTree

Ints = NDArray[np.int64]
CANDIDATES = 1000
INT64_MIN = -(2**63)


class Member:
    """What a tree answers: an aggregation over a window, for one query or for several that are alike.

    Reports up to `reported` are out; windows that begin before `held_from` are not whole.
    """

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
        # An ungrouped query reports every window from the first one that holds a row, before any WHERE, on.
        self.first_report: int | None = None
        self.begun = False
        self.endless = False  # a window without a beginning holds rows by now, and always will
        self.window = 0  # its number among the windows of the tree; 0 is nobody's
        self.shape = 0  # equal for members that select and aggregate alike
        self.passing: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.touched: list[Ints] = []
        self.schedule: Schedule | None = None  # where `reported` is kept once it is in a tree
        self.row = 0
        self._reported = reported
        self._suspended = False

    @property
    def reported(self) -> int:
        return self._reported if self.schedule is None else self.schedule.reported(self.row)

    @reported.setter
    def reported(self, point: int) -> None:
        if self.schedule is None:
            self._reported = point
        else:
            self.schedule.set_reported(self.row, point)

    @property
    def tree(self) -> int:
        """The tree of the weave that answers it; 0 is the one of the store's own slices."""
        return 0 if self.schedule is None else int(self.schedule.column("tree")[self.row])

    @tree.setter
    def tree(self, number: int) -> None:
        assert self.schedule is not None
        self.schedule.column("tree")[self.row] = number

    @property
    def suspended(self) -> bool:
        return self._suspended

    @suspended.setter
    def suspended(self, suspended: bool) -> None:
        self._suspended = suspended
        if self.schedule is not None:
            self.schedule.set_easy(self.row, False)

    @property
    def can_move(self) -> bool:
        """Whether slices of other edges than the store's own may answer it."""
        return self.cadence.range is not None and not self.aggregation.holistic

    def is_easy(self, grouped: bool) -> bool:
        """Whether its reports to come need no closer look; see `schedule.py`. Once true it stays so."""
        cadence = self.cadence
        if cadence.range is None or self._suspended or not (grouped or self.begun) or self.reported == INT64_MIN:
            return False
        if self.held_from is None:
            return True
        return cadence.next_report(self.reported) - cadence.range - cadence.offset >= self.held_from


def note_rows(member: Member, points: Ints, least: int, latest: int) -> None:
    """Rows of the stream, before any WHERE: an ungrouped query begins with the first whole window that holds one.

    `least` and `latest` of the points decide, unless they lie on both sides of where a window begins.
    """
    cadence = member.cadence
    reach = (cadence.range or 0) + cadence.offset
    first = cadence.next_report(least + cadence.offset)
    whole = INT64_MIN
    if cadence.range is not None and member.held_from is not None:
        whole = cadence.next_report(member.held_from + reach - 1)
        first = max(first, whole)
    if member.first_report is not None and first >= member.first_report:
        return
    if cadence.range is None or first - reach <= least:
        member.first_report = first
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
        found = int(reports.min())
        member.first_report = found if member.first_report is None else min(found, member.first_report)


def first_answerable(tree: PeriodicTree, member: Member) -> int:
    """The first report from which on all windows are whole: as early as the last one due, if slices held allow."""
    cadence, since = member.cadence, member.held_from
    soonest = cadence.next_report(tree.watermark) - cadence.slide
    if cadence.range is None:
        return soonest + cadence.slide
    # Past the newest cut every window of a member begins and ends at an edge; past `evicted_to` all slices are held.
    # Before that, back from there, each report is asked for by itself: one that is not whole makes those before it
    # useless.
    marks = tree.cut, since, None if tree.by_cuts else tree.evicted_to
    seen = max(mark for mark in marks if mark is not None)
    report = max(soonest + cadence.slide, cadence.next_report(seen + cadence.range + cadence.offset - 1))
    for _ in range(CANDIDATES):
        if report == soonest or not is_whole(tree, cadence, report - cadence.slide, since):
            break
        report -= cadence.slide
    return report


def is_whole(tree: PeriodicTree, cadence: Cadence, report: int, since: int | None) -> bool:
    """Whether slices held, and those to come, answer this report exactly; `since`: rows before it were not all seen."""
    start, end = cadence.start(report), report - cadence.offset
    if start is None:
        return True
    if since is not None and start < since:
        return False
    if tree.by_cuts:
        return start >= tree.needed_from and tree.store.open.is_edge(start) and tree.store.open.is_edge(end)
    if tree.evicted_to is not None and start < tree.evicted_to:
        return False
    if tree.store.passed(cadence, report):
        return False
    if any(
        _straddled(slices.starts, slices.ends, edge)
        for slices in (tree.store, tree.store.open)
        for edge in (start, end)
    ):
        return False
    if end <= tree.watermark:
        return True
    # Rows yet to come before the newest cut fall into slices of the edges before it, and the first of these slices may
    # begin before the watermark.
    opens = tree.store.open.slice_start(tree.watermark)
    return all(tree.store.open.is_edge(edge) for edge in (start, end) if opens < edge < tree.cut)


def _straddled(starts: Ints, ends: Ints, point: int) -> bool:
    """Whether the point lies within a slice, of slices in order of time."""
    place = int(starts.searchsorted(point)) - 1
    return place >= 0 and bool(ends[place] > point)
