"""EXPLAIN of a plan over several inputs: the state and the cost of every operator, and the rewrites of the plan.

Costs are row touches a second (`plan_costs.py`), by measured rates if there are any. The cost of a core that several
queries share is divided among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from panewise.optimize.rewrites.plan_costs import Costed, costed
from panewise.optimize.rewrites.statistics import Statistics
from panewise.plan.explanation import Explanation, explain
from panewise.plan.nodes import Aggregate, Distinct, Emit, Join, Negate, Node, Pattern, WindowOf
from panewise.plan.physical_plan import DeltaQuery

SLICES = "slices by when the results leave, of all queries with these groups"


def explained(
    node: DeltaQuery,
    statistics: Statistics | None = None,
    said: Mapping[str, str] | None = None,
    folded: bool = False,
    sharing: int = 1,
) -> Explanation:
    """The explanation of the plan that runs, with its costs, the properties `said`, and its rewrites at the top.

    `folded`: whether aggregates over its join are folded with those of other queries. `sharing`: the number of queries
    that share its core.
    """
    core = None if node.core is None or sharing < 2 else node.core.node
    explanation = _with_costs(node.plan, statistics or Statistics(), folded, _Shared(core, sharing)).saying(said or {})
    if not node.rewrites:
        return explanation
    return explanation.saying({"rewritten": "; ".join(map(str, node.rewrites))})


@dataclass(frozen=True)
class _Shared:
    """The part of a plan that several queries share; None if there is none."""

    core: Node | None
    queries: int


def _with_costs(plan: Emit, statistics: Statistics, folded: bool, shared: _Shared) -> Explanation:
    costs = costed(plan, statistics)
    of_core = sum(part.total for part in _parts(costs) if part.node is shared.core)
    of_all: dict[str, object] = {"cost of all": round(costs.total - of_core + of_core / shared.queries)}
    if shared.core is not None:
        of_all["cost of the core"] = f"{round(of_core)}, shared by {shared.queries} queries"
    if statistics.rates:
        of_all["rows a second"] = ", ".join(f"{name} {rate:.6g}" for name, rate in statistics.rates.items())
    return _with_states(explain(plan), costs, folded, shared).saying(of_all)


def _parts(costs: Costed) -> Iterator[Costed]:
    yield costs
    for part in () if isinstance(costs.node, WindowOf) else costs.inputs:
        yield from _parts(part)


def _with_states(
    explanation: Explanation, costs: Costed, folded: bool, shared: _Shared, within: bool = False
) -> Explanation:
    """The explanation of every node with its cost, and its state, which follows from the patterns of its inputs.

    `within`: whether the node is part of a shared core, of whose cost this query has its share.
    """
    node = costs.node
    within = within or node is shared.core
    state = SLICES if folded and isinstance(node, Aggregate) else _state(node)
    own = round(costs.own / shared.queries if within else costs.own)
    properties = explanation.properties | ({"state": state} if state else {}) | {"cost": own}
    if isinstance(node, WindowOf):  # its input is a stream, or a query with costs of its own
        return replace(explanation, properties=properties)
    pairs = zip(explanation.inputs, costs.inputs, strict=True)
    inputs = tuple(_with_states(*pair, folded, shared, within) for pair in pairs)
    return replace(explanation, properties=properties, inputs=inputs)


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
