"""What is shared and what it costs, as data: for EXPLAIN PLAN, for the picture of a weave, and for programs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Protocol

from panewise.aggregates.holistic import HeldKind
from panewise.language.sql_text import to_sql
from panewise.operators.closed_values import STRUCTURES
from panewise.operators.family.family import Family
from panewise.operators.family.member import Member
from panewise.optimize.sharing.edges import edge_rate
from panewise.optimize.sharing.report import FamilyReport, TreeReport
from panewise.optimize.sharing.rules import Query, Situation, Synopsis, applicable, synopsis_type
from panewise.plan.aggregation import StateKey
from panewise.runtime.channel import Channel
from panewise.runtime.hosted_query import HostedQuery, shown_name
from panewise.runtime.weaver import (
    ASSUMED_ROWS_PER_SECOND,
    SECOND,
    Fed,
    classes_in,
    load_of,
    model_of,
    planned,
    tree_cost,
)


class Answering(Fed, Protocol):
    """A family that answers queries."""

    channel: Channel
    queries: dict[str, HostedQuery]

    def queries_of(self, member: str) -> Iterable[str]:
        """The queries that get a member's reports."""


def family_report(consumer: Answering) -> FamilyReport:
    """Of one family: its rows are folded once, and the trees of its weave answer its queries.

    Costs are nanoseconds of a core per second of the stream; windows of rows are taken to slide as fast as rows are
    assumed to come.
    """
    family = consumer.family
    members = family.movable
    keys, model = model_of(consumer, members)
    unit = ASSUMED_ROWS_PER_SECOND if consumer.counts_rows else SECOND  # units of the axis in a second
    rate = None if consumer.counts_rows else consumer.rows_per_unit
    trees = tuple(_tree_report(consumer, number, unit, keys) for number in sorted(family.members_by_tree))
    plan = planned(consumer, "full", price_alone=True)
    fold = model.fold(load_of(consumer).rate) * unit
    cost = fold + sum(found.cost_ns_per_second for found in trees)
    return FamilyReport(
        stream=shown_name(consumer.channel.name),
        grouping=", ".join(map(to_sql, family.keys)),
        selections=() if family.where is None else (to_sql(family.where),),
        states=tuple(key.shown for key in family.states),
        rows_per_second=None if rate is None else rate * SECOND,
        groups=(family.group_count or None) if family.keys else 1,
        composite_edges_per_second=_edges(family, 0) * unit,
        trees=trees,
        cost=cost,
        cost_alone=cost if plan is None else _alone(plan.weave.cost_alone * unit, consumer),
        cost_full=cost if plan is None else plan.weave.cost_full * unit,
        rules=_rules(family, members),
        rows_per_second_assumed=ASSUMED_ROWS_PER_SECOND if rate is None else None,
        folded_with=_folded_with(consumer),
    )


def _folded_with(consumer: Answering) -> str:
    """Whose rows are folded in the same pass, as it was the last time."""
    together = consumer.channel.together
    return "" if together is None else together.folded_with(consumer.family)


def _alone(cost: float, consumer: Answering) -> float:
    """Queries that are alike are one member; alone, each would cost as much."""
    return cost * len(consumer.queries) / max(1, len(consumer.family.members))


def _edges(family: Family, number: int) -> float:
    """Per unit of the axis."""
    windows = family.windows
    if number:
        windows = family.store.trees[number].windows
    return edge_rate(classes_in(windows)).per_unit


def _tree_report(consumer: Answering, number: int, unit: float, keys: list[StateKey]) -> TreeReport:
    family = consumer.family
    members = family.members_by_tree[number]
    model = model_of(consumer, family.movable)[1]
    slices = family.store.trees[number].starts if number else family.store.starts
    queries = tuple(
        (shown_name(name), str(consumer.queries[name].block.window))
        for member in members
        for name in sorted(consumer.queries_of(member.name))
    )
    return TreeReport(
        name=f"tree {number + 1}",
        technique={key.shown: _technique(family, number, key) for key in _states(members)},
        members=queries,
        edges_per_second=_edges(family, number) * unit,
        slices_held=len(slices),
        cost_ns_per_second=tree_cost(family, number, keys, model) * unit,
    )


def _states(members: list[Member]) -> list[StateKey]:
    return list(dict.fromkeys(key for member in members for key in member.aggregation.states))


def _technique(family: Family, number: int, key: StateKey) -> str:
    if isinstance(key.kind, HeldKind):
        return STRUCTURES[key.kind.structure]
    return family.store.technique_of(number, key)


def _rules(family: Family, members: list[Member]) -> tuple[str, ...]:
    """The sharing rules by which the longest and the shortest window of each tree share."""
    found: dict[str, None] = {}
    for number, held in family.members_by_tree.items():
        spans = sorted({member.cadence.range or 0 for member in held if member in members})
        if len(held) < 2 or not spans:
            continue
        interval = math.gcd(*spans, *(member.cadence.slide for member in held))
        for key in _states(held):
            states = frozenset([key])
            synopsis = Synopsis(
                family.where, states, synopsis_type(_technique(family, number, key)), interval, spans[-1] // interval
            )
            pair = tuple(Query(family.where, states, (span,)) for span in (spans[-1], spans[0]))
            found.update(dict.fromkeys(rule.name for rule in applicable(Situation(pair, (synopsis,)))))
    return tuple(sorted(found))
