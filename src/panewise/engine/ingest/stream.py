"""A stream while it runs: rows from callers are judged, collected and handed on as a channel.

Small pushes are collected (`pending_rows.py`) and processed together, at the latest when somebody reads. Bad rows are
found by the push that has them. Late rows are counted, and kept if the stream says so (`kept_rows.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa

from panewise.arrays import INT64_MAX, INT64_MIN
from panewise.catalog import StreamDefinition
from panewise.engine.channels.channel import Channel
from panewise.engine.channels.push_times import PushTimes
from panewise.engine.channels.turns import StateChange
from panewise.engine.ingest.bad_row_remarks import BadRows, bad_rows
from panewise.engine.ingest.input_monitor import InputMonitor
from panewise.engine.ingest.input_queue import InputQueue
from panewise.engine.ingest.intake import shown_row
from panewise.engine.ingest.journal import Journal, Stamp, Taken
from panewise.engine.ingest.kept_rows import KeptBadRows, KeptLateRows
from panewise.engine.ingest.late_remarks import Lateness, lateness, remark_of
from panewise.engine.ingest.pending_rows import FLUSH_ROWS, Judged, PendingRows, put_together
from panewise.engine.ingest.row_judge import RowJudge
from panewise.engine.ingest.shedding import OPTIONS, altered, check_overload_options
from panewise.engine.ingest.watermark import Watermark
from panewise.engine.ingest.window_limit import WINDOWS_CLOSED_MAX, Extent, WindowLimit
from panewise.errors import DataError
from panewise.operators.row_batch import Rows
from panewise.plan.scale_sampled import with_excess
from panewise.temporal import INSTANT_MAX, INSTANT_MIN, duration_us, format_instant

PORTION_S = 0.04  # While other threads read, a flush takes about this long.
PORTION_ROWS_LEAST = 8192  # The least number of rows in such a flush.


class ReportOrder(Protocol):
    """Decides which reports are postponed while a stream is behind (`report_schedule.py`)."""

    def postpones(self, stream: Stream) -> bool:
        """Whether reports that can wait are postponed in the flush that begins."""

    def answer(self, stream: Stream, since: float) -> None:
        """Rows have been folded since that instant of the clock. Answers postponed reports, or leaves them for later
        flushes."""


class Stream(Channel):
    """One declared stream."""

    def __init__(self, definition: StreamDefinition) -> None:
        schema = with_excess(definition.schema) if definition.sheds else definition.schema
        super().__init__(definition.name, schema, definition.timestamp)
        check_overload_options(definition)
        self.definition = definition
        self.arrow = schema.to_arrow()
        self.monitor = InputMonitor()
        self.progress = Watermark(definition.delay_us)
        self.judge = RowJudge(definition, self.progress, self.monitor)
        self.intake = self.judge.intake
        self.queue: InputQueue | None = None
        self.push_times = PushTimes(definition.delay_us)
        self.journal: Journal | None = None  # Told before anything changes.
        self.change = StateChange()  # The engine's, if one hosts the stream.
        self.producers: dict[str, int] = {}  # The number of each producer's last push.
        self.rows_pushed = 0
        self.late = KeptLateRows(self.intake.arrow)
        self.bad = KeptBadRows()
        self._pending = PendingRows(self.intake.batch_of)
        self._arrived = 0  # Number of rows that were processed.
        self._next_due: int | None = None  # The watermark at which a reader has something to say; None: not known.
        self.configure(dict(definition.options))

    def configure(self, options: dict[str, Any]) -> None:
        """Sets options of CREATE STREAM or ALTER STREAM, whose values the binder has checked."""
        if any(name in options for name in OPTIONS):
            self.definition = altered(self.definition, options)
            if self.judge.shedder is not None:
                self.judge.shedder.configure(self.definition)
        self.judge.configure(options)
        if "late" in options:
            self.late.keep(options["late"] == "keep")
        if "retain" in options:
            self.retain(duration_us(str(options["retain"])))

    def set_slide(self, slide: int | None, others_begun: Callable[[], int | None]) -> None:
        """Sets the shortest slide of the queries that read the stream. It limits how far the watermark may move."""
        self._next_due = None
        self.push_times.set_slide(slide, self.newest)
        self.judge.set_slide(slide, others_begun)

    # -- pushing -------------------------------------------------------------------------------------------------

    def push(self, data: Any, stamp: Stamp | None = None) -> bool:
        """Takes rows in: all, or none if one is bad and the stream says 'fail'. Returns whether a flush is due."""
        if type(data) is list and len(data) == 1:
            data = data[0]
        if type(data) is dict and (self.judge.shedder is None or self.journal is None):
            row = self.intake.plain_row(data)
            if row is not None and self._push_plain(row, stamp):
                time = row[self.intake.time_index]
                # The newest row is not late; most rows are the newest.
                late = time != self.newest and self.late.remarks.first and time < self.watermark_pushed
                return late or self._pending.is_full
        before = self.judge.extent
        judged = self.judge.judged(self.intake.batches(data), before)
        journal = self.journal
        if journal is not None:
            aside = [(str(shown_row(row)), reason) for row, reason in judged.aside]
            taken = Taken(judged.batches, aside, judged.extent, judged.shed, stamp)
        with self.change:
            if journal is not None:
                journal.took(self.name, taken)
            self.admit(judged)
            if stamp is not None:
                self.producers[stamp[0]] = stamp[1]
        is_told = self.bad.remarks.is_due(self.bad.count)  # The caller that pushes bad rows gets the remark.
        return self._pending.is_full or is_told or self._begins_lateness(judged, before)

    def _begins_lateness(self, judged: Judged, before: Extent) -> bool:
        """Whether a push has the first late rows. It is processed at once, so that its caller gets the remark."""
        if not self.late.remarks.first:
            return False
        progress = self.progress.after(before.newest)
        return any(progress.judge(self.intake.times(batch)) is not None for batch in judged.batches if batch.num_rows)

    def retake(self, taken: Taken) -> bool:
        """Takes in a push that was judged and written to a journal before. Returns whether a flush is due."""
        count = sum(batch.num_rows for batch in taken.batches)
        with self.change:
            self.admit(Judged(taken.batches, [], taken.extent, count, taken.shed))
            self.bad.take_shown(taken.aside)
            self.rows_pushed += len(taken.aside)
            if taken.stamp is not None:
                self.producers[taken.stamp[0]] = taken.stamp[1]
        return self._pending.is_full

    def retake_row(self, row: list[Any], stamp: Stamp | None) -> bool:
        """Takes in a single row that was written to a journal before. Returns whether a flush is due."""
        with self.change:
            self._take_plain(row, stamp)
        return self._pending.is_full

    def admit(self, judged: Judged) -> None:
        """The rows of a judged push are pending from now on."""
        self._seal_plain()
        self.judge.admit(judged.extent)
        if judged.at is not None and self.newest is not None and self.newest >= self.push_times.noted_from:
            self.push_times.note(self.newest, judged.at)
        self.bad.take(judged.aside)
        self._pending.add(judged.batches)
        self.rows_pushed += judged.pushed
        if self.judge.shedder is not None:
            self.judge.shedder.count(judged.taken, judged.shed)

    def _push_plain(self, row: list[Any], stamp: Stamp | None = None) -> bool:
        """Takes in one row the short way; False if it may be bad, so that the long way has to judge it."""
        if not self.judge.is_good(row[self.intake.time_index]):
            return False
        with self.change:
            if self.journal is not None:
                self.journal.took_row(self.name, row, stamp)
            self._take_plain(row, stamp)
        return True

    def _take_plain(self, row: list[Any], stamp: Stamp | None) -> None:
        time, newest, shedder = row[self.intake.time_index], self.newest, self.judge.shedder
        if stamp is not None:
            self.producers[stamp[0]] = stamp[1]
        self.judge.admit_row(time)
        if (newest is None or time > newest) and time >= self.push_times.noted_from:
            self.push_times.note(time, self.monitor.clock())
        count = self._pending.add_plain(row)
        if shedder is None:
            self.rows_pushed += 1
        elif shedder.is_due(count, self.monitor.clock()):
            self._seal_plain()

    def _seal_plain(self) -> None:
        """Rows pushed one by one become a batch, after the pending batches."""
        batch = self._pending.take_plain()
        if batch is None:
            return
        if self.judge.shedder is not None:
            self.admit(self.judge.judged([batch], self.judge.extent))
            return
        self.monitor.arrived(batch.num_rows)
        self._pending.add([batch])

    @property
    def waiting(self) -> bool:
        """Whether a flush would change anything."""
        return len(self._pending) > 0 or (self.queue is not None and self.queue.waiting) or self._behind

    @property
    def _behind(self) -> bool:
        """Whether the watermark has yet to move for rows that were shed."""
        return self.judge.shedder is not None and self.newest is not None and self.newest > self.progress.greatest

    def waited(self, report: int, answered: float | None) -> float | None:
        return self.push_times.lateness(report, answered)

    def is_pushed_short_of(self, instant: int) -> Callable[[], bool] | None:
        return None if self.queue is not None else lambda: self.watermark_pushed < instant

    @property
    def watermark_pushed(self) -> int:
        """The watermark after all pending rows; rows of the queue do not count."""
        newest = self.newest
        return self.progress.value if newest is None else max(self.progress.value, newest - self.progress.delay)

    @property
    def waiting_rows(self) -> int:
        """Number of pending rows; rows of the queue do not count."""
        return len(self._pending)

    @property
    def portion_rows(self) -> int:
        """The number of rows that a flush processes while other threads read."""
        fitting = (self.monitor.sustainable or 0) * PORTION_S
        return min(max(int(fitting), PORTION_ROWS_LEAST), FLUSH_ROWS)

    def waiting_now(self) -> dict[str, int]:
        """Rows that are pending or queued, the bytes of those in batches, and postponed reports."""
        queued, queued_bytes = (0, 0) if self.queue is None else (self.queue.rows, self.queue.bytes_held)
        rows, held = len(self._pending) + queued, self._pending.bytes_held + queued_bytes
        postponed = sum(consumer.postponed_reports for consumer in self.postponed)
        return {"waiting_rows": rows, "waiting_bytes": held, "postponed_reports": postponed}

    def completes(self) -> bool:
        """Whether pending rows may have results: a report comes due, or a reader handles every row."""
        if self.newest is None:
            return False
        if self._next_due is None:
            self._next_due = min((consumer.next_due() for consumer in self.consumers), default=INT64_MAX)
        return self.newest - self.progress.delay >= self._next_due

    def clock(self) -> float:
        return self.monitor.clock()

    def flush(self, most: int | None = None, schedule: ReportOrder | None = None) -> int:
        """Processes pending and queued rows, at most `most` if that is given; returns their number. Answers do not
        depend on how rows are divided.

        With a schedule, reports may be postponed; without one, postponed reports are answered too.
        """
        with self.change:
            return self._flush(most, schedule)

    def _flush(self, most: int | None, schedule: ReportOrder | None) -> int:
        since = self.monitor.clock()
        self.may_postpone = schedule is not None and schedule.postpones(self)
        if self.queue is not None:
            for judged in self.queue.taken_out(most):
                self.admit(judged)
        self._next_due = None
        self._seal_plain()
        pending = self._pending.take(most)
        count: int = sum(batch.num_rows for batch in pending)
        parts = list(put_together(pending, self.arrow))
        for part in parts:
            # Readers take rows part by part, and answer reports once, after the last part.
            self._process(part, last=part is parts[-1])
        if self._behind and not len(self._pending):
            assert self.newest is not None
            self.progress.see(self.newest)
            self.flow(self.empty_rows(), self.progress.value)
        self.may_postpone = False
        if schedule is None:
            self.catch_up()
        else:
            schedule.answer(self, since)
        if count:
            self.monitor.processed(count, since)
            self.push_times.processed(self.progress.value, self.monitor.clock())
        return count

    def _process(self, batch: pa.RecordBatch, last: bool) -> None:
        times = self.intake.times(batch)
        late = self.progress.judge(times)
        rows = Rows(batch, times, self._arrived, self.progress.ascends)
        self._arrived += batch.num_rows
        if late is not None:
            self.late.take(batch, late)
            rows = rows.take(~late)
        self.flow(rows, self.progress.value if last else self.watermark, more=not last)

    def advance(self, until: int) -> None:
        """A punctuation: no row before `until` will come."""
        self.check_advance(until, self.judge.limit, self.judge.extent)
        with self.change:
            if self.journal is not None:
                self.journal.advanced(self.name, until)
            since = self.monitor.clock()
            self.flush()
            self.progress.advance(until)
            self.judge.look_again()
            self.flow(self.empty_rows(), self.progress.value)
            self.push_times.advanced(self.progress.value, since, self.monitor.clock())

    def check_advance(self, until: int, limit: WindowLimit, extent: Extent) -> None:
        """DataError if a punctuation is no instant, or would close too many windows."""
        if not INSTANT_MIN <= until <= INSTANT_MAX + 1:
            raise DataError(f"{until} is not an instant of the years 1 to 9999")
        if not limit.admits(until, extent):
            raise DataError(
                f"advancing '{self.name}' to {format_instant(until)} would close more than "
                f"{WINDOWS_CLOSED_MAX:,} windows of a query",
                hint="advance in several steps, and read the results between them",
            )

    @property
    def oldest(self) -> int | None:
        return self.judge.extent.oldest

    @property
    def newest(self) -> int | None:
        """The greatest timestamp of pushed rows, processed or not."""
        return self.judge.extent.newest

    def lateness(self) -> Lateness | None:
        """The remark on late rows; None if there are none, or if the stream says what becomes of them."""
        if not self.late.count or self.late.remarks.expected:
            return None
        return lateness(self.definition, self.late.count, self.rows_pushed, self.progress.behind)

    def late_rows(self) -> pa.Table:
        """The kept late rows since the last call."""
        with self.change:
            if self.late.waiting and self.journal is not None:
                self.journal.hands_out_rows(self.name, "late")
            batches = self.late.hand_out()
        return self.late.table(batches)

    def bad_rows(self) -> pa.Table:
        """The rows set aside since the last call, as text, with the reason of each."""
        with self.change:
            if self.bad.waiting and self.journal is not None:
                self.journal.hands_out_rows(self.name, "bad")
            bad = self.bad.hand_out()
        return self.bad.table(bad)

    def badness(self) -> BadRows | None:
        """The remark on bad rows; None if there are none, or if somebody has asked for them."""
        if not self.bad.count or self.bad.remarks.expected:
            return None
        return bad_rows(self.definition, self.bad.count, self.rows_pushed, self.bad.last_reason)

    def stats(self) -> dict[str, Any]:
        watermark = None if self.progress.value == INT64_MIN else self.progress.value
        stats: dict[str, Any] = {
            "rows": self.rows_pushed,
            "late_rows": self.late.count,
            "late_remark": remark_of(self.lateness()),
            "bad_rows": self.bad.count,
            "bad_remark": remark_of(self.badness()),
            "watermark": None if watermark is None else format_instant(watermark),
            "bytes": self.bytes_held,
            **self.monitor.stats(self.newest, watermark),
        }
        if self.judge.shedder is not None:
            stats |= self.judge.shedder.stats()
        if self.queue is not None:
            stats["queue"] = self.queue.stats()
        return stats

    def snapshot(self) -> dict[str, Any]:
        shedder = self.judge.shedder
        return {
            "channel": super().snapshot(),
            "progress": self.progress.snapshot(),
            "rows_pushed": self.rows_pushed,
            "late_count": self.late.count,
            "bad_count": self.bad.count,
            "skip_bad": self.judge.skips_bad,
            "keep_late": self.late.keeps,
            "newest": self.newest,
            "oldest": self.oldest,
            "arrived": self._arrived,
            "late": self.late.kept,
            "bad": self.bad.kept,
            "producers": self.producers,
            "shed": None if shedder is None else shedder.snapshot(),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        super().restore(snapshot["channel"])
        self.progress.restore(snapshot["progress"])
        self.rows_pushed, self._arrived = snapshot["rows_pushed"], snapshot["arrived"]
        extent = Extent(snapshot["newest"], snapshot.get("oldest", snapshot["newest"]))
        self.judge.restore(extent, snapshot["skip_bad"])
        self.late.restore(snapshot["late_count"], snapshot["keep_late"], snapshot["late"])
        self.bad.restore(snapshot["bad_count"], snapshot["bad"])
        self.producers = dict(snapshot.get("producers", {}))
        if self.judge.shedder is not None and snapshot.get("shed") is not None:
            self.judge.shedder.restore(snapshot["shed"])
