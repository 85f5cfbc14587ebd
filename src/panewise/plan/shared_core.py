"""The part of a plan that queries with other windows have in common: their core.

The core of a query over a join is the join, where all that it reads are windows of time over streams or queries; the
core of a DISTINCT over one such window is the DISTINCT. What is done above with its rows is each query's own. Two cores
are the same, whatever their ranges and slides, where they read the same inputs and mean the same by them; names of
inputs do not matter.
"""

from __future__ import annotations

from dataclasses import dataclass

from panewise.language.expressions import ColumnRef, Expression, rewritten
from panewise.language.statements import Emission as Emission
from panewise.language.statements import SelectItem
from panewise.plan.expressions.canonical import canonical
from panewise.plan.expressions.conjunctions import conjunction, conjuncts
from panewise.plan.inputs import of_block, table_inputs, windowed_inputs
from panewise.plan.nodes import Aggregate, Distinct, Emit, Filter, Join, Node, Project, WindowOf
from panewise.temporal import TimeWindow


@dataclass(frozen=True)
class SharedCore:
    """A core: its node, the windows that it reads, and what must be the same for it to be shared."""

    node: Join | Distinct
    inputs: tuple[WindowOf, ...]
    meaning: tuple[object, ...]

    @property
    def ranges(self) -> tuple[int, ...]:
        """How long a row of each input is in its window."""
        found = []
        for part in self.inputs:
            assert isinstance(part.window, TimeWindow) and part.window.range_us is not None
            found.append(part.window.range_us)
        return tuple(found)


def core_of(plan: Emit) -> SharedCore | None:
    """The core of a plan; None where it has none that could be shared."""
    inputs = tuple(windowed_inputs(plan))
    if table_inputs(plan) or not all(map(_plain, inputs)):
        return None
    for node in of_block(plan.input):
        if isinstance(node, Join) and node.inputs == inputs:
            condition = conjunction(conjuncts(node.condition))
            internal = tuple(part.window.internal for part in inputs)
            return SharedCore(node, inputs, ("join", internal, _meaning(condition, inputs)))
        if isinstance(node, Distinct) and len(inputs) == 1:
            selected = selected_rows(node)
            if selected is None:
                return None
            items, where = selected
            meant = tuple(_meaning(item.expression, inputs) for item in items)
            return SharedCore(node, inputs, ("distinct", meant, _meaning(where, inputs)))
    return None


Grouped = tuple[Aggregate, Expression | None, tuple[SelectItem, ...]]


def grouped_above(plan: Emit, core: SharedCore) -> Grouped | None:
    """The aggregate, HAVING and items of a plan that reports groups of the core's rows, and does nothing else."""
    if not plan.periodic or plan.emission is not Emission.RSTREAM or plan.restore:
        return None
    if not isinstance(plan.input, Project) or any(part.window.internal for part in core.inputs):
        return None
    below = plan.input.input
    having = below.predicate if isinstance(below, Filter) else None
    aggregate = below.input if isinstance(below, Filter) else below
    if not isinstance(aggregate, Aggregate) or aggregate.input is not core.node:
        return None
    return aggregate, having, plan.input.items


def columns_read(plan: Emit, core: SharedCore) -> list[ColumnRef]:
    """The columns of a core's inputs that the plan above it reads; at least one, so that rows can be counted."""
    found: dict[ColumnRef, None] = {}
    below = set(map(id, core.node.walk()))
    for node in of_block(plan.input):
        if id(node) not in below:
            found.update((column, None) for expression in _expressions(node) for column in expression.columns())
    named = [column for column in found if column.source is not None]
    first = core.inputs[0]
    return named or [ColumnRef(first.schema.columns[0].type, first.schema.columns[0].name, first.source)]


def _expressions(node: Node) -> list[Expression]:
    match node:
        case Filter(predicate=predicate):
            return [predicate]
        case Project(items=items):
            return [item.expression for item in items]
        case Aggregate(keys=keys, aggregates=aggregates):
            return [*keys, *(argument for call in aggregates for argument in call.arguments)]
    return []


def selected_rows(node: Distinct) -> tuple[tuple[SelectItem, ...], Expression | None] | None:
    """What DISTINCT selects of which rows, where it does so from a window directly."""
    if not isinstance(node.input, Project):
        return None
    below = node.input.input
    where = below.predicate if isinstance(below, Filter) else None
    source: Node = below.input if isinstance(below, Filter) else below
    return (node.input.items, where) if isinstance(source, WindowOf) else None


def _plain(node: WindowOf) -> bool:
    """Rows come when they are there and leave a fixed time after."""
    window = node.window
    return isinstance(window, TimeWindow) and window.range_us is not None and not window.offset_us


def _meaning(expression: Expression | None, inputs: tuple[WindowOf, ...]) -> Expression | None:
    """One form for what means the same, with inputs by number."""
    numbers = {node.source: str(number) for number, node in enumerate(inputs)}

    def change(part: Expression) -> Expression | None:
        if isinstance(part, ColumnRef) and part.source in numbers:
            return ColumnRef(part.type, part.name, numbers[part.source])
        return None

    return None if expression is None else canonical(rewritten(expression, change))
