"""Rewrites queries over a sampled stream, so that they estimate the answer of the whole stream and mark it.

A stream that declares `shedding` may drop rows. Each row that it takes has in a hidden column, `EXCESS`, the number of
dropped rows that it represents besides itself: 1/p - 1 if it was taken with probability p, and exactly 0 if no rows
were dropped. Sums over a sample in which each row has the weight 1/p are unbiased (Horvitz and Thompson's estimator),
even if p changes within a window. So the aggregates of a SELECT are rewritten when the query is created:

    COUNT(*)   COUNT(*) + ROUND(SUM(excess))
    COUNT(x)   COUNT(x) + ROUND(SUM(excess where x is not NULL))
    SUM(x)     SUM(x) + ROUND(SUM(x * excess)), to the digits of the type; for floating numbers SUM(x * (1 + excess))
    AVG(x)     SUM(x * (1 + excess)) / SUM((1 + excess) where x is not NULL)

Integers stay exact while nothing is dropped: the first summand is the usual answer and the second is 0. All other
aggregates (MIN, MAX, COUNT(DISTINCT ...), quantiles) are over the taken rows only. So are COUNT and SUM over windows of
rows, which count taken rows, and over a join of a sampled stream with itself, whose pairs have no known probability. In
a join of several sampled streams the weight of a row is the product of the weights of its parts.

Every result has a mark as its last column, `sampled` DOUBLE. For an aggregate it is the number of rows taken in its
window divided by the number that they represent: 1.0 if nothing was dropped, NULL if no row was taken. For a row it is
the probability with which it was taken. For a query over a marked query it is the least mark of the rows that it read.
Queries that a sample cannot estimate are refused: DISTINCT rows, EXISTS and set operations other than UNION ALL. See
Golab 2006, section 2.4.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce

from panewise.catalog import Catalog, Definition, QueryDefinition, StreamDefinition
from panewise.errors import PlanError
from panewise.language.conversions import converted
from panewise.language.expressions import AggregateCall, ColumnRef, Expression, Literal, rewritten
from panewise.language.functions import resolve, resolve_case
from panewise.language.statements import (
    CreateQuery,
    Explain,
    Input,
    Named,
    Query,
    Select,
    SelectItem,
    SelectOnce,
    SetOperation,
    Statement,
)
from panewise.schema import BIGINT, DOUBLE, INT, Column, Schema
from panewise.temporal import RowsWindow

EXCESS = "sampling_excess"
MARK = "sampled"
_ONE = Literal(DOUBLE, 1.0)
_NO_EXCESS = Literal(DOUBLE, 0.0)


def with_excess(schema: Schema) -> Schema:
    """The columns that queries over a sampled stream read. Statements cannot name the last one."""
    return Schema((*schema.columns, Column(EXCESS, DOUBLE)))


def scale_sampled(statement: Statement, catalog: Catalog) -> Statement:
    """The statement. If its query reads sampled streams, the query is scaled and marked."""
    if isinstance(statement, CreateQuery | SelectOnce | Explain) and statement.query is not None:
        return replace(statement, query=_scaled(statement.query, catalog)[0])
    return statement


def is_sampled(definition: Definition | None, catalog: Catalog) -> bool:
    """Whether the definition is a sampled stream or a query that reads one, directly or through other queries."""
    if isinstance(definition, QueryDefinition):
        return any(is_sampled(catalog.find(name), catalog) for name in definition.inputs)
    return isinstance(definition, StreamDefinition) and definition.sheds


def _scaled(query: Query, catalog: Catalog) -> tuple[Query, bool]:
    """The query, and whether its last item is the mark."""
    if isinstance(query, Select):
        return _scaled_select(query, catalog)
    left, left_marked = _scaled(query.left, catalog)
    right, right_marked = _scaled(query.right, catalog)
    if not (left_marked or right_marked):
        return query, False
    if query.kind != "UNION ALL":
        raise _no_estimate(query.kind)
    left = left if left_marked else _marked_whole(left)
    right = right if right_marked else _marked_whole(right)
    return SetOperation(query.kind, left, right), True


def _marked_whole(query: Query) -> Query:
    if isinstance(query, SetOperation):
        return replace(query, left=_marked_whole(query.left), right=_marked_whole(query.right))
    return _with_mark(query, _ONE)


def _scaled_select(select: Select, catalog: Catalog) -> tuple[Select, bool]:
    inputs: list[Input] = []
    marks: list[Expression] = []  # mark columns of the inputs that have one
    taken: list[Input] = []  # inputs that are sampled streams
    several = len(select.inputs) > 1
    for entry in select.inputs:
        relation = entry.relation
        source = entry.alias if several else None
        if isinstance(relation, Named):
            definition = catalog.find(relation.name)
            if isinstance(definition, StreamDefinition) and definition.sheds:
                entry = replace(entry, relation=replace(relation, schema=with_excess(relation.schema)))
                taken.append(entry)
            elif is_sampled(definition, catalog):
                marks.append(ColumnRef(DOUBLE, MARK, source))
        else:
            inner, marked = _scaled(relation, catalog)
            entry = replace(entry, relation=inner)
            marks += [ColumnRef(DOUBLE, MARK, source)] if marked else []
        inputs.append(entry)
    if any(_reads_sampled(exists.select, catalog) for exists in select.exists):
        raise _no_estimate("EXISTS")
    if not (taken or marks):
        return replace(select, inputs=tuple(inputs)), False
    if select.distinct or select.exists:
        raise _no_estimate("DISTINCT" if select.distinct else "EXISTS")
    select = replace(select, inputs=tuple(inputs))
    excess = _excess_of(taken, several) if taken else None
    if excess is not None and _scalable(taken):
        select = replace(
            select,
            items=tuple(SelectItem(item.name, _weighed(item.expression, excess)) for item in select.items),
            having=None if select.having is None else _weighed(select.having, excess),
        )
    if any(item.name.lower() == MARK for item in select.items):
        if excess is None:
            return select, True  # the query selects the mark of its input itself
        raise PlanError(
            f"results over a stream with shedding already have a column '{MARK}'",
            hint="give the item of this name another name",
        )
    return _with_mark(select, _mark(select, excess, marks)), True


def _reads_sampled(select: Select, catalog: Catalog) -> bool:
    return _scaled_select(select, catalog)[1]


def _no_estimate(what: str) -> PlanError:
    return PlanError(
        f"{what} over a stream with shedding cannot be estimated: the dropped rows may change it in any way",
        hint="create the stream without shedding; then pushes wait instead",
    )


def _scalable(taken: list[Input]) -> bool:
    """Whether the probability of every aggregated row is the product of the probabilities of its parts."""
    names = [entry.relation.name.lower() for entry in taken if isinstance(entry.relation, Named)]
    return len(set(names)) == len(names) and not any(isinstance(entry.window, RowsWindow) for entry in taken)


def _excess_of(taken: list[Input], several: bool) -> Expression:
    """The number of rows that a row represents besides itself."""
    columns = [ColumnRef(DOUBLE, EXCESS, entry.alias if several else None) for entry in taken]
    if len(columns) == 1:
        return columns[0]
    weights = [resolve("add", (_ONE, column)) for column in columns]
    return resolve("sub", (reduce(lambda a, b: resolve("mul", (a, b)), weights), _ONE))


def _with_mark(select: Select, mark: Expression) -> Select:
    return replace(select, items=(*select.items, SelectItem(MARK, mark)))


def _mark(select: Select, excess: Expression | None, marks: list[Expression]) -> Expression:
    parts: list[Expression] = []
    if select.aggregated:
        if excess is not None:
            count: Expression = AggregateCall(BIGINT, "COUNT", ())
            stood_for = resolve("add", (count, resolve("coalesce", (_sum(excess), _NO_EXCESS))))
            parts.append(resolve("div", (count, stood_for)))
        parts += [AggregateCall(DOUBLE, "MIN", (mark,)) for mark in marks]
    else:
        if excess is not None:
            parts.append(resolve("div", (_ONE, resolve("add", (_ONE, excess)))))
        parts += marks
    return parts[0] if len(parts) == 1 else resolve("least", tuple(parts))


def _sum(expression: Expression) -> Expression:
    return AggregateCall(DOUBLE, "SUM", (expression,))


def _weighed(expression: Expression, excess: Expression) -> Expression:
    """The expression with those aggregates scaled that can be."""

    def change(part: Expression) -> Expression | None:
        if not isinstance(part, AggregateCall):
            return None
        scaled = next(_estimates(part, excess), part)
        return scaled if scaled.type == part.type else converted(scaled, part.type)

    return rewritten(expression, change)


def _estimates(call: AggregateCall, excess: Expression) -> Iterator[Expression]:
    """The estimate that replaces an aggregate call; nothing if the call stays as it is."""
    match call:
        case AggregateCall(distinct=True):
            return
        case AggregateCall(function="COUNT", arguments=()):
            yield resolve("add", (call, _rounded_count(_sum(excess))))
        case AggregateCall(function="COUNT", arguments=(value,)):
            yield resolve("add", (call, _rounded_count(_sum(_where_present(value, excess)))))
        case AggregateCall(function="SUM", arguments=(value,)):
            number = converted(value, DOUBLE)
            if value.type.fractional:
                yield _sum(resolve("mul", (number, resolve("add", (_ONE, excess)))))
                return
            more = resolve("round", (_sum(resolve("mul", (number, excess))), Literal(INT, call.type.scale)))
            yield resolve("add", (call, converted(more, call.type)))
        case AggregateCall(function="AVG" | "MEAN", arguments=(value,)):
            weight = resolve("add", (_ONE, excess))
            total = _sum(resolve("mul", (converted(value, DOUBLE), weight)))
            yield resolve("div", (total, _sum(_where_present(value, weight))))


def _rounded_count(total: Expression) -> Expression:
    return resolve("coalesce", (converted(resolve("round", (total,)), BIGINT), Literal(BIGINT, 0)))


def _where_present(value: Expression, counted: Expression) -> Expression:
    return resolve_case([(resolve("is_not_null", (value,)), counted)], Literal(DOUBLE, None))
