"""Late and bad rows of a stream: they are counted, and some are kept until the caller fetches them.

Invariant: a kept row is handed out once. At most about `KEPT_ROWS_MAX` rows of each sort are kept; the oldest are
dropped first. Counts include rows that are not kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.engine.ingest.intake import shown_row
from panewise.engine.ingest.late_remarks import Remarks
from panewise.engine.ingest.pending_rows import plain_strings

KEPT_ROWS_MAX = 100_000
BadRow = tuple[str, str]  # The row as text, and why it is bad.


class KeptLateRows:
    """Late rows, which are kept if the stream says `late = 'keep'`."""

    def __init__(self, schema: pa.Schema) -> None:
        self.count = 0
        self.keeps = False
        self.remarks = Remarks()
        self._schema = schema
        self._batches: deque[pa.RecordBatch] = deque()

    def keep(self, keeps: bool) -> None:
        """Sets whether late rows are kept. As the user has decided that, no remark is due any more."""
        self.keeps = keeps
        self.remarks.expect()

    def take(self, batch: pa.RecordBatch, late: NDArray[np.bool_]) -> None:
        """`late` marks the late rows of a batch."""
        self.count += int(late.sum())
        if self.keeps:
            self._batches.append(batch.select(self._schema.names).filter(pa.array(late)))
            while sum(part.num_rows for part in self._batches) > KEPT_ROWS_MAX and len(self._batches) > 1:
                self._batches.popleft()

    @property
    def can_be_fetched(self) -> bool:
        """Whether rows are kept, or will be."""
        return self.keeps or bool(self._batches)

    @property
    def waiting(self) -> bool:
        """Whether there are rows to hand out."""
        return bool(self._batches)

    def hand_out(self) -> list[pa.RecordBatch]:
        """The kept rows, which are not kept any more."""
        batches, self._batches = list(self._batches), deque()
        return batches

    def table(self, batches: Iterable[pa.RecordBatch]) -> pa.Table:
        """Batches of kept rows as a table."""
        return pa.Table.from_batches([plain_strings(batch, self._schema) for batch in batches], schema=self._schema)

    @property
    def kept(self) -> pa.Table:
        """The rows that are kept now."""
        return self.table(self._batches)

    def restore(self, count: int, keeps: bool, kept: pa.Table) -> None:
        self.count, self.keeps = count, keeps
        self._batches = deque(kept.to_batches())
        self.remarks.forget(self.count)


class KeptBadRows:
    """Bad rows that were set aside."""

    def __init__(self) -> None:
        self.count = 0
        self.remarks = Remarks()
        self._rows: deque[BadRow] = deque(maxlen=KEPT_ROWS_MAX)

    def take(self, rows: Iterable[tuple[pa.RecordBatch, str]]) -> None:
        """Batches of one row each, and why that is bad."""
        self.take_shown([(str(shown_row(row)), reason) for row, reason in rows])

    def take_shown(self, rows: list[BadRow]) -> None:
        self._rows.extend(rows)
        self.count += len(rows)

    @property
    def waiting(self) -> bool:
        """Whether there are rows to hand out."""
        return bool(self._rows)

    @property
    def last_reason(self) -> str | None:
        """Why the last row is bad; None if it is not kept any more."""
        return self._rows[-1][1] if self._rows else None

    def hand_out(self) -> list[BadRow]:
        """The kept rows, which are not kept any more. The caller knows of bad rows now: no remark is due."""
        rows, self._rows = list(self._rows), deque(maxlen=KEPT_ROWS_MAX)
        self.remarks.expect()
        return rows

    @staticmethod
    def table(rows: list[BadRow]) -> pa.Table:
        """Bad rows as a table."""
        texts, reasons = [row for row, _ in rows], [reason for _, reason in rows]
        return pa.table({"row": pa.array(texts, pa.string()), "reason": pa.array(reasons, pa.string())})

    @property
    def kept(self) -> list[BadRow]:
        """The rows that are kept now."""
        return list(self._rows)

    def restore(self, count: int, kept: Iterable[Iterable[str]]) -> None:
        self.count = count
        self.remarks.forget(count)
        self._rows.extend((row, reason) for row, reason in kept)
