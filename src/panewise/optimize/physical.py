"""The planner: from a logical plan to the node that runs. Nothing else chooses operators, sharing or spread.

The node follows from the plan and its options alone, so that every process of a host comes to the same one. What has
been measured decides later, inside a family (`sharing/weaving.py`), and can never move a query to another operator. A
plan that no operator runs has been refused before (`plan/supported.py`).
"""

from __future__ import annotations

from panewise.catalog import Options
from panewise.language.sql_text import to_sql
from panewise.language.statements import Emit as Emission
from panewise.optimize.collective_condition import collective_condition
from panewise.optimize.rewrites.rewriting import Rewritten, rewrite, rewrite_unless_shared
from panewise.optimize.technique_option import chosen_technique
from panewise.plan.aggregation import aggregation_of
from panewise.plan.blocks import Block, block_of
from panewise.plan.inputs import has_several_inputs, named_answer, windowed_inputs
from panewise.plan.nodes import Emit, Node, Scan
from panewise.plan.partitioning import partitioning
from panewise.plan.physical import (
    Adapting,
    DeltaQuery,
    FamilyQuery,
    FamilyShape,
    Once,
    OnceQuery,
    Operator,
    PhysicalQuery,
    RowQuery,
    Spread,
    Way,
)
from panewise.plan.shared_core import core_of
from panewise.plan.written_names import written
from panewise.temporal import RowsWindow, TimeWindow


def physical(plan: Emit, options: Options = (), sharing: str = "weave", name: str = "") -> PhysicalQuery:
    """The node of a query. `sharing`: one of `SHARING`; where nothing is shared, queries are told apart by `name`."""
    block = block_of(plan)
    if has_several_inputs(plan):
        return _of_several(plan, block, sharing, name)
    silent = dict(options).get("mode") == "lookup"
    window = block.window
    partitioned = isinstance(window, RowsWindow) and bool(window.partition_by)
    if block.aggregate is None or not block.periodic or block.restore or partitioned:
        operator = _operator(block, silent)
        inner = _inner(block.source, sharing, name, 1)
        return RowQuery(plan, block, inner, operator, silent, Spread(Way.TOGETHER))
    technique = chosen_technique(options)
    adapting = Adapting(weave=sharing == "weave" and technique is None, fold_together=sharing != "none")
    shape = FamilyShape(
        isinstance(window, RowsWindow), block.where, block.aggregate.keys, technique, _alone(sharing, name), adapting
    )
    return FamilyQuery(plan, block, _inner(block.source, sharing, name, 1), shape, _spread_of_member(block))


def physical_once(plan: Emit) -> OnceQuery:
    """The node of a query that is answered once."""
    if has_several_inputs(plan):
        return OnceQuery(plan, None, Once.WHOLE)
    block = block_of(plan)
    source = block.source
    if named_answer(plan) is not None:
        way = Once.ANSWER
    elif not isinstance(source, Scan) or source.kind == "table":
        way = Once.WHOLE
    elif source.kind == "archive":
        way = Once.ARCHIVE
    else:
        way = Once.WHOLE if block.window is None else Once.WINDOW
    return OnceQuery(plan, block, way)


def _alone(sharing: str, name: str) -> str:
    """What tells a query apart from all others, where it is to share with nobody."""
    return name if sharing == "none" else ""


def _inner(source: Node, sharing: str, name: str, number: int) -> PhysicalQuery | None:
    """The node of a query in parentheses."""
    return physical(source, (), sharing, f"{name}/{number}") if isinstance(source, Emit) else None


def _of_several(plan: Emit, block: Block, sharing: str, name: str) -> DeltaQuery:
    division = partitioning(plan)
    way = Way.EXCHANGED if division.keys else Way.TOGETHER
    spread = Spread(way, exchanged_by=division.keys, reason=division.reason)
    rewritten = cheapest(plan)
    core = core_of(plan) if rewritten.plan is plan else None
    plan = rewritten.plan
    inner = tuple(_inner(node.input, sharing, name, number) for number, node in enumerate(windowed_inputs(plan), 1))
    return DeltaQuery(plan, block, inner, core, rewritten.applied, _alone(sharing, name), spread)


def cheapest(plan: Emit) -> Rewritten:
    """The cheapest plan that means the same, but that one with a core which others may have too mostly keeps it."""
    return rewrite(plan) if core_of(plan) is None else rewrite_unless_shared(plan)


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
    """Partials of its slices, folded anywhere and merged by group, are all that most members need."""
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
