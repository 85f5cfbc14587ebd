"""Steps that are cut where the results of one would be too many to hold at once.

Whoever answers queries may go to any instant on the way to where its inputs have come, and says the same: so what takes
many rows, or closes many windows, is done in several steps, and the results of each leave before the next begins.

    rows      How many a step takes follows from what those of the last one made, and at most doubles. Rows of one
              instant are never divided. 30,000 rows of one key, joined with themselves: steps of 1,024 rows first, of
              about 20 in the end.
    reports   A step has so many that they could not hold too many rows, and one report at least.

What rows of one instant make in a join is found in parts where nobody keeps it, also within a step: pairs that are
folded, and results that are only added to (`Core.in_parts`). Everything else that a join makes is in a window,
and held, until it leaves: at one instant no more is made than is held then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from panewise.arrays import Ints
from panewise.slicing.pairs import Cadence

# When a query reports, and how many rows a report has at most besides those to come; 0: as many as come.
InReport = tuple[Cadence, int]
NEVER = -(2**63)
RESULTS_MOST = 1 << 20  # About how many results a step may make.
IN_REPORTS_MOST = 1 << 22  # How many rows the reports of a step may have, if each has as many as it could.
ROWS_FIRST = 1024
ROWS_MOST = 1 << 22


def reports_most(rows: int) -> int:
    """How many reports of at most so many rows a step may have."""
    return max(1, IN_REPORTS_MOST // max(1, rows))


class StepInput(Protocol):
    """Where rows wait, in order of time."""

    def first_times(self, count: int) -> Ints:
        """The times of the first rows, so many or all there are."""


class BoundedSteps:
    """Of one query over rows, or of several that share them."""

    def __init__(self) -> None:
        self._rows = ROWS_FIRST  # How many rows the next step takes.

    def next(self, inputs: Sequence[StepInput], since: int, until: int, reports: Iterable[InReport] = ()) -> int:
        """The instant to which the step from `since` on goes, at most `until`. `reports`: of queries that have some."""
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
        """A step has taken so many rows and made so many results."""
        if results > RESULTS_MOST or 2 * rows >= self._rows:
            fitting = rows * RESULTS_MOST // max(results, 1)
            self._rows = max(1, min(fitting, 2 * self._rows, ROWS_MOST))
