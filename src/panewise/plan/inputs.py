"""What plans over several inputs read, and when they report.

A block (`blocks.py`) has one windowed input and no DISTINCT. All other plans have "several inputs" and run as trees of
operators over deltas.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeGuard

from panewise.language.statements import WINDOWLESS
from panewise.plan.nodes import Distinct, Emit, Join, Negate, Node, Scan, Union, WindowOf
from panewise.temporal import RowsWindow, TimeWindow, Window


def of_block(node: Node) -> Iterator[Node]:
    """The nodes of a plan, without those inside the queries that it reads."""
    yield node
    if not isinstance(node, WindowOf):
        for child in node.children():
            yield from of_block(child)


def has_several_inputs(plan: Emit) -> bool:
    """Whether the plan has a join, union, negation or DISTINCT."""
    return any(isinstance(node, Join | Negate | Union | Distinct) for node in of_block(plan.input))


def windowed_inputs(plan: Emit) -> list[WindowOf]:
    """The windows over streams and queries, in the order in which operators number them."""
    return [node for node in of_block(plan.input) if isinstance(node, WindowOf)]


def table_inputs(plan: Emit) -> list[Scan]:
    """The tables and archives, each as often as it is read, in the order in which operators number them."""
    return [node for node in of_block(plan.input) if is_table(node)]


def is_table(node: Node) -> TypeGuard[Scan]:
    """Whether the node scans a table, or an archive, which a one-time query reads like a table."""
    return isinstance(node, Scan) and node.kind in WINDOWLESS


def source_names(node: Node) -> set[str]:
    """The names by which expressions refer to the inputs of a block."""
    inputs = [part for part in of_block(node) if isinstance(part, WindowOf) or is_table(part)]
    return {part.source if isinstance(part, WindowOf) else part.alias for part in inputs}


def joined_as(node: Node) -> str:
    """The name by which expressions refer to an input of a join. Inputs inside EXISTS do not count."""
    while isinstance(node, Negate):
        node = node.left
    if isinstance(node, WindowOf):
        return node.source
    if is_table(node):
        return node.alias
    (below,) = node.children()
    return joined_as(below)


def in_layers(inputs: Sequence[Node]) -> list[Node]:
    """The inputs of a join in the order of their columns in it.

    Streams come first, then non-retroactive tables, which have versions, then retroactive tables, whose rows end: no
    input whose rows end may be below a versioned table. If no table has versions, the order stays as it is.
    """
    versioned = [node for node in inputs if is_table(node) and not node.retroactive]
    if not versioned:
        return list(inputs)
    streams = [node for node in inputs if not is_table(node)]
    return [*streams, *versioned, *(node for node in inputs if is_table(node) and node.retroactive)]


def report_window(plan: Emit) -> TimeWindow | None:
    """The slide and alignment of a periodic plan, with the reach of its longest window as range; otherwise None.

    `supported_inputs.py` has checked that all slides and alignments are the same.
    """
    windows = [node.window for node in windowed_inputs(plan)]
    periodic = next((w for w in windows if isinstance(w, TimeWindow) and w.periodic), None)
    if periodic is None:
        return None
    reaches = [None if isinstance(w, RowsWindow) or w.range_us is None else w.range_us + w.offset_us for w in windows]
    known = [reach for reach in reaches if reach is not None]
    reach = max(known) if len(known) == len(reaches) else None
    return TimeWindow(reach, periodic.slide_us, 0, periodic.align_us)


def reads_answer(node: WindowOf) -> bool:
    """Whether an input of a one-time query is another query without a window: then its answer is read."""
    return isinstance(node.input, Scan) and node.input.kind == "query" and is_answer(node.window)


def named_answer(plan: Emit) -> str | None:
    """The query that FROM names without a window, whose answer is read; None if FROM names anything else."""
    inputs = windowed_inputs(plan)
    if len(inputs) != 1 or table_inputs(plan) or not reads_answer(inputs[0]):
        return None
    if any(isinstance(node, Emit) for node in plan.input.walk()):
        return None  # a query in parentheses reads it
    scan = inputs[0].input
    assert isinstance(scan, Scan)
    return scan.name


def is_answer(window: Window) -> bool:
    """Whether this window over a query, in a one-time query, means that query's answer and not its results."""
    return isinstance(window, TimeWindow) and window.range_us is None and not window.periodic
