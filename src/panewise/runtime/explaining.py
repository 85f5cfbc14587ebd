"""EXPLAIN of running queries: the plan, and how the engine shares it."""

from __future__ import annotations

from dataclasses import replace

from panewise.operators.collective import CollectiveLookup
from panewise.operators.ordered_join import OrderedJoin
from panewise.operators.tree_weave import members_by_tree
from panewise.optimize.sharing.report import family_explanation
from panewise.plan.explain import Explanation, explain
from panewise.plan.nodes import Aggregate, Distinct, Emit, Join, Negate, Node, Pattern
from panewise.runtime.consumers import TreeConsumer
from panewise.runtime.hosting import Hosting, shown_name
from panewise.runtime.operator_consumer import OperatorConsumer
from panewise.runtime.plan_consumer import PlanConsumer, Port
from panewise.runtime.sharing import family_report, state_name
from panewise.runtime.stream import Stream


def explain_query(plan: Emit, consumer: TreeConsumer | OperatorConsumer | PlanConsumer | None) -> Explanation:
    """The plan of one query; of a running one also what it shares."""
    explanation = explain(plan)
    if isinstance(consumer, TreeConsumer) and consumer.queries:
        others = len(consumer.queries) - 1
        shared = {
            "tree": _shares(others),
            "states": ", ".join(map(state_name, consumer.tree.state_held_from)),
        }
        return replace(explanation, properties=explanation.properties | shared)
    if isinstance(consumer, OperatorConsumer):
        return replace(explanation, properties=explanation.properties | _operator(consumer))
    if isinstance(consumer, PlanConsumer):
        explanation = _with_states(explanation, plan)
        return replace(explanation, properties=explanation.properties | _operators(consumer))
    return explanation


def _with_states(explanation: Explanation, node: Node) -> Explanation:
    """Every node with what its operator keeps rows in, which follows from the patterns of its inputs."""
    inputs = tuple(_with_states(*pair) for pair in zip(explanation.inputs, node.children(), strict=True))
    state = _state(node)
    properties = explanation.properties | ({"state": state} if state else {})
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


def _operator(consumer: OperatorConsumer) -> dict[str, str]:
    operator = consumer.operator
    named = {"operator": type(operator).__name__}
    return named | {"collective index": operator.description} if isinstance(operator, CollectiveLookup) else named


def _operators(consumer: PlanConsumer) -> dict[str, str]:
    """The operators with state, from the inputs up; of a join of many, in which order rows of each input probe."""
    found = {"operators": ", ".join(type(operator).__name__ for operator in consumer.plan.operators)}
    for operator in consumer.plan.operators:
        if isinstance(operator, OrderedJoin) and len(operator.orders) > 2:
            found["order"] = operator.described
    return found


def _shares(others: int) -> str:
    return "alone" if not others else f"shared with {others} other " + ("query" if others == 1 else "queries")


def explain_all(streams: dict[str, Stream], hosting: Hosting) -> Explanation:
    """Everything: streams, the trees on each, and the queries in each tree."""
    parts = [_channel(stream.name, "STREAM", stream, hosting) for stream in streams.values()]
    parts.extend(_channel(shown_name(q.name), "QUERY", q, hosting) for q in hosting.queries.values() if q.consumers)
    trees = sum(len(members_by_tree(consumer.tree)) for consumer in hosting.trees)
    counts = {"sharing": hosting.sharing, "queries": len(hosting.queries), "trees": trees}
    return Explanation("PLAN", counts, tuple(parts))


def _channel(name: str, kind: str, channel: object, hosting: Hosting) -> Explanation:
    inputs = []
    for consumer in getattr(channel, "consumers", []):
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
        elif isinstance(consumer, Port):
            owner = consumer.owner
            inputs.append(Explanation(f"QUERY {shown_name(owner.query.name)}", _operators(owner)))
    return Explanation(f"{kind} {name}", {}, tuple(inputs))
