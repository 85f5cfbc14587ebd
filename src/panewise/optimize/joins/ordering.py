"""The best order in which new rows of each input probe the others.

Origins are independent of each other, so the best order is found for each of them. That is never more expensive than
one order that all follow (Golab and Özsu 2003, section 5.2). Up to `EXACT_INPUTS` inputs the search is exact, above
that it is greedy. Cost: milliseconds for the exact search, O(n^3) steps for the greedy one.
"""

from __future__ import annotations

from collections.abc import Sequence

from panewise.optimize.joins.exact import best_order
from panewise.optimize.joins.heuristics import greedy_order
from panewise.optimize.joins.join_graph import JoinEdge, JoinInput
from panewise.optimize.joins.order_costs import EAGER, Evaluation, JoinCosts, Order

EXACT_INPUTS = 8
LOOKUP = 1.0
"""The cost of starting a probe, in comparisons. In the papers it is 0. With an index that leaves few rows to compare,
it is most of the work."""


def best_orders(
    inputs: Sequence[JoinInput],
    edges: Sequence[JoinEdge],
    *,
    evaluation: Evaluation = EAGER,
    lookup: float = LOOKUP,
    follow_graph: bool = True,
    exact_inputs: int = EXACT_INPUTS,
) -> tuple[Order, ...]:
    """For each origin, the numbers of the other inputs in the order in which they are probed.

    `follow_graph`: an input is probed without a predicate only if no other input is left.

    >>> small, large = JoinInput(1, 100, 100), JoinInput(1, 10_000, 100)
    >>> best_orders([small, large, small], [JoinEdge(0, 1, hashed=True), JoinEdge(1, 2, hashed=True)])
    ((2, 1), (0, 2), (0, 1))
    """
    return orders_by_costs(JoinCosts(inputs, edges, evaluation, lookup), follow_graph, exact_inputs)


def orders_by_costs(
    costs: JoinCosts, follow_graph: bool = True, exact_inputs: int = EXACT_INPUTS
) -> tuple[Order, ...]:  # fmt: skip
    """The best order of each origin, by the given costs."""
    find = best_order if len(costs.graph) <= exact_inputs else greedy_order
    return tuple(find(costs, origin, follow_graph) for origin in range(len(costs.graph)))
