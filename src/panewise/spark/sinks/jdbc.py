"""PostgreSQL sinks (connector `jdbc`): an upsert keyed by the results' time and group columns, through psycopg.

All sinks of one database share one transaction per batch:

    1  panewise_batches(checkpoint, sink, batch_id): set each sink's last batch. A sink whose last batch is this one or
       a later one has the rows already, and is left out. The rows of that table are locked until the commit. So a
       driver that was believed dead waits here, and then writes nothing.
    2  for each sink, COPY into a temporary table, then INSERT ... ON CONFLICT DO UPDATE into its table. Results without
       a key (change logs, selected rows) are copied into the table itself: step 1 is enough to keep them single.

Exactly once: 1 and 2 are one transaction. The upsert is for another checkpoint that computes the same windows again: it
replaces the rows instead of doubling them.

A missing table is created, unless `create = false`. Its key is UNIQUE NULLS NOT DISTINCT (PostgreSQL 15), because NULL
is a group. With `query_column` the query's name is a column and part of the key, so that several queries with equal
columns can share a table. A connection stays open between batches; a lost one is replaced, once.

The character U+0000, which PostgreSQL's texts cannot hold, becomes U+FFFD.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from panewise.errors import ConnectorError
from panewise.spark.sinks.jdbc_options import Database, Destination, destination_of
from panewise.spark.sinks.sink_kind import SinkTarget, Tables

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from panewise.spark.sinks.jdbc_session import DatabaseSession


class JdbcSinks:
    """See the module."""

    def __init__(self, checkpoint_id: str) -> None:
        self._checkpoint_id = checkpoint_id
        self._sessions: dict[Database, DatabaseSession] = {}

    def __getstate__(self) -> dict[str, object]:
        return {"_checkpoint_id": self._checkpoint_id, "_sessions": {}}

    def check(self, targets: Sequence[SinkTarget], spark: SparkSession | None = None) -> None:
        tables: dict[tuple[Database, tuple[str, ...]], Destination] = {}
        for target in targets:
            place = destination_of(target)
            other = tables.setdefault((place.database, place.table), place)
            if other is place:
                continue
            if not place.query_column or (place.columns, place.key) != (other.columns, other.key):
                raise ConnectorError(
                    f"{target.owner} writes to the table {place.shown}, and so does {other.target.owner}",
                    hint="queries with the same columns and groups may share one, all with the same query_column",
                )

    def prepare(self, targets: Sequence[SinkTarget], first_batch: int) -> None:
        by_database: dict[Database, list[Destination]] = {}
        for place in map(destination_of, targets):
            by_database.setdefault(place.database, []).append(place)
        for database, places in by_database.items():
            self._session(database).prepare(places, first_batch)

    def write(self, batch_id: int, tables: Tables, spark: SparkSession | None) -> None:
        by_database: dict[Database, list[tuple[Destination, pa.Table]]] = {}
        for target, table in tables:
            if table.num_rows:
                place = destination_of(target)
                by_database.setdefault(place.database, []).append((place, table))
        for database, rows in by_database.items():
            self._session(database).write(batch_id, rows)

    def _session(self, database: Database) -> DatabaseSession:
        # Imported here, because psycopg may be missing, which `check` reports.
        from panewise.spark.sinks.jdbc_session import DatabaseSession

        if database not in self._sessions:
            self._sessions[database] = DatabaseSession(database, self._checkpoint_id)
        return self._sessions[database]
