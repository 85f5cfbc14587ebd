"""Builds plan nodes from typed statements.

The plan of a SELECT, from the bottom: inputs with their windows; a join if there are several; WHERE; EXISTS; GROUP BY
and aggregates; HAVING; the items; DISTINCT; relation to stream. Every valid statement has a plan. `supported_plans.py`
checks whether operators exist for it.
"""

from __future__ import annotations

from collections.abc import Callable

from panewise.aggregates.aggregate_functions import NOT_CONSTANT, AggregateFunction
from panewise.aggregates.holistic import COUNT_DISTINCT
from panewise.errors import PlanError
from panewise.language.expressions import AggregateCall, Expression, Literal, rewritten
from panewise.language.statements import WINDOWLESS, Input, Named, Query, Select, SelectItem, SetOperation
from panewise.language.statements import Emission as Emission
from panewise.plan.expressions.canonical import canonical
from panewise.plan.inputs import of_block
from panewise.plan.nodes import (
    Aggregate,
    Aggregated,
    Distinct,
    Emit,
    Filter,
    Join,
    Negate,
    Node,
    Project,
    Scan,
    Union,
    WindowOf,
    reference,
)
from panewise.temporal import Window

FindAggregate = Callable[[str], AggregateFunction | None]


def build(query: Query, find: FindAggregate) -> Emit:
    """The plan of a query. Its top node is an Emit."""
    if isinstance(query, Select):
        return _emit(_relation(query, find), query)
    return _emit(_set_operation(query, find), _first_select(query))


def _first_select(query: Query) -> Select:
    while isinstance(query, SetOperation):
        query = query.left
    return query


def _set_operation(query: Query, find: FindAggregate) -> Node:
    if isinstance(query, Select):
        return _relation(query, find)
    left, right = _set_operation(query.left, find), _set_operation(query.right, find)
    kind = query.kind.upper()
    if kind.startswith("UNION"):
        union = Union(left, right, kind)
        return union if kind == "UNION ALL" else Distinct(union)
    return Negate(left, right, kind)


def _relation(select: Select, find: FindAggregate) -> Node:
    """The plan of the relation that a SELECT computes, before it becomes a stream."""
    inputs = tuple(_input(entry, find) for entry in select.inputs)
    where = canonical(select.where) if select.where is not None else None
    node: Node
    if len(inputs) == 1:
        node = inputs[0] if where is None else Filter(inputs[0], where)
    else:
        node = Join(inputs, where, select.outer)
    for exists in select.exists:
        right = _relation(exists.select, find)
        node = Negate(node, right, "NOT EXISTS" if exists.negated else "EXISTS")
    if select.aggregated:
        node = _aggregate(node, select, find)
    else:
        node = Project(node, select.items)
    return Distinct(node) if select.distinct else node


def _input(entry: Input, find: FindAggregate) -> Node:
    relation = entry.relation
    node: Node
    if isinstance(relation, Named):
        alias = entry.alias if relation.kind in WINDOWLESS else ""
        node = Scan(relation.name, relation.kind, relation.schema, relation.timestamp, relation.retroactive, alias)
    else:
        node = build(relation, find)
    return node if entry.window is None else WindowOf(node, entry.window, entry.alias)


def _aggregate(node: Node, select: Select, find: FindAggregate) -> Node:
    """The nodes for the aggregate, HAVING and the items, which read its key and aggregate columns."""
    keys = tuple(canonical(key) for key in select.group_by)
    calls: dict[AggregateCall, int] = {}

    def lifted(expression: Expression) -> Expression:
        """The expression with keys and aggregates replaced by columns of the aggregate."""

        def change(part: Expression) -> Expression | None:
            if isinstance(part, AggregateCall):
                call = AggregateCall(
                    part.type, part.function, tuple(canonical(a) for a in part.arguments), part.distinct
                )
                return reference(f"aggregate_{calls.setdefault(call, len(calls))}", part)
            same = canonical(part)
            return reference(f"key_{keys.index(same)}", part) if same in keys else None

        return rewritten(expression, change)

    items = tuple(SelectItem(item.name, lifted(item.expression)) for item in select.items)
    having = lifted(select.having) if select.having is not None else None
    aggregate: Node = Aggregate(node, keys, tuple(_aggregated(call, find) for call in calls))
    if having is not None:
        aggregate = Filter(aggregate, having)
    return Project(aggregate, items)


def _aggregated(call: AggregateCall, find: FindAggregate) -> Aggregated:
    function = COUNT_DISTINCT if call.distinct else find(call.function)
    if call.distinct and call.function != "COUNT":
        hint = "COUNT(DISTINCT ...) has one"
        raise PlanError(f"{call.function}(DISTINCT ...) has no operator yet", hint=hint, about="DISTINCT")
    assert function is not None, call.function
    constants = tuple(a.value if isinstance(a, Literal) else NOT_CONSTANT for a in call.arguments)
    bound = function.bound(tuple(a.type for a in call.arguments), constants)
    return Aggregated(bound, function.of_rows(call.arguments))


def _emit(node: Node, select: Select) -> Emit:
    """The Emit on top of a relation, with the query's ISTREAM, DSTREAM or RSTREAM, or the default of its windows."""
    windows = node.windows()
    periodic = any(window.periodic for window in windows)
    internal = bool(windows) and all(window.internal for window in windows)
    emission = select.emit
    if emission is None:
        emission = _default_emission(node, windows, periodic, internal)
    if emission is Emission.RSTREAM and not periodic:
        raise PlanError(
            "RSTREAM of a continuous query would repeat the whole answer at every row",
            hint="give the window a SLIDE, or leave out RSTREAM to get a change log",
        )
    return Emit(node, emission, periodic, select.restore, internal)


def _default_emission(node: Node, windows: list[Window], periodic: bool, internal: bool) -> Emission:
    if not periodic:
        return Emission.ISTREAM if internal else Emission.CHANGES
    # An aggregate reports at every slide, even if its value has not changed. A selected row is a result only once.
    aggregated = any(isinstance(part, Aggregate) for part in of_block(node))
    return Emission.ISTREAM if internal and not aggregated else Emission.RSTREAM
