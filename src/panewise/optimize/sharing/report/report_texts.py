"""Words for the numbers of a sharing report: rates, costs, savings.

Three significant digits are enough for an estimate. A cost is processor time per second of the stream, so 10 ms per
second are one percent of a core.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeVar

Part = TypeVar("Part")

SAME_WITHIN = 0.05  # costs are estimates, so a smaller relative difference is ignored


def count_text(value: float) -> str:
    """A number with three significant digits, or with all digits if it is whole and below a million.

    >>> count_text(10_240), count_text(0.12345), count_text(12_345_678), count_text(1e12)
    ('10,240', '0.123', '12.3 million', '1,000 billion')
    """
    if not math.isfinite(value):
        return "unknown"
    for factor, word in ((10**9, "billion"), (10**6, "million")):
        if abs(value) >= factor:
            return f"{count_text(_rounded(value / factor))} {word}"
    if value == int(value) or abs(value) >= 1000:
        return f"{round(value):,}"
    text = f"{_rounded(value):.9f}".rstrip("0").rstrip(".")
    return text if float(text) else f"{value:.1e}"


def _rounded(value: float) -> float:
    return float(round(value)) if 1000 <= abs(value) < math.inf else float(f"{value:.3g}")


def counted(count: int, noun: str) -> str:
    """A number with its noun, in the plural if needed.

    >>> counted(1, "tree"), counted(1200, "query"), counted(3, "QUERY")
    ('1 tree', '1,200 queries', '3 QUERIES')
    """
    if count != 1:
        ending = "ies" if noun.lower().endswith("y") else "s"
        noun = noun.removesuffix("y").removesuffix("Y") + (ending.upper() if noun.isupper() else ending)
    return f"{count_text(count)} {noun}"


def rate_text(per_second: float) -> str:
    """A rate in the shortest unit of time in which it is at least 1.

    >>> rate_text(250.0), rate_text(0.1), rate_text(1 / 3600), rate_text(0.0)
    ('250 per second', '6 per minute', '1 per hour', 'none')
    """
    if per_second <= 0:
        return "none"
    for seconds, unit in ((1, "second"), (60, "minute"), (3600, "hour")):
        if _rounded(per_second * seconds) >= 1:
            return f"{count_text(_rounded(per_second * seconds))} per {unit}"
    return f"{count_text(_rounded(per_second * 86_400))} per day"


def cost_text(ns_per_second: float) -> str:
    """A cost, with its share of a core.

    >>> cost_text(3_140_000), cost_text(2_400_000_000), cost_text(850)
    ('3.14 ms per second (0.314 % of a core)', '2.4 s per second (2.4 cores)', '850 ns per second')
    """
    return f"{duration_text(ns_per_second)} per second{_share_of_cores(ns_per_second)}"


def duration_text(nanoseconds: float) -> str:
    """A duration in a unit in which it is below 1,000.

    >>> duration_text(0), duration_text(12_400), duration_text(999_999)
    ('0 ns', '12.4 us', '1 ms')
    """
    for factor, unit in ((1, "ns"), (10**3, "us"), (10**6, "ms")):
        if _rounded(nanoseconds / factor) < 1000:
            return f"{count_text(_rounded(nanoseconds / factor))} {unit}"
    return f"{count_text(_rounded(nanoseconds / 10**9))} s"


def _share_of_cores(ns_per_second: float) -> str:
    cores = _rounded(ns_per_second / 10**9)
    if cores >= 1:
        return f" ({counted(1, 'core')})" if cores == 1 else f" ({count_text(cores)} cores)"
    percent = _rounded(cores * 100)
    return f" ({count_text(percent)} % of a core)" if percent >= 0.01 else ""


def saving_text(queries: int, cost: float, alone: float, full: float) -> str:
    """What sharing saves; empty if there is no cost to compare with.

    >>> saving_text(12, 1.0, 12.4, 1.3)
    '12.4 times cheaper than each query alone, 1.3 times cheaper than one tree for all'
    >>> saving_text(12, 1.0, 1.0, 0.5)
    'as cheap as each query alone, 2 times dearer than one tree for all'
    """
    if queries < 2:
        return "one query, nothing to share" if queries else ""
    if not all(math.isfinite(value) and value > 0 for value in (cost, alone, full)):
        return ""
    return f"{_compared(cost, alone)} each query alone, {_compared(cost, full)} one tree for all"


def _compared(cost: float, other: float) -> str:
    if abs(other - cost) <= SAME_WITHIN * min(cost, other):
        return "as cheap as"
    ratio, word = (other / cost, "cheaper") if other > cost else (cost / other, "dearer")
    return f"{count_text(round(ratio, 2 if ratio < 2 else 1))} times {word} than"


def some_of(parts: Iterable[Part], most: int, weight: Callable[[Part], float]) -> tuple[list[Part], list[Part]]:
    """The `most` parts with the greatest weight, in their order, and the other parts.

    >>> some_of([3, 1, 2], 2, float)
    ([3, 2], [1])
    """
    listed = list(parts)
    if len(listed) <= most:
        return listed, []
    heavy = sorted(range(len(listed)), key=lambda index: -weight(listed[index]))[:most]
    chosen = set(heavy)
    return [listed[i] for i in sorted(chosen)], [listed[i] for i in range(len(listed)) if i not in chosen]
