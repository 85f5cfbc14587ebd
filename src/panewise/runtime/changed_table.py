"""A table that a change stream changes: its rows as far as the stream's watermark has come, and who reads them.

Each change comes with its instant (`change_feed`), and readers are told of it. A plan that reads the table waits for
the stream's watermark too, so that a row of its inputs meets the version of the table at its own instant, in whatever
order both are pushed. Versions are kept by those who have not passed them yet (`table_source`); the table itself is
what it is at the watermark.

A change costs O(1) amortised: rows that are gone stay in place until they are many, or somebody reads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from panewise.catalog import TableDefinition
from panewise.errors import NotHeldError, PlanError
from panewise.language import statements as s
from panewise.operators.deltas import NONE, Ints
from panewise.operators.stored_columns import StoredColumns
from panewise.operators.table_source import TableSource
from panewise.runtime.change_feed import ChangeFeed
from panewise.runtime.stream import Stream
from panewise.runtime.table import Table

GONE_MIN = 1024  # rows that are gone and still there, before they matter


class ChangedTable(Table):
    """The rows of a definition that a stream changes. `failed`: the reason, where a change could not be."""

    def __init__(self, definition: TableDefinition, stream: Stream) -> None:
        super().__init__(definition)
        self._gone: list[Ints] = []  # numbers of rows that have ended, still among the others
        self._gone_count = 0
        self.failed = ""
        self.feed = ChangeFeed(self, stream)

    @property
    def changes(self) -> Stream:
        return self.feed.stream

    @property
    def held_from(self) -> int | None:
        return self.feed.stream.held_from

    @property
    def last_change(self) -> int:
        return self.feed.last_change

    @property
    def row_count(self) -> int:
        return self._rows.count - self._gone_count

    @property
    def bytes_held(self) -> int:
        return super().bytes_held + self.feed.bytes_held

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
            f"table '{self.name}' is changed by stream '{self.changes.name}', and not by statements",
            hint=f"push a row to '{self.changes.name}'",
        )

    @property
    def next_number(self) -> int:
        return self._next

    def change(
        self, batch: pa.RecordBatch, numbers: Ints, births: Ints, ended: Ints, ended_at: Ints, next_number: int
    ) -> None:
        """Rows that come and rows that go, each with its instant."""
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
        """The rows that are gone leave their places."""
        if not self._gone:
            return
        numbers = self._all_numbers()
        stays = ~np.isin(numbers, np.concatenate(self._gone), assume_unique=True)
        self._numbers, self._gone, self._gone_count = numbers[stays], [], 0
        self._rows.keep(np.flatnonzero(stays).astype(np.int32))

    def fail(self, at: int, reason: str) -> None:
        """From this instant on nobody knows what is in the table; who reads it fails there."""
        self.failed = reason
        for reader in self._readers:
            reader.fail(at, f"table '{self.name}': {reason}")

    def snapshot(self) -> dict[str, Any]:
        batch, numbers = self.numbered()
        own = {"rows": batch, "numbers": numbers, "next": self._next}
        return own | {"failed": self.failed, "last_change": self.feed.last_change}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._rows = StoredColumns(self._schema)
        self._rows.append(snapshot["rows"])
        self._numbers, self._fresh, self._next = snapshot["numbers"], [], snapshot["next"]
        self._gone, self._gone_count, self.failed = [], 0, snapshot["failed"]
        self.feed.last_change = snapshot["last_change"]
        self.feed.read_anew()
