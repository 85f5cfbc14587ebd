"""Plans over several inputs: which they are, what they read, and when they report.

A block (`blocks.py`) has one windowed input and no DISTINCT; other plans run as trees of operators over deltas.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeGuard

from panewise.language.statements import WINDOWLESS
from panewise.plan.nodes import Distinct, Emit, Join, Negate, Node, Scan, Union, WindowOf
from panewise.temporal import RowsWindow, TimeWindow, Window


def of_block(node: Node) -> Iterator[Node]:
    """The nodes of a plan without those of the queries that it reads."""
    yield node
    if not isinstance(node, WindowOf):
        for child in node.children():
            yield from of_block(child)


def has_several_inputs(plan: Emit) -> bool:
    """Whether the plan joins, unites, subtracts or removes duplicates."""
    return any(isinstance(node, Join | Negate | Union | Distinct) for node in of_block(plan.input))


def windowed_inputs(plan: Emit) -> list[WindowOf]:
    """The windows over streams and queries, in the order in which operators count them."""
    return [node for node in of_block(plan.input) if isinstance(node, WindowOf)]


def table_inputs(plan: Emit) -> list[Scan]:
    """The tables and archives, each as often as it is read, in the order in which operators count them."""
    return [node for node in of_block(plan.input) if is_table(node)]


def is_table(node: Node) -> TypeGuard[Scan]:
    """Or an archive, which a one-time query reads like one."""
    return isinstance(node, Scan) and node.kind in WINDOWLESS


def source_names(node: Node) -> set[str]:
    """By which names expressions refer to the inputs of a block."""
    inputs = [part for part in of_block(node) if isinstance(part, WindowOf) or is_table(part)]
    return {part.source if isinstance(part, WindowOf) else part.alias for part in inputs}


def joined_as(node: Node) -> str:
    """The name by which expressions refer to an input of a join: what stands behind EXISTS has other ones."""
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

    Rows of streams meet each other, then the versions of non-retroactive tables, then retroactive tables, whose rows
    end: nothing that ends lies below a table that keeps no versions. Without versions all are joined as they stand.
    """
    versioned = [node for node in inputs if is_table(node) and not node.retroactive]
    if not versioned:
        return list(inputs)
    streams = [node for node in inputs if not is_table(node)]
    return [*streams, *versioned, *(node for node in inputs if is_table(node) and node.retroactive)]


def report_window(plan: Emit) -> TimeWindow | None:
    """When a periodic plan reports, and as the range how far back the longest of its windows reaches; None otherwise.

    All its slides and alignments are the same, which `supported_plans.py` sees to.
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
    """Of a one-time query: whether an input is another query without a window, whose answer is meant."""
    return isinstance(node.input, Scan) and node.input.kind == "query" and is_answer(node.window)


def named_answer(plan: Emit) -> str | None:
    """The query whose answer is read, where FROM names one without a window."""
    inputs = windowed_inputs(plan)
    if len(inputs) != 1 or table_inputs(plan) or not reads_answer(inputs[0]):
        return None
    scan = inputs[0].input
    assert isinstance(scan, Scan)
    return scan.name


def is_answer(window: Window) -> bool:
    """Whether a window over a query, in a one-time query, says that its answer is meant and not its results."""
    return isinstance(window, TimeWindow) and window.range_us is None and not window.periodic
