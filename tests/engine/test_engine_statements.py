"""Statements of the engine: all or nothing; what SHOW, EXPLAIN and stats say; snapshots and users' aggregates."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import pytest

import panewise as pw
from panewise.aggregates.aggregate_functions import AggregateFunction
from panewise.aggregates.user import user_aggregate
from panewise.errors import BindError, CatalogError, NotHeldError, PanewiseError, ParseError, PlanError, SnapshotError
from panewise.optimize.sharing.costs.calibration import shipped
from panewise.optimize.sharing.report import family_report
from panewise.optimize.sharing.weave import weaver
from tests.engine.small_engine import COUNTS, STREAM, SUMS, engine_of, row, rows, statuses, tuples
from tests.places import GOLDEN

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
        ("CREATE QUERY z AS SELECT t.v FROM t [UNBOUNDED], t AS u [UNBOUNDED]", PlanError),
        ("CREATE QUERY z WITH (technique = 'no') AS SELECT COUNT(*) AS n FROM t [ROWS 2 SLIDE 1]", BindError),
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
    engine.streams["t"].monitor.clock = lambda: 0.0  # the measured rates stand still
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
def test_explanations_are_stable(query: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for asked in (weaver, family_report):  # costs as they are where nobody has calibrated
        monkeypatch.setattr(asked, "machine", shipped)
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
    assert shown["TABLES"] == [{"name": "u", "columns": "k STRING, n INT", "primary_key": "k", "changes": ""}]
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
    engine.user_aggregates["WIDTH"] = compiled_width()
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


def test_lookups_of_all_rows_are_refused_where_some_have_gone_by() -> None:
    engine = engine_of(STREAM)
    engine.push("t", rows(3))
    engine.advance("t", 100_000_000)
    with pytest.raises(PlanError, match="UNBOUNDED"):
        engine.execute("CREATE QUERY z WITH (mode = 'lookup') AS SELECT v FROM t [UNBOUNDED]")
    engine.execute("CREATE QUERY z AS SELECT v FROM t [UNBOUNDED]")  # each row by itself
    engine.execute("CREATE QUERY y AS SELECT ISTREAM v FROM t [UNBOUNDED SLIDE 10 SECONDS]")
    for each in (engine, pw.Engine.restore(engine.snapshot())):
        each.push("t", [row(100)])
        each.advance("t", 200_000_000)
        assert each.results("z").num_rows == each.results("y").num_rows == 1
        for name in ("z", "y"):
            with pytest.raises(NotHeldError):
                each.lookup(name)
