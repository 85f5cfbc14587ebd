"""EXPLAIN: how a query is run, or would be run, and how all queries are run together.

Everything that runs describes itself (`QueryConsumer.explained`, `explained_query`); here the parts are put together.
"""

from __future__ import annotations

from functools import partial

from panewise.engine.channels.channel import Channel
from panewise.engine.channels.hosted_query import HostedQuery
from panewise.engine.channels.readers import Reader
from panewise.engine.hosting.query_registry import QueryRegistry
from panewise.engine.ingest.stream import Stream
from panewise.optimize.explained_node import explained_node, family_said
from panewise.optimize.node_of_plan import physical_once
from panewise.optimize.planner import LogicalQuery, Planner
from panewise.optimize.sharing.report.sharing_report import SharingReport
from panewise.plan.explanation import Explanation, explain
from panewise.plan.nodes import Emit
from panewise.plan.physical_plan import HIDDEN, FamilyQuery

UNREGISTERED = HIDDEN  # a name that no query has


def explain_plan(plan: Emit, planner: Planner, hosting: QueryRegistry) -> Explanation:
    """How a query that is not registered would be run beside those that are."""
    planned = planner.planned(hosting.plan, LogicalQuery(UNREGISTERED, plan))
    return explained_node(planned, UNREGISTERED, planner.statistics)


def explain_once(plan: Emit) -> Explanation:
    """How a one-time query is answered."""
    node = physical_once(plan)
    return explain(plan).saying({"answered from": f"the {node.way.value}"})


def explain_query(query: HostedQuery, hosting: QueryRegistry) -> Explanation:
    """How a query is run, and what it shares."""
    explanation = hosting.consumers[query.name].explained_query(query)
    node = hosting.node_of(query.name)
    return explanation.saying(family_said(node)) if isinstance(node, FamilyQuery) else explanation


def explain_all(streams: dict[str, Stream], hosting: QueryRegistry) -> Explanation:
    """All streams, the families on each with their trees, and the queries in each tree."""
    parts = [_channel(stream.name, "STREAM", stream, hosting) for stream in streams.values()]
    parts.extend(_channel(q.shown, "QUERY", q, hosting) for q in hosting.queries.values() if q.readers)
    trees = sum(len(consumer.family.members_by_tree) for consumer in hosting.families)
    counts = {"sharing": hosting.sharing, "queries": len(hosting.queries), "trees": trees}
    return Explanation("PLAN", counts, tuple(parts))


def sharing_report(hosting: QueryRegistry) -> SharingReport:
    """What queries share in all families that have not failed."""
    return SharingReport(tuple(family.report for family in hosting.families), hosting.sharing)


def _channel(name: str, kind: str, channel: Channel, hosting: QueryRegistry) -> Explanation:
    ages = {name: age for age, name in enumerate(hosting.queries)}
    readers = sorted(channel.readers, key=partial(_age, ages))
    return Explanation(f"{kind} {name}", {}, tuple(reader.explained() for reader in readers))


def _age(ages: dict[str, int], reader: Reader) -> int:
    """The age of a reader, which is that of its oldest running query: failed families are replaced by newer ones."""
    return min((ages[name] for name in reader.running), default=len(ages))
