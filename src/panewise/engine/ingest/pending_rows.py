"""Rows between their push and their turn: pushes that were judged, and batches that are divided and put together.

Pure: nothing here changes a batch, and the order of rows stays. Dividing copies nothing; putting together copies what
is smaller than `BATCH_ROWS`, once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from panewise.engine.ingest.window_limit import Extent

BATCH_ROWS = 32_768  # smaller batches are put together before they are processed


@dataclass(frozen=True)
class Judged:
    """A push whose rows have been looked at: what is taken of it, what is set aside and what was shed."""

    batches: list[pa.RecordBatch]
    aside: list[tuple[pa.RecordBatch, str]]
    extent: Extent  # The extent of the stream so far, shed rows included.
    taken: int
    shed: dict[str, int]  # by reason
    at: float | None = None  # what the clock showed; None where it is taken again

    @property
    def pushed(self) -> int:
        return self.taken + len(self.aside) + sum(self.shed.values())


def put_together(pending: list[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches of a fair size, in order."""
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
    """The first rows, so many, and the others; nothing is copied."""
    for i, batch in enumerate(batches):
        if batch.num_rows > count:
            first = [batch.slice(0, count)] if count else []
            return [*batches[:i], *first], [batch.slice(count), *batches[i + 1 :]]
        count -= batch.num_rows
    return batches, []
