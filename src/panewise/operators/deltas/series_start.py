"""When the series of answers of an ungrouped aggregate over several inputs begins.

A continuous query has an answer from the first row of an input on. A periodic query begins with the first report that
shows a row of an input: if the slide is longer than the range, rows may come and go between two reports. For a query
that starts in mid-stream the series has begun already, unless such gaps make it uncertain that an earlier row would
have been shown.

    reports       0         1         2         3         RANGE 1 SLIDE 3, in thirds of the slide
    rows            *  *             *     *              the third row is the first that a report shows: number 2
"""

from __future__ import annotations

from collections.abc import Sequence

from panewise.arrays import Ints
from panewise.operators.lifetimes import FOREVER
from panewise.operators.relation_to_stream import report_number
from panewise.operators.row_batch import Rows
from panewise.temporal import TimeWindow


def surely_shown(range_us: int | None, report: TimeWindow | None) -> bool:
    """Whether every row in a window of this range is in a report: the slide leaves no gap."""
    return report is None or report.slide_us is None or range_us is None or range_us >= report.slide_us


def first_shown(births: Ints, deaths: Ints, report: TimeWindow | None) -> int:
    """The birth of the first row that a report shows (`report` None: of the first row), FOREVER if none does. Births
    and deaths ascend."""
    if report is not None:
        births = births[report_number(report, deaths) > report_number(report, births)]
    return int(births[0]) if len(births) else FOREVER


def first_of_inputs(rows: Sequence[Rows], ranges: Sequence[int], report: TimeWindow | None) -> int:
    """The birth of the first row that a report shows, over several inputs with windows of these ranges in microseconds.
    Rows are in order of time."""
    found = (first_shown(part.times, part.times + range_, report) for part, range_ in zip(rows, ranges, strict=True))
    return min(found, default=FOREVER)
