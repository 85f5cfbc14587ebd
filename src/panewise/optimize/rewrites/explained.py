"""EXPLAIN of a plan over several inputs: what every operator keeps rows in, what it costs, and how the plan came to be.

Costs are row touches a second (`plan_costs.py`), of measured rates where there are some.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from panewise.optimize.rewrites.plan_costs import Costed, costed
from panewise.optimize.rewrites.statistics import Statistics
from panewise.plan.explain import Explanation, explain
from panewise.plan.nodes import Aggregate, Distinct, Emit, Join, Negate, Node, Pattern, WindowOf
from panewise.plan.physical import Rewrite

SLICES = "slices by when the results leave, of all queries with these groups"


def explained(
    plan: Emit,
    rewrites: tuple[Rewrite, ...],
    statistics: Statistics | None = None,
    said: Mapping[str, str] | None = None,
    folded: bool = False,
) -> Explanation:
    """The plan that runs, with its costs at the top, what its operators say, and the rewrites that made it.

    `folded`: aggregates over its join are folded with those of others.
    """
    explanation = _with_costs(plan, statistics or Statistics(), folded).saying(said or {})
    if not rewrites:
        return explanation
    return explanation.saying({"rewritten": "; ".join(map(str, rewrites))})


def _with_costs(plan: Emit, statistics: Statistics, folded: bool) -> Explanation:
    costs = costed(plan, statistics)
    of_all: dict[str, object] = {"cost of all": round(costs.total)}
    if statistics.rates:
        of_all["rows a second"] = ", ".join(f"{name} {rate:.6g}" for name, rate in statistics.rates.items())
    return _with_states(explain(plan), costs, folded).saying(of_all)


def _with_states(explanation: Explanation, costs: Costed, folded: bool) -> Explanation:
    """Every node with what its operator keeps rows in, which follows from the patterns of its inputs, and its cost."""
    node = costs.node
    state = SLICES if folded and isinstance(node, Aggregate) else _state(node)
    properties = explanation.properties | ({"state": state} if state else {}) | {"cost": round(costs.own)}
    if isinstance(node, WindowOf):  # what it reads is a stream, or a query that has its own costs
        return replace(explanation, properties=properties)
    pairs = zip(explanation.inputs, costs.inputs, strict=True)
    return replace(explanation, properties=properties, inputs=tuple(_with_states(*pair, folded) for pair in pairs))


def _state(node: Node) -> str:
    match node:
        case Join():
            return "a hash index per input"
        case Distinct(input=below):
            return "counters by value" if below.pattern is Pattern.STRICT else "a calendar queue of what is shown"
        case Negate(left=left, right=right):
            return f"by key; left rows in {_queue(left)}, right rows in {_queue(right)}"
        case Aggregate(input=below) if below.pattern is not Pattern.MONOTONIC:
            return "rows by group, in order" if below.pattern is Pattern.WEAKEST else "rows by group, in any order"
    return ""


def _queue(node: Node) -> str:
    return "a queue" if node.pattern <= Pattern.WEAKEST else "a calendar queue"
