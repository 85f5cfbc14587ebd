"""Which report of a window is its first: pure functions of a window and of points on its axis.

A report is *whole* when its window begins at or after the point from which on everything is known. It *shows* a point
that lies in its window. `timeline.py` decides with these when the reports of a member begin.

    since       |                          rows before it were not all seen
    windows   [-------)                    begins too early
                 [-------)                 whole: the first one
                    [-------)

A range shorter than the slide leaves gaps between windows, so that a point may be shown by no report:

    windows   [--)      [--)      [--)
    points            *         *          the first lies between two windows; the third report is the first to show one
"""

from __future__ import annotations

import numpy as np

from panewise.arrays import Ints
from panewise.slicing.pairs import Cadence


def reach_of(cadence: Cadence) -> int:
    """How far before a report its window begins; of a window without a beginning, how far before it ends."""
    return (cadence.range or 0) + cadence.offset


def first_whole(cadence: Cadence, since: int) -> int:
    """The first report whose window begins at a point or later.

    >>> first_whole(Cadence(10, 4), since=3)
    16
    """
    assert cadence.range is not None
    return cadence.next_report(since + reach_of(cadence) - 1)


def is_whole(cadence: Cadence, report: int, since: int | None) -> bool:
    """Whether a report's window begins at a point or later; None, and a window without a beginning: all are whole."""
    return since is None or cadence.range is None or report - reach_of(cadence) >= since


def whole_ones(cadence: Cadence, reports: Ints, since: int | None) -> Ints:
    """Those of some reports whose windows begin at a point or later."""
    if since is None or cadence.range is None:
        return reports
    return reports[reports - reach_of(cadence) >= since]


def first_candidate(cadence: Cadence, since: int | None, least: int) -> int:
    """No whole report before this one shows a point from `least` on; windows before `since` are not whole."""
    first = cadence.next_report(least + cadence.offset)
    return first if since is None or cadence.range is None else max(first, first_whole(cadence, since))


def first_showing(cadence: Cadence, since: int | None, points: Ints, least: int, latest: int) -> int | None:
    """The first whole report that shows one of some points, `least` and `latest` among them; None where none does.

    Those two decide, unless they lie on both sides of where a window begins.
    """
    first = first_candidate(cadence, since, least)
    begin = first - reach_of(cadence)
    if cadence.range is None or begin <= least:
        return first
    if latest < begin:
        return None
    later = points[points >= begin]
    if cadence.slide <= cadence.range:
        later = later.min(keepdims=True)  # Windows leave no gap in which it could lie.
    reports = np.maximum(cadence.next_reports(later + cadence.offset), first)
    shown = reports[reports - reach_of(cadence) <= later]
    return int(shown.min()) if len(shown) else None
