"""CI-COUNT: which of very many substreams have between so many rows in a suffix time window.

"More than v rows in the last T" is "the row v + 1 from the end came less than T ago". The levels of
`collective_levels.py` hold, for distances that grow by a factor, the timestamp of one row of each substream, and the
lookup takes the level next below (for an upper bound: next above) the distance asked for.

Guarantee, with e = 3/4, 1/2, 1/3, 1/5 for p = 1, 2, 4, 8, in general max(2 / (p + 2), 3 / (2p + 2)):

| condition  | every substream with   | no substream but those with                |
| ---------- | ---------------------- | ------------------------------------------ |
| count > v  | count > v              | count > v (1 - e)                          |
| count < v  | count < v, one or more | count (1 - e) < v, one or more             |
| both       | both                   | both: the intersection of the two          |

The paper writes the upper bound as count < v (1 + e) for some e; with its levels that e is 3, 1, 1/2, 1/4.

Needs nothing of an algebra; answers all ranges up to the longest, all thresholds, suffix windows by time; historical
windows are refused. Cost: update O(p log K) amortised; lookup O(candidates) with a lower bound, O(substreams with rows
in the window) with none. Exact answers check each candidate against its own synopsis (`substream_running.py`).
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
        """Rows of substreams, in order of time."""
        self._take(groups, times)
        done = 0
        while done < len(groups):
            done = insert_units(groups, times, done, self.levels, self.longest_us, *self._arrays())
            if done < len(groups):
                self._add_class()
