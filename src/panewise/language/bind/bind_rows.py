"""Binds INSERT, UPDATE and DELETE: values must fit the columns of the table.

A value of INSERT is a literal and is converted when it is bound. A value that does not fit is an error, never a NULL.
TIMESTAMP and DATE values are microseconds and days since the epoch, as in `expressions.Literal`.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from sqlglot import exp

from panewise.catalog import TableDefinition
from panewise.errors import did_you_mean
from panewise.language import conversions
from panewise.language.bind.bind_expressions import ExpressionBinder
from panewise.language.bind.binding import Binding
from panewise.language.bind.scope import Scope, ScopeSource
from panewise.language.expressions import Expression, Literal, Value
from panewise.language.parse import syntax as nodes
from panewise.language.statements import Delete, Insert, Update
from panewise.schema import BIGINT, BOOLEAN, DATE, INT, STRING, TIMESTAMP, Column, DataType

_NO_AGGREGATES = "INSERT, UPDATE and DELETE work on one row at a time"
_WHOLE_LIMITS = {INT: 2**31, BIGINT: 2**63}


def bind_insert(node: nodes.InsertRows, text: str, binding: Binding) -> Insert:
    table = _table(node.this, binding)
    named: list[exp.Identifier] = node.args.get("columns") or []
    columns = [_column(table, name, binding) for name in named] if named else list(table.schema)
    for position, column in enumerate(columns):
        if column in columns[:position]:
            raise binding.error(f"column '{column.name}' is given twice", named[position])
    rows = []
    for row in node.expressions:
        if len(row.expressions) != len(columns):
            message = (
                f"expected {len(columns)} values ({', '.join(c.name for c in columns)}), found {len(row.expressions)}"
            )
            raise binding.error(message, row)
        given = {c.name: _value(v, c, binding) for c, v in zip(columns, row.expressions, strict=True)}
        for key in table.primary_key:
            if given.get(key) is None:
                raise binding.error(f"'{key}' is the primary key and cannot be NULL", row)
        rows.append(tuple(given.get(column.name) for column in table.schema))
    return Insert(text, table.name, tuple(rows))


def bind_update(node: nodes.UpdateRows, text: str, binding: Binding) -> Update:
    table = _table(node.this, binding)
    binder = _binder(table, "SET", binding)
    assignments: dict[str, Expression] = {}
    for assignment in node.expressions:
        column = _column(table, assignment.this.this, binding)
        if column.name in assignments:
            raise binding.error(f"column '{column.name}' is set twice", assignment)
        assignments[column.name] = _assigned(assignment.expression, column, binder, binding)
    return Update(text, table.name, tuple(assignments.items()), _where(node, table, binding))


def bind_delete(node: nodes.DeleteRows, text: str, binding: Binding) -> Delete:
    table = _table(node.this, binding)
    return Delete(text, table.name, _where(node, table, binding))


def _table(name: exp.Identifier, binding: Binding) -> TableDefinition:
    found = binding.catalog.find(name.name)
    if found is not None and found.kind == "stream":
        raise binding.error(f"'{found.name}' is a stream, not a table", name, "push rows to a stream")
    table = binding.definition(name, "table")
    assert isinstance(table, TableDefinition)
    return table


def _column(table: TableDefinition, name: exp.Identifier, binding: Binding) -> Column:
    column = table.schema.find(name.name)
    if column is None:
        hint = did_you_mean(name.name, table.schema.names)
        raise binding.error(f"'{table.name}' has no column '{name.name}'", name, hint)
    return column


def _binder(table: TableDefinition, clause: str, binding: Binding) -> ExpressionBinder:
    return ExpressionBinder(binding, Scope((ScopeSource(table.name, table.schema),)), clause, _NO_AGGREGATES)


def _where(node: exp.Expr, table: TableDefinition, binding: Binding) -> Expression | None:
    where = node.args.get("where")
    return None if where is None else _binder(table, "WHERE", binding).bind_condition(where.this)


def _assigned(node: exp.Expr, column: Column, binder: ExpressionBinder, binding: Binding) -> Expression:
    if _is_literal(node):
        return Literal(column.type, _value(node, column, binding))
    bound = binder.bind(node)
    if isinstance(bound, Literal):
        return Literal(column.type, _fitted(bound, column, node, binding))
    if bound.type != column.type and conversions.common_type(bound.type, column.type) != column.type:
        message = f"column '{column.name}' is {column.type}, not {bound.type}"
        raise binding.error(message, node, f"write CAST(... AS {column.type})")
    return conversions.converted(bound, column.type)


def _is_literal(node: exp.Expr) -> bool:
    while isinstance(node, exp.Paren | exp.Neg):
        node = node.this
    return isinstance(node, exp.Literal | exp.Null | exp.Boolean | nodes.TimeLiteral)


def _value(node: exp.Expr, column: Column, binding: Binding) -> Value:
    """The value of a literal as the column's type."""
    if column.type.name == "DECIMAL":
        exact = _decimal(node)
        if exact is not None:
            return _decimal_value(exact, column, node, binding)
    bound = ExpressionBinder(binding, Scope(()), "VALUES", _NO_AGGREGATES).bind(node)
    if not isinstance(bound, Literal):
        raise binding.error("VALUES takes literals", node)
    return _fitted(bound, column, node, binding)


def _decimal(node: exp.Expr) -> Decimal | None:
    """The digits of a number as written; a DOUBLE would lose some of them."""
    negative = False
    while isinstance(node, exp.Paren | exp.Neg):
        negative ^= isinstance(node, exp.Neg)
        node = node.this
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    try:
        exact = Decimal(node.this)
    except InvalidOperation:
        return None
    return -exact if negative else exact


def _decimal_value(exact: Decimal, column: Column, node: exp.Expr, binding: Binding) -> Decimal:
    type_ = column.type
    fits = exact.adjusted() < type_.precision - type_.scale and exact.adjusted() > -1000
    try:
        value = exact.quantize(Decimal(1).scaleb(-type_.scale)) if fits or not exact else None
    except InvalidOperation:
        value = None
    if value is None or value != exact:
        raise binding.error(f"the value does not fit in column '{column.name}' {type_}", node)
    return value


def _fitted(literal: Literal, column: Column, node: exp.Expr, binding: Binding) -> Value:
    value, type_ = literal.value, column.type
    if value is None:
        return None
    whole = isinstance(value, int) and literal.type in (INT, BIGINT)
    fits: Value = None
    if type_ in _WHOLE_LIMITS and whole and -_WHOLE_LIMITS[type_] <= int(value) < _WHOLE_LIMITS[type_]:  # type: ignore[arg-type]
        fits = value
    elif type_.fractional and (whole or literal.type.fractional):
        fits = float(value)  # type: ignore[arg-type]
    elif type_ == literal.type and type_ in (BOOLEAN, STRING, DATE, TIMESTAMP):
        fits = value
    elif type_ in (DATE, TIMESTAMP) and literal.type in (STRING, DATE):
        fits = _temporal(literal, type_, node, binding)
    if fits is None:
        raise binding.error(f"a {literal.type} does not fit in column '{column.name}' {type_}", node)
    return fits


def _temporal(literal: Literal, target: DataType, node: exp.Expr, binding: Binding) -> Value:
    if literal.type == DATE:
        return int(literal.value) * 86_400_000_000 if target == TIMESTAMP else None  # type: ignore[arg-type]
    with binding.at(node):
        read = conversions.converted(literal, target)
    return read.value if isinstance(read, Literal) else None
