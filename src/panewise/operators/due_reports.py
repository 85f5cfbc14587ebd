"""The reports that are due: instants whose windows hold rows. Gaps in the stream cost nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from panewise.arrays import Ints
from panewise.slicing.pairs import Cadence

EARLIEST = -(2**62)  # before every row, but subtracting from it does not overflow


@dataclass(frozen=True)
class EmptyReports:
    """Reports of an ungrouped query over empty windows: `count` of them from `first` on, `slide` apart."""

    first: int
    count: int
    slide: int

    @property
    def points(self) -> Ints:
        """The point of each report."""
        return self.first + self.slide * np.arange(self.count, dtype=np.int64)


def due_reports(cadence: Cadence, starts: Ints, ends: Ints, after: int, upto: int) -> Ints:
    """The reports e with after < e <= upto whose window holds at least one slice, ascending.

    Slices are in time order, and none extends over an end of a window. Cost: O(slices + reports).

    >>> due_reports(Cadence(10, 5), np.array([0, 40]), np.array([5, 45]), -1, 100).tolist()
    [5, 10, 45, 50]
    """
    if not len(starts) or upto <= after:
        return np.empty(0, np.int64)
    after = max(after, EARLIEST)
    slide, shift = cadence.slide, cadence.offset - cadence.align
    first = -(-(ends + shift) // slide)
    last = np.full(len(starts), (upto - cadence.align) // slide)
    if cadence.range is not None:
        last = np.minimum(last, (starts + (cadence.range + shift)) // slide)
    first = np.maximum(first, (after - cadence.align) // slide + 1)
    # Reports of earlier slices are not counted again.
    reached = np.maximum.accumulate(last)
    first[1:] = np.maximum(first[1:], reached[:-1] + 1)
    counts = np.maximum(last - first + 1, 0)
    total = int(counts.sum())
    before = np.cumsum(counts) - counts
    numbers = np.repeat(first - before, counts) + np.arange(total)
    result: Ints = numbers * slide + cadence.align
    return result
