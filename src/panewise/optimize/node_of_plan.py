"""Makes the physical node of a query from its logical plan, measurements and the running queries, for `planner.py`.

Operators, spread and shape follow from the plan and its options alone. The rewrites of a plan over several inputs and
the first orders of its joins are chosen here by cost, once, and are part of the node. `Decided` choices are carried out
and not chosen again. Without statistics the node follows from the plan, so that all processes of a host make the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from panewise.catalog import Options
from panewise.errors import SnapshotError
from panewise.language.sql_text import to_sql
from panewise.language.statements import Emission as Emission
from panewise.optimize.collective_condition import collective_condition
from panewise.optimize.first_orders import joins_planned
from panewise.optimize.refresh_option import with_slide
from panewise.optimize.rewrites.plan_costs import costed
from panewise.optimize.rewrites.rewriting import Rewritten, rewrite, rewrite_unless_shared, rewritten_again
from panewise.optimize.rewrites.statistics import Statistics
from panewise.optimize.sharing.selections.core_folds import folds_in_core
from panewise.optimize.technique_option import chosen_technique
from panewise.plan.aggregation import aggregation_of
from panewise.plan.blocks import Block, block_of
from panewise.plan.decided import NOTHING_DECIDED, Decided
from panewise.plan.expressions.written_names import written
from panewise.plan.inputs import has_several_inputs, named_answer, windowed_inputs
from panewise.plan.nodes import Emit, Join, Node, Scan
from panewise.plan.once import Once, OnceQuery
from panewise.plan.partitioning import partitioning
from panewise.plan.physical_plan import (
    Adapting,
    CoreKey,
    CoreOperator,
    DeltaQuery,
    FamilyQuery,
    FamilyShape,
    JoinPlan,
    Operator,
    PhysicalPlan,
    PhysicalQuery,
    RowQuery,
    Spread,
    Way,
    core_key,
    inner_name,
    shown_name,
    sources_of,
)
from panewise.plan.shared_core import SharedCore, core_of
from panewise.temporal import RowsWindow, TimeWindow

NOTHING_MEASURED = Statistics()
NOTHING_RUNS = PhysicalPlan()
Sharing = TypeVar("Sharing", FamilyQuery, DeltaQuery)


def physical(
    plan: Emit,
    options: Options = (),
    sharing: str = "weave",
    name: str = "",
    *,
    statistics: Statistics = NOTHING_MEASURED,
    running: PhysicalPlan = NOTHING_RUNS,
    decided: Decided = NOTHING_DECIDED,
) -> PhysicalQuery:
    """The node of a query. `sharing`: one of `SHARING`. If nothing is shared, `name` makes the query's keys unique.

    `running`: the queries with which it may share. `decided`: the stored decisions on the query.
    """
    node_of = _NodeMaker(sharing, statistics, running)
    return node_of.query(plan, options, name, decided)


def physical_once(plan: Emit) -> OnceQuery:
    """The node of a one-time query."""
    if has_several_inputs(plan):
        return OnceQuery(plan, None, Once.INPUTS)
    block = block_of(plan)
    return OnceQuery(plan, block, _way_once(plan, block))


def _way_once(plan: Emit, block: Block) -> Once:
    if named_answer(plan) is not None:
        return Once.ANSWER
    source = block.source
    assert isinstance(source, Scan), "a query in parentheses has been refused"
    if source.kind in ("table", "archive"):
        return Once.TABLE if source.kind == "table" else Once.ARCHIVE
    if not isinstance(block.window, TimeWindow):
        return Once.COUNTED
    return Once.SLICES if block.aggregate is not None and block.periodic else Once.WINDOW


class _NodeMaker:
    """Makes the nodes of a query and of the queries in parentheses inside it."""

    def __init__(self, sharing: str, statistics: Statistics, running: PhysicalPlan) -> None:
        self._sharing = sharing
        self._statistics = statistics
        self._running = running

    def query(self, plan: Emit, options: Options, name: str, decided: Decided) -> PhysicalQuery:
        """The node of a query. Queries in parentheses have no options."""
        if decided.slide_us is not None:
            plan = with_slide(plan, decided.slide_us)
        block = block_of(plan)
        if has_several_inputs(plan):
            return self._of_several(plan, block, name, decided)
        silent = dict(options).get("mode") == "lookup"
        window = block.window
        inner = self._inner([block.source], name, decided)[0]
        partitioned = isinstance(window, RowsWindow) and bool(window.partition_by)
        if block.aggregate is None or not block.periodic or block.restore or partitioned:
            return RowQuery(plan, block, inner, _operator(block, silent), silent, Spread(Way.TOGETHER))
        technique = chosen_technique(options)
        adapting = Adapting(weave=self._sharing == "weave" and technique is None, fold_together=self._sharing != "none")
        counts_rows, keys = isinstance(window, RowsWindow), block.aggregate.keys
        shape = FamilyShape(counts_rows, block.where, keys, technique, self._alone(name), adapting)
        node = FamilyQuery(plan, block, inner, shape, _spread_of_member(block), decided.slide_us)
        return alone_with_past(node, name) if decided.with_past else node

    def _alone(self, name: str) -> str:
        """The name that makes a query's keys unique if nothing is shared; otherwise empty."""
        return name if self._sharing == "none" else ""

    def _inner(self, inputs: list[Node], name: str, decided: Decided) -> list[PhysicalQuery | None]:
        """For each input, the node of the query in parentheses; None if the input is a stream, table or named query."""
        found: list[PhysicalQuery | None] = []
        decisions, number = list(decided.inner), 0
        for source in inputs:
            if isinstance(source, Emit):
                number += 1
                own = decisions[number - 1] if number <= len(decisions) else NOTHING_DECIDED
                found.append(self.query(source, (), inner_name(name, number), own))
            else:
                found.append(None)
        return found

    def _of_several(self, plan: Emit, block: Block, name: str, decided: Decided) -> DeltaQuery:
        division = partitioning(plan)
        way = Way.EXCHANGED if division.keys else Way.TOGETHER
        spread = Spread(way, exchanged_by=division.keys, reason=division.reason)
        alone = self._alone(name)
        rewritten = self._rewritten(plan, name, alone, decided)
        core = core_of(plan) if rewritten.plan is plan else None
        plan = rewritten.plan
        inner = tuple(self._inner([node.input for node in windowed_inputs(plan)], name, decided))
        joins = _joins(plan, name, self._statistics, decided)
        folds = core is not None and folds_in_core(plan, core)
        node = DeltaQuery(
            plan, block, inner, core, _operator_of_core(core), folds, joins, rewritten.applied, alone, spread
        )
        if decided.with_past:
            return alone_with_past(node, name)
        return node if decided.orders is not None else self._as_it_runs(node, name)

    def _as_it_runs(self, node: DeltaQuery, name: str) -> DeltaQuery:
        """The node with the first orders of its core as it runs, if its core already runs for another query."""
        key, own = core_key(name, node), node.core_join
        others = () if key is None or own is None else self._running.cores.get(key, ())
        first = self._running.node_of(others[0]) if others else None
        if not isinstance(first, DeltaQuery) or first.core_join is None or own is None:
            return node
        orders = first.core_join.orders
        return replace(node, joins=tuple(replace(j, orders=orders) if j is own else j for j in node.joins))

    def _rewritten(self, plan: Emit, name: str, alone: str, decided: Decided) -> Rewritten:
        """The cheapest plan with the same meaning. A plan with a core that can be shared keeps it in most cases."""
        if decided.rewrites is not None:
            return rewritten_again(plan, decided, shown_name(name))
        core = core_of(plan)
        if core is None:
            return rewrite(plan, self._statistics)
        sources = sources_of(name, [node.input for node in windowed_inputs(plan)])
        key = CoreKey(sources, core.meaning, alone)
        paid = costed(core.node, self._statistics).total if key in self._running.cores else 0.0
        return rewrite_unless_shared(plan, self._statistics, paid)


def alone_with_past(node: Sharing, name: str) -> Sharing:
    """The node of a query that starts from rows of the past. It shares nothing: running state takes no earlier rows."""
    if isinstance(node, DeltaQuery):
        return replace(node, alone=name, with_past=True)
    return replace(node, shape=replace(node.shape, alone=name), with_past=True)


def _joins(plan: Emit, name: str, statistics: Statistics, decided: Decided) -> tuple[JoinPlan, ...]:
    if decided.orders is None:
        return joins_planned(plan, statistics)
    joins = joins_planned(plan)
    for join, orders in zip(joins, decided.orders, strict=False):
        # There must be an order for each input, and it must contain all other inputs.
        inputs = list(range(len(join.names)))
        if [sorted((origin, *order)) for origin, order in enumerate(orders)] != [inputs] * len(inputs):
            raise _other_joins(name)
    if len(joins) != len(decided.orders):
        raise _other_joins(name)
    return tuple(replace(join, orders=orders) for join, orders in zip(joins, decided.orders, strict=True))


def _other_joins(name: str) -> SnapshotError:
    return SnapshotError(
        f"the stored state of query '{shown_name(name)}' belongs to joins that this version of panewise does not make",
        hint="use the version that wrote it, or drop the query there and create it again here",
    )


def _operator_of_core(core: SharedCore | None) -> CoreOperator | None:
    if core is None:
        return None
    return CoreOperator.JOIN if isinstance(core.node, Join) else CoreOperator.DISTINCT


def _operator(block: Block, silent: bool) -> Operator:
    if block.restore:
        return Operator.RESTORED
    if block.aggregate is not None:
        if block.periodic:
            return Operator.PARTITIONED_ROWS
        assert block.window is not None
        indexed = silent and collective_condition(aggregation_of(block), block.window) is not None
        return Operator.COLLECTIVE_LOOKUP if indexed else Operator.CONTINUOUS_AGGREGATE
    if not block.periodic:
        return Operator.CONTINUOUS_ROWS
    return Operator.ROW_WINDOW if isinstance(block.window, TimeWindow) else Operator.COUNTED_ROW_WINDOW


def _spread_of_member(block: Block) -> Spread:
    """The spread of a family's member. Most members need only partials, folded anywhere and merged by group."""
    window = block.window
    folded = (
        isinstance(block.source, Scan)
        and block.source.kind == "stream"
        and isinstance(window, TimeWindow)
        and window.range_us is not None
        and block.emission is Emission.RSTREAM
    )
    if not folded:
        return Spread(Way.TOGETHER)
    assert block.aggregate is not None
    return Spread(Way.FOLDED, tuple(sorted(set(block.aggregate.keys), key=lambda key: (to_sql(key), written(key)))))
