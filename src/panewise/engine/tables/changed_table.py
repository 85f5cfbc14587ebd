"""A table that a stream changes: its rows at the stream's watermark, and its readers.

Each change has an instant (`change_feed.py`), and is passed on to readers. A plan that reads the table also waits for
the stream's watermark. So a row of its inputs meets the version of the table at the row's own instant, in whatever
order the two were pushed. Readers keep the versions that they have not passed yet (`table_source.py`); the table has
only the version at the watermark.

A change costs O(1) amortised (`latest_rows.py`): removed rows stay in place until there are many, or until the table is
read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import wrapped
from panewise.arrays import INT64_MIN, Ints
from panewise.catalog import TableDefinition
from panewise.engine.channels.channel import Channel
from panewise.engine.tables.latest_rows import LatestRows
from panewise.engine.tables.table import Table
from panewise.errors import NotHeldError, PlanError
from panewise.language import statements as s
from panewise.operators.deltas.table_source import TableSource
from panewise.operators.held.stored_columns import StoredColumns
from panewise.operators.relation_delta import NONE

GONE_MIN = 1024  # At least this many removed rows stay in place before they are taken out.


class ChangedTable(Table):
    """The rows of a table that a stream changes. `failed`: why a change could not be applied; empty if all could."""

    def __init__(self, definition: TableDefinition, changes: Channel) -> None:
        super().__init__(definition)
        self._gone: list[Ints] = []  # Numbers of removed rows that are still in place.
        self._gone_count = 0
        self.failed = ""
        self._changes = changes
        self._last_change = INT64_MIN
        self._key_names = definition.primary_key or definition.schema.names
        types = [definition.schema[name].type for name in self._key_names]
        self._latest = LatestRows(types, bool(definition.primary_key), not definition.retroactive)

    @property
    def changes(self) -> Channel:
        return self._changes

    @property
    def held_from(self) -> int | None:
        return self._changes.held_from

    @property
    def last_change(self) -> int:
        return self._last_change

    @property
    def row_count(self) -> int:
        return self._rows.count - self._gone_count

    @property
    def bytes_held(self) -> int:
        return super().bytes_held + self._latest.bytes_held

    def stats(self) -> dict[str, Any]:
        failed = {"status": "FAILED", "reason": self.failed} if self.failed else {}
        return super().stats() | {"changes": f"stream {self.changes.name}"} | failed

    def batch(self) -> pa.RecordBatch:
        self.check_known()
        return self.numbered()[0]

    @property
    def numbers(self) -> Ints:
        return self.numbered()[1]

    def check_known(self) -> None:
        if self.failed:
            raise NotHeldError(f"table '{self.name}' has failed: {self.failed}", hint="drop it and create it anew")

    def numbered(self) -> tuple[pa.RecordBatch, Ints]:
        """All rows, and their numbers."""
        self._take_out()
        return self._rows.batch(), self._all_numbers()

    def attach(self, reader: TableSource) -> None:
        self._readers.append(reader)
        batch, numbers = self.numbered()
        if batch.num_rows:
            reader.change(NONE, batch, numbers)

    def run(self, statement: s.Insert | s.Update | s.Delete) -> None:
        raise PlanError(
            f"table '{self.name}' is changed by stream '{self.changes.name}', not by statements",
            hint=f"push a row to '{self.changes.name}'",
        )

    def apply(self, batch: pa.RecordBatch, operations: Ints, times: Ints, problems: Ints, stops: bool) -> int:
        """Applies changes, which are in order of time. Changes with a problem are not applied; problems that are found
        here are put into `problems`. Returns how many changes were handled: all, or, if `stops`, those before the first
        bad one."""
        settled = self._latest.settle(self._keys_in(batch), operations, times, problems, stops, self._next)
        came, went = np.flatnonzero(settled.born >= 0), np.flatnonzero(settled.ended >= 0)
        if len(came) or len(went):
            self._last_change = int(times[max(came[-1:].tolist() + went[-1:].tolist())])
            fresh = batch.take(wrapped(came)), settled.born[came], times[came]
            self._change_at(*fresh, settled.ended[went], times[went], settled.next_number)
        if self._latest.has_outgrown(self.row_count):
            self._know_rows()
        return settled.done

    def _keys_in(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return [batch.column(name) for name in self._key_names]

    def _know_rows(self) -> None:
        """Indexes the present rows, and forgets removed ones."""
        batch, numbers = self.numbered()
        self._latest.begin_anew(self._keys_in(batch), numbers)

    def _change_at(
        self, batch: pa.RecordBatch, numbers: Ints, births: Ints, ended: Ints, ended_at: Ints, next_number: int
    ) -> None:
        """Adds and removes rows, each at its instant."""
        self._rows.append(batch)
        self._fresh.append(numbers)
        self._next = next_number
        if len(ended):
            self._gone.append(ended)
            self._gone_count += len(ended)
        for reader in self._readers:
            reader.change(ended, batch, numbers, ended_at, births)
        if 2 * self._gone_count > self._rows.count + GONE_MIN:
            self._take_out()

    def _take_out(self) -> None:
        """Takes removed rows out of their places."""
        if not self._gone:
            return
        numbers = self._all_numbers()
        stays = ~np.isin(numbers, np.concatenate(self._gone), assume_unique=True)
        self._numbers, self._gone, self._gone_count = numbers[stays], [], 0
        self._rows.keep(np.flatnonzero(stays).astype(np.int32))

    def fail(self, at: int, reason: str) -> None:
        """The contents of the table are not known from this instant on; its readers fail there."""
        self.failed = reason
        for reader in self._readers:
            reader.fail(at, f"table '{self.name}': {reason}")

    def snapshot(self) -> dict[str, Any]:
        batch, numbers = self.numbered()
        own = {"rows": batch, "numbers": numbers, "next": self._next}
        return own | {"failed": self.failed, "last_change": self._last_change}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._rows = StoredColumns(self._schema)
        self._rows.append(snapshot["rows"])
        self._numbers, self._fresh, self._next = snapshot["numbers"], [], snapshot["next"]
        self._gone, self._gone_count, self.failed = [], 0, snapshot["failed"]
        self._last_change = snapshot["last_change"]
        self._know_rows()
