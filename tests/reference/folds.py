"""Aggregates over the list of values of a group, each by its definition.

Rows come in the order of (event time, arrival). NULLs are skipped; an empty list gives NULL, COUNT gives 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from tests.reference.held_folds import EVENT_TIME, HELD, held_fold
from tests.reference.scalars import BIGINT_MAX, BIGINT_MIN, evaluate, order_key

__all__ = ["EVENT_TIME", "fold"]


def fold(call: Any, rows: Sequence[Mapping[str, Any]], window: Any = None) -> Any:
    """The answer of one aggregate call over the rows of a group; `window` is that of the query."""
    _, name, arguments = call
    if name in HELD:
        return held_fold(name, arguments, rows, window)
    if name == "COUNT(*)":
        return len(rows)
    if name in ("ARG_MIN", "ARG_MAX"):
        pairs = [(evaluate(arguments[0], row), evaluate(arguments[1], row)) for row in rows]
        return extreme_argument(name, [(x, y) for x, y in pairs if y is not None])
    values = [value for value in (evaluate(arguments[0], row) for row in rows) if value is not None]
    if name == "COUNT":
        return len(values)
    if not values:
        return None
    return SIMPLE[name](values)


def extreme_argument(name: str, pairs: list[tuple[Any, Any]]) -> Any:
    """The first argument of the earliest row where the second is smallest or greatest."""
    if not pairs:
        return None
    keys = [order_key(y) for _, y in pairs]
    best = min(keys) if name == "ARG_MIN" else max(keys)
    return pairs[keys.index(best)][0]


def total(values: list[Any]) -> Any:
    if isinstance(values[0], float):
        return float_total(values)
    result = sum(values)
    if isinstance(result, int) and not BIGINT_MIN <= result <= BIGINT_MAX:
        return None
    if isinstance(result, Decimal) and len(result.as_tuple().digits) > 18:
        return None
    return result


def float_total(values: list[float]) -> float:
    if any(math.isnan(value) for value in values) or (math.inf in values and -math.inf in values):
        return math.nan
    try:
        return math.fsum(values)
    except OverflowError:
        return math.inf if sum(math.copysign(1.0, value) for value in values) > 0 else -math.inf


def average(values: list[Any]) -> float:
    if isinstance(values[0], float):
        return float_total(values) / len(values)
    # Integers are summed exactly: the average has no range to overflow.
    return float(sum(values) / len(values))


def variance(values: list[Any], degrees_lost: int) -> float | None:
    if len(values) <= degrees_lost:
        return None
    if any(isinstance(value, float) and not math.isfinite(value) for value in values):
        return math.nan
    mean = average(values)
    return math.fsum((float(value) - mean) ** 2 for value in values) / (len(values) - degrees_lost)


def root(value: float | None) -> float | None:
    return None if value is None else math.sqrt(value)


def geometric_mean(values: list[Any]) -> float:
    """By logarithms: that of zero is minus infinity, that of a negative number is NaN."""
    logarithms = [-math.inf if value == 0 else math.nan if value < 0 else math.log(value) for value in values]
    return math.exp(float_total(logarithms) / len(values))


SIMPLE = {
    "SUM": total,
    "AVG": average,
    "MIN": lambda values: min(values, key=order_key),
    "MAX": lambda values: max(values, key=order_key),
    "VAR_POP": lambda values: variance(values, 0),
    "VAR_SAMP": lambda values: variance(values, 1),
    "STDDEV_POP": lambda values: root(variance(values, 0)),
    "STDDEV_SAMP": lambda values: root(variance(values, 1)),
    "FIRST": lambda values: values[0],
    "LAST": lambda values: values[-1],
    "BOOL_AND": all,
    "BOOL_OR": any,
    "GEOMEAN": geometric_mean,
}
