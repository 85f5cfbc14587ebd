"""Steps of a plan that are cut where its join would make too many results at once.

A plan may go to any instant on the way to where its inputs have come, and answers the same: so many rows with many
partners each are taken in several steps. How many rows a step takes follows from what the rows of the last one made,
and at most doubles. Rows of one instant are never divided.

    30,000 rows of one key, joined with themselves: steps of 1,024 rows first, of about 20 in the end
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
RESULTS_MOST = 1 << 20  # About how many results a step may make.
ROWS_FIRST = 1024
ROWS_MOST = 1 << 22


class Input(Protocol):
    """Where rows wait, in order of time."""

    def first_times(self, count: int) -> Ints:
        """The times of the first rows, so many or all there are."""


class BoundedSteps:
    """Of one plan."""

    def __init__(self) -> None:
        self._rows = ROWS_FIRST  # How many rows the next step takes.

    def next(self, inputs: Sequence[Input], until: int) -> int:
        """The instant to which the next step goes, at most `until`."""
        times = np.concatenate([part.first_times(self._rows + 1) for part in inputs])
        if len(times) <= self._rows:
            return until
        first_beyond = int(np.partition(times, self._rows)[self._rows])
        first = int(times.min())
        return min(until, first_beyond if first_beyond > first else first + 1)

    def made(self, rows: int, results: int) -> None:
        """A step has taken so many rows and made so many results."""
        if results > RESULTS_MOST or 2 * rows >= self._rows:
            fitting = rows * RESULTS_MOST // max(results, 1)
            self._rows = max(1, min(fitting, 2 * self._rows, ROWS_MOST))
