"""FRAIL, an aggregate of a user that raises where its sum is too large: a query with it fails."""

from __future__ import annotations

from typing import Any

import panewise as pw

REASON = "FRAIL: its lower raised ValueError: too large"


# Functions of the module: a test process compiles them once.
def _lift(value: float) -> tuple[float]:
    return (value,)


def _combine(one: tuple[float], other: tuple[float]) -> tuple[float]:
    return (one[0] + other[0],)


def _lower(state: Any) -> Any:
    if state[0] > 1e18:
        raise ValueError("too large")
    return state[0]


def register(engine: pw.Engine) -> pw.Engine:
    """The engine, which knows FRAIL."""
    engine.register_aggregate("FRAIL", lift=_lift, combine=_combine, lower=_lower, identity=(0.0,))
    return engine
