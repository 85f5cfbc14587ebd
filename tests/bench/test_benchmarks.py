"""The benchmarks on little data: their answers must agree, whatever their speed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench import (
    floor,
    fresh_process,
    many_groups,
    many_queries,
    one_row,
    spark_many_queries,
    spark_peers,
    spark_windows,
    techniques,
    window_peers,
    window_rows,
    windows,
)
from bench.machine import peer_figure
from bench.measure import isolated_on_all_cores
from bench.report import Aim, Report
from bench.spark_session import trigger_seconds
from bench.zipf_rows import ZipfRows
from tests.now_or_soak import soaking

ROWS = 100_000
PEERS = spark_peers.SYSTEMS


@pytest.mark.parametrize("key_type", window_rows.KEY_TYPES)
def test_windows_of_the_engine_agree_with_the_reference(key_type: str) -> None:
    figure = windows.measure(key_type, range_s=10, count=ROWS, repeat=1)
    assert figure["disagreement"] == ""
    assert figure["results"] > 0


@pytest.mark.parametrize("range_s", soaking([1, 10, 60], now=[10]))
@pytest.mark.parametrize("peer", window_peers.PEERS)
def test_windows_of_the_peers_agree_with_the_reference(peer: str, range_s: int) -> None:
    pytest.importorskip(peer)
    assert window_peers.measure(peer, "STRING", range_s, count=ROWS, repeat=1)["disagreement"] == ""


def test_a_wrong_answer_is_noticed() -> None:
    tables = windows.session(windows.statements("BIGINT", 10), window_rows.batches("BIGINT", ROWS))()
    assert window_rows.disagreement(tables[0], ROWS, 10).endswith(
        f"instead of {floor.answer(*floor.rows(ROWS), 10)[0]}"
    )


@pytest.mark.parametrize("fetch", one_row.FETCHES)
def test_rows_pushed_one_by_one_all_arrive(fetch: str) -> None:
    assert one_row.agree(one_row.session(one_row.rows_of(one_row.FORMS[0], 2500), fetch)(), 2500)


@pytest.mark.own_processes
def test_a_fresh_process_answers_like_one_with_a_past() -> None:
    figure = fresh_process.measure(fresh_process.USERS, count=ROWS, repeat=1)
    assert figure["ratio"] > 0
    assert {figure[name]["disagreement"] for name in (fresh_process.FRESH, fresh_process.AFTER)} == {""}


def test_a_hundred_queries_share_a_tree_and_agree() -> None:
    _, one, hundred, having = many_queries.cases()[0]
    figure = many_queries.measure(one, hundred, having, count=ROWS, repeat=1)
    assert figure["hundred"]["trees"] == 1
    assert figure["one"]["disagreement"] == figure["hundred"]["disagreement"] == ""


@pytest.mark.parametrize(
    ("window", "ranges"), soaking([(1, 1), (64, 1), (2048, 1), (2048, 1000)], now=[(1, 1), (64, 1), (2048, 1000)])
)
@pytest.mark.parametrize(("name", "aggregate"), [("two_stacks", "SUM"), ("slick_deque", "MAX")])
def test_techniques_agree_with_numpy_at_every_size(name: str, aggregate: str, window: int, ranges: int) -> None:
    figure = techniques.measure(name, aggregate, window, ranges, budget_s=0.01)
    assert figure["agrees"]
    assert figure["rows/s"] > 0
    assert figure["max us"] >= figure["p50 us"]


def test_each_size_of_a_technique_has_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, object]] = []

    def isolated(function: object, **arguments: object) -> dict[str, float]:
        assert function is techniques.measure
        asked.append(arguments)
        return {"slide_s": 0.1, "fill_s": 0.0, "bytes": 8}

    monkeypatch.setattr(techniques, "isolated", isolated)
    rows = techniques.growing("daba", "SUM", 1, (1, 2, 40, 4000, 8000), budget_s=0.01)
    assert [arguments["window"] for arguments in asked] == [1, 2, 40]
    assert [row.get("left out") for row in rows] == [None, None, None, "too long", "as the size before"]
    assert techniques.growing("daba", "SUM", 1000, (1, 64), budget_s=0.01) == []


@pytest.mark.soak
def test_what_takes_too_long_is_left_out_by_rule() -> None:
    rows = techniques.growing("recompute", "SUM", 1, (1024, 1 << 22), budget_s=0.01)
    assert rows[1].get("left out") == "too long"


def test_many_groups_agree_with_numpy(tmp_path: Path) -> None:
    rows, path = ZipfRows(100_000, 20_000), tmp_path / "results.parquet"
    figure = many_groups.measure(rows.count, rows.keys, threshold=50, path=str(path))
    results = pq.read_table(path)
    assert results.num_rows == figure["results"] > 0
    assert many_groups.disagreements(results, rows, threshold=50) == []
    assert many_groups.disagreements(results, rows, threshold=49) != []


def test_a_figure_of_a_peer_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.machine.CACHE", tmp_path)
    script = tmp_path / "script.py"
    script.write_text("one")
    measured: list[int] = []

    def figure(count: int) -> dict[str, object]:
        return peer_figure("numpy", [script], {"count": count}, lambda: {"seconds": measured.append(count)})

    assert [figure(1)["cached"], figure(1)["cached"], figure(2)["cached"]] == [False, True, False]
    script.write_text("another")
    assert figure(1)["cached"] is False
    assert measured == [1, 2, 1]


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.parametrize("system", ["panewise", *spark_peers.SYSTEMS])
def test_windows_on_spark_agree_with_the_reference(system: str) -> None:
    rows = {"range_s": 10, "file_rows": 10_000, "files": 2}
    if system == "panewise":
        figure = isolated_on_all_cores(spark_windows.measure, **rows)
    else:
        # Fewer files a trigger than the pipeline gets, as a slow peer gets them.
        rows |= {"files": 1, "files_there": 6, "triggers": 3}
        figure = isolated_on_all_cores(spark_peers.measure, **rows, system=system, jvm="stock")
    assert figure["disagreement"] == ""
    assert figure["results"] > 0


@pytest.mark.spark
@pytest.mark.soak
def test_twenty_sinks_on_spark_hold_the_results_of_their_queries() -> None:
    figure = isolated_on_all_cores(spark_many_queries.measure, queries=20, count=60_000, file_rows=10_000)
    assert figure["disagreement"] == ""
    assert figure["rows_read"] == 60_000


def test_only_windows_up_to_an_end_are_expected() -> None:
    tables = windows.session(windows.statements("BIGINT", 10), window_rows.batches("BIGINT", ROWS))()
    results = pa.concat_tables(tables)
    ends = results.column("window_end").cast(pa.int64()).to_numpy() // 1000 - floor.EPOCH_MS
    early = results.filter(pa.array(ends <= 50_000))
    assert window_rows.disagreement(early, ROWS, 10, until_s=50) == ""
    assert window_rows.disagreement(early, ROWS, 10, until_s=51) != ""
    assert window_rows.disagreement(early, ROWS, 10) != ""


def test_micro_batches_with_rows_are_what_is_timed() -> None:
    def event(batch: int, rows: int, milliseconds: int) -> dict[str, object]:
        times = {"triggerExecution": milliseconds, "addBatch": 1}
        return {"batchId": batch, "numInputRows": rows, "durationMs": times}

    idle = {"batchId": 3, "numInputRows": 0, "durationMs": {"triggerExecution": 7}}
    progress = [event(1, 5, 1500), event(0, 5, 9000), event(2, 5, 500), idle]
    assert trigger_seconds(progress, leave_out=1) == [1.5, 0.5]


def test_a_missed_aim_says_so() -> None:
    report = Report("name", "title", ("a",), aims=[Aim.at_least("speed", 2.0, 1.0), Aim.at_most("time", 2.0, 1.0)])
    assert [aim.met for aim in report.aims] == [False, True]
