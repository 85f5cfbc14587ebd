"""EXPLAIN of running queries: the plan, and how the engine shares it."""

from __future__ import annotations

from dataclasses import replace

from panewise.aggregates.holistic import HeldKind
from panewise.language.sql_text import to_sql
from panewise.operators.aggregation import ROW_COUNT, StateKey
from panewise.operators.closed_values import STRUCTURES
from panewise.operators.collective import CollectiveLookup
from panewise.operators.dense_slices import DenseSlices
from panewise.plan.explain import Explanation, explain
from panewise.plan.nodes import Emit
from panewise.runtime.consumers import OperatorConsumer, TreeConsumer
from panewise.runtime.hosting import Hosting, shown_name
from panewise.runtime.stream import Stream


def explain_query(plan: Emit, consumer: TreeConsumer | OperatorConsumer | None) -> Explanation:
    """The plan of one query; of a running one also what it shares."""
    explanation = explain(plan)
    if isinstance(consumer, TreeConsumer) and consumer.queries:
        others = len(consumer.queries) - 1
        shared = {
            "tree": _shares(others),
            "states": ", ".join(_state_name(key) for key in consumer.tree.state_held_from),
        }
        return replace(explanation, properties=explanation.properties | shared)
    if isinstance(consumer, OperatorConsumer):
        return replace(explanation, properties=explanation.properties | _operator(consumer))
    return explanation


def _operator(consumer: OperatorConsumer) -> dict[str, str]:
    operator = consumer.operator
    named = {"operator": type(operator).__name__}
    return named | {"collective index": operator.description} if isinstance(operator, CollectiveLookup) else named


def _shares(others: int) -> str:
    return "alone" if not others else f"shared with {others} other " + ("query" if others == 1 else "queries")


def _state_name(key: StateKey) -> str:
    return f"{key.kind.name}({', '.join(map(to_sql, key.arguments)) or '*'})"


def explain_all(streams: dict[str, Stream], hosting: Hosting) -> Explanation:
    """Everything: streams, the trees on each, and the queries in each tree."""
    parts = [_channel(stream.name, "STREAM", stream, hosting) for stream in streams.values()]
    parts.extend(_channel(shown_name(q.name), "QUERY", q, hosting) for q in hosting.queries.values() if q.consumers)
    counts = {"queries": len(hosting.queries), "trees": len(hosting.trees)}
    return Explanation("PLAN", counts, tuple(parts))


def _channel(name: str, kind: str, channel: object, hosting: Hosting) -> Explanation:
    inputs = []
    for consumer in getattr(channel, "consumers", []):
        if isinstance(consumer, TreeConsumer):
            inputs.append(_tree(consumer))
        elif isinstance(consumer, OperatorConsumer):
            block = consumer.query.block
            inputs.append(
                Explanation(
                    f"QUERY {shown_name(consumer.query.name)}",
                    _operator(consumer) | {"window": str(block.window)},
                )
            )
    return Explanation(f"{kind} {name}", {}, tuple(inputs))


def _tree(consumer: TreeConsumer) -> Explanation:
    tree = consumer.tree
    title = "TREE" + (f" BY {', '.join(map(to_sql, tree.keys))}" if tree.keys else "")
    if tree.where is not None:
        title += f" WHERE {to_sql(tree.where)}"
    techniques = []
    for key in tree.state_held_from:
        technique = "SparseTwoStacks"
        if isinstance(key.kind, HeldKind):
            technique = STRUCTURES[key.kind.structure]
        elif isinstance(tree.store, DenseSlices):
            # A count of something that was never NULL is the count of rows.
            technique = type(tree.store.synopses.get(key, tree.store.synopses[ROW_COUNT])).__name__
        techniques.append(f"{_state_name(key)} by {technique}")
    members = tuple(
        Explanation(f"QUERY {shown_name(name)}", {"window": str(query.block.window)})
        for name, query in consumer.queries.items()
    )
    return Explanation(title, {"queries": len(members), "states": "; ".join(techniques)}, members)
