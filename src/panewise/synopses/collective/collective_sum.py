"""CI-SUM: finds which of very many substreams have a sum between two bounds over a suffix time window.

A row of value a counts as a equal rows of CI-COUNT, inserted together: each level that the a rows pass through moves
once, O(p log a) levels in all. So CI-COUNT's guarantee holds for sums of positive integers. A row of value 0 adds
nothing, but its substream then has a row in the window. Negative values would shorten a substream and are refused, as
are fractions. A row is also refused if it would make its substream longer than 2^60. The length counts all rows that
the classes may still reach, at most about 2 + 2/p times the greatest sum of a window of the longest range.

Answers suffix windows by time of all ranges up to the longest, and all thresholds; historical windows are refused.
Cost: update O(p log a log K), lookup O(candidates), space O(p K log(N a)).
Source: Arasu and Widom 2004, section 4.2.
"""

from __future__ import annotations

import numpy as np

from panewise.arrays import Ints
from panewise.errors import DataError
from panewise.synopses.collective.collective_index import CollectiveLevels
from panewise.synopses.collective.collective_levels import LENGTH_MAX, insert_weights


class CollectiveSum(CollectiveLevels):
    """The index of sums.

    >>> index = CollectiveSum(levels=8, longest_us=100)
    >>> index.insert(np.array([0, 1, 0]), np.array([1, 2, 3]), np.array([10, 500, 20]))
    >>> index.lookup(now=5, range_us=10, least=400).tolist()
    [1]
    """

    def insert(self, groups: Ints, times: Ints, values: Ints) -> None:
        """Inserts rows of substreams, which must be in order of time, with the integers to sum.

        Raises DataError. If a value is negative, no row has been inserted; if a sum is too large, some may have been.
        """
        if values.dtype.kind not in "iu":
            raise DataError("CI-SUM adds integers", hint="it takes no fractions")
        if not len(groups):
            return
        if int(values.min()) < 0:
            raise DataError(
                f"CI-SUM adds integers from 0 on, and {int(values.min())} came",
                hint="sums of negative values are answered by each substream's own synopsis",
            )
        self.widen(int(groups.max()) + 1)
        if not self._countable(groups, values):
            self._insert_halves(groups, times, values)
            return
        self._take(groups, times)
        values = values.astype(np.int64)
        done = 0
        while done < len(groups):
            done = insert_weights(groups, times, values, done, self.levels, self.longest_us, *self._arrays())
            if done < len(groups):
                self._add_class()

    def _insert_halves(self, groups: Ints, times: Ints, values: Ints) -> None:
        """Inserts rows whose sum is too large in two halves, because lengths can be reduced between them."""
        if len(groups) == 1:
            raise DataError(
                f"CI-SUM counts to {LENGTH_MAX} in a substream, and what one holds and a value of {int(values[0])} "
                "add up to more"
            )
        half = len(groups) // 2
        self.insert(groups[:half], times[:half], values[:half])
        self.insert(groups[half:], times[half:], values[half:])

    def _countable(self, groups: Ints, values: Ints) -> bool:
        """Whether the lengths stay below LENGTH_MAX. Reduces lengths by the positions beyond the last class.

        Sums are rounded here; the error is far less than the distance from LENGTH_MAX to the limit of 64 bits.
        """
        if float(self._lengths[groups].max()) + float(values.sum(dtype=np.float64)) < LENGTH_MAX:
            return True
        owners, numbers = np.unique(groups, return_inverse=True)
        lengths = self._lengths[owners]
        # Reduced by a multiple of the last class's size, so that positions stay multiples of their classes' sizes.
        beyond = np.maximum(lengths - (self.levels << self.classes), 0)
        lengths -= (beyond >> self.classes) << self.classes
        self._lengths[owners] = lengths
        sums = np.bincount(numbers, weights=values.astype(np.float64))
        return bool((lengths + sums).max() < LENGTH_MAX)
