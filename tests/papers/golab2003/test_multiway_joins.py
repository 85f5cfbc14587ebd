"""The joins of Golab and Özsu 2003 run on streams as described, and what they cost is counted and judged rightly."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from rich.console import Console

from papers.experiments import PAPER_EXPERIMENTS
from papers.golab2003 import join_cost_tables, multiway_joins, strategy_tables
from papers.golab2003.join_cost_tables import TABLES_003, divided
from papers.golab2003.join_strategies import GROUPED, Strategy
from papers.golab2003.random_streams import Cost, RandomStreams, judge
from papers.golab2003.strategy_tables import COLUMNS, ROWS

TABLE_5 = TABLES_003[0].streams


def test_it_is_found_by_name() -> None:
    assert PAPER_EXPERIMENTS["golab2003"].module == "golab2003.multiway_joins"


def test_streams_have_the_rates_windows_and_values_of_the_table() -> None:
    streams = RandomStreams(TABLE_5, units=2000)
    assert streams.unit == 15 and streams.windows == [1500, 1500, 3000, 1500]
    units = len(streams.streams) / streams.unit
    for (rate, _, distinct), times, keys in zip(TABLE_5, streams.times, streams.keys, strict=True):
        assert len(times) / units == pytest.approx(rate, rel=0.08)
        assert len(np.unique(keys)) == distinct
    assert sorted(np.concatenate(streams.times)) == list(range(len(streams.streams)))


def test_values_are_hashed_by_their_remainder() -> None:
    """With as many buckets as values every row that is looked at matches; an eager join of two then looks at results
    only, and at the new rows themselves."""
    streams = RandomStreams(((1, 20, 10), (1, 20, 10)), units=200)
    cost = streams.cost(Strategy.EAGER, buckets=10)
    whole = streams.cost(Strategy.EAGER)
    assert cost.results == whole.results
    assert cost.visits - streams.unit == pytest.approx(2 * 20 / 10, rel=0.15)
    assert whole.visits - streams.unit == pytest.approx(2 * 20, rel=0.05)


def test_counted_work_is_that_of_the_formula() -> None:
    streams = RandomStreams(TABLE_5, units=400)
    cost = streams.cost(Strategy.EAGER, order=(0, 1, 2, 3), buckets=5)
    assert cost.comparisons == pytest.approx(16000 / 5, rel=0.12)


def test_a_join_that_gives_other_results_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = RandomStreams.window_join
    monkeypatch.setattr(multiway_joins, "show_plot", lambda *_: None)
    monkeypatch.setattr(RandomStreams, "window_join", lambda *given: (found(*given)[0] + 1, 1.0))
    assert not multiway_joins.beside_our_join(Console(quiet=True), quick=True)


def test_every_strategy_is_compared_by_every_form() -> None:
    """Of all strategies, each by nested loops and hash tables, with eager and lazy expiration but for grouped ones."""
    assert {strategy for strategy, _ in ROWS.values()} == set(Strategy)
    assert {(buckets > 1, expiration > 0) for buckets, expiration in COLUMNS.values()} == set(
        product((False, True), repeat=2)
    )
    missing = [(row, form) for row in ROWS for form in COLUMNS if not strategy_tables._exists(row, form)]
    assert {(ROWS[row][0] in GROUPED, COLUMNS[form][1] > 0) for row, form in missing} == {(True, True)}


def test_a_strategy_that_loses_results_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ROWS, "grouped with restore, every 5", ROWS["grouped, every 5"])
    assert not strategy_tables.every_strategy(Console(quiet=True), quick=True)


def test_divisions_of_buckets() -> None:
    assert divided(12)["equal"] == (12, 12, 12, 12) and divided(12)["1 to slow"] == (1, 1, 1, 45)
    assert divided(12)["5 to slow"] == (5, 5, 5, 33) and divided(12)["10 to slow"] == (10, 10, 10, 18)
    assert "10 to slow" not in divided(7)


def test_sentences_are_judged_by_the_figures(capsys: pytest.CaptureFixture[str]) -> None:
    judge(Console(), "more is more", True, "2")
    judge(Console(), "less is more", False, "3")
    shown = capsys.readouterr().out
    assert "more is more: agrees: 2" in shown and "less is more: DIFFERS: 3" in shown
    slow = Cost(1, 1, 100, 0, 2.0, 10)
    fast = replace(slow, visits=50, seconds=1.0)
    multiway_joins._judge_strategies(Console(), {1: [slow, fast, fast], 9: [fast, slow, fast]}, passes=True)
    shown = capsys.readouterr().out
    assert "never worse: agrees" in shown and "LAZY when the interval is long: agrees: better at [9]" in shown
    multiway_joins._judge_strategies(Console(), {1: [fast, slow, slow]}, passes=False)
    assert capsys.readouterr().out.count("DIFFERS") == 2


@pytest.mark.soak
def test_all_of_it_runs_quickly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    drawn = []
    for module in (multiway_joins, join_cost_tables):
        monkeypatch.setattr(module, "show_plot", lambda console, name, panels: drawn.append(name))
    assert multiway_joins.run(quick=True, folder=None) == 0
    shown = capsys.readouterr().out
    for expected in (
        "table 5:", "table 7:", "80400", "table 8", "figure 4 (a)", "best intervals", "figure 4 (b), lazy",
        "figure 4 (b), general lazy", "figure 3 (b): rows", "beside the strategies", "same number of results: yes",
        "every strategy, streams of table 5", "same results by all that restore: yes", "GENERAL LAZY, every 5",
    ):  # fmt: skip
        assert expected in shown
    assert "number of buckets, by operations: agrees" in shown
    assert drawn == ["papers-golab2003_2_3", "papers-golab2003_4a", "papers-golab2003_4b", "papers-golab2003_3"]
