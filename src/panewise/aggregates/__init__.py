"""Aggregates: lift, combine, lower and inverse, the algebra of each, and the registry of their names."""

from __future__ import annotations

from panewise.aggregates.functions import ALIASES, BUILT_IN, AggregateFunction


def find(name: str) -> AggregateFunction | None:
    """The built-in aggregate function of that name, in any case, or None.

    >>> find("stddev").name
    'STDDEV_SAMP'
    """
    upper = name.upper()
    return BUILT_IN.get(ALIASES.get(upper, upper))


def names() -> list[str]:
    """The names of all built-in aggregate functions."""
    return sorted(BUILT_IN)
