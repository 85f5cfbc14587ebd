"""A table: rows that statements change, by primary key or as a bag.

A statement is all or nothing: it is checked before anything changes. Every row has a number, which no other row ever
has; a row that is updated is another one. Plans that read the table are told of each change and apply it from the
instant up to which they have come (`table_source`), so that the table itself knows no time.

A key of a non-retroactive table that was taken away is free again when all queries that read the table have gone on
past that instant: until then it would be one key of two rows at one instant (Golab 2006, section 3.3.1).

INSERT costs O(new rows) amortised; UPDATE and DELETE O(rows): WHERE is evaluated on whole columns.
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
    """The rows of a definition, and who reads them."""

    def __init__(self, definition: TableDefinition) -> None:
        self.definition = definition
        self._schema = definition.schema.to_arrow()
        self._rows = StoredColumns(self._schema)
        self._numbers = NONE
        self._fresh: list[Ints] = []  # numbers of the last rows, not yet at the end of `_numbers`
        self._next = 0
        self._known_keys: set[Key] | None = set()  # None: to be taken from the rows when they are needed
        self._readers: list[TableSource] = []

    @property
    def name(self) -> str:
        return self.definition.name

    def batch(self) -> pa.RecordBatch:
        """All rows, in the order in which they came."""
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
        """Equal at two instants between which no row has come or gone: each that comes has a number of its own."""
        return self._next, self.row_count

    @property
    def changes(self) -> Channel | None:
        """What those who read the table wait for too: the stream that changes it, if one does."""
        return None

    @property
    def held_from(self) -> int | None:
        """What it was before this instant is not known to somebody who begins to read now; None: it is as it is."""
        return None

    @property
    def last_change(self) -> int | None:
        """When it changed last, where its changes have instants of their own."""
        return None

    def stats(self) -> dict[str, Any]:
        return {"rows": self.row_count, "bytes": self.bytes_held, "changes": "statements"}

    def check_known(self) -> None:
        """Raises where nobody knows what is in the table."""

    @property
    def is_read(self) -> bool:
        return bool(self._readers)

    def attach(self, reader: TableSource) -> None:
        """Tells the reader of all rows, and of every change from now on."""
        self._readers.append(reader)
        if self._rows.count:
            reader.change(NONE, self.batch(), self._all_numbers())

    def detach(self, reader: TableSource) -> None:
        self._readers = [other for other in self._readers if other is not reader]

    # -- statements ----------------------------------------------------------------------------------------------

    def run(self, statement: s.Insert | s.Update | s.Delete) -> None:
        """Changes the rows; DataError, and nothing changed, where keys would not be keys any more."""
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
        """Changes the rows to these; those that are in both stay. DataError, and nothing changed, as for statements.

        O(rows). Keys that go may come back at any time: what is read anew as a whole has no history of its keys.
        """
        check_keys(rows, self.definition)
        going, fresh = differing(self.batch(), rows, self.definition.schema)
        self._known_keys = None
        numbers = np.arange(self._next, self._next + len(fresh), dtype=np.int64)
        self._move(going, rows.take(pa.array(fresh)), numbers)

    def _change(self, places: Ints, old: pa.RecordBatch, new: pa.RecordBatch) -> None:
        """The rows at these places, which are `old`, go; the new ones come. An update has one new row for each old."""
        old_keys, new_keys = self._keys_of(old), self._keys_of(new)
        self._check(old_keys, new_keys)
        self._keys.difference_update(old_keys)
        self._keys.update(new_keys)
        numbers = np.arange(self._next, self._next + new.num_rows, dtype=np.int64)
        self._move(places, new, numbers)
        for reader in self._readers if not self.definition.retroactive else ():
            reader.retire(set(old_keys) - set(new_keys))

    def follow(self, ended: Ints, new: pa.RecordBatch, numbers: Ints) -> None:
        """A change that another table has checked and made: rows go by their numbers, and new ones come with theirs."""
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
        """The primary keys of rows, in plain values that are equal where the keys are; none where there is no key."""
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
                f"the key {self._shown(key)} of '{self.name}' was just taken away, and a query that reads the table "
                "has not gone on since",
                hint="a NON RETROACTIVE table has a key once at an instant: UPDATE the row without changing its key",
            )

    def _shown(self, key: Key) -> str:
        named = zip(self.definition.primary_key, key, strict=True)
        return ", ".join(f"{name} = {value!r}" for name, value in named)

    # -- snapshots -----------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        return {"rows": self.batch(), "numbers": self._all_numbers(), "next": self._next}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Readers are told nothing: what waits for them is part of their own snapshot."""
        self._rows = StoredColumns(self._schema)
        self._rows.append(snapshot["rows"])
        self._numbers, self._fresh, self._next = snapshot["numbers"], [], snapshot["next"]
        self._known_keys = None


def _plain_values(column: pa.Array) -> list[Any]:
    """NaN equals itself, -0.0 equals 0.0; temporal values are numbers, decimals text."""
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
