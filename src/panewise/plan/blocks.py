"""A block: one SELECT over one windowed input, divided into the parts that hosts work on.

The parts are the source, its window, the selection, the aggregation, the items, and how the relation becomes a stream.
A source that is itself a query is another block.
"""

from __future__ import annotations

from dataclasses import dataclass

from panewise.language.expressions import ColumnRef, Expression
from panewise.language.statements import Emission as Emission
from panewise.language.statements import SelectItem
from panewise.plan.inputs import has_several_inputs, report_window, windowed_inputs
from panewise.plan.nodes import Aggregate, Emit, Filter, Node, Project, Scan, WindowOf
from panewise.schema import Column, Schema
from panewise.temporal import RowsWindow, TimeWindow, Window


@dataclass(frozen=True)
class Block:
    """If `aggregate` is None, the block selects rows. Otherwise items and HAVING read the columns of the aggregate."""

    source: Scan | Emit
    window: Window | None  # None only for a one-time query over another query's answer
    where: Expression | None
    aggregate: Aggregate | None
    having: Expression | None
    items: tuple[SelectItem, ...]
    emission: Emission
    periodic: bool
    restore: bool
    schema: Schema
    timestamp: str

    @property
    def source_schema(self) -> Schema:
        return self.source.schema

    @property
    def slide_us(self) -> int | None:
        """The slide in event time; None if the block reports by rows or at every change."""
        return self.window.slide_us if isinstance(self.window, TimeWindow) else None

    @property
    def rows_stand_alone(self) -> bool:
        """Whether results are single rows, reported when they come or go, and not reports of the whole answer."""
        return self.aggregate is None and self.emission is not Emission.RSTREAM

    @property
    def hands_rows_on(self) -> bool:
        """Whether a query that is created in mid-stream needs no earlier rows: its results begin with new rows."""
        return self.rows_stand_alone and not (isinstance(self.window, RowsWindow) and self.window.partition_by)


def block_of(plan: Emit) -> Block:
    """The block at the top of a supported plan. Of a plan over several inputs it has only the parts common to all."""
    if has_several_inputs(plan):
        return _of_several(plan)
    project = plan.input
    assert isinstance(project, Project)
    node: Node = project.input
    having, aggregate, where, window = None, None, None, None
    if isinstance(node, Filter) and isinstance(node.input, Aggregate):
        having, node = node.predicate, node.input
    if isinstance(node, Aggregate):
        aggregate, node = node, node.input
    if isinstance(node, Filter):
        where, node = node.predicate, node.input
    if isinstance(node, WindowOf):
        window, node = node.window, node.input
    assert isinstance(node, Scan | Emit)
    return Block(
        node,
        window,
        where,
        aggregate,
        having,
        project.items,
        plan.emission,
        plan.periodic,
        plan.restore,
        plan.schema,
        plan.timestamp,
    )


def _of_several(plan: Emit) -> Block:
    """A block whose source is the first input and whose window says only when there are reports."""
    source = windowed_inputs(plan)[0].input
    assert isinstance(source, Scan | Emit)
    items = tuple(SelectItem(column.name, reference_to(column)) for column in plan.input.schema)
    return Block(
        source,
        report_window(plan),
        None,
        None,
        None,
        items,
        plan.emission,
        plan.periodic,
        plan.restore,
        plan.schema,
        plan.timestamp,
    )


def reference_to(column: Column) -> ColumnRef:
    return ColumnRef(column.type, column.name)
