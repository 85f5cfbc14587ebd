"""Obvious answers: every aggregate over plain Python rows, and the path through panewise that should give the same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.aggregate_functions import AggregateFunction
from panewise.aggregates.builtin import find
from panewise.aggregates.decoding import decoded
from panewise.aggregates.matrix import NO_ARGUMENT, NO_INTS, Encoded, encoded
from panewise.aggregates.states import Feed, Operation
from panewise.aggregates.string_pool import StringPool
from panewise.aggregates.user import matrix_of
from panewise.schema import DataType

Row = tuple[int, tuple[Any, ...]]  # event time and arguments; the arrival is the position


def answers(
    function: str | AggregateFunction,
    types: tuple[DataType, ...],
    pieces: Sequence[Sequence[tuple[int, Row]]],
    groups: int,
) -> list[Any]:
    """Each piece, a list of (group, row), is folded by itself; the pieces are combined in order, then lowered."""
    found = find(function) if isinstance(function, str) else function
    assert found is not None
    bound = found.bound(types)
    pools = [StringPool() if type_.name == "STRING" else None for type_ in types]
    totals = [matrix_of(part.kind, groups) for part in bound.parts]
    arrived = 0
    for piece in pieces:
        slots = np.array([group for group, _ in piece], np.int64)
        times = np.array([time for _, (time, _) in piece], np.int64)
        arrivals = np.arange(arrived, arrived + len(piece), dtype=np.int64)
        arrived += len(piece)
        columns = [
            pa.array([arguments[i] for _, (_, arguments) in piece], type_.to_arrow()) for i, type_ in enumerate(types)
        ]
        for part, total in zip(bound.parts, totals, strict=True):
            feeds = zip(part.arguments, part.kind.feeds, strict=False)
            given = [_encoded(columns[a], feed, pools[a]) for a, feed in feeds] or [NO_ARGUMENT]
            ranks = _ranks(part.kind.operation, part.arguments, pools)
            partial = matrix_of(part.kind, groups)
            partial.fold(slots, given, times, arrivals, ranks)
            total.combine(0, partial, 0, groups, ranks)
    values, nulls = bound.lower([total.fields() for total in totals])
    return decoded(values, nulls, bound.encoding, bound.result_type, pools[0] if pools else None).to_pylist()


def _encoded(column: pa.Array, feed: Feed, pool: StringPool | None) -> Encoded:
    return encoded(column, feed, pool if feed is Feed.CODE else None)


def _ranks(operation: Operation, arguments: tuple[int, ...], pools: list[StringPool | None]) -> np.ndarray:
    if operation in (Operation.MIN_STRING, Operation.MAX_STRING):
        pool = pools[arguments[0]]
    elif operation in (Operation.ARG_MIN_STRING, Operation.ARG_MAX_STRING):
        pool = pools[arguments[1]]
    else:
        pool = None
    return NO_INTS if pool is None else pool.ranks()


def model(function: str, rows: Sequence[Row]) -> Any:
    """The answer over rows in order of arrival."""
    if function == "COUNT" and (not rows or not rows[0][1]):
        return len(rows)
    if function in ("ARG_MIN", "ARG_MAX"):
        return _arg(function, rows)
    valid = [(time, arguments[0]) for time, arguments in rows if arguments[0] is not None]
    values = [value for _, value in valid]
    if function == "COUNT":
        return len(values)
    if not values:
        return None
    if function in ("FIRST", "LAST"):
        choose = min if function == "FIRST" else max
        return valid[choose(range(len(valid)), key=lambda i: (valid[i][0], i))][1]
    return _MODELS[function](values)


def _key(value: Any) -> Any:
    """The order of MIN and MAX: strings by their bytes, NaN above every number."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value


def _arg(function: str, rows: Sequence[Row]) -> Any:
    best: tuple[Any, int, int, Any] | None = None
    for arrival, (time, (value, key)) in enumerate(rows):
        if key is None:
            continue
        order = _key(key)
        if best is not None:
            better = order < best[0] if function == "ARG_MIN" else order > best[0]
            if not better and not (order == best[0] and (time, arrival) < best[1:3]):
                continue
        best = (order, time, arrival, value)
    return None if best is None else best[3]


def _sum(values: Sequence[Any]) -> Any:
    if not isinstance(values[0], float):
        return sum(values)
    if all(map(math.isfinite, values)):
        return float(sum(map(Fraction, values)))
    return sum(value for value in values if not math.isfinite(value))


def _avg(values: Sequence[Any]) -> float:
    total = _sum(values)
    return total / len(values) if isinstance(total, float) else float(Fraction(total) / len(values))


def _m2(values: Sequence[Any]) -> float:
    if not all(map(math.isfinite, values)):
        return math.nan
    exact = list(map(Fraction, values))
    mean = sum(exact) / len(exact)
    return float(sum((value - mean) ** 2 for value in exact))


def _geomean(values: Sequence[Any]) -> float:
    if any(math.isnan(value) or value < 0 for value in values):
        return math.nan
    infinite, zero = any(map(math.isinf, values)), 0 in values
    if infinite or zero:
        return math.nan if infinite and zero else (math.inf if infinite else 0.0)
    return math.exp(math.fsum(map(math.log, values)) / len(values))


_MODELS = {
    "SUM": _sum,
    "AVG": _avg,
    "MIN": lambda values: min(values, key=_key),
    "MAX": lambda values: max(values, key=_key),
    "BOOL_AND": all,
    "BOOL_OR": any,
    "VAR_POP": lambda values: _m2(values) / len(values),
    "VAR_SAMP": lambda values: _m2(values) / (len(values) - 1) if len(values) > 1 else None,
    "STDDEV_POP": lambda values: math.sqrt(_m2(values) / len(values)),
    "STDDEV_SAMP": lambda values: math.sqrt(_m2(values) / (len(values) - 1)) if len(values) > 1 else None,
    "GEOMEAN": _geomean,
}
