"""The driver's side of tables: the rows in the books, and which version of the log they are.

The books (`pipeline.py`) hold every table and check each statement at once. Changes are logged when all statements of a
call are done, for all tables together, and the next micro-batch sees them (`table_log.py`).

A table of the checkpoint goes on with the rows that it has there. A file of definitions may insert at every start the
rows with which the table began: that changes nothing. Other rows are refused or, with `replace`, replace those of the
checkpoint.
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
    """Keeps the tables of the books and their log in step."""

    def __init__(self, folder: Folder, books: Engine, program: Program) -> None:
        self._folder = folder
        self._books = books
        self._program = program
        self._reached: dict[str, int] = {}  # watermarks of the queries that read tables
        self._logged: dict[str, tuple[int, Ints]] = {}  # last version and the numbers of its rows, by key

    def begin(self, replace: bool) -> None:
        """Continues the tables that checkpoint and books have in common; CatalogError if their rows differ."""
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
        """Logs what statements have changed; returns whether anything has."""
        before = self._folder.read_json(NEWEST) or {}
        newest = {}
        for key, definition in self._program.newest.tables.items():
            table, log = self._books.tables[definition.name.lower()], TableLog(self._folder, key, definition)
            connected = table_connector(definition) is not None
            if key not in self._logged:
                version, begun = log.begin(table), "" if connected else _digest(table.batch())
            elif connected:
                newest[key] = before[key]  # `table_pins.py` logs later versions
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
        """Tells the tables how far the queries that read them have come, so that keys of deleted rows become free."""
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
        """Brings tables with a connector to the rows that the last micro-batch saw."""
        pins = last_pins(self._folder, LATEST)
        for name in names:
            table, key = self._books.tables[name.lower()], self._program.newest.table_key(name)
            if table_connector(table.definition) is not None and key in pins:
                table.restore(TableLog(self._folder, key, table.definition).at(pins[key].version).snapshot())


def _digest(rows: pa.RecordBatch) -> str:
    return hashlib.sha256(repr(rows.to_pylist()).encode()).hexdigest()
