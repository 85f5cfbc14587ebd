"""The figures of Arasu and Widom 2004: what they time gives right answers."""

from __future__ import annotations

import numpy as np
import pytest

from papers.arasu2004 import figures_9_to_12
from papers.arasu2004.substream_filters import Trades, lookups
from papers.experiments import PAPER_EXPERIMENTS


def test_it_is_found_by_name() -> None:
    assert PAPER_EXPERIMENTS["arasu2004"].module == "arasu2004.figures_9_to_12"


@pytest.mark.parametrize("name", figures_9_to_12.ALGORITHMS)
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_algorithms_of_figure_9_agree_with_the_rows(name: str, share: float) -> None:
    rate, agrees = figures_9_to_12.input_rate(figures_9_to_12.ALGORITHMS[name], 1, share, seconds=0.001)
    assert agrees and rate > 0


def test_thresholds_have_the_selectivity_asked_for() -> None:
    trades = Trades.drawn(200, 20_000)
    ranges, leasts = lookups(trades, 0.05, 20)
    running, now = trades.running(), int(trades.times[trades.half])
    for range_us, least in zip(ranges.tolist(), leasts.tolist(), strict=True):
        counts, _ = running.answer(np.arange(200), now, range_us)
        assert 2 <= np.count_nonzero(counts >= least) <= 10
