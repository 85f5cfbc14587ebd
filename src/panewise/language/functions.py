"""The scalar functions: which exist, what they take, and what type they give.

`resolve` turns a name and typed arguments into a typed expression. Every implicit conversion becomes an explicit Cast
(or a converted Literal), so that whoever evaluates or prints an expression never guesses a type. The rules are Spark's,
with three differences that keep answers exact and errors early:

- A NULL literal has no type of its own and takes the one that its place needs.
- A STRING never becomes a number by itself. A STRING *literal* beside a DATE or TIMESTAMP is read when it is bound, so
  that a misspelt instant is an error and not a NULL.
- DECIMAL has at most 18 digits. Sums, differences and remainders keep DECIMAL as long as both sides fit in 18 digits at
  the larger scale (a carry past them is an overflow: NULL); products as long as the digits of both sides add up to at
  most 18. Everything wider, and every division, is DOUBLE. Comparisons are exact at any width: they
  convert to a DECIMAL of up to 38 digits that never leaves the comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from panewise.errors import BindError, did_you_mean
from panewise.language.conversions import (
    DECIMAL_DIGITS_MAX,
    SYMBOLS,
    Arguments,
    argument_as,
    castable,
    common_type,
    converted,
    decimal_of,
    resolve_cast,
    shown_function,
    unified,
    untyped_null,
    with_article,
)
from panewise.language.expressions import Call, Case, Expression, Literal
from panewise.schema import BIGINT, BOOLEAN, DATE, DOUBLE, FLOAT, INT, STRING, TIMESTAMP, DataType

__all__ = [
    "ALIASES",
    "FUNCTIONS",
    "SYMBOLS",
    "Function",
    "castable",
    "common_type",
    "converted",
    "resolve",
    "resolve_case",
    "resolve_cast",
]

TRUNCATION_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
# A column of widths must not be able to fill the memory: a text that would become longer is NULL.
PADDED_LENGTH_MAX = 10_000


@dataclass(frozen=True)
class Function:
    """One function: how many arguments it takes (`most` None is any number) and how they are typed."""

    name: str
    least: int
    most: int | None
    typed: Callable[[str, Arguments], Expression]


def resolve(function: str, arguments: Arguments) -> Expression:
    """The typed call of a function, by its canonical name or an alias in any case; BindError where it does not fit.

    >>> from panewise.language.expressions import ColumnRef
    >>> resolve("add", (ColumnRef(BIGINT, "size"), Literal(INT, 1)))  # doctest: +NORMALIZE_WHITESPACE
    Call(type=DataType(name='BIGINT', precision=0, scale=0), function='add',
         arguments=(ColumnRef(type=DataType(name='BIGINT', precision=0, scale=0), name='size', source=None),
                    Literal(type=DataType(name='BIGINT', precision=0, scale=0), value=1)))
    """
    name = function.lower()
    found = FUNCTIONS.get(ALIASES.get(name, name))
    if found is None:
        known = [*FUNCTIONS, *ALIASES]
        raise BindError(f"there is no function '{function}'", hint=did_you_mean(function, known))
    if len(arguments) < found.least or (found.most is not None and len(arguments) > found.most):
        raise BindError(f"{shown_function(found.name)} takes {_arity(found)}, not {len(arguments)}")
    return found.typed(found.name, arguments)


def resolve_case(branches: Sequence[tuple[Expression, Expression]], default: Expression | None = None) -> Expression:
    """CASE with its values converted to their common type; without a default it is NULL.

    >>> resolve_case([(Literal(BOOLEAN, True), Literal(INT, 1))], Literal(DOUBLE, 0.5)).type.name
    'DOUBLE'
    """
    conditions = [argument_as("CASE", condition, BOOLEAN) for condition, _ in branches]
    values = [value for _, value in branches] + [Literal(STRING, None) if default is None else default]
    alike = unified("CASE", tuple(values))
    return Case(alike[0].type, tuple(zip(conditions, alike[:-1], strict=True)), alike[-1])


def _arity(function: Function) -> str:
    if function.most is None:
        return f"at least {function.least} argument{'s' if function.least != 1 else ''}"
    if function.least == function.most:
        return f"{function.least} argument{'s' if function.least != 1 else ''}"
    return f"{function.least} to {function.most} arguments"


# ---- typing rules: (canonical name, arguments) -> expression --------------------------------------------------------


def _fixed(result: DataType, *parameters: DataType) -> Callable[[str, Arguments], Expression]:
    """One type per argument; the last repeats."""

    def typed(name: str, arguments: Arguments) -> Expression:
        expected = [parameters[min(index, len(parameters) - 1)] for index in range(len(arguments))]
        return Call(result, name, tuple(argument_as(name, a, t) for a, t in zip(arguments, expected, strict=True)))

    return typed


def _numeric(name: str, argument: Expression) -> Expression:
    if untyped_null(argument):
        return argument if argument.type.numeric else converted(argument, INT)
    if not argument.type.numeric:
        hint = "write CAST(... AS DOUBLE)" if argument.type == STRING else None
        raise BindError(f"{shown_function(name)} takes a number, not {with_article(argument.type)}", hint=hint)
    return argument


def _arithmetic(name: str, arguments: Arguments) -> Expression:
    left, right = arguments
    if name == "sub" and any(argument.type in (DATE, TIMESTAMP) for argument in arguments):
        return _temporal_difference(left, right)
    if any(argument.type in (DATE, TIMESTAMP) for argument in arguments):
        raise BindError(
            f"{shown_function(name)} cannot take {left.type} and {right.type}",
            hint="write ts + INTERVAL 5 MINUTES, or DATE_ADD(day, 3)",
        )
    left, right = _numeric(name, left), _numeric(name, right)
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
    """Spark's result precision and scale, with one digit of carry given up at the limit; None where it is DOUBLE."""
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


def _same_number(name: str, arguments: Arguments) -> Expression:
    """neg and abs: the type of the argument; a negated literal is a literal."""
    argument = _numeric(name, arguments[0])
    value = argument.value if isinstance(argument, Literal) else None
    # A negative zero is equal to zero in Python and would be confused with it; the least whole number has no opposite.
    if name == "neg" and isinstance(value, int | float | Decimal) and value and value not in (-(2**31), -(2**63)):
        return Literal(argument.type, -value)
    return Call(argument.type, name, (argument,))


def _comparison(name: str, arguments: Arguments) -> Expression:
    return Call(BOOLEAN, name, unified(name, arguments, exact=True))


def _membership(name: str, arguments: Arguments) -> Expression:
    return Call(BOOLEAN, name, unified(name, arguments, exact=True))


def _of_any_type(name: str, arguments: Arguments) -> Expression:
    return Call(BOOLEAN, name, arguments)


def _of_common_type(name: str, arguments: Arguments) -> Expression:
    """coalesce, greatest, least: the common type of the arguments."""
    alike = unified(name, arguments)
    return alike[0] if len(alike) == 1 else Call(alike[0].type, name, alike)


def _nullif(name: str, arguments: Arguments) -> Expression:
    """NULLIF(a, b) is CASE WHEN a = b THEN NULL ELSE a END, so that the comparison may widen and the result not."""
    first = arguments[0]
    return Case(first.type, ((resolve("eq", arguments), Literal(first.type, None)),), first)


def _if(name: str, arguments: Arguments) -> Expression:
    return resolve_case([(arguments[0], arguments[1])], arguments[2])


def _floating(name: str, arguments: Arguments) -> Expression:
    numbers = tuple(converted(_numeric(name, argument), DOUBLE) for argument in arguments)
    return Call(DOUBLE, name, numbers)


def _whole(name: str, arguments: Arguments) -> Expression:
    """floor and ceil: BIGINT, or DECIMAL without fraction digits."""
    argument = _numeric(name, arguments[0])
    if argument.type.integral:
        return converted(argument, BIGINT)
    if argument.type.name == "DECIMAL":
        digits = min(DECIMAL_DIGITS_MAX, argument.type.precision - argument.type.scale + 1)
        return Call(DataType("DECIMAL", digits, 0), name, (argument,))
    return Call(BIGINT, name, (converted(argument, DOUBLE),))


def _round(name: str, arguments: Arguments) -> Expression:
    """ROUND(x, digits), half away from zero; digits is a literal, below 0 for tens and hundreds."""
    argument = _numeric(name, arguments[0])
    digits = argument_as(name, arguments[1], INT) if len(arguments) == 2 else Literal(INT, 0)
    if not isinstance(digits, Literal) or not isinstance(digits.value, int):
        raise BindError("ROUND takes a whole literal as its second argument")
    if not -30 <= digits.value <= 30:
        raise BindError("ROUND takes -30 to 30 digits")
    if argument.type.fractional:
        argument = converted(argument, DOUBLE)
    type = argument.type
    if type.name == "DECIMAL":
        scale = max(0, min(type.scale, digits.value))
        if scale < type.scale or digits.value < 0:
            whole = max(type.precision - type.scale, -digits.value) + 1
            type = DataType("DECIMAL", min(DECIMAL_DIGITS_MAX, whole + scale), scale)
    return Call(type, name, (argument, digits))


def _integer_operation(name: str, arguments: Arguments) -> Expression:
    """Bit operations: whole numbers of one common type."""
    numbers = unified(name, tuple(_numeric(name, argument) for argument in arguments))
    if not numbers[0].type.integral:
        raise BindError(f"{shown_function(name)} takes whole numbers, not {with_article(numbers[0].type)}")
    return Call(numbers[0].type, name, numbers)


def _integer_division(name: str, arguments: Arguments) -> Expression:
    return _fixed(BIGINT, BIGINT)(name, tuple(_numeric(name, argument) for argument in arguments))


def _concat(name: str, arguments: Arguments) -> Expression:
    """concat and ||: everything as STRING."""
    return Call(STRING, name, tuple(converted(argument, STRING) for argument in arguments))


def _pattern(name: str, arguments: Arguments) -> Expression:
    """like and ilike: the pattern is a literal, checked now; a backslash escapes %, _ and itself."""
    text, pattern = (argument_as(name, argument, STRING) for argument in arguments)
    if not isinstance(pattern, Literal):
        raise BindError(
            f"{shown_function(name)} takes a literal as its pattern", hint="CONTAINS and STARTS_WITH take columns"
        )
    if isinstance(pattern.value, str):
        rest = pattern.value.replace("\\\\", "").replace("\\%", "").replace("\\_", "")
        if "\\" in rest:
            raise BindError(
                f"in the pattern '{pattern.value}' a backslash stands before something else than %, _ or \\"
            )
    return Call(BOOLEAN, name, (text, pattern))


def _trim(name: str, arguments: Arguments) -> Expression:
    """trim, ltrim, rtrim: spaces, or any of the characters of a second argument, which is a literal."""
    texts = tuple(argument_as(name, argument, STRING) for argument in arguments)
    if len(texts) == 2 and not isinstance(texts[1], Literal):
        raise BindError(f"{shown_function(name)} takes a literal as the characters to trim")
    return Call(STRING, name, texts)


def _padding(name: str, arguments: Arguments) -> Expression:
    """lpad and rpad: the padding is a space where none is given."""
    width = arguments[1]
    if isinstance(width, Literal) and isinstance(width.value, int) and width.value > PADDED_LENGTH_MAX:
        raise BindError(f"{shown_function(name)} pads to at most {PADDED_LENGTH_MAX} characters, not {width.value}")
    pad = arguments[2] if len(arguments) == 3 else Literal(STRING, " ")
    return _fixed(STRING, STRING, INT, STRING)(name, (*arguments[:2], pad))


def _date_part(name: str, arguments: Arguments) -> Expression:
    """Parts of a DATE or TIMESTAMP, in UTC."""
    argument = arguments[0]
    if name in ("hour", "minute", "second") or argument.type != DATE:
        argument = argument_as(name, argument, TIMESTAMP)
    return Call(INT, name, (argument,))


def _date_trunc(name: str, arguments: Arguments) -> Expression:
    unit, instant = arguments
    if not isinstance(unit, Literal) or not isinstance(unit.value, str) or unit.value.upper() not in TRUNCATION_UNITS:
        raise BindError("DATE_TRUNC takes the unit as a literal", hint="units are " + ", ".join(TRUNCATION_UNITS))
    return Call(TIMESTAMP, name, (replace(unit, value=unit.value.upper()), argument_as(name, instant, TIMESTAMP)))


def _date_sub(name: str, arguments: Arguments) -> Expression:
    return resolve("date_add", (arguments[0], resolve("neg", (argument_as(name, arguments[1], INT),))))


def _to(target: DataType) -> Callable[[str, Arguments], Expression]:
    """to_date and to_timestamp: casts by another name."""
    return lambda name, arguments: resolve_cast(arguments[0], target)


def _table() -> dict[str, Function]:
    table: dict[str, Function] = {}

    def add(names: str, typed: Callable[[str, Arguments], Expression], least: int, most: int | None = -1) -> None:
        for name in names.split():
            table[name] = Function(name, least, least if most == -1 else most, typed)

    add("add sub mul div mod", _arithmetic, 2)
    add("neg abs", _same_number, 1)
    add("integer_divide", _integer_division, 2)
    add("bitwise_and bitwise_or bitwise_xor", _integer_operation, 2)
    add("bitwise_not", _integer_operation, 1)
    add("eq ne lt le gt ge is_distinct_from", _comparison, 2)
    add("and or", _fixed(BOOLEAN, BOOLEAN), 2)
    add("not", _fixed(BOOLEAN, BOOLEAN), 1)
    add("is_null is_not_null", _of_any_type, 1)
    add("in", _membership, 2, None)
    add("like ilike", _pattern, 2)
    add("coalesce", _of_common_type, 1, None)
    add("greatest least", _of_common_type, 2, None)
    add("nullif", _nullif, 2)
    add("if", _if, 3)
    add("round", _round, 1, 2)
    add("floor ceil", _whole, 1)
    add("sqrt exp ln log10 log2 sign sin cos tan asin acos atan degrees radians", _floating, 1)
    add("power atan2", _floating, 2)
    add("is_nan", lambda name, arguments: Call(BOOLEAN, name, (converted(_numeric(name, arguments[0]), DOUBLE),)), 1)
    add("upper lower reverse", _fixed(STRING, STRING), 1)
    add("length", _fixed(INT, STRING), 1)
    add("trim ltrim rtrim", _trim, 1, 2)
    add("substring", _fixed(STRING, STRING, INT), 2, 3)
    add("concat", _concat, 1, None)
    add("replace", _fixed(STRING, STRING), 3)
    add("starts_with ends_with contains", _fixed(BOOLEAN, STRING), 2)
    add("left right", _fixed(STRING, STRING, INT), 2)
    add("lpad rpad", _padding, 2, 3)
    add("instr", _fixed(INT, STRING), 2)
    add("year quarter month day hour minute second day_of_week day_of_year week", _date_part, 1)
    add("date_trunc", _date_trunc, 2)
    add("epoch_micros unix_millis unix_seconds", _fixed(BIGINT, TIMESTAMP), 1)
    add("timestamp_micros timestamp_millis timestamp_seconds", _fixed(TIMESTAMP, BIGINT), 1)
    add("timestamp_add", _fixed(TIMESTAMP, TIMESTAMP, BIGINT), 2)
    add("timestamp_diff", _fixed(BIGINT, TIMESTAMP), 2)
    add("date_add", _fixed(DATE, DATE, INT), 2)
    add("date_sub", _date_sub, 2)
    add("date_diff", _fixed(INT, DATE), 2)
    add("to_date", _to(DATE), 1)
    add("to_timestamp", _to(TIMESTAMP), 1)
    return table


FUNCTIONS: dict[str, Function] = _table()

# Other spellings that people bring from Spark, DuckDB and PostgreSQL.
ALIASES: dict[str, str] = {
    "ceiling": "ceil",
    "char_length": "length",
    "character_length": "length",
    "datediff": "date_diff",
    "dateadd": "date_add",
    "dayofmonth": "day",
    "dayofweek": "day_of_week",
    "dayofyear": "day_of_year",
    "endswith": "ends_with",
    "epoch_us": "epoch_micros",
    "ifnull": "coalesce",
    "iff": "if",
    "isnan": "is_nan",
    "isnotnull": "is_not_null",
    "isnull": "is_null",
    "lcase": "lower",
    "log": "ln",
    "negative": "neg",
    "nvl": "coalesce",
    "pow": "power",
    "signum": "sign",
    "startswith": "starts_with",
    "strpos": "instr",
    "substr": "substring",
    "ucase": "upper",
    "unix_micros": "epoch_micros",
    "weekofyear": "week",
}
