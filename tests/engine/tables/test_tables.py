"""Tables: statements that change them, and joins of windows with both kinds, against a plain history of their rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import panewise as pw
from panewise.errors import BindError, CatalogError, DataError, PlanError
from tests.engine.hosting.frail_aggregate import register
from tests.engine.random_relations import SECOND
from tests.engine.tables.random_tables import TABLES, check, engine_with
from tests.places import DOCS


@settings(max_examples=settings.default.max_examples // 5)
@given(st.integers(0, 2**32))
def test_joins_with_tables(seed: int) -> None:
    check(seed)


def test_queries_are_worth_comparing() -> None:
    played = [check(seed) for seed in range(24)]
    assert sum(found > 0 for _, found in played) > 9
    assert sum(play.changed for play, _ in played) > 60
    assert sum(play.refused for play, _ in played) > 8
    for name in TABLES:
        assert any(name in play.tables and found for play, found in played), name
    assert any(play.exists is not None for play, _ in played)


# ---- statements ------------------------------------------------------------------------------------------------------


def rows_of(engine: pw.Engine, table: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in engine.execute(f"SELECT * FROM {table}").to_pylist()]


def test_rows_are_inserted_updated_and_deleted() -> None:
    engine = engine_with("INSERT INTO r VALUES (1, 10, 'x'), (2, 20, NULL)", "INSERT INTO r (w, k) VALUES ('y', 3)")
    assert rows_of(engine, "r") == [(1, 10, "x"), (2, 20, None), (3, None, "y")]
    engine.execute("UPDATE r SET v = v * 2, w = 'z' WHERE v > 10")
    engine.execute("DELETE FROM r WHERE k = 1")
    assert rows_of(engine, "r") == [(3, None, "y"), (2, 40, "z")]
    engine.execute("UPDATE r SET k = k + 1")  # each in turn would meet the next one's key
    assert rows_of(engine, "r") == [(4, None, "y"), (3, 40, "z")]
    engine.execute("DELETE FROM r")
    assert rows_of(engine, "r") == []
    engine.execute("INSERT INTO bag VALUES (NULL, 1, 'x'), (NULL, 1, 'x')")
    assert engine.execute("SELECT w, COUNT(*) AS n FROM bag WHERE v = 1 GROUP BY w").to_pylist() == [{"w": "x", "n": 2}]


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("INSERT INTO r VALUES (5, 1, 'x'), (1, 1, 'x')", DataError, "'r' already has a row with the key k = 1"),
        ("INSERT INTO r VALUES (5, 1, 'x'), (5, 2, 'y')", DataError, "two rows of 'r' would have the key k = 5"),
        ("UPDATE r SET k = 1", DataError, "two rows of 'r' would have the key k = 1"),
        ("UPDATE r SET k = 2 WHERE k = 1", DataError, "already has a row with the key k = 2"),
        ("UPDATE r SET k = v WHERE k = 2", DataError, "'k' is part of the primary key of 'r' and cannot be NULL"),
        ("INSERT INTO r VALUES (NULL, 1, 'x')", BindError, "cannot be NULL"),
        ("INSERT INTO r (k, u) VALUES (5, 1)", BindError, "'r' has no column 'u'"),
        ("DELETE FROM nothing", BindError, "nothing"),
        ("INSERT INTO a VALUES (5)", BindError, "'a' is a stream, not a table"),
        ("DROP TABLE r", CatalogError, "table 'r' is still read by query q"),
    ],
)
def test_refused_statements_change_nothing(text: str, error: type[Exception], words: str) -> None:
    engine = engine_with("INSERT INTO r VALUES (1, 10, 'x'), (2, NULL, 'y')")
    engine.execute("CREATE QUERY q AS SELECT a.v FROM a [RANGE 1 MINUTE], r WHERE a.k = r.k")
    with pytest.raises(error) as refused:
        engine.execute(text)
    assert words in str(refused.value)
    assert rows_of(engine, "r") == [(1, 10, "x"), (2, None, "y")]


def test_every_type_can_be_a_key() -> None:
    types = "s STRING, b BOOLEAN, i INT, d DOUBLE, e DECIMAL(9, 2), t TIMESTAMP, f DATE"
    engine = engine_with(f"CREATE TABLE every ({types}, PRIMARY KEY (s, b, i, d, e, t, f))")
    row = "('x', TRUE, 1, 0.0, 1.5, TIMESTAMP '2024-01-01 00:00:00', DATE '2024-01-01')"
    engine.execute(f"INSERT INTO every VALUES {row}")
    engine = pw.Engine.restore(engine.snapshot())
    with pytest.raises(DataError, match="already has a row"):
        engine.execute(f"INSERT INTO every VALUES {row.replace('0.0', '-0.0')}")
    engine.execute(f"INSERT INTO every VALUES {row.replace('1.5', '1.51')}")
    assert engine.execute("SELECT s FROM every").num_rows == 2


def test_a_table_that_nobody_reads_can_be_dropped() -> None:
    engine = engine_with("INSERT INTO r VALUES (1, 1, 'x')", "DROP TABLE r", "CREATE TABLE r (z INT)")
    assert rows_of(engine, "r") == []
    assert engine.execute("SHOW TABLES").column("name").to_pylist() == ["bag", "n", "m", "r"]


def test_a_key_that_was_taken_away_is_free_when_the_queries_have_gone_on() -> None:
    engine = engine_with("INSERT INTO n VALUES (1, 1, 'old'), (2, 2, 'two')")
    engine.execute("CREATE QUERY q AS SELECT ISTREAM a.ts, n.w FROM a [RANGE 1 MINUTE], n WHERE a.k = n.k")
    engine.execute("DELETE FROM n WHERE k = 1; INSERT INTO n VALUES (1, 1, 'older')")  # no row has met it yet
    engine.push("a", [{"ts": 10 * SECOND, "k": 1, "v": 0, "w": ""}])
    engine.advance("a", 20 * SECOND)
    engine.execute("DELETE FROM n WHERE k = 1")
    engine = pw.Engine.restore(engine.snapshot())
    for text in ("INSERT INTO n VALUES (1, 1, 'new')", "UPDATE n SET k = 1", "UPDATE n SET k = k - 1 WHERE k = 2"):
        with pytest.raises(DataError, match="the key k = 1 of 'n' was just deleted"):
            engine.execute(text)
    engine.execute("UPDATE n SET w = 'TWO' WHERE k = 2")  # keeps its key
    engine.advance("a", 30 * SECOND)
    engine.execute("INSERT INTO n VALUES (1, 1, 'new')")
    engine.push("a", [{"ts": 40 * SECOND, "k": 1, "v": 0, "w": ""}, {"ts": 41 * SECOND, "k": 2, "v": 0, "w": ""}])
    engine.flush()
    assert engine.results("q").column("w").to_pylist() == ["older", "new", "TWO"]


def test_a_query_that_has_failed_holds_no_keys() -> None:
    engine = register(engine_with("INSERT INTO n VALUES (1, 1, 'x')"))
    engine.execute("CREATE QUERY q AS SELECT FRAIL(a.v) AS s FROM a [RANGE 1 MINUTE], n WHERE a.k = n.k")
    engine.push("a", [{"ts": time * SECOND, "k": 1, "v": 2**63 - 1, "w": ""} for time in (1, 2, 10)])
    assert engine.execute("SHOW QUERIES").column("status").to_pylist() == ["FAILED"]
    engine.execute("DELETE FROM n")
    engine.execute("INSERT INTO n VALUES (1, 1, 'x')")
    engine = pw.Engine.restore(engine.snapshot(), register(pw.Engine()))
    engine.execute("DELETE FROM n")
    engine.execute("INSERT INTO n VALUES (1, 1, 'x')")


def test_changes_hold_from_the_watermark_for_both_kinds() -> None:
    """The example of the manual."""
    engine = engine_with("INSERT INTO r VALUES (1, 1, 'x')", "INSERT INTO n VALUES (1, 1, 'x')")
    for name, table in (("now", "r"), ("then_", "n")):
        engine.execute(f"CREATE QUERY {name} AS SELECT a.v, t.w FROM a [RANGE 1 HOUR], {table} AS t WHERE a.k = t.k")
    engine.push("a", [{"ts": 10 * SECOND, "k": 1, "v": 1, "w": ""}])
    engine.advance("a", 20 * SECOND)
    engine.execute("UPDATE r SET w = 'y'; UPDATE n SET w = 'y'")
    engine.push("a", [{"ts": 30 * SECOND, "k": 1, "v": 2, "w": ""}])
    engine.advance("a", 40 * SECOND)

    def changes(query: str) -> list[tuple[Any, ...]]:
        table = engine.results(query)
        instants = [at // SECOND for at in table.column("instant").cast(pa.int64()).to_pylist()]
        return list(zip(instants, *(table.column(name).to_pylist() for name in ("change", "v", "w")), strict=True))

    assert sorted(changes("now")) == [(10, 1, 1, "x"), (20, -1, 1, "x"), (20, 1, 1, "y"), (30, 1, 2, "y")]
    assert changes("then_") == [(10, 1, 1, "x"), (30, 1, 2, "y")]
    assert engine.lookup("then_").to_pylist() == [{"v": 1, "w": "x"}, {"v": 2, "w": "y"}]


def test_a_query_in_mid_stream_sees_the_table_as_it_is() -> None:
    engine = engine_with("INSERT INTO r VALUES (1, 1, 'x'), (2, 2, 'y')", "INSERT INTO n VALUES (1, 1, 'x')")
    engine.push("a", [{"ts": 10 * SECOND, "k": 1, "v": 1, "w": ""}])
    engine.advance("a", 15 * SECOND)
    engine.execute(
        "CREATE QUERY q AS SELECT a.v, r.w, n.w AS u FROM a [RANGE 1 SECOND], r, n WHERE a.k = r.k AND a.k = n.k"
    )
    engine.execute("UPDATE r SET w = 'z' WHERE k = 1")
    engine.push("a", [{"ts": 20 * SECOND, "k": 1, "v": 2, "w": ""}, {"ts": 21 * SECOND, "k": 2, "v": 2, "w": ""}])
    engine.flush()
    rows = engine.results("q").drop_columns(["instant"]).to_pylist()
    assert rows == [{"change": 1, "v": 2, "w": "z", "u": "x"}, {"change": -1, "v": 2, "w": "z", "u": "x"}]


def test_a_query_in_mid_stream_that_has_come_exactly_to_its_beginning() -> None:
    """What waits for the beginning, right before second 5, is shown at it, although a step ended there."""
    engine = pw.Engine()
    engine.execute(
        """CREATE STREAM t (ts TIMESTAMP, k STRING, WATERMARK FOR ts AS ts - INTERVAL 3 SECONDS);
           CREATE TABLE names (k STRING PRIMARY KEY, name STRING) NON RETROACTIVE;
           INSERT INTO names VALUES ('a', 'ann'), ('b', 'bob')"""
    )
    engine.push("t", [{"ts": second * SECOND, "k": k} for second, k in ((1, "b"), (4, "a"), (6, "b"))])
    engine.execute("CREATE QUERY q AS SELECT name FROM t [RANGE 2 SECONDS], names WHERE t.k = names.k")
    engine.advance("t", 5 * SECOND - 1)
    engine.advance("t", 10 * SECOND)
    changes = [(row["instant"].timestamp(), row["change"], row["name"]) for row in engine.results("q").to_pylist()]
    assert changes == [(4.999999, 1, "ann"), (6, -1, "ann"), (6, 1, "bob"), (8, -1, "bob")]


def test_many_changes_between_two_steps_are_one() -> None:
    engine = engine_with("INSERT INTO r VALUES (1, 0, 'x')")
    engine.execute("CREATE QUERY q AS SELECT a.v, r.v AS t FROM a [RANGE 1 HOUR], r WHERE a.k = r.k")
    engine.push("a", [{"ts": 10 * SECOND, "k": 1, "v": 1, "w": ""}])
    engine.advance("a", 20 * SECOND)
    before = engine.stats()["queries"]["q"]["bytes"]
    for _ in range(600):
        engine.execute("UPDATE r SET v = v + 1")
    engine.advance("a", 30 * SECOND)
    rows = engine.results("q").select(["change", "t"]).to_pylist()
    assert sorted((row["t"], row["change"]) for row in rows) == [(0, -1), (0, 1), (600, 1)]
    assert engine.stats()["queries"]["q"]["bytes"] < 2 * before


# ---- refusals --------------------------------------------------------------------------------------------------------

REFUSED = {
    "SELECT k FROM r": "reads table 'r' only in a join with a window",
    "SELECT r.k FROM r, n WHERE r.k = n.k": "reads table 'r' only in a join with a window",
    "SELECT k FROM a [RANGE 1 MINUTE] UNION SELECT k FROM r": "reads table 'r' only in a join with a window",
    "SELECT k FROM a [RANGE 1 MINUTE] WHERE EXISTS (SELECT 1 FROM r WHERE r.k = a.k)": "table 'r' only in a join",
    "SELECT a.k FROM a [ROWS 3], r WHERE a.k = r.k": "rows end at unknown times",
    "SELECT a.k FROM a [RANGE 1 MINUTE], b [ROWS 3], n WHERE a.k = n.k AND a.k = b.k": "rows end at unknown times",
    "SELECT a.k FROM a [RANGE 1 MINUTE INTERNAL], n WHERE a.k = n.k": "INTERNAL window",
    "SELECT a.k FROM a [RANGE 1 MINUTE INTERNAL], b [RANGE 1 MINUTE INTERNAL], r WHERE a.k = r.k": "INTERNAL window",
    "SELECT a.k FROM a [RANGE 1 MINUTE] LEFT JOIN r ON a.k = r.k": "LEFT JOIN has no operator yet",
}


@pytest.mark.parametrize("text", REFUSED)
def test_bad_plans_are_refused_in_words(text: str) -> None:
    engine = engine_with()
    with pytest.raises(PlanError) as refused:
        engine.execute(f"CREATE QUERY q AS {text}")
    assert REFUSED[text] in str(refused.value)
    assert engine.execute("SHOW QUERIES").num_rows == 0


def test_internal_windows_meet_versions() -> None:
    engine = engine_with("INSERT INTO n VALUES (1, 1, 'x')")
    windows = "a [RANGE 5 SECONDS INTERNAL], b [RANGE 5 SECONDS INTERNAL]"
    engine.execute(f"CREATE QUERY q AS SELECT a.v, n.w FROM {windows}, n WHERE a.k = b.k AND a.k = n.k")
    for stream, time in (("a", 10), ("b", 12), ("b", 14), ("b", 16)):
        engine.push(stream, [{"ts": time * SECOND, "k": 1, "v": time, "w": ""}])
    engine.flush()
    assert engine.results("q").column("w").to_pylist() == ["x", "x"]


def test_the_statements_of_the_manual() -> None:
    text = (DOCS / "joins.md").read_text(encoding="utf-8")
    section = text[text.index("\n## Tables") :]
    engine = engine_with("CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE)")
    engine.push("trades", [{"ts": 0, "symbol": "ACME", "price": 150.0}, {"ts": 1, "symbol": "INIT", "price": 500.0}])
    table = engine.execute(section[section.index("```sql\n") + 7 : section.index("\n```\n")])
    assert table is not None
    assert table.to_pylist() == [{"symbol": "ACME", "sector": "tools"}]
