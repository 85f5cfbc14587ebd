"""A sum that leaves its type is a NULL in its report, is counted for its query and told once; the query goes on."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import panewise as pw
from panewise.aggregates import lowering
from panewise.aggregates.overflows import Overflows, note_overflows
from panewise.temporal import SECOND

STREAM = "CREATE STREAM t (ts TIMESTAMP, k BIGINT, v BIGINT)"
LARGEST = 2**63 - 1
WINDOWS = {
    "tree": "[RANGE 2 SECONDS SLIDE 1 SECOND]",
    "unbounded": "[UNBOUNDED SLIDE 1 SECOND]",
    "continuous": "[RANGE 2 SECONDS]",
    "rows": "[ROWS 3 SLIDE 1]",
    "rows one by one": "[ROWS 3]",
    "partitions": "[PARTITION BY k ROWS 3 SLIDE 1]",
}


def engine_of(*statements: str, path: Path | None = None, sharing: str = "weave") -> pw.Engine:
    engine = pw.Engine(path, sharing=sharing)
    for statement in (STREAM, *statements):
        engine.execute(statement)
    return engine


def push(engine: pw.Engine, *rows: tuple[float, int, int], stream: str = "t") -> None:
    engine.push(stream, [{"ts": int(second * SECOND), "k": k, "v": v} for second, k, v in rows])


def large_rows(engine: pw.Engine) -> None:
    """Two of the largest value, and then small ones, which are alone in their windows."""
    push(engine, (0, 1, LARGEST), (0.1, 1, LARGEST), *((second, 1, 5) for second in range(5, 12)))
    engine.advance("t", 20 * SECOND)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("sharing", ["weave", "none"])
@pytest.mark.parametrize("window", WINDOWS)
def test_the_query_goes_on_and_says_so(window: str, sharing: str, grouped: bool) -> None:
    by = " GROUP BY k" if grouped else ""
    query = f"CREATE QUERY q AS SELECT SUM(v) AS s, COUNT(*) AS n FROM t {WINDOWS[window]}{by}"
    engine = engine_of(
        query, f"CREATE QUERY fine AS SELECT COUNT(*) AS n FROM t {WINDOWS[window]}{by}", sharing=sharing
    )
    with pytest.warns(pw.AnswerOverflowWarning, match="an answer of SUM of query 'q' is outside its type") as caught:
        large_rows(engine)
    assert len(caught) == 1 and caught[0].filename == __file__
    assert "SUM(CAST(... AS DOUBLE))" in str(caught[0].message), "it says what to write instead"
    rows = engine.results("q").to_pylist()
    assert any(row["s"] is None and row["n"] for row in rows)
    assert window == "unbounded" or any(row["s"] == 5 * row["n"] for row in rows if row["n"])
    stats = engine.stats()["queries"]
    assert (stats["q"]["status"], stats["fine"]["overflows"]) == ("RUNNING", 0)
    if "change" not in rows[0]:
        assert stats["q"]["overflows"] == sum(row["s"] is None and row["n"] > 0 for row in rows)
    shown = engine.execute("SHOW QUERIES")
    assert shown is not None
    told = f"answers of SUM that are outside their type, and NULL: {stats['q']['overflows']}"
    assert shown["reason"].to_pylist() == [told, ""]
    assert engine.lookup("q").num_rows == engine.lookup("fine").num_rows


def test_queries_that_are_lowered_together_are_counted_apart() -> None:
    alike = "CREATE QUERY {0} AS SELECT SUM(v) AS s FROM t [RANGE {1} SECONDS SLIDE 1 SECOND]"
    engine = engine_of(*(alike.format(name, seconds) for name, seconds in (("a", 1), ("b", 2), ("c", 3), ("d", 3))))
    push(engine, (0, 1, LARGEST), (1, 1, LARGEST), (9, 1, 1))
    engine.advance("t", 9 * SECOND)
    for name, expected in (("a", 0), ("b", 1), ("c", 2), ("d", 2)):
        found = [row["s"] for row in engine.results(name).to_pylist() if row["window_end"].timestamp() <= 3]
        assert found.count(None) - (name == "a") == expected == engine.stats()["queries"][name]["overflows"]


@pytest.mark.parametrize("window", ["[RANGE 4 SECONDS SLIDE 2 SECONDS]", "[RANGE 4 SECONDS]"])
def test_joins(window: str) -> None:
    engine = engine_of(
        STREAM.replace(" t ", " b "),
        f"CREATE QUERY q AS SELECT SUM(t.v) AS s FROM t {window}, b {window} WHERE t.k = b.k",
        f"CREATE QUERY fine AS SELECT COUNT(*) AS n FROM t {window}, b {window} WHERE t.k = b.k",
    )
    push(engine, (0, 1, LARGEST), (0.5, 1, LARGEST), (9, 1, 4))
    push(engine, (0, 1, 0), (9, 1, 0), stream="b")
    with pytest.warns(pw.AnswerOverflowWarning):
        engine.flush()
    assert 4 in engine.results("q")["s"].to_pylist()
    stats = engine.stats()["queries"]
    assert stats["q"]["overflows"] > 0 and stats["fine"]["overflows"] == 0
    assert stats["q"]["status"] == "RUNNING"


def test_a_query_inside_a_query_is_counted_for_the_one_around_it() -> None:
    inner = "SELECT SUM(v) AS s FROM t [RANGE 1 SECOND SLIDE 1 SECOND]"
    engine = engine_of(f"CREATE QUERY q AS SELECT MAX(s) AS m FROM ({inner}) [RANGE 5 SECONDS SLIDE 5 SECONDS]")
    with pytest.warns(pw.AnswerOverflowWarning, match="'q/1'"):
        large_rows(engine)
    assert engine.stats()["queries"]["q"]["overflows"] == 1


def test_it_is_told_once_and_counted_across_a_restart(tmp_path: Path) -> None:
    query = "CREATE QUERY q AS SELECT SUM(v) AS s FROM t [RANGE 1 SECOND SLIDE 1 SECOND]"
    engine = engine_of(query, path=tmp_path)
    with pytest.warns(pw.AnswerOverflowWarning):
        large_rows(engine)
    results = engine.results("q").to_pylist()
    engine.close(snapshot=False)
    for snapshot in (True, False):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            engine = pw.Engine(tmp_path)
            assert engine.stats()["queries"]["q"]["overflows"] == 1
            engine.close(snapshot=snapshot)
    engine = pw.Engine(tmp_path)
    push(engine, (30, 1, LARGEST), (30.1, 1, LARGEST), (32, 1, 1))
    assert engine.stats()["queries"]["q"]["overflows"] == 2
    assert results[0]["s"] is None
    engine.close()


def test_one_time_queries_and_lookups_count_for_nobody() -> None:
    engine = engine_of(
        "ALTER STREAM t SET (retain = '1 day')", "CREATE QUERY q AS SELECT SUM(v) AS s FROM t [RANGE 1 HOUR]"
    )
    push(engine, (0, 1, LARGEST), (1, 1, LARGEST), (2, 1, 0))
    engine.results("q")
    before = engine.stats()["queries"]["q"]["overflows"]
    assert engine.lookup("q")["s"].to_pylist() == [None]
    assert engine.execute("SELECT SUM(v) AS s FROM t [RANGE 1 HOUR]")["s"].to_pylist() == [None]
    assert engine.stats()["queries"]["q"]["overflows"] == before > 0


def test_sums_at_the_limits() -> None:
    def parts(*sums: int) -> list[list[np.ndarray]]:
        high = np.array([total >> 32 for total in sums], np.int64)
        low = np.array([total & (2**32 - 1) for total in sums], np.int64)
        return [[high, low], [np.array([1] * len(sums), np.int64)]]

    whole = (2**63 - 1, -(2**63), 0)
    values, nulls = lowering.sum_integer(parts(*whole))
    assert (values.tolist(), nulls) == (list(whole), None)
    with Overflows() as found:
        values, nulls = lowering.sum_integer(parts(2**63, 7, -(2**63) - 1))
    assert nulls is not None and (nulls.tolist(), found.count, values[1]) == ([True, False, True], 2, 7)
    values, nulls = lowering.sum_decimal(parts(10**18 - 1, 10**18, -(10**18), 2**70))
    assert nulls is not None and nulls.tolist() == [False, True, True, True]


def test_counts_inside_each_other() -> None:
    note_overflows(1)  # nobody counts
    with Overflows() as around:
        note_overflows(1)
        with Overflows() as inside:
            note_overflows(2)
        with Overflows(apart=True) as apart:
            note_overflows(4)
    assert (around.count, inside.count, apart.count) == (3, 2, 4)
