"""A table: rows that statements change, by primary key or as a bag.

A statement is all or nothing: it is checked before anything changes. Every row has a number that no other row ever has;
an updated row gets a new number. Plans that read the table are told of each change, and apply it at their own watermark
(`table_source.py`). So the table itself has no notion of time.

In a non-retroactive table, a deleted key is free again when all queries that read the table have advanced past the
deletion. Until then, two rows would have the same key at one instant (Golab 2006, section 3.3.1).

INSERT costs O(new rows) amortised. UPDATE and DELETE cost O(rows): WHERE is evaluated on whole columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import empty_batch, flags
from panewise.arrays import Ints
from panewise.catalog import TableDefinition
from panewise.engine.channels.channel import Channel
from panewise.engine.tables.table_content import check_keys, differing
from panewise.errors import DataError
from panewise.language import statements as s
from panewise.language.expressions import Expression
from panewise.operators.deltas.table_source import Key, TableSource
from panewise.operators.held.stored_columns import StoredColumns
from panewise.operators.relation_delta import NONE
from panewise.plan.expressions.evaluate import compiled


class Table:
    """The rows of a table, and its readers."""

    def __init__(self, definition: TableDefinition) -> None:
        self.definition = definition
        self._schema = definition.schema.to_arrow()
        self._rows = StoredColumns(self._schema)
        self._numbers = NONE
        self._fresh: list[Ints] = []  # Numbers of the last rows, which are not yet in `_numbers`.
        self._next = 0
        self._known_keys: set[Key] | None = set()  # None: to be made from the rows when needed.
        self._readers: list[TableSource] = []

    @property
    def name(self) -> str:
        return self.definition.name

    def batch(self) -> pa.RecordBatch:
        """All rows, in order of insertion."""
        return self._rows.batch()

    @property
    def numbers(self) -> Ints:
        """The numbers of all rows, ascending."""
        return self._all_numbers()

    @property
    def bytes_held(self) -> int:
        return self._rows.bytes_held + 8 * self._rows.count

    @property
    def row_count(self) -> int:
        return self._rows.count

    @property
    def moment(self) -> object:
        """Equal for two calls if no row was added or removed between them."""
        return self._next, self.row_count

    @property
    def changes(self) -> Channel | None:
        """The stream that changes the table, which its readers wait for; None if statements change it."""
        return None

    @property
    def held_from(self) -> int | None:
        """A new reader does not know the contents before this instant; None: the table has no notion of time."""
        return None

    @property
    def last_change(self) -> int | None:
        """The instant of its last change; None if changes have no instants."""
        return None

    def stats(self) -> dict[str, Any]:
        return {"rows": self.row_count, "bytes": self.bytes_held, "changes": "statements"}

    def check_known(self) -> None:
        """NotHeldError if the contents of the table are not known."""

    @property
    def is_read(self) -> bool:
        return bool(self._readers)

    def attach(self, reader: TableSource) -> None:
        """Tells a reader of all rows, and of every change from now on."""
        self._readers.append(reader)
        if self._rows.count:
            reader.change(NONE, self.batch(), self._all_numbers())

    def detach(self, reader: TableSource) -> None:
        self._readers = [other for other in self._readers if other is not reader]

    # -- statements ----------------------------------------------------------------------------------------------

    def run(self, statement: s.Insert | s.Update | s.Delete) -> None:
        """Changes the rows; DataError, and no change, if the primary key would be violated."""
        match statement:
            case s.Insert(rows=rows):
                columns = [
                    pa.array(values, field.type)
                    for values, field in zip(zip(*rows, strict=True), self._schema, strict=True)
                ]
                self._change(NONE, empty_batch(self._schema), pa.RecordBatch.from_arrays(columns, schema=self._schema))
            case s.Update(assignments=assignments, where=where):
                places, old = self._found(where)
                given = {name: compiled(value)(old) for name, value in assignments}
                columns = [
                    given.get(field.name, old.column(i)).cast(field.type) for i, field in enumerate(self._schema)
                ]
                self._change(places, old, pa.RecordBatch.from_arrays(columns, schema=self._schema))
            case s.Delete(where=where):
                places, old = self._found(where)
                self._change(places, old, empty_batch(self._schema))

    def _found(self, where: Expression | None) -> tuple[Ints, pa.RecordBatch]:
        batch = self.batch()
        if where is None:
            return np.arange(batch.num_rows, dtype=np.int64), batch
        places = np.flatnonzero(flags(compiled(where)(batch)))
        return places, batch.take(pa.array(places))

    def become(self, rows: pa.RecordBatch) -> None:
        """Replaces the contents by these rows; rows in both stay. DataError, and no change, as for statements.

        O(rows). Removed keys may come back at any time, because a content that is read as a whole has no history.
        """
        check_keys(rows, self.definition)
        going, fresh = differing(self.batch(), rows, self.definition.schema)
        self._known_keys = None
        numbers = np.arange(self._next, self._next + len(fresh), dtype=np.int64)
        self._move(going, rows.take(pa.array(fresh)), numbers)

    def _change(self, places: Ints, old: pa.RecordBatch, new: pa.RecordBatch) -> None:
        """Removes the rows at these places, which are `old`, and adds the new ones. An update has a new row for each
        old one."""
        old_keys, new_keys = self._keys_of(old), self._keys_of(new)
        self._check(old_keys, new_keys)
        self._keys.difference_update(old_keys)
        self._keys.update(new_keys)
        numbers = np.arange(self._next, self._next + new.num_rows, dtype=np.int64)
        self._move(places, new, numbers)
        for reader in self._readers if not self.definition.retroactive else ():
            reader.retire(set(old_keys) - set(new_keys))

    def follow(self, ended: Ints, new: pa.RecordBatch, numbers: Ints) -> None:
        """Applies a change that another table has checked and made; rows have the numbers that they have there."""
        self._known_keys = None
        self._move(np.flatnonzero(np.isin(self._all_numbers(), ended)).astype(np.int64), new, numbers)

    def _move(self, places: Ints, new: pa.RecordBatch, numbers: Ints) -> None:
        ended = NONE
        if len(places):
            known = self._all_numbers()
            ended = known[places]
            stays = np.ones(len(known), np.bool_)
            stays[places] = False
            self._numbers, self._fresh = known[stays], []
            self._rows.keep(np.flatnonzero(stays).astype(np.int32))
        self._rows.append(new)
        self._fresh.append(numbers)
        self._next = max([self._next, *(numbers[-1:] + 1).tolist()])
        for reader in self._readers:
            reader.change(ended, new, numbers)

    def _all_numbers(self) -> Ints:
        self._numbers, self._fresh = np.concatenate([self._numbers, *self._fresh]), []
        return self._numbers

    # -- keys ----------------------------------------------------------------------------------------------------

    @property
    def _keys(self) -> set[Key]:
        if self._known_keys is None:
            self._known_keys = set(self._keys_of(self.batch()))
        return self._known_keys

    def _keys_of(self, batch: pa.RecordBatch) -> list[Key]:
        """The primary keys of rows, as plain values that are equal if the keys are; empty if there is no primary
        key."""
        if not self.definition.primary_key:
            return []
        columns = [_plain_values(batch.column(name)) for name in self.definition.primary_key]
        return list(zip(*columns, strict=True))

    def _check(self, old: Sequence[Key], new: Sequence[Key]) -> None:
        going, seen = set(old), set()
        for position, key in enumerate(new):
            if None in key:
                column = self.definition.primary_key[key.index(None)]
                raise DataError(f"'{column}' is part of the primary key of '{self.name}' and cannot be NULL")
            if key in seen:
                raise DataError(f"two rows of '{self.name}' would have the key {self._shown(key)}")
            if key in self._keys and key not in going:
                raise DataError(
                    f"'{self.name}' already has a row with the key {self._shown(key)}", hint="UPDATE changes a row"
                )
            seen.add(key)
            stays_its_own = position < len(old) and old[position] == key
            if not self.definition.retroactive and not stays_its_own:
                self._check_free(key, going)

    def _check_free(self, key: Key, going: set[Key]) -> None:
        if self._readers and (key in going or any(key in reader.retired for reader in self._readers)):
            raise DataError(
                f"the key {self._shown(key)} of '{self.name}' was just deleted, and a query that reads the table has "
                "not advanced since",
                hint="a NON RETROACTIVE table has a key only once at an instant: UPDATE the row and leave its key",
            )

    def _shown(self, key: Key) -> str:
        named = zip(self.definition.primary_key, key, strict=True)
        return ", ".join(f"{name} = {value!r}" for name, value in named)

    # -- snapshots -----------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        return {"rows": self.batch(), "numbers": self._all_numbers(), "next": self._next}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Readers are not told: their own snapshots have the changes that they have not applied yet."""
        self._rows = StoredColumns(self._schema)
        self._rows.append(snapshot["rows"])
        self._numbers, self._fresh, self._next = snapshot["numbers"], [], snapshot["next"]
        self._known_keys = None


def _plain_values(column: pa.Array) -> list[Any]:
    """Values that are equal if keys are: NaN equals itself, and -0.0 equals 0.0. Temporal values become numbers,
    decimals text."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_decimal(column.type):
        column = column.cast(pa.string())
    elif pa.types.is_floating(column.type):
        return [None if value is None else repr(value + 0.0) for value in column.to_pylist()]
    values: list[Any] = column.to_pylist()
    return values
