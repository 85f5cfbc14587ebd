"""The buffer before a synopsis of a join: it aggregates new results by the interval in which they will expire.

Results wait here, as states, for the next update. Each falls into one cell: its interval (by its oldest part) and, for
unequal windows, which window's part is younger and by how many slices. Cells become the states that an update wants by
adding them up from the greatest lag down. A result costs O(1), a drain O(b + b g) combinations. Golab 2006, section
8.3.2 ("the behaviour of the buffer is modified to pre-compute ...").
"""

from __future__ import annotations

import numpy as np

from panewise.aggregates.matrix import Encoded
from panewise.aggregates.states import StateKind
from panewise.aggregates.user import matrix_of
from panewise.arrays import Floats, Ints
from papers.arasu2004.join_intervals import JoinIntervals


class JoinBuffer:
    """Of one synopsis, between two of its updates. Flagged intervals are for joins of two windows."""

    def __init__(self, kind: StateKind, width: int, intervals: int, flagged: int = 0) -> None:
        self.width, self.intervals, self.flagged = width, intervals, flagged
        self._cells = matrix_of(kind, intervals * (1 + 2 * flagged) * width)

    @staticmethod
    def of(synopsis: JoinIntervals) -> JoinBuffer:
        return JoinBuffer(synopsis.kind, synopsis.width, synopsis.intervals, synopsis.flagged)

    def fold(
        self, ages: Ints, groups: Ints, arguments: list[Encoded], times: Ints, arrivals: Ints, ranks: Ints
    ) -> None:
        """Results of the current slice: `ages[i]` says how many slices ago each one's part of input i came (0: now)."""
        oldest = ages.max(axis=0)
        assert not len(oldest) or oldest.max() < self.intervals, "a result that has expired"
        cells = self.intervals - 1 - oldest
        if self.flagged:
            first, second = np.minimum(oldest - ages, self.flagged)  # by how many slices each part is younger
            lagging = np.where(first > 0, first, np.where(second > 0, self.flagged + second, 0))
            cells = cells + lagging * self.intervals
        self._cells.fold(cells * self.width + groups, arguments, times, arrivals, ranks)

    def drain(self, ranks: Ints) -> tuple[Ints, Floats]:
        """What an update takes: (fields, intervals, 1 + 2 * flagged, width). The buffer is empty afterwards."""
        for window in (0, self.flagged) if self.flagged else ():
            for lag in range(self.flagged - 1, 0, -1):
                self._add(window + lag, window + lag + 1, ranks)
            self._add(0, window + 1, ranks)
        shape = 1 + 2 * self.flagged, self.intervals, self.width
        ints = np.moveaxis(self._cells.ints.reshape(-1, *shape), 1, 2).copy()
        floats = np.moveaxis(self._cells.floats.reshape(-1, *shape), 1, 2).copy()
        self._cells.reset(slice(None))
        return ints, floats

    def _add(self, into: int, source: int, ranks: Ints) -> None:
        """All intervals of a lag take in those of the next."""
        run = self.intervals * self.width
        self._cells.combine(into * run, self._cells, source * run, run, ranks)
