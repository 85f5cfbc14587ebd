"""The types of functions on numbers: arithmetic, rounding, bit operations.

Each rule takes the canonical name of a function and its typed arguments, and returns the typed expression. Sums,
differences and remainders keep DECIMAL if both sides fit in 18 digits at the larger scale (a carry past them is an
overflow: NULL). Products keep it if the digits of both sides add up to at most 18. Everything wider, and every
division, is DOUBLE.
"""

from __future__ import annotations

from decimal import Decimal

from panewise.errors import BindError
from panewise.language.conversions import (
    DECIMAL_DIGITS_MAX,
    Arguments,
    argument_as,
    common_type,
    converted,
    decimal_of,
    shown_function,
    unified,
    untyped_null,
    with_article,
)
from panewise.language.expressions import Call, Expression, Literal
from panewise.schema import BIGINT, BOOLEAN, DATE, DOUBLE, FLOAT, INT, STRING, TIMESTAMP, DataType


def _number(name: str, argument: Expression) -> Expression:
    if untyped_null(argument):
        return argument if argument.type.numeric else converted(argument, INT)
    if not argument.type.numeric:
        hint = "write CAST(... AS DOUBLE)" if argument.type == STRING else None
        raise BindError(f"{shown_function(name)} takes a number, not {with_article(argument.type)}", hint=hint)
    return argument


def arithmetic(name: str, arguments: Arguments) -> Expression:
    left, right = arguments
    if name == "sub" and any(argument.type in (DATE, TIMESTAMP) for argument in arguments):
        return _temporal_difference(left, right)
    if any(argument.type in (DATE, TIMESTAMP) for argument in arguments):
        raise BindError(
            f"{shown_function(name)} cannot take {left.type} and {right.type}",
            hint="write ts + INTERVAL 5 MINUTES, or DATE_ADD(day, 3)",
        )
    left, right = _number(name, left), _number(name, right)
    if untyped_null(left) or untyped_null(right):
        left, right = unified(name, (left, right))
    if name == "div" or left.type.fractional or right.type.fractional:
        both_float = left.type == FLOAT and right.type == FLOAT and name != "div"
        target = FLOAT if both_float else DOUBLE
        return Call(target, name, (converted(left, target), converted(right, target)))
    if left.type.integral and right.type.integral:
        type = common_type(left.type, right.type)
        assert type is not None
        return Call(type, name, (converted(left, type), converted(right, type)))
    left_type, right_type = decimal_of(left), decimal_of(right)
    result = _decimal_result(name, left_type, right_type)
    if result is None:
        return Call(DOUBLE, name, (converted(left, DOUBLE), converted(right, DOUBLE)))
    return Call(result, name, (converted(left, left_type), converted(right, right_type)))


def _decimal_result(name: str, left: DataType, right: DataType) -> DataType | None:
    """Spark's precision and scale, without the digit for a carry at the limit of 18; None if the result is DOUBLE."""
    whole_left, whole_right = left.precision - left.scale, right.precision - right.scale
    if name == "mul":
        digits, scale = left.precision + right.precision, left.scale + right.scale
    else:
        scale = max(left.scale, right.scale)
        digits = max(whole_left, whole_right) + scale
    if digits > DECIMAL_DIGITS_MAX:
        return None
    precision = max(1, min(whole_left, whole_right) + scale) if name == "mod" else digits + 1
    return DataType("DECIMAL", min(precision, DECIMAL_DIGITS_MAX), scale)


def _temporal_difference(left: Expression, right: Expression) -> Expression:
    left, right = unified("sub", (left, right))
    if left.type == DATE:
        return Call(INT, "date_diff", (left, right))
    return Call(BIGINT, "timestamp_diff", (left, right))


def same_number(name: str, arguments: Arguments) -> Expression:
    """neg and abs keep the type of the argument. A negated literal is a literal."""
    argument = _number(name, arguments[0])
    value = argument.value if isinstance(argument, Literal) else None
    # A literal -0.0 would be equal to 0.0 in Python. The least whole number has no opposite.
    if name == "neg" and isinstance(value, int | float | Decimal) and value and value not in (-(2**31), -(2**63)):
        return Literal(argument.type, -value)
    return Call(argument.type, name, (argument,))


def floating(name: str, arguments: Arguments) -> Expression:
    numbers = tuple(converted(_number(name, argument), DOUBLE) for argument in arguments)
    return Call(DOUBLE, name, numbers)


def whole(name: str, arguments: Arguments) -> Expression:
    """floor and ceil give BIGINT, or DECIMAL without fraction digits."""
    argument = _number(name, arguments[0])
    if argument.type.integral:
        return converted(argument, BIGINT)
    if argument.type.name == "DECIMAL":
        digits = min(DECIMAL_DIGITS_MAX, argument.type.precision - argument.type.scale + 1)
        return Call(DataType("DECIMAL", digits, 0), name, (argument,))
    return Call(BIGINT, name, (converted(argument, DOUBLE),))


def rounded(name: str, arguments: Arguments) -> Expression:
    """ROUND(x, digits) rounds half away from zero. `digits` is a literal; below 0 it means tens, hundreds and so on."""
    argument = _number(name, arguments[0])
    digits = argument_as(name, arguments[1], INT) if len(arguments) == 2 else Literal(INT, 0)
    if not isinstance(digits, Literal) or not isinstance(digits.value, int):
        raise BindError("ROUND takes a whole number as its second argument, written as a literal")
    if not -30 <= digits.value <= 30:
        raise BindError(f"ROUND takes -30 to 30 digits, not {digits.value}")
    if argument.type.fractional:
        argument = converted(argument, DOUBLE)
    type = argument.type
    if type.name == "DECIMAL":
        scale = max(0, min(type.scale, digits.value))
        if scale < type.scale or digits.value < 0:
            whole_digits = max(type.precision - type.scale, -digits.value) + 1
            type = DataType("DECIMAL", min(DECIMAL_DIGITS_MAX, whole_digits + scale), scale)
    return Call(type, name, (argument, digits))


def integer_operation(name: str, arguments: Arguments) -> Expression:
    """Bit operations take whole numbers and give their common type."""
    numbers = unified(name, tuple(_number(name, argument) for argument in arguments))
    if not numbers[0].type.integral:
        raise BindError(f"{shown_function(name)} takes whole numbers, not {with_article(numbers[0].type)}")
    return Call(numbers[0].type, name, numbers)


def integer_division(name: str, arguments: Arguments) -> Expression:
    return Call(BIGINT, name, tuple(argument_as(name, _number(name, argument), BIGINT) for argument in arguments))


def is_nan(name: str, arguments: Arguments) -> Expression:
    return Call(BOOLEAN, name, (converted(_number(name, arguments[0]), DOUBLE),))
