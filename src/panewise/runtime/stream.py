"""A stream while it runs: rows from callers, judged, buffered and handed on as a channel.

Small pushes are collected and processed together, at the latest when somebody reads; bad rows are found in their own
push all the same. Late rows change nothing but a count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from panewise.catalog import StreamDefinition
from panewise.errors import DataError
from panewise.operators.rows import Rows
from panewise.runtime.channel import INT64_MAX, INT64_MIN, Channel
from panewise.runtime.intake import WINDOWS_CLOSED_MAX, Intake, shown_row
from panewise.runtime.watermark import Watermark
from panewise.temporal import INSTANT_MAX, INSTANT_MIN, duration_us, format_instant

FLUSH_ROWS = 262_144  # that wait, so many, are processed even if nobody asks
BATCH_ROWS = 32_768  # smaller batches are put together before they are processed
SET_ASIDE_MAX = 100_000  # late or bad rows kept for the caller to fetch; the oldest leave first


class Stream(Channel):
    """One declared stream."""

    def __init__(self, definition: StreamDefinition) -> None:
        super().__init__(definition.name, definition.schema, definition.timestamp)
        self.intake = Intake(definition)
        self.progress = Watermark(definition.delay_us)
        self.reach = INSTANT_MAX - INSTANT_MIN  # how far ahead a row may lie
        self.rows_pushed = 0
        self.late_count = 0
        self.bad_count = 0
        self._skip_bad = False
        self._keep_late = False
        self._pending: list[pa.RecordBatch] = []
        self._pending_count = 0
        self._plain: list[list[Any]] = []
        self._newest: int | None = None  # the greatest timestamp pushed, processed or not
        self._limit: int | None = None
        self._late: deque[pa.RecordBatch] = deque()
        self._bad: deque[tuple[str, str]] = deque(maxlen=SET_ASIDE_MAX)  # the row as text, and what is wrong with it
        self.configure(dict(definition.options))

    def configure(self, options: dict[str, Any]) -> None:
        """Options of CREATE STREAM and ALTER STREAM; their values have been checked by the binder."""
        if "on_bad_row" in options:
            self._skip_bad = options["on_bad_row"] == "skip"
        if "late" in options:
            self._keep_late = options["late"] == "keep"
        if "retain" in options:
            self.retain(duration_us(str(options["retain"])))

    def set_slide(self, slide: int | None) -> None:
        """The shortest slide of the queries that read the stream, which limits how far ahead a row may lie."""
        self._next_due = None
        self.reach = INSTANT_MAX - INSTANT_MIN if slide is None else slide * WINDOWS_CLOSED_MAX
        self._set_limit()

    def _set_limit(self) -> None:
        come_to = self._come_to(self._newest)
        self._limit = None if come_to is None else come_to + self.reach

    def _come_to(self, newest: int | None) -> int | None:
        """How far the stream has come, by rows or punctuations; None before the first row, which may lie anywhere."""
        return None if newest is None else max(newest, self.progress.floor)

    # -- pushing -------------------------------------------------------------------------------------------------

    def push(self, data: Any) -> bool:
        """Takes rows in, all or, where one is bad and the stream says 'fail', none. True where a flush is due."""
        if type(data) is list and len(data) == 1:
            data = data[0]
        if type(data) is dict and (row := self.intake.plain_row(data)) is not None and self._push_plain(row):
            return len(self._plain) >= FLUSH_ROWS
        accepted, newest = [], self._newest
        aside: list[tuple[pa.RecordBatch, str]] = []
        batches = self.intake.batches(data)
        for i, batch in enumerate(batches):
            if not batch.num_rows:
                continue
            taken = sum(before.num_rows for before in batches[:i])
            come_to = self._come_to(newest)
            good, times, bad = self.intake.accepted(batch, self._skip_bad, taken, come_to, self.reach)
            aside.extend(bad)
            if good.num_rows:
                accepted.append(good)
                latest = int(times.max())
                newest = latest if newest is None else max(newest, latest)
        self._seal_plain()
        self._newest = newest
        self._set_limit()
        self._bad.extend((str(shown_row(row)), reason) for row, reason in aside)
        self.bad_count += len(aside)
        self._pending.extend(accepted)
        self._pending_count += sum(batch.num_rows for batch in accepted)
        self.rows_pushed += sum(batch.num_rows for batch in accepted) + len(aside)
        return self._pending_count >= FLUSH_ROWS

    def _push_plain(self, row: list[Any]) -> bool:
        """The short way for one row; False where it needs the long one, which says what is wrong."""
        time = row[self.intake.time_index]
        if not INSTANT_MIN <= time <= INSTANT_MAX or (self._limit is not None and time > self._limit):
            return False
        if self._newest is None or time > self._newest:
            self._newest = time
            self._limit = max(time, self.progress.floor) + self.reach
        self._plain.append(row)
        self.rows_pushed += 1
        return True

    def _seal_plain(self) -> None:
        """Rows pushed one by one become a batch, in their place among the batches."""
        if self._plain:
            batch = self.intake.batch_of(self._plain)
            self._pending.append(batch)
            self._pending_count += batch.num_rows
            self._plain = []

    @property
    def waiting(self) -> bool:
        return bool(self._pending or self._plain)

    def completes(self) -> bool:
        """Whether what waits may complete something: a report comes due, or somebody reads row by row."""
        if self._newest is None:
            return False
        if self._next_due is None:
            self._next_due = min((consumer.next_due() for consumer in self.consumers), default=INT64_MAX)
        return self._newest - self.progress.delay >= self._next_due

    def flush(self) -> None:
        """Processes what was pushed and not yet processed."""
        self._next_due = None
        self._seal_plain()
        pending, self._pending, self._pending_count = self._pending, [], 0
        parts = list(self._put_together(pending))
        for part in parts:
            # Rows are taken in part by part; what they complete is answered once, after the last.
            self._process(part, last=part is parts[-1])

    def _put_together(self, pending: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of a fair size, in order."""
        waiting: list[pa.RecordBatch] = []
        for i, batch in enumerate(pending):
            waiting.append(batch)
            if sum(part.num_rows for part in waiting) < BATCH_ROWS and i + 1 < len(pending):
                continue
            if len(waiting) > 1:
                table = pa.Table.from_batches([_plain_strings(part, self.intake.arrow) for part in waiting])
                batch = table.combine_chunks().to_batches()[0]
            waiting = []
            yield batch

    def _process(self, batch: pa.RecordBatch, last: bool) -> None:
        times = self.intake.times(batch)
        late = self.progress.judge(times)
        rows = Rows(batch, times, self._arrived, self.progress.ascends)
        self._arrived += batch.num_rows
        if late is not None:
            self.late_count += int(late.sum())
            if self._keep_late:
                self._late.append(batch.filter(pa.array(late)))
                while sum(part.num_rows for part in self._late) > SET_ASIDE_MAX and len(self._late) > 1:
                    self._late.popleft()
            rows = rows.take(~late)
        self.flow(rows, self.progress.value if last else self.watermark, more=not last)

    _arrived = 0
    _next_due: int | None = None  # the watermark at which a consumer has something to say; None: to be asked

    def advance(self, until: int) -> None:
        """A punctuation: no row before `until` will come."""
        self.check_advance(until, self._come_to(self._newest))
        self.flush()
        self.progress.advance(until)
        self._set_limit()
        self.flow(self.empty_rows(), self.progress.value)

    def check_advance(self, until: int, come_to: int | None) -> None:
        """Refuses a punctuation that no stream, or none that has come this far, can take."""
        if not INSTANT_MIN <= until <= INSTANT_MAX + 1:
            raise DataError(f"{until} is not an instant of the years 1 to 9999")
        if come_to is not None and until - come_to > self.reach:
            raise DataError(
                f"advancing '{self.name}' to {format_instant(until)} would close more than "
                f"{WINDOWS_CLOSED_MAX:,} windows of a query"
            )

    @property
    def newest(self) -> int | None:
        return self._newest

    def late_rows(self) -> pa.Table:
        batches, self._late = list(self._late), deque()
        return pa.Table.from_batches([_plain_strings(b, self.intake.arrow) for b in batches], schema=self.intake.arrow)

    def bad_rows(self) -> pa.Table:
        """The rows set aside since the last call, as text, with the reason of each."""
        bad, self._bad = list(self._bad), deque(maxlen=SET_ASIDE_MAX)
        return pa.table(
            {
                "row": pa.array([row for row, _ in bad], pa.string()),
                "reason": pa.array([reason for _, reason in bad], pa.string()),
            }
        )

    @property
    def skips_bad(self) -> bool:
        return self._skip_bad

    def set_aside(self, rows: list[tuple[pa.RecordBatch, str]]) -> None:
        """Rows that have been taken in and turn out to be bad for somebody who reads them."""
        self._bad.extend((str(shown_row(row)), reason) for row, reason in rows)
        self.bad_count += len(rows)

    def stats(self) -> dict[str, Any]:
        value = self.progress.value
        return {
            "rows": self.rows_pushed,
            "late_rows": self.late_count,
            "bad_rows": self.bad_count,
            "watermark": None if value == INT64_MIN else format_instant(value),
            "bytes": self.bytes_held,
        }

    def snapshot(self) -> dict[str, Any]:
        return {
            "channel": super().snapshot(),
            "progress": self.progress.snapshot(),
            "rows_pushed": self.rows_pushed,
            "late_count": self.late_count,
            "bad_count": self.bad_count,
            "skip_bad": self._skip_bad,
            "keep_late": self._keep_late,
            "newest": self._newest,
            "arrived": self._arrived,
            "late": self.late_rows_kept(),
            "bad": list(self._bad),
        }

    def late_rows_kept(self) -> pa.Table:
        kept = [_plain_strings(b, self.intake.arrow) for b in self._late]
        return pa.Table.from_batches(kept, schema=self.intake.arrow)

    def restore(self, snapshot: dict[str, Any]) -> None:
        super().restore(snapshot["channel"])
        self.progress.restore(snapshot["progress"])
        self.rows_pushed, self.late_count = snapshot["rows_pushed"], snapshot["late_count"]
        self.bad_count, self._arrived = snapshot["bad_count"], snapshot["arrived"]
        self._skip_bad, self._keep_late = snapshot["skip_bad"], snapshot["keep_late"]
        self._newest = snapshot["newest"]
        self._set_limit()
        self._late = deque(snapshot["late"].to_batches())
        self._bad.extend((row, reason) for row, reason in snapshot["bad"])


def _plain_strings(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch without dictionary encoding, so that batches of several pushes fit together."""
    return batch if batch.schema.equals(schema) else batch.cast(schema)
