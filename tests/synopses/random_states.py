"""Kinds of states, random partials of them, and when two answers are equal: what the tests of synopses share."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panewise.aggregates import states
from panewise.aggregates.matrix import identity
from panewise.aggregates.states import Feed, StateKind
from panewise.aggregates.user import user_aggregate
from panewise.arrays import Floats, Ints
from panewise.schema import BIGINT

CODES = 6
RANKS = np.array([3, 0, 5, 1, 4, 2])  # of strings with the codes 0 to 5
INVERTIBLE = [states.COUNT, states.SUM_INTEGER]
SELECTIVE = [
    *states.MINIMUM.values(),
    *states.MAXIMUM.values(),
    states.earliest(Feed.INTEGER),
    states.latest(Feed.FLOAT),
    states.arg_extreme(False, Feed.INTEGER, Feed.INTEGER),
    states.arg_extreme(True, Feed.CODE, Feed.FLOAT),
    states.arg_extreme(True, Feed.FLOAT, Feed.CODE),
]
OTHERS = [states.SUM_FLOAT, states.MOMENTS, *SELECTIVE]
KINDS = INVERTIBLE + OTHERS


@cache
def affine() -> StateKind:
    """Maps x -> m * x + a, one after the other: combining them does not commute."""
    function = user_aggregate(
        "AFFINE",
        lift=lambda x: (2 * x + 1, x),
        combine=lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]),
        lower=lambda a: a[1],
        identity=(1, 0),
        returns=BIGINT,
    )
    bound = function.bind((BIGINT,))
    assert bound is not None
    return bound.parts[0].kind


def named(value: object) -> str | None:
    return f"{value.name} {'/'.join(feed.name for feed in value.feeds)}" if isinstance(value, StateKind) else None


def partials(kind: StateKind, count: int, width: int, random: np.random.Generator) -> tuple[Ints, Floats]:
    """States as folding would leave them: about half at the identity."""
    ints, floats = (a.reshape(len(a), count, width) for a in identity(kind, count * width))
    present = random.random((count, width)) < 0.6
    size = int(present.sum())
    for field in range(kind.int_fields):
        ints[field][present] = _int_field(kind, field, size, random)
    for field in range(kind.float_fields):
        values = random.choice([0.0, 1.5, -2.25, 1e9, np.inf, np.nan, 3.0], size)
        if kind == states.MOMENTS:
            values = random.integers(0, 5, size) + 0.5
        elif kind == states.SUM_FLOAT:
            values = random.integers(-1000, 1000, size) / 8.0 if field == 0 else np.zeros(size)
        floats[field][present] = values
    return ints, floats


def _int_field(kind: StateKind, field: int, size: int, random: np.random.Generator) -> Ints:
    if kind.name.startswith("arg") and field == 3:
        return random.integers(0, 2, size)  # whether there is a value
    if field in code_fields(kind):
        return random.integers(0, CODES, size)
    if kind in (states.COUNT, states.MOMENTS) or (kind.name.startswith("user") and field == kind.int_fields - 1):
        return random.integers(1, 4, size)
    if kind == states.SUM_INTEGER:
        return random.integers(-(2**31), 2**31, size) if field == 0 else random.integers(0, 2**32, size)
    return random.integers(-4, 4, size)


def code_fields(kind: StateKind) -> list[int]:
    """The int64 fields that hold codes of strings."""
    places = [2, 4] if kind.name.startswith("arg") else [2] if kind.name in ("earliest", "latest") else [0]
    return [place for place, feed in zip(places, kind.feeds, strict=True) if feed is Feed.CODE]


def equal(first: NDArray[Any], second: NDArray[Any]) -> bool:
    if first.dtype == np.float64:
        return bool(np.allclose(first, second, rtol=1e-12, atol=1e-12, equal_nan=True))
    return bool((first == second).all())
