"""The scalar functions: which exist, what they take, and what type they give.

`resolve` turns a name and typed arguments into a typed expression. Every implicit conversion becomes an explicit Cast
(or a converted Literal), so that whoever evaluates or prints an expression never guesses a type. The rules are Spark's,
with three differences that keep answers exact and report mistakes early:

- A NULL literal has no type of its own and takes the one that its place needs.
- A STRING never becomes a number by itself. A STRING *literal* beside a DATE or TIMESTAMP is converted when the
  statement is bound, so a misspelt timestamp is an error and not a NULL.
- DECIMAL has at most 18 digits (`number_functions`). Comparisons are exact at any width: they convert to a DECIMAL of
  up to 38 digits that exists only inside the comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from panewise.errors import BindError, did_you_mean
from panewise.language.conversions import (
    Arguments,
    argument_as,
    converted,
    resolve_cast,
    shown_function,
    unified,
)
from panewise.language.expressions import Call, Case, Expression, Literal
from panewise.language.number_functions import (
    arithmetic,
    floating,
    integer_division,
    integer_operation,
    is_nan,
    rounded,
    same_number,
    whole,
)
from panewise.schema import BIGINT, BOOLEAN, DATE, INT, STRING, TIMESTAMP, DataType

TRUNCATION_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
# A longer result is NULL, so that a column of widths cannot fill the memory.
PADDED_LENGTH_MAX = 10_000


@dataclass(frozen=True)
class Function:
    """How many arguments a function takes (`most` None: any number), and the rule that types a call of it."""

    name: str
    least: int
    most: int | None
    typed: Callable[[str, Arguments], Expression]


def resolve(function: str, arguments: Arguments) -> Expression:
    """The typed call of a function. `function` is its canonical name or an alias, in any case.

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
    """CASE with its values converted to their common type. Without a default it ends in ELSE NULL.

    >>> from panewise.schema import DOUBLE
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
    """A rule with a fixed type for the result and for each argument; the last one repeats."""

    def typed(name: str, arguments: Arguments) -> Expression:
        expected = [parameters[min(index, len(parameters) - 1)] for index in range(len(arguments))]
        return Call(result, name, tuple(argument_as(name, a, t) for a, t in zip(arguments, expected, strict=True)))

    return typed


def _comparison(name: str, arguments: Arguments) -> Expression:
    return Call(BOOLEAN, name, unified(name, arguments, exact=True))


def _membership(name: str, arguments: Arguments) -> Expression:
    return Call(BOOLEAN, name, unified(name, arguments, exact=True))


def _of_any_type(name: str, arguments: Arguments) -> Expression:
    return Call(BOOLEAN, name, arguments)


def _of_common_type(name: str, arguments: Arguments) -> Expression:
    """coalesce, greatest and least give the common type of the arguments."""
    alike = unified(name, arguments)
    return alike[0] if len(alike) == 1 else Call(alike[0].type, name, alike)


def _nullif(name: str, arguments: Arguments) -> Expression:
    """NULLIF(a, b) is CASE WHEN a = b THEN NULL ELSE a END, which has the type of `a` even if the comparison widens."""
    first = arguments[0]
    return Case(first.type, ((resolve("eq", arguments), Literal(first.type, None)),), first)


def _if(name: str, arguments: Arguments) -> Expression:
    return resolve_case([(arguments[0], arguments[1])], arguments[2])


def _concat(name: str, arguments: Arguments) -> Expression:
    """concat and || convert every argument to STRING."""
    return Call(STRING, name, tuple(converted(argument, STRING) for argument in arguments))


def _pattern(name: str, arguments: Arguments) -> Expression:
    """like and ilike take a literal pattern and check it here. A backslash escapes %, _ and itself."""
    text, pattern = (argument_as(name, argument, STRING) for argument in arguments)
    if not isinstance(pattern, Literal):
        raise BindError(
            f"{shown_function(name)} takes a literal as its pattern", hint="CONTAINS and STARTS_WITH take columns"
        )
    if isinstance(pattern.value, str):
        rest = pattern.value.replace("\\\\", "").replace("\\%", "").replace("\\_", "")
        if "\\" in rest:
            raise BindError(
                f"in the pattern '{pattern.value}' a backslash is followed by something else than %, _ or \\"
            )
    return Call(BOOLEAN, name, (text, pattern))


def _trim(name: str, arguments: Arguments) -> Expression:
    """trim, ltrim and rtrim remove spaces, or the characters of a second argument, which is a literal."""
    texts = tuple(argument_as(name, argument, STRING) for argument in arguments)
    if len(texts) == 2 and not isinstance(texts[1], Literal):
        raise BindError(f"{shown_function(name)} takes a literal as the characters to trim")
    return Call(STRING, name, texts)


def _padding(name: str, arguments: Arguments) -> Expression:
    """lpad and rpad fill with spaces if no padding is given."""
    width = arguments[1]
    if isinstance(width, Literal) and isinstance(width.value, int) and width.value > PADDED_LENGTH_MAX:
        raise BindError(f"{shown_function(name)} pads to at most {PADDED_LENGTH_MAX} characters, not {width.value}")
    pad = arguments[2] if len(arguments) == 3 else Literal(STRING, " ")
    return _fixed(STRING, STRING, INT, STRING)(name, (*arguments[:2], pad))


def _date_part(name: str, arguments: Arguments) -> Expression:
    """A part of a DATE or TIMESTAMP, in UTC."""
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
    """to_date and to_timestamp are casts."""
    return lambda name, arguments: resolve_cast(arguments[0], target)


def _table() -> dict[str, Function]:
    table: dict[str, Function] = {}

    def add(names: str, typed: Callable[[str, Arguments], Expression], least: int, most: int | None = -1) -> None:
        for name in names.split():
            table[name] = Function(name, least, least if most == -1 else most, typed)

    add("add sub mul div mod", arithmetic, 2)
    add("neg abs", same_number, 1)
    add("integer_divide", integer_division, 2)
    add("bitwise_and bitwise_or bitwise_xor", integer_operation, 2)
    add("bitwise_not", integer_operation, 1)
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
    add("round", rounded, 1, 2)
    add("floor ceil", whole, 1)
    add("sqrt exp ln log10 log2 sign sin cos tan asin acos atan degrees radians", floating, 1)
    add("power atan2", floating, 2)
    add("is_nan", is_nan, 1)
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

# Spellings of Spark, DuckDB and PostgreSQL.
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
