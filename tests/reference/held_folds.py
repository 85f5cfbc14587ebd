"""Aggregates that need all values of a group: quantiles, distinct counts, most frequent values.

Approximate aggregates are answered exactly: cases stay so small that a sketch is exact too.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from tests.reference.scalars import evaluate, identity_key, order_key
from tests.reference.tokens import NotCovered, TimeWindow

HELD = {
    "MEDIAN",
    "QUANTILE",
    "PERCENTILE_CONT",
    "PERCENTILE_DISC",
    "COUNT(DISTINCT)",
    "TOP",
    "FREQUENT",
    "APPROX_COUNT_DISTINCT",
    "APPROX_QUANTILE",
    "APPROX_TOP",
}
EVENT_TIME = "event time of the row"  # no column can be called so


def held_fold(name: str, arguments: Sequence[Any], rows: Sequence[Mapping[str, Any]], window: Any) -> Any:
    """The answer over the rows of a group."""
    place = 1 if name in ("TOP", "FREQUENT", "APPROX_TOP") else 0
    found = [(row, evaluate(arguments[place], row)) for row in rows]
    pairs = [(row, value) for row, value in found if value is not None]
    values = sorted((value for _, value in pairs), key=order_key)
    if name in ("COUNT(DISTINCT)", "APPROX_COUNT_DISTINCT"):
        return len({identity_key(value) for value in values})
    if not values:
        return None
    if name == "FREQUENT":
        return shown(frequent(pairs, arguments[0][1], window))
    if name in ("TOP", "APPROX_TOP"):
        return shown(ranked(counted(values))[: arguments[0][1]])
    fraction = Fraction(1, 2) if name == "MEDIAN" else Fraction(str(arguments[1][1]))
    if name == "QUANTILE":
        return plain(values[max(1, math.floor(fraction * len(values))) - 1])
    if name in ("PERCENTILE_DISC", "APPROX_QUANTILE"):
        value = values[max(1, math.ceil(fraction * len(values))) - 1]
        return float(value) if name == "APPROX_QUANTILE" else plain(value)
    return between(values, fraction * (len(values) - 1))


def plain(value: Any) -> Any:
    return value + 0.0 if isinstance(value, float) else value


def between(values: list[Any], place: Fraction) -> float:
    """The number at a place between two neighbours, by its nearness to each."""
    low, high = values[math.floor(place)], values[math.ceil(place)]
    if low == high:
        return float(low) + 0.0
    rest = place - math.floor(place)
    if any(isinstance(value, float) and not math.isfinite(value) for value in (low, high)):
        return float(low) * float(1 - rest) + float(high) * float(rest)
    return float(Fraction(low) * (1 - rest) + Fraction(high) * rest)


def counted(values: Sequence[Any]) -> list[tuple[Any, int]]:
    """The distinct values with their counts."""
    examples = {identity_key(value): plain(value) for value in values}
    return [(examples[key], count) for key, count in Counter(identity_key(value) for value in values).items()]


def ranked(pairs: list[tuple[Any, int]]) -> list[tuple[Any, int]]:
    """Most frequent first, ties by value."""
    return sorted(pairs, key=lambda pair: (-pair[1], order_key(pair[0])))


def frequent(pairs: Sequence[tuple[Mapping[str, Any], Any]], k: int, window: Any) -> list[tuple[Any, int]]:
    """Algorithm 6: the values whose counts on the lists of the sub-windows exceed the sum of the k-th counts."""
    if not isinstance(window, TimeWindow) or window.slide is None or window.range is None:
        raise NotCovered("sub-windows of this window")
    sub_windows: dict[int, list[Any]] = {}
    for row, value in pairs:
        end = row[EVENT_TIME] - (row[EVENT_TIME] - window.align + window.offset) % window.slide
        start = row[EVENT_TIME] - (row[EVENT_TIME] - window.align + window.offset + window.range) % window.slide
        sub_windows.setdefault(max(end, start), []).append(value)
    delta, listed = 0, []
    for values in sub_windows.values():
        leading = ranked(counted(values))[:k]
        delta += leading[-1][1] if len(leading) == k else 0
        listed += [value for value, count in leading for _ in range(count)]
    return [(value, count) for value, count in ranked(counted(listed)) if count > delta]


def shown(pairs: list[tuple[Any, int]]) -> str:
    return "[" + ", ".join(f"[{json_text(value)}, {count}]" for value, count in pairs) + "]"


def json_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(" ")
        return json.dumps(text.rstrip("0") if value.microsecond else text)
    if isinstance(value, date):
        return json.dumps(value.isoformat())
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, float) and not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    return json.dumps(value, ensure_ascii=False)
