"""Random queries over several windows, in CQL and as plain SQL, and what the windows hold at an instant.

Definition 3.1 of Golab 2006 is the oracle: at every instant the answer is that of the SQL text over what the windows
then hold. DuckDB evaluates it; the windows' contents are found by going through all rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

import duckdb
import pyarrow as pa

SECOND = 1_000_000
STREAMS = ("a", "b", "c")
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("v", pa.int64()), ("w", pa.string())])
CREATE = "CREATE STREAM {} (ts TIMESTAMP, k BIGINT, v BIGINT, w STRING, WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS)"

Row = dict[str, Any]


@dataclass(frozen=True)
class Source:
    """A window over a stream under an alias. `length` is microseconds, or rows where `rows`; None: unbounded."""

    stream: str
    alias: str
    length: int | None
    rows: bool = False
    partitioned: bool = False

    def window(self, slide: int | None) -> str:
        if self.rows:
            return f"[{'PARTITION BY k ' if self.partitioned else ''}ROWS {self.length}]"
        every = f" SLIDE {slide} SECONDS" if slide else ""
        length = "UNBOUNDED" if self.length is None else f"RANGE {self.length} MICROSECONDS"
        return f"[{length}{every}]"

    def held(self, rows: Sequence[Row], instant: int) -> list[Row]:
        """The rows in the window at an instant; `rows` are the stream's in order of (time, arrival)."""
        come = [row for row in rows if row["ts"] <= instant]
        if not self.rows:
            return [row for row in come if self.length is None or instant < row["ts"] + self.length]
        assert self.length is not None
        seen: Counter[Any] = Counter()
        kept = []
        for row in reversed(come):
            part = row["k"] if self.partitioned else 0
            seen[part] += 1
            if seen[part] <= self.length:
                kept.append(row)
        return kept


@dataclass(frozen=True)
class Query:
    """`cql` and `sql` have `{alias}` where an input stands."""

    text: str
    sources: tuple[Source, ...]
    slide: int | None

    @property
    def cql(self) -> str:
        named = {s.alias: f"{s.stream} {s.window(self.slide)} AS {s.alias}" for s in self.sources}
        return self.text.format(**named)

    @property
    def sql(self) -> str:
        return self.text.format(**{source.alias: source.alias for source in self.sources})

    def answer(self, rows: dict[str, list[Row]], instant: int) -> Counter[tuple[Any, ...]]:
        """What the query says at an instant."""
        connection = _connection()
        for source in self.sources:
            held = pa.Table.from_pylist(source.held(rows[source.stream], instant), SCHEMA)
            connection.register(source.alias, held)
        return Counter(map(tuple, connection.sql(self.sql).fetchall()))


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


class QueryWriter:
    """Writes random queries."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self._sources: list[Source] = []

    def query(self) -> Query:
        chance = self.chance
        slide = chance.choice((None, None, 1, 2))
        self._sources = []
        text = chance.choice(
            (self._join, self._join, self._grouped, self._distinct, self._set_operation, self._exists)
        )()
        return Query(text, tuple(self._sources), slide)

    def _source(self) -> Source:
        chance = self.chance
        alias = f"s{len(self._sources)}"
        stream = chance.choice(STREAMS)
        kind = chance.random()
        if kind < 0.7:
            source = Source(stream, alias, chance.choice((1, SECOND // 2, SECOND, 2 * SECOND, 5 * SECOND)))
        elif kind < 0.8 and all(other.length is not None for other in self._sources):
            source = Source(stream, alias, None)
        else:
            source = Source(stream, alias, chance.randint(1, 4), rows=True, partitioned=chance.random() < 0.4)
        self._sources.append(source)
        return source

    def _from(self, most: int = 4) -> tuple[list[str], str]:
        """Aliases, and FROM with WHERE of a join of so many inputs."""
        chance = self.chance
        names = [self._source().alias for _ in range(chance.choice([1, 2, 2, 3, most][:most] or [1]))]
        conditions = []
        for i, name in enumerate(names[1:], 1):
            other = chance.choice(names[:i])
            column = chance.choice(("k", "k", "k", "w"))
            conditions.append(chance.choice((f"{other}.{column} = {name}.{column}",) * 4 + (f"{other}.v < {name}.v",)))
        if chance.random() < 0.4:
            conditions.append(f"{chance.choice(names)}.v > {chance.randint(0, 3)}")
        if len(names) > 1 and chance.random() < 0.2:
            conditions.append(f"{names[0]}.v <> {names[-1]}.v")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return names, f"FROM {', '.join('{' + name + '}' for name in names)}{where}"

    def _items(self, names: list[str]) -> str:
        chosen = [self.chance.choice(names) for _ in range(self.chance.choice((1, 2)))]
        columns = [self.chance.choice(("k", "v", "w")) for _ in chosen]
        return ", ".join(
            f"{name}.{column} AS c{i}" for i, (name, column) in enumerate(zip(chosen, columns, strict=True))
        )

    def _join(self) -> str:
        names, rest = self._from()
        return f"SELECT {self._items(names)} {rest}"

    def _grouped(self) -> str:
        names, rest = self._from(3)
        key, of = self.chance.choice(names), self.chance.choice(names)
        listed = f"COUNT(*) AS n, SUM({of}.v) AS s, MAX({of}.w) AS m, MIN({of}.v) AS l"
        if self.chance.random() < 0.3:
            return f"SELECT {listed} {rest}"
        having = " HAVING COUNT(*) > 1" if self.chance.random() < 0.3 else ""
        return f"SELECT {key}.k AS k, {listed} {rest} GROUP BY {key}.k{having}"

    def _distinct(self) -> str:
        names, rest = self._from(3)
        return f"SELECT DISTINCT {self._items(names)} {rest}"

    def _set_operation(self) -> str:
        kind = self.chance.choice(("UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "EXCEPT"))
        column = self.chance.choice(("k", "w"))
        sides = []
        for _ in range(2):
            names, rest = self._from(2)
            distinct = "DISTINCT " if self.chance.random() < 0.2 else ""
            sides.append(f"SELECT {distinct}{names[0]}.{column} AS c0 {rest}")
        return f" {kind} ".join(sides)

    def _exists(self) -> str:
        names, rest = self._from(2)
        outer = self.chance.choice(names)
        inner = self._source().alias
        word = self.chance.choice(("NOT EXISTS", "NOT EXISTS", "EXISTS"))
        relation = f"{inner}.k = {outer}.k"
        if self.chance.random() < 0.3:
            relation += f" AND {inner}.v > 1"
        joined = " AND " if "WHERE" in rest else " WHERE "
        return f"SELECT {self._items(names)} {rest}{joined}{word} (SELECT 1 FROM {{{inner}}} WHERE {relation})"


def random_rows(chance: Random, count: int) -> dict[str, list[list[Row]]]:
    """For each stream batches of rows, out of order within 2 seconds, none late."""
    found: dict[str, list[list[Row]]] = {}
    for stream in STREAMS:
        rows, time = [], 0
        for _ in range(chance.randint(0, count)):
            time += chance.choice((0, 0, 1, SECOND // 4, SECOND // 2, SECOND))
            rows.append(
                {
                    "ts": max(0, time - chance.choice((0, 0, 0, 1, SECOND))),
                    "k": chance.choice((1, 1, 2, 3, None)),
                    "v": chance.choice((0, 1, 2, 3, None)),
                    "w": chance.choice(("p", "q", None)),
                }
            )
        cuts = sorted(chance.sample(range(len(rows) + 1), min(3, len(rows) + 1)))
        found[stream] = [rows[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    return found
