"""Periodic queries that come and go in mid-stream beside others, on both hosts, against folding every window anew.

A script creates and drops queries of one stream while rows come, out of order within the delay, and its watermark
moves. Whatever happens, every report is exact, comes once, and none is missing from a query's first report on. That
is the first whole window since the query came, or an earlier one:

    the engine    a window that begins at the watermark or later: the rows from there on are still at hand
    Spark         a window that begins behind the newest row that any task has seen

An ungrouped query begins with the first of these windows that holds a row. The Spark host is `local_run`: its stages
without a session, with workers that forget and attempts that fail.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

import panewise as pw
from tests.spark.local_run import LocalRun

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
SCHEMA = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("k", pa.string()), ("v", pa.int64())])
LONG_AGO, NEVER = -(10**9), 10**9
VALUES = {
    "SUM(v)": sum,
    "MAX(v)": max,
    "QUANTILE(v, 0.5)": lambda values: sorted(values)[max(1, len(values) // 2) - 1],
}
Row = tuple[int, str, int]  # second, key, value


@dataclass
class Query:
    """What a query asks and has said. `newest`, `watermark`: how far the stream had come when it came."""

    name: str
    range: int | None
    slide: int
    offset: int
    align: int
    grouped: bool
    where: bool
    value: str
    newest: int | None
    watermark: int | None
    reports: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)
    left: int | None = None  # the watermark at which it was dropped

    @property
    def text(self) -> str:
        window = "UNBOUNDED" if self.range is None else f"RANGE {self.range} SECONDS"
        window += f" SLIDE {self.slide} SECONDS" + (f" OFFSET {self.offset} SECONDS" if self.offset else "")
        window += f" ALIGN '1970-01-01 00:00:{self.align:02d}'" if self.align else ""
        select = f"SELECT {'k, ' if self.grouped else ''}COUNT(*) AS n, {self.value} AS x FROM t [{window}]"
        where, grouped = " WHERE v > 2" if self.where else "", " GROUP BY k" if self.grouped else ""
        return f"CREATE QUERY {self.name} AS {select}{where}{grouped}"

    def holds(self, report: int, at: int) -> bool:
        return (self.range is None or report - self.offset - self.range <= at) and at < report - self.offset

    def answer(self, rows: list[Row]) -> set[tuple[Any, ...]]:
        groups: dict[str, list[int]] = {} if self.grouped else {"": []}
        for _, key, value in rows:
            if not self.where or value > 2:
                groups.setdefault(key if self.grouped else "", []).append(value)
        found = {(key, len(values), VALUES[self.value](values) if values else None) for key, values in groups.items()}
        return found if self.grouped else {answer[1:] for answer in found}

    def expected(self, rows: list[Row], until: int) -> dict[int, set[tuple[Any, ...]]]:
        """All reports that a query which saw every row would have made."""
        found: dict[int, set[tuple[Any, ...]]] = {}
        first = min(at for at, _, _ in rows)
        begun = False
        for report in range(first - (first - self.align) % self.slide, until + 1, self.slide):
            inside = [row for row in rows if self.holds(report, row[0])]
            begun = begun or bool(inside)
            answer = self.answer(inside)
            if answer and begun:
                found[report] = answer
        return found

    def latest_first(self, rows: list[Row], until: int, watermark_serves: bool) -> int:
        """Its first report comes no later than this one."""
        if self.watermark is None or self.range is None:
            return LONG_AGO
        reach = self.range + self.offset
        start = self.watermark  # windows begin here or later
        if not watermark_serves and self.newest is not None:
            start = max(start, self.newest + 1)  # rows come at whole seconds, and so do windows begin
        report = start + reach + (self.align - start - reach) % self.slide
        if not self.grouped:
            while report <= until and not any(self.holds(report, at) for at, _, _ in rows):
                report += self.slide
        return report


class EngineHost:
    """The engine. Rows enter by several pushes; at any moment it may be replaced by one made of its snapshot."""

    rows_at_watermark = True  # a query that comes sees the rows that the watermark has not passed

    def __init__(self, random: Random, stream: str) -> None:
        self._random = random
        self._engine = pw.Engine(sharing=random.choice(["none", "weave", "full"]))
        self._engine.execute(stream)

    def change(self, statement: str) -> None:
        self._engine.execute(statement)

    def push(self, rows: list[Row]) -> None:
        place = self._random.randrange(len(rows))
        for part in (rows[:place], rows[place:]):
            if part:
                self._engine.push("t", batch_of(part))
        if self._random.random() < 0.1:
            self._engine = pw.Engine.restore(self._engine.snapshot())

    def advance(self, until: int) -> None:
        self._engine.advance("t", EPOCH + timedelta(seconds=until))

    def results(self, names: list[str]) -> dict[str, pa.Table]:
        return {name: self._engine.results(name) for name in names}


class SparkHost:
    """The stages of a Spark job; every push and punctuation is a micro-batch of several tasks."""

    rows_at_watermark = False

    def __init__(self, random: Random, stream: str, place: Path) -> None:
        faults, sharing = random.choice([None, random.randrange(1 << 30)]), random.choice(["none", "weave"])
        self._run = LocalRun(place, seed=faults, sharing=sharing, forgetful=random.random() < 0.3)
        self._changes = [stream]
        self._found: dict[str, list[pa.Table]] = {}

    def change(self, statement: str) -> None:
        self._changes.append(statement)

    def push(self, rows: list[Row]) -> None:
        self._apply()
        for part in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
            if part:
                self._run.push("t", batch_of(part))
        self._step()

    def advance(self, until: int) -> None:
        self._apply()
        self._run.advance("t", until * SECOND)
        self._step()

    def _apply(self) -> None:
        if self._changes:
            self._run.change(*self._changes)
            self._changes = []

    def _step(self) -> None:
        for name, table in self._run.run().items():
            self._found.setdefault(name, []).append(table)

    def results(self, names: list[str]) -> dict[str, pa.Table]:
        found, self._found = self._found, {}
        return {name: pa.concat_tables(tables) for name, tables in found.items()}


def batch_of(rows: list[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"ts": EPOCH + timedelta(seconds=r[0]), "k": r[1], "v": r[2]} for r in rows], SCHEMA
    )


class Play:
    """One script, as it goes."""

    def __init__(self, random: Random, host: EngineHost | SparkHost, delay: int) -> None:
        self.random, self.host, self.delay = random, host, delay
        self.log: list[str] = []
        self.rows: list[Row] = []
        self.queries: dict[str, Query] = {}
        self.newest: int | None = None
        self.watermark: int | None = None
        self.now = random.choice([0, -30, 100])

    @property
    def live(self) -> list[Query]:
        return [query for query in self.queries.values() if query.left is None]

    def create(self) -> None:
        choice = self.random.choice
        endless = self.host.rows_at_watermark and self.watermark is None and self.random.random() < 0.2
        query = Query(
            name=f"q{len(self.queries)}",
            range=None if endless else choice([2, 3, 5, 10, 10, 20, 40, 60, 60]),
            slide=choice([1, 2, 3, 5, 7, 10, 20, 60]),
            offset=choice([0, 0, 0, 0, 3]),
            align=choice([0, 0, 0, 4]),
            grouped=self.random.random() < 0.5,
            where=self.random.random() < 0.2,
            value=choice(list(VALUES)[: 2 if endless else 3]),
            newest=self.newest,
            watermark=self.watermark,
        )
        self.queries[query.name] = query
        self.log.append(f"{query.text}  -- at {self.newest}, watermark {self.watermark}")
        self.host.change(query.text)

    def drop(self) -> None:
        if len(self.live) > 1:
            query = self.random.choice(self.live)
            self.collect()
            query.left = LONG_AGO if self.watermark is None else self.watermark
            self.log.append(f"DROP QUERY {query.name}")
            self.host.change(f"DROP QUERY {query.name}")

    def push(self) -> None:
        rows: list[Row] = []
        for _ in range(self.random.randint(1, 8)):
            self.now += self.random.choice([0, 0, 1, 1, 2, 5]) if self.random.random() < 0.95 else 80
            back = self.random.randint(0, self.delay) if self.random.random() < 0.4 else 0
            if self.watermark is None or self.now - back >= self.watermark:  # none is late on either host
                rows.append((self.now - back, self.random.choice("abc"), self.random.randint(0, 9)))
        rows = [row for row in rows if row[0] >= max(at for at, _, _ in rows) - self.delay]
        if rows:
            self.log.append(f"push {rows}")
            self.host.push(rows)
            self.rows += rows
            self.newest = max(at for at, _, _ in self.rows)
            self.watermark = max(self.newest - self.delay, LONG_AGO if self.watermark is None else self.watermark)

    def advance(self, by: int) -> None:
        if self.watermark is not None:
            self.watermark += by
            self.now = max(self.now, self.watermark)
            self.log.append(f"advance {self.watermark}")
            self.host.advance(self.watermark)

    def collect(self) -> None:
        for name, table in self.host.results([query.name for query in self.live]).items():
            for row in table.to_pylist():
                end = (row.pop("window_end") - EPOCH) // timedelta(seconds=1)
                del row["window_start"]
                self.queries[name].reports.setdefault(end, []).append(tuple(row.values()))

    def check(self) -> int:
        for query in self.queries.values() if self.rows else ():
            until = self.watermark if query.left is None else query.left
            assert until is not None
            expected = query.expected(self.rows, until)
            wrong = {
                end: (found, expected.get(end))
                for end, found in query.reports.items()
                if len(found) != len(set(found)) or set(found) != expected.get(end)
            }
            latest = query.latest_first(self.rows, until, self.host.rows_at_watermark)
            first = min([latest, *query.reports])
            missing = [end for end in expected if end >= first and end not in query.reports]
            assert not wrong and not missing, (query.name, "wrong", wrong, "missing", missing, *self.log)
        return sum(len(query.reports) for query in self.queries.values())


def play(seed: int) -> int:
    """One script; every fifth on Spark's stages, which take longer. How many reports were compared."""
    random = Random(seed)
    delay = random.choice([0, 0, 3, 10])
    stream = f"CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL {delay} SECONDS)"
    with tempfile.TemporaryDirectory() as place:
        host = SparkHost(random, stream, Path(place)) if seed % 5 == 0 else EngineHost(random, stream)
        played = Play(random, host, delay)
        played.log.append(f"seed {seed}, {type(host).__name__}, delay {delay}")
        for _ in range(random.randint(1, 3)):
            played.create()
        for _ in range(random.randint(5, 25)):
            chance = random.random()
            if chance < 0.6 or not played.rows:
                played.push()
            elif chance < 0.68:
                played.advance(random.choice([1, 5, 20]))
            elif chance < 0.87:
                played.create()
            else:
                played.drop()
            if random.random() < 0.5:
                played.collect()
        played.advance(random.choice([1, 100]))
        played.collect()
        return played.check()
