"""What is said of late rows that nobody keeps: how many came, how far behind, and the delay that would have kept them.

A remark is due with the first late row of a stream, and again whenever there are ten times as many, so a thousand late
rows cause at most four remarks. Where the stream says `late = 'keep'` or `late = 'drop'`, somebody knows about them and
there are none. Rows of a log that is read again were remarked on when they came.
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

REPEATED_AT = 10  # times as many late rows as at the remark before


class Lateness(NamedTuple):
    """How many rows of a stream have come late so far, and what is to be said of them."""

    rows: int
    remark: str


class Told(Protocol):
    """Rows that something is to be said of."""

    @property
    def remark(self) -> str: ...


class Remarks:
    """When they are due, of one stream since it was opened: of late rows, or of bad ones.

    >>> remarks = Remarks()
    >>> [remarks.due(count) for count in (0, 1, 9, 10, 11, 5000)]
    [False, True, False, True, False, True]
    """

    def __init__(self, before: int = 0) -> None:
        """`before`: rows of an earlier session."""
        self.expected = False  # whether somebody knows already
        self._before = before
        self._due_at = 1

    @property
    def remarked_at(self) -> int:
        """How many rows there were at the last remark."""
        return self._before + self._due_at // REPEATED_AT

    @property
    def first(self) -> bool:
        """Whether the next row is the first to be remarked on."""
        return not self.expected and self._due_at == 1

    def is_due(self, count: int) -> bool:
        """Whether `due` would say so."""
        return not self.expected and count - self._before >= self._due_at

    def due(self, count: int) -> bool:
        """Whether a remark is due now that there are so many. It is due once."""
        if not self.is_due(count):
            return False
        self._due_at = (count - self._before) * REPEATED_AT
        return True

    def forget(self, count: int) -> None:
        """So many were remarked on when they came."""
        self._before = count


def remark_of(told: Told | None) -> str | None:
    return None if told is None else told.remark


def lateness(stream: StreamDefinition, late: int, rows: int, behind: int) -> Lateness:
    """What is said of `late` of `rows` rows, the latest of which was `behind` microseconds behind the newest row."""
    name, column = name_to_sql(stream.name), name_to_sql(stream.timestamp)
    came = f"{late:,} of {rows:,} rows of stream '{stream.name}' came late and were dropped"
    ways = f"ALTER STREAM {name} SET (late = 'keep') keeps late rows, late = 'drop' ends this warning"
    if behind <= stream.delay_us:
        return Lateness(late, f"{came}: they are older than advance() or flush() had said that rows would be. {ways}")
    waits = f"the stream waits {format_duration(stream.delay_us)}" if stream.delay_us else "the stream waits for none"
    needed = format_duration(rounded_up(behind))
    clause = f"WATERMARK FOR {column} AS {column} - INTERVAL {needed}"
    remark = (
        f"{came}: they were up to {needed} behind the newest row, and {waits}. Push rows in order of {column}, or "
        f"create the stream with {clause}, which would have kept them; answers then come that much later. {ways}"
    )
    return Lateness(late, remark)


def nothing_kept(stream: StreamDefinition, late: int) -> str:
    """What is said to who asks for late rows that nobody keeps."""
    dropped = f" ({late:,} were dropped so far)" if late else ""
    return (
        f"stream '{stream.name}' keeps no late rows{dropped}: "
        f"ALTER STREAM {name_to_sql(stream.name)} SET (late = 'keep') keeps those that come from then on"
    )


def rounded_up(duration: int) -> int:
    """A duration at least as long and at most a tenth longer, in a unit that people read.

    >>> format_duration(rounded_up(187_234_500_001)), format_duration(rounded_up(3_000_000))
    ('53 HOURS', '3 SECONDS')
    """
    unit = next((unit for unit in (DAY, HOUR, MINUTE, SECOND, MILLISECOND) if duration >= 10 * unit), 1)
    return -(-duration // unit) * unit


def warn(remark: Warning) -> None:
    """Warns, at the line of the caller's own program."""
    warnings.warn(remark, stacklevel=_callers_level())


def tell_all(remarks: deque[Warning], tell: Callable[[Warning], None]) -> list[Exception]:
    """Tells each of them, and takes them away; returns what a filter has made errors of."""
    raised: list[Exception] = []
    while remarks:
        try:
            tell(remarks.popleft())
        except Warning as problem:
            raised.append(problem)
    return raised


def _callers_level() -> int:
    """Of the first frame that is not panewise's own, counted from who calls this."""
    frame, level = sys._getframe(1), 1
    while frame.f_globals.get("__name__", "").startswith("panewise.") and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    return level
