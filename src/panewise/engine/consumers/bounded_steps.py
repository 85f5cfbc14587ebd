"""Steps of bounded size, so that the results of one step are never too many to hold at once.

A consumer may stop at any instant before the watermark of its inputs without changing its answers. So it takes many
rows, or closes many windows, in several steps, and the results of each step leave before the next one begins.

    rows      The number of rows in a step follows from the number of results of the last step, and at most doubles.
              Rows of one instant are never divided. When 30,000 rows of one key are joined with themselves, steps
              begin with 1,024 rows and end with about 20.
    reports   A step has as many reports as cannot hold too many rows, and at least one.

Within a step, a join finds the results of one instant in parts if nobody keeps them: pairs that are folded, and results
that are only added (`Core.in_parts`). All other results of a join are in a window and are held until they leave it, so
one instant makes no more results than are held then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from panewise.arrays import Ints
from panewise.slicing.pairs import Cadence

# The reports of a query: when they come due, and how many rows one has at most besides rows to come; 0: none besides.
InReport = tuple[Cadence, int]
NEVER = -(2**63)
RESULTS_MOST = 1 << 20  # A step makes about this many results at most.
IN_REPORTS_MOST = 1 << 22  # The reports of a step have at most this many rows, if each has as many as it can.
ROWS_FIRST = 1024
ROWS_MOST = 1 << 22


def reports_most(rows: int) -> int:
    """The number of reports that a step may have, if a report has at most this many rows."""
    return max(1, IN_REPORTS_MOST // max(1, rows))


class StepInput(Protocol):
    """An input whose rows wait in order of time."""

    def first_times(self, count: int) -> Ints:
        """The times of the first `count` rows, or of all if there are fewer."""


class BoundedSteps:
    """The sizes of the steps of one consumer."""

    def __init__(self) -> None:
        self._rows = ROWS_FIRST  # Number of rows that the next step takes.

    def next(self, inputs: Sequence[StepInput], since: int, until: int, reports: Iterable[InReport] = ()) -> int:
        """The instant, at most `until`, to which the step from `since` goes. `reports`: those of the queries."""
        times = np.concatenate([part.first_times(self._rows + 1) for part in inputs])
        if len(times) > self._rows:
            first_beyond = int(np.partition(times, self._rows)[self._rows])
            first = int(times.min())
            until = min(until, first_beyond if first_beyond > first else first + 1)
        if since == NEVER:
            since = int(times.min()) if len(times) else until
        for cadence, rows in reports:
            if rows:
                last = cadence.next_report(since) + (reports_most(rows + len(times)) - 1) * cadence.slide
                until = min(until, last)
        return until

    def made(self, rows: int, results: int) -> None:
        """A step took this many rows and made this many results."""
        if results > RESULTS_MOST or 2 * rows >= self._rows:
            fitting = rows * RESULTS_MOST // max(results, 1)
            self._rows = max(1, min(fitting, 2 * self._rows, ROWS_MOST))
