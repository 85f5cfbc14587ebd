"""The figures of Patroumpas and Sellis 2011: what they time gives right answers, and groups are what they say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from papers import plots
from papers.__main__ import main
from papers.patroumpas2011 import figures_10_to_12
from papers.patroumpas2011.window_pools import STRUCTURES, Pool, StairsPerGroup, Truth, drawn_rows, measured


@pytest.mark.parametrize("whole", [True, False])
def test_windows_are_drawn_as_the_paper_says(whole: bool) -> None:
    pool = Pool.drawn(30, 2000, whole)
    assert len(pool) == 2000 and set(pool.slides.tolist()) == set(range(1, 31))
    assert (pool.slides < pool.ranges).all() and pool.ranges.max() == 60
    assert (pool.ranges % pool.slides == 0).all() == whole


@pytest.mark.parametrize(("aggregate", "structure"), [(a, s) for a, found in STRUCTURES.items() for s in found])
@pytest.mark.parametrize("whole", [True, False])
def test_structures_answer_what_the_rows_say(aggregate: str, structure: str, whole: bool) -> None:
    pool = Pool.drawn(12, 300, whole).some(40)
    outcome = measured(aggregate, structure, pool, drawn_rows(300, 13), 24)
    assert outcome.agrees and outcome.bytes_held > 0 and outcome.answers > 1


@pytest.mark.parametrize("aggregate", STRUCTURES)
def test_the_truth_is_that_of_the_rows(aggregate: str) -> None:
    batches, truth = drawn_rows(20, 70), Truth(aggregate)
    for rows in batches:
        truth.take(rows)
    ranges = np.array([1, 2, 7, 60])
    windows = [np.concatenate(batches[-length:]) for length in ranges]
    slow: dict[str, Callable[[list[int]], int]] = {"SUM": sum, "MAX": max, "DISTINCT": lambda rows: len(set(rows))}
    assert truth.answer(ranges).tolist() == [slow[aggregate](rows.tolist()) for rows in windows]


def test_a_wrong_answer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StairsPerGroup, "answer", lambda self, now, due: np.zeros(len(due), np.int64))
    assert not measured("SUM", "stairs", Pool.drawn(5, 20), drawn_rows(50, 13), 5).agrees


def test_stairs_keep_each_group_in_one_chain() -> None:
    pool = Pool.drawn(10, 200)
    stairs = StairsPerGroup("SUM", pool)
    for now in range(1, 200):
        stairs.take(np.array([now]))
        if now >= 60:
            stairs.answer(now, pool.due(now))
    groups = pool.grouped().groups
    assert [[len(chain) for chain in chains] for chains in stairs.chains] == [[len(group.chain)] for group in groups]


def test_our_order_needs_no_more_groups_than_the_paper_s() -> None:
    for slide_max in figures_10_to_12.CLASSES.values():
        pool = Pool.drawn(slide_max, 1000, whole=False)
        assert pool.grouped().group_count <= figures_10_to_12.groups_by_seed(pool)


def test_the_small_version_shows_all_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(plots, "figures_folder", lambda: tmp_path)
    assert main(["patroumpas2011", "--quick"]) == 0
    shown = capsys.readouterr().out
    for figure in (10, 11, 12):
        assert f"figure {figure}" in shown
        assert (tmp_path / f"papers-patroumpas2011_{figure}.png").stat().st_size > 10_000
    assert "every answer is that of the rows alone" in shown
