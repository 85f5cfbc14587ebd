"""The core of a plan: the part that queries with different windows can share.

If a query reads only windows of time over streams or queries, its join is its core; of a query over one such window,
its DISTINCT is. The operators above the core belong to each query. Two cores are the same if they read the same inputs
and have the same meaning. Ranges, slides and the names of inputs do not matter.
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
    """A core: its node, the windows that it reads, and its meaning. Cores with equal meanings can be shared."""

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
    """The core of a plan; None if it has none that could be shared."""
    inputs = tuple(windowed_inputs(plan))
    if table_inputs(plan) or not all(map(_is_shareable, inputs)):
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
    """The aggregate, HAVING and items of a plan that only groups the core's rows and reports them; otherwise None."""
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
    """The columns of a core's inputs that the plan above reads. There is at least one, so that rows can be counted."""
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
    """The items and WHERE of the SELECT under a DISTINCT; None if that does not read a window directly."""
    if not isinstance(node.input, Project):
        return None
    below = node.input.input
    where = below.predicate if isinstance(below, Filter) else None
    source: Node = below.input if isinstance(below, Filter) else below
    return (node.input.items, where) if isinstance(source, WindowOf) else None


def _is_shareable(node: WindowOf) -> bool:
    """Whether rows enter the window when they arrive and leave it after a fixed time."""
    window = node.window
    return isinstance(window, TimeWindow) and window.range_us is not None and not window.offset_us


def _meaning(expression: Expression | None, inputs: tuple[WindowOf, ...]) -> Expression | None:
    """The canonical form of an expression, with inputs replaced by their numbers."""
    numbers = {node.source: str(number) for number, node in enumerate(inputs)}

    def change(part: Expression) -> Expression | None:
        if isinstance(part, ColumnRef) and part.source in numbers:
            return ColumnRef(part.type, part.name, numbers[part.source])
        return None

    return None if expression is None else canonical(rewritten(expression, change))
