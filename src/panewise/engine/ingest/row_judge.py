"""Which rows of a push a stream takes: bad rows are refused or set aside, and some rows may be shed.

Bad rows are found when they are pushed: a row is judged by the rows before it, processed or not (`extent`), and by how
far the watermark may move at once (`window_limit.py`). Judging rows takes none in; `admit` does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from panewise.arrays import INT64_MIN
from panewise.catalog import StreamDefinition
from panewise.engine.ingest.input_monitor import InputMonitor
from panewise.engine.ingest.intake import Intake
from panewise.engine.ingest.pending_rows import Judged
from panewise.engine.ingest.shedding import Shedder
from panewise.engine.ingest.watermark import Watermark
from panewise.engine.ingest.window_limit import UNLIMITED, Extent, WindowLimit, ahead_of, reach_of
from panewise.temporal import INSTANT_MAX, INSTANT_MIN


class RowJudge:
    """The judge of one stream."""

    def __init__(self, definition: StreamDefinition, progress: Watermark, monitor: InputMonitor) -> None:
        self.name = definition.name
        self.intake = Intake(definition)
        self.shedder = Shedder(definition) if definition.sheds else None
        self.monitor = monitor
        self.skips_bad = False
        self.reach = UNLIMITED  # How far the watermark may move at once.
        self.extent = Extent()  # The extent of all admitted rows, processed or not.
        self._progress = progress
        # The oldest row of streams that are read together with this one.
        self._others_begun: Callable[[], int | None] = lambda: None
        self._until = INT64_MIN  # Rows up to this time need no judging.
        self._ahead = ahead_of(definition.options)  # How far rows may be ahead of the clock.
        self._now = INT64_MIN  # The greatest time that the wall clock has shown, in microseconds.
        self._horizon = INT64_MIN  # Rows up to this instant were not too far ahead when the clock was last read.

    def configure(self, options: dict[str, Any]) -> None:
        """Sets options of CREATE STREAM or ALTER STREAM, except for those about overload."""
        if "on_bad_row" in options:
            self.skips_bad = options["on_bad_row"] == "skip"
        if "ahead" in options:
            self._ahead = ahead_of(tuple(options.items()))
            self.look_again()

    def set_slide(self, slide: int | None, others_begun: Callable[[], int | None]) -> None:
        """Sets the shortest slide of the queries that read the stream. It limits how far the watermark may move."""
        self.reach, self._others_begun = reach_of(slide), others_begun
        self.look_again()

    @property
    def limit(self) -> WindowLimit:
        """How many windows rows may close now, and how far ahead of the clock they may be."""
        # If the clock is set back, rows that were good must not become bad when they are judged again.
        self._now = max(self._now, int(self.monitor.wall() * 1e6))
        fixed = self._progress.delay, self._progress.floor, self.reach
        return WindowLimit(*fixed, others_begun=self._others_begun, now=self._now, ahead=self._ahead)

    def look_again(self) -> None:
        """Renews what is derived from the limit, which has changed."""
        limit = self.limit
        self._until, self._horizon = limit.rows_until(self.extent), limit.horizon
        self.intake.comes_after(self.extent)

    def judged(self, batches: list[pa.RecordBatch], extent: Extent, full: float = 0.0) -> Judged:
        """Judges the rows of a push; raises DataError if one is bad and the stream says 'fail'. Admits none.

        `extent`: that of the stream before them. `full`: the share of the stream's queue that is in use.
        """
        accepted: list[pa.RecordBatch] = []
        aside: list[tuple[pa.RecordBatch, str]] = []
        limit = self.limit
        for i, batch in enumerate(batches):
            if not batch.num_rows:
                continue
            taken = sum(before.num_rows for before in batches[:i])
            good, _, bad, extent = self.intake.accepted(batch, self.skips_bad, taken, limit, extent)
            aside.extend(bad)
            if good.num_rows:
                accepted.append(good)
        come = sum(batch.num_rows for batch in accepted)
        self.monitor.arrived(come)
        now = self.monitor.clock()
        shed: dict[str, int] = {}
        if self.shedder is not None:
            accepted, shed = self.shedder.shed_all(accepted, now, full, self.monitor.sustainable)
        return Judged(accepted, aside, extent, sum(batch.num_rows for batch in accepted), shed, now)

    def admit(self, extent: Extent) -> None:
        """Rows were taken in; `extent` is that of the stream with them."""
        self.extent = self.extent.put_together(extent)
        self.look_again()

    # -- one row at a time ---------------------------------------------------------------------------------------

    def is_good(self, time: int) -> bool:
        """Whether a row of this time is certainly good, without judging it."""
        return INSTANT_MIN <= time <= INSTANT_MAX and time <= self._until

    def admit_row(self, time: int) -> None:
        """A good row of this time was taken in."""
        extent, progress = self.extent, self._progress
        if extent.newest is None or extent.oldest is None or time < extent.oldest:
            self.extent = self.limit.with_row(time, extent)
            self.look_again()
        elif time > extent.newest:
            self.extent = Extent(time, extent.oldest)
            reached = max(time - progress.delay, progress.floor) + progress.delay + self.reach
            self._until = min(reached, self._horizon)

    def restore(self, extent: Extent, skips_bad: bool) -> None:
        self.extent, self.skips_bad = extent, skips_bad
        self.look_again()
