"""The option `refresh` of a query: whether its SLIDE is exact or an upper bound.

    CREATE QUERY q WITH (refresh = 'at_most') AS SELECT ... FROM s [RANGE 1 MINUTE SLIDE 7 SECONDS]

`exact`, the default: a report at every multiple of the slide. `at_most`, as in Golab 2006, section 8.4.1: the slide is
the longest time between two reports. When such a query is created, it gets the longest slide up to its own at which
another query of its family (same source, WHERE and GROUP BY) already reports:

    slide of the other query   2 s   |   |   |   |   |   |   |
    slide as written           7 s               .      |
    chosen slide               6 s               |            each of its reports is at an instant of the other query

So the family needs no more edges for the ends of its windows, and both queries are answered in one pass. If there is no
such query, the query keeps its slide. The chosen slide never changes while the query lives. It is stored
(`plan/decided.py`), and EXPLAIN shows it. Each report is over the window with the chosen slide.
"""

from __future__ import annotations

from dataclasses import replace

from panewise.catalog import Options
from panewise.errors import PlanError
from panewise.plan.blocks import Block, block_of
from panewise.plan.inputs import has_several_inputs
from panewise.plan.nodes import Aggregate, Emit, Filter, Node, Project, WindowOf
from panewise.plan.physical_plan import PhysicalPlan, hosted
from panewise.temporal import TimeWindow

AT_MOST = "at_most"


def is_at_most(options: Options) -> bool:
    return dict(options).get("refresh") == AT_MOST


def check_refresh(plan: Emit) -> None:
    """PlanError if a query with this plan has no slide that could be an upper bound."""
    block = None if has_several_inputs(plan) else block_of(plan)
    if block is None or not _is_periodic_aggregate(block) or block.restore:
        raise PlanError(
            "refresh = 'at_most' is only for aggregates over one sliding window of time",
            hint="give the window a SLIDE, or leave refresh out",
        )


def slide_at_most(plan: Emit, running: PhysicalPlan) -> int:
    """The longest slide up to the plan's own at which a running query of its family reports; otherwise its own."""
    block = block_of(plan)
    others = (node.block for name, planned in running.queries.items() for _, node in hosted(name, planned.node))
    window = block.window
    assert isinstance(window, TimeWindow) and window.slide_us is not None
    slides = [
        window.slide_us // other.window.slide_us * other.window.slide_us
        for other in others
        if _is_family(block, other)
        and isinstance(other.window, TimeWindow)
        and other.window.slide_us is not None
        and other.window.slide_us <= window.slide_us
        and (other.window.align_us - window.align_us) % other.window.slide_us == 0
    ]
    return max(slides, default=window.slide_us)


def with_slide(plan: Emit, slide_us: int) -> Emit:
    """The plan with another slide."""
    replaced = _with_slide(plan, slide_us)
    assert isinstance(replaced, Emit)
    return replaced


def _with_slide(node: Node, slide_us: int) -> Node:
    if isinstance(node, WindowOf):
        assert isinstance(node.window, TimeWindow)
        return replace(node, window=replace(node.window, slide_us=slide_us))
    assert isinstance(node, Emit | Project | Filter | Aggregate), node
    return replace(node, input=_with_slide(node.input, slide_us))


def _is_family(block: Block, other: Block) -> bool:
    if block.aggregate is None or other.aggregate is None or not _is_periodic_aggregate(other):
        return False
    return (block.source, block.where, block.aggregate.keys) == (other.source, other.where, other.aggregate.keys)


def _is_periodic_aggregate(block: Block) -> bool:
    return block.aggregate is not None and block.periodic and isinstance(block.window, TimeWindow)
