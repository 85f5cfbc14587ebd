"""The collective index of substreams by levels: the part of CI-COUNT and CI-SUM that does not depend on weights.

It owns the arrays of `collective_levels.py`, which explains their meaning, invariants and costs. It chooses the level
for a bound, checks what is asked, and grows, shrinks and saves the arrays.
"""

from __future__ import annotations

from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from panewise.arrays import Ints
from panewise.errors import DataError, PlanError
from panewise.synopses.collective.collective_levels import (
    CLASSES_MAX,
    NEVER,
    NOBODY,
    NOTHING,
    Shorts,
    collect,
    drop_dead,
)


def check_window(now: int, range_us: int, newest: int, longest_us: int) -> None:
    """Raises PlanError for windows that a collective index cannot answer: historical ones, and too long ones."""
    if now < newest:
        raise PlanError(
            f"a collective index answers windows that end now: there are rows at {newest}, after {now}",
            hint="a historical window is asked of each substream's own synopsis",
        )
    if range_us > longest_us:
        raise PlanError(f"the longest window of this index is {longest_us} microseconds, not {range_us}")


class CollectiveLevels:
    """A collective index over substreams 0, 1, 2, ... for suffix time windows of at most `longest_us`.

    `levels` is the paper's p. Rows are inserted in order of time. A window of range T at instant now has the rows with
    now - T < time <= now. A historical window, with now before the newest row, is refused.
    """

    def __init__(self, levels: int = 1, longest_us: int = 2**62, width: int = 64) -> None:
        if levels < 1:
            raise PlanError(f"a collective index has at least 1 level a class, not {levels}")
        self.levels = levels
        self.longest_us = longest_us
        self.newest = NEVER
        none = np.zeros(0, np.int64)
        self._load(none, none, np.zeros((0, levels), np.int64), width)

    @property
    def relative_error(self) -> float:
        """How far the aggregate of a candidate may be beyond a bound: 3/4, 1/2, 1/3, 1/5 for p = 1, 2, 4, 8."""
        within_class = 0.0 if self.levels == 1 else 2 / (self.levels + 2)
        return max(within_class, 3 / (2 * self.levels + 2))

    @property
    def width(self) -> int:
        """The number of substreams that there is room for."""
        return len(self._lengths)

    @property
    def classes(self) -> int:
        return int(self._stamps.shape[1]) // self.levels

    @property
    def bytes_held(self) -> int:
        return sum(array.nbytes for array in self._arrays())

    def _arrays(self) -> tuple[NDArray[Any], ...]:
        ends = self._lengths, self._latest, self._newer, self._older
        return *ends, self._stamps, self._keys, self._owners, self._places, self._sizes

    def _take(self, groups: Ints, times: Ints) -> None:
        """Checks that rows are in order of time, and makes room for their substreams."""
        if not len(groups):
            return
        if int(times[0]) < self.newest or (len(times) > 1 and bool((times[1:] < times[:-1]).any())):
            raise DataError("a collective index takes rows in order of time", hint="sort them, or reorder them before")
        self.widen(int(groups.max()) + 1)
        self.newest = int(times[-1])

    def widen(self, width: int) -> None:
        """Makes room for this many substreams, including those without rows."""
        if width > self.width:
            self._resize(width, self.classes)

    def _add_class(self) -> None:
        assert self.classes < CLASSES_MAX, "lengths are bounded by LENGTH_MAX"
        self._resize(self.width, self.classes + 1)

    def _resize(self, width: int, classes: int) -> None:
        """Makes room for more substreams or classes. Everything is rebuilt; widths double, so this is rare."""
        more = classes * self.levels - self._stamps.shape[1]
        stamps = np.pad(self._stamps, ((0, 0), (0, more)), constant_values=NEVER)
        self._load(self._lengths, self._latest, stamps, width)

    def levels_of(self, least: int | None, most: int | None) -> Ints:
        """The levels for two bounds: least and most for candidates, then least and most for sure answers.

        A count is surely at least n if a position at distance n or more is in the window; it can only be at least n if
        a position at distance n or less is. NOTHING means no condition. A level may be one that no substream reaches.
        """
        narrowing = self._at_least(least), self._at_most(most)
        sure_least = NOTHING if least is None or least <= 0 else self._at_most(least - 1)
        sure_most = NOTHING if most is None else self._at_least(most + 1)
        return np.array([*narrowing, sure_least, sure_most], np.int64)

    def _at_least(self, least: int | None) -> int:
        if least is None or least <= 0:
            return NOTHING
        p, c = self.levels, 0
        while p * ((1 << (c + 1)) - 1) + (1 << (c + 1)) <= least:  # the farthest distance of the next class's first
            c += 1
        j = min(p - 1, (least - p * ((1 << c) - 1)) // (1 << c) - 1)
        return c * p + j

    def _at_most(self, most: int | None) -> int:
        if most is None:
            return NOTHING
        p, c = self.levels, 0
        while p * ((1 << (c + 1)) - 1) - (1 << c) + 1 < most + 1:  # the nearest distance of this class's last
            c += 1
        j = max(0, -(-(most - p * ((1 << c) - 1)) // (1 << c)))
        return c * p + j

    def lookup(self, now: int, range_us: int, least: int | None = None, most: int | None = None) -> Ints:
        """The substreams whose aggregate over (now - range, now] may lie between `least` and `most`, both inclusive.

        It never misses a substream. Each returned one has a row in the window, and its aggregate a satisfies
        a > (least - 1) * (1 - relative_error) and a * (1 - relative_error) < most + 1. None means no bound.
        """
        return np.concatenate(self.lookup_apart(now, range_us, least, most))

    def lookup_apart(
        self, now: int, range_us: int, least: int | None = None, most: int | None = None
    ) -> tuple[Ints, Ints]:
        """The result of `lookup` in two parts: substreams that surely pass, and those that must be checked exactly."""
        check_window(now, range_us, self.newest, self.longest_us)
        bounds = self.levels_of(least, most)
        if (most is not None and most < max(0, least or 0)) or not self.within_reach(bounds):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        behind = max(now - range_us, NEVER + 1)
        found = np.empty(self.width + 1, np.int32)
        tables = self._stamps, self._keys, self._owners, self._sizes
        sure, count = collect(behind, bounds, self._latest, self._older, *tables, found)
        return found[:sure].astype(np.int64), found[sure:count].astype(np.int64)

    def within_reach(self, bounds: Ints) -> bool:
        """Limits levels to existing ones. Returns False if no substream can reach the least bound."""
        last = self._stamps.shape[1] - 1
        if bounds[0] > last:
            return False
        for place in (1, 3):  # every substream has less, so the bound is no condition
            bounds[place] = NOTHING if bounds[place] > last else bounds[place]
        bounds[2] = NOBODY if bounds[2] > last else bounds[2]
        return True

    def evict(self, before: int) -> int:
        """Forgets the substreams without a row at or after that instant. Returns their number."""
        return int(drop_dead(before, *self._arrays()))

    def live(self) -> Ints:
        """The substreams with rows, ascending."""
        return np.flatnonzero(self._latest != NEVER)

    def regrouped(self, kept: Ints) -> Self:
        """A new index of only these substreams, renumbered in this order."""
        other = copy(self)
        other._load(self._lengths[kept], self._latest[kept], self._stamps[kept], 1)
        return other

    def _load(self, lengths: Ints, latest: Ints, stamps: Ints, least_width: int) -> None:
        """Builds heaps and list from stamps, in new arrays. Stamps in descending order are a heap."""
        count, rows = stamps.shape
        width = max(64, 1 << max(0, max(count, least_width) - 1).bit_length())
        self._lengths: Ints = np.zeros(width, np.int64)
        self._latest: Ints = np.full(width, NEVER, np.int64)
        self._stamps: Ints = np.full((width, rows), NEVER, np.int64)
        self._places: Shorts = np.full((width, rows), NOTHING, np.int32)
        self._keys: Ints = np.zeros((rows, width), np.int64)
        self._owners: Shorts = np.zeros((rows, width), np.int32)
        self._sizes: Ints = np.zeros(rows, np.int64)
        self._lengths[:count], self._latest[:count], self._stamps[:count] = lengths, latest, stamps
        for at in range(1, rows):
            there = np.flatnonzero(self._stamps[:, at] != NEVER)
            order = there[np.argsort(-self._stamps[there, at], kind="stable")]
            self._keys[at, : len(order)], self._owners[at, : len(order)] = self._stamps[order, at], order
            self._places[order, at] = np.arange(len(order))
            self._sizes[at] = len(order)
        there = np.flatnonzero(self._latest != NEVER)
        ring = np.concatenate([[width], there[np.argsort(-self._latest[there], kind="stable")]])
        self._newer: Shorts = np.full(width + 1, width, np.int32)
        self._older: Shorts = np.full(width + 1, width, np.int32)
        self._older[ring], self._newer[ring] = np.roll(ring, -1), np.roll(ring, 1)

    def snapshot(self) -> dict[str, Any]:
        """The stamps, lengths and newest rows as plain arrays. Heaps and list can be rebuilt from them."""
        return {
            "levels": self.levels,
            "newest": self.newest,
            "longest_us": self.longest_us,
            "lengths": self._lengths.copy(),
            "latest": self._latest.copy(),
            "stamps": self._stamps.reshape(-1).copy(),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.levels, self.newest = snapshot["levels"], snapshot["newest"]
        self.longest_us = snapshot["longest_us"]
        lengths = snapshot["lengths"]
        self._load(lengths, snapshot["latest"], snapshot["stamps"].reshape(len(lengths), -1), 1)
