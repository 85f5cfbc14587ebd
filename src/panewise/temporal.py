"""Time: instants and durations as int64 microseconds, and the windows of queries.

A row with timestamp `ts` is in a window of range `r` at instant `t` when `ts <= t < ts + r`. A periodic window
reports at every instant `e` with `(e - align) % slide == 0` and covers `[e - range - offset, e - offset)`:

      e - offset - range            e - offset        e
            |=========================|...............|
            [  rows of the report     )     offset
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from panewise.errors import BindError

MICROSECOND = 1
MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY

# Years 1 to 9999, the range that Python, Spark and SQL share. A row with a time outside it is a bad row.
INSTANT_MIN = -62_135_596_800_000_000
INSTANT_MAX = 253_402_300_799_999_999
INSTANT_NEVER = INSTANT_MAX + 1  # the end of something that never ends; no row has this time
DURATION_MAX = INSTANT_MAX - INSTANT_MIN

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

UNITS: dict[str, int] = {
    name: factor
    for factor, names in {
        MICROSECOND: "MICROSECOND MICROSECONDS US USEC",
        MILLISECOND: "MILLISECOND MILLISECONDS MS MSEC",
        SECOND: "SECOND SECONDS SEC SECS S",
        MINUTE: "MINUTE MINUTES MIN MINS M",
        HOUR: "HOUR HOURS HR HRS H",
        DAY: "DAY DAYS D",
        WEEK: "WEEK WEEKS W",
    }.items()
    for name in names.split()
}

_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*")


def duration_us(text: str) -> int:
    """Microseconds of a text such as `5 seconds`, `1.5 h` or `1 minute 30 s`.

    >>> duration_us("1 minute 30 s")
    90000000
    """
    position, total = 0, 0
    while position < len(text):
        match = _DURATION.match(text, position)
        if match is None:
            raise BindError(f"'{text}' is not a duration", hint="write a number and a unit, such as '5 seconds'")
        total += scaled_us(match[1], match[2])
        position = match.end()
    if not text.strip():
        raise BindError("an empty text is not a duration", hint="write a number and a unit, such as '5 seconds'")
    return total


def scaled_us(number: str, unit: str) -> int:
    """Microseconds of a number and a unit. Unknown units and fractions of a microsecond are refused."""
    factor = UNITS.get(unit.upper())
    if factor is None:
        raise BindError(f"'{unit}' is not a unit of time", hint="units go from MICROSECONDS to WEEKS")
    if len(number) > 40:
        raise BindError(f"a number of {len(number)} digits is not a duration")
    whole, _, fraction = number.partition(".")
    numerator, denominator = int(whole + fraction) * factor, 10 ** len(fraction)
    if numerator % denominator:
        raise BindError(f"{number} {unit} is not a whole number of microseconds")
    result: int = numerator // denominator
    if result > DURATION_MAX:
        raise BindError(f"{number} {unit} is longer than all of time (years 1 to 9999)")
    return result


def format_duration(duration: int) -> str:
    """The shortest exact text in one unit: `90 SECONDS`, `1 MINUTE`.

    >>> format_duration(90_000_000), format_duration(3_600_000_000)
    ('90 SECONDS', '1 HOUR')
    """
    for factor, name in (
        (WEEK, "WEEK"),
        (DAY, "DAY"),
        (HOUR, "HOUR"),
        (MINUTE, "MINUTE"),
        (SECOND, "SECOND"),
        (MILLISECOND, "MILLISECOND"),
        (MICROSECOND, "MICROSECOND"),
    ):
        if duration % factor == 0 and (duration or factor == MICROSECOND):
            count = duration // factor
            return f"{count} {name}" + ("" if count == 1 else "S")
    raise AssertionError(duration)


def instant_us(value: int | str | datetime) -> int:
    """An instant as microseconds since the epoch; texts and datetimes without a zone are UTC."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str | datetime):
        raise BindError(f"{value!r} is not an instant", hint="give microseconds, a datetime or '2026-01-31 12:00:00'")
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise BindError(f"'{value}' is not an instant", hint="write '2026-01-31 12:00:00'") from None
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return (value - EPOCH) // timedelta(microseconds=1)


def format_instant(instant: int) -> str:
    """`2026-01-31 12:00:00` in UTC, with microseconds if there are any.

    >>> format_instant(0)
    '1970-01-01 00:00:00'
    """
    if not INSTANT_MIN <= instant <= INSTANT_MAX:
        return f"{instant} us"
    moment = EPOCH + timedelta(microseconds=instant)
    # isoformat, unlike strftime, pads years below 1000 on every platform.
    return moment.replace(tzinfo=None).isoformat(sep=" ")


def last_report(upto: int, slide: int, align: int) -> int:
    """The greatest `align + k * slide` that is not after `upto`.

    >>> last_report(10, slide=4, align=1), last_report(9, slide=4, align=1)
    (9, 9)
    """
    return upto - (upto - align) % slide


@dataclass(frozen=True)
class TimeWindow:
    """`[RANGE r SLIDE s OFFSET o ALIGN 'i' INTERNAL]`. `range_us` None: UNBOUNDED; `slide_us` None: continuous."""

    range_us: int | None
    slide_us: int | None = None
    offset_us: int = 0
    align_us: int = 0
    internal: bool = False

    @property
    def periodic(self) -> bool:
        return self.slide_us is not None

    def last_report(self, upto: int) -> int:
        """The last instant, `upto` at the latest, at which a periodic window reports."""
        assert self.slide_us is not None
        return last_report(upto, self.slide_us, self.align_us)

    def __str__(self) -> str:
        if self.range_us is None:
            parts = ["UNBOUNDED"]
        elif self.range_us == 1 and self.slide_us is None and not self.offset_us:
            parts = ["NOW"]
        else:
            parts = [f"RANGE {format_duration(self.range_us)}"]
        if self.slide_us is not None:
            parts.append(f"SLIDE {format_duration(self.slide_us)}")
        if self.offset_us:
            parts.append(f"OFFSET {format_duration(self.offset_us)}")
        if self.align_us:
            parts.append(f"ALIGN '{format_instant(self.align_us)}'")
        if self.internal:
            parts.append("INTERNAL")
        return f"[{' '.join(parts)}]"


@dataclass(frozen=True)
class RowsWindow:
    """`[PARTITION BY c ROWS n SLIDE m OFFSET k INTERNAL]`: the last n rows in event-time order."""

    rows: int
    slide: int | None = None
    offset: int = 0
    partition_by: tuple[str, ...] = ()
    internal: bool = False

    @property
    def periodic(self) -> bool:
        return self.slide is not None

    def __str__(self) -> str:
        parts = [f"PARTITION BY {', '.join(self.partition_by)}"] if self.partition_by else []
        parts.append(f"ROWS {self.rows}")
        if self.slide is not None:
            parts.append(f"SLIDE {self.slide}")
        if self.offset:
            parts.append(f"OFFSET {self.offset}")
        if self.internal:
            parts.append("INTERNAL")
        return f"[{' '.join(parts)}]"


Window = TimeWindow | RowsWindow
