"""Pins the version of every table that a micro-batch sees, before anything of it runs.

Spark hands a micro-batch to `foreachBatch` as a DataFrame that is not evaluated yet, so pins that are written there
hold for all its tasks. A table that statements change is pinned at its newest version. For a table with a connector,
the connector is checked: if its content has changed, it is read and logged as the next version. If it cannot be read or
is not a valid table (equal keys), the last version stays pinned and `Pin.problem` says why. A micro-batch that is
handed over again has its pins already, and no connector is checked.

Cost of a micro-batch in which no table has changed: a listing of files for each table with a connector, and two small
files.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from panewise.catalog import TableDefinition
from panewise.connectors.tables import table_connector
from panewise.engine.tables.table import Table
from panewise.errors import PanewiseError
from panewise.spark.environment.folder import Folder
from panewise.spark.program.known_programs import versions_of
from panewise.spark.program.reference import Reference
from panewise.spark.tables.table_log import NEWEST, Pin, TableLog, last_pins, pins_file, write_pins
from panewise.spark.tables.table_readers import table_reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class TablePins:
    """Pickled as its reference: through Spark Connect the server runs it, and finds the tables in the program."""

    reference: Reference
    _known: dict[str, tuple[int, Table]] = field(default_factory=dict)  # last version of tables with a connector

    def __reduce__(self) -> tuple[type[TablePins], tuple[Reference]]:
        return TablePins, (self.reference,)

    @property
    def folder(self) -> Folder:
        return self.reference.folder

    @cached_property
    def held(self) -> list[tuple[int, dict[str, TableDefinition]]]:
        """The tables of each version, and its first micro-batch."""
        return [(version.from_batch, version.tables) for version in versions_of(self.reference)]

    def pin(self, batch: int, spark: SparkSession | None) -> None:
        """Pins the tables of a micro-batch, unless that was done before. Removes versions that are no longer needed."""
        tables = next((tables for first, tables in reversed(self.held) if first <= batch), {})
        before = last_pins(self.folder, batch - 1) if any(tables for _, tables in self.held) else {}
        if not (tables or before) or self.folder.exists(pins_file(batch)):
            return
        newest = self.folder.read_json(NEWEST) or {}
        pins = {}
        for key, definition in tables.items():
            version, rows = newest[key]["version"], newest[key]["rows"]
            if table_connector(definition) is None:
                pins[key] = Pin(version, rows)
            else:
                pins[key] = self._looked(key, definition, before.get(key, Pin(version, rows)), spark)
        write_pins(self.folder, batch, pins)
        # The micro-batch before has ended: nobody will need versions older than those it saw.
        for key, pin in before.items():
            if key in tables:
                TableLog(self.folder, key, tables[key]).forget(pin.version)
            else:
                self._gone(key)

    def _looked(self, key: str, definition: TableDefinition, last: Pin, spark: SparkSession | None) -> Pin:
        try:
            reader = table_reader(definition, spark)
            seen = reader.seen()
            if seen == last.seen:
                return last
            rows = reader.rows(seen)
            log = TableLog(self.folder, key, definition)
            if self._known.get(key, (0, None))[0] != last.version:
                self._known[key] = last.version, log.at(last.version)
            before = self._known[key][1]
            table = Table(definition)
            table.restore(before.snapshot())
            table.become(rows)
        except PanewiseError as problem:
            return replace(last, problem=problem.message)
        version = log.write(last.version, before.numbers, table)
        self._known[key] = version, table
        return Pin(version, rows.num_rows, seen)

    def _gone(self, key: str) -> None:
        definition = next((tables[key] for _, tables in reversed(self.held) if key in tables), None)
        if definition is not None:
            TableLog(self.folder, key, definition).forget(None)
