"""DISTINCT over many windows of one stream: every row is looked up once.

Queries that differ only in the range of their window share one table of values, with the newest copy of each value. A
window of range w shows a value while its newest copy is younger than w. A row that comes d after the previous copy is
therefore a new birth for the windows with w <= d; for the others it is a duplicate. Duplicates of a window are also
duplicates of every longer one. Windows are processed in order of range, each with only the rows that were births for
the one before.

Each query gets the results that its own delta-star would give (`operators/deltas/distinct.py`): a result dies when the
copy that it stands for leaves, and the newest copy before that instant becomes the next result. The only state of a
query is a calendar of when its results die.

    table           value -> newest copy                          shared
    calendars       window x day -> (value, death) ...            an entry for each value that the window shows

Cost: O(1) a row, expected, for any number of windows; O(log copies in the step) a result. Until a window has been there
for as long as its range, every row is checked for it. A step scans one day, a 128th of the range, of every calendar.
State: 24 bytes and a table entry for each value, about 12 bytes for each calendar entry. Edges are WEAK.

Sources: Patroumpas and Sellis 2011, section 4, also keep the newest copy for all windows, but in stairs that are
evaluated from the lowest when there is a report; Golab 2006, section 3.2.2, for the form of the results.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.arrays import Ints, Small
from panewise.operators.relation_delta import Delta
from panewise.operators.shared_core.shared_distinct_loops import (
    BIRTH,
    BLOCK,
    COUNT,
    DAYS,
    DEATH,
    FREE,
    HELD,
    NEVER,
    NEWEST,
    START,
    VALUE,
    CalendarArrays,
    Matrix,
    arrive,
    held,
    rename,
    schedule,
    settle,
    show,
)
from panewise.schema import Schema
from panewise.state.expiring import room_for, widened
from panewise.state.group_table import GroupTable

_SPARE = 4096  # Up to this many dead values are never worth a compaction.


class SharedDistinct:
    """The distinct rows of a stream in any number of time windows; `schema` is that of the rows.

    >>> from panewise.schema import BIGINT, Column
    >>> distinct = SharedDistinct(Schema((Column("a", BIGINT),)))
    >>> distinct.add("short", 3, NEVER)
    >>> distinct.add("long", 5, NEVER)
    >>> results = distinct.process(pa.record_batch({"a": [7, 7, 7]}), np.array([1, 2, 6]), 0, 10)
    >>> [(name, result.births.tolist(), result.deaths.tolist()) for name, result in results.items()]
    [('short', [1, 4, 6], [4, 5, 9]), ('long', [1, 6, 7], [6, 7, 11])]
    """

    name: ClassVar[str] = "SharedDistinct"  # in EXPLAIN
    said: ClassVar[Mapping[str, str]] = {}  # what EXPLAIN says of it besides its name

    def __init__(self, schema: Schema) -> None:
        self._arrow = schema.to_arrow()
        self._table = GroupTable(tuple(column.type for column in schema))
        self._copies: Matrix = np.empty((0, 3), np.int64)
        self._names: list[str] = []
        # By window: its range, the first instant from which on it sees rows, the number of its next result, whether it
        # has not had a step yet, and its calendar.
        self._ranges: Ints = np.empty(0, np.int64)
        self._begins: Ints = np.empty(0, np.int64)
        self._next: Ints = np.empty(0, np.int64)
        self._fresh: NDArray[np.bool_] = np.empty(0, np.bool_)
        self._heads: Small = np.empty((0, DAYS), np.int32)
        self._clear_blocks()
        self._kept_from = NEVER  # The table has all rows from this instant on; no window reaches further back.
        self._worth_forgetting = _SPARE  # number of values above which dead ones are looked for

    def _clear_blocks(self) -> None:
        self._heads = np.full((len(self._names), DAYS), -1, np.int32)
        self._values: Small = np.empty(0, np.int32)
        self._deaths: Ints = np.empty(0, np.int64)
        self._filled: Small = np.empty(0, np.int32)
        self._following: Small = np.empty(0, np.int32)
        self._marks: Ints = np.array([-1, 0], np.int64)

    # ---- windows -------------------------------------------------------------------------------------------------

    def add(self, name: str, range_us: int, begins: int) -> None:
        """Adds a window from the next step on. It sees the rows from the instant `begins` on (NEVER: all), including
        rows of earlier steps that another window still holds."""
        assert name not in self._names and range_us > 0
        self._names.append(name)
        self._ranges, self._begins = np.append(self._ranges, range_us), np.append(self._begins, begins)
        self._next, self._fresh = np.append(self._next, 0), np.append(self._fresh, True)
        self._heads = np.concatenate([self._heads, np.full((1, DAYS), -1, np.int32)])

    def remove(self, name: str) -> None:
        """Removes a window. The caller ends its results."""
        gone = self._names.index(name)
        entries = self._entries()
        del self._names[gone]
        self._ranges, self._begins = np.delete(self._ranges, gone), np.delete(self._begins, gone)
        self._next, self._fresh = np.delete(self._next, gone), np.delete(self._fresh, gone)
        del entries[gone]
        self._load_entries(entries)
        self._worth_forgetting = 0  # Many values are dead if this was the longest window.

    # ---- steps ---------------------------------------------------------------------------------------------------

    def process(self, batch: pa.RecordBatch, times: Ints, since: int, until: int) -> dict[str, Delta]:
        """Accounts for the instants in [since, until). All rows lie there, in order of time."""
        assert not len(times) or (since <= times[0] and times[-1] < until)
        if not self._names:
            self._kept_from = until
            return {}
        since = max(since, until - (1 << 62))
        if len(self._table):
            # Copies older than `_kept_from` may have been dropped or not, so a new window never sees them.
            self._begins[self._fresh] = np.maximum(self._begins[self._fresh], self._kept_from)
        values = self._table.ids(batch.columns)
        self._make_room()
        order = np.argsort(self._ranges, kind="stable")
        grouped, previous, gaps = (np.empty(len(values), np.int64) for _ in range(3))
        gap_count = arrive(values, times, int(self._ranges.min()), self._copies, grouped, previous, gaps)
        ends = np.empty(len(order), np.int64)
        windows, new = (order, self._ranges, self._begins, self._fresh), (values, times, previous, grouped)
        results = show(
            windows, since, until, len(self._table), new, gaps[:gap_count], self._copies, self._calendars(), ends
        )
        settle(values, grouped, self._copies)
        self._fresh[:] = False
        result = self._deltas(order, ends, results)
        for window, start, end in zip(order.tolist(), [0, *ends.tolist()], ends.tolist(), strict=False):
            if end > start:
                self._schedule(window, until, results[VALUE, start:end], results[DEATH, start:end])
        self._kept_from = max(self._kept_from, until - int(self._ranges.max()))
        self._forget()
        return result

    def _calendars(self) -> CalendarArrays:
        return self._heads, self._values, self._deaths, self._filled, self._following, self._marks

    def _make_room(self) -> None:
        before, needed = len(self._copies), len(self._table)
        if needed > before:
            copies = np.empty((room_for(needed), 3), np.int64)
            copies[:before] = self._copies
            copies[before:, NEWEST], copies[before:, START], copies[before:, COUNT] = NEVER, -1, 0
            self._copies = copies

    def _deltas(self, order: Ints, ends: Ints, results: Matrix) -> dict[str, Delta]:
        whole = pa.RecordBatch.from_arrays(self._table.keys(results[VALUE]), schema=self._arrow)
        result, start = {}, 0
        for window, end in zip(order.tolist(), ends.tolist(), strict=True):
            count, first = end - start, int(self._next[window])
            self._next[window] += count
            part = whole.slice(start, count), np.arange(first, first + count)
            result[self._names[window]] = Delta(*part, results[BIRTH, start:end], results[DEATH, start:end])
            start = end
        return result

    def _schedule(self, window: int, until: int, values: Ints, deaths: Ints) -> None:
        done, range_us = 0, int(self._ranges[window])
        while True:
            done = schedule(window, range_us, until, done, values, deaths, self._calendars())
            if done == len(values):
                return
            self._more_blocks()

    def _more_blocks(self) -> None:
        before = len(self._following)
        room = max(16, 3 * before // 2)
        self._values, self._deaths = widened(self._values, BLOCK * room), widened(self._deaths, BLOCK * room)
        self._filled, self._following = widened(self._filled, room), widened(self._following, room)
        self._following[before:] = np.arange(before + 1, room + 1)
        self._following[room - 1] = self._marks[FREE]
        self._marks[FREE] = before

    def _forget(self) -> None:
        """Drops the values that are in no window if they are more than half, and shrinks the calendars."""
        if len(self._deaths) > 8 * int(self._marks[HELD]) + BLOCK * DAYS * len(self._names):
            self._load_entries(self._entries())
        if len(self._table) <= self._worth_forgetting:
            return
        newest = self._copies[: len(self._table), NEWEST]
        live = np.flatnonzero(newest >= self._kept_from)
        if 2 * len(live) <= len(self._table):
            renamed = self._table.keep(live)
            self._copies = self._copies[live]
            rename(renamed, self._calendars())
        self._worth_forgetting = 2 * len(self._table) + _SPARE

    # ---- state ---------------------------------------------------------------------------------------------------

    @property
    def bytes_held(self) -> int:
        blocks = self._values.nbytes + self._deaths.nbytes + self._filled.nbytes + self._following.nbytes
        return self._table.bytes_held + self._copies.nbytes + self._heads.nbytes + blocks

    def _entries(self) -> list[Matrix]:
        """The values and deaths of every window's calendar, in the rows VALUE and DEATH."""
        found = np.empty((3, int(self._marks[HELD])), np.int64)
        return [found[:, : held(window, self._calendars(), found)].copy() for window in range(len(self._names))]

    def _load_entries(self, entries: list[Matrix]) -> None:
        self._clear_blocks()
        for window, part in enumerate(entries):
            self._schedule(window, NEVER, part[VALUE], part[DEATH])

    def snapshot(self) -> dict[str, Any]:
        entries = self._entries()
        return {
            "names": list(self._names),
            "ranges": self._ranges.copy(),
            "begins": self._begins.copy(),
            "next": self._next.copy(),
            "fresh": self._fresh.copy(),
            "kept_from": self._kept_from,
            "table": self._table.snapshot(),
            "newest": self._copies[: len(self._table), NEWEST].copy(),
            "values": [part[VALUE].copy() for part in entries],
            "deaths": [part[DEATH].copy() for part in entries],
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._names = list(snapshot["names"])
        self._ranges, self._begins = snapshot["ranges"].copy(), snapshot["begins"].copy()
        self._next, self._fresh = snapshot["next"].copy(), snapshot["fresh"].copy()
        self._kept_from = snapshot["kept_from"]
        self._table.restore(snapshot["table"])
        self._copies = np.empty((0, 3), np.int64)
        self._make_room()
        self._copies[: len(self._table), NEWEST] = snapshot["newest"]
        pairs = zip(snapshot["values"], snapshot["deaths"], strict=True)
        self._load_entries([np.stack([values, deaths, deaths]) for values, deaths in pairs])
