"""Weaving very many trees: partners come from an index, edges are counted in a window, savings are checked late.

The greedy search of `weaving.py` looks at every pair of trees; of ten thousand strands there are fifty million. Here
a tree looks at a few partners, and prices the most promising ones:

- trees that hold a class which covers one of its own, found by the class: what they have in common costs no edge;
- its neighbours in the order of edge rate per window: where trees have few edges in common, the sum of E_i *
  queries_i is least when windows of similar rates are together;
- the tree with the most edges, which takes in any other with fewest new edges.

Partners are ranked by the edges that joining adds, weighted by the windows on the other side; the `TRIED` best, and
the fullest tree, are priced under the techniques of both. Edges are those within a window of up to `POINTS_MAX`
points, a bit each: exact where a whole number of periods fits in, otherwise a class is off by at most one edge a
window. Where slides are too long for it, edges are taken to meet as often as chance has it. Trees as they come out
have exact rates again, as far as `edge_rate` has them.

    queue  (saving, tree, partner)     a partner that has been joined meanwhile is looked for anew when its turn comes,
                                       and taken at once if it saves nearly as much (SLACK) as it did

So what is joined may save up to a twentieth less than the best among the pairs looked at. Beyond `TREES_MAX` strands,
neighbours in the order of slide and phase are joined unseen at the start. Cost: O(trees log trees) searches of
partners, about 0.1 ms each; space POINTS_MAX / 8 bytes a tree.
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
SLIDES_A_WINDOW = 16  # the longest slide has at least so many edges in it
NEIGHBOURS = 8  # on either side
COVERING = 8
ALL_BELOW = 64  # trees that are left: all are looked at
TRIED = 3
SLACK = 0.05


@compiled_loop
def _mark(bits: Bits, row: int, points: int, slide: int, phase: int) -> None:
    for point in range(phase, points, slide):
        bits[row, point >> 6] |= np.uint64(1) << np.uint64(point & 63)


@compiled_loop
def _union_counts(bits: Bits, row: int, others: Ints, counts: Ints) -> None:
    """How many points are marked in this row or the other, for each other one."""
    for place in range(others.shape[0]):
        other, total = others[place], np.uint64(0)
        for word in range(bits.shape[1]):
            # Bits are counted in pairs, nibbles and bytes; the compiler knows this form for one instruction.
            x = bits[row, word] | bits[other, word]
            x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
            x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
            x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
            total += (x * np.uint64(0x0101010101010101)) >> np.uint64(56)
        counts[place] = total


class _EdgeWindow:
    """The edges of trees, by number, in a window; or only their rates, where slides are too long for one."""

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
        """Edge rates of the tree of this row with each of the others."""
        if self._points:
            counts = np.empty(len(others), np.int64)
            _union_counts(self._bits, row, others, counts)
            return counts / (self._points * self._unit)
        mine, theirs = self.rates[row], self.rates[others]
        return np.asarray(mine + theirs - mine * theirs * self._unit)

    def join(self, row: int, other: int) -> None:
        """The other's edges are this row's too."""
        self.rates[row] = self.joined_rates(row, np.array([other]))[0]
        if self._points:
            self._bits[row] |= self._bits[other]


def _points(slides: set[int], factor: int, longest: int) -> int:
    """A whole number of periods where they are short, else enough for the longest slide."""
    period = 1
    for slide in slides:
        period = lcm(period, slide // factor)
        if period > POINTS_MAX:
            return min(POINTS_MAX, 64 * max(longest, 64))
    return period


class _Partners:
    """The index: trees by the classes they hold, and in the order of edge rate per window."""

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
        """The other is a part of this one from now on."""
        for gone in (number, other):
            del self._order[bisect_left(self._order, (self._keys.pop(gone), gone))]
        self._parents[other] = number
        # Few of a big tree's classes are asked for: the coarsest cover most.
        classes = sorted(self._classes[number] + self._classes.pop(other))[:COVERING]
        self._classes[number] = tuple(classes)
        self._keys[number] = key
        insort(self._order, (key, number))

    def now(self, number: int) -> int:
        """The tree that this one has become a part of."""
        while self._parents[number] != number:
            self._parents[number] = self._parents[self._parents[number]]
            number = self._parents[number]
        return number

    def of(self, number: int) -> list[int]:
        """Neighbours, and holders of classes that cover its own; of few trees, all others."""
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
    """The greedy search; trees have the numbers of rows, and a joined tree that of its first part."""

    def __init__(self, loom: Loom, trees: list[PricedTree]) -> None:
        self._loom = loom
        self._window = _EdgeWindow(trees)
        self._partners = _Partners(trees)
        self._windows = [tree.windows for tree in trees]
        self._counts = np.array([tree.windows.windows for tree in trees])
        self._strands = [list(tree.strands) for tree in trees]
        self._costs: list[float] = []
        self._techniques: list[str] = []
        self._ages = [0] * len(trees)  # how often a tree has grown: -1 where it is a part of another
        for number, tree in enumerate(trees):
            cost, technique = loom.best(float(self._window.rates[number]), tree.windows)
            self._costs.append(cost)
            self._techniques.append(technique)
            self._partners.add(number, self._key(number), tree.classes)
        self._fullest = int(self._window.rates.argmax())

    def _key(self, number: int) -> float:
        return float(self._window.rates[number] / self._counts[number])

    def best_partner(self, number: int) -> tuple[float, int]:
        """The greatest saving among those tried, and the partner."""
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
        while joined:  # once more, because partners grew that had been looked at when they were small
            joined = self._round(least)
        return [self._strands[number] for number, age in enumerate(self._ages) if age >= 0]

    def _round(self, least: float) -> bool:
        """Whether any two were joined."""
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
                continue  # it has grown, or gone, and has another place in the queue
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
    """Joins pairs that save most, of those that the index finds."""
    started = _neighbours_joined(loom, trees)
    found = _Search(loom, started).run()
    return sorted((_exact(loom, trees, strands) for strands in found), key=lambda tree: tree.strands)


def _neighbours_joined(loom: Loom, trees: list[PricedTree]) -> list[PricedTree]:
    """At most TREES_MAX trees."""
    if len(trees) <= TREES_MAX:
        return trees
    ordered = sorted(range(len(trees)), key=lambda number: trees[number].classes)
    together = -(-len(trees) // TREES_MAX)
    return [_exact(loom, trees, ordered[k : k + together]) for k in range(0, len(ordered), together)]


def _exact(loom: Loom, trees: Sequence[PricedTree], numbers: Sequence[int]) -> PricedTree:
    """A tree of these, with its edge rate as `edge_rate` counts it."""
    if len(numbers) == 1:
        return trees[numbers[0]]
    classes = reduced(edge_class for number in numbers for edge_class in trees[number].classes)
    windows = reduce(lambda a, b: a + b, (trees[number].windows for number in numbers))
    rate = loom.edge_rate(classes)
    cost, technique = loom.best(rate, windows)
    return PricedTree(
        tuple(sorted(s for n in numbers for s in trees[n].strands)), classes, rate, windows, technique, cost
    )
