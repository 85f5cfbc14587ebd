"""The remark on late rows that are dropped: how many came, how far behind, and the delay that would have kept them.

A remark is due with the first late row of a stream, and again whenever there are ten times as many: a thousand late
rows cause at most four remarks. There are none if the stream says `late = 'keep'` or `late = 'drop'`. Rows of a log
that is replayed cause none either: they were remarked on when they came.
"""

from __future__ import annotations

import sys
import warnings
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from panewise.catalog import StreamDefinition
from panewise.language.sql_text import name_to_sql
from panewise.temporal import DAY, HOUR, MILLISECOND, MINUTE, SECOND, format_duration

REPEATED_AT = 10  # A remark is repeated when there are this many times as many rows as at the last one.


class Lateness(NamedTuple):
    """How many rows of a stream have come late so far, and the remark on them."""

    rows: int
    remark: str


class Told(Protocol):
    """Rows on which there is a remark."""

    @property
    def remark(self) -> str: ...


class Remarks:
    """When remarks on the late rows, or on the bad rows, of one stream are due.

    >>> remarks = Remarks()
    >>> [remarks.due(count) for count in (0, 1, 9, 10, 11, 5000)]
    [False, True, False, True, False, True]
    """

    def __init__(self, before: int = 0) -> None:
        """`before`: rows of an earlier session."""
        self.expected = False  # Whether the user knows of such rows.
        self._before = before
        self._due_at = 1

    @property
    def remarked_at(self) -> int:
        """The number of rows at the last remark."""
        return self._before + self._due_at // REPEATED_AT

    @property
    def first(self) -> bool:
        """Whether no remark was made yet, and the next row causes one."""
        return not self.expected and self._due_at == 1

    def is_due(self, count: int) -> bool:
        """Whether a remark is due with this many rows; asking changes nothing."""
        return not self.expected and count - self._before >= self._due_at

    def due(self, count: int) -> bool:
        """Whether a remark is due with this many rows. If so, the caller makes it, and it is not due again."""
        if not self.is_due(count):
            return False
        self._due_at = (count - self._before) * REPEATED_AT
        return True

    def expect(self) -> None:
        """The user knows of such rows: no remark is due any more."""
        self.expected = True

    def forget(self, count: int) -> None:
        """This many rows were remarked on when they came."""
        self._before = count


def remark_of(told: Told | None) -> str | None:
    return None if told is None else told.remark


def lateness(stream: StreamDefinition, late: int, rows: int, behind: int) -> Lateness:
    """The remark on `late` of `rows` rows, which were at most `behind` microseconds behind the newest row."""
    name, column = name_to_sql(stream.name), name_to_sql(stream.timestamp)
    came = f"{late:,} of {rows:,} rows of stream '{stream.name}' came late and were dropped"
    ways = f"ALTER STREAM {name} SET (late = 'keep') keeps late rows, late = 'drop' ends this warning"
    if behind <= stream.delay_us:
        return Lateness(late, f"{came}: they are older than advance() or flush() had allowed. {ways}")
    waits = f"the stream waits {format_duration(stream.delay_us)}" if stream.delay_us else "the stream waits for none"
    needed = format_duration(rounded_up(behind))
    clause = f"WATERMARK FOR {column} AS {column} - INTERVAL {needed}"
    remark = (
        f"{came}: they were up to {needed} behind the newest row, and {waits}. Push rows in order of {column}, or "
        f"create the stream with {clause}, which would have kept them; answers then come that much later. {ways}"
    )
    return Lateness(late, remark)


def nothing_kept(stream: StreamDefinition, late: int) -> str:
    """The remark for a caller that fetches late rows of a stream that keeps none."""
    dropped = f" ({late:,} were dropped so far)" if late else ""
    return (
        f"stream '{stream.name}' keeps no late rows{dropped}: "
        f"ALTER STREAM {name_to_sql(stream.name)} SET (late = 'keep') keeps those that come from then on"
    )


def rounded_up(duration: int) -> int:
    """A duration that is at least as long, at most a tenth longer, and short to write.

    >>> format_duration(rounded_up(187_234_500_001)), format_duration(rounded_up(3_000_000))
    ('53 HOURS', '3 SECONDS')
    """
    unit = next((unit for unit in (DAY, HOUR, MINUTE, SECOND, MILLISECOND) if duration >= 10 * unit), 1)
    return -(-duration // unit) * unit


def warn(remark: Warning) -> None:
    """Warns at the line of the caller's own program."""
    warnings.warn(remark, stacklevel=_callers_level())


def tell_all(remarks: deque[Warning], tell: Callable[[Warning], None]) -> list[Exception]:
    """Tells and removes all remarks; returns those that a filter has made errors."""
    raised: list[Exception] = []
    while remarks:
        try:
            tell(remarks.popleft())
        except Warning as problem:
            raised.append(problem)
    return raised


def _callers_level() -> int:
    """The stack level of the first frame outside panewise, counted from this function's caller."""
    frame, level = sys._getframe(1), 1
    while frame.f_globals.get("__name__", "").startswith("panewise.") and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    return level
