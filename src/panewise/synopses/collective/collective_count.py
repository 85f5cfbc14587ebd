"""CI-COUNT: finds which of very many substreams have a number of rows between two bounds in a suffix time window.

"More than v rows in the last T" means "row v + 1 from the end arrived less than T ago". For distances from the end that
grow by a factor, the levels of `collective_levels.py` have the timestamp of one row of each substream. A lookup uses
the level next below the distance asked for, or next above it for an upper bound.

Guarantee, with e = 3/4, 1/2, 1/3, 1/5 for p = 1, 2, 4, 8, in general max(2 / (p + 2), 3 / (2p + 2)):

| condition  | every substream with   | only substreams with                       |
| ---------- | ---------------------- | ------------------------------------------ |
| count > v  | count > v              | count > v (1 - e)                          |
| count < v  | count < v, one or more | count (1 - e) < v, one or more             |
| both       | both                   | both: the intersection of the two          |

The paper writes the upper bound as count < v (1 + e) for some e; with its levels that e is 3, 1, 1/2, 1/4.

Answers suffix windows by time of all ranges up to the longest, and all thresholds; historical windows are refused.
Cost: update O(p log K) amortised; lookup O(candidates) with a lower bound, without one O(substreams with rows in the
window). For exact answers, each candidate is checked with its own synopsis (`substream_running.py`).
Source: Arasu and Widom 2004, section 4.1.
"""

from __future__ import annotations

from panewise.arrays import Ints
from panewise.synopses.collective.collective_index import CollectiveLevels
from panewise.synopses.collective.collective_levels import insert_units


class CollectiveCount(CollectiveLevels):
    """The index of counts.

    >>> import numpy as np
    >>> index = CollectiveCount(levels=1, longest_us=100)
    >>> index.insert(np.array([0, 1, 0, 0, 1]), np.array([1, 2, 3, 4, 5]))
    >>> sorted(index.lookup(now=5, range_us=4, least=2).tolist())
    [0, 1]
    """

    def insert(self, groups: Ints, times: Ints) -> None:
        """Inserts rows of substreams, which must be in order of time."""
        self._take(groups, times)
        done = 0
        while done < len(groups):
            done = insert_units(groups, times, done, self.levels, self.longest_us, *self._arrays())
            if done < len(groups):
                self._add_class()
