r"""WeaveShare and TriWeave: which queries of a family share a tree, and by which technique each tree answers.

    no-share plan        o   o   o   o   o   o        every strand a tree
    best pairs            \ /    |    \ /    |        join the two trees whose joining reduces the cost of
                           o     |     o     |        the plan most, until no joining reduces it
    the weave               \   /            |
                              o              o

The cost of a plan of m trees, per unit of the axis (Shein and Chrysanthis 2020, equation 1), E_i being the edge rate
of a tree and Omega_i the operations of its technique an edge:

    WeaveShare   m fold(rate) + sum E_i Omega_i                 every tree folds the rows itself
    TriWeave     fold(rate) + m intake(E) + sum E_i Omega_i     rows are folded once into composite slices; E, the
                                                                rate of the edges of all queries, is a constant of
                                                                the plan; a tree takes the composite partials in

As printed, equation 1 charges every tree the input rate; for TriWeave it is charged once here. A TriWeave plan of one
tree has no intake, because its slices are the composite ones. So the last joining may pay although the one before it
did not. Therefore the plan of one tree is compared with the one found. The result never costs more than full sharing
and, for WeaveShare, never more than no sharing.

A tree's technique is the cheapest admitted one, and is chosen again for every joining that is considered. Queries with
equal edges are joined beforehand (`strands.py`). Up to `FEW_STRANDS` strands every pair is priced once, and later only
pairs with a new tree: O(n^2) evaluations of the model. With more strands, or more than `FEW_HARD_STRANDS` whose edges
have no short period, an index finds partners, and edges are counted in a window (`many_trees.py`). Source: Shein and
Chrysanthis 2020, section 3.1.1, with the correction for TriWeave.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from itertools import combinations

import numpy as np

from panewise.optimize.sharing.costs.weave_costs import CostModel, window_sums
from panewise.optimize.sharing.edges.edge_counts import Slicing, reduced
from panewise.optimize.sharing.weave.loom import LEAST_SAVING, Loom, PricedTree
from panewise.optimize.sharing.weave.strands import CadenceColumns, Strand, strands_of
from panewise.slicing.pairs import Cadence

OPTIMIZERS = ("tri_weave", "weave_share", "none", "full")
FEW_STRANDS = 128
FEW_HARD_STRANDS = 48  # the limit if edges have a long period, so that counting them is slow
PERIOD_MAX_EASY = 1 << 13
ALONE_AT_MOST = 64  # distinct windows of a strand that are priced one by one


@dataclass(frozen=True)
class WovenTree:
    """Queries, by their numbers, that share slices and a technique. The cost is per unit of the axis.

    `edges`: where slices are cut, as residue classes (slide, phase).
    """

    members: tuple[int, ...]
    technique: str
    edge_rate: float
    cost: float
    edges: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Weave:
    """The trees, ordered by their least members. `cost_alone`: with no sharing. `cost_full`: with one tree for all."""

    trees: tuple[WovenTree, ...]
    cost: float
    cost_alone: float
    cost_full: float


def weave(
    cadences: Sequence[Cadence] | CadenceColumns,
    rate: float,
    model: CostModel,
    techniques: Sequence[str],
    optimizer: str = "tri_weave",
    slicing: Slicing = Slicing.PAIRS,
    method: str = "auto",
    price_alone: bool = True,
) -> Weave:
    """Divides the queries into trees. `rate` is in rows per unit of the axis.

    Without `price_alone`, `cost_alone` is not computed and infinite.

    >>> from panewise.optimize.sharing.costs.weave_costs import OperationModel
    >>> woven = weave(
    ...     [Cadence(6, 2), Cadence(8, 4), Cadence(700, 70)], 1.0, OperationModel(), ["slick_deque"], "weave_share"
    ... )
    >>> [tree.members for tree in woven.trees]
    [(0, 1), (2,)]
    """
    if optimizer not in OPTIMIZERS:
        raise ValueError(f"there is no optimizer '{optimizer}': {', '.join(OPTIMIZERS)}")
    columns = cadences if isinstance(cadences, CadenceColumns) else CadenceColumns.of(cadences)
    strands = strands_of(columns, slicing)
    if not strands:
        return Weave((), 0.0, 0.0, 0.0)
    loom = Loom(model, techniques, 0.0, model.fold(rate), method)
    single = [loom.strand(number, strand) for number, strand in enumerate(strands)]
    whole = tree_of_all(loom, strands)
    cost_alone = math.inf
    if price_alone:
        cost_alone = sum(_cost_alone(loom, tree, strand) for tree, strand in zip(single, strands, strict=True))
    found, cost = [whole], whole.cost
    if optimizer == "none":
        alone = _every_query(loom, single, strands)
        return Weave(tuple(alone), sum(tree.cost for tree in alone), cost_alone, cost)
    if optimizer == "tri_weave":
        loom = loom.for_composites(whole.edge_rate)
        single = [replace(tree, cost=tree.cost - loom.once + loom.each) for tree in single]
    if optimizer != "full":
        woven = woven_trees(loom, single)
        if len(woven) > 1 and loom.cost_of(woven) < cost:
            found, cost = woven, loom.cost_of(woven)
    trees = sorted((_shown(strands, tree) for tree in found), key=lambda tree: tree.members[0])
    return Weave(tuple(trees), cost, cost_alone, whole.cost)


def woven_trees(loom: Loom, trees: list[PricedTree]) -> list[PricedTree]:
    """The trees after the greedy search, over all pairs or with the index."""
    slides = {slide for tree in trees for slide, _ in tree.classes}
    easy = len(trees) <= FEW_STRANDS and math.lcm(*slides) <= PERIOD_MAX_EASY * math.gcd(*slides)
    if len(trees) <= (FEW_STRANDS if easy or loom.method != "auto" else FEW_HARD_STRANDS):
        return joined_by_best_pairs(loom, trees)
    from panewise.optimize.sharing.weave.many_trees import joined_by_near_pairs  # its loops are compiled

    return joined_by_near_pairs(loom, trees)


def joined_by_best_pairs(loom: Loom, trees: list[PricedTree]) -> list[PricedTree]:
    """Joins the pair that saves most until none saves. Among equal savings, the oldest trees are joined first."""
    alive = dict(enumerate(trees))
    least = LEAST_SAVING * loom.cost_of(trees)

    def saving(a: int, b: int) -> float:
        return alive[a].cost + alive[b].cost - loom.joined(alive[a], alive[b]).cost

    queue = [(-saved, a, b) for a, b in combinations(alive, 2) if (saved := saving(a, b)) > least]
    heapify(queue)
    newest = len(trees)
    while queue:
        _, a, b = heappop(queue)
        if a not in alive or b not in alive:
            continue
        alive[newest] = loom.joined(alive.pop(a), alive.pop(b))
        for other in alive:
            if other != newest and (saved := saving(other, newest)) > least:
                heappush(queue, (-saved, other, newest))
        newest += 1
    return sorted(alive.values(), key=lambda tree: tree.strands)


def tree_of_all(loom: Loom, strands: Sequence[Strand]) -> PricedTree:
    """Full sharing: one tree of all strands."""
    classes = reduced(edge_class for strand in strands for edge_class in strand.classes)
    windows = window_sums(
        np.concatenate([strand.ranges for strand in strands]),
        np.concatenate([strand.slides for strand in strands]),
        np.concatenate([strand.counts for strand in strands]),
    )
    rate = loom.edge_rate(classes)
    cost, technique = loom.best(rate, windows)
    return PricedTree(tuple(range(len(strands))), classes, rate, windows, technique, cost)


def _alone(loom: Loom, rate: float, strand: Strand, window: int) -> tuple[float, str]:
    """The cost and technique of one query, with this window of a strand, in a tree of its own."""
    only = slice(window, window + 1)
    return loom.best(rate, window_sums(strand.ranges[only], strand.slides[only], [1]))


def _cost_alone(loom: Loom, tree: PricedTree, strand: Strand) -> float:
    """The cost of every query of a strand by itself. At most `ALONE_AT_MOST` are priced, the others interpolated."""
    if len(strand.members) == 1:
        return tree.cost
    order = np.argsort(strand.ranges, kind="stable")
    few = np.unique(np.linspace(0, len(order) - 1, ALONE_AT_MOST).astype(np.int64))
    costs = [_alone(loom, tree.edge_rate, strand, int(window))[0] for window in order[few]]
    return float(np.interp(np.arange(len(order)), few, costs) @ strand.counts[order])


def _every_query(loom: Loom, single: Sequence[PricedTree], strands: Sequence[Strand]) -> list[WovenTree]:
    """No sharing: a tree for each query, which folds the rows itself."""
    trees = []
    for tree, strand in zip(single, strands, strict=True):
        for window, members in enumerate(np.split(strand.members, strand.firsts[1:])):
            cost, technique = _alone(loom, tree.edge_rate, strand, window)
            woven = WovenTree((), technique, tree.edge_rate, cost, tree.classes)
            trees += [replace(woven, members=(member,)) for member in members.tolist()]
    return sorted(trees, key=lambda tree: tree.members)


def _shown(strands: Sequence[Strand], tree: PricedTree) -> WovenTree:
    members = np.sort(np.concatenate([strands[number].members for number in tree.strands]))
    return WovenTree(tuple(members.tolist()), tree.technique, tree.edge_rate, tree.cost, tree.classes)
