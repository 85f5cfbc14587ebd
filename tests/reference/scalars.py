"""Row expressions under SQL's three-valued logic and TRY rules: what does not work out is NULL (None).

Values are Python's: int, float, Decimal, bool, str, date, and datetime (UTC) for TIMESTAMP. NaN equals itself and is
greater than every number, as in Spark.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from tests.reference.tokens import NotCovered

BIGINT_MIN, BIGINT_MAX = -(2**63), 2**63 - 1


def order_key(value: Any) -> tuple[int, Any]:
    """A key under which NaN is the greatest number and equal to itself."""
    if isinstance(value, float) and math.isnan(value):
        return (1, 0)
    return (0, value)


def identity_key(value: Any) -> Any:
    """Equal for values that a multiset or a grouping takes for the same: NaN is one value, and so are 0.0 and -0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, bool):
        return ("bool", value)
    return value


def fitted(value: Any) -> Any:
    """None where an integer has left the range of BIGINT."""
    if isinstance(value, int) and not isinstance(value, bool) and not BIGINT_MIN <= value <= BIGINT_MAX:
        return None
    return value


def evaluate(expression: Any, row: Mapping[str, Any], aggregate: Callable[[Any], Any] | None = None) -> Any:
    """The value of an expression for a row; `aggregate` answers for ("aggregate", ...) where there are any."""
    kind = expression[0]
    if kind == "literal":
        return expression[1]
    if kind == "column":
        return find(row, expression[1])
    if kind == "aggregate":
        if aggregate is None:
            raise NotCovered("an aggregate of an aggregate")
        return aggregate(expression)
    if kind == "case":
        for condition, value in expression[1]:
            if evaluate(condition, row, aggregate) is True:
                return evaluate(value, row, aggregate)
        return evaluate(expression[2], row, aggregate)
    if kind == "cast":
        return cast(evaluate(expression[1], row, aggregate), expression[2])
    if kind == "call":
        values = [evaluate(argument, row, aggregate) for argument in expression[2]]
        return call(expression[1], values)
    raise NotCovered(f"expression {kind}")


def find(row: Mapping[str, Any], name: str) -> Any:
    for column, value in row.items():
        if column.lower() == name.lower():
            return value
    raise NotCovered(f"there is no column {name}")


def call(name: str, values: list[Any]) -> Any:
    match name:
        case "and":
            return False if False in values else None if None in values else True
        case "or":
            return True if True in values else None if None in values else False
        case "is_null":
            return values[0] is None
        case "coalesce":
            return next((value for value in values if value is not None), None)
        case "in":
            return contained(values[0], values[1:])
        case "nullif":
            return None if values[0] is not None and compare("=", values[0], values[1]) is True else values[0]
        case "greatest" | "least":
            present = [value for value in values if value is not None]
            choose = max if name == "greatest" else min
            return choose(present, key=order_key) if present else None
    if any(value is None for value in values):
        return None
    if name in ("=", "<>", "<", "<=", ">", ">="):
        return compare(name, *values)
    if name not in FUNCTIONS:
        raise NotCovered(f"function {name}")
    return fitted(FUNCTIONS[name](*values))


def contained(value: Any, among: list[Any]) -> bool | None:
    if value is None:
        return None
    if any(compare("=", value, other) is True for other in among if other is not None):
        return True
    return None if None in among else False


def compare(symbol: str, left: Any, right: Any) -> bool | None:
    if left is None or right is None:
        return None
    a, b = order_key(left), order_key(right)
    match symbol:
        case "=":
            return a == b
        case "<>":
            return a != b
        case "<":
            return a < b
        case "<=":
            return a <= b
        case ">":
            return a > b
        case _:
            return a >= b


def divide(left: Any, right: Any) -> Any:
    return None if right == 0 else float(left) / float(right)


def remainder(left: Any, right: Any) -> Any:
    """The sign follows the dividend, as in Java."""
    if right == 0:
        return None
    if isinstance(left, int) and isinstance(right, int):
        return abs(left) % abs(right) * (1 if left >= 0 else -1)
    return math.fmod(left, right)


def like(text: str, pattern: str) -> bool:
    parts = [".*" if c == "%" else "." if c == "_" else re.escape(c) for c in pattern]
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None


def substring(text: str, start: int, length: int | None = None) -> str:
    """Counts from one; a start below one counts from the end or, for zero, is the beginning."""
    first = start - 1 if start > 0 else max(0, len(text) + start) if start < 0 else 0
    return text[first:] if length is None else text[first : first + max(0, length)]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": divide,
    "%": remainder,
    "negative": lambda a: -a,
    "not": lambda a: not a,
    "abs": abs,
    "floor": math.floor,
    "ceil": math.ceil,
    "sqrt": lambda a: math.sqrt(a) if a >= 0 else math.nan,
    "upper": str.upper,
    "lower": str.lower,
    "trim": lambda a: a.strip(" "),
    "length": len,
    "concat": lambda *parts: "".join(parts),
    "substring": substring,
    "like": like,
    "year": lambda a: a.year,
    "month": lambda a: a.month,
    "day": lambda a: a.day,
    "hour": lambda a: a.hour,
    "minute": lambda a: a.minute,
    "second": lambda a: a.second,
}


def cast(value: Any, name: str) -> Any:
    """The conversions that cases use."""
    if value is None:
        return None
    try:
        match name:
            case "BIGINT" | "INT":
                low, high = (BIGINT_MIN, BIGINT_MAX) if name == "BIGINT" else (-(2**31), 2**31 - 1)
                number = int(value.strip() if isinstance(value, str) else value)
                return number if low <= number <= high else None
            case "DOUBLE":
                return float(value)
            case "STRING":
                return text_of(value)
            case "BOOLEAN":
                return value if isinstance(value, bool) else bool(value)
            case "DATE":
                return value.date() if isinstance(value, datetime) else date.fromisoformat(value)
            case "TIMESTAMP":
                return datetime.fromisoformat(value).replace(tzinfo=UTC) if isinstance(value, str) else value
    except (ValueError, OverflowError):
        return None
    raise NotCovered(f"a cast to {name}")


def text_of(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | str | Decimal | date) and not isinstance(value, datetime):
        return str(value)
    raise NotCovered("the text of this type")
