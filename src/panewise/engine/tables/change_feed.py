"""The reader of a change stream, which applies its rows to a table in event-time order.

Rows are applied when the watermark has passed them, all rows of an instant together, so the table never revises its
contents. A column of the stream may say what a row does; without it, each row is an upsert.

    operation   with a primary key                          without a primary key
    upsert      replaces the row with its key, or adds one  adds a row
    insert      adds a row; its key must be new             adds a row
    update      replaces the row with its key, which must   (bad)
                exist
    delete      removes the row with its key, if any        removes one row with equal values, if any

A change that does not fit is a bad row (option `on_bad_row` of the stream): 'skip' sets it aside; with 'fail', the
table has failed and is not known from that instant on. In a non-retroactive table, a key that was deleted cannot be
added again at the same instant (Golab 2006, section 3.3.1).

`latest_rows.py` finds the rows that a change concerns.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from panewise.aggregates.columns import flags
from panewise.arrays import INT64_MAX, INT64_MIN, Ints
from panewise.catalog import Catalog, StreamDefinition, TableDefinition
from panewise.engine.channels.readers import Reader
from panewise.engine.ingest.intake import shown_row
from panewise.engine.ingest.stream import Stream
from panewise.engine.tables.changed_table import ChangedTable
from panewise.engine.tables.latest_rows import (
    MISSING,
    NO_KEY,
    NULL_KEY,
    OPERATIONS,
    RETIRED,
    TAKEN,
    UNKNOWN,
    UPDATE,
    UPSERT,
)
from panewise.errors import PlanError, did_you_mean
from panewise.operators.row_batch import Rows
from panewise.plan.explanation import Explanation
from panewise.plan.supported.supported_plans import KEYS_MAX
from panewise.schema import STRING


class ChangeFeed(Reader):
    """Reads the change stream of a table. It is attached before the queries that read the table."""

    def __init__(self, table: ChangedTable, stream: Stream) -> None:
        self.table = table
        self.stream = stream
        definition = table.definition
        operation = definition.operation
        self.operation = None if operation is None else stream.schema[operation].name
        self._names = [stream.schema[name].name for name in definition.schema.names]  # As the stream spells them.
        self._arrow = definition.schema.to_arrow()
        self._keyed = bool(definition.primary_key)
        self._key_names = definition.primary_key or definition.schema.names
        self._taking = INT64_MIN  # The first instant of the last rows.

    def explained(self) -> Explanation:
        said = {"primary key": ", ".join(self.table.definition.primary_key)} if self._keyed else {}
        if self.operation is not None:
            said["operation"] = self.operation
        return Explanation(f"TABLE {self.table.name}", said)

    @property
    def running(self) -> list[str]:
        """Empty: it belongs to no query."""
        return []

    def next_due(self) -> int:
        return INT64_MAX  # It has no results of its own.

    def begin(self) -> None:
        """Reads the stream from now on, beginning with rows that the watermark has not passed."""
        self.stream.attach(self)

    def end(self) -> None:
        self.stream.detach(self)

    def fail(self, reason: str) -> None:
        """The table fails from the last rows on, which may have been applied in part."""
        self.table.fail(self._taking, reason)

    def take(self, rows: Rows, watermark: int) -> None:
        if not len(rows) or self.table.failed:
            return
        self._taking = int(rows.times[0])
        batch = rows.batch.select(self._names).rename_columns(self._arrow.names).cast(self._arrow)
        operations, problems = self._read(rows.batch, batch)
        stops = not self.stream.judge.skips_bad
        done = self.table.apply(batch, operations, rows.times, problems, stops)
        bad = np.flatnonzero(problems[: done + 1]).tolist()
        reasons = [(rows.batch.slice(i, 1), self._reason(rows.batch, batch, i, int(problems[i]))) for i in bad]
        if stops and reasons:
            row, reason = reasons[0]
            self.table.fail(int(rows.times[bad[0]]), f"{reason}; the row: {shown_row(row)}")
        elif reasons:
            self.stream.bad.take(reasons)

    def _read(self, whole: pa.RecordBatch, batch: pa.RecordBatch) -> tuple[Ints, Ints]:
        """The operation of each row, and the problems that do not depend on the table's rows."""
        operations, problems = np.full(len(batch), UPSERT, np.int64), np.zeros(len(batch), np.int64)
        if self.operation is not None:
            words = pc.utf8_lower(whole.column(self.operation).cast(pa.string()))
            found = pc.index_in(words, pa.array(OPERATIONS))
            operations = np.asarray(pc.fill_null(found, -1)).astype(np.int64)
        if self._keyed:
            for name in self._key_names:
                problems[_missing(batch.column(name))] = NULL_KEY
        else:
            problems[operations == UPDATE] = NO_KEY
        problems[operations < 0] = UNKNOWN
        return operations, problems

    def _reason(self, whole: pa.RecordBatch, batch: pa.RecordBatch, i: int, problem: int) -> str:
        name = self.table.name
        values = {key: batch.column(key)[i].as_py() for key in self._key_names}
        key = ", ".join(f"{column} = {value!r}" for column, value in values.items())
        if problem == NULL_KEY:
            column = next(column for column, value in values.items() if value is None)
            return f"'{column}' is part of the primary key of '{name}' and cannot be NULL"
        if problem == UNKNOWN:
            assert self.operation is not None
            found = whole.column(self.operation)[i].as_py()
            return f"{self.operation} = {found!r} is not one of {', '.join(map(repr, OPERATIONS))}"
        return {
            NO_KEY: f"'update' cannot find its row: '{name}' has no primary key",
            TAKEN: f"'{name}' already has a row with the key {key}",
            MISSING: f"'{name}' has no row with the key {key} to update",
            RETIRED: f"the key {key} of '{name}' was deleted at the same instant, and a NON RETROACTIVE table has a "
            "key only once at an instant",
        }[problem]


def _missing(column: pa.Array) -> NDArray[np.bool_]:
    return flags(pc.is_null(column))


def check_changes(definition: TableDefinition, catalog: Catalog) -> None:
    """Refuses a table whose change stream does not exist, or does not have the table's columns."""
    options = dict(definition.options)
    if definition.changes is None:
        if "operation" in options:
            raise PlanError(
                f"table '{definition.name}' says which column is its operation, but not which stream has it",
                hint="add changes = 'the stream'",
            )
        return
    if "connector" in options:
        raise PlanError(f"table '{definition.name}' is changed by a stream: give the connector to the stream")
    stream = catalog.get(definition.changes, "stream")
    assert isinstance(stream, StreamDefinition)
    if stream.sheds:
        raise PlanError(
            f"stream '{stream.name}' may drop rows, and a table needs all of its changes",
            hint="create the stream without shedding: its pushers are slowed instead",
        )
    for column in definition.schema:
        found = stream.schema.find(column.name)
        if found is None:
            raise PlanError(
                f"stream '{stream.name}' has no column '{column.name}', which table '{definition.name}' takes from it",
                hint=did_you_mean(column.name, stream.schema.names),
            )
        if found.type != column.type:
            raise PlanError(
                f"column '{column.name}' is {column.type} in table '{definition.name}' and {found.type} in stream "
                f"'{stream.name}'",
                hint="both need the same type",
            )
    if len(definition.primary_key or definition.schema.names) > KEYS_MAX:
        raise PlanError(
            f"rows of '{definition.name}' are found by more than {KEYS_MAX} columns", hint="give it a PRIMARY KEY"
        )
    _check_operation(definition, stream)


def _check_operation(definition: TableDefinition, stream: StreamDefinition) -> None:
    name = definition.operation
    if name is None:
        return
    column = stream.schema.find(name)
    if column is None:
        raise PlanError(
            f"stream '{stream.name}' has no column '{name}', the operation of table '{definition.name}'",
            hint=did_you_mean(name, stream.schema.names),
        )
    if column.type != STRING:
        raise PlanError(f"the operation '{name}' of stream '{stream.name}' is {column.type}, and has to be STRING")
