"""The first report of a window: pure functions of a window and of points on its axis.

A report is *whole* if its window begins at or after the point from which on all rows were seen. It *shows* the points
that lie in its window. `timeline.py` uses these functions to decide when the reports of a member begin.

    since       |                          not all rows before it were seen
    windows   [-------)                    begins too early
                 [-------)                 whole: the first one
                    [-------)

A range shorter than the slide leaves gaps between windows. A point in a gap is shown by no report:

    windows   [--)      [--)      [--)
    points            *         *          the first lies between two windows; the third report is the first to show one
"""

from __future__ import annotations

import numpy as np

from panewise.arrays import Ints
from panewise.slicing.pairs import Cadence


def reach_of(cadence: Cadence) -> int:
    """The distance from the beginning of a window to its report; from its end, if the window has no beginning."""
    return (cadence.range or 0) + cadence.offset


def first_whole(cadence: Cadence, since: int) -> int:
    """The first report whose window begins at a point or later.

    >>> first_whole(Cadence(10, 4), since=3)
    16
    """
    assert cadence.range is not None
    return cadence.next_report(since + reach_of(cadence) - 1)


def is_whole(cadence: Cadence, report: int, since: int | None) -> bool:
    """Whether a report's window begins at `since` or later. If `since` is None or the window has no beginning: True."""
    return since is None or cadence.range is None or report - reach_of(cadence) >= since


def whole_ones(cadence: Cadence, reports: Ints, since: int | None) -> Ints:
    """The reports whose windows begin at `since` or later."""
    if since is None or cadence.range is None:
        return reports
    return reports[reports - reach_of(cadence) >= since]


def first_candidate(cadence: Cadence, since: int | None, least: int) -> int:
    """A lower bound: no whole report before this one shows a point at `least` or later."""
    first = cadence.next_report(least + cadence.offset)
    return first if since is None or cadence.range is None else max(first, first_whole(cadence, since))


def first_showing(cadence: Cadence, since: int | None, points: Ints, least: int, latest: int) -> int | None:
    """The first whole report that shows one of the points; None if there is none.

    `least` and `latest` are the ends of the points. They decide, unless the first candidate's window begins in between.
    """
    first = first_candidate(cadence, since, least)
    begin = first - reach_of(cadence)
    if cadence.range is None or begin <= least:
        return first
    if latest < begin:
        return None
    later = points[points >= begin]
    if cadence.slide <= cadence.range:
        later = later.min(keepdims=True)  # Windows leave no gaps, so the first point decides.
    reports = np.maximum(cadence.next_reports(later + cadence.offset), first)
    shown = reports[reports - reach_of(cadence) <= later]
    return int(shown.min()) if len(shown) else None
