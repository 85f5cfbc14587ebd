"""The embedded engine and the stages of the Spark pipeline without Spark, fed alike, and their answers compared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import panewise as pw
from tests.engine.random_relations import STREAMS
from tests.spark.local_run import LocalRun

ARROW = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("k", pa.int64()), ("v", pa.int64()), ("w", pa.string())])
BUCKETS = 3
Row = dict[str, Any]


class Both:
    """The engine and the stages, fed alike; `found` is what the stages say, by query."""

    def __init__(self, place: Path, seed: int | None = None, buckets: int = BUCKETS, forgetful: bool = False) -> None:
        self.engine = pw.Engine()
        self.run = LocalRun(place, partitions=buckets, seed=seed, forgetful=forgetful)
        self.found: dict[str, list[pa.Table]] = {}

    def execute(self, *statements: str) -> None:
        for statement in statements:
            self.engine.execute(statement)
            self.run.change(statement)

    def push(self, stream: str, rows: list[Row], schema: pa.Schema = ARROW, runs: bool = True) -> None:
        if rows:
            batch = pa.RecordBatch.from_pylist(rows, schema)
            self.engine.push(stream, batch)
            self.run.push(stream, batch)
            if runs:
                self.go_on()

    def advance(self, until: int, streams: tuple[str, ...] = STREAMS) -> None:
        for stream in streams:
            self.engine.advance(stream, until)
            self.run.advance(stream, until)
            self.go_on()

    def go_on(self) -> None:
        for name, table in self.run.run().items():
            self.found.setdefault(name, []).append(table)

    def buckets_of(self, name: str) -> int:
        program = self.run.program
        return program.fragments[program.newest.queries[name].fragment].buckets

    def compare(self, name: str, after: int | None = None) -> int:
        """How many results were the same; those of later instants only, where `after` says so."""
        expected = self.engine.results(name)
        own = [expected.schema.empty_table(), *(t.cast(expected.schema) for t in self.found.get(name, []))]
        answers = [sorted(_shown(table, after)) for table in (pa.concat_tables(own), expected)]
        assert answers[0] == answers[1]
        return len(answers[1])


def _shown(table: pa.Table, after: int | None) -> Iterator[str]:
    """Rows as text; of one instant or report they come in any order."""
    times = next(table.column(name) for name in ("instant", "window_end") if name in table.column_names)
    for row, time in zip(table.to_pylist(), times.cast(pa.int64()).to_pylist(), strict=True):
        if after is None or time > after:
            yield repr(row)
