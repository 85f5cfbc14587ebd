"""Scalar expressions as Spark SQL text with the same values as `evaluate`.

The text depends neither on the session's ANSI setting nor on its time zone. Arithmetic and casts are printed as Spark's
`try_` functions. Calendar arithmetic works on `unix_micros` and on TIMESTAMP_NTZ counted from the epoch, which Spark
always reads as UTC. Known differences: transcendental functions may differ in the last digit, and Java before version
19 prints some doubles with one digit more than needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from panewise.language.expressions import AggregateCall, Call, Case, Cast, ColumnRef, Expression, Literal
from panewise.language.functions import PADDED_LENGTH_MAX
from panewise.plan.expressions.spark_sql_casts import (
    bounded_micros,
    cast_to_spark_sql,
    date_micros,
    naive_timestamp,
    text_literal,
)
from panewise.schema import DATE, DOUBLE, DataType
from panewise.temporal import DAY, HOUR, INSTANT_MAX, INSTANT_MIN, MILLISECOND, MINUTE, SECOND, WEEK

Printer = Callable[[Call, list[str]], str]

_DATE_MIN = INSTANT_MIN // DAY
_DATE_MAX = INSTANT_MAX // DAY
_INT64_MIN = -(2**63)
_INT32_MIN = -(2**31)


def to_spark_sql(expression: Expression) -> str:
    """The expression as Spark SQL.

    >>> from panewise.language.functions import resolve
    >>> from panewise.schema import BIGINT
    >>> to_spark_sql(resolve("div", (ColumnRef(BIGINT, "size"), Literal(BIGINT, 2))))
    'try_divide(CAST(`size` AS DOUBLE), 2.0D)'
    """
    match expression:
        case ColumnRef():
            name = _quoted(expression.name)
            return name if expression.source is None else f"{_quoted(expression.source)}.{name}"
        case Literal():
            return _literal(expression)
        case Cast():
            return cast_to_spark_sql(to_spark_sql(expression.operand), expression.operand.type, expression.type)
        case Case():
            branches = " ".join(f"WHEN {to_spark_sql(c)} THEN {to_spark_sql(v)}" for c, v in expression.branches)
            return f"CASE {branches} ELSE {to_spark_sql(expression.default)} END"
        case Call():
            return PRINTERS[expression.function](expression, [to_spark_sql(a) for a in expression.arguments])
        case AggregateCall():
            raise AssertionError(f"{expression.function} is an aggregate: only scalar expressions are printed here")
    raise AssertionError(expression)


# ---- names and literals ----------------------------------------------------------------------------------------------


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _spark_type(type: DataType) -> str:
    return f"DECIMAL({type.precision},{type.scale})" if type.name == "DECIMAL" else type.name


def _literal(literal: Literal) -> str:
    value, name = literal.value, literal.type.name
    if value is None:
        return f"CAST(NULL AS {_spark_type(literal.type)})"
    if name == "BOOLEAN":
        return "TRUE" if value else "FALSE"
    if name == "INT":
        # Spark cannot parse the least INT as a literal, because it reads 2147483648 before the sign.
        return str(value) if value != _INT32_MIN else f"CAST({value} AS INT)"
    if name == "BIGINT":
        return f"{value}L"
    if name in ("FLOAT", "DOUBLE"):
        assert isinstance(value, float | int)
        return _floating_literal(float(value), literal.type)
    if name == "DECIMAL":
        return f"CAST('{value:f}' AS {_spark_type(literal.type)})"
    if name == "STRING":
        return text_literal(str(value))
    if name == "DATE":
        return f"date_from_unix_date({value})"
    return f"timestamp_micros({value}L)"


def _floating_literal(value: float, type: DataType) -> str:
    if math.isnan(value) or math.isinf(value):
        word = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return f"CAST('{word}' AS {type.name})"
    # Spark's parser refuses doubles near the limits; its casts accept them.
    plain = type == DOUBLE and (value == 0 or 1e-300 < abs(value) < 1e300)
    return f"{value!r}D" if plain else f"CAST('{value!r}' AS {type.name})"


# ---- printers: (call, printed arguments) -> text ---------------------------------------------------------------------


def _named(name: str) -> Printer:
    return lambda call, arguments: f"{name}({', '.join(arguments)})"


def _operator(symbol: str) -> Printer:
    return lambda call, arguments: "(" + f" {symbol} ".join(arguments) + ")"


def _arithmetic(name: str) -> Printer:
    def printed(call: Call, arguments: list[str]) -> str:
        if call.type.integral and name in ("try_add", "try_multiply"):
            arguments = _kept_apart(call, arguments)
        text = f"{name}({', '.join(arguments)})"
        # Spark's result has up to 38 digits. Ours has the declared type, and is NULL if it has too many digits.
        return f"try_cast({text} AS {_spark_type(call.type)})" if call.type.name == "DECIMAL" else text

    return printed


def _kept_apart(call: Call, arguments: list[str]) -> list[str]:
    """Operands of a sum (or product) of whole numbers that Spark's optimizer cannot regroup.

    Spark's ReorderAssociativeOperator turns try_add(try_add(x, 5), -5) into x, although x + 5 may overflow and be NULL.
    Subtracting 0 ends the chain and costs nothing. It is added if there is another sum (or product) anywhere below,
    because other rules may move that one to the top.
    """
    zero = "0" if call.type.name == "INT" else "0L"
    return [
        f"try_subtract({text}, {zero})" if _contains(node, call.function) else text
        for node, text in zip(call.arguments, arguments, strict=True)
    ]


def _contains(expression: Expression, function: str) -> bool:
    return any(isinstance(node, Call) and node.function == function for node in expression.walk())


def _negate(call: Call, arguments: list[str]) -> str:
    if call.type.integral:
        return f"try_subtract({'0' if call.type.name == 'INT' else '0L'}, {arguments[0]})"
    return f"(- {arguments[0]})"


def _absolute(call: Call, arguments: list[str]) -> str:
    if call.type.integral:
        lowest = f"CAST({_INT32_MIN} AS INT)" if call.type.name == "INT" else f"{_INT64_MIN}L"
        return f"abs(nullif({arguments[0]}, {lowest}))"
    return f"abs({arguments[0]})"


def _integer_divide(call: Call, arguments: list[str]) -> str:
    left, right = arguments
    # Only division by -1 can overflow. It is printed as a negation.
    return (
        f"CASE WHEN {right} = -1L THEN try_subtract(0L, {left}) "
        f"WHEN {right} <> 0L THEN {left} div nullif(nullif({right}, 0L), -1L) END"
    )


def _whole(name: str) -> Printer:
    def printed(call: Call, arguments: list[str]) -> str:
        (text,) = arguments
        if call.type.name == "DECIMAL":
            return f"try_cast({name}({text}) AS {_spark_type(call.type)})"
        low, high = "-9.223372036854775808E18D", "9.223372036854775808E18D"
        return f"CASE WHEN {text} >= {low} AND {text} < {high} THEN {name}({text}) END"

    return printed


def _round(call: Call, arguments: list[str]) -> str:
    subject, digits = arguments
    if call.type == DOUBLE:
        return f"round({subject}, {digits})"
    if call.type.integral:
        subject = f"CAST({subject} AS DECIMAL(20,0))"
    return f"try_cast(round({subject}, {digits}) AS {_spark_type(call.type)})"


def _trim(name: str) -> Printer:
    keyword = {"trim": "BOTH", "ltrim": "LEADING", "rtrim": "TRAILING"}[name]

    def printed(call: Call, arguments: list[str]) -> str:
        if len(arguments) == 1:
            return f"{name}({arguments[0]})"
        return f"trim({keyword} {arguments[1]} FROM {arguments[0]})"

    return printed


def _change_case(name: str) -> Printer:
    def printed(call: Call, arguments: list[str]) -> str:
        (argument,) = call.arguments
        if isinstance(argument, Call) and argument.function in ("upper", "lower"):
            # Spark's optimizer drops the inner of two changes of case, which is wrong for some letters.
            return f"{name}(concat({arguments[0]}, ''))"
        return f"{name}({arguments[0]})"

    return printed


def _pad(name: str) -> Printer:
    def printed(call: Call, arguments: list[str]) -> str:
        text, width, padding = arguments
        if not isinstance(call.arguments[1], Literal):
            # A width above the limit overflows, so the result is NULL.
            room = 2**31 - 1 - PADDED_LENGTH_MAX
            width = f"try_subtract(try_add(try_subtract({width}, 0), {room}), {room})"
        return f"{name}({text}, {width}, {padding})"

    return printed


def _date_part(name: str) -> Printer:
    def printed(call: Call, arguments: list[str]) -> str:
        subject = arguments[0]
        return f"{name}({subject if call.arguments[0].type == DATE else naive_timestamp(subject)})"

    return printed


def _date_trunc(call: Call, arguments: list[str]) -> str:
    unit = call.arguments[0]
    assert isinstance(unit, Literal)
    instant = arguments[1]
    micros = f"unix_micros({instant})"
    if unit.value in ("YEAR", "QUARTER", "MONTH"):
        return f"timestamp_micros({date_micros(f'trunc(CAST({naive_timestamp(instant)} AS DATE), {arguments[0]})')})"
    if unit.value == "WEEK":
        return bounded_micros(f"({micros} - pmod({micros} + {3 * DAY}L, {WEEK}L))")
    length = {"DAY": DAY, "HOUR": HOUR, "MINUTE": MINUTE, "SECOND": SECOND, "MILLISECOND": MILLISECOND}
    if unit.value == "MICROSECOND":
        return instant
    return f"timestamp_micros({micros} - pmod({micros}, {length[str(unit.value)]}L))"


def _from_epoch(unit: int) -> Printer:
    def printed(call: Call, arguments: list[str]) -> str:
        # The subtraction prevents that a product in the argument is regrouped with the unit; see _kept_apart.
        return bounded_micros(arguments[0] if unit == 1 else f"try_multiply(try_subtract({arguments[0]}, 0L), {unit}L)")

    return printed


def _timestamp_add(call: Call, arguments: list[str]) -> str:
    return bounded_micros(f"try_add(unix_micros({arguments[0]}), try_subtract({arguments[1]}, 0L))")


def _date_add(call: Call, arguments: list[str]) -> str:
    days = f"try_add(unix_date({arguments[0]}), try_subtract({arguments[1]}, 0))"
    # The two-sided check of bounded_micros, in days.
    above, below = 2**31 - 1 - _DATE_MAX, _DATE_MIN - _INT32_MIN
    days = f"try_subtract(try_add(try_subtract({days}, 0), {above}), {above})"
    return f"date_from_unix_date(try_add(try_subtract({days}, {below}), {below}))"


PRINTERS: dict[str, Printer] = {
    **{
        name: _named(spark)
        for name, spark in {
            "div": "try_divide",
            "sqrt": "sqrt",
            "exp": "exp",
            "ln": "ln",
            "log10": "log10",
            "log2": "log2",
            "power": "power",
            "sign": "sign",
            "sin": "sin",
            "cos": "cos",
            "tan": "tan",
            "asin": "asin",
            "acos": "acos",
            "atan": "atan",
            "atan2": "atan2",
            "degrees": "degrees",
            "radians": "radians",
            "is_nan": "isnan",
            "coalesce": "coalesce",
            "greatest": "greatest",
            "least": "least",
            "length": "length",
            "reverse": "reverse",
            "substring": "substring",
            "concat": "concat",
            "replace": "replace",
            "starts_with": "startswith",
            "ends_with": "endswith",
            "contains": "contains",
            "left": "left",
            "right": "right",
            "instr": "instr",
            "epoch_micros": "unix_micros",
            "unix_millis": "unix_millis",
            "unix_seconds": "unix_seconds",
            "date_diff": "datediff",
        }.items()
    },
    "add": _arithmetic("try_add"),
    "sub": _arithmetic("try_subtract"),
    "mul": _arithmetic("try_multiply"),
    "mod": _arithmetic("try_mod"),
    "neg": _negate,
    "abs": _absolute,
    "integer_divide": _integer_divide,
    "bitwise_and": _operator("&"),
    "bitwise_or": _operator("|"),
    "bitwise_xor": _operator("^"),
    "bitwise_not": lambda call, arguments: f"(~ {arguments[0]})",
    "floor": _whole("floor"),
    "ceil": _whole("ceil"),
    "round": _round,
    "eq": _operator("="),
    "ne": _operator("<>"),
    "lt": _operator("<"),
    "le": _operator("<="),
    "gt": _operator(">"),
    "ge": _operator(">="),
    "and": _operator("AND"),
    "or": _operator("OR"),
    "not": lambda call, arguments: f"(NOT {arguments[0]})",
    "is_null": lambda call, arguments: f"({arguments[0]} IS NULL)",
    "is_not_null": lambda call, arguments: f"({arguments[0]} IS NOT NULL)",
    "is_distinct_from": lambda call, arguments: f"(NOT ({arguments[0]} <=> {arguments[1]}))",
    "in": lambda call, arguments: f"({arguments[0]} IN ({', '.join(arguments[1:])}))",
    "like": lambda call, arguments: f"({arguments[0]} LIKE {arguments[1]} ESCAPE '\\\\')",
    "ilike": lambda call, arguments: f"({arguments[0]} ILIKE {arguments[1]} ESCAPE '\\\\')",
    "upper": _change_case("upper"),
    "lower": _change_case("lower"),
    "lpad": _pad("lpad"),
    "rpad": _pad("rpad"),
    "trim": _trim("trim"),
    "ltrim": _trim("ltrim"),
    "rtrim": _trim("rtrim"),
    "year": _date_part("year"),
    "quarter": _date_part("quarter"),
    "month": _date_part("month"),
    "day": _date_part("day"),
    "hour": _date_part("hour"),
    "minute": _date_part("minute"),
    "second": _date_part("second"),
    "day_of_week": _date_part("dayofweek"),
    "day_of_year": _date_part("dayofyear"),
    "week": _date_part("weekofyear"),
    "date_trunc": _date_trunc,
    "timestamp_micros": _from_epoch(1),
    "timestamp_millis": _from_epoch(MILLISECOND),
    "timestamp_seconds": _from_epoch(SECOND),
    "timestamp_add": _timestamp_add,
    "timestamp_diff": lambda call, arguments: f"(unix_micros({arguments[0]}) - unix_micros({arguments[1]}))",
    "date_add": _date_add,
}
