"""Typed expressions as readable SQL, for EXPLAIN and messages.

Operators are infix, with only the parentheses that the meaning needs. Functions are printed by their canonical names,
in upper case. Equal expressions have equal texts.
"""

from __future__ import annotations

import math
import re
from datetime import date, timedelta
from decimal import Decimal

from panewise.language.expressions import AggregateCall, Call, Case, Cast, ColumnRef, Expression, Literal
from panewise.language.parse.parse_select import EMIT_WORDS, REFUSED_WORDS
from panewise.language.parse.tokens import CqlTokenizer
from panewise.temporal import format_duration, format_instant

# Precedence of infix operators: higher binds more tightly. A right operand of equal precedence needs parentheses.
_INFIX: dict[str, tuple[str, int]] = {
    "or": ("OR", 1),
    "and": ("AND", 2),
    "eq": ("=", 4),
    "ne": ("<>", 4),
    "lt": ("<", 5),
    "le": ("<=", 5),
    "gt": (">", 5),
    "ge": (">=", 5),
    "is_distinct_from": ("IS DISTINCT FROM", 6),
    "like": ("LIKE", 6),
    "ilike": ("ILIKE", 6),
    "bitwise_and": ("&", 7),
    "bitwise_or": ("|", 7),
    "bitwise_xor": ("^", 7),
    "add": ("+", 8),
    "sub": ("-", 8),
    "timestamp_diff": ("-", 8),
    "date_diff": ("-", 8),
    "mul": ("*", 9),
    "div": ("/", 9),
    "mod": ("%", 9),
    "integer_divide": ("DIV", 9),
}
_NOT, _POSTFIX, _TERM, _UNARY, _ATOM = 3, 6, 8, 10, 11
_PLAIN_NAME = re.compile(r"[^\W\d][\w$]*")
_RESERVED = {word for keyword in CqlTokenizer.KEYWORDS for word in keyword.split()} | {*EMIT_WORDS, *REFUSED_WORDS}


def to_sql(expression: Expression) -> str:
    """The expression as SQL.

    >>> from panewise.schema import DOUBLE
    >>> to_sql(
    ...     Call(
    ...         DOUBLE,
    ...         "mul",
    ...         (Call(DOUBLE, "add", (ColumnRef(DOUBLE, "a"), Literal(DOUBLE, 1.0))), ColumnRef(DOUBLE, "b")),
    ...     )
    ... )
    '(a + 1.0) * b'
    """
    return _printed(expression)[0]


def name_to_sql(name: str) -> str:
    """A name, in double quotes if it needs them.

    >>> name_to_sql("price"), name_to_sql("max(price)"), name_to_sql("from")
    ('price', '"max(price)"', '"from"')
    """
    if _PLAIN_NAME.fullmatch(name) and name.upper() not in _RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def _printed(expression: Expression) -> tuple[str, int]:
    """The text and its precedence."""
    match expression:
        case ColumnRef():
            qualifier = "" if expression.source is None else name_to_sql(expression.source) + "."
            return qualifier + name_to_sql(expression.name), _ATOM
        case Literal():
            return _literal(expression)
        case Cast():
            return f"CAST({to_sql(expression.operand)} AS {expression.type})", _ATOM
        case Case():
            branches = "".join(f" WHEN {to_sql(when)} THEN {to_sql(then)}" for when, then in expression.branches)
            null = isinstance(expression.default, Literal) and expression.default.value is None
            default = "" if null else f" ELSE {to_sql(expression.default)}"
            return f"CASE{branches}{default} END", _ATOM
        case AggregateCall():
            arguments = ", ".join(map(to_sql, expression.arguments)) or ("*" if expression.function == "COUNT" else "")
            return f"{expression.function}({'DISTINCT ' if expression.distinct else ''}{arguments})", _ATOM
        case Call():
            return _call(expression)
    raise AssertionError(expression)


def _call(call: Call) -> tuple[str, int]:
    function, arguments = call.function, call.arguments
    if function in _INFIX and len(arguments) == 2:
        symbol, strength = _INFIX[function]
        right = strength if function in ("and", "or") else strength + 1
        return f"{_at_least(arguments[0], strength)} {symbol} {_at_least(arguments[1], right)}", strength
    if function == "not":
        return f"NOT {_at_least(arguments[0], _NOT)}", _NOT
    if function in ("is_null", "is_not_null"):
        word = "NULL" if function == "is_null" else "NOT NULL"
        return f"{_at_least(arguments[0], _POSTFIX + 1)} IS {word}", _POSTFIX
    if function == "in":
        choices = ", ".join(map(to_sql, arguments[1:]))
        return f"{_at_least(arguments[0], _POSTFIX + 1)} IN ({choices})", _POSTFIX
    if function in ("neg", "bitwise_not"):
        operand = _at_least(arguments[0], _UNARY)
        space = " " if function == "neg" and operand.startswith("-") else ""
        return f"{'-' if function == 'neg' else '~'}{space}{operand}", _UNARY
    if function == "timestamp_add" and isinstance(arguments[1], Literal) and isinstance(arguments[1].value, int):
        micros = arguments[1].value
        sign = "-" if micros < 0 else "+"
        return f"{_at_least(arguments[0], _TERM)} {sign} INTERVAL {format_duration(abs(micros))}", _TERM
    return f"{function.upper()}({', '.join(map(to_sql, arguments))})", _ATOM


def _at_least(expression: Expression, strength: int) -> str:
    text, own = _printed(expression)
    return text if own >= strength else f"({text})"


def _literal(literal: Literal) -> tuple[str, int]:
    value, type_ = literal.value, literal.type
    if value is None:
        return "NULL", _ATOM
    if isinstance(value, bool):
        return ("TRUE" if value else "FALSE"), _ATOM
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'", _ATOM
    if type_.name == "TIMESTAMP" and isinstance(value, int):
        return f"TIMESTAMP '{format_instant(value)}'", _ATOM
    if type_.name == "DATE" and isinstance(value, int):
        return f"DATE '{date(1970, 1, 1) + timedelta(days=value)}'", _ATOM
    if isinstance(value, float) and not math.isfinite(value):
        return f"CAST('{value}' AS {type_})", _ATOM
    text = format(value, "f") if isinstance(value, Decimal) else str(value)
    return text, (_UNARY if text.startswith("-") else _ATOM)
