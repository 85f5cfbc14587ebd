"""The quantiles that are timed are those of the sorted window."""

from __future__ import annotations

import pytest

from bench import quantiles


@pytest.mark.parametrize("values", quantiles.VALUES)
def test_quantiles_agree_with_the_sorted_window(values: str) -> None:
    figure = quantiles.measure(values, window=2000, slides=10, repeat=1)
    assert figure["agrees"]
    assert figure["bytes"] > 0
