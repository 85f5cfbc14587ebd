"""When the windows over a join report, and which slices each report reads.

A report is due if it can have rows: without GROUP BY always from the start on, with it only if some slice lies in its
window. Reports are ordered by instant, and at one instant from the shortest window to the longest, as the loops need
them. Cost: O(reports log reports) a step. If very many reports might be due, the reports with slices are found from the
slices, in O(windows x slices).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from panewise.arrays import Ints
from panewise.operators.lifetimes import NEVER
from panewise.operators.row_windows.row_window import spread

LISTED_MAX = 1 << 16  # most reports that are listed before those without slices are dropped
LONG_AGO = -(2**62)  # before any row; small additions and subtractions do not overflow


@dataclass(frozen=True)
class JoinWindow:
    """A query's reports: at `align + k * slide`, none before `first`. `range` is the longest of its windows."""

    range: int
    slide: int
    align: int
    first: int = NEVER


@dataclass(frozen=True)
class DueJoinReports:
    """The reports of a step.

    `cuts[i]` results of the step are born before instant i, and `highs[i]` slices begin before it. Its reports are
    [due_ends[i - 1], due_ends[i]). Report j is that of the window at position `windows[j]`, at the instant `ends[j]`,
    and reads the slices from position `lows[j]` on.
    """

    instants: Ints
    cuts: Ints
    highs: Ints
    due_ends: Ints
    windows: Ints
    ends: Ints
    lows: Ints


class JoinSchedule:
    """The reports of several windows."""

    def __init__(self, windows: Iterable[JoinWindow] = ()) -> None:
        spans = [(w.range, w.slide, w.align, max(w.first, LONG_AGO)) for w in windows]
        self._ranges, self._slides, self._aligns, self._firsts = np.array(spans, np.int64).reshape(-1, 4).T.copy()

    def _next(self, after: Ints) -> Ints:
        """The first report of each window strictly after a point."""
        after = np.maximum(after, self._firsts - 1)
        return after - (after - self._aligns) % self._slides + self._slides

    def horizon(self, until: int) -> int:
        """No report after `until` reads points before the horizon. Windows added later read from `until` on."""
        starts = self._next(np.full(len(self._ranges), until)) - self._ranges
        return min(until, int(starts.min()))

    def started(self, since: int, starts: Ints) -> Ints:
        """Without GROUP BY: every report of a window after this instant is due. `starts`: by window, the birth of the
        first row that it shows."""
        return np.maximum(max(since, LONG_AGO), starts)

    def due(
        self, births: Ints, slices: tuple[Ints, Ints], after: Ints, upto: int, only_with_slices: bool
    ) -> DueJoinReports:
        """The reports in (after, upto], `after` being by window, over slices with these starts and ends."""
        begin, starts = self._next(np.minimum(after, upto)), slices[0]
        counts = np.maximum((upto - begin) // self._slides + 1, 0)
        if only_with_slices and counts.sum() > LISTED_MAX:
            windows, ends = self._near(slices, begin, upto)
        else:
            windows = np.repeat(np.arange(len(counts)), counts)
            ends = begin[windows] + spread(np.zeros_like(counts), counts) * self._slides[windows]
        lows = np.searchsorted(starts, ends - self._ranges[windows], side="left")
        if only_with_slices:
            some = lows < np.searchsorted(starts, ends, side="left")
            windows, ends, lows = windows[some], ends[some], lows[some]
        order = np.lexsort((-lows, ends))
        windows, ends, lows = windows[order], ends[order], lows[order]
        instants = np.unique(ends)
        cuts, highs = np.searchsorted(births, instants, side="left"), np.searchsorted(starts, instants, side="left")
        return DueJoinReports(instants, cuts, highs, np.searchsorted(ends, instants, side="right"), windows, ends, lows)

    def _near(self, slices: tuple[Ints, Ints], begin: Ints, upto: int) -> tuple[Ints, Ints]:
        """The reports with slices in their windows, found from the slices: windows and ends."""
        windows, ends = [], []
        for i, (first, range_, slide) in enumerate(zip(begin, self._ranges, self._slides, strict=True)):
            lows = np.maximum((slices[0] - first) // slide + 1, 0)  # numbers of reports; that at `first` is 0
            highs = (np.minimum(slices[1] + range_, upto) - first) // slide
            lows[1:] = np.maximum(lows[1:], np.maximum.accumulate(highs)[:-1] + 1)  # lists each report once
            numbers = spread(lows, np.maximum(highs - lows + 1, 0))
            windows.append(np.full(len(numbers), i, np.int64))
            ends.append(first + numbers * slide)
        return np.concatenate(windows), np.concatenate(ends)
