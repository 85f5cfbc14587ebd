"""A stream while it runs: rows from callers, judged, buffered and handed on as a channel.

Small pushes are collected and processed together, at the latest when somebody reads; bad rows are found in their own
push all the same. Late rows change nothing but a count.
"""

from __future__ import annotations

from collections import deque
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
from panewise.engine.ingest.late_remarks import Lateness, Remarks, lateness, remark_of
from panewise.engine.ingest.pending_rows import Judged, divided, plain_strings, put_together
from panewise.engine.ingest.row_judge import RowJudge
from panewise.engine.ingest.shedding import OPTIONS, REASONS, altered, check_overload_options
from panewise.engine.ingest.watermark import Watermark
from panewise.engine.ingest.window_limit import WINDOWS_CLOSED_MAX, Extent, WindowLimit
from panewise.errors import DataError
from panewise.operators.row_batch import Rows
from panewise.plan.scale_sampled import with_excess
from panewise.temporal import INSTANT_MAX, INSTANT_MIN, duration_us, format_instant

FLUSH_ROWS = 262_144  # that wait, so many, are processed even if nobody asks
PORTION_S = 0.04  # how long rows are processed at a stretch while other threads read
PORTION_ROWS_LEAST = 8192  # but not fewer than these
SET_ASIDE_MAX = 100_000  # late or bad rows kept for the caller to fetch; the oldest leave first


class ReportOrder(Protocol):
    """Says which reports wait while a stream is behind (`report_schedule`)."""

    def postpones(self, stream: Stream) -> bool:
        """Whether reports that can wait are postponed in the turn that begins."""

    def answer(self, stream: Stream, since: float) -> None:
        """Rows have been folded since then: makes postponed reports, or leaves them for later turns."""


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
        self.shed_counts = dict.fromkeys(REASONS, 0)
        self.taken_count = 0  # counted where rows may be shed
        self.queue: InputQueue | None = None
        self.push_times = PushTimes(definition.delay_us)
        self.journal: Journal | None = None  # told before anything changes
        self.change = StateChange()  # the engine's, where one hosts the stream
        self.producers: dict[str, int] = {}  # the last number that each producer's pushes had
        self.rows_pushed = 0
        self.late_count = 0
        self.bad_count = 0
        self._keep_late = False
        self.late_remarks = Remarks()
        self.bad_remarks = Remarks()
        self._pending: list[pa.RecordBatch] = []
        self._pending_count = 0
        self._plain: list[list[Any]] = []
        self._late: deque[pa.RecordBatch] = deque()
        self._bad: deque[tuple[str, str]] = deque(maxlen=SET_ASIDE_MAX)  # the row as text, and what is wrong with it
        self.configure(dict(definition.options))

    def configure(self, options: dict[str, Any]) -> None:
        """Options of CREATE STREAM and ALTER STREAM; their values have been checked by the binder."""
        if any(name in options for name in OPTIONS):
            self._configure_overload(options)
        self.judge.configure(options)
        if "late" in options:
            self._keep_late = options["late"] == "keep"
            self.late_remarks.expected = True
        if "retain" in options:
            self.retain(duration_us(str(options["retain"])))

    def _configure_overload(self, options: dict[str, Any]) -> None:
        self.definition = definition = altered(self.definition, options)
        if self.judge.shedder is not None:
            self.judge.shedder.configure(definition)

    def set_slide(self, slide: int | None, others_begun: Callable[[], int | None]) -> None:
        """The shortest slide of the queries that read the stream, which limits how far the watermark may move."""
        self._next_due = None
        self.push_times.set_slide(slide, self.newest)
        self.judge.set_slide(slide, others_begun)

    # -- pushing -------------------------------------------------------------------------------------------------

    def push(self, data: Any, stamp: Stamp | None = None) -> bool:
        """Takes rows in, all or, where one is bad and the stream says 'fail', none. True where a flush is due."""
        if type(data) is list and len(data) == 1:
            data = data[0]
        if type(data) is dict and (self.judge.shedder is None or self.journal is None):
            row = self.intake.plain_row(data)
            if row is not None and self._push_plain(row, stamp):
                time = row[self.intake.time_index]
                # The newest row, as most are, is not late.
                late = time != self.newest and self.late_remarks.first and time < self.watermark_pushed
                return late or max(len(self._plain), self._pending_count) >= FLUSH_ROWS
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
        is_told = self.bad_remarks.is_due(self.bad_count)  # so that who pushes bad rows hears of them
        return self._pending_count >= FLUSH_ROWS or is_told or self._begins_lateness(judged, before)

    def _begins_lateness(self, judged: Judged, before: Extent) -> bool:
        """Whether a push has the first late rows: it is processed at once, so that who pushes hears of them."""
        if not self.late_remarks.first:
            return False
        progress = self.progress.after(before.newest)
        return any(progress.judge(self.intake.times(batch)) is not None for batch in judged.batches if batch.num_rows)

    def retake(self, taken: Taken) -> bool:
        """A push of which a journal was told: not judged again. True where a flush is due."""
        count = sum(batch.num_rows for batch in taken.batches)
        with self.change:
            self.admit(Judged(taken.batches, [], taken.extent, count, taken.shed))
            self._bad.extend(taken.aside)
            self.bad_count += len(taken.aside)
            self.rows_pushed += len(taken.aside)
            if taken.stamp is not None:
                self.producers[taken.stamp[0]] = taken.stamp[1]
        return self._pending_count >= FLUSH_ROWS

    def retake_row(self, row: list[Any], stamp: Stamp | None) -> bool:
        """The same for a single row."""
        with self.change:
            self._take_plain(row, stamp)
        return len(self._plain) >= FLUSH_ROWS

    def admit(self, judged: Judged) -> None:
        """A push that was judged waits to be processed from now on."""
        self._seal_plain()
        self.judge.admit(judged.extent)
        if judged.at is not None and self.newest is not None and self.newest >= self.push_times.noted_from:
            self.push_times.note(self.newest, judged.at)
        self._bad.extend((str(shown_row(row)), reason) for row, reason in judged.aside)
        self.bad_count += len(judged.aside)
        self._pending.extend(batch for batch in judged.batches if batch.num_rows)
        self._pending_count += judged.taken
        self.taken_count += judged.taken
        self.rows_pushed += judged.pushed
        for reason, count in judged.shed.items():
            self.shed_counts[reason] += count

    def _push_plain(self, row: list[Any], stamp: Stamp | None = None) -> bool:
        """The short way for one row; False where it needs the long one, which says what is wrong."""
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
        self._plain.append(row)
        if shedder is None:
            self.rows_pushed += 1
        elif shedder.is_due(len(self._plain), self.monitor.clock()):
            self._seal_plain()

    def _seal_plain(self) -> None:
        """Rows pushed one by one become a batch, in their place among the batches."""
        if self._plain:
            batch = self.intake.batch_of(self._plain)
            self._plain = []
            if self.judge.shedder is not None:
                self.admit(self.judge.judged([batch], self.judge.extent))
                return
            self.monitor.arrived(batch.num_rows)
            self._pending.append(batch)
            self._pending_count += batch.num_rows

    @property
    def waiting(self) -> bool:
        return bool(self._pending or self._plain) or (self.queue is not None and self.queue.waiting) or self._behind

    @property
    def _behind(self) -> bool:
        """Whether rows that were shed have yet to move the watermark."""
        return self.judge.shedder is not None and self.newest is not None and self.newest > self.progress.greatest

    def waited(self, report: int, answered: float | None) -> float | None:
        return self.push_times.lateness(report, answered)

    def is_pushed_short_of(self, instant: int) -> Callable[[], bool] | None:
        return None if self.queue is not None else lambda: self.watermark_pushed < instant

    @property
    def watermark_pushed(self) -> int:
        """The watermark when all has been processed that waits, that of its queue aside."""
        newest = self.newest
        return self.progress.value if newest is None else max(self.progress.value, newest - self.progress.delay)

    @property
    def waiting_rows(self) -> int:
        """How many rows wait that were pushed, those of its queue aside."""
        return self._pending_count + len(self._plain)

    @property
    def portion_rows(self) -> int:
        """How many rows are processed at a stretch while other threads read."""
        fitting = (self.monitor.sustainable or 0) * PORTION_S
        return min(max(int(fitting), PORTION_ROWS_LEAST), FLUSH_ROWS)

    def waiting_now(self) -> dict[str, int]:
        """Rows that have come and are not processed yet, the bytes of those in batches, and reports that wait."""
        queued = 0 if self.queue is None else self.queue.rows
        rows = self._pending_count + len(self._plain) + queued
        held = sum(batch.nbytes for batch in self._pending) + (0 if self.queue is None else self.queue.bytes_held)
        postponed = sum(consumer.postponed_reports for consumer in self.postponed)
        return {"waiting_rows": rows, "waiting_bytes": held, "postponed_reports": postponed}

    def completes(self) -> bool:
        """Whether what waits may complete something: a report comes due, or somebody reads row by row."""
        if self.newest is None:
            return False
        if self._next_due is None:
            self._next_due = min((consumer.next_due() for consumer in self.consumers), default=INT64_MAX)
        return self.newest - self.progress.delay >= self._next_due

    def clock(self) -> float:
        return self.monitor.clock()

    def flush(self, most: int | None = None, schedule: ReportOrder | None = None) -> int:
        """Processes what was pushed and not yet processed, the first `most` rows of it where that is given; returns how
        many rows those were. Answers do not depend on how rows are divided.

        With a schedule, reports may be postponed; without one, those that were are answered too.
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
        pending, self._pending = self._pending, []
        if most is not None:
            pending, self._pending = divided(pending, most)
        count: int = sum(batch.num_rows for batch in pending)
        self._pending_count -= count
        parts = list(put_together(pending, self.arrow))
        for part in parts:
            # Rows are taken in part by part; what they complete is answered once, after the last.
            self._process(part, last=part is parts[-1])
        if self._behind and not self._pending:
            assert self.newest is not None
            self.progress.greatest = self.newest
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
            self.late_count += int(late.sum())
            if self._keep_late:
                self._late.append(batch.select(self.intake.arrow.names).filter(pa.array(late)))
                while sum(part.num_rows for part in self._late) > SET_ASIDE_MAX and len(self._late) > 1:
                    self._late.popleft()
            rows = rows.take(~late)
        self.flow(rows, self.progress.value if last else self.watermark, more=not last)

    _arrived = 0
    _next_due: int | None = None  # the watermark at which a consumer has something to say; None: to be asked

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
        """Refuses a punctuation that no stream, or none that has come this far, can take."""
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
        """The greatest timestamp pushed, processed or not."""
        return self.judge.extent.newest

    @property
    def keeps_late(self) -> bool:
        """Whether there are late rows to hand out, or will be."""
        return self._keep_late or bool(self._late)

    def lateness(self) -> Lateness | None:
        """What is to be said of late rows; None where there are none, or where the stream says what becomes of them."""
        if not self.late_count or self.late_remarks.expected:
            return None
        return lateness(self.definition, self.late_count, self.rows_pushed, self.progress.behind)

    def late_rows(self) -> pa.Table:
        with self.change:
            if self._late and self.journal is not None:
                self.journal.hands_out_rows(self.name, "late")
            batches, self._late = list(self._late), deque()
        return pa.Table.from_batches([plain_strings(b, self.intake.arrow) for b in batches], schema=self.intake.arrow)

    def bad_rows(self) -> pa.Table:
        """The rows set aside since the last call, as text, with the reason of each."""
        with self.change:
            if self._bad and self.journal is not None:
                self.journal.hands_out_rows(self.name, "bad")
            bad, self._bad = list(self._bad), deque(maxlen=SET_ASIDE_MAX)
            self.bad_remarks.expected = True
        return pa.table(
            {
                "row": pa.array([row for row, _ in bad], pa.string()),
                "reason": pa.array([reason for _, reason in bad], pa.string()),
            }
        )

    def badness(self) -> BadRows | None:
        """What is to be said of bad rows; None where there are none, or where somebody has asked for them."""
        if not self.bad_count or self.bad_remarks.expected:
            return None
        reason = self._bad[-1][1] if self._bad else None
        return bad_rows(self.definition, self.bad_count, self.rows_pushed, reason)

    @property
    def skips_bad(self) -> bool:
        return self.judge.skips_bad

    def set_aside(self, rows: list[tuple[pa.RecordBatch, str]]) -> None:
        """Rows that have been taken in and turn out to be bad for somebody who reads them."""
        self._bad.extend((str(shown_row(row)), reason) for row, reason in rows)
        self.bad_count += len(rows)

    def stats(self) -> dict[str, Any]:
        watermark = None if self.progress.value == INT64_MIN else self.progress.value
        stats: dict[str, Any] = {
            "rows": self.rows_pushed,
            "late_rows": self.late_count,
            "late_remark": remark_of(self.lateness()),
            "bad_rows": self.bad_count,
            "bad_remark": remark_of(self.badness()),
            "watermark": None if watermark is None else format_instant(watermark),
            "bytes": self.bytes_held,
            **self.monitor.stats(self.newest, watermark),
        }
        if self.judge.shedder is not None:
            shed = sum(self.shed_counts.values())
            stats |= {"taken_rows": self.taken_count, "shed_rows": shed, "shed": dict(self.shed_counts)}
        if self.queue is not None:
            stats["queue"] = self.queue.stats()
        return stats

    def snapshot(self) -> dict[str, Any]:
        return {
            "channel": super().snapshot(),
            "progress": self.progress.snapshot(),
            "rows_pushed": self.rows_pushed,
            "late_count": self.late_count,
            "bad_count": self.bad_count,
            "skip_bad": self.judge.skips_bad,
            "keep_late": self._keep_late,
            "newest": self.newest,
            "oldest": self.oldest,
            "arrived": self._arrived,
            "late": self.late_rows_kept(),
            "bad": list(self._bad),
            "producers": self.producers,
            "shed": self._shed_snapshot(),
        }

    def _shed_snapshot(self) -> dict[str, Any] | None:
        if self.judge.shedder is None:
            return None
        return {"counts": self.shed_counts, "taken": self.taken_count, **self.judge.shedder.snapshot()}

    def late_rows_kept(self) -> pa.Table:
        kept = [plain_strings(b, self.intake.arrow) for b in self._late]
        return pa.Table.from_batches(kept, schema=self.intake.arrow)

    def restore(self, snapshot: dict[str, Any]) -> None:
        super().restore(snapshot["channel"])
        self.progress.restore(snapshot["progress"])
        self.rows_pushed, self.late_count = snapshot["rows_pushed"], snapshot["late_count"]
        self.late_remarks.forget(self.late_count)
        self.bad_remarks.forget(self.bad_count)
        self.bad_count, self._arrived = snapshot["bad_count"], snapshot["arrived"]
        self._keep_late = snapshot["keep_late"]
        extent = Extent(snapshot["newest"], snapshot.get("oldest", snapshot["newest"]))
        self.judge.restore(extent, snapshot["skip_bad"])
        self._late = deque(snapshot["late"].to_batches())
        self._bad.extend((row, reason) for row, reason in snapshot["bad"])
        self.producers = dict(snapshot.get("producers", {}))
        if self.judge.shedder is not None and snapshot.get("shed") is not None:
            self.shed_counts |= snapshot["shed"]["counts"]
            self.taken_count = snapshot["shed"]["taken"]
            self.judge.shedder.restore(snapshot["shed"])
