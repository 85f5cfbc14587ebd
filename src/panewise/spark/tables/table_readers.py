"""How a table with a connector is read on Spark, and how a change of its content is noticed without reading it.

| connector          | place          | a change shows in                           | rows are read by              |
| ------------------ | -------------- | ------------------------------------------- | ----------------------------- |
| parquet, csv, json | this machine   | names, sizes and modification times         | the embedded engine's readers |
| parquet, csv, json | an address     | the same, as Spark lists them               | Spark, in the driver          |
| delta              | anywhere       | the table's own version                     | Spark, at that version        |

The driver and every bucket that joins the table hold all its rows: at most `connectors.tables.TABLE_ROWS_MAX`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from panewise.catalog import TableDefinition
from panewise.connectors.files import ENDINGS, files_of
from panewise.connectors.tables import (
    TABLE_ROWS_MAX,
    check_size,
    check_table,
    declared,
    read_table,
    table_connector,
    whole,
)
from panewise.errors import ConnectorError
from panewise.spark.environment.data_sources import check_delta
from panewise.spark.ingest.row_decoders import local_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Spark's error conditions for a path where nothing is.
_ABSENT = ("PATH_NOT_FOUND", "DELTA_TABLE_NOT_FOUND", "DELTA_MISSING_DELTA_TABLE", "DELTA_PATH_DOES_NOT_EXIST")


class TableReader(Protocol):
    """Reads a table with a connector."""

    def seen(self) -> str:
        """What identifies the content now: differs from an earlier text if the content may have changed. Cheap."""
        ...

    def rows(self, seen: str) -> pa.RecordBatch:
        """All rows: of the content that `seen` identifies, if the connector keeps old versions."""
        ...


def table_reader(table: TableDefinition, spark: SparkSession | None) -> TableReader:
    """The reader of a table with a connector; ConnectorError if its options are wrong."""
    path = str(check_table(table)["path"])
    if table_connector(table) == "delta":
        return DeltaReader(table, path, _session(table, spark))
    if "://" in path and not path.startswith("file:"):
        return AddressReader(table, path, _session(table, spark))
    options = tuple((name, local_path(path) if name.lower() == "path" else value) for name, value in table.options)
    return LocalReader(replace(table, options=options), local_path(path))


def _session(table: TableDefinition, spark: SparkSession | None) -> SparkSession:
    assert spark is not None, f"only Spark reads table '{table.name}'"
    return spark


@dataclass(frozen=True)
class LocalReader:
    """Files of the driver's machine."""

    table: TableDefinition
    path: str

    def seen(self) -> str:
        connector = table_connector(self.table)
        assert connector is not None
        found = []
        for file in files_of(self.path, ENDINGS[connector], f"table '{self.table.name}'"):
            status = file.stat()
            found.append(f"{file} {status.st_size} {status.st_mtime_ns}")
        return "\n".join(found)

    def rows(self, seen: str) -> pa.RecordBatch:
        return read_table(self.table)


@dataclass(frozen=True)
class AddressReader:
    """Files on another file system, which Spark knows."""

    table: TableDefinition
    path: str
    spark: SparkSession

    def seen(self) -> str:
        listing = self.spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(self.path)
        try:
            rows = listing.select("path", "length", "modificationTime").collect()
        except Exception as error:
            raise _refusal(self.table, self.path, error) from error
        return "\n".join(sorted(f"{name} {length} {changed}" for name, length, changed in rows))

    def rows(self, seen: str) -> pa.RecordBatch:
        match table_connector(self.table):
            case "parquet":
                frame = self.spark.read.parquet(self.path)
            case "csv":
                frame = self.spark.read.csv(self.path, header=True)
            case _:
                ddl = ", ".join(f"`{column.name}` {column.type}" for column in self.table.schema)
                frame = self.spark.read.schema(ddl).json(self.path, mode="FAILFAST")
        return _collected(self.table, self.path, frame)


@dataclass(frozen=True)
class DeltaReader:
    """A Delta table at one of its own versions. Needs the session to have Delta Lake."""

    table: TableDefinition
    path: str
    spark: SparkSession

    def seen(self) -> str:
        check_delta(self.spark, f"table '{self.table.name}'")
        place = self.path.replace("`", "``")
        try:
            (last,) = self.spark.sql(f"DESCRIBE HISTORY delta.`{place}` LIMIT 1").collect()
        except Exception as error:
            raise _refusal(self.table, self.path, error) from error
        return str(last["version"])

    def rows(self, seen: str) -> pa.RecordBatch:
        frame = self.spark.read.format("delta").option("versionAsOf", seen).load(self.path)
        return _collected(self.table, self.path, frame)


def _collected(table: TableDefinition, path: str, frame: DataFrame) -> pa.RecordBatch:
    try:
        found: Any = frame.limit(TABLE_ROWS_MAX + 1).toArrow()
    except Exception as error:
        raise _refusal(table, path, error) from error
    check_size(table, found.num_rows)
    batches = found.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], found.schema)]
    return whole([declared(batch, table) for batch in batches], table)


def _refusal(table: TableDefinition, path: str, error: Exception) -> ConnectorError:
    if any(condition in str(error) for condition in _ABSENT):
        return ConnectorError(f"the path '{path}' of table '{table.name}' does not exist")
    return ConnectorError(f"'{path}' of table '{table.name}' cannot be read: {error}")
