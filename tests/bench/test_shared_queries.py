"""The benchmarks of many queries on little data: answers must agree, and what does not agree must be noticed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from bench import (
    floor,
    floor_of_queries,
    planning,
    query_peers,
    shared_queries,
    shared_selections,
    spark_shared_queries,
    window_rows,
)
from bench.measure import isolated_on_all_cores
from tests.now_or_soak import soaking

ROWS = 100_000
WINDOWS = floor_of_queries.queries(40)


def test_fewer_queries_are_the_first_of_more() -> None:
    assert floor_of_queries.queries(10) == WINDOWS[:10]
    assert all(range_s % slide_s == 0 for range_s, slide_s in WINDOWS)


@pytest.mark.parametrize("range_s", [1, 2, 60])
@pytest.mark.parametrize("slide_s", [1, 2, 7])
def test_windows_are_expected_as_rows_are_in_them(range_s: int, slide_s: int) -> None:
    times = floor.EPOCH_MS + np.array([0, 1_500, 1_600, 9_000, 61_000])
    keys, values = np.array([0, 1, 0, 0, 1]), np.array([5.0, 2.0, 3.0, 4.0, 1.0])
    window = range_s * slide_s, slide_s
    slow = {}
    for end in range(slide_s, 61 + window[0] + 1, slide_s):
        inside = (times - floor.EPOCH_MS >= 1000 * (end - window[0])) & (times - floor.EPOCH_MS < 1000 * end)
        for key in np.unique(keys[inside]).tolist():
            slow[end, key] = values[inside & (keys == key)].max()
    ends, groups, maxima = floor_of_queries.expected(floor_of_queries.seconds_maxima(times, keys, values), window)
    assert dict(zip(zip(ends.tolist(), groups.tolist(), strict=True), maxima.tolist(), strict=True)) == slow


def test_the_floor_has_the_results_that_are_expected() -> None:
    times, keys, values = floor.rows(ROWS)
    for grouped in (False, True):
        # With so few rows a second some group has none in some seconds.
        some = slice(None, None, 20) if grouped else slice(None)
        rows = times[some], keys[some] if grouped else np.zeros_like(keys), values[some]
        cells = floor_of_queries.seconds_maxima(*rows)
        wanted = [floor_of_queries.expected(cells, window)[2] for window in WINDOWS]
        results, total = (
            floor_of_queries.answer_by_group(*rows, WINDOWS)
            if grouped
            else floor_of_queries.answer(rows[0], rows[2], WINDOWS)
        )
        assert np.isneginf(cells).any() == grouped
        assert results == sum(map(len, wanted))
        assert total == pytest.approx(sum(map(np.sum, wanted)), rel=1e-12)


@pytest.mark.parametrize("grouped", [False, True])
def test_all_queries_of_the_engine_agree(grouped: bool) -> None:
    figure = shared_queries.measure(len(WINDOWS), grouped, ROWS, repeat=1)
    assert figure["disagreement"] == ""
    assert figure["results"] > 0
    assert figure["state_bytes"] > 0


@pytest.mark.own_processes  # one of the settings switches the shared fold off, for its whole process
# Three processes each, which load all of it: one set by WHERE and by GROUP BY.
@pytest.mark.parametrize("name", soaking(shared_selections.SETS, now=["40 queries, 10 thresholds, by kind"]))
def test_selections_folded_together_agree(name: str) -> None:
    figure = shared_selections.measure(name, queries=6, count=40_000, repeat=1)
    assert figure["agrees"]
    assert figure["families"] > 3
    assert figure["results"] > 100


def test_a_wrong_answer_of_one_query_is_noticed() -> None:
    tables: dict[int, pa.Table] = {}
    engine = shared_queries.registered(WINDOWS[:5], grouped=False)
    shared_queries.session(engine, 5, False, window_rows.batches("BIGINT", ROWS), tables.__setitem__)()
    times, _, values = floor.rows(ROWS)
    results, total = floor_of_queries.answer(times, values, WINDOWS[:5])

    def judged(changed: pa.Table) -> str:
        comparison = shared_queries.Comparison(WINDOWS[:5], grouped=False, count=ROWS)
        for number, table in (tables | {3: changed}).items():
            comparison.take(number, table)
        return comparison.disagreement(results, total)

    assert judged(tables[3]) == ""
    assert judged(tables[3].slice(1)) == f"{results - 1} results, the floor has {results}"
    maxima = tables[3]["m"].to_numpy().copy()
    maxima[-1] = np.nextafter(maxima[-1], 0)
    column = tables[3].column_names.index("m")
    assert "a maximum differs" in judged(tables[3].set_column(column, "m", pa.array(maxima)))
    assert "add up" in judged(tables[3].set_column(column, "m", pa.array(maxima + 1)))


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("peer", query_peers.PEERS)
def test_queries_of_the_peers_agree(peer: str, grouped: bool) -> None:
    pytest.importorskip(peer)
    figure = query_peers.measure(peer, queries=10, grouped=grouped, count=ROWS, repeat=1)
    assert figure["disagreement"] == ""
    assert figure["results"] > 0


@pytest.mark.soak  # to know what this machine takes for each technique, all of them are compiled
def test_queries_are_planned_each_once() -> None:
    figures = planning.measure_text(queries=20)
    for running in (False, True):
        figures |= planning.measure_one_more(queries=20, running=running)
    assert {figure["disagreement"] for figure in figures.values()} == {""}
    assert figures[planning.WOVEN]["trees"] >= 1


BY_MACHINE = [name for name, (by_machine, _) in planning.WEAVES.items() if by_machine]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.soak if name in BY_MACHINE else ()) for name in planning.WEAVES]
)
def test_windows_are_woven_each_once(name: str) -> None:
    figure = planning.measure_arrays(queries=500, name=name)
    assert figure["disagreement"] == ""
    assert figure["trees"] >= 1


def test_a_plan_that_forgets_a_query_is_noticed() -> None:
    from panewise.optimize.sharing.costs.weave_costs import OperationModel
    from panewise.optimize.sharing.weave.weaving import weave

    woven = weave(planning.columns(50), 1.0, OperationModel(), ["slick_deque"])
    assert planning.disagreement(woven, 50) == ""
    assert planning.disagreement(woven, 51) != ""


def test_windows_to_be_asked_alone_are_spread() -> None:
    windows = [(slides, 1) for slides in range(60, 0, -1)]
    assert spark_shared_queries.evenly(windows, 3) == [(11, 1), (31, 1), (51, 1)]
    assert spark_shared_queries.evenly(windows, 0) == []


@pytest.mark.spark
@pytest.mark.soak
def test_shared_queries_on_spark_and_by_spark_agree() -> None:
    given = {"count": 60_000, "file_rows": 10_000, "files": 2, "leave_out": 1}
    figure = isolated_on_all_cores(spark_shared_queries.measure, queries=20, **given)
    alone = isolated_on_all_cores(spark_shared_queries.measure_alone, window=WINDOWS[0], **given)
    assert figure["disagreement"] == alone["disagreement"] == ""
    assert min(figure["results"]) > 0
    assert len(figure["seconds"]) == len(alone["seconds"]) == 2
