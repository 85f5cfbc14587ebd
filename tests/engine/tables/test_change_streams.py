"""Tables that streams change: joins in whatever order both are pushed, changes that do not fit, what is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import panewise as pw
from panewise.errors import BindError, CatalogError, NotHeldError, PanewiseError, PlanError
from tests.engine.random_relations import SECOND
from tests.engine.tables.random_changes import check_changes
from tests.engine.tables.random_tables import TABLES
from tests.places import DOCS


@settings(max_examples=settings.default.max_examples // 5)
@given(st.integers(0, 2**32))
def test_joins_with_tables_that_streams_change(seed: int) -> None:
    check_changes(seed)


def test_queries_are_worth_comparing(soak: bool) -> None:
    seeds = range(16) if soak else (1, 2, 6, 11, 12, 13, 14)
    played = [check_changes(seed) for seed in (*seeds, 32)]  # the last one misses rows
    assert sum(found > 0 for _, found in played) > 3
    assert sum(play.changed for play, _ in played) > 80
    assert sum(play.bad for play, _ in played) > 20
    for name in TABLES:
        assert any(name in play.tables and found for play, found in played), name
    assert any(play.begins > 0 and found for play, found in played)


# ---- by hand ---------------------------------------------------------------------------------------------------------


def engine_with(kind: str = "NON RETROACTIVE", key: str = " PRIMARY KEY", on_bad_row: str = "fail") -> pw.Engine:
    engine = pw.Engine()
    engine.execute("CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price BIGINT)")
    engine.execute(
        "CREATE STREAM company_changes (ts TIMESTAMP, symbol STRING, sector STRING, op STRING) "
        f"WITH (on_bad_row = '{on_bad_row}')"
    )
    engine.execute(
        f"CREATE TABLE companies (symbol STRING{key}, sector STRING) {kind} "
        "WITH (changes = 'company_changes', operation = 'op')"
    )
    return engine


QUERY = (
    "CREATE QUERY q AS SELECT t.price, c.sector FROM trades [RANGE 1 HOUR] AS t, companies AS c "
    "WHERE t.symbol = c.symbol"
)


def change(engine: pw.Engine, *changes: tuple[int, str, str | None, str | None]) -> None:
    rows = [{"ts": at * SECOND, "symbol": key, "sector": value, "op": op} for at, key, value, op in changes]
    engine.push("company_changes", rows)


def trade(engine: pw.Engine, *times: int, symbol: str = "A") -> None:
    engine.push("trades", [{"ts": at * SECOND, "symbol": symbol, "price": at} for at in times])


def rows_of(engine: pw.Engine) -> list[tuple[Any, ...]]:
    table = engine.execute("SELECT * FROM companies")
    assert table is not None
    return [tuple(row.values()) for row in table.to_pylist()]


CHANGES = ((2, "A", "x", "insert"), (5, "A", "y", "UPDATE"), (7, "A", None, "delete"), (9, "A", "z", "upsert"))


@pytest.mark.parametrize("first", ["trades", "changes", "in turn"])
@pytest.mark.parametrize("kind", ["", "NON RETROACTIVE"])
def test_a_change_holds_from_its_event_time_on(first: str, kind: str) -> None:
    engine = engine_with(kind)
    engine.execute(QUERY)
    if first == "changes":
        change(engine, *CHANGES)
    if first == "in turn":
        for at in range(11):
            change(engine, *(one for one in CHANGES if one[0] == at))
            trade(engine, at)
            engine = pw.Engine.restore(engine.snapshot())
    else:
        trade(engine, *range(11))
    if first == "trades":
        assert engine.results("q").num_rows == 0  # it waits for the changes
        change(engine, *CHANGES)
    for stream in ("trades", "company_changes"):
        engine.advance(stream, 20 * SECOND)
    table = engine.results("q")
    instants = [at // SECOND for at in table.column("instant").cast(pa.int64()).to_pylist()]
    columns = [table.column(name).to_pylist() for name in ("change", "price", "sector")]
    found = sorted(zip(instants, *columns, strict=True))
    if kind:
        expected = [(i, 1, i, s) for i, s in zip((2, 3, 4, 5, 6, 9, 10), "xxxyyzz", strict=True)]
    else:
        expected = [(at, 1, at, "x") for at in (2, 3, 4)] + [(2, 1, i, "x") for i in (0, 1)]
        expected += [(5, -1, i, "x") for i in range(5)] + [(5, 1, i, "y") for i in range(6)] + [(6, 1, 6, "y")]
        expected += [(7, -1, i, "y") for i in range(7)]
        expected += [(9, 1, i, "z") for i in range(10)] + [(10, 1, 10, "z")]
    assert found == sorted(expected)
    assert engine.lookup("q").num_rows == (7 if kind else 11)
    with pytest.raises(NotHeldError, match="it waits for"):
        engine.lookup("q", at=30 * SECOND)


def test_a_query_that_starts_later_begins_when_it_knows_the_table() -> None:
    engine = engine_with()
    change(engine, (2, "A", "x", "upsert"), (5, "A", "y", "upsert"))
    engine.advance("company_changes", 10 * SECOND)
    assert rows_of(engine) == [("A", "y")]
    engine.execute(QUERY.replace("1 HOUR", "3 SECONDS"))
    trade(engine, *range(20))  # trades before 10 may have met what the table was before
    engine.advance("company_changes", 30 * SECOND)
    found = engine.results("q").select(["change", "price", "sector"]).to_pylist()
    assert [row["price"] for row in found if row["change"] == 1] == list(range(10, 19))
    assert {row["sector"] for row in found} == {"y"}


def test_rows_from_before_the_beginning_meet_the_versions_of_their_own_instants() -> None:
    engine = engine_with()
    change(engine, (2, "A", "x", "upsert"))
    for stream in ("trades", "company_changes"):
        engine.advance(stream, 10 * SECOND)
    engine.execute(QUERY.replace("1 HOUR", "10 SECONDS"))  # its window is whole at 20 minus a microsecond
    change(engine, (12, "A", "y", "upsert"), (14, "A", None, "delete"))
    trade(engine, 11, 12, 13, 15)
    engine = pw.Engine.restore(engine.snapshot())
    for stream in ("trades", "company_changes"):
        engine.advance(stream, 20 * SECOND)
    table = engine.results("q")
    assert table.column("instant").cast(pa.int64()).to_pylist() == [20 * SECOND - 1] * 3
    assert table.select(["price", "sector"]).to_pydict() == {"price": [11, 12, 13], "sector": ["x", "y", "y"]}


@pytest.mark.parametrize("key", [" PRIMARY KEY", ""])
def test_rows_come_and_go(key: str) -> None:
    engine = engine_with("", key)
    change(engine, (1, "A", "x", "upsert"), (1, "A", "x", "Upsert"), (2, "B", "y", "insert"), (3, "B", "y", "delete"))
    change(engine, (4, "A", "x", "delete"), (5, "C", "z", "delete"), (6, "D", "w", "upsert"), (7, "", "", "delete"))
    assert rows_of(engine) == ([] if key else [("A", "x")]) + [("D", "w")]
    assert engine.stats()["tables"]["companies"]["rows"] == len(rows_of(engine))


BAD = {
    "op = 'replace' is not one of 'upsert', 'insert', 'update', 'delete'": [(2, "B", "y", "replace")],
    "op = None is not one of": [(2, "B", "y", None)],
    "'symbol' is part of the primary key of 'companies' and cannot be NULL": [(2, None, "y", "upsert")],
    "'companies' already has a row with the key symbol = 'A'": [(2, "A", "y", "insert")],
    "'companies' has no row with the key symbol = 'B' to update": [(2, "B", "y", "update")],
    "the key symbol = 'A' of 'companies' was deleted at the same instant": [
        (2, "A", "y", "delete"),
        (2, "A", "z", "upsert"),
    ],
}


@pytest.mark.parametrize("words", BAD)
def test_a_change_that_does_not_fit_is_a_bad_row(words: str) -> None:
    changes: Any = BAD[words]
    engine = engine_with(on_bad_row="skip")
    engine.execute(QUERY)
    change(engine, (1, "A", "x", "upsert"), *changes, (3, "C", "c", "upsert"), (9, "", "", "delete"))
    trade(engine, 1, 3, 9)
    assert engine.stats()["streams"]["company_changes"]["bad_rows"] == 1
    (bad,) = engine.bad_rows("company_changes").to_pylist()
    assert words in bad["reason"] and str(changes[-1][2]) in bad["row"]
    assert ("C", "c") in rows_of(engine)
    assert engine.execute("SHOW QUERIES").column("status").to_pylist() == ["RUNNING"]


@pytest.mark.parametrize("words", BAD)
@pytest.mark.parametrize("cut", [True, False])
def test_with_fail_the_table_and_who_reads_it_fail(words: str, cut: bool) -> None:
    changes: Any = BAD[words]
    engine = engine_with()
    engine.execute(QUERY)
    engine.execute("CREATE QUERY other AS SELECT price FROM trades [RANGE 1 HOUR]")
    trade(engine, 0, 1)
    if cut:
        change(engine, (1, "A", "x", "upsert"))
        engine.advance("company_changes", 2 * SECOND)
        engine = pw.Engine.restore(engine.snapshot())
        trade(engine, 2, 9)
        change(engine, *changes, (9, "C", "c", "upsert"))
    else:
        trade(engine, 2, 9)
        change(engine, (1, "A", "x", "upsert"), *changes, (9, "C", "c", "upsert"))
    status = {row["name"]: row for row in engine.execute("SHOW QUERIES").to_pylist()}
    assert status["q"]["status"] == "FAILED" and words in status["q"]["reason"]
    assert status["other"]["status"] == "RUNNING"
    assert engine.results("q").column("price").to_pylist() == [1]  # what was known before that instant
    engine = pw.Engine.restore(engine.snapshot())
    assert engine.stats()["tables"]["companies"]["status"] == "FAILED"
    for text in ("SELECT * FROM companies", QUERY.replace("QUERY q", "QUERY p")):
        with pytest.raises(NotHeldError, match="table 'companies' has failed"):
            engine.execute(text)
    engine.execute("DROP QUERY q; DROP TABLE companies")
    engine.execute("CREATE TABLE companies (symbol STRING, sector STRING) WITH (changes = 'company_changes')")
    change(engine, (12, "A", "a", "upsert"), (13, "A", "a", "upsert"))
    assert rows_of(engine) == [("C", "c"), ("A", "a")]  # those that the watermark had not passed, and what came


def test_update_without_a_key_is_bad() -> None:
    engine = engine_with(key="", on_bad_row="skip")
    change(engine, (1, "A", "x", "update"), (2, "A", "y", "upsert"), (3, "B", "z", "upsert"))
    assert rows_of(engine) == [("A", "y")]
    assert "'companies' has no primary key" in engine.bad_rows("company_changes").column("reason")[0].as_py()


REFUSED: dict[str, tuple[type[PanewiseError], str]] = {
    "INSERT INTO companies VALUES ('A', 'x')": (PlanError, "is changed by stream 'company_changes'"),
    "UPDATE companies SET sector = 'y'": (PlanError, "is changed by stream 'company_changes'"),
    "DELETE FROM companies": (PlanError, "is changed by stream 'company_changes'"),
    "DROP STREAM company_changes": (CatalogError, "is still read by table companies"),
    "CREATE TABLE t (symbol STRING) WITH (changes = 'company_chances')": (CatalogError, "did you mean"),
    "CREATE TABLE t (symbol STRING) WITH (changes = 'companies')": (CatalogError, "is a table, not a stream"),
    "CREATE TABLE t (symbols STRING) WITH (changes = 'company_changes')": (PlanError, "has no column 'symbols'"),
    "CREATE TABLE t (symbol INT) WITH (changes = 'company_changes')": (PlanError, "is INT in table 't' and STRING in"),
    "CREATE TABLE t (symbol STRING) WITH (changes = 'company_changes', operation = 'o')": (PlanError, "no column 'o'"),
    "CREATE TABLE t (symbol STRING) WITH (changes = 'company_changes', operation = 'ts')": (PlanError, "has to be STR"),
    "CREATE TABLE t (symbol STRING) WITH (operation = 'op')": (PlanError, "not which stream has it"),
    "CREATE TABLE t (symbol STRING) WITH (changes = 5)": (BindError, "takes a text in quotes"),
    "CREATE QUERY u AS SELECT c.sector FROM trades [UNBOUNDED] AS t, companies AS c": (
        PlanError,
        "'companies' has had changes already",
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused_in_words(text: str) -> None:
    error, words = REFUSED[text]
    engine = engine_with()
    change(engine, (1, "A", "x", "upsert"), (2, "B", "y", "upsert"))
    with pytest.raises(error) as refused:
        engine.execute(text)
    assert words in str(refused.value)
    assert rows_of(engine) == [("A", "x")]
    engine.execute("DROP TABLE companies; DROP STREAM company_changes")


def test_the_change_stream_is_shown() -> None:
    engine = engine_with()
    engine.execute(QUERY)
    assert engine.execute("SHOW TABLES").column("changes").to_pylist() == ["company_changes"]
    assert "waits for the changes of: company_changes" in str(engine.explain("q"))
    assert "TABLE companies  <primary key: symbol, operation: op>" in str(engine.explain())
    assert engine.stats()["tables"]["companies"]["changes"] == "stream company_changes"


def test_rows_that_are_gone_leave_no_trace() -> None:
    engine = engine_with("")
    rows = [(i, f"{i % 7000}", str(i), "delete" if i % 14000 >= 7000 else "upsert") for i in range(70_000)]
    held = []
    for begin in range(0, len(rows), 7000):
        change(engine, *rows[begin : begin + 7000])
        held.append(engine.stats()["tables"]["companies"]["bytes"])
        assert engine.stats()["tables"]["companies"]["rows"] == len(rows_of(engine))
    assert max(held[4:]) <= 2 * max(held[:4])
    change(engine, (70_000, "x", "", "delete"))
    assert rows_of(engine) == []


def test_flush_closes_windows_behind_changes() -> None:
    engine = engine_with()
    engine.execute(QUERY.replace("[RANGE 1 HOUR]", "[RANGE 10 SECONDS SLIDE 5 SECONDS]"))
    change(engine, (1, "A", "x", "upsert"))
    trade(engine, 2, 14)
    engine.flush()
    ends = engine.results("q").column("window_end").cast(pa.int64()).to_pylist()
    assert [end // SECOND for end in ends] == [5, 10, 15, 20]


def test_spark_refuses_change_streams() -> None:
    session: Any = SimpleNamespace(version="4.3.0")  # none is started
    pipeline = pw.SparkPipeline(session, partitions=2)
    pipeline.execute("CREATE STREAM a (ts TIMESTAMP, k BIGINT, v BIGINT)")
    with pytest.raises(PlanError, match="table 'r' cannot be changed by a stream on Spark yet"):
        pipeline.execute("CREATE TABLE r (k BIGINT PRIMARY KEY, v BIGINT) WITH (changes = 'a')")


def test_the_statements_of_the_manual() -> None:
    text = (DOCS / "joins.md").read_text(encoding="utf-8")
    section = text[text.index("\n### Tables changed by a stream") :]
    engine = pw.Engine()
    engine.execute("CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE)")
    engine.execute(section[section.index("```sql\n") + 7 : section.index("\n```\n")])
    assert engine.execute("SHOW TABLES").num_rows == 1
