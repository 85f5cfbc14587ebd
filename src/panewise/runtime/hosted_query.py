"""A registered query while it runs: its results on their way to readers, subscribers and other queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.columns import integers
from panewise.operators.dense_reports import Piece
from panewise.operators.due_reports import EmptyReports
from panewise.operators.rows import Rows
from panewise.plan.blocks import Block
from panewise.plan.nodes import Emit
from panewise.runtime.channel import Channel

Ints = NDArray[np.int64]
Subscriber = Callable[[pa.RecordBatch], None]
UNREAD_ROWS_MAX = 10_000_000
CHUNK = 1 << 16


class HostedQuery(Channel):
    """The results of one query. As a channel it is what queries over this query read."""

    def __init__(self, name: str, plan: Emit, block: Block) -> None:
        super().__init__(name, plan.schema, plan.timestamp)
        self.plan = plan
        self.block = block
        self.arrow = plan.schema.to_arrow()
        self.status = "RUNNING"
        self.reason = ""
        self.subscribers: list[Subscriber] = []
        self.rows_out = 0
        self.rows_dropped = 0
        self.unread_max: int | None = UNREAD_ROWS_MAX
        self.empty_batch: Callable[[Ints], pa.RecordBatch | None] | None = None
        self._unread: list[Piece] = []
        self._unread_rows = 0
        self._undelivered: list[pa.RecordBatch] = []

    def receive(self, pieces: list[Piece], watermark: int) -> None:
        """New results, in order of time, and how far the query has come with them."""
        if self.status != "RUNNING":
            pieces = []
        for piece in pieces:
            count = piece.count if isinstance(piece, EmptyReports) else piece.num_rows
            self.rows_out += count
            self._unread.append(piece)
            self._unread_rows += count
            if self.subscribers:
                self._undelivered.extend(self.batches(piece))
        while self.unread_max is not None and self._unread_rows > self.unread_max and len(self._unread) > 1:
            oldest = self._unread.pop(0)
            count = oldest.count if isinstance(oldest, EmptyReports) else oldest.num_rows
            self._unread_rows -= count
            self.rows_dropped += count
        if self.consumers or self.retain_us:
            self._flow_on(pieces, watermark)
        else:
            self.watermark = max(self.watermark, watermark)
            self.rows_seen += sum(p.count if isinstance(p, EmptyReports) else p.num_rows for p in pieces)

    @property
    def held_from(self) -> int | None:
        """While nobody reads this query its newest results, those at the watermark itself, are not kept."""
        held = super().held_from
        return held if held is None or self.consumers or self.retain_us else held + 1

    def _flow_on(self, pieces: list[Piece], watermark: int) -> None:
        batches = [batch for piece in pieces for batch in self.batches(piece)]
        if not batches:
            self.flow(self.empty_rows(), watermark)
            return
        batch = batches[0]
        if len(batches) > 1:
            batch = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
        times = integers(batch.column(self.timestamp))
        self.flow(Rows(batch, times, self.rows_seen), watermark)

    def batches(self, piece: Piece) -> list[pa.RecordBatch]:
        """A piece as batches; a range of empty reports becomes rows only here."""
        if not isinstance(piece, EmptyReports):
            return [piece]
        assert self.empty_batch is not None
        result = []
        for begin in range(0, piece.count, CHUNK):
            count = min(CHUNK, piece.count - begin)
            ends = piece.first + piece.slide * np.arange(begin, begin + count, dtype=np.int64)
            batch = self.empty_batch(ends)
            if batch is not None:
                result.append(batch)
        return result

    def read(self) -> pa.Table:
        """What is new since the last call."""
        pieces, self._unread, self._unread_rows = self._unread, [], 0
        return pa.Table.from_batches([b for piece in pieces for b in self.batches(piece)], schema=self.arrow)

    def deliver(self) -> list[Exception]:
        """Calls the subscribers with what has come for them; returns what they raised."""
        batches, self._undelivered = self._undelivered, []
        raised: list[Exception] = []
        for batch in batches:
            for subscriber in list(self.subscribers):
                try:
                    subscriber(batch)
                except Exception as problem:  # noqa: BLE001 - a subscriber must not disturb the others
                    raised.append(problem)
        return raised

    def snapshot(self) -> dict[str, Any]:
        return {
            "channel": super().snapshot(),
            "status": self.status,
            "reason": self.reason,
            "rows_out": self.rows_out,
            "rows_dropped": self.rows_dropped,
            "unread": [
                {"first": p.first, "count": p.count, "slide": p.slide} if isinstance(p, EmptyReports) else p
                for p in self._unread
            ],
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        super().restore(snapshot["channel"])
        for name in ("status", "reason", "rows_out", "rows_dropped"):
            setattr(self, name, snapshot[name])
        self._unread = [EmptyReports(**p) if isinstance(p, dict) else p for p in snapshot["unread"]]
        self._unread_rows = sum(p.count if isinstance(p, EmptyReports) else p.num_rows for p in self._unread)
