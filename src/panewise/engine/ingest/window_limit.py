"""The limits of a row's timestamp: how far ahead of the clock it may be, and how many windows it may close.

A row of the year 9999 would make every row after it late. So a row that is more than `ahead` after the wall clock (a
day, unless the stream says otherwise) is a bad row. The clock is read only when rows come. Its decisions are logged
with the push, or pinned for the micro-batch, so a replay makes the same.

Nothing that happens at once closes more than `WINDOWS_CLOSED_MAX` windows of one query.

Windows close when the watermark moves. Reports begin with the first row. So the windows that a move closes end after
the old watermark and after the oldest row:

    oldest row       watermark                                new watermark
        |----------------|=========================================|
                          the windows that close: their number is this span divided by the shortest slide

A row that would move the watermark too far is a bad row. A punctuation that would move it too far, or is too far ahead
of the clock, is refused. If the watermark moves only between micro-batches, a row may also be too old, because the span
of all rows of a micro-batch counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from panewise.arrays import INT64_MAX, INT64_MIN, Ints
from panewise.catalog import Options
from panewise.engine.ingest.watermark import survey
from panewise.errors import DataError
from panewise.language.sql_text import name_to_sql
from panewise.loops import compiled_loop
from panewise.temporal import DAY, INSTANT_MAX, INSTANT_MIN, duration_us, format_duration, format_instant

WINDOWS_CLOSED_MAX = 10_000_000
UNLIMITED = INSTANT_MAX - INSTANT_MIN
AHEAD_DEFAULT = DAY  # How far rows may be ahead of the clock, unless their stream says otherwise.
OFF = "off"
# Words by which the reasons of such bad rows are recognized.
OF_THE_CLOCK = "ahead of the clock"
TOO_MANY = f"would close more than {WINDOWS_CLOSED_MAX:,} windows"
Mask = NDArray[np.bool_]


def reach_of(slide: int | None) -> int:
    """How far the watermark may move at once with this shortest slide; None: no query reports by time."""
    return UNLIMITED if slide is None else min(slide * WINDOWS_CLOSED_MAX, UNLIMITED)


def way_across(stream: str, *, has_connector: bool) -> str:
    """The advice for a stream whose rows have a longer gap than its windows allow."""
    first = "divide the files at the gap and read the first part" if has_connector else "push the rows before it first"
    return (
        f"across a gap without rows, {first}, and advance('{stream}', ...) brings the stream on in steps that close "
        "fewer windows; a query with a longer SLIDE has fewer windows there (docs/overload.md)"
    )


def ahead_of(options: Options) -> int | None:
    """How far the rows of a stream with these options may be ahead of the clock; None: there is no limit."""
    said = dict(options).get("ahead")
    if said is None:
        return AHEAD_DEFAULT
    return None if said == OFF else duration_us(str(said))


class Extent(NamedTuple):
    """The extent of a stream's rows, without bad rows: the greatest timestamp, and the least of rows that were not
    late. None before the first row."""

    newest: int | None = None
    oldest: int | None = None

    def put_together(self, other: Extent) -> Extent:
        """The extent of the rows of both."""
        newest = [time for time in (self.newest, other.newest) if time is not None]
        oldest = [time for time in (self.oldest, other.oldest) if time is not None]
        return Extent(max(newest, default=None), min(oldest, default=None))


@dataclass(frozen=True)
class WindowLimit:
    """The limits of a stream at one moment.

    `floor`: the instant of the last punctuation. `reach`: how far the watermark may move. `stands`: the watermark, if
    it does not move with the rows. `others_begun`: gives the oldest row of streams that a query reads together with
    this one and waits for. It looks at all queries, so it is called only if the watermark alone does not decide. `now`:
    the wall clock; `ahead`: how far rows may be ahead of it; None: there is no such limit.
    """

    delay: int
    floor: int = INT64_MIN
    reach: int = UNLIMITED
    stands: int | None = None
    others_begun: Callable[[], int | None] = lambda: None
    now: int | None = None
    ahead: int | None = None

    @property
    def horizon(self) -> int:
        """The last instant that is not too far ahead of the clock."""
        return INT64_MAX if self.now is None or self.ahead is None else self.now + self.ahead

    def check_clock(self, stream: str, until: int) -> None:
        """DataError if a punctuation is too far ahead of the clock: every real row would be late after it."""
        if self.ahead is not None and self.horizon < until <= INSTANT_MAX + 1:
            ahead = f"more than {format_duration(self.ahead)} {OF_THE_CLOCK}"
            raise DataError(
                f"advancing '{stream}' to {format_instant(until)}, {ahead}, would make the rows before that late",
                hint="flush() of an engine in this process closes all windows that hold rows, and over HTTP so does an "
                "advance to the end of the last one; "
                f"ALTER STREAM {name_to_sql(stream)} SET (ahead = '{OFF}') takes any instant",
            )

    def watermark(self, extent: Extent) -> int:
        if self.stands is not None:
            return self.stands
        return self.floor if extent.newest is None else max(self.floor, extent.newest - self.delay)

    def rows_until(self, extent: Extent) -> int:
        """Rows up to this time are not too far ahead, whatever came before; later rows have to be judged."""
        if extent.newest is None:
            return INT64_MIN
        return min(self.watermark(extent) + self.delay + self.reach, self.horizon)

    def with_row(self, time: int, extent: Extent) -> Extent:
        """The extent with one more good row; a late row does not change it."""
        return extent if time < self.watermark(extent) else extent.put_together(Extent(time, time))

    def judge(self, times: Ints, extent: Extent, high: int | None = None) -> tuple[Mask | None, Extent]:
        """Marks the rows that would close too many windows (None if there are none); also returns the extent with the
        other rows.

        Each good row moves the limit for the rows after it. `high`: the greatest of the times, if known.
        """
        if not len(times):
            return None, extent
        if high is None:
            high = int(survey(times)[1])
        watermark, oldest = self.watermark(extent), extent.oldest
        newest = INT64_MIN if extent.newest is None else extent.newest
        if oldest is not None and oldest <= watermark and high - self.delay - watermark <= self.reach:
            return None, Extent(max(newest, high), oldest)
        # Windows are counted from the watermark or later, so the other streams matter only for rows far ahead of it.
        others = self.others_begun() if max(newest, high) - self.delay - watermark > self.reach else None
        state = np.array([newest, watermark, INT64_MAX if oldest is None else oldest], np.int64)
        fixed = self.delay, self.reach, INT64_MAX if others is None else others
        bad = np.zeros(len(times), np.uint8)
        count = _judge(times, state, *fixed, self.stands is None, bad)
        after = Extent(
            None if state[0] == INT64_MIN else int(state[0]), None if state[2] == INT64_MAX else int(state[2])
        )
        return bad.view(np.bool_) if count else None, after

    def admits(self, until: int, extent: Extent) -> bool:
        """Whether a punctuation at this instant would close no more windows than allowed."""
        watermark = self.watermark(extent)
        if until - watermark <= self.reach:
            return True
        begun = [time for time in (extent.oldest, self.others_begun()) if time is not None]
        return not begun or until - max(watermark, min(begun)) <= self.reach

    def reason(self, time: int, extent: Extent) -> str:
        """Why a row of this time is bad: it would close too many windows."""
        come = "" if extent.newest is None else f" (the stream has come to {format_instant(extent.newest)})"
        return f"its timestamp {format_instant(time)} {TOO_MANY} of a query{come}"

    def reason_of_clock(self, time: int) -> str:
        """Why a row of this time is bad: it is too far ahead of the clock."""
        assert self.now is not None and self.ahead is not None
        distance, now = format_duration(self.ahead), format_instant(self.now // 1_000_000 * 1_000_000)
        return f"its timestamp {format_instant(time)} is more than {distance} {OF_THE_CLOCK}, which shows {now}"


@compiled_loop
def _judge(times: Ints, state: Ints, delay: int, reach: int, others: int, moves: bool, bad: NDArray[np.uint8]) -> int:
    """Marks bad rows and returns their number. `state`: the newest row, the watermark and the oldest row."""
    newest, watermark, oldest = state[0], state[1], state[2]
    count = 0
    for i in range(times.shape[0]):
        time = times[i]
        if time < watermark:
            continue
        begun = max(watermark, min(oldest, others, time))
        if max(newest, time) - delay - begun > reach:
            bad[i] = 1
            count += 1
            continue
        oldest = min(oldest, time)
        if time > newest:
            newest = time
            if moves:
                watermark = max(watermark, time - delay)
    state[0], state[1], state[2] = newest, watermark, oldest
    return count
