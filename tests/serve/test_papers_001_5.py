"""The lazy joins of Golab 2006, chapter 5, give the results that are defined, and its figures are shown."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from panewise.serve.bench import FIGURES
from panewise.serve.papers import papers_001_5
from panewise.serve.papers.papers_001_5_loops import grouped_join
from panewise.serve.papers.papers_003_streams import RandomStreams


def test_it_is_found_by_name() -> None:
    assert FIGURES["papers-001-5"].module == "papers_001_5"


def defined(streams: list[int], values: list[int], windows: list[int]) -> list[tuple[int, int]]:
    """Birth and death of every result: row n comes at n and stays until n + its window."""
    found = []
    by_stream = [[n for n, stream in enumerate(streams) if stream == i] for i in range(len(windows))]
    for rows in itertools.product(*by_stream):
        born, ends = max(rows), min(n + window for n, window in zip(rows, windows, strict=True))
        if len({values[n] for n in rows}) == 1 and born < ends:
            found.append((born, ends))
    return found


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=30),
    windows=st.tuples(*[st.integers(6, 20)] * 3),
    interval=st.integers(1, 5),
    buckets=st.integers(1, 4),
    order=st.permutations(range(3)),
)
def test_restored_results_are_all_and_others_those_that_live_at_a_run(
    rows: list[tuple[int, int]], windows: tuple[int, ...], interval: int, buckets: int, order: list[int]
) -> None:
    streams, values = [stream for stream, _ in rows], [value for _, value in rows]
    arguments = (
        np.array(streams, np.int64), np.array(values, np.int64), 3, np.array(windows),
        np.array([[j for j in order if j != i] for i in range(3)]), np.arange(4) * buckets, interval,
    )  # fmt: skip
    results = defined(streams, values, list(windows))
    counters = np.zeros(2, np.int64)
    assert grouped_join(*arguments, True, counters) == len(results)
    seen = [1 for born, ends in results if (born // interval + 1) * interval < ends]
    assert grouped_join(*arguments, False, counters) == len(seen)


def test_groups_probe_once() -> None:
    """Ten equal rows of one stream look at the one row of the other ten times, or once where they come in one run."""
    streams, values = np.array([0] + [1] * 10), np.zeros(11, np.int64)
    counters = np.zeros(2, np.int64)
    visits = []
    for interval in (1, 11):
        orders = np.array([[1], [0]])
        assert grouped_join(
            streams, values, 1, np.array([50, 50]), orders, np.array([0, 1, 2]), interval, True, counters
        ) == 10  # fmt: skip
        visits.append(int(counters[0]))
    assert visits == [10, 1]


def test_lazy_joins_find_what_the_eager_one_does() -> None:
    streams = RandomStreams(((3, 20, 10), (1, 20, 8), (1, 20, 5)), units=50)
    order = (1, 0, 2)
    exact = papers_001_5.eager(streams, order, 2, 0, 1)
    restored = papers_001_5.lazy_restore(streams, order, 2, 5, 1)
    lossy = papers_001_5.lazy(streams, order, 2, 5, 1)
    assert exact.results == restored.results > lossy.results > 0.5 * exact.results
    assert lossy.visits < restored.visits < exact.visits


def test_other_results_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(papers_001_5, "show_plot", lambda *_: None)
    monkeypatch.setattr(papers_001_5, "lazy_restore", papers_001_5.lazy)
    assert not papers_001_5.order_costs(Console(quiet=True), quick=True)
    assert not papers_001_5.interval_costs(Console(quiet=True), quick=True)


def test_all_of_it_runs_quickly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    drawn = []
    monkeypatch.setattr(papers_001_5, "show_plot", lambda console, name, panels: drawn.append((name, len(panels))))
    assert papers_001_5.run(quick=True, folder=None) == 0
    shown = capsys.readouterr().out
    for expected in (
        "table 5.3", "table 5.4", "table 5.5", "table 5.6", "16200", "figure 5.2", "figure 5.3: nested loops",
        "figure 5.4: hash tables of 2", "figure 5.4: hash tables of 5", "lazyR, hash",
    ):  # fmt: skip
        assert expected in shown
    assert drawn == [("papers-001-5_3_4", 3)]
