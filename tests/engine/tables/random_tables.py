"""Random joins of windows with tables, and a plain history of the tables' rows to compare them with.

The oracle keeps for every row of a table from when to when it was there. At an instant a retroactive table is its rows
of that instant; a row of a stream, or a pair of rows, meets the rows of a non-retroactive table that were there when it
was born. DuckDB answers the same SQL over that.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any

import duckdb
import pyarrow as pa

import panewise as pw
from panewise.errors import DataError
from tests.engine.random_relations import CREATE, SECOND, Row, Source, random_rows

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
    begins: int = BEGINNING  # the first instant at which the query knows its answer
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

    def reached(self, stream: str) -> int:
        """How far a stream has come."""
        return max((row["ts"] for row in self.rows[stream]), default=BEGINNING + 2 * SECOND) - 2 * SECOND

    def missed(self, stream: str) -> int:
        """Before when rows have gone by; nothing is missed where the stream has passed none."""
        reached = self.reached(stream)
        return reached if any(row["ts"] < reached for row in self.rows[stream]) else BEGINNING

    def create(self) -> None:
        """In mid-stream the query begins when its windows are whole, and the table was always as it is then."""
        self.engine.execute(f"CREATE QUERY q AS {self.cql()}")
        held = [(self.missed(source.stream), source.length or 0) for source in self.sources]
        self.begins = max(at + length - 1 if at != BEGINNING else at for at, length in held)
        for history in self.histories.values():
            history.rows = [row | {"since": BEGINNING} for row in history.present]

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
            if "just deleted" in str(problem):
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
        waits = chance.choice((0, 0, 0, 3))
        left = {stream: parts for stream, parts in random_rows(chance, 14).items() if stream in STREAMS}
        while any(left.values()):
            if waits == 0:
                self.create()
            waits -= 1
            for _ in range(chance.randint(0, 3)):
                self.statement()
            stream = chance.choice([name for name, parts in left.items() if parts])
            batch = left[stream].pop(0)
            if batch:
                self.engine.push(stream, batch)
                self.rows[stream] += batch
            if chance.random() < 0.5 and waits < 0:
                self.results.append(self.engine.results("q"))
            if chance.random() < 0.3:
                self.engine = pw.Engine.restore(self.engine.snapshot())
        if waits >= 0:
            self.create()
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
        assert all(at >= self.begins for at in instants)
        values = [tuple(row.values()) for row in table.drop_columns(["instant", "change"]).to_pylist()]
        found = {row["since"] for name in self.tables for row in self.histories[name].rows}
        for source in self.sources:
            assert source.length is not None
            found |= {row["ts"] + late for row in self.rows[source.stream] for late in (0, source.length)}
        checked = sorted(
            {moment for at in found for moment in (at, at - 1) if max(0, self.begins) <= moment < 50 * SECOND}
        )
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
            known = end - 1 >= self.begins
            assert reports.get(end, Counter()) == (self.expected(end - 1) if known else Counter()), (self.cql(), end)
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
