"""Lifetimes: the instants at which each row enters and leaves a continuous window.

A row is in the window at instant t if `birth <= t < death`. All changes of one instant apply together, so a row that is
born and dies at the same instant is never in it. A birth or death that is not known yet is FOREVER.

    [RANGE r OFFSET o]   born at ts + o, dies at ts + o + r          [UNBOUNDED]: never dies
    [ROWS n OFFSET m]    born when the m-th row after it arrives, dies when the (m + n)-th does; counted are the rows of
                         the stream, or of the partition, before WHERE

        row      1    2,3    4     5                   [ROWS 2 OFFSET 1]
        ts       10   20     30    50
        row 1         |======)                         [20, 30): born with row 2, dies with row 4
        row 2         |============)                   [20, 50): born with row 3, dies with row 5
        row 3                |============..           [30, ?)

A query that is created in mid-stream has not seen earlier rows. Its rows are not born before the window is whole: a
time window at `held_from + range + offset - 1`, a count window when n + m rows (of the partition) have come. A count
window is whole at once if no row of the partition came before (`begin_after`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from panewise.arrays import Ints
from panewise.errors import NotHeldError
from panewise.operators.partition_tail import PartitionTail, RowCounts
from panewise.operators.row_batch import Rows
from panewise.schema import Schema
from panewise.temporal import RowsWindow, TimeWindow, Window, format_instant

FOREVER = 2**63 - 1
NEVER = -(2**63)


@dataclass(frozen=True)
class Assigned:
    """The lifetimes that became known with a batch of rows.

    `births` and `deaths` belong to the batch's rows. `earlier` are the sequence numbers of older rows whose birth or
    death became known; the other one is FOREVER unless it became known too. `first` is the sequence number of the
    batch's first row, unless `sequences` has the number of each row.
    """

    first: int
    births: Ints
    deaths: Ints
    earlier: Ints
    earlier_births: Ints
    earlier_deaths: Ints
    sequences: Ints | None = None


class Lifetimes(Protocol):
    """Assigns lifetimes to rows that come in (time, arrival) order."""

    starts_at: int  # the first instant at which the window held a row; FOREVER before it is known
    whole_from: int  # no row is born before this instant

    @property
    def known_from(self) -> int:
        """The first instant at which the content of the window is known; FOREVER if there is none yet."""

    def assign(self, rows: Rows) -> Assigned:
        """Takes the next rows, and returns the lifetimes that became known."""

    def begin_at(self, instant: int) -> None:
        """Rows are born at this instant at the earliest; to be called before any row."""

    @property
    def bytes_held(self) -> int: ...

    def snapshot(self) -> dict[str, Any]: ...

    def restore(self, snapshot: dict[str, Any]) -> None: ...


def not_held(at: int, first: int, last: int) -> NotHeldError:
    """The error of a continuous query that knows its state from `first` to `last` only, and not at an instant."""
    held = (
        "nothing is held yet: a query that comes in mid-stream answers when its window is whole, and one over "
        "[UNBOUNDED] never"
    )
    if max(first, NEVER + 1) <= last:
        begins = "the beginning" if first == NEVER else format_instant(first)
        held = f"held are the instants from {begins} to {format_instant(last)}"
    return NotHeldError(f"the state at {format_instant(at)} is not held", hint=held)


def lifetimes_of(window: Window, schema: Schema, held_from: int | None) -> Lifetimes:
    """Assigns the lifetimes of a window's rows; SLIDE has no effect on them."""
    if isinstance(window, TimeWindow):
        return TimeLifetimes(window, held_from)
    return CountLifetimes(window, schema, held_from)


_NONE: Ints = np.empty(0, np.int64)


class TimeLifetimes:
    """Lifetimes in [RANGE r OFFSET o], [NOW] and [UNBOUNDED]: known at once, O(1) state."""

    def __init__(self, window: TimeWindow, held_from: int | None) -> None:
        self._window = window
        self._next = 0
        self.starts_at = FOREVER
        self.whole_from = NEVER
        if held_from is not None and window.range_us is not None:
            # The stream had rows before, so an ungrouped query has an answer as soon as the window is whole.
            self.whole_from = held_from + window.range_us + window.offset_us - 1
            self.starts_at = self.whole_from
        # Rows that came before the query stay in an unbounded window for ever, but are not known.
        self._misses_some = held_from is not None and window.range_us is None

    bytes_held = 0

    @property
    def known_from(self) -> int:
        return FOREVER if self._misses_some else self.whole_from

    def begin_at(self, instant: int) -> None:
        self.whole_from = instant

    def assign(self, rows: Rows) -> Assigned:
        births = rows.times + self._window.offset_us
        if self._window.range_us is None:
            deaths = np.full(len(rows), FOREVER, np.int64)
        else:
            deaths = births + self._window.range_us
        births = np.maximum(births, self.whole_from)
        if len(births):
            self.starts_at = min(self.starts_at, int(births[0]))
        first, self._next = self._next, self._next + len(rows)
        return Assigned(first, births, deaths, _NONE, _NONE, _NONE)

    def snapshot(self) -> dict[str, Any]:
        marks = {"starts_at": self.starts_at, "whole_from": self.whole_from, "misses_some": self._misses_some}
        return {"next": self._next, **marks}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._next, self.starts_at = snapshot["next"], snapshot["starts_at"]
        self.whole_from = snapshot["whole_from"]
        self._misses_some = snapshot.get("misses_some", False)


class CountLifetimes:
    """Lifetimes in [PARTITION BY c ROWS n OFFSET m]: holds the last n + m rows of each partition."""

    def __init__(self, window: RowsWindow, schema: Schema, held_from: int | None) -> None:
        self._rows, self._offset = window.rows, window.offset
        self._wait = held_from is not None  # rows of any partition may have come before the query
        self.tail = PartitionTail(schema, window.partition_by, window.rows + window.offset, held_from)
        self.starts_at = FOREVER
        self.whole_from = NEVER

    @property
    def bytes_held(self) -> int:
        return self.tail.bytes_held

    def begin_after(self, gone: RowCounts) -> None:
        """These rows, and no others, came before the query; to be called before any row."""
        self._wait = False
        self.tail.begin_after(gone)

    def begin_at(self, instant: int) -> None:
        self.whole_from = instant

    @property
    def known_from(self) -> int:
        misses = self._wait or self.tail.misses_some
        return max(self.whole_from, self.starts_at if misses else NEVER)

    def assign(self, rows: Rows) -> Assigned:
        tail = self.tail
        first = tail.next_sequence
        tail.extend(tail.seen(rows))
        position, ends = np.arange(len(tail.partitions)), tail.ends()
        # The position, in the segment of the partition, of the row with which this row is born.
        missed = tail.missed
        whole_at = np.where((missed > 0) | self._wait, missed + self._rows + self._offset, 0)
        born_by = position + np.maximum(self._offset, whole_at - tail.numbers)
        births = np.maximum(self._times_where_new(born_by, ends, first), self.whole_from)
        deaths = self._times_where_new(position + (self._offset + self._rows), ends, first)
        sequences = tail.sequences
        tail.trim()
        new = sequences >= first
        batch_order = sequences[new] - first
        # Rows that are only counted are never in the window: they die when they are born.
        batch_births, batch_deaths = rows.times.copy(), rows.times.copy()
        batch_births[batch_order], batch_deaths[batch_order] = births[new], deaths[new]
        known = ~new & ((births != FOREVER) | (deaths != FOREVER))
        if len(births):
            self.starts_at = min(self.starts_at, int(births.min()))
        return Assigned(first, batch_births, batch_deaths, sequences[known], births[known], deaths[known])

    def _times_where_new(self, causes: Ints, ends: Ints, first: int) -> Ints:
        """The times of the rows at these positions; FOREVER if a row has not come yet or came in an earlier batch."""
        result = np.full(len(causes), FOREVER, np.int64)
        there = np.flatnonzero(causes < ends)
        there = there[self.tail.sequences[causes[there]] >= first]
        result[there] = self.tail.times[causes[there]]
        return result

    def snapshot(self) -> dict[str, Any]:
        marks = {"starts_at": self.starts_at, "wait": self._wait, "whole_from": self.whole_from}
        return {"tail": self.tail.snapshot(), **marks}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.tail.restore(snapshot["tail"])
        self.starts_at = snapshot["starts_at"]
        # An earlier panewise wrote how many rows it waited for.
        self._wait = snapshot["wait"] if "wait" in snapshot else snapshot["whole_at"] > 0
        self.whole_from = snapshot.get("whole_from", NEVER)
