"""The figures of Golab 2006, chapter 5, are shown, and joins that give other results are noticed."""

from __future__ import annotations

import pytest
from rich.console import Console

from papers.experiments import PAPER_EXPERIMENTS
from papers.golab2003.random_streams import RandomStreams
from papers.golab2006 import ch5


def test_it_is_found_by_name() -> None:
    assert PAPER_EXPERIMENTS["golab2006-ch5"].module == "golab2006.ch5"


def test_lazy_joins_find_what_the_eager_one_does() -> None:
    streams = RandomStreams(((3, 20, 10), (1, 20, 8), (1, 20, 5)), units=50)
    order = (1, 0, 2)
    exact = ch5.eager(streams, order, 2, 0, 1)
    restored = ch5.lazy_restore(streams, order, 2, 5, 1)
    lossy = ch5.lazy(streams, order, 2, 5, 1)
    assert exact.results == restored.results > lossy.results > 0.5 * exact.results
    assert lossy.visits < restored.visits < exact.visits


def test_other_results_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ch5, "show_plot", lambda *_: None)
    monkeypatch.setattr(ch5, "lazy_restore", ch5.lazy)
    assert not ch5.order_costs(Console(quiet=True), quick=True)
    assert not ch5.interval_costs(Console(quiet=True), quick=True)


def test_all_of_it_runs_quickly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    drawn = []
    monkeypatch.setattr(ch5, "show_plot", lambda console, name, panels: drawn.append((name, len(panels))))
    assert ch5.run(quick=True, folder=None) == 0
    shown = capsys.readouterr().out
    for expected in (
        "table 5.3", "table 5.4", "table 5.5", "table 5.6", "16200", "figure 5.2", "figure 5.3: nested loops",
        "figure 5.4: hash tables of 2", "figure 5.4: hash tables of 5", "lazyR, hash",
    ):  # fmt: skip
        assert expected in shown
    assert drawn == [("papers-golab2006-ch5_3_4", 3)]
