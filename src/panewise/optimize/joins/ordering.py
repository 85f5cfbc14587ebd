"""In which order a new row of each input probes the others: what the engine asks.

The orders of different origins are independent of each other, so each is the best by itself, which is never more
expensive than one order that all follow (Golab and Özsu 2003, section 5.2). Up to `EXACT_INPUTS` inputs they are exact,
above greedy. Cost: milliseconds for the exact ones, O(n^3) steps for the greedy ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from panewise.optimize.joins.exact import best_order
from panewise.optimize.joins.heuristics import greedy_order
from panewise.optimize.joins.join_graph import JoinEdge, JoinInput
from panewise.optimize.joins.order_costs import EAGER, Evaluation, JoinCosts, Order

EXACT_INPUTS = 8
LOOKUP = 1.0
"""What beginning a probe costs, in comparisons. The papers charge nothing; with an index that leaves few rows to
compare it is most of the work."""


def best_orders(
    inputs: Sequence[JoinInput],
    edges: Sequence[JoinEdge],
    *,
    evaluation: Evaluation = EAGER,
    lookup: float = LOOKUP,
    follow_graph: bool = True,
    exact_inputs: int = EXACT_INPUTS,
) -> tuple[Order, ...]:
    """For each origin, by its place: the places of the other inputs in the order in which they are probed.

    Following the graph, an input is probed without any predicate only when no other is left.

    >>> small, large = JoinInput(1, 100, 100), JoinInput(1, 10_000, 100)
    >>> best_orders([small, large, small], [JoinEdge(0, 1, hashed=True), JoinEdge(1, 2, hashed=True)])
    ((2, 1), (0, 2), (0, 1))
    """
    return orders_by_costs(JoinCosts(inputs, edges, evaluation, lookup), follow_graph, exact_inputs)


def orders_by_costs(
    costs: JoinCosts, follow_graph: bool = True, exact_inputs: int = EXACT_INPUTS
) -> tuple[Order, ...]:  # fmt: skip
    """The same, by costs that are at hand."""
    find = best_order if len(costs.graph) <= exact_inputs else greedy_order
    return tuple(find(costs, origin, follow_graph) for origin in range(len(costs.graph)))
