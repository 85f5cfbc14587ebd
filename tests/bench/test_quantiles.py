"""The quantiles that are timed are those of the sorted window."""

from __future__ import annotations

import pytest

from bench import quantiles


@pytest.mark.parametrize("way", ["slide", "batch"])
@pytest.mark.parametrize("values", quantiles.VALUES)
def test_quantiles_agree_with_the_sorted_window(values: str, way: str) -> None:
    setting = quantiles.setting_of(values, window=2000, slides=10, way=way)
    assert setting.told["agrees"]
    assert setting.told["bytes"] > 0
    assert len(setting.session()()) == {"slide": 10, "batch": quantiles.BATCHES}[way]


def test_every_way_is_measured() -> None:
    figure = quantiles.measure("uniform", window=2000, slides=10, repeat=1)
    assert figure["agrees"]
    assert min(figure[f"{way}_s"] for way in quantiles.WAYS) > 0
