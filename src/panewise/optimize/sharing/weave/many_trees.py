"""Weaves very many trees: an index finds partners, edges are counted in a window, and savings are checked late.

The greedy search of `weaving.py` looks at every pair of trees; ten thousand strands have fifty million pairs. Here a
tree looks at a few partners and prices the most promising ones:

- trees with a class that covers one of its own, found by that class: common edges cost nothing;
- its neighbours in the order of edge rate per window: if trees have few common edges, the sum of E_i * queries_i is
  least if windows of similar rates are together;
- the tree with the most edges, which gets the fewest new edges from any other.

Partners are ranked by the edges that joining adds, weighted by the windows on the other side. The `TRIED` best, and the
tree with the most edges, are priced under the techniques of both trees. Edges are counted within a window of up to
`POINTS_MAX` points, with a bit for each. The count is exact if the window has a whole number of periods; otherwise it
is off by at most one edge per class and window. If slides are too long for a window, the number of common edges is that
of independent random points. The final trees have exact rates, as far as `edge_rate` is exact.

    queue  (saving, tree, partner)     if the partner has been joined meanwhile, a new one is searched when the entry's
                                       turn comes, and taken at once if it saves nearly as much (SLACK)

So a joining may save up to a twentieth less than the best among the examined pairs. If there are more than `TREES_MAX`
strands, neighbours in the order of slide and phase are joined at the start without a price. Cost: O(trees log trees)
searches for partners, about 0.1 ms each; POINTS_MAX / 8 bytes per tree.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from functools import reduce
from heapq import heappop, heappush
from math import gcd, lcm

import numpy as np
from numpy.typing import NDArray

from panewise.arrays import Ints
from panewise.loops import compiled_loop
from panewise.optimize.sharing.edges.edge_counts import reduced
from panewise.optimize.sharing.weave.loom import LEAST_SAVING, Loom, PricedTree
from panewise.optimize.sharing.weave.strands import EdgeClass

Bits = NDArray[np.uint64]
TREES_MAX = 1 << 14
POINTS_MAX = 1 << 16
SLIDES_A_WINDOW = 16  # a window has at least this many edges of the longest slide
NEIGHBOURS = 8  # neighbours in the order that are looked at, on either side
COVERING = 8  # trees with a covering class that are looked at
ALL_BELOW = 64  # if at most this many trees are left, all pairs are looked at
TRIED = 3  # partners that are priced
SLACK = 0.05


@compiled_loop
def _mark(bits: Bits, row: int, points: int, slide: int, phase: int) -> None:
    for point in range(phase, points, slide):
        bits[row, point >> 6] |= np.uint64(1) << np.uint64(point & 63)


@compiled_loop
def _union_counts(bits: Bits, row: int, others: Ints, counts: Ints) -> None:
    """For each other row, counts the points that are marked in it or in this row."""
    for place in range(others.shape[0]):
        other, total = others[place], np.uint64(0)
        for word in range(bits.shape[1]):
            # Counts bits in pairs, nibbles and bytes. The compiler turns this form into one instruction.
            x = bits[row, word] | bits[other, word]
            x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
            x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
            x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
            total += (x * np.uint64(0x0101010101010101)) >> np.uint64(56)
        counts[place] = total


class _EdgeWindow:
    """The edges of each tree within a window of points, or only their rates if slides are too long for a window."""

    def __init__(self, trees: Sequence[PricedTree]) -> None:
        slides = {slide for tree in trees for slide, _ in tree.classes}
        factor = reduce(gcd, (number for tree in trees for pair in tree.classes for number in pair), 0) or 1
        longest = max(slides, default=factor) // factor
        self._unit = factor
        self._points = 0
        self.rates = np.array([tree.edge_rate for tree in trees])  # by row
        if longest * SLIDES_A_WINDOW <= POINTS_MAX:
            self._points = _points(slides, factor, longest)
            self._bits = np.zeros((len(trees), -(-self._points // 64)), np.uint64)
            for row, tree in enumerate(trees):
                for slide, phase in tree.classes:
                    _mark(self._bits, row, self._points, slide // factor, phase // factor)
            counts = np.zeros(1, np.int64)
            for row in range(len(trees)):
                _union_counts(self._bits, row, np.array([row]), counts)
                self.rates[row] = counts[0] / (self._points * factor)

    def joined_rates(self, row: int, others: Ints) -> NDArray[np.float64]:
        """The edge rates of the tree of this row joined with each of the others."""
        if self._points:
            counts = np.empty(len(others), np.int64)
            _union_counts(self._bits, row, others, counts)
            return counts / (self._points * self._unit)
        mine, theirs = self.rates[row], self.rates[others]
        return np.asarray(mine + theirs - mine * theirs * self._unit)

    def join(self, row: int, other: int) -> None:
        """Adds the edges of the other row to this row."""
        self.rates[row] = self.joined_rates(row, np.array([other]))[0]
        if self._points:
            self._bits[row] |= self._bits[other]


def _points(slides: set[int], factor: int, longest: int) -> int:
    """The number of points of the window: whole periods if they are short, otherwise enough for the longest slide."""
    period = 1
    for slide in slides:
        period = lcm(period, slide // factor)
        if period > POINTS_MAX:
            return min(POINTS_MAX, 64 * max(longest, 64))
    return period


class _Partners:
    """The index of trees: by their classes, and in the order of edge rate per window."""

    def __init__(self, trees: Sequence[PricedTree]) -> None:
        self._slides = np.array(sorted({slide for tree in trees for slide, _ in tree.classes}), np.int64)
        self._divisors: dict[int, list[int]] = {}
        self._holders: dict[EdgeClass, int] = {}
        self._order: list[tuple[float, int]] = []
        self._keys: dict[int, float] = {}
        self._classes: dict[int, tuple[EdgeClass, ...]] = {}
        self._parents = list(range(len(trees)))

    def add(self, number: int, key: float, classes: tuple[EdgeClass, ...]) -> None:
        self._keys[number] = key
        self._classes[number] = classes
        insort(self._order, (key, number))
        for edge_class in classes:
            self._holders.setdefault(edge_class, number)

    def join(self, number: int, other: int, key: float) -> None:
        """Notes that the other tree has become part of this one."""
        for gone in (number, other):
            del self._order[bisect_left(self._order, (self._keys.pop(gone), gone))]
        self._parents[other] = number
        # Only a few classes of a big tree are looked up. The coarsest ones cover most.
        classes = sorted(self._classes[number] + self._classes.pop(other))[:COVERING]
        self._classes[number] = tuple(classes)
        self._keys[number] = key
        insort(self._order, (key, number))

    def now(self, number: int) -> int:
        """The tree that this one is now part of; itself if it has not been joined to another."""
        while self._parents[number] != number:
            self._parents[number] = self._parents[self._parents[number]]
            number = self._parents[number]
        return number

    def of(self, number: int) -> list[int]:
        """Candidates for joining: neighbours, and trees with covering classes; all others if only few are left."""
        if len(self._order) <= ALL_BELOW:
            return [other for _, other in self._order if other != number]
        place = bisect_left(self._order, (self._keys[number], number))
        near = self._order[max(0, place - NEIGHBOURS) : place + NEIGHBOURS + 1]
        found = {other for _, other in near}
        most = len(found) + COVERING
        for slide, phase in self._classes[number]:
            for divisor in self._divisors_of(slide):
                holder = self._holders.get((divisor, phase % divisor))
                if holder is not None:
                    found.add(self.now(holder))
            if len(found) >= most:
                break
        found.discard(number)
        return list(found)

    def _divisors_of(self, slide: int) -> list[int]:
        found = self._divisors.get(slide)
        if found is None:
            candidates = self._slides[: np.searchsorted(self._slides, slide, "right")]
            found = self._divisors[slide] = candidates[slide % candidates == 0].tolist()
        return found


class _Search:
    """The greedy search. Trees are numbered by rows; a joined tree keeps the number of its first part."""

    def __init__(self, loom: Loom, trees: list[PricedTree]) -> None:
        self._loom = loom
        self._window = _EdgeWindow(trees)
        self._partners = _Partners(trees)
        self._windows = [tree.windows for tree in trees]
        self._counts = np.array([tree.windows.windows for tree in trees])
        self._strands = [list(tree.strands) for tree in trees]
        self._costs: list[float] = []
        self._techniques: list[str] = []
        self._ages = [0] * len(trees)  # how often a tree has grown; -1 if it is part of another tree
        for number, tree in enumerate(trees):
            cost, technique = loom.best(float(self._window.rates[number]), tree.windows)
            self._costs.append(cost)
            self._techniques.append(technique)
            self._partners.add(number, self._key(number), tree.classes)
        self._fullest = int(self._window.rates.argmax())

    def _key(self, number: int) -> float:
        return float(self._window.rates[number] / self._counts[number])

    def best_partner(self, number: int) -> tuple[float, int]:
        """The greatest saving among the priced partners, and that partner."""
        partners = self._partners.of(number)
        if self._fullest != number:
            partners.append(self._fullest)
        if not partners:
            return 0.0, number
        others = np.array(partners, np.int64)
        joined, rates = self._window.joined_rates(number, others), self._window.rates
        added = (joined - rates[number]) * self._counts[number] + (joined - rates[others]) * self._counts[others]
        tried = {partners[place]: place for place in added.argsort()[:TRIED].tolist()}
        tried.setdefault(partners[-1], len(partners) - 1)
        return max((self._saving(number, other, float(joined[place])), other) for other, place in tried.items())

    def _saving(self, a: int, b: int, rate: float) -> float:
        among = tuple(dict.fromkeys((self._techniques[a], self._techniques[b])))
        cost, _ = self._loom.best(rate, self._windows[a] + self._windows[b], among)
        return self._costs[a] + self._costs[b] - cost

    def join(self, a: int, b: int) -> None:
        self._window.join(a, b)
        self._windows[a] = self._windows[a] + self._windows[b]
        self._strands[a] += self._strands[b]
        self._counts[a] += self._counts[b]
        rate = float(self._window.rates[a])
        self._costs[a], self._techniques[a] = self._loom.best(rate, self._windows[a])
        self._ages[a] += 1
        self._ages[b] = -1
        self._partners.join(a, b, self._key(a))
        if self._fullest == b or rate > self._window.rates[self._fullest]:
            self._fullest = a

    def run(self) -> list[list[int]]:
        """The strands of every tree."""
        least = LEAST_SAVING * (self._loom.once + sum(self._costs))
        joined = True
        while joined:  # repeat, because partners have grown since they were looked at
            joined = self._round(least)
        return [self._strands[number] for number, age in enumerate(self._ages) if age >= 0]

    def _round(self, least: float) -> bool:
        """Joins trees until no entry of the queue saves enough. Returns whether any were joined."""
        queue: list[tuple[float, int, int, int, int]] = []
        joined = False

        def put(number: int) -> None:
            saved, partner = self.best_partner(number)
            if saved > least:
                heappush(queue, (-saved, number, self._ages[number], partner, self._ages[partner]))

        for number, age in enumerate(self._ages):
            if age >= 0:
                put(number)
        while queue:
            negative, a, age, b, partner_age = heappop(queue)
            if self._ages[a] != age:
                continue  # the tree has grown or is gone; if it has grown, it has a newer entry
            if self._ages[b] != partner_age:
                saved, b = self.best_partner(a)
                if saved < -negative * (1 - SLACK):
                    if saved > least:
                        heappush(queue, (-saved, a, age, b, self._ages[b]))
                    continue
            self.join(a, b)
            joined = True
            put(a)
        return joined


def joined_by_near_pairs(loom: Loom, trees: list[PricedTree]) -> list[PricedTree]:
    """The trees after joining the pairs that save most, among those that the index finds."""
    started = _neighbours_joined(loom, trees)
    found = _Search(loom, started).run()
    return sorted((_exact(loom, trees, strands) for strands in found), key=lambda tree: tree.strands)


def _neighbours_joined(loom: Loom, trees: list[PricedTree]) -> list[PricedTree]:
    """At most TREES_MAX trees: if there are more, neighbours by slide and phase are joined."""
    if len(trees) <= TREES_MAX:
        return trees
    ordered = sorted(range(len(trees)), key=lambda number: trees[number].classes)
    together = -(-len(trees) // TREES_MAX)
    return [_exact(loom, trees, ordered[k : k + together]) for k in range(0, len(ordered), together)]


def _exact(loom: Loom, trees: Sequence[PricedTree], numbers: Sequence[int]) -> PricedTree:
    """The tree of these trees, with the edge rate from `edge_rate`."""
    if len(numbers) == 1:
        return trees[numbers[0]]
    classes = reduced(edge_class for number in numbers for edge_class in trees[number].classes)
    windows = reduce(lambda a, b: a + b, (trees[number].windows for number in numbers))
    rate = loom.edge_rate(classes)
    cost, technique = loom.best(rate, windows)
    return PricedTree(
        tuple(sorted(s for n in numbers for s in trees[n].strands)), classes, rate, windows, technique, cost
    )
