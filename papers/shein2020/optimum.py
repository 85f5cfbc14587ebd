"""The best of all weaves, for few queries: what the greedy search is compared with.

Finding the best division of queries into trees is NP-hard (Shein and Chrysanthis 2020, section 3.1.1). For n queries
there are as many divisions as the n-th Bell number, 4,140 of 8 and 21,147 of 9. Here every subset is priced once, 2^n
trees, and the best division of a set is a tree with its first query and the best division of the rest, 3^n sums:

    best(set) = min over trees T within the set that hold its first query of cost(T) + best(set - T)

Nothing is taken for granted about equal edges: queries are divided one by one. Costs are those of `weaving.py`.
`compare` gives the cost of greedy weaves in optima, for random small sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from panewise.optimize.sharing.costs.weave_costs import CostModel, OperationModel
from panewise.optimize.sharing.edges.edge_counts import Slicing
from panewise.optimize.sharing.weave.loom import Loom, PricedTree
from panewise.optimize.sharing.weave.strands import CadenceColumns, strands_of
from panewise.optimize.sharing.weave.weaving import Weave, WovenTree, tree_of_all, weave
from panewise.slicing.pairs import Cadence

QUERIES_MAX = 9
SLIDES = (12, 24, 60, 100, 360, 1000)  # of the sets compared: slides are factors of one of them
TECHNIQUES = ("panes", "flat_fat", "flat_fit", "slick_deque")


def optimum(
    cadences: Sequence[Cadence],
    rate: float,
    model: CostModel,
    techniques: Sequence[str],
    optimizer: str = "tri_weave",
    slicing: Slicing = Slicing.PAIRS,
    method: str = "auto",
) -> Weave:
    """The weave of least cost, with the arguments of `weave`; the optimizers are 'tri_weave' and 'weave_share'."""
    if not 1 <= len(cadences) <= QUERIES_MAX:
        raise ValueError(f"an optimum is found for 1 to {QUERIES_MAX} queries, and these are {len(cadences)}")
    loom = Loom(model, techniques, 0.0, model.fold(rate), method)
    everyone = (1 << len(cadences)) - 1
    trees = {subset: _tree(loom, cadences, subset, slicing) for subset in range(1, everyone + 1)}
    whole = trees[everyone]
    cost_alone = sum(trees[1 << query].cost for query in range(len(cadences)))
    division: tuple[int, ...] = (everyone,)
    cost = whole.cost
    if optimizer == "tri_weave":
        loom = loom.for_composites(whole.edge_rate)
    # What a tree costs by itself was the fold of its rows, and now is perhaps the intake of partials.
    each = {subset: tree.cost - model.fold(rate) + loom.each for subset, tree in trees.items()}
    best, found = _best_division(each, everyone)
    if loom.once + best < cost and len(found) > 1:
        division, cost = found, loom.once + best
    woven = []
    for subset in division:
        tree, price = (trees[subset], each[subset]) if len(division) > 1 else (whole, whole.cost)
        woven.append(WovenTree(tuple(_members(subset)), tree.technique, tree.edge_rate, price, tree.classes))
    return Weave(tuple(sorted(woven, key=lambda tree: tree.members)), cost, cost_alone, whole.cost)


def _members(subset: int) -> list[int]:
    return [query for query in range(subset.bit_length()) if subset >> query & 1]


def _tree(loom: Loom, cadences: Sequence[Cadence], subset: int, slicing: Slicing) -> PricedTree:
    members = CadenceColumns.of([cadences[query] for query in _members(subset)])
    return tree_of_all(loom, strands_of(members, slicing))


def _best_division(costs: dict[int, float], everyone: int) -> tuple[float, tuple[int, ...]]:
    """Of every set, from the smallest number on: all of its subsets have smaller numbers."""
    best: dict[int, tuple[float, tuple[int, ...]]] = {0: (0.0, ())}
    for subset in range(1, everyone + 1):
        first = subset & -subset
        rest = subset ^ first
        least = min((costs[first | part] + best[rest ^ part][0], first | part) for part in _subsets(rest))
        best[subset] = least[0], (least[1], *best[subset ^ least[1]][1])
    return best[everyone]


def _subsets(whole: int) -> Iterator[int]:
    """All subsets of a set of bits, the empty one too."""
    subset = whole
    while True:
        yield subset
        if subset == 0:
            return
        subset = (subset - 1) & whole


def compare(seed: int, count: int, optimizer: str = "tri_weave", most: int = 8) -> NDArray[np.float64]:
    """What greedy weaves of random sets of 2 to `most` queries cost, in optima: one number for each set, 1 or more."""
    random = np.random.default_rng(seed)
    model = OperationModel()
    ratios = np.empty(count)
    for place in range(count):
        cadences = random_cadences(random, int(random.integers(2, most + 1)))
        rate = float(10.0 ** random.uniform(-2, 1))
        techniques = TECHNIQUES if place % 2 else TECHNIQUES[place // 2 % len(TECHNIQUES) :][:1]
        greedy = weave(cadences, rate, model, techniques, optimizer)
        ratios[place] = greedy.cost / optimum(cadences, rate, model, techniques, optimizer).cost
    return ratios


def random_cadences(random: np.random.Generator, count: int) -> list[Cadence]:
    """Slides mostly among the factors of a number, ranges that are multiples of them or any, with offsets or none."""
    greatest = int(random.choice(SLIDES))
    factors = [slide for slide in range(1, greatest + 1) if greatest % slide == 0 or random.random() < 0.02]
    whole, moved = random.random() < 0.5, random.random() < 0.3
    cadences = []
    for _ in range(count):
        slide = int(random.choice(factors))
        range_ = slide * int(random.integers(1, 100)) if whole else int(random.integers(1, 100 * slide))
        cadences.append(Cadence(range_, slide, int(random.integers(0, slide)) if moved else 0))
    return cadences
