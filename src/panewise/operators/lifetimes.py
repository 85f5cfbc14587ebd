"""Lifetimes: the instants at which each row enters and leaves a continuous window.

A row is in the window at instant t when `birth <= t < death`. All rows of one instant apply together, so a row that is
born and dies at the same instant never shows. What is not known yet is FOREVER.

    [RANGE r OFFSET o]   born at ts + o, dies at ts + o + r          [UNBOUNDED]: never dies
    [ROWS n OFFSET m]    born when the m-th row after it arrives, dies when the (m + n)-th does; of the stream's rows
                         before WHERE, or of its partition's

        row      1    2,3    4     5                   [ROWS 2 OFFSET 1]
        ts       10   20     30    50
        row 1         |======)                         [20, 30): born with row 2, dies with row 4
        row 2         |============)                   [20, 50): born with row 3, dies with row 5
        row 3                |============..           [30, ?)

A query that comes in mid-stream has not seen what came before; its rows are held back until the window is whole: a time
window's until `held_from + range + offset - 1`, a count window's until n + m rows (of the partition) have come, unless
it is known (`begin_after`) that none of the partition came before.
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
    """What became known with a batch of rows.

    `births` and `deaths` are those of the batch's rows; `earlier` are the sequence numbers of older rows of which a
    birth or a death became known (the other one is FOREVER where it did not). `first` is the sequence number of the
    batch's first row, unless `sequences` numbers each.
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
    whole_from: int  # no row shows before this instant

    @property
    def known_from(self) -> int:
        """What the window held before this instant is not known; FOREVER as long as nothing is."""

    def assign(self, rows: Rows) -> Assigned:
        """Takes the next rows."""

    @property
    def bytes_held(self) -> int: ...

    def snapshot(self) -> dict[str, Any]: ...

    def restore(self, snapshot: dict[str, Any]) -> None: ...


def not_held(at: int, first: int, last: int) -> NotHeldError:
    """Why a continuous query cannot tell its state at an instant, where it knows those from the first to the last."""
    held = (
        "nothing is held yet: a query that comes in mid-stream answers when its window is whole, and one over "
        "[UNBOUNDED] never"
    )
    if max(first, NEVER + 1) <= last:
        begins = "the beginning" if first == NEVER else format_instant(first)
        held = f"held are the instants from {begins} to {format_instant(last)}"
    return NotHeldError(f"the state at {format_instant(at)} is not held", hint=held)


def lifetimes_of(window: Window, schema: Schema, held_from: int | None) -> Lifetimes:
    """The lifetimes of a window's rows; SLIDE, if any, plays no part."""
    if isinstance(window, TimeWindow):
        return TimeLifetimes(window, held_from)
    return CountLifetimes(window, schema, held_from)


_NONE: Ints = np.empty(0, np.int64)


class TimeLifetimes:
    """Of [RANGE r OFFSET o], [NOW] and [UNBOUNDED]: known at once, O(1) state."""

    def __init__(self, window: TimeWindow, held_from: int | None) -> None:
        self._window = window
        self._next = 0
        self.starts_at = FOREVER
        self.whole_from = NEVER
        if held_from is not None and window.range_us is not None:
            # The stream has had rows before, so an ungrouped answer exists as soon as the window is whole.
            self.whole_from = held_from + window.range_us + window.offset_us - 1
            self.starts_at = self.whole_from
        # Rows that went by stay in a window without an end, and nobody knows them.
        self._misses_some = held_from is not None and window.range_us is None

    bytes_held = 0

    @property
    def known_from(self) -> int:
        return FOREVER if self._misses_some else self.whole_from

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
    """Of [PARTITION BY c ROWS n OFFSET m]: holds the last n + m rows of each partition, those that have not died."""

    def __init__(self, window: RowsWindow, schema: Schema, held_from: int | None) -> None:
        self._rows, self._offset = window.rows, window.offset
        self._wait = held_from is not None  # rows of any partition may have come before
        self.tail = PartitionTail(schema, window.partition_by, window.rows + window.offset, held_from)
        self.starts_at = FOREVER
        self.whole_from = NEVER

    @property
    def bytes_held(self) -> int:
        return self.tail.bytes_held

    def begin_after(self, gone: RowCounts) -> None:
        """Before any row: so many came before, and no others."""
        self._wait = False
        self.tail.begin_after(gone)

    @property
    def known_from(self) -> int:
        misses = self._wait or self.tail.misses_some
        return max(self.whole_from, self.starts_at if misses else NEVER)

    def assign(self, rows: Rows) -> Assigned:
        tail = self.tail
        first = tail.next_sequence
        tail.extend(tail.seen(rows))
        position, ends = np.arange(len(tail.partitions)), tail.ends()
        # The number of the row that brings this one into the window, hence its position in the partition's segment.
        missed = tail.missed
        whole_at = np.where((missed > 0) | self._wait, missed + self._rows + self._offset, 0)
        born_by = position + np.maximum(self._offset, whole_at - tail.numbers)
        births = np.maximum(self._times_where_new(born_by, ends, first), self.whole_from)
        deaths = self._times_where_new(position + (self._offset + self._rows), ends, first)
        sequences = tail.sequences
        tail.trim()
        new = sequences >= first
        batch_order = sequences[new] - first
        # Rows that are only counted are never shown: they die when they are born.
        batch_births, batch_deaths = rows.times.copy(), rows.times.copy()
        batch_births[batch_order], batch_deaths[batch_order] = births[new], deaths[new]
        known = ~new & ((births != FOREVER) | (deaths != FOREVER))
        if len(births):
            self.starts_at = min(self.starts_at, int(births.min()))
        return Assigned(first, batch_births, batch_deaths, sequences[known], births[known], deaths[known])

    def _times_where_new(self, causes: Ints, ends: Ints, first: int) -> Ints:
        """The times of the rows at these positions; FOREVER where there is none yet or it came in an earlier batch."""
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
