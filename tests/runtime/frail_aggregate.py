"""FRAIL, an aggregate of a user that raises where its sum is too large: a query with it fails."""

from __future__ import annotations

from typing import Any

import panewise as pw

REASON = "FRAIL: its lower raised ValueError: too large"


def _lower(state: Any) -> Any:
    if state[0] > 1e18:
        raise ValueError("too large")
    return state[0]


def register(engine: pw.Engine) -> pw.Engine:
    """The engine, which knows FRAIL."""
    engine.register_aggregate(
        "FRAIL", lift=lambda v: (v,), combine=lambda a, b: (a[0] + b[0],), lower=_lower, identity=(0.0,)
    )
    return engine
