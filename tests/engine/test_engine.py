"""Queries of the engine that come, pause, fail and go; subscribers, lookups, one-time queries."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import panewise as pw
from panewise.errors import CatalogError, NotHeldError
from tests.engine.hosting.frail_aggregate import REASON, register
from tests.engine.small_engine import COUNTS, SECOND, STREAM, SUMS, engine_of, row, rows, statuses, tuples

# -- subscribers -----------------------------------------------------------------------------------------------------


def test_subscribers_hear_what_a_push_completes() -> None:
    engine = engine_of(STREAM, SUMS)
    heard: list[tuple[Any, ...]] = []
    end = engine.subscribe("q", lambda batch: heard.extend(tuples(pa.Table.from_batches([batch]))))
    engine.push("t", rows(0, 1))
    assert heard == [(1.0, "a", 1)]
    engine.push("t", row(2))
    assert heard == [(1.0, "a", 1), (2.0, "a", 2)]
    end()
    end()
    engine.push("t", row(3))
    assert len(heard) == 2
    assert tuples(engine.results("q")) == [
        (1.0, "a", 1),
        (2.0, "a", 2),
        (3.0, "a", 2),
    ]  # a subscription takes nothing away


def test_a_subscriber_that_raises_disturbs_nobody_else() -> None:
    engine = engine_of(STREAM, SUMS, COUNTS)
    heard: list[int] = []

    def broken(batch: pa.RecordBatch) -> None:
        raise RuntimeError("broken subscriber")

    end = engine.subscribe("q", broken)
    engine.subscribe("q", lambda batch: heard.append(batch.num_rows))
    engine.subscribe("c", lambda batch: heard.append(-batch.num_rows))
    with pytest.raises(RuntimeError, match="broken subscriber"):
        engine.push("t", rows(0, 1))
    assert heard == [1, -1]
    end()
    engine.push("t", row(2))
    assert heard == [1, -1, 1, -1]
    assert tuples(engine.results("q")) == [(1.0, "a", 1), (2.0, "a", 2)]


def test_a_subscriber_may_use_the_engine() -> None:
    engine = engine_of(STREAM, "CREATE STREAM echo (ts TIMESTAMP, s BIGINT)", SUMS)
    engine.execute("CREATE QUERY e AS SELECT s FROM echo [NOW]")

    def forward(batch: pa.RecordBatch) -> None:
        for end, total in zip(batch["window_end"].to_pylist(), batch["s"].to_pylist(), strict=True):
            engine.push("echo", {"ts": end, "s": total})

    engine.subscribe("q", forward)
    engine.push("t", rows(0, 1, 2, 3))
    assert engine.stats()["streams"]["echo"]["rows"] == 3


# -- lookups ---------------------------------------------------------------------------------------------------------


def test_lookups_of_periodic_queries() -> None:
    engine = engine_of(STREAM, SUMS, SUMS.replace("QUERY q", "QUERY longer").replace("RANGE 2", "RANGE 9"))
    assert engine.lookup("q").num_rows == 0
    engine.push("t", [row(0, "a", 1), row(0, "b", 2), row(1, "a", 4), row(2, "a", 8), row(3, "b", 16)])
    assert tuples(engine.lookup("q")) == [(3.0, "a", 12)]
    assert tuples(engine.lookup("q", at=3 * SECOND)) == [(3.0, "a", 12)]
    assert tuples(engine.lookup("q", at="1970-01-01 00:00:02.7")) == [(2.0, "a", 5), (2.0, "b", 2)]
    assert tuples(engine.lookup("q", at=2 * SECOND, key="b")) == [(2.0, "b", 2)]
    assert tuples(engine.lookup("q", at=2 * SECOND, key={"k": "a"})) == [(2.0, "a", 5)]
    assert engine.lookup("q", key="zz").num_rows == 0
    assert tuples(engine.results("q")) != []  # looking takes nothing away


def test_lookups_that_cannot_be() -> None:
    engine = engine_of(STREAM, SUMS)
    engine.push("t", rows(*range(30)))
    with pytest.raises(NotHeldError, match="no report at 1970-01-01 00:00:40 yet"):
        engine.lookup("q", at=40 * SECOND)
    with pytest.raises(NotHeldError, match=r"the report of '\w+' at 1970-01-01 [\d:.]+ is not held"):
        engine.lookup("q", at=2 * SECOND)
    for key, reason in (
        (5, "k is string"),
        ({"kk": "a"}, "'kk' is not a selected grouping column"),
        (("a", "b"), "not by 2"),
    ):
        with pytest.raises(NotHeldError, match=reason):
            engine.lookup("q", key=key)
    with pytest.raises(CatalogError, match="there is no query 'qq'"):
        engine.lookup("qq")


def test_lookups_of_continuous_queries_and_of_the_mode() -> None:
    engine = engine_of(
        STREAM,
        "CREATE QUERY live AS SELECT k, SUM(v) AS s FROM t [RANGE 2 SECONDS] GROUP BY k",
        "CREATE QUERY quiet WITH (mode = 'lookup') AS SELECT k, SUM(v) AS s FROM t [RANGE 2 SECONDS] GROUP BY k",
    )
    engine.push("t", [row(0, "a", 1), row(1, "b", 2), row(1.5, "a", 4), row(2.5, "c", 8)])
    for name in ("live", "quiet"):
        found = engine.lookup(name)
        assert sorted(zip(found["k"].to_pylist(), found["s"].to_pylist(), strict=True)) == [("a", 4), ("b", 2)]
    assert engine.results("live").num_rows > 0
    assert engine.results("quiet").num_rows == 0


def test_a_lookup_by_many_keys_in_their_order() -> None:
    names = [f"c{i}" for i in range(12)]
    engine = engine_of(
        f"CREATE STREAM t (ts TIMESTAMP, {', '.join(f'{name} BIGINT' for name in names)})",
        f"CREATE QUERY q AS SELECT {', '.join(names)}, COUNT(*) AS n FROM t [RANGE 1 SECOND SLIDE 1 SECOND] "
        f"GROUP BY {', '.join(names)}",
    )
    engine.push("t", [{"ts": 0, **{name: i for i, name in enumerate(names)}}])
    engine.advance("t", SECOND)
    assert engine.lookup("q", key=tuple(range(12))).num_rows == 1


# -- one-time queries ------------------------------------------------------------------------------------------------


def test_one_time_queries_over_retained_rows() -> None:
    engine = engine_of(STREAM + " WITH (retain = '10 seconds')")
    engine.push("t", [row(i, "ab"[i % 2], i) for i in range(6)])
    found = engine.execute("SELECT k, SUM(v) AS s FROM t [RANGE 3 SECONDS] WHERE v > 2 GROUP BY k")
    assert sorted(tuples(found)) == [("a", 4), ("b", 3)]
    assert tuples(engine.execute("SELECT v FROM t [ROWS 2]")) == [(3,), (4,)]
    assert tuples(engine.execute("SELECT COUNT(*) AS n FROM t [UNBOUNDED]")) == [(5,)]
    assert tuples(engine.execute("SELECT COUNT(*) AS n FROM t [RANGE 2 SECONDS SLIDE 2 SECONDS]")) == [(2,)]
    engine.push("t", row(100))
    with pytest.raises(NotHeldError, match="reaches further back"):
        engine.execute("SELECT COUNT(*) AS n FROM t [RANGE 60 SECONDS]")


def test_one_time_queries_from_the_slices_of_others() -> None:
    engine = engine_of(STREAM, SUMS.replace("RANGE 2", "RANGE 10"))
    engine.push("t", [row(i, "ab"[i % 2], i) for i in range(20)])
    shared = engine.execute("SELECT k, SUM(v) AS s FROM t [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k")
    assert sorted(tuples(shared)) == [("a", 14 + 16 + 18), ("b", 15 + 17)]
    with pytest.raises(NotHeldError):
        engine.execute("SELECT k, SUM(v) AS s FROM t [RANGE 15 SECONDS SLIDE 1 SECOND] GROUP BY k")
    with pytest.raises(NotHeldError):
        engine.execute("SELECT k, MAX(v) AS s FROM t [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k")
    with pytest.raises(NotHeldError):
        engine.execute("SELECT v FROM t [RANGE 5 SECONDS]")


def test_one_time_queries_over_answers() -> None:
    engine = engine_of(STREAM, SUMS)
    engine.push("t", [row(0, "a", 1), row(0, "b", 5), row(1, "a", 1)])
    assert tuples(engine.execute("SELECT k FROM q WHERE s > 2")) == [("b",)]
    assert tuples(engine.execute("SELECT MAX(s) AS m, COUNT(*) AS n FROM q")) == [(5, 2)]


# -- suspend, resume, drop, alter ------------------------------------------------------------------------------------


def test_suspend_and_resume() -> None:
    engine = engine_of(STREAM, SUMS, COUNTS)
    engine.push("t", rows(0, 1, 2))
    engine.execute("SUSPEND QUERY q")
    assert statuses(engine) == {"q": "SUSPENDED", "c": "RUNNING"}
    engine.push("t", rows(3, 4))
    engine.execute("RESUME QUERY q")
    engine.push("t", rows(5, 6))
    assert tuples(engine.results("q")) == [(1.0, "a", 1), (2.0, "a", 2), (5.0, "a", 2), (6.0, "a", 2)]
    assert len(tuples(engine.results("c"))) == 6


def test_queries_over_queries_are_dropped_in_order() -> None:
    engine = engine_of(STREAM, SUMS, "CREATE QUERY d AS SELECT MAX(s) AS m FROM q [RANGE 4 SECONDS SLIDE 2 SECONDS]")
    engine.execute("CREATE SINK out FROM d WITH (connector = 'console')")
    for statement, reader in (("DROP STREAM t", "query q"), ("DROP QUERY q", "query d"), ("DROP QUERY d", "sink out")):
        with pytest.raises(CatalogError, match=f"is still read by {reader}"):
            engine.execute(statement)
    engine.push("t", rows(0, 1, 2, 3, 4))
    assert tuples(engine.results("d")) == [(2.0, 1), (4.0, 2)]
    engine.execute("DROP SINK out; DROP QUERY d; DROP QUERY q; DROP STREAM t")
    left = engine.stats()
    assert {name: left[name] for name in left if name != "reads"} == {
        "streams": {}, "tables": {}, "queries": {}, "trees": [], "archives": {},
    }  # fmt: skip
    with pytest.raises(CatalogError):
        engine.push("t", row(5))
    engine.execute(STREAM + ";" + SUMS)
    engine.push("t", rows(0, 1))
    assert tuples(engine.results("q")) == [(1.0, "a", 1)]


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("[RANGE 1 SECOND SLIDE 1 SECOND]", [(10.0, 1), (11.0, 1), (12.0, 1)]),  # the slices of others answer it
        ("[RANGE 2 SECONDS SLIDE 1 SECOND]", [(11.0, 2), (12.0, 2)]),  # they do, but for what has gone
        ("[RANGE 4 SECONDS SLIDE 1 SECOND]", []),  # they do not, and its first whole window has not closed yet
    ],
)
def test_a_query_in_mid_stream_never_says_anything_wrong(window: str, expected: list[tuple[float, int]]) -> None:
    engine = engine_of(STREAM, COUNTS)
    engine.push("t", rows(*range(11)))
    engine.execute(f"CREATE QUERY late AS SELECT COUNT(*) AS n FROM t {window}")
    engine.push("t", rows(11, 12))
    assert tuples(engine.results("late")) == expected


def test_a_bounded_query_beside_an_endless_one() -> None:
    """What an endless window has taken in is no longer there in slices."""
    engine = engine_of(STREAM, "CREATE QUERY all_ AS SELECT COUNT(*) AS n FROM t [UNBOUNDED SLIDE 1 SECOND]")
    engine.push("t", rows(*range(11)))
    engine.execute(COUNTS)
    engine.push("t", rows(11, 12, 13))
    assert tuples(engine.results("c")) == [(12.0, 2), (13.0, 2)]
    assert tuples(engine.results("all_"))[-1] == (13.0, 13)


def test_an_endless_query_reports_though_nothing_comes() -> None:
    engine = engine_of(
        STREAM,
        "CREATE QUERY u AS SELECT COUNT(*) AS n FROM t [UNBOUNDED SLIDE 1 SECOND]",
        "CREATE QUERY g AS SELECT k, COUNT(*) AS n FROM t [UNBOUNDED SLIDE 1 SECOND] GROUP BY k",
    )
    engine.push("t", rows(0, 1))
    engine.advance("t", 2 * SECOND)
    engine.advance("t", 5 * SECOND)
    assert tuples(engine.results("u")) == [(1.0, 1), (2.0, 2), (3.0, 2), (4.0, 2), (5.0, 2)]
    assert tuples(engine.results("g")) == [(1.0, "a", 1), (2.0, "a", 2), (3.0, "a", 2), (4.0, "a", 2), (5.0, "a", 2)]
    engine.advance("t", 5000 * SECOND)
    assert set(engine.results("u")["n"].to_pylist()) == {2}


def test_a_query_over_a_query_in_mid_stream() -> None:
    """The inner report at the watermark itself is out already: windows that need it are not whole."""
    engine = engine_of(STREAM, COUNTS)
    engine.push("t", rows(*range(11)))
    engine.execute("CREATE QUERY o AS SELECT COUNT(*) AS n FROM c [RANGE 2 SECONDS SLIDE 1 SECOND]")
    engine.push("t", rows(*range(11, 16)))
    assert tuples(engine.results("o")) == [(13.0, 2), (14.0, 2), (15.0, 2)]


# -- failures --------------------------------------------------------------------------------------------------------

HUGE = 2**62


@pytest.mark.parametrize(
    "window",
    [
        "[RANGE 2 SECONDS SLIDE 1 SECOND]",
        "[RANGE 5 SECONDS]",
        "[ROWS 3 SLIDE 1]",
        "[ROWS 3]",
        "[PARTITION BY k ROWS 3 SLIDE 1]",
        "[UNBOUNDED SLIDE 1 SECOND]",
    ],
)
def test_an_aggregate_that_raises_fails_one_query_only(window: str) -> None:
    engine = register(engine_of(STREAM))
    engine.execute(f"CREATE QUERY bad AS SELECT FRAIL(v) AS s FROM t {window}")
    engine.execute(COUNTS)
    engine.execute(f"CREATE QUERY good AS SELECT COUNT(v) AS n FROM t {window}")
    engine.push("t", rows(0, 0.1, 0.2, v=HUGE))
    engine.push("t", rows(1, 2, 3))
    assert statuses(engine) == {"bad": "FAILED", "c": "RUNNING", "good": "RUNNING"}
    engine.push("t", rows(4, 5))
    assert [n for _, n in tuples(engine.results("c"))] == [3, 4, 2, 2, 2]
    assert engine.results("good").num_rows > 0
    stats = engine.stats()["queries"]["bad"]
    assert (stats["status"], stats["reason"]) == ("FAILED", REASON)
    with pytest.raises(NotHeldError, match=f"has failed: {REASON}"):
        engine.lookup("bad")
    with pytest.raises(CatalogError, match="has failed"):
        engine.execute("RESUME QUERY bad")
    str(engine.explain("bad"))
    str(engine.explain())
    again = pw.Engine.restore(engine.snapshot(), register(pw.Engine()))
    for one in (engine, again):
        one.push("t", rows(6))
        assert [n for _, n in tuples(one.results("c"))] == [2]
        assert statuses(one)["bad"] == "FAILED"
        one.execute("DROP QUERY bad")
        if window.startswith("[UNBOUNDED"):
            continue  # it would have to know all rows
        one.execute(f"CREATE QUERY bad AS SELECT SUM(v) AS s FROM t {window}")
        one.push("t", rows(*range(7, 20)))
        assert statuses(one)["bad"] == "RUNNING"


def picky(where: str) -> dict[str, Any]:
    """An aggregate that raises in one of its functions as soon as it meets more than three rows."""

    def lift(x: Any) -> Any:
        if x > 3:
            raise ValueError("more than three")
        return (1.0,)

    def combine(a: Any, b: Any) -> Any:
        if a[0] + b[0] > 3:
            raise ValueError("more than three")
        return (a[0] + b[0],)

    def lower(a: Any) -> Any:
        if a[0] > 3:
            raise ValueError("more than three")
        return a[0]

    calm: dict[str, Any] = {"lift": lambda x: (1.0,), "combine": lambda a, b: (a[0] + b[0],), "lower": lambda a: a[0]}
    return {**calm, where: {"lift": lift, "combine": combine, "lower": lower}[where], "identity": (0.0,)}


@pytest.mark.parametrize("where", ["lift", "combine", "lower"])
def test_an_aggregate_that_raises_fails_its_queries_only(where: str) -> None:
    engine = engine_of(STREAM)
    engine.register_aggregate("PICKY", **picky(where))
    windows = {
        "tree": "[RANGE 5 SECONDS SLIDE 1 SECOND]",
        "live": "[RANGE 5 SECONDS]",
        "counted": "[ROWS 5 SLIDE 1]",
        "partitioned": "[PARTITION BY k ROWS 5 SLIDE 1]",
    }
    if where != "combine":
        # Rows are lifted and answers lowered in one way by all of them; each combines pieces in its own.
        windows = {"tree": windows["tree"]}
    for name, window in windows.items():
        engine.execute(f"CREATE QUERY {name} AS SELECT PICKY(x) AS p FROM t {window}")
    engine.execute(COUNTS)
    engine.execute("CREATE QUERY beside AS SELECT SUM(v) AS s FROM t [RANGE 5 SECONDS SLIDE 1 SECOND]")
    engine.push("t", [row(second, x=float(second)) for second in range(8)])
    assert statuses(engine) == {**dict.fromkeys(windows, "FAILED"), "c": "RUNNING", "beside": "RUNNING"}
    engine.push("t", rows(8, 9))
    assert [n for _, n in tuples(engine.results("c"))] == [1, 2, 2, 2, 2, 2, 2, 2, 2]
    assert [s for _, s in tuples(engine.results("beside"))] == [1, 2, 3, 4, 5, 5, 5, 5, 5]


@pytest.mark.parametrize("instant", [1.5, float("nan"), [], True])
def test_what_is_no_instant_is_refused(instant: object) -> None:
    engine = pw.Engine()
    engine.execute("CREATE STREAM t (ts TIMESTAMP, k BIGINT)")
    engine.execute("CREATE QUERY q AS SELECT k, COUNT(*) AS n FROM t [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k")
    engine.push("t", [{"ts": 1_000_000, "k": 1}, {"ts": 9_000_000, "k": 1}])
    with pytest.raises(pw.PanewiseError, match="is not an instant"):
        engine.lookup("q", at=instant)
    with pytest.raises(pw.PanewiseError, match="is not an instant"):
        engine.advance("t", instant)
    with pytest.raises(pw.PanewiseError, match=r"is int64, and 1\.5 is not"):
        engine.lookup("q", key=1.5)
