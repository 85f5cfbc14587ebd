"""The driver's side of tables: the rows that statements have led to, and which version of the log they are.

The books (`pipeline.py`) hold every table and check each statement at once. What has changed is logged when the
statements of a call are done, all tables together, and the next micro-batch sees it (`table_log.py`).

A table that a checkpoint has goes on with the rows that it has there. Statements that a file of definitions repeats
with every start lead to the rows with which the table began, and change nothing; other rows are refused, or hold where
the caller replaces what the checkpoint has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from panewise.arrays import Ints
from panewise.catalog import TableDefinition
from panewise.connectors.tables import table_connector
from panewise.engine.books.definitions import statement_of
from panewise.engine.engine import Engine
from panewise.engine.tables.table import Table
from panewise.errors import CatalogError
from panewise.spark.environment.folder import Folder
from panewise.spark.program.program import Program
from panewise.spark.tables.table_log import NEWEST, TableLog, last_pins

LATEST = 2**62


class TableBooks:
    """The tables of the books, beside the log."""

    def __init__(self, folder: Folder, books: Engine, program: Program) -> None:
        self._folder = folder
        self._books = books
        self._program = program
        self._reached: dict[str, int] = {}  # how far queries that read tables have come
        self._logged: dict[str, tuple[int, Ints]] = {}  # by key: the last version, and the numbers of its rows

    def begin(self, replace: bool) -> None:
        """The tables that checkpoint and books have in common go on; CatalogError where their rows are others."""
        newest = self._folder.read_json(NEWEST) or {}
        pins = last_pins(self._folder, LATEST)
        tables = []
        for key, definition, table in self._common():
            pinned = key in pins and table_connector(definition) is not None
            version = pins[key].version if pinned else newest[key]["version"]
            tables.append((key, version, table, TableLog(self._folder, key, definition).at(version)))
        own = [found for found in tables if not self._goes_on(newest[found[0]], found[2], found[3])]
        if own and not replace:
            names = ", ".join(table.name for _, _, table, _ in own)
            raise CatalogError(
                f"the checkpoint has other rows of table {names} than these statements insert",
                hint="change rows when the pipeline has started, or replace what the checkpoint has (--replace)",
            )
        for key, version, table, logged in tables:
            self._logged[key] = version, logged.numbers
            if any(table is other for _, _, other, _ in own):
                logged.become(table.batch())
            table.restore(logged.snapshot())

    def _common(self) -> Iterator[tuple[str, TableDefinition, Table]]:
        stored = self._program.newest.tables if self._program.versions else {}
        for key, definition in stored.items():
            table = self._books.tables.get(definition.name.lower())
            if table is not None and statement_of(table.definition) == statement_of(definition):
                yield key, definition, table

    @staticmethod
    def _goes_on(newest: dict[str, Any], table: Table, logged: Table) -> bool:
        rows = table.batch()
        if not rows.num_rows or table_connector(table.definition) is not None:
            return True
        return _digest(rows) in (newest["begun"], _digest(logged.batch()))

    def log(self) -> bool:
        """Writes what statements have changed; whether there was something."""
        before = self._folder.read_json(NEWEST) or {}
        newest = {}
        for key, definition in self._program.newest.tables.items():
            table, log = self._books.tables[definition.name.lower()], TableLog(self._folder, key, definition)
            connected = table_connector(definition) is not None
            if key not in self._logged:
                version, begun = log.begin(table), "" if connected else _digest(table.batch())
            elif connected:
                newest[key] = before[key]  # later versions are found when a micro-batch begins
                continue
            else:
                version, begun = log.write(*self._logged[key], table), before[key]["begun"]
            self._logged[key] = version, table.numbers
            newest[key] = {"version": version, "rows": table.batch().num_rows, "begun": begun}
        if newest == before:
            return False
        self._folder.write_json(NEWEST, newest)
        return True

    def go_on(self) -> None:
        """The tables learn how far the queries that read them have come: keys that were taken away are free again."""
        hosting = self._books.hosting
        for name, consumer in hosting.consumers.items():
            if not consumer.tables:
                continue
            reached = min(root.watermark for channel in consumer.inputs for root in hosting.graph.roots(channel))
            if reached > self._reached.get(name, hosting.queries[name].watermark):
                self._reached[name] = reached
                for source in consumer.tables:
                    source.take(reached, reached)

    def refresh(self, names: Iterable[str]) -> None:
        """Brings tables with a connector to the rows that the last micro-batch has seen."""
        pins = last_pins(self._folder, LATEST)
        for name in names:
            table, key = self._books.tables[name.lower()], self._program.newest.table_key(name)
            if table_connector(table.definition) is not None and key in pins:
                table.restore(TableLog(self._folder, key, table.definition).at(pins[key].version).snapshot())


def _digest(rows: pa.RecordBatch) -> str:
    return hashlib.sha256(repr(rows.to_pylist()).encode()).hexdigest()
