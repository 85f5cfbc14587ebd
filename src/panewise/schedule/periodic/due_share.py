"""The share of all instants at which at least one of several periods is due: for 2 and 3, two thirds.

Computed by inclusion and exclusion, one period at a time: among the multiples of p, every (q / gcd(p, q))-th is also a
multiple of another period q. A period that is a multiple of another adds nothing. Results are cached. The cost is
exponential in the number of periods only if these have many common factors and none divides another.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import gcd


@lru_cache(maxsize=1 << 16)
def due_share(periods: frozenset[int]) -> float:
    """
    >>> due_share(frozenset({2, 3, 6})) == 2 / 3
    True
    """
    return _share(_without_multiples(periods))


def _without_multiples(periods: Iterable[int]) -> tuple[int, ...]:
    kept: list[int] = []
    for period in sorted(set(periods)):
        if all(period % shorter for shorter in kept):
            kept.append(period)
    return tuple(kept)


@lru_cache(maxsize=1 << 16)
def _share(periods: tuple[int, ...]) -> float:
    """The share of ascending periods, none of which divides another."""
    if not periods:
        return 0.0
    if periods[0] == 1:
        return 1.0
    *others, last = periods
    covered = _share(_without_multiples(other // gcd(other, last) for other in others))
    return _share(tuple(others)) + (1 - covered) / last
