"""The engine's face: statements, queries that come, pause, fail and go, lookups, one-time queries, snapshots."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import panewise as pw
from panewise.aggregates.functions import AggregateFunction
from panewise.aggregates.user import user_aggregate
from panewise.errors import (
    BindError,
    CatalogError,
    NotHeldError,
    PanewiseError,
    ParseError,
    PlanError,
    SnapshotError,
)

SECOND = 1_000_000
GOLDEN = Path(__file__).parent.parent / "golden"
STREAM = "CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT, x DOUBLE)"
SUMS = "CREATE QUERY q AS SELECT k, SUM(v) AS s FROM t [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k"
COUNTS = "CREATE QUERY c AS SELECT COUNT(*) AS n FROM t [RANGE 2 SECONDS SLIDE 1 SECOND]"


def engine_of(*statements: str) -> pw.Engine:
    engine = pw.Engine()
    for statement in statements:
        engine.execute(statement)
    return engine


def row(second: float, k: str | None = "a", v: int | None = 1, x: float | None = 1.0) -> dict[str, Any]:
    return {"ts": int(second * SECOND), "k": k, "v": v, "x": x}


def rows(*seconds: float, k: str = "a", v: int = 1) -> list[dict[str, Any]]:
    return [row(second, k, v) for second in seconds]


def tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows without window_start; instants in seconds."""
    if "window_start" in table.column_names:
        table = table.drop_columns("window_start")
    columns = []
    for column in table.columns:
        stamped = pa.types.is_timestamp(column.type)
        columns.append([v / SECOND for v in column.cast(pa.int64()).to_pylist()] if stamped else column.to_pylist())
    return list(zip(*columns, strict=True))


def statuses(engine: pw.Engine) -> dict[str, str]:
    shown = engine.execute("SHOW QUERIES")
    assert shown is not None
    return dict(zip(shown["name"].to_pylist(), shown["status"].to_pylist(), strict=True))


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
    with pytest.raises(NotHeldError, match="no longer held"):
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
    assert engine.stats() == {"streams": {}, "queries": {}, "trees": []}
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
def test_an_overflow_fails_one_query_only(window: str) -> None:
    engine = engine_of(STREAM, f"CREATE QUERY bad AS SELECT SUM(v) AS s FROM t {window}", COUNTS)
    engine.execute(f"CREATE QUERY good AS SELECT COUNT(v) AS n FROM t {window}")
    engine.push("t", rows(0, 0.1, 0.2, v=HUGE))
    engine.push("t", rows(1, 2, 3))
    assert statuses(engine) == {"bad": "FAILED", "c": "RUNNING", "good": "RUNNING"}
    engine.push("t", rows(4, 5))
    assert [n for _, n in tuples(engine.results("c"))] == [3, 4, 2, 2, 2]
    assert engine.results("good").num_rows > 0
    stats = engine.stats()["queries"]["bad"]
    assert (stats["status"], stats["reason"]) == ("FAILED", "an answer of SUM is outside BIGINT")
    with pytest.raises(NotHeldError, match="has failed: an answer of SUM is outside BIGINT"):
        engine.lookup("bad")
    with pytest.raises(CatalogError, match="has failed"):
        engine.execute("RESUME QUERY bad")
    str(engine.explain("bad"))
    str(engine.explain())
    again = pw.Engine.restore(engine.snapshot())
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


# -- statements change all or nothing --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("CREATE STREAM t (ts TIMESTAMP)", PanewiseError),
        ("CREATE STREAM u (v BIGINT)", BindError),
        ("CREATE QUERY q AS SELECT 1 AS one FROM t [NOW]", PanewiseError),
        ("CREATE QUERY z AS SELECT nothing FROM t [NOW]", BindError),
        ("CREATE QUERY z AS SELECT v FROM t", PlanError),
        ("CREATE QUERY z AS SELECT v FROM (SELECT v FROM t [NOW]) [ROWS 3]", PlanError),
        ("CREATE QUERY z AS SELECT t.v FROM t [NOW], t AS u [NOW]", PlanError),
        (
            "CREATE QUERY z WITH (technique = 'panes') AS SELECT COUNT(*) AS n FROM t [RANGE 1 SECOND SLIDE 1 SECOND]",
            PlanError,
        ),
        ("CREATE SINK s FROM t WITH (connector = 'console')", PanewiseError),
        ("CREATE SINK s FROM nobody WITH (connector = 'console')", PanewiseError),
        ("DROP QUERY nobody", BindError),
        ("DROP STREAM q", BindError),
        ("SUSPEND QUERY t", BindError),
        ("ALTER STREAM t SET (late = 'sometimes')", BindError),
        ("ALTER STREAM q SET (late = 'keep')", PanewiseError),
        ("CREATE QUERY", ParseError),
        # All rows are needed, and some have come already.
        ("CREATE QUERY z AS SELECT COUNT(*) AS n FROM t [UNBOUNDED SLIDE 1 SECOND]", PlanError),
        ("CREATE QUERY z AS SELECT COUNT(*) AS n FROM (SELECT ISTREAM v FROM t [NOW]) [UNBOUNDED]", PlanError),
        ("CREATE QUERY z AS SELECT n FROM (SELECT ISTREAM COUNT(*) AS n FROM t [UNBOUNDED]) [ROWS 3]", PlanError),
    ],
)
def test_a_wrong_statement_changes_nothing(statement: str, error: type[Exception]) -> None:
    engine = engine_of(STREAM, SUMS)
    engine.push("t", rows(0, 1))
    before = (list(engine.catalog), str(engine.explain()), engine.stats())
    with pytest.raises(error):
        engine.execute(statement)
    assert (list(engine.catalog), str(engine.explain()), engine.stats()) == before
    engine.execute("CREATE QUERY z AS SELECT v FROM t [NOW]; DROP QUERY z")
    assert (list(engine.catalog), str(engine.explain()), engine.stats()) == before


def test_statements_before_a_wrong_one_stay() -> None:
    engine = engine_of()
    with pytest.raises(BindError):
        engine.execute(f"{STREAM}; CREATE QUERY z AS SELECT nothing FROM t [NOW]; {SUMS}")
    assert [definition.name for definition in engine.catalog] == ["t"]


def test_if_exists_and_if_not_exists() -> None:
    engine = engine_of(STREAM, SUMS)
    engine.execute("CREATE STREAM IF NOT EXISTS t (ts TIMESTAMP)")
    engine.execute("CREATE QUERY IF NOT EXISTS q AS SELECT 1 AS one FROM t [NOW]")
    engine.execute("DROP QUERY IF EXISTS nobody; DROP STREAM IF EXISTS nobody")
    assert [definition.name for definition in engine.catalog] == ["t", "q"]


# -- SHOW, EXPLAIN, stats --------------------------------------------------------------------------------------------

MANY = """
CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, size BIGINT,
                      WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS);
CREATE QUERY momentum AS SELECT symbol, AVG(price) AS mean, MAX(price) - MIN(price) AS spread, COUNT(*) AS n
  FROM trades [RANGE 5 MINUTES SLIDE 10 SECONDS] WHERE size > 100 GROUP BY symbol HAVING COUNT(*) > 20;
CREATE QUERY volume AS SELECT symbol, SUM(size) AS total FROM trades [RANGE 1 HOUR SLIDE 1 MINUTE]
  WHERE 100 < size GROUP BY symbol;
CREATE QUERY last_ten AS SELECT VAR_SAMP(price) AS v FROM trades [ROWS 10 SLIDE 5];
CREATE QUERY big AS SELECT ISTREAM symbol, size FROM trades [NOW] WHERE size > 10000;
CREATE QUERY live AS SELECT symbol, COUNT(*) AS n FROM trades [RANGE 1 MINUTE] GROUP BY symbol;
CREATE QUERY calm AS SELECT MAX(spread) AS widest FROM momentum [RANGE 1 HOUR SLIDE 1 MINUTE];
CREATE QUERY inside AS SELECT SUM(WSTREAM(SUM(size))[ROWS 10]) AS s FROM trades [RANGE 1 MINUTE SLIDE 1 MINUTE];
"""


@pytest.mark.parametrize("query", [None, "momentum", "volume", "last_ten", "big", "live", "calm", "inside"])
def test_explanations_are_stable(query: str | None) -> None:
    engine = engine_of(MANY)
    path = GOLDEN / f"explain_{query or 'everything'}.txt"
    text = str(engine.explain(query))
    assert text == path.read_text(encoding="utf-8").rstrip("\n")
    shown = engine.execute("EXPLAIN PLAN" if query is None else f"EXPLAIN QUERY {query}")
    assert shown is not None
    assert "\n".join(shown["plan"].to_pylist()) == text


def test_an_explanation_as_data() -> None:
    engine = engine_of(MANY)
    found = engine.explain("big").to_dict()
    assert found["node"] == "ISTREAM"
    assert found["pattern"] == "MONOTONIC"
    nodes = [found]
    while nodes[-1]["inputs"]:
        nodes.append(nodes[-1]["inputs"][0])
    assert [node["node"].split()[0] for node in nodes] == ["ISTREAM", "SELECT", "WHERE", "WINDOW", "STREAM"]


def test_show() -> None:
    engine = engine_of(STREAM, SUMS, "CREATE TABLE u (k STRING PRIMARY KEY, n INT)")
    engine.execute("CREATE SINK out FROM q WITH (connector = 'console')")
    shown = {kind: engine.execute(f"SHOW {kind}").to_pylist() for kind in ("STREAMS", "TABLES", "QUERIES", "SINKS")}
    assert shown["STREAMS"] == [
        {"name": "t", "columns": "ts TIMESTAMP, k STRING, v BIGINT, x DOUBLE", "timestamp": "ts"}
    ]
    assert shown["TABLES"] == [{"name": "u", "columns": "k STRING, n INT", "primary_key": "k"}]
    assert shown["QUERIES"] == [{"name": "q", "status": "RUNNING", "reason": "", "statement": SUMS}]
    assert shown["SINKS"][0]["source"] == "q"


def test_stats() -> None:
    engine = engine_of(STREAM, SUMS, SUMS.replace("QUERY q", "QUERY q2").replace("RANGE 2", "RANGE 5"), COUNTS)
    engine.push("t", [row(second, k) for second in range(20) for k in "abc"])
    stats = engine.stats()
    assert stats["streams"]["t"]["rows"] == 60
    assert stats["streams"]["t"]["watermark"] == "1970-01-01 00:00:19"
    assert stats["queries"]["q"]["results"] == 57
    grouped = next(tree for tree in stats["trees"] if "q" in tree["queries"])
    assert grouped["queries"] == ["q", "q2"]
    assert grouped["groups"] == 3
    assert grouped["slices"] <= 5
    assert grouped["open_slices"] == 1
    assert grouped["bytes"] > 0


def test_equal_selections_share_a_tree() -> None:
    engine = engine_of(STREAM)
    for i, where in enumerate(["v > 1 AND x > 2.0", "x > 2.0 AND v > 1", "2.0 < x AND 1 < v AND v > 1", "v > 1"]):
        engine.execute(
            f"CREATE QUERY q{i} AS SELECT COUNT(*) AS n FROM t [RANGE {i + 1} SECONDS SLIDE 1 SECOND] WHERE {where}"
        )
    assert [tree["queries"] for tree in engine.stats()["trees"]] == [["q0", "q1", "q2"], ["q3"]]


# -- snapshots -------------------------------------------------------------------------------------------------------

EVERYTHING = [
    STREAM.replace(")", ", WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS) WITH (late = 'keep', retain = '1 minute')"),
    SUMS,
    COUNTS,
    """CREATE QUERY strings AS SELECT MIN(k) AS a, MAX(k) AS b, FIRST(k) AS f, ARG_MAX(k, x) AS w
       FROM t [RANGE 3 SECONDS SLIDE 2 SECONDS]""",
    """CREATE QUERY floats AS SELECT k, AVG(x) AS a, VAR_POP(x) AS v, GEOMEAN(x) AS g
       FROM t [RANGE 4 SECONDS SLIDE 1 SECOND OFFSET 1 SECOND] GROUP BY k""",
    "CREATE QUERY endless AS SELECT k, SUM(x) AS s FROM t [UNBOUNDED SLIDE 1 SECOND] GROUP BY k",
    "CREATE QUERY live AS SELECT k, SUM(v) AS s FROM t [RANGE 3 SECONDS] GROUP BY k",
    "CREATE QUERY counted AS SELECT SUM(v) AS s FROM t [ROWS 4 SLIDE 3]",
    "CREATE QUERY partitioned AS SELECT k, SUM(v) AS s FROM t [PARTITION BY k ROWS 2 SLIDE 1] GROUP BY k",
    "CREATE QUERY selected AS SELECT k, v FROM t [RANGE 2 SECONDS SLIDE 1 SECOND] WHERE v > 3",
    "CREATE QUERY entering AS SELECT ISTREAM k, SUM(v) AS s FROM t [RANGE 3 SECONDS SLIDE 1 SECOND] GROUP BY k",
    "CREATE QUERY leaving AS SELECT DSTREAM k FROM t [RANGE 2 SECONDS]",
    """CREATE QUERY restored AS SELECT ISTREAM RESTORE k, COUNT(*) AS n
       FROM t [RANGE 2 SECONDS SLIDE 3 SECONDS] GROUP BY k""",
    "CREATE QUERY over AS SELECT MAX(s) AS m FROM q [RANGE 5 SECONDS SLIDE 2 SECONDS]",
    "CREATE QUERY nested AS SELECT SUM(WSTREAM(SUM(v))[ROWS 2]) AS ss FROM t [RANGE 2 SECONDS SLIDE 2 SECONDS]",
    "CREATE QUERY own AS SELECT WIDTH(x) AS w FROM t [RANGE 3 SECONDS SLIDE 1 SECOND]",
]
WIDTH: dict[str, Any] = {
    "lift": lambda x: (x, x),
    "combine": lambda a, b: (min(a[0], b[0]), max(a[1], b[1])),
    "lower": lambda a: a[1] - a[0],
    "identity": (math.inf, -math.inf),
}


@cache
def compiled_width() -> AggregateFunction:
    return user_aggregate("WIDTH", **WIDTH)


def with_width() -> pw.Engine:
    """An engine that knows WIDTH. Compiling takes seconds, so that all tests share what one has compiled."""
    engine = pw.Engine()
    engine._aggregates["WIDTH"] = compiled_width()
    return engine


@pytest.mark.parametrize("cut", [0, 1, 5, 11, 30])
def test_a_snapshot_holds_everything(cut: int) -> None:
    data = [
        row(i * 0.7 - (1.5 if i % 5 == 0 else 0) - (9 if i % 7 == 6 else 0), "abc"[i % 3], i, i / 4) for i in range(31)
    ]
    engine = with_width()
    for statement in EVERYTHING:
        engine.execute(statement)
    engine.execute("SUSPEND QUERY selected")
    for one in data[:cut]:
        engine.push("t", one)
    engine.results("floats")
    again = pw.Engine.restore(engine.snapshot(), with_width())
    for name in ("rows", "late_rows", "watermark"):
        assert again.stats()["streams"]["t"][name] == engine.stats()["streams"]["t"][name]
    assert statuses(again) == statuses(engine)
    for one in (engine, again):
        one.execute("RESUME QUERY selected")
        for later in data[cut:]:
            one.push("t", later)
        one.flush()
    for name in statuses(engine):
        assert engine.lookup(name).equals(again.lookup(name)), name
        first, second = engine.results(name), again.results(name)
        assert first.num_rows > 0
        assert first.equals(second), name
    assert engine.late_rows("t").equals(again.late_rows("t"))
    question = "SELECT COUNT(*) AS n FROM t [RANGE 5 SECONDS]"
    assert tuples(engine.execute(question)) == tuples(again.execute(question))


def test_snapshots_that_cannot_be_restored() -> None:
    engine = with_width()
    engine.execute(STREAM)
    engine.execute("CREATE QUERY own AS SELECT WIDTH(x) AS w FROM t [RANGE 3 SECONDS SLIDE 1 SECOND]")
    snapshot = engine.snapshot()
    with pytest.raises(SnapshotError):
        pw.Engine.restore(snapshot[:-1])
    with pytest.raises(SnapshotError, match="fresh engine"):
        pw.Engine.restore(snapshot, engine)
    with pytest.raises(PanewiseError, match="WIDTH"):
        pw.Engine.restore(snapshot)


def test_registering_aggregates() -> None:
    engine = engine_of()
    engine.register_aggregate("WIDTH", **WIDTH)
    for name in ("width", "sum", "mean"):
        with pytest.raises(CatalogError, match="there is already an aggregate"):
            engine.register_aggregate(name, **WIDTH)
    engine.execute(STREAM)
    engine.execute("CREATE QUERY w AS SELECT k, width(x) AS w FROM t [RANGE 2 SECONDS SLIDE 2 SECONDS] GROUP BY k")
    engine.push("t", [row(0, x=1.0), row(1, x=4.5), row(1, "b", x=None), row(2)])
    assert tuples(engine.results("w")) == [(2.0, "a", 3.5), (2.0, "b", None)]
    with pytest.raises(BindError, match="WIDTH takes numbers, not STRING"):
        engine.execute("CREATE QUERY w2 AS SELECT WIDTH(k) AS w FROM t [NOW]")
