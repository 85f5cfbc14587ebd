"""Rows that were pushed and are not processed yet.

Batches never change, and rows keep the order of their pushes. Dividing batches copies nothing; putting them together
copies batches of fewer than `BATCH_ROWS` rows, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from panewise.engine.ingest.window_limit import Extent

BATCH_ROWS = 32_768  # Smaller batches are put together before they are processed.
FLUSH_ROWS = 262_144  # Rows are processed when this many are pending, even if nobody reads.


@dataclass(frozen=True)
class Judged:
    """A push whose rows were judged: the rows that are taken, set aside and shed."""

    batches: list[pa.RecordBatch]
    aside: list[tuple[pa.RecordBatch, str]]
    extent: Extent  # The extent of the stream so far, shed rows included.
    taken: int
    shed: dict[str, int]  # Number of rows by reason.
    at: float | None = None  # The clock at the push; None in a replay.

    @property
    def pushed(self) -> int:
        return self.taken + len(self.aside) + sum(self.shed.values())


class PendingRows:
    """The pending rows of one stream: batches, then rows that were pushed one by one and are no batch yet."""

    def __init__(self, batch_of: Callable[[list[list[Any]]], pa.RecordBatch]) -> None:
        """`batch_of`: makes a batch of plain rows."""
        self._batch_of = batch_of
        self._batches: list[pa.RecordBatch] = []
        self._batch_rows = 0
        self._plain: list[list[Any]] = []

    def __len__(self) -> int:
        return self._batch_rows + len(self._plain)

    @property
    def is_full(self) -> bool:
        """Whether so many rows are pending that a flush is due."""
        return max(self._batch_rows, len(self._plain)) >= FLUSH_ROWS

    @property
    def bytes_held(self) -> int:
        """The bytes of batches."""
        return sum(batch.nbytes for batch in self._batches)

    def add(self, batches: list[pa.RecordBatch]) -> None:
        """Batches come. Plain rows must have been taken out before them."""
        assert not self._plain
        self._batches.extend(batch for batch in batches if batch.num_rows)
        self._batch_rows += sum(batch.num_rows for batch in batches)

    def add_plain(self, row: list[Any]) -> int:
        """A plain row comes; returns the number of plain rows."""
        self._plain.append(row)
        return len(self._plain)

    def take_plain(self) -> pa.RecordBatch | None:
        """Takes out the plain rows, as a batch; None if there are none."""
        if not self._plain:
            return None
        batch = self._batch_of(self._plain)
        self._plain = []
        return batch

    def take(self, most: int | None) -> list[pa.RecordBatch]:
        """Takes out the first `most` rows of the batches; None: all."""
        taken, self._batches = self._batches, []
        if most is not None:
            taken, self._batches = divided(taken, most)
        self._batch_rows -= sum(batch.num_rows for batch in taken)
        return taken


def put_together(pending: list[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of the batches in batches of at least `BATCH_ROWS` rows, except the last one."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for i, batch in enumerate(pending):
        waiting.append(batch)
        rows += batch.num_rows
        if rows < BATCH_ROWS and i + 1 < len(pending):
            continue
        rows = 0
        if len(waiting) > 1:
            table = pa.Table.from_batches([plain_strings(part, schema) for part in waiting])
            batch = table.combine_chunks().to_batches()[0]
        waiting = []
        yield batch


def plain_strings(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch without dictionary encoding, so that batches of several pushes fit together."""
    return batch if batch.schema.equals(schema) else batch.cast(schema)


def divided(batches: list[pa.RecordBatch], count: int) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
    """The first `count` rows, and the others; nothing is copied."""
    for i, batch in enumerate(batches):
        if batch.num_rows > count:
            first = [batch.slice(0, count)] if count else []
            return [*batches[:i], *first], [batch.slice(count), *batches[i + 1 :]]
        count -= batch.num_rows
    return batches, []
