"""How good the heuristics are: their costs against the optimum, over random joins.

    selectivity, augmented      one order for all origins, against the best such order
    greedy                      an order for each origin, against the best such orders
    one order for all           the best order that all origins follow, against the best orders for each: what an order
                                per origin is worth

Parameters are drawn around those of the papers' tables: rates, window lengths and distinct counts log-uniform, joined
on one attribute with nested loops; or, with `kind="mixed"`, on several attributes along a random connected graph, some
inputs hashed with a random number of buckets. The same seed draws the same joins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import exp, log
from random import Random
from typing import Literal

from panewise.optimize.joins.exact import best_global_order, best_order
from panewise.optimize.joins.heuristics import augmented_order, greedy_order, selectivity_order
from panewise.optimize.joins.join_graph import JoinEdge, JoinInput, common_attribute
from panewise.optimize.joins.order_costs import JoinCosts

Kind = Literal["common attribute", "mixed"]
SAME = 1 + 1e-9
"""Costs are sums of floating-point numbers in different orders: this close they are equal."""


@dataclass(frozen=True)
class Quality:
    """How often a heuristic found an order of least cost, and how many times the least cost its orders have."""

    name: str
    joins: int
    share_optimal: float
    mean_ratio: float
    worst_ratio: float

    @classmethod
    def of(cls, name: str, ratios: list[float]) -> Quality:
        optimal = sum(ratio <= SAME for ratio in ratios)
        return cls(name, len(ratios), optimal / len(ratios), sum(ratios) / len(ratios), max(ratios))


def heuristic_quality(joins: Iterable[JoinCosts]) -> list[Quality]:
    """Of all heuristics over these joins."""
    ratios: dict[str, list[float]] = {"selectivity": [], "augmented": [], "greedy": [], "one order for all": []}
    for costs in joins:
        origins = range(len(costs.graph))
        global_best = costs.of_global_order(best_global_order(costs))
        best = costs.of_orders([best_order(costs, origin, follow_graph=False) for origin in origins])
        greedy = costs.of_orders([greedy_order(costs, origin, follow_graph=False) for origin in origins])
        ratios["selectivity"].append(costs.of_global_order(selectivity_order(costs)) / global_best)
        ratios["augmented"].append(costs.of_global_order(augmented_order(costs)) / global_best)
        ratios["greedy"].append(greedy / best)
        ratios["one order for all"].append(global_best / best)
    return [Quality.of(name, found) for name, found in ratios.items()]


def random_joins(
    count: int = 1000, seed: int = 0, least: int = 3, most: int = 6, kind: Kind = "common attribute"
) -> Iterator[JoinCosts]:
    """Joins of `least` to `most` streams."""
    random = Random(seed)
    for _ in range(count):
        size = random.randint(least, most)
        inputs = [_drawn_input(random, kind == "mixed") for _ in range(size)]
        yield JoinCosts(inputs, common_attribute(size) if kind == "common attribute" else _drawn_edges(random, inputs))


def _log_uniform(random: Random, low: float, high: float) -> float:
    return exp(random.uniform(log(low), log(high)))


def _drawn_input(random: Random, hashed: bool) -> JoinInput:
    rate, length = _log_uniform(random, 1, 100), random.choice([50, 100, 200])
    buckets = random.choice([1, 2, 10, 30]) if hashed else None
    return JoinInput(rate, rate * length, round(_log_uniform(random, 2, 500)), buckets)


def _drawn_edges(random: Random, inputs: list[JoinInput]) -> list[JoinEdge]:
    """A tree of equalities, on one of two attributes each, and sometimes another predicate."""
    edges = [
        JoinEdge(random.randrange(place), place, hashed=True, attribute=random.choice("ab"))
        for place in range(1, len(inputs))
    ]
    if random.random() < 0.5:
        left, right = random.sample(range(len(inputs)), 2)
        edges.append(JoinEdge(left, right, selectivity=random.random()))
    return edges
