"""Compares the orders in use with the best orders by current measurements.

Rates, window sizes and distinct counts change while a join runs. Both papers say that the order should then be changed
by a threshold, and leave the threshold open (Golab and Özsu 2003, section 5.4; Golab 2006, section 5.3). Here it is a
factor of cost. So a change of a rate that makes no other order better has no effect, and orders of about equal cost do
not alternate. Probing has no state, so a change of orders costs only the planning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from panewise.optimize.joins.join_graph import JoinEdge, JoinInput
from panewise.optimize.joins.order_costs import EAGER, Evaluation, JoinCosts, Order
from panewise.optimize.joins.ordering import LOOKUP, orders_by_costs

FACTOR = 1.2


@dataclass(frozen=True)
class Drift:
    """Costs per unit of time, by current measurements."""

    cost_in_use: float
    cost_of_best: float
    best: tuple[Order, ...]

    @property
    def ratio(self) -> float:
        if self.cost_of_best > 0:
            return self.cost_in_use / self.cost_of_best
        return inf if self.cost_in_use > 0 else 1.0

    def exceeds(self, factor: float = FACTOR) -> bool:
        """Whether the orders in use cost more than `factor` times the best ones."""
        return self.ratio > factor


def drift_of(
    in_use: Sequence[Sequence[int]],
    inputs: Sequence[JoinInput],
    edges: Sequence[JoinEdge],
    *,
    evaluation: Evaluation = EAGER,
    lookup: float = LOOKUP,
    follow_graph: bool = True,
) -> Drift:
    """The costs of the orders in use and of the best ones by these measurements.

    >>> from panewise.optimize.joins.join_graph import common_attribute
    >>> small, large = JoinInput(1, 100, 100), JoinInput(1, 9000, 100)
    >>> drift = drift_of(((1, 2), (0, 2), (0, 1)), [large, small, small], common_attribute(3))
    >>> drift.best, drift.exceeds()
    (((1, 2), (2, 0), (1, 0)), True)
    """
    costs = JoinCosts(inputs, edges, evaluation, lookup)
    used, best = tuple(map(tuple, in_use)), orders_by_costs(costs, follow_graph)
    cost_in_use, cost_of_best = costs.of_orders(used), costs.of_orders(best)
    # The orders in use may be better than greedy orders or than orders that follow the graph.
    return (
        Drift(cost_in_use, cost_of_best, best) if cost_of_best < cost_in_use else Drift(cost_in_use, cost_in_use, used)
    )
