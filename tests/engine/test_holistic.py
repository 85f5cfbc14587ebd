"""Quantiles, distinct counts and most frequent values against DuckDB; trees that move and forget; one-time queries."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import panewise as pw
from panewise.errors import PlanError
from panewise.operators.family import eviction as forgetting
from panewise.operators.held import held_values
from panewise.plan import physical_plan as physical

duckdb = pytest.importorskip("duckdb")

SECOND = 1_000_000
TIME = pa.timestamp("us", tz="UTC")
STREAM = """CREATE STREAM t (ts TIMESTAMP, k BIGINT, v BIGINT, x DOUBLE, w STRING,
                             WATERMARK FOR ts AS ts - INTERVAL 3 SECONDS)"""


def rows_of(count: int, groups: int, seed: int) -> pa.Table:
    """Two minutes, out of order by up to three seconds."""
    random = np.random.default_rng(seed)
    times = np.sort(random.integers(0, 120 * SECOND, count)) - random.integers(0, 2 * SECOND, count)
    values = np.round(random.normal(0, 40, count)).astype(np.int64)
    words = np.array([f"word {number}" for number in random.geometric(0.1, count)])
    return pa.table(
        {
            "ts": pa.array(times).cast(TIME),
            "k": random.integers(0, groups, count),
            "v": pa.array(values, mask=random.random(count) < 0.1),
            "x": pa.array(random.exponential(3, count).round(2), mask=random.random(count) < 0.1),
            "w": pa.array(words, mask=random.random(count) < 0.1),
        }
    )


def run(engine: pw.Engine, table: pa.Table, size: int = 4000) -> pw.Engine:
    """In pieces, with a snapshot in the middle."""
    for begin in range(0, table.num_rows, size):
        engine.push("t", table.slice(begin, size))
        if begin <= table.num_rows // 2 < begin + size:
            engine = pw.Engine.restore(engine.snapshot())
    engine.flush()
    return engine


def windows(table: pa.Table, length: int, slide: int) -> Iterator[tuple[int, pa.Table]]:
    times = table["ts"].cast(pa.int64()).to_numpy()
    first = (int(times.min()) // slide + 1) * slide
    for end in range(first, int(times.max()) + length + 1, slide):
        inside = (times >= end - length) & (times < end)
        if inside.any():
            yield end, table.filter(pa.array(inside))


@pytest.mark.parametrize("dense_groups", [4096, 5])
def test_duckdb_agrees(monkeypatch: pytest.MonkeyPatch, dense_groups: int) -> None:
    monkeypatch.setattr(physical, "SPARSE_ABOVE", dense_groups)
    monkeypatch.setattr(held_values, "COMPACT_FROM", 300)
    engine = pw.Engine()
    engine.execute(STREAM)
    asked = """MEDIAN(x) AS a, QUANTILE(v, 0.9) AS b, PERCENTILE_CONT(0.3) WITHIN GROUP (ORDER BY v) AS c,
        PERCENTILE_DISC(x, 0.7) AS d, COUNT(DISTINCT v) AS e, COUNT(DISTINCT w) AS f, MIN(w) AS g"""
    engine.execute(f"CREATE QUERY q AS SELECT k, {asked} FROM t [RANGE 20 SECONDS SLIDE 10 SECONDS] GROUP BY k")
    engine.execute("CREATE QUERY r AS SELECT k, MEDIAN(v) AS a FROM t [RANGE 7 SECONDS SLIDE 3 SECONDS] GROUP BY k")
    table = rows_of(20_000, 12, seed=1)
    engine = run(engine, table)
    found = {(row["window_end"], row["k"]): tuple(row.values())[3:] for row in engine.results("q").to_pylist()}
    judge = """SELECT k, median(x), list_sort(list(v) FILTER (v IS NOT NULL))[
               greatest(1, floor(0.9::DECIMAL(2, 1) * count(v)))::BIGINT], quantile_cont(v, 0.3), quantile_disc(x, 0.7),
               count(DISTINCT v), count(DISTINCT w), min(w) FROM inside GROUP BY k"""
    compared = 0
    for end, inside in windows(table, 20 * SECOND, 10 * SECOND):
        expected = {row[0]: row[1:] for row in duckdb.sql(judge).fetchall()}
        moment = pa.scalar(end, TIME).as_py()
        assert {key for at, key in found if at == moment} == set(expected)
        for key, answer in expected.items():
            assert found[moment, key][:-1] == pytest.approx(answer[:-1], rel=1e-12), (moment, key)
            assert found[moment, key][-1] == answer[-1]
            compared += 1
        del inside
    assert compared == len(found) > 100
    short = {(row["window_end"], row["k"]): row["a"] for row in engine.results("r").to_pylist()}
    for end, inside in windows(table, 7 * SECOND, 3 * SECOND):
        for key, answer in duckdb.sql("SELECT k, median(v) FROM inside GROUP BY k").fetchall():
            assert short.pop((pa.scalar(end, TIME).as_py(), key)) == answer
        del inside
    assert not short


@pytest.mark.parametrize("dense_groups", [4096, 0])
def test_top_counts_as_a_counter_does(monkeypatch: pytest.MonkeyPatch, dense_groups: int) -> None:
    monkeypatch.setattr(physical, "SPARSE_ABOVE", dense_groups)
    engine = pw.Engine()
    engine.execute(STREAM)
    engine.execute("CREATE QUERY q AS SELECT k, TOP(4, w) AS a, TOP(2, v) AS b FROM t [RANGE 9 S SLIDE 3 S] GROUP BY k")
    table = rows_of(5000, 5, seed=2)
    found = run(engine, table, 1000).results("q").to_pylist()
    assert len(found) > 150
    shown = {(row["window_end"], row["k"]): (row["a"], row["b"]) for row in found}
    for end, inside in windows(table, 9 * SECOND, 3 * SECOND):
        for key in range(5):
            mine = inside.filter(pa.compute.equal(inside["k"], key))
            if mine.num_rows:
                expected = tuple(leading(mine[name].to_pylist(), k) for name, k in (("w", 4), ("v", 2)))
                assert tuple(map(json.loads, shown[pa.scalar(end, TIME).as_py(), key])) == expected


def leading(values: list[Any], k: int) -> list[list[Any]]:
    counts = Counter(value for value in values if value is not None)
    return [[value, count] for value, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:k]]


def test_frequent_adds_up_lists_and_reports_nothing_false() -> None:
    engine = pw.Engine()
    engine.execute(STREAM)
    engine.execute("CREATE QUERY finer AS SELECT COUNT(w) AS n FROM t [RANGE 3 SECONDS SLIDE 2 SECONDS]")
    engine.execute("CREATE QUERY q AS SELECT FREQUENT(5, w) AS f FROM t [RANGE 30 SECONDS SLIDE 5 SECONDS]")
    table = rows_of(20_000, 1, seed=3)
    found = {row["window_end"]: json.loads(row["f"]) for row in run(engine, table).results("q").to_pylist() if row["f"]}
    reported = 0
    for end, inside in windows(table, 30 * SECOND, 5 * SECOND):
        delta, listed = 0, Counter[str]()
        for _, slide in windows(inside, 5 * SECOND, 5 * SECOND):
            lists = leading(slide["w"].to_pylist(), 5)
            delta += lists[-1][1] if len(lists) == 5 else 0
            listed.update(dict(lists))
        told = found.pop(pa.scalar(end, TIME).as_py())
        assert told == [pair for pair in leading(list(listed.elements()), 10_000) if pair[1] > delta]
        true = Counter(inside["w"].to_pylist())
        assert all(delta < count <= true[value] for value, count in told)
        reported += len(told)
    assert not found and reported > 50


def test_sketches_are_about_right() -> None:
    pytest.importorskip("datasketches")
    engine = pw.Engine()
    engine.execute(STREAM)
    engine.execute(
        """CREATE QUERY q AS SELECT APPROX_COUNT_DISTINCT(x) AS a, COUNT(DISTINCT x) AS b, APPROX_QUANTILE(v, 0.5) AS c,
           MEDIAN(v) AS d, APPROX_TOP(1, w) AS e, TOP(1, w) AS f FROM t [RANGE 30 SECONDS SLIDE 10 SECONDS]"""
    )
    found = run(engine, rows_of(40_000, 1, seed=4), 10_000).results("q").to_pylist()
    for row in found[1:-2]:
        assert row["a"] == pytest.approx(row["b"], rel=0.1)
        assert row["c"] == pytest.approx(row["d"], abs=4)  # of a standard deviation of 40
        assert json.loads(row["e"])[0][0] == json.loads(row["f"])[0][0]


def test_questions_share_what_is_held() -> None:
    engine = pw.Engine()
    engine.execute(STREAM)
    for at, question in enumerate(["QUANTILE(v, 0.5)", "QUANTILE(v, 0.9)", "COUNT(DISTINCT v)", "TOP(3, v)"]):
        engine.execute(f"CREATE QUERY q{at} AS SELECT {question} AS a FROM t [RANGE {at + 5} S SLIDE 1 S]")
    [consumer] = engine.hosting.families
    assert [key.kind.name for key in consumer.family.states] == ["count", "bag"]
    assert "bag(v) by BagSynopsis" in str(engine.explain())
    engine.execute("DROP QUERY q0; DROP QUERY q1; DROP QUERY q2; DROP QUERY q3")
    assert not consumer.family.store.held.keys


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("aggregate", ["TOP(9, s)", "FREQUENT(9, s)", "COUNT(DISTINCT s)"])
def test_idle_strings_and_groups_leave(monkeypatch: pytest.MonkeyPatch, aggregate: str, dense: bool) -> None:
    monkeypatch.setattr(physical, "SPARSE_ABOVE", 4096 if dense else 2)
    monkeypatch.setattr(forgetting, "FORGET_FROM", 64)
    engine = pw.Engine()
    engine.execute(
        f"""CREATE STREAM u (ts TIMESTAMP, k BIGINT, s STRING);
        CREATE QUERY q AS SELECT k, {aggregate} AS a FROM u [RANGE 3 SECONDS SLIDE 1 SECOND] GROUP BY k"""
    )
    rows = [{"ts": i * SECOND // 10, "k": i % 5 + i // 100, "s": f"text {(i * 31) % 997:05}"} for i in range(2000)]
    largest = 0
    for begin in range(0, len(rows), 50):
        engine.push("u", rows[begin : begin + 50])
        [consumer] = engine.hosting.families
        largest = max(largest, *(len(pool) for pool in consumer.family.store.pools.values()))
    assert largest < 400  # of 997 strings
    engine.flush()
    answers = engine.results("q").to_pylist()
    assert len(answers) > 900
    for answer in answers:
        end = int(answer["window_end"].timestamp() * SECOND)
        held = [r["s"] for r in rows if end - 3 * SECOND <= r["ts"] < end and r["k"] == answer["k"]]  # type: ignore[operator]
        expected = len(set(held)) if aggregate.startswith("COUNT") else leading(held, 9)
        assert (answer["a"] if aggregate.startswith("COUNT") else json.loads(answer["a"])) == expected


def test_one_time_queries() -> None:
    engine = pw.Engine()
    engine.execute("CREATE STREAM u (ts TIMESTAMP, k STRING, v BIGINT) WITH (retain = '1 hour')")
    seconds = [(1, "a", 3), (1, "a", 3), (2, "b", 1), (3, "a", 9), (3, "a", 3), (5, "a", 2)]
    engine.push("u", [{"ts": second * SECOND, "k": k, "v": v} for second, k, v in seconds])
    engine.advance("u", 6 * SECOND)

    def ask(text: str) -> list[dict[str, Any]]:
        answer = engine.execute(text)
        assert answer is not None
        return answer.to_pylist()

    whole = ask("SELECT MEDIAN(v) AS m, COUNT(DISTINCT k) AS n, TOP(1, k) AS t FROM u [RANGE 1 MINUTE]")
    assert whole == [{"m": 3.0, "n": 2, "t": '[["a", 5]]'}]
    slides = "FROM u [RANGE 6 SECONDS SLIDE 2 SECONDS] GROUP BY k"
    assert ask(f"SELECT k, FREQUENT(1, v) AS f, FREQUENT(2, v) AS g, QUANTILE(v, 0.5) AS q {slides}") == [
        {"k": "a", "f": "[]", "g": "[[3, 3]]", "q": 3},
        {"k": "b", "f": "[]", "g": "[[1, 1]]", "q": 1},
    ]
    nothing = ask("SELECT MEDIAN(v) AS m, TOP(1, v) AS t FROM u [RANGE 1 MINUTE] WHERE v > 100")
    assert nothing == [{"m": None, "t": None}]
    with pytest.raises(PlanError, match="FREQUENT counts within the slides"):
        engine.execute("SELECT FREQUENT(1, v) AS f FROM u [RANGE 1 MINUTE]")
    engine.execute("CREATE QUERY q AS SELECT k, COUNT(*) AS n FROM u [RANGE 1 MINUTE SLIDE 1 SECOND] GROUP BY k")
    engine.advance("u", 70 * SECOND)
    assert ask("SELECT MEDIAN(n) AS m FROM q") == ask("SELECT AVG(n) AS m FROM q")


def test_a_question_beside_a_registered_one_is_answered_from_its_tree() -> None:
    engine = pw.Engine()
    engine.execute("CREATE STREAM u (ts TIMESTAMP, v BIGINT)")
    engine.execute("CREATE QUERY q AS SELECT MEDIAN(v) AS m FROM u [RANGE 10 SECONDS SLIDE 5 SECONDS]")
    engine.push("u", [{"ts": second * SECOND, "v": second} for second in range(10)])
    engine.advance("u", 10 * SECOND)
    answer = engine.execute("SELECT TOP(1, v) AS t, QUANTILE(v, 1) AS g FROM u [RANGE 5 SECONDS SLIDE 5 SECONDS]")
    assert answer is not None and answer.to_pylist() == [{"t": "[[5, 1]]", "g": 9}]


def test_long_runs_of_empty_windows_have_no_estimate() -> None:
    pytest.importorskip("datasketches")
    engine = pw.Engine()
    engine.execute("CREATE STREAM u (ts TIMESTAMP, v BIGINT)")
    engine.push("u", [{"ts": 0, "v": 3}, {"ts": SECOND, "v": 4}])
    window = "FROM u [RANGE 1 SECOND SLIDE 1 SECOND]"
    engine.execute(f"CREATE QUERY q AS SELECT APPROX_QUANTILE(v, 0.5) AS a, MEDIAN(v) AS m {window}")
    engine.execute(f"CREATE QUERY h AS SELECT COUNT(*) AS n {window} HAVING APPROX_QUANTILE(v, 0.5) < 1")
    engine.advance("u", 20_000 * SECOND)
    answers = engine.results("q")
    assert answers.num_rows == 19_999
    assert answers["a"].to_pylist() == answers["m"].to_pylist() == [4.0] + [None] * 19_998
    assert not engine.results("h").num_rows
