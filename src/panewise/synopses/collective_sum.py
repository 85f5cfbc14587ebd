"""CI-SUM: which of very many substreams have a sum between two bounds over a suffix time window.

A row of value a is a equal rows of CI-COUNT, entered together: the levels that the a rows pass through are moved once
each, O(p log a) of them. So the sum of positive integers has CI-COUNT's guarantee, word for word (see there); a row of
value 0 adds no copy, but keeps its substream among those with rows in the window. Negative values would shorten a
substream and are refused, as are fractions; sums beyond 2^60 in the longest window are refused too.

Answers all ranges up to the longest, all thresholds, suffix windows by time; historical windows are refused. Cost:
update O(p log a log K), lookup O(candidates), space O(p K log(N a)).
Source: Arasu and Widom 2004, section 4.2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from panewise.errors import DataError
from panewise.synopses.collective_index import CollectiveLevels
from panewise.synopses.collective_levels import LENGTH_MAX, insert_weights

Ints = NDArray[np.int64]


class CollectiveSum(CollectiveLevels):
    """The index of sums.

    >>> index = CollectiveSum(levels=8, longest_us=100)
    >>> index.insert(np.array([0, 1, 0]), np.array([1, 2, 3]), np.array([10, 500, 20]))
    >>> index.lookup(now=5, range_us=10, least=400).tolist()
    [1]
    """

    def insert(self, groups: Ints, times: Ints, values: Ints) -> None:
        """Rows of substreams, in order of time, with the integers that are added up."""
        if values.dtype.kind not in "iu":
            raise DataError("CI-SUM adds integers", hint="it takes no fractions")
        if not len(groups):
            return
        if int(values.min()) < 0:
            raise DataError(
                f"CI-SUM adds integers from 0 on, and {int(values.min())} came",
                hint="sums of negative values are answered by each substream's own synopsis",
            )
        self._check_length(int(values.max()) * len(values))
        self._take(groups, times)
        values = values.astype(np.int64)
        done = 0
        while done < len(groups):
            done = insert_weights(groups, times, values, done, self.levels, self.longest_us, *self._arrays())
            if done < len(groups):
                self._add_class()

    def _check_length(self, more: int) -> None:
        """Keeps the lengths countable: what lies beyond the last class is nobody's position any more."""
        if int(self._lengths.max()) + more < LENGTH_MAX:
            return
        # By a multiple of the last class's size, so that every position kept stays a multiple of what it was one of.
        beyond = np.maximum(self._lengths - (self.levels << self.classes), 0)
        self._lengths -= (beyond >> self.classes) << self.classes
        if int(self._lengths.max()) + more >= LENGTH_MAX:
            raise DataError(f"CI-SUM counts to {LENGTH_MAX} in the longest window, and the values here add up to more")
