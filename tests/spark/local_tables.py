"""A pipeline with tables in this process: the driver's part is `pw.SparkPipeline` itself, the rest is `LocalRun`."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

import panewise as pw
from panewise.catalog import StreamDefinition
from panewise.spark.folder_reader import FolderReader
from panewise.spark.program.changes import ChangeStatement
from panewise.spark.program.known_programs import read_program
from panewise.spark.program.reconcile import reconciled
from panewise.spark.tables.table_books import TableBooks
from panewise.spark.tables.table_pins import TablePins
from tests.engine.random_relations import SECOND
from tests.spark.local_run import LocalRun


class LocalHandle(FolderReader):
    """In place of `handle.Handle`: changes take hold with the next micro-batch of the run."""

    def __init__(self, run: TableRun) -> None:
        super().__init__(run.folder, run.pipeline.books.catalog, run.program)
        self._run = run
        self.tables = TableBooks(run.folder, run.pipeline.books, run.program)
        self.active = True

    def check_new_stream(self, stream: StreamDefinition) -> None:
        pass

    def change(self, statements: list[ChangeStatement]) -> None:
        self._run.change_to(*statements)
        self.tables.log()

    def change_tables(self) -> None:
        if self.tables.log():
            self._run.inbox.post_control({"wake": len(self.program.versions) - 1})


class TableRun(LocalRun):
    """`execute`, `push`, `advance`, then `run` for a micro-batch. `restart` is a new driver with the same folder."""

    def __init__(self, place: Path, seed: int | None = None, **options: Any) -> None:
        super().__init__(place, seed=seed, **options)
        self.session: Any = SimpleNamespace(version="4.3.0")  # none is started
        self.start()

    def start(self, statements: str = "", replace: bool = False) -> None:
        """A driver that has executed these statements before it starts."""
        pipeline = pw.SparkPipeline(self.session, checkpoint=self.folder.place, partitions=self.partitions)
        if statements:
            pipeline.execute(statements)
        self.pipeline = pipeline
        self.program = read_program(self.folder, self.partitions, {}, self.sharing, pipeline.queries_made)
        self.handle = LocalHandle(self)
        changes = reconciled(pipeline.books, self.program, replace)
        self.handle.tables.begin(replace)
        if changes or not self.program.versions:
            self.change_to(*changes)
        self.handle.change_tables()
        self.pipeline._handle = self.handle  # type: ignore[assignment]

    def execute(self, text: str) -> pa.Table | None:
        return self.pipeline.execute(text)

    def run(self) -> dict[str, pa.Table]:
        self.pins().pin(self.batch, self.session)
        return super().run()

    def pins(self) -> TablePins:
        return TablePins(self.reference)


TRADES = "CREATE STREAM t (ts TIMESTAMP, k STRING)"
NAMES = "CREATE TABLE names (k STRING PRIMARY KEY, name STRING) NON RETROACTIVE"
JOIN = "CREATE QUERY q AS SELECT ISTREAM t.ts, names.name FROM t [RANGE 1 SECOND], names WHERE t.k = names.k"
ROWS = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("k", pa.string())])


def names_at(run: TableRun, second: int, *keys: str) -> list[str]:
    """The names that rows of a second get; each call is a micro-batch."""
    run.push("t", pa.RecordBatch.from_pylist([{"ts": second * SECOND, "k": key} for key in keys], ROWS))
    run.advance("t", (second + 1) * SECOND)
    found = run.run().get("q")
    return sorted(found.column("name").to_pylist()) if found is not None else []


def started(place: Path, *statements: str) -> TableRun:
    run = TableRun(place)
    for text in (TRADES, NAMES, *statements, JOIN):
        run.execute(text)
    return run


def lines(run: TableRun, query: str) -> list[str]:
    table = run.execute(f"EXPLAIN QUERY {query}")
    assert table is not None
    return list(table.column("plan").to_pylist())
