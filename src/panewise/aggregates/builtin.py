"""The built-in aggregate functions, by name."""

from __future__ import annotations

from panewise.aggregates.aggregate_functions import ALIASES, BUILT_IN, AggregateFunction
from panewise.aggregates.holistic import HOLISTIC


def find(name: str) -> AggregateFunction | None:
    """The built-in aggregate function of that name, in any case, or None.

    >>> find("stddev").name
    'STDDEV_SAMP'
    """
    upper = ALIASES.get(name.upper(), name.upper())
    return BUILT_IN.get(upper) or HOLISTIC.get(upper)


def names() -> list[str]:
    """The names of all built-in aggregate functions."""
    return sorted([*BUILT_IN, *HOLISTIC])
