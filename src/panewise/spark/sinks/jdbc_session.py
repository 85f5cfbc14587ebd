"""Writes batches to one PostgreSQL database, each in one transaction; `jdbc` says why that is exactly once.

Rows are sent as CSV, which Arrow writes without Python objects for values. Cost: three round trips for each sink.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
from psycopg import Connection, Cursor, sql

from panewise.errors import ConnectorError
from panewise.spark.sinks.jdbc_options import Database, Destination
from panewise.spark.sinks.sink_part_files import exists_already

Rows = Sequence[tuple[Destination, pa.Table]]

# Taken while tables are created, so that two sessions do not create the same one.
_CREATION_LOCK = 0x70616E6577697365
_comma = sql.SQL(", ")


class DatabaseSession:
    """A connection that is opened when it is needed, and the tables that are known to exist there."""

    def __init__(self, database: Database, checkpoint_id: str) -> None:
        self._database = database
        self._checkpoint_id = checkpoint_id
        self._connection: Connection[Any] | None = None
        self._ready: set[tuple[str, ...]] = set()  # tables that exist
        self._stages: dict[str, tuple[str, ...]] = {}  # temporary tables, by sink

    def prepare(self, places: Sequence[Destination], first_batch: int) -> None:
        self._transact(partial(self._prepare, places, first_batch))

    def write(self, batch_id: int, rows: Rows) -> None:
        self._transact(partial(self._write, batch_id, rows))

    def close(self) -> None:
        """Closes the connection, and forgets its tables, which a failed transaction may not have created."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._ready.clear()
        self._stages.clear()

    def _transact(self, step: Callable[[Cursor[Any]], None]) -> None:
        """Runs the step in a transaction; if the connection is lost, once more on a new connection."""
        for last in (False, True):
            connection = self._connected()
            try:
                with connection.transaction(), connection.cursor() as cursor:
                    step(cursor)
                return
            except psycopg.Error as error:
                lost = connection.closed
                self.close()
                if last or not lost:
                    # Without the cause, whose traceback has the connection's text.
                    raise ConnectorError(f"PostgreSQL refuses: {self._database.hidden(error)}") from None
            except BaseException:
                self.close()
                raise

    def _connected(self) -> Connection[Any]:
        if self._connection is None:
            try:
                self._connection = psycopg.connect(self._database.connection_text, autocommit=True, connect_timeout=10)
            except psycopg.Error as error:
                message = f"PostgreSQL cannot be reached: {self._database.hidden(error)}"
                raise ConnectorError(message) from None
        return self._connection

    def _prepare(self, places: Sequence[Destination], first_batch: int, cursor: Cursor[Any]) -> None:
        self._make_ready(places, cursor)
        for place in places:
            if place.existing == "append" or self._batch_last(place, cursor) >= first_batch:
                continue
            mine = _statement(" WHERE {} = %s", place.query_column) if place.query_column else _statement("")
            names = (place.target.query,) if place.query_column else ()
            if place.existing == "replace":
                cursor.execute(_statement("DELETE FROM {}", place.table) + mine, names)
                continue
            cursor.execute(_statement("SELECT 1 FROM {}", place.table) + mine + _statement(" LIMIT 1"), names)
            if cursor.fetchone() is not None:
                raise exists_already(".".join(place.table), place.target)

    def _batch_last(self, place: Destination, cursor: Cursor[Any]) -> int:
        chosen = _statement("SELECT batch_id FROM {} WHERE checkpoint = %s AND sink = %s", self._database.batches_table)
        cursor.execute(chosen, (self._checkpoint_id, place.target.name))
        found = cursor.fetchone()
        return -1 if found is None else int(found[0])

    def _write(self, batch_id: int, rows: Rows, cursor: Cursor[Any]) -> None:
        self._make_ready([place for place, _ in rows], cursor)
        new = self._moved_forward(batch_id, [place.target.name for place, _ in rows], cursor)
        for place, table in rows:
            if place.target.name in new:
                self._put(place, table, cursor)

    def _moved_forward(self, batch_id: int, sinks: list[str], cursor: Cursor[Any]) -> set[str]:
        """Notes the batch for the sinks that do not have it yet, and returns these sinks."""
        moved = _statement(
            "INSERT INTO {} AS known (checkpoint, sink, batch_id) "
            "SELECT %s, sink, %s FROM unnest(%s::text[]) AS given (sink) "
            "ON CONFLICT (checkpoint, sink) DO UPDATE SET batch_id = excluded.batch_id "
            "WHERE known.batch_id < excluded.batch_id RETURNING sink",
            self._database.batches_table,
        )
        # Sorted, so that two drivers lock rows in the same order and cannot deadlock.
        cursor.execute(moved, (self._checkpoint_id, batch_id, sorted(sinks)))
        return {name for (name,) in cursor.fetchall()}

    def _put(self, place: Destination, table: pa.Table, cursor: Cursor[Any]) -> None:
        names = [name for name, _ in place.columns]
        staged = self._stage(place, cursor) if place.key else place.table
        with cursor.copy(_statement("COPY {} ({}) FROM STDIN (FORMAT csv)", staged, names)) as copy:
            copy.write(csv_bytes(table, place))
        if not place.key:
            return
        others = [name for name in names if name not in place.key]
        upsert = _statement("INSERT INTO {} ({}) SELECT {} FROM {}", place.table, names, names, staged)
        upsert += _statement(" ON CONFLICT ({}) DO ", list(place.key))
        upsert += _assignments(others) if others else _statement("NOTHING")
        cursor.execute(upsert)

    def _stage(self, place: Destination, cursor: Cursor[Any]) -> tuple[str, ...]:
        """The sink's temporary table, which is empty at the beginning of every transaction."""
        stage = self._stages.get(place.target.name)
        if stage is None:
            stage = ("pg_temp", f"panewise_{len(self._stages)}")
            created = _statement("CREATE TEMPORARY TABLE {} (", stage[1:]) + _columns(place)
            cursor.execute(created + _statement(") ON COMMIT DELETE ROWS"))
            self._stages[place.target.name] = stage
        return stage

    def _make_ready(self, places: Sequence[Destination], cursor: Cursor[Any]) -> None:
        batches = self._database.batches_table
        wanted = [place for place in places if place.table not in self._ready]
        if batches in self._ready and not wanted:
            return
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATION_LOCK,))
        if not _is_there(batches, cursor):
            cursor.execute(
                _statement(
                    "CREATE TABLE {} (checkpoint text, sink text, batch_id bigint NOT NULL, "
                    "PRIMARY KEY (checkpoint, sink))",
                    batches,
                )
            )
        for place in wanted:
            if not _is_there(place.table, cursor):
                self._create(place, cursor)
            elif place.key:
                _check_key(place, cursor)
            self._ready.add(place.table)
        self._ready.add(batches)

    def _create(self, place: Destination, cursor: Cursor[Any]) -> None:
        if not place.create:
            raise ConnectorError(
                f"the table {place.shown} of {place.target.owner} does not exist", hint="create = true would make it"
            )
        if place.key and cursor.connection.info.server_version < 150_000:
            raise ConnectorError(
                f"{place.target.owner} needs PostgreSQL 15 or later, for a key in which NULL is a value"
            )
        created = _statement("CREATE TABLE {} (", place.table) + _columns(place)
        if place.key:
            created += _statement(", UNIQUE NULLS NOT DISTINCT ({})", list(place.key))
        cursor.execute(created + _statement(")"))


def csv_bytes(table: pa.Table, place: Destination) -> bytes:
    """The rows as CSV for PostgreSQL: every value in quotes, and NULL as an empty field."""
    columns = [_printable(column) for column in table.columns]
    if place.query_column:
        columns.insert(0, pa.chunked_array([pa.repeat(place.target.query, table.num_rows)]))
    names = [name for name, _ in place.columns]
    out = io.BytesIO()
    options = csv.WriteOptions(include_header=False, quoting_style="all_valid")
    csv.write_csv(pa.Table.from_arrays(columns, names=names), out, options)
    return out.getvalue()


def _printable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return pc.replace_substring(column, "\0", "\ufffd")
    return column


def _is_there(table: tuple[str, ...], cursor: Cursor[Any]) -> bool:
    # CREATE TABLE IF NOT EXISTS needs the right to create tables even if the table exists.
    cursor.execute("SELECT to_regclass(%s) IS NOT NULL", (sql.Identifier(*table).as_string(cursor.connection),))
    found = cursor.fetchone()
    return found is not None and bool(found[0])


def _check_key(place: Destination, cursor: Cursor[Any]) -> None:
    """Refuses a table that has no unique constraint on the key of the results."""
    cursor.execute(
        "SELECT array_agg(attname ORDER BY attname) FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND "
        "attnum = ANY (indkey) WHERE indrelid = %s::regclass AND indisunique AND indpred IS NULL GROUP BY indexrelid",
        (sql.Identifier(*place.table).as_string(cursor.connection),),
    )
    if not any(set(found) == set(place.key) for (found,) in cursor.fetchall()):
        needed = _statement("UNIQUE NULLS NOT DISTINCT ({})", list(place.key)).as_string(cursor.connection)
        raise ConnectorError(
            f"the table {place.shown} of {place.target.owner} has no unique key of {', '.join(place.key)}",
            hint=f"ALTER TABLE ... ADD {needed}",
        )


def _columns(place: Destination) -> sql.Composed:
    # The types come from `column_type`, so they need no quoting.
    return _comma.join(sql.Identifier(name) + sql.SQL(f" {type}") for name, type in place.columns)


def _assignments(names: list[str]) -> sql.Composed:
    return sql.SQL("UPDATE SET ") + _comma.join(_statement("{} = excluded.{}", name, name) for name in names)


def _statement(template: str, *names: str | tuple[str, ...] | list[str]) -> sql.Composed:
    """Fills each `{}` of the template: a tuple is one qualified name, a list is names separated by commas."""
    filled: list[sql.Composable] = []
    for given in names:
        if isinstance(given, list):
            filled.append(_comma.join(map(sql.Identifier, given)))
        else:
            filled.append(sql.Identifier(given) if isinstance(given, str) else sql.Identifier(*given))
    return sql.SQL(template).format(*filled)
