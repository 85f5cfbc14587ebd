"""Parameters of which every run has some, and long runs all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings


def soaking(values: Iterable[Any], now: Iterable[Any]) -> list[Any]:
    """All values, tuples for several parameters; those that are not among `now` wait for `make soak`."""
    chosen = list(now)
    every = list(values)
    assert all(value in every for value in chosen)
    soak = pytest.mark.soak
    given = [(value if isinstance(value, tuple) else (value,), value in chosen) for value in every]
    return [pytest.param(*values, marks=() if is_now else soak) for values, is_now in given]


def examples(now: int, soak: int) -> settings:
    """So many examples of hypothesis in every run, the same each time, and so many in long runs."""
    return settings(max_examples=soak if settings.default.max_examples > 1_000 else now)
