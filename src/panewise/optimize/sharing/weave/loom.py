"""Prices of trees while they are woven: the cost of a set of strands in one tree, and its best technique."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from panewise.optimize.sharing.costs.weave_costs import CostModel, WindowSums, window_sums
from panewise.optimize.sharing.edges.edge_counts import edge_rate, reduced
from panewise.optimize.sharing.weave.strands import EdgeClass, Strand

LEAST_SAVING = 1e-12  # relative to the cost of the plan; a smaller saving may be a rounding error


@dataclass(frozen=True, eq=False)
class PricedTree:
    """A tree while it is woven: the numbers of its strands, its reduced classes, windows, and best technique."""

    strands: tuple[int, ...]
    classes: tuple[EdgeClass, ...]
    edge_rate: float
    windows: WindowSums
    technique: str
    cost: float  # includes what each tree costs besides its technique


class Loom:
    """Prices trees. `once` is charged once to the plan, and `each` to every tree besides its technique."""

    def __init__(self, model: CostModel, techniques: Sequence[str], once: float, each: float, method: str) -> None:
        if not techniques:
            raise ValueError("no technique is admitted")
        self.model = model
        self.techniques = tuple(techniques)
        self.once = once
        self.each = each
        self.method = method
        self._rates: dict[tuple[EdgeClass, ...], float] = {}

    def edge_rate(self, classes: tuple[EdgeClass, ...]) -> float:
        """The edge rate of reduced classes; 0 for none, as of an unbounded window with cutty slicing."""
        found = self._rates.get(classes)
        if found is None:
            found = self._rates[classes] = edge_rate(classes, self.method).per_unit if classes else 0.0
        return found

    def best(self, rate: float, windows: WindowSums, among: Sequence[str] = ()) -> tuple[float, str]:
        """The cost of a tree with its cheapest technique, and that technique, the first among equals."""
        cost, technique = math.inf, ""
        for name in among or self.techniques:
            priced = self.model.tree_of(name, rate, windows)
            if priced < cost or not technique:
                cost, technique = priced, name
        return self.each + cost, technique

    def strand(self, number: int, strand: Strand) -> PricedTree:
        """A tree of one strand."""
        windows = window_sums(strand.ranges, strand.slides, strand.counts)
        classes = reduced(strand.classes)
        rate = self.edge_rate(classes)
        cost, technique = self.best(rate, windows)
        return PricedTree((number,), classes, rate, windows, technique, cost)

    def joined(self, a: PricedTree, b: PricedTree) -> PricedTree:
        """A tree of the strands of both."""
        classes = reduced((*a.classes, *b.classes))
        rate, windows = self.edge_rate(classes), a.windows + b.windows
        cost, technique = self.best(rate, windows)
        return PricedTree(tuple(sorted(a.strands + b.strands)), classes, rate, windows, technique, cost)

    def cost_of(self, trees: Sequence[PricedTree]) -> float:
        """The cost of a plan of these trees."""
        return self.once + sum(tree.cost for tree in trees)

    def for_composites(self, composite_rate: float) -> Loom:
        """The loom of TriWeave: rows are folded once, and each tree takes in composite partials."""
        loom = Loom(self.model, self.techniques, self.each, self.model.intake(composite_rate), self.method)
        loom._rates = self._rates
        return loom
