"""The MAX and MIN filters: find the substreams whose extreme over a suffix time window lies within a range.

Of each substream, only rows that are greater than all later ones matter. They form a staircase: times ascend, values
descend. Rows of all substreams are numbered in the order of arrival. A step of a staircase is the maximum of the suffix
windows that begin after the previous step, up to the step itself: an interval of numbers:

    numbers          0    1    2    3    4    5    6    7
    substream 0      9              5         2                    steps 9, 5, 2
    begins in        [9 ]  [      5     ] [   2   ]                a window from row 2 on: maximum 5

So for a suffix window that begins at row b, the answer is all intervals that contain b and have their value in the
range; no two intervals of one substream contain the same b. The intervals are in a segment tree over the numbers: each
is cut into O(log N) blocks, every block keeps its intervals in a treap by (value, substream), and b lies in one block
of each size.

Invariant: the intervals of a substream's steps are disjoint and end with its newest row. Cost: update O(log^2 N)
amortised, because a step is inserted into and removed from O(log N) treaps once; lookup O(log^2 N + answers), exact,
with one or two bounds; space O(N log N) for the N steps held. Numbers run out after about as many rows as there are
steps. Then the steps are renumbered and the tree is rebuilt without the rows that have left the longest window; the
amortised cost is the same.

Values are 64-bit integers or doubles (NaN is the greatest). Suffix windows by time may have any range up to the
longest; historical windows are refused. Source: Arasu and Widom 2004 give only the bounds, in figure 1.
"""

from __future__ import annotations

from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from panewise.arrays import Ints
from panewise.errors import DataError
from panewise.synopses.collective.collective_index import check_window
from panewise.synopses.collective.interval_treaps import (
    NEVER,
    NONE,
    STEP_GROUP,
    STEP_NUMBER,
    STEP_OLDER,
    STEP_PIECE,
    STEP_TIME,
    STEP_VALUE,
    count_pieces,
    cover_all,
    insert_rows,
    report,
)

STACK = 4096  # more than the depth of any treap of 2^31 random priorities
LEAST_ROOM = 256


def ordered_keys(values: NDArray[Any], maximum: bool) -> Ints:
    """Values as integers of the same order, with NaN above all; complemented for minima.

    >>> ordered_keys(np.array([-1.5, 0.0, 2.0, np.nan]), True).tolist() == sorted(
    ...     ordered_keys(np.array([-1.5, 0.0, 2.0, np.nan]), True).tolist()
    ... )
    True
    """
    if values.dtype.kind == "f":
        plain = np.where(np.isnan(values), np.nan, values.astype(np.float64) + 0.0)
        bits = plain.view(np.int64)
        keys = np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)
    else:
        keys = values.astype(np.int64)
    return keys if maximum else ~keys


def values_of_keys(keys: Ints, maximum: bool, floats: bool) -> NDArray[Any]:
    """The values of keys: the inverse of `ordered_keys`."""
    plain = keys if maximum else ~keys
    return np.where(plain < 0, plain ^ np.int64(2**63 - 1), plain).view(np.float64) if floats else plain


class CollectiveExtreme:
    """The index of maxima, or of minima.

    >>> index = CollectiveExtreme(maximum=True, longest_us=100)
    >>> index.insert(np.array([0, 1, 0]), np.array([1, 2, 3]), np.array([9, 4, 5]))
    >>> [sorted(part.tolist()) for part in index.lookup(now=3, range_us=2, least=5)]
    [[0], [5]]
    """

    def __init__(self, maximum: bool, longest_us: int = 2**62, floats: bool = False) -> None:
        self.maximum = maximum
        self.floats = floats
        self.longest_us = longest_us
        self.newest = NEVER
        self._heads: Ints = np.full(64, NONE, np.int64)
        self._begin(LEAST_ROOM)

    def _begin(self, room: int) -> None:
        """Makes an empty tree for `room` numbers, a power of two."""
        self._spare = 2 * room.bit_length()
        self._numbered: Ints = np.empty(room, np.int64)
        self._roots: Ints = np.full(2 * room, NONE, np.int64)
        self._steps: Ints = np.empty((room, 6), np.int64)
        self._pieces: Ints = np.empty((4 * room + self._spare, 7), np.int64)
        self._counters: Ints = np.array([0, NONE, 0, 88172645463325252, NONE, 0], np.int64)

    @property
    def bytes_held(self) -> int:
        arrays = self._heads, self._numbered, self._roots, self._steps, self._pieces
        return sum(array.nbytes for array in arrays)

    def insert(self, groups: Ints, times: Ints, values: NDArray[Any]) -> None:
        """Inserts rows of substreams, which must be in order of time."""
        if not len(groups):
            return
        if self.floats != (values.dtype.kind == "f"):
            raise DataError(f"this filter compares {'doubles' if self.floats else 'integers'}, not {values.dtype}")
        if int(times[0]) < self.newest or bool((times[1:] < times[:-1]).any()):
            raise DataError("a collective index takes rows in order of time", hint="sort them, or reorder them before")
        self.widen(int(groups.max()) + 1)
        keys = ordered_keys(values, self.maximum)
        done = 0
        while True:
            tables = self._heads, self._numbered, self._steps, self._pieces, self._roots, self._counters
            done = insert_rows(groups, times, keys, done, self._spare, *tables)
            if done == len(groups):
                break
            self.newest = int(times[max(done - 1, 0)]) if done else self.newest
            if self._counters[0] == len(self._numbered):
                self._renumber()
            else:
                more = np.empty_like(self._pieces)
                self._pieces = np.concatenate([self._pieces, more])
        self.newest = int(times[-1])

    def widen(self, width: int) -> None:
        """Makes room for this many substreams, including those without rows."""
        if width > len(self._heads):
            more = (1 << (width - 1).bit_length()) - len(self._heads)
            self._heads = np.concatenate([self._heads, np.full(more, NONE, np.int64)])

    def lookup(
        self, now: int, range_us: int, least: float | int | None = None, most: float | int | None = None
    ) -> tuple[Ints, NDArray[Any]]:
        """The substreams whose extreme over (now - range, now] lies between the bounds, inclusive, and these extremes.

        Exact. None means no bound. Substreams without rows in the window are never returned.
        """
        check_window(now, range_us, self.newest, self.longest_us)
        low, high = self._bounds(least, most)
        count = int(self._counters[0])
        behind = max(now - range_us, NEVER + 1)
        begin = int(np.searchsorted(self._numbered[:count], behind, side="right"))
        found, keys = np.empty(len(self._heads), np.int64), np.empty(len(self._heads), np.int64)
        size = 0
        if begin < count:
            size = report(begin, low, high, self._pieces, self._roots, np.empty(STACK, np.int64), found, keys)
        return found[:size], values_of_keys(keys[:size], self.maximum, self.floats)

    def _bounds(self, least: float | int | None, most: float | int | None) -> tuple[int, int]:
        """The bounds as keys. For minima they change places."""
        kind = np.float64 if self.floats else np.int64
        low, high = NEVER, 2**63 - 1
        if least is not None:
            low = int(ordered_keys(np.array([least], kind), True)[0])
        if most is not None:
            high = int(ordered_keys(np.array([most], kind), True)[0])
        return (low, high) if self.maximum else (~high, ~low)

    def live(self) -> Ints:
        """The substreams with steps, ascending."""
        return np.flatnonzero(self._heads != NONE)

    def _kept(self, before: int) -> dict[str, Any]:
        """The steps at or after an instant, in the order of their numbers."""
        used = int(self._counters[5])
        steps = self._steps[:used]
        there = np.flatnonzero((steps[:, STEP_NUMBER] != NONE) & (steps[:, STEP_TIME] >= before))
        order = there[np.argsort(steps[there, STEP_NUMBER])]
        return {
            "groups": steps[order, STEP_GROUP],
            "times": steps[order, STEP_TIME],
            "keys": steps[order, STEP_VALUE],
        }

    def _renumber(self) -> None:
        self._load(self._kept(max(self.newest - self.longest_us, NEVER)), len(self._heads))

    def evict(self, before: int) -> None:
        """Forgets the steps before an instant. It costs O(N log N), so call it when much can be forgotten."""
        self._load(self._kept(before), len(self._heads))

    def regrouped(self, kept: Ints) -> Self:
        """A new index of only these substreams, renumbered in this order."""
        renamed = np.full(len(self._heads), NONE, np.int64)
        renamed[kept] = np.arange(len(kept))
        steps = self._kept(NEVER)
        chosen = renamed[steps["groups"]] >= 0
        steps = {name: part[chosen] for name, part in steps.items()}
        steps["groups"] = renamed[steps["groups"]]
        other = copy(self)
        other._load(steps, max(64, 1 << max(0, len(kept) - 1).bit_length()))
        return other

    def _load(self, kept: dict[str, Any], width: int) -> None:
        """Numbers these steps from 0 and builds their tree in new arrays, with room for as many more."""
        count = len(kept["groups"])
        self._begin(max(LEAST_ROOM, 1 << (2 * count).bit_length()))
        self._heads = np.full(width, NONE, np.int64)
        self._numbered[:count] = kept["times"]
        steps = self._steps
        steps[:count, STEP_TIME], steps[:count, STEP_VALUE] = kept["times"], kept["keys"]
        steps[:count, STEP_GROUP], steps[:count, STEP_NUMBER] = kept["groups"], np.arange(count)
        steps[:count, STEP_PIECE] = NONE
        order = np.argsort(kept["groups"], kind="stable")
        older = np.full(count, NONE, np.int64)
        same = kept["groups"][order][1:] == kept["groups"][order][:-1]
        older[order[1:][same]] = order[:-1][same]
        steps[:count, STEP_OLDER] = older
        self._heads[kept["groups"]] = np.arange(count)  # the last assignment is the newest step
        self._counters[0] = self._counters[5] = count
        pieces = int(count_pieces(steps, count, len(self._numbered))) + self._spare
        if pieces > len(self._pieces):
            self._pieces = np.empty((2 * pieces, 7), np.int64)
        cover_all(count, steps, self._pieces, self._roots, self._counters)

    def snapshot(self) -> dict[str, Any]:
        kept = self._kept(NEVER)
        own = {"maximum": self.maximum, "floats": self.floats, "newest": self.newest, "longest_us": self.longest_us}
        return {**own, "width": len(self._heads), **{name: part.copy() for name, part in kept.items()}}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.maximum, self.floats = snapshot["maximum"], snapshot["floats"]
        self.newest, self.longest_us = snapshot["newest"], snapshot["longest_us"]
        self._load({name: snapshot[name] for name in ("groups", "times", "keys")}, snapshot["width"])
