"""Tables: statements that change them, and joins of windows with both kinds, against a plain history of their rows.

The oracle keeps for every row of a table from when to when it was there. At an instant a retroactive table is its rows
of that instant; a row of a stream, or a pair of rows, meets the rows of a non-retroactive table that were there when it
was born. DuckDB answers the same SQL over that.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import panewise as pw
from panewise.errors import BindError, CatalogError, DataError, PlanError
from tests.runtime.random_relations import CREATE, SECOND, Row, Source, random_rows

STREAMS = ("a", "b")
TABLES = {  # with or without a key, and whether changes reach rows that have come
    "r": ("k BIGINT PRIMARY KEY, v BIGINT, w STRING", True),
    "bag": ("k BIGINT, v BIGINT, w STRING", True),
    "n": ("k BIGINT PRIMARY KEY, v BIGINT, w STRING", False),
    "m": ("k BIGINT, v BIGINT, w STRING", False),
}
BEGINNING, FOREVER = -(2**63), 2**63 - 1
VALUES = [("k", pa.int64()), ("v", pa.int64()), ("w", pa.string())]
HISTORY = pa.schema([*VALUES, ("since", pa.int64()), ("until", pa.int64())])
ROWS = pa.schema([("ts", pa.int64()), *VALUES])


def engine_with(*statements: str) -> pw.Engine:
    engine = pw.Engine()
    for stream in STREAMS:
        engine.execute(CREATE.format(stream))
    for name, (columns, retroactive) in TABLES.items():
        engine.execute(f"CREATE TABLE {name} ({columns}){'' if retroactive else ' NON RETROACTIVE'}")
    for statement in statements:
        engine.execute(statement)
    return engine


# ---- joins against a history of the tables ---------------------------------------------------------------------------


@dataclass
class History:
    """All rows that a table ever had: values with `since` and `until`."""

    name: str
    rows: list[Row] = field(default_factory=list)

    @property
    def present(self) -> list[Row]:
        return [row for row in self.rows if row["until"] == FOREVER]

    def change(self, gone: list[Row], come: list[Row], at: int) -> bool:
        """Whether keys stay keys; nothing changes otherwise."""
        left = [row for row in self.present if not any(row is other for other in gone)]
        keys = [row["k"] for row in left + come]
        if "PRIMARY" in TABLES[self.name][0] and (None in keys or len(set(keys)) < len(keys)):
            return False
        for row in gone:
            row["until"] = at
        self.rows += [row | {"since": at, "until": FOREVER} for row in come]
        return True


@dataclass
class Play:
    """A query over windows and tables, an engine that runs it, and the history."""

    chance: Random
    engine: pw.Engine = field(init=False)
    rows: dict[str, list[Row]] = field(default_factory=lambda: {stream: [] for stream in STREAMS})
    results: list[pa.Table] = field(default_factory=list)
    refused: int = 0
    changed: int = 0

    def __post_init__(self) -> None:
        chance = self.chance
        lengths = (1, SECOND, 2 * SECOND, 5 * SECOND)
        self.slide = chance.choice((None, None, 1, 2))
        self.sources = [
            Source(chance.choice(STREAMS), f"s{i}", chance.choice(lengths)) for i in range(chance.choice((1, 1, 2)))
        ]
        self.tables = [chance.choice(sorted(TABLES)) for _ in range(chance.choice((1, 1, 2, 3)))]
        self.histories = {name: History(name) for name in TABLES}
        aliases = [source.alias for source in self.sources] + [f"t{i}" for i in range(len(self.tables))]
        conditions = []
        for i, alias in enumerate(aliases[1:], 1):
            other, column = chance.choice(aliases[:i]), chance.choice("kkw")
            conditions.append(
                chance.choice((f"{other}.{column} = {alias}.{column}",) * 3 + (f"{other}.v < {alias}.v",))
            )
        if chance.random() < 0.4:
            conditions.append(f"{chance.choice(aliases)}.v > {chance.randint(0, 2)}")
        self.conditions = conditions
        chosen = [f"{chance.choice(aliases)}.{chance.choice('kvw')}" for _ in range(2)]
        self.select, self.tail = chance.choice(
            (
                (f"SELECT {chosen[0]} AS c0, {chosen[1]} AS c1", ""),
                (f"SELECT {chosen[0]} AS c0, {chosen[1]} AS c1", ""),
                (f"SELECT DISTINCT {chosen[0]} AS c0", ""),
                (f"SELECT {chosen[0]} AS c0, COUNT(*) AS n, SUM({aliases[-1]}.v) AS s", f" GROUP BY {chosen[0]}"),
            )
        )
        if chance.random() < 0.15 and not self.tail:
            extra = Source(chance.choice(STREAMS), "x", 2 * SECOND)
            self.sources.append(extra)
            self.exists = extra
        else:
            self.exists = None
        self.engine = engine_with()

    def text(self, entries: dict[str, str], conditions: list[str]) -> str:
        listed = [entry for alias, entry in entries.items() if alias != "x"]
        self.chance.shuffle(listed)
        parts = list(conditions)
        if self.exists is not None:
            parts.append(f"NOT EXISTS (SELECT 1 FROM {entries['x']} WHERE x.k = s0.k)")
        return f"{self.select} FROM {', '.join(listed)} WHERE {' AND '.join(parts)}{self.tail}"

    def cql(self) -> str:
        entries = {
            source.alias: f"{source.stream} {source.window(self.slide)} AS {source.alias}" for source in self.sources
        }
        entries |= {f"t{i}": f"{name} AS t{i}" for i, name in enumerate(self.tables)}
        return self.text(entries, self.conditions)

    def watermark(self) -> int:
        """Up to where the query has come."""
        reached = [max((row["ts"] for row in self.rows[source.stream]), default=None) for source in self.sources]
        return BEGINNING if None in reached else min(reached) - 2 * SECOND  # type: ignore[type-var,operator]

    def statement(self) -> None:
        chance = self.chance
        history = self.histories[chance.choice(self.tables)]
        at, value = self.watermark(), lambda: chance.choice((0, 1, 2, 3, None))
        kind = chance.choice(("insert", "insert", "update", "delete"))
        test, passes = chance.choice(
            (
                ("k = 1", lambda row: row["k"] == 1),
                ("v > 1", lambda row: row["v"] is not None and row["v"] > 1),
                ("w = 'p'", lambda row: row["w"] == "p"),
            )
        )
        gone = [row for row in history.present if passes(row)]
        if kind == "insert":
            come = [{"k": value(), "v": value(), "w": chance.choice(("p", "q"))} for _ in range(chance.choice((1, 2)))]
            if "PRIMARY" in TABLES[history.name][0]:
                come = [row | {"k": row["k"] or 7} for row in come]
            listed = ", ".join(f"({_sql(r['k'])}, {_sql(r['v'])}, '{r['w']}')" for r in come)
            gone, text = [], f"INSERT INTO {history.name} VALUES {listed}"
        elif kind == "delete":
            come, text = [], f"DELETE FROM {history.name} WHERE {test}"
        else:
            column = chance.choice(("k", "v", "v"))
            come = [row | {column: None if row[column] is None else row[column] + 1} for row in gone]
            text = f"UPDATE {history.name} SET {column} = {column} + 1 WHERE {test}"
        before = self.engine.execute(f"SELECT * FROM {history.name}")
        try:
            self.engine.execute(text)
        except DataError as problem:
            self.refused += 1
            assert self.engine.execute(f"SELECT * FROM {history.name}").equals(before)
            if "just taken away" in str(problem):
                assert history.name == "n"
            else:
                assert not history.change(gone, come, at), text
            return
        self.changed += bool(gone or come)
        assert history.change(gone, come, at), text
        found = self.engine.execute(f"SELECT k, v, w FROM {history.name}").to_pylist()
        assert Counter(tuple(row.values()) for row in found) == Counter(
            (row["k"], row["v"], row["w"]) for row in history.present
        )

    def run(self) -> None:
        chance = self.chance
        for name in self.tables:
            if not self.histories[name].rows and chance.random() < 0.8:
                self.engine.execute(f"INSERT INTO {name} VALUES (1, 2, 'p'), (2, NULL, 'q'), (3, 3, 'p')")
                rows = zip((1, 2, 3), (2, None, 3), "pqp", strict=True)
                self.histories[name].change([], [{"k": k, "v": v, "w": w} for k, v, w in rows], BEGINNING)
        for _ in range(chance.randint(0, 2)):
            self.statement()
        self.engine.execute(f"CREATE QUERY q AS {self.cql()}")
        left = {stream: parts for stream, parts in random_rows(chance, 14).items() if stream in STREAMS}
        while any(left.values()):
            for _ in range(chance.randint(0, 3)):
                self.statement()
            stream = chance.choice([name for name, parts in left.items() if parts])
            batch = left[stream].pop(0)
            if batch:
                self.engine.push(stream, batch)
                self.rows[stream] += batch
            if chance.random() < 0.5:
                self.results.append(self.engine.results("q"))
            if chance.random() < 0.3:
                self.engine = pw.Engine.restore(self.engine.snapshot())
        for stream in STREAMS:
            self.engine.advance(stream, 60 * SECOND)
        self.results.append(self.engine.results("q"))
        assert self.engine.stats()["queries"]["q"]["status"] == "RUNNING"

    def expected(self, instant: int) -> Counter[Any]:
        connection = _connection()
        for source in self.sources:
            held = source.held(self.rows[source.stream], instant)
            connection.register(source.alias, pa.Table.from_pylist(held, ROWS))
        conditions = list(self.conditions)
        born = f"greatest({', '.join(f'{source.alias}.ts' for source in self.sources if source is not self.exists)})"
        for i, name in enumerate(self.tables):
            connection.register(f"t{i}", pa.Table.from_pylist(self.histories[name].rows, HISTORY))
            when = instant if TABLES[name][1] else born
            conditions.append(f"t{i}.since <= {when} AND {when} < t{i}.until")
        aliases = [source.alias for source in self.sources] + [f"t{i}" for i in range(len(self.tables))]
        return Counter(map(tuple, connection.sql(self.text({a: a for a in aliases}, conditions)).fetchall()))

    def compare(self) -> int:
        table = pa.concat_tables(self.results)
        return self.compare_changes(table) if self.slide is None else self.compare_reports(table)

    def compare_changes(self, table: pa.Table) -> int:
        instants = table.column("instant").cast(pa.int64()).to_pylist()
        assert instants == sorted(instants)
        values = [tuple(row.values()) for row in table.drop_columns(["instant", "change"]).to_pylist()]
        found = {row["since"] for name in self.tables for row in self.histories[name].rows}
        for source in self.sources:
            assert source.length is not None
            found |= {row["ts"] + late for row in self.rows[source.stream] for late in (0, source.length)}
        checked = sorted({moment for at in found for moment in (at, at - 1) if 0 <= moment < 50 * SECOND})
        for instant in self.chance.sample(checked, min(12, len(checked))):
            relation: Counter[Any] = Counter()
            for at, change, value in zip(instants, table.column("change").to_pylist(), values, strict=True):
                relation[value] += change if at <= instant else 0
            assert min(relation.values(), default=0) >= 0
            assert +relation == self.expected(instant), (self.cql(), instant)
        return len(values)

    def compare_reports(self, table: pa.Table) -> int:
        assert self.slide is not None
        ends = table.column("window_end").cast(pa.int64()).to_pylist()
        values = [tuple(row.values()) for row in table.drop_columns(["window_start", "window_end"]).to_pylist()]
        reports: dict[int, Counter[Any]] = {}
        for end, value in zip(ends, values, strict=True):
            reports.setdefault(end, Counter())[value] += 1
        for end in range(self.slide * SECOND, 20 * SECOND, self.slide * SECOND):
            assert reports.get(end, Counter()) == self.expected(end - 1), (self.cql(), end)
        return len(values)


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def _sql(value: int | None) -> str:
    return "NULL" if value is None else str(value)


def check(seed: int) -> tuple[Play, int]:
    play = Play(Random(seed))
    play.run()
    return play, play.compare()


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
        with pytest.raises(DataError, match="the key k = 1 of 'n' was just taken away"):
            engine.execute(text)
    engine.execute("UPDATE n SET w = 'TWO' WHERE k = 2")  # keeps its key
    engine.advance("a", 30 * SECOND)
    engine.execute("INSERT INTO n VALUES (1, 1, 'new')")
    engine.push("a", [{"ts": 40 * SECOND, "k": 1, "v": 0, "w": ""}, {"ts": 41 * SECOND, "k": 2, "v": 0, "w": ""}])
    engine.flush()
    assert engine.results("q").column("w").to_pylist() == ["older", "new", "TWO"]


def test_a_query_that_has_failed_holds_no_keys() -> None:
    engine = engine_with("INSERT INTO n VALUES (1, 1, 'x')")
    engine.execute("CREATE QUERY q AS SELECT SUM(a.v) AS s FROM a [RANGE 1 MINUTE], n WHERE a.k = n.k")
    engine.push("a", [{"ts": time * SECOND, "k": 1, "v": 2**63 - 1, "w": ""} for time in (1, 2, 10)])
    assert engine.execute("SHOW QUERIES").column("status").to_pylist() == ["FAILED"]
    engine.execute("DELETE FROM n")
    engine.execute("INSERT INTO n VALUES (1, 1, 'x')")
    engine = pw.Engine.restore(engine.snapshot())
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
    "SELECT a.k FROM a [ROWS 3], r WHERE a.k = r.k": "whose rows may end at any time",
    "SELECT a.k FROM a [RANGE 1 MINUTE], b [ROWS 3], n WHERE a.k = n.k AND a.k = b.k": "whose rows may end at any time",
    "SELECT a.k FROM a [RANGE 1 MINUTE INTERNAL], n WHERE a.k = n.k": "is INTERNAL",
    "SELECT a.k FROM a [RANGE 1 MINUTE INTERNAL], b [RANGE 1 MINUTE INTERNAL], r WHERE a.k = r.k": "is INTERNAL",
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


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO r VALUES (1, 1)",
        "UPDATE r SET v = 1",
        "DELETE FROM r",
        "CREATE QUERY q AS SELECT a.v FROM a [RANGE 1 MINUTE], r WHERE a.k = r.k",
        "CREATE QUERY q AS SELECT k FROM r",
    ],
)
def test_spark_has_no_tables_yet(text: str) -> None:
    session: Any = SimpleNamespace(version="4.3.0")  # none is started
    pipeline = pw.SparkPipeline(session, partitions=2)
    pipeline.execute("CREATE STREAM a (ts TIMESTAMP, k BIGINT, v BIGINT)")
    pipeline.execute("CREATE TABLE r (k BIGINT PRIMARY KEY, v BIGINT)")
    with pytest.raises(PlanError, match=r"table.* has no operator on Spark yet"):
        pipeline.execute(text)
    with pytest.raises(PlanError, match="on Spark a one-time query reads the answer of a registered query"):
        pipeline.execute("SELECT * FROM r")


def test_the_statements_of_the_manual() -> None:
    text = (Path(__file__).parents[2] / "docs" / "joins.md").read_text(encoding="utf-8")
    section = text[text.index("\n## Tables") :]
    engine = engine_with("CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE)")
    engine.push("trades", [{"ts": 0, "symbol": "ACME", "price": 150.0}, {"ts": 1, "symbol": "INIT", "price": 500.0}])
    table = engine.execute(section[section.index("```sql\n") + 7 : section.index("\n```\n")])
    assert table is not None
    assert table.to_pylist() == [{"symbol": "ACME", "sector": "tools"}]
