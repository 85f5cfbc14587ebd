"""The budget of a one-time query: rows, bytes and seconds, checked while it runs.

Rows are results of joins and selected rows. Bytes are the memory of these rows, of groups, of computed columns, and of
what is read from files. Both are counted part by part, before the next part is made. So a read takes at most its budget
and one part, times the few copies that operators make. Rows that are only scanned take no memory and are not counted;
the limit of seconds bounds them.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from time import monotonic

import pyarrow as pa

from panewise.errors import PlanError, ReadLimitError
from panewise.plan.expressions.text_sizes import limited

PART_CELLS = 1 << 22  # values computed between two checks of the budget
PART_ROWS_MAX = 65_536
PART_ROWS_MIN = 64
SHORT_CELLS = 64  # most values of eight bytes that a short SELECT computes for a row


@dataclass(frozen=True)
class ReadLimits:
    """The budget of every one-time query of an engine; None: no limit."""

    rows: int | None = 10_000_000
    bytes: int | None = 1 << 30
    seconds: float | None = 30.0

    def __post_init__(self) -> None:
        for name in ("rows", "bytes"):
            limit = getattr(self, name)
            if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
                raise PlanError(
                    f"read_{name} is a whole number of at least 1, and not {limit!r}", hint="None means no limit"
                )
        seconds = self.seconds
        if seconds is not None and (
            isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0
        ):
            raise PlanError(f"read_seconds is a number greater than 0, and not {seconds!r}", hint="None means no limit")


class ReadBudget:
    """The budget of one read. Its seconds begin when the object is created.

    >>> budget = ReadBudget(ReadLimits(rows=10))
    >>> budget.take(rows=9)
    >>> budget.take(rows=2)
    Traceback (most recent call last):
        ...
    panewise.errors.ReadLimitError: the one-time query makes more than 10 rows, which is its limit (read_rows)
    hint: narrow it with WHERE or a shorter window, or register it with CREATE QUERY; to allow more, raise read_rows
    """

    def __init__(self, limits: ReadLimits) -> None:
        self._limits = limits
        self._began = monotonic()
        self._rows = 0
        self._bytes = 0

    def begin_again(self) -> None:
        """Sets rows and bytes back to 0, because the results were discarded; the seconds continue."""
        self._rows = self._bytes = 0

    def take(self, rows: int = 0, size: int = 0) -> None:
        """Counts rows and bytes that were made or are about to be made; ReadLimitError if a limit is exceeded."""
        self._rows += rows
        self._bytes += size
        limits = self._limits
        if limits.rows is not None and self._rows > limits.rows:
            raise _exceeded(f"makes more than {limits.rows:,} rows", "read_rows")
        if limits.bytes is not None and self._bytes > limits.bytes:
            raise _exceeded(f"needs more than {limits.bytes:,} bytes of memory", "read_bytes")
        if limits.seconds is not None and monotonic() - self._began > limits.seconds:
            raise _exceeded(f"takes longer than {limits.seconds:g} s", "read_seconds")

    def texts(self) -> AbstractContextManager[None]:
        """A context in which a text that alone exceeds the limit of bytes is refused before it is made; seconds are
        checked too."""
        return limited(self._check_texts)

    def _check_texts(self, size: int) -> None:
        if self._limits.bytes is not None and size > self._limits.bytes:
            self.take(size=size)
        self.take()

    def take_batch(self, batch: pa.RecordBatch) -> None:
        """Counts rows copied from files: their bytes, but not as rows that the read made."""
        self.take(size=batch.nbytes)


def part_rows(cells: int) -> int:
    """The number of rows to compute at a time, if `cells` values of eight bytes are computed for each."""
    return max(PART_ROWS_MIN, min(PART_ROWS_MAX, PART_CELLS // max(1, cells)))


def weight_of(cells: int) -> int:
    """The cost of a row relative to a short SELECT, if `cells` values of eight bytes are computed for it."""
    return max(1, cells // SHORT_CELLS)


def _exceeded(what: str, setting: str) -> ReadLimitError:
    return ReadLimitError(
        f"the one-time query {what}, which is its limit ({setting})",
        hint="narrow it with WHERE or a shorter window, or register it with CREATE QUERY; "
        f"to allow more, raise {setting}",
    )
