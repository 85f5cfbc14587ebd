"""Omega: the number of operations of a technique per edge, from the lengths of its windows in slices.

From Shein and Chrysanthis 2020, section 4.1 and table 3, equations 3 to 7, with two misprints corrected: the mean
length of a deque is the harmonic sum of 1/i, not of 1/i!, and a window of one slice costs a FlatFAT nothing, where
equation 4 has no value. The counts of interval synopses are from Arasu and Widom 2004, section 3 and figure 1. Those of
techniques with an instance for each range, which these papers do not weave, are ours.

Every window is answered at every edge. Only for Panes, range / slide is the average over edges of a window that is
answered when it slides. Tests compare our structures with these counts; they do fewer operations if they share more.
Cost: O(windows).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from panewise.arrays import Floats

EULER = 0.5772156649015329


def harmonic(number: float) -> float:
    """1 + 1/2 + ... + 1/number, interpolated smoothly between whole numbers.

    >>> round(harmonic(1), 6), round(harmonic(4), 6), round(harmonic(1000), 1)
    (1.0, 2.083333, 7.5)
    """
    total, x = 0.0, float(number)
    while x < 16:
        x += 1
        total -= 1 / x
    return total + math.log(x) + EULER + 1 / (2 * x) - 1 / (12 * x * x) + 1 / (120 * x**4)


def _panes(lengths: Floats, counts: Floats) -> float:
    """Equation 3. A length is range / slide."""
    return float(counts @ lengths)


def _flat_fat(lengths: Floats, counts: Floats) -> float:
    """Equation 4. A window of one slice is a leaf and costs nothing."""
    inner = np.floor(np.log2(np.maximum(lengths - 1, 1)))
    each = inner + (lengths - 1) / 2 ** np.floor(np.log2(np.maximum(lengths, 1)))
    return float(counts @ np.where(lengths > 1, each, 0.0))


def _slick_deque_inv(lengths: Floats, counts: Floats) -> float:
    """Equation 6: two operations for the running value of each distinct length."""
    return 2.0 * len(np.unique(np.rint(lengths)))


def _slick_deque(lengths: Floats, counts: Floats) -> float:
    """Equation 7, with the harmonic sum for the mean length of the deque."""
    longest = max(1.0, float(lengths.max()))
    return 2 - 2 / longest + float(counts.sum()) + harmonic(longest)


def _b_int(lengths: Floats, counts: Floats) -> float:
    """One node for each slice, and for a window about as many as there are levels below its length."""
    return 1 + float(counts @ np.log2(np.maximum(lengths, 1)))


def _l_int(lengths: Floats, counts: Floats) -> float:
    """Three operations for each class of widths [2^k, 2^(k+1)), and one for each window."""
    classes = len(np.unique(np.floor(np.log2(np.maximum(lengths, 1)))))
    return 3 * classes + float(counts.sum())


def _psoup(lengths: Floats, counts: Floats) -> float:
    """The way up from a leaf, and the way down for each window."""
    logarithms = np.log2(np.maximum(lengths, 1))
    return float(logarithms.max()) + float(counts @ logarithms)


def _per_window(operations: float) -> Callable[[Floats, Floats], float]:
    return lambda lengths, counts: operations * float(counts.sum())


OPERATIONS: dict[str, Callable[[Floats, Floats], float]] = {
    "recompute": _panes,
    "materialize_none": _panes,
    "panes": _panes,
    "flat_fat": _flat_fat,
    "flat_fit": _per_window(3),  # equation 5
    "slick_deque_inv": _slick_deque_inv,
    "slick_deque": _slick_deque,
    "b_int": _b_int,
    "l_int": _l_int,
    "r_int": lambda lengths, counts: 1 + float(counts.sum()),
    "psoup": _psoup,
    # These do not share among ranges: each has an instance, a stair of a chain, or a materialized answer.
    "subtract_on_evict": _per_window(2),
    "materialize_all": _per_window(2),
    "two_stacks": _per_window(3),
    "daba": _per_window(4),
    "stairs": _per_window(3),
}


PANES = frozenset(name for name, count in OPERATIONS.items() if count is _panes)


def operations_per_edge(technique: str, lengths: ArrayLike, counts: ArrayLike) -> float:
    """Omega of windows with these lengths in slices. `counts`: the queries of each that are answered separately.

    Lengths are averages and need not be whole. For Panes a length is the window's range divided by its slide.

    >>> operations_per_edge("flat_fit", [10, 20], [1, 1]), operations_per_edge("panes", [10, 20], [1, 2])
    (6.0, 50.0)
    """
    if technique not in OPERATIONS:
        raise ValueError(f"there is no technique '{technique}'; there are {', '.join(OPERATIONS)}")
    sizes, queries = np.asarray(lengths, np.float64), np.asarray(counts, np.float64)
    return OPERATIONS[technique](sizes, queries) if len(sizes) else 0.0
