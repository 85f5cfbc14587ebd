"""Conversions between types: implicit ones, and those that CAST allows.

The result shows every conversion, as a Cast or as a literal of the other type. A NULL literal has no type of its own
and takes the type that its place needs.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal, localcontext

from panewise.errors import BindError
from panewise.language.expressions import Cast, Expression, Literal
from panewise.schema import BIGINT, DATE, DOUBLE, INT, STRING, TIMESTAMP, DataType
from panewise.temporal import INSTANT_MAX, INSTANT_MIN, instant_us

Arguments = tuple[Expression, ...]

DECIMAL_DIGITS_MAX = 18
COMPARISON_DIGITS_MAX = 38
_DATE_EPOCH = date(1970, 1, 1)

# Operators in messages.
SYMBOLS: dict[str, str] = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "mod": "%",
    "neg": "-",
    "integer_divide": "DIV",
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
    "bitwise_not": "~",
    "eq": "=",
    "ne": "<>",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "is_null": "IS NULL",
    "is_not_null": "IS NOT NULL",
    "is_distinct_from": "IS DISTINCT FROM",
}


def resolve_cast(operand: Expression, target: DataType) -> Expression:
    """CAST(operand AS target) as a user writes it; BindError if there is no such conversion.

    >>> resolve_cast(Literal(STRING, None), INT)
    Literal(type=DataType(name='INT', precision=0, scale=0), value=None)
    """
    if operand.type == target or untyped_null(operand):
        return converted(operand, target)
    if not castable(operand.type, target):
        hint = None
        if target == TIMESTAMP and operand.type.numeric:
            hint = "write TIMESTAMP_SECONDS(n), TIMESTAMP_MILLIS(n) or TIMESTAMP_MICROS(n)"
        elif operand.type == TIMESTAMP and target.numeric:
            hint = "write UNIX_SECONDS(ts), UNIX_MILLIS(ts) or UNIX_MICROS(ts)"
        raise BindError(f"{operand.type} cannot be cast to {target}", hint=hint)
    return Cast(target, operand)


def castable(source: DataType, target: DataType) -> bool:
    """Whether CAST converts `source` to `target`.

    >>> castable(STRING, TIMESTAMP), castable(BIGINT, TIMESTAMP)
    (True, False)
    """
    if source == target or STRING in (source, target):
        return True
    if source in (DATE, TIMESTAMP) or target in (DATE, TIMESTAMP):
        return source in (DATE, TIMESTAMP) and target in (DATE, TIMESTAMP)
    return True


def common_type(first: DataType, second: DataType) -> DataType | None:
    """The type to which both are converted implicitly, or None.

    >>> str(common_type(INT, BIGINT)), str(common_type(BIGINT, DOUBLE)), common_type(STRING, INT)
    ('BIGINT', 'DOUBLE', None)
    """
    if first == second:
        return first
    if {first, second} == {DATE, TIMESTAMP}:
        return TIMESTAMP
    if not (first.numeric and second.numeric):
        return None
    if first.integral and second.integral:
        return BIGINT
    if first.fractional or second.fractional:
        return DOUBLE
    return _decimal_of_both(first, second, DECIMAL_DIGITS_MAX) or DOUBLE


def converted(expression: Expression, target: DataType) -> Expression:
    """The expression as that type: itself, a literal of that type, or a Cast.

    >>> converted(Literal(INT, 1), DOUBLE)
    Literal(type=DataType(name='DOUBLE', precision=0, scale=0), value=1.0)
    """
    if expression.type == target:
        return expression
    if isinstance(expression, Literal):
        value = expression.value
        if value is None:
            return Literal(target, None)
        if expression.type.integral and target.integral and -(2**31) <= int(value) < 2**31:  # type: ignore[arg-type]
            return Literal(target, value)
        if expression.type == INT and target == BIGINT:
            return Literal(target, value)
        if isinstance(value, int | Decimal) and not isinstance(value, bool) and target == DOUBLE:
            return Literal(target, float(value))
        if isinstance(value, int | Decimal) and not isinstance(value, bool) and target.name == "DECIMAL":
            exact = Decimal(value)
            if _fits(exact, target):
                with localcontext() as context:
                    context.prec = COMPARISON_DIGITS_MAX
                    return Literal(target, exact.quantize(Decimal(1).scaleb(-target.scale)))
        if isinstance(value, str) and target in (DATE, TIMESTAMP):
            return _read_literal(value, target)
    return Cast(target, expression)


def untyped_null(expression: Expression) -> bool:
    return isinstance(expression, Literal) and expression.value is None


def _read_literal(text: str, target: DataType) -> Literal:
    """A timestamp or date that is written as a text literal. It is read once, when the statement is bound."""
    if target == TIMESTAMP:
        instant = instant_us(text)
        if not INSTANT_MIN <= instant <= INSTANT_MAX:
            raise BindError(f"'{text}' is not in the years 1 to 9999")
        return Literal(TIMESTAMP, instant)
    try:
        return Literal(DATE, (date.fromisoformat(text) - _DATE_EPOCH).days)
    except ValueError:
        raise BindError(f"'{text}' is not a valid date", hint="write '2026-01-31'") from None


def _fits(value: Decimal, target: DataType) -> bool:
    """Whether a DECIMAL type holds the value without rounding."""
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or -exponent > target.scale:
        return False
    return len(digits) + exponent <= target.precision - target.scale or value == 0


def decimal_of(expression: Expression) -> DataType:
    """The type of a whole or DECIMAL expression as DECIMAL. A whole literal has the precision of its own digits."""
    if isinstance(expression, Literal) and expression.type.integral and expression.value is not None:
        return DataType("DECIMAL", len(str(abs(int(expression.value)))), 0)  # type: ignore[arg-type]
    return _as_decimal(expression.type)


def _as_decimal(type: DataType) -> DataType:
    if type.name == "DECIMAL":
        return type
    return DataType("DECIMAL", 10 if type == INT else 19, 0)


def _decimal_of_both(first: DataType, second: DataType, digits_max: int) -> DataType | None:
    """The DECIMAL that holds the values of two whole or DECIMAL types; None if it has more than `digits_max` digits."""
    left, right = _as_decimal(first), _as_decimal(second)
    scale = max(left.scale, right.scale)
    precision = max(left.precision - left.scale, right.precision - right.scale) + scale
    return DataType("DECIMAL", precision, scale) if precision <= digits_max else None


def unified(where: str, arguments: Arguments, *, exact: bool = False) -> Arguments:
    """The arguments converted to their common type. `exact` allows the wide DECIMAL that a comparison needs."""
    typed = [argument for argument in arguments if not untyped_null(argument)]
    if not typed:
        return tuple(converted(argument, arguments[0].type) for argument in arguments)
    temporal = next((a.type for a in typed if a.type in (DATE, TIMESTAMP)), None)
    target: DataType | None = None
    for argument in typed:
        if temporal is not None and argument.type == STRING and isinstance(argument, Literal):
            # A text beside a DATE is a date, or a timestamp if it has a time of day.
            assert isinstance(argument.value, str)
            type = DATE if temporal == DATE and len(argument.value.strip()) <= 10 else TIMESTAMP
        else:
            type = argument.type
        if target is None:
            target = type
            continue
        before = target
        target = _exact_common_type(before, type, argument) if exact else common_type(before, type)
        if target is None:
            raise _mismatch(where, before, type)
    assert target is not None
    return tuple(converted(argument, target) for argument in arguments)


def _exact_common_type(first: DataType, second: DataType, argument: Expression) -> DataType | None:
    if first != second and first.numeric and second.numeric and not (first.fractional or second.fractional):
        if first.integral and second.integral:
            return BIGINT
        return _decimal_of_both(first, decimal_of(argument), COMPARISON_DIGITS_MAX)
    return common_type(first, second)


def _mismatch(where: str, first: DataType, second: DataType) -> BindError:
    hint = None
    if STRING in (first, second):
        other = second if first == STRING else first
        hint = f"write CAST(... AS {other}) to read the STRING as {other}"
    return BindError(f"{shown_function(where)} cannot take {first} and {second} together", hint=hint)


def argument_as(function: str, argument: Expression, target: DataType) -> Expression:
    """An argument for a place of one fixed type, converted to it if that loses nothing; otherwise BindError."""
    if argument.type == target or untyped_null(argument):
        return converted(argument, target)
    widened = (
        (target == DOUBLE and argument.type.numeric)
        or (target == BIGINT and argument.type == INT)
        or (target == INT and isinstance(argument, Literal) and _small(argument))
        or (target == TIMESTAMP and argument.type == DATE)
        or (target in (DATE, TIMESTAMP) and argument.type == STRING and isinstance(argument, Literal))
    )
    if not widened:
        raise BindError(
            f"{shown_function(function)} takes {with_article(target)} here, not {with_article(argument.type)}",
            hint=f"write CAST(... AS {target})" if castable(argument.type, target) else None,
        )
    return converted(argument, target)


def _small(literal: Literal) -> bool:
    return literal.type == BIGINT and -(2**31) <= int(literal.value) < 2**31  # type: ignore[arg-type]


def with_article(type: DataType) -> str:
    return f"an {type}" if type.name == "INT" else f"a {type}"


def shown_function(function: str) -> str:
    return SYMBOLS.get(function, function.upper())
