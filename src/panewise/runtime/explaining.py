"""EXPLAIN of running queries: the plan, and how the engine shares it.

Of a plan over several inputs also what it was rewritten by, the state of every operator and the estimate of its cost,
in row touches a second (`optimize/rewrites/plan_costs.py`). A query that does not run yet is shown as it would.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from panewise.operators.collective import CollectiveLookup
from panewise.operators.negation import Negation
from panewise.operators.ordered_join import OrderedJoin
from panewise.optimize.physical import physical
from panewise.optimize.rewrites.plan_costs import Costed, costed
from panewise.optimize.rewrites.statistics import Statistics
from panewise.optimize.sharing.report import family_explanation
from panewise.plan.explain import Explanation, explain
from panewise.plan.inputs import has_several_inputs
from panewise.plan.nodes import Aggregate, Distinct, Emit, Join, Negate, Node, Pattern, WindowOf
from panewise.plan.physical import DeltaQuery, Rewrite
from panewise.runtime.archive_keeper import Keeper
from panewise.runtime.change_feed import ChangeFeed
from panewise.runtime.channel import Channel, Consumer
from panewise.runtime.consumers import TreeConsumer
from panewise.runtime.hosted_query import HostedQuery
from panewise.runtime.hosting import Hosting, shown_name
from panewise.runtime.operator_consumer import OperatorConsumer
from panewise.runtime.plan_consumer import Clock, PlanConsumer, Port
from panewise.runtime.query_consumer import QueryConsumer
from panewise.runtime.shared_plan import SharedPlan, SharingConsumer
from panewise.runtime.sharing import family_report, state_name
from panewise.runtime.stream import Stream

SLICES = "slices by when the results leave, of all queries with these groups"


def explain_query(plan: Emit, consumer: QueryConsumer | None) -> Explanation:
    """The plan of one query; of a running one also what it shares."""
    if consumer is None and has_several_inputs(plan):
        node = physical(plan)
        assert isinstance(node, DeltaQuery)
        return _with_rewrites(_with_operators(node.plan, Statistics()), node.rewrites)
    explanation = explain(plan)
    if isinstance(consumer, TreeConsumer) and consumer.queries:
        others = len(consumer.queries) - 1
        shared = {
            "tree": _shares(others),
            "states": ", ".join(map(state_name, consumer.tree.states)),
        }
        return replace(explanation, properties=explanation.properties | shared)
    if isinstance(consumer, OperatorConsumer):
        return replace(explanation, properties=explanation.properties | _operator(consumer))
    if isinstance(consumer, PlanConsumer):
        rates = {port.channel.name: port.rate for port in consumer.ports if port.rate is not None}
        folded = isinstance(consumer, SharingConsumer) and consumer.folded
        explanation = _with_operators(plan, Statistics(rates=rates), folded)
        explanation = replace(explanation, properties=explanation.properties | _operators(consumer))
        return _with_rewrites(explanation, consumer.node.rewrites)
    return explanation


def _with_operators(plan: Emit, statistics: Statistics, folded: bool = False) -> Explanation:
    """The plan with states and costs; at the top the cost of all together, and the rates where they were measured.

    `folded`: aggregates over its join are folded with those of others.
    """
    costs = costed(plan, statistics)
    explanation = _with_states(explain(plan), costs, folded)
    of_all: dict[str, object] = {"cost of all": round(costs.total)}
    if statistics.rates:
        of_all["rows a second"] = ", ".join(f"{name} {rate:.6g}" for name, rate in statistics.rates.items())
    return replace(explanation, properties=explanation.properties | of_all)


def _with_rewrites(explanation: Explanation, applied: tuple[Rewrite, ...]) -> Explanation:
    if not applied:
        return explanation
    said = {"rewritten": "; ".join(map(str, applied))}
    return replace(explanation, properties=explanation.properties | said)


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


def _operator(consumer: OperatorConsumer) -> dict[str, str]:
    operator = consumer.operator
    named = {"operator": consumer.node.operator.value}
    return named | {"collective index": operator.description} if isinstance(operator, CollectiveLookup) else named


def _operators(consumer: PlanConsumer) -> dict[str, str]:
    """The operators with state, from the inputs up; of a join of many, in which order rows of each input probe."""
    operators = consumer.operators
    found = {"operators": ", ".join(type(operator).__name__ for operator in operators)}
    if isinstance(consumer, SharingConsumer):
        found["core"] = _shares(len(consumer.shared.members) - 1)
    if consumer.clocks:
        found["waits for the changes of"] = ", ".join(clock.channel.name for clock in consumer.clocks)
    for operator in operators:
        if isinstance(operator, OrderedJoin) and len(operator.orders) > 2:
            found["order"] = operator.described
        if isinstance(operator, Negation):
            found["negation results"] = operator.described
    return found


def _shares(others: int) -> str:
    return "alone" if not others else f"shared with {others} other " + ("query" if others == 1 else "queries")


def explain_all(streams: dict[str, Stream], hosting: Hosting) -> Explanation:
    """Everything: streams, the trees on each, and the queries in each tree."""
    parts = [_channel(stream.name, "STREAM", stream, hosting) for stream in streams.values()]
    parts.extend(_channel(shown_name(q.name), "QUERY", q, hosting) for q in hosting.queries.values() if _read(q))
    trees = sum(len(consumer.tree.members_by_tree) for consumer in hosting.trees)
    counts = {"sharing": hosting.sharing, "queries": len(hosting.queries), "trees": trees}
    return Explanation("PLAN", counts, tuple(parts))


def _read(channel: Channel) -> list[Consumer]:
    """Who reads what a stream or query gives, and what its answer consists of."""
    entering = channel.entering if isinstance(channel, HostedQuery) else None
    return [*channel.consumers, *([] if entering is None else entering.consumers)]


def _channel(name: str, kind: str, channel: Channel, hosting: Hosting) -> Explanation:
    inputs = []
    ages = {name: age for age, name in enumerate(hosting.queries)}
    for consumer in sorted(_read(channel), key=partial(_age, ages)):
        if isinstance(consumer, TreeConsumer):
            inputs.append(family_explanation(family_report(consumer)))
        elif isinstance(consumer, OperatorConsumer):
            block = consumer.query.block
            inputs.append(
                Explanation(
                    f"QUERY {shown_name(consumer.query.name)}",
                    _operator(consumer) | {"window": str(block.window)},
                )
            )
        elif isinstance(consumer, Keeper):
            archive = {"key": ", ".join(consumer.definition.key), "layout": consumer.layout.name}
            inputs.append(Explanation(f"ARCHIVE {consumer.definition.name}", archive))
        elif isinstance(consumer, ChangeFeed):
            inputs.append(Explanation(f"TABLE {consumer.table.name}", consumer.described))
        elif isinstance(consumer, Port | Clock):
            inputs.append(_of_port(consumer.owner))
    return Explanation(f"{kind} {name}", {}, tuple(inputs))


def _age(ages: dict[str, int], consumer: Consumer) -> int:
    """Of its oldest running query: a family may have been begun anew since that one was created."""
    queries: list[HostedQuery] = []
    if isinstance(consumer, TreeConsumer):
        queries = list(consumer.queries.values())
    elif isinstance(consumer, OperatorConsumer):
        queries = [consumer.query]
    elif isinstance(consumer, Port | Clock):
        owner = consumer.owner
        assert isinstance(owner, SharedPlan | PlanConsumer)
        plans = owner.members.values() if isinstance(owner, SharedPlan) else [owner]
        queries = [plan.query for plan in plans]
    return min((ages[query.name] for query in queries if query.status != "FAILED"), default=len(ages))


def _of_port(owner: object) -> Explanation:
    """A query over several inputs, or what queries over the same ones have in common."""
    if isinstance(owner, SharedPlan):
        queries = tuple(_of_plan(member) for member in owner.members.values())
        return Explanation(owner.core.described, {"queries": len(queries)}, queries)
    assert isinstance(owner, PlanConsumer)
    return _of_plan(owner)


def _of_plan(consumer: PlanConsumer) -> Explanation:
    return Explanation(f"QUERY {shown_name(consumer.query.name)}", _operators(consumer))
