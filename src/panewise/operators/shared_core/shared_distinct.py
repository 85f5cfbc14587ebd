"""DISTINCT over many windows of one stream: every row is looked up once.

Queries that differ in the range of their window only share one table of values, with the newest copy of each. A value
is in a window of range w at t while its newest copy is younger than w, so that a row which comes d after the copy
before it is a new birth for the windows with w <= d, and for all others nothing happens: the smaller window's
duplicates are the greater one's too. Windows are asked in order of range, each about the rows that the one before it
took only.

What each query gets is what its own delta-star would say (`operators/deltas/distinct.py`): a result dies when the
copy leaves for which it stands, and the newest copy before that instant takes over as another result. The only state
of a query is a calendar of when its results die.

    table           value -> newest copy                          shared
    calendars       window x day -> (value, death) ...            an entry for each value that the window shows

Cost: a row O(1), expected, whatever the number of windows; a result O(log copies in the step). For as long as a window
has not been there for its range every row is looked at for it. A step looks through one day, a 128th of the range, of
every calendar. State: 24 bytes and the table's a value, 12 and the slack of blocks an entry. Edges are WEAK.

Patroumpas and Sellis 2011, section 4, who keep the newest copy for all windows too, but in stairs that are asked from
the lowest one on when somebody reports; Golab 2006, section 3.2.2, for the form of the results.
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

_SPARE = 4096  # so many values that are gone are never worth forgetting


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
        # Of every window: its range, the first instant of which it sees rows, the number of its next result, whether
        # its first step is still to come; and its calendar.
        self._ranges: Ints = np.empty(0, np.int64)
        self._begins: Ints = np.empty(0, np.int64)
        self._next: Ints = np.empty(0, np.int64)
        self._fresh: NDArray[np.bool_] = np.empty(0, np.bool_)
        self._heads: Small = np.empty((0, DAYS), np.int32)
        self._clear_blocks()
        self._kept_from = NEVER  # the table has all rows from this instant on: no window reaches further back
        self._worth_forgetting = _SPARE  # with more values than that, the dead ones are looked for

    def _clear_blocks(self) -> None:
        self._heads = np.full((len(self._names), DAYS), -1, np.int32)
        self._values: Small = np.empty(0, np.int32)
        self._deaths: Ints = np.empty(0, np.int64)
        self._filled: Small = np.empty(0, np.int32)
        self._following: Small = np.empty(0, np.int32)
        self._marks: Ints = np.array([-1, 0], np.int64)

    # ---- windows -------------------------------------------------------------------------------------------------

    def add(self, name: str, range_us: int, begins: int) -> None:
        """One more window, from the next step on. It sees the rows from the instant `begins` on, NEVER for all: also
        those that came in earlier steps, as far as some window that was there still holds them."""
        assert name not in self._names and range_us > 0
        self._names.append(name)
        self._ranges, self._begins = np.append(self._ranges, range_us), np.append(self._begins, begins)
        self._next, self._fresh = np.append(self._next, 0), np.append(self._fresh, True)
        self._heads = np.concatenate([self._heads, np.full((1, DAYS), -1, np.int32)])

    def remove(self, name: str) -> None:
        """Forgets a window; what it has shown is the owner's to end."""
        gone = self._names.index(name)
        entries = self._entries()
        del self._names[gone]
        self._ranges, self._begins = np.delete(self._ranges, gone), np.delete(self._begins, gone)
        self._next, self._fresh = np.delete(self._next, gone), np.delete(self._fresh, gone)
        del entries[gone]
        self._load_entries(entries)
        self._worth_forgetting = 0  # without the greatest window much may be dead

    # ---- steps ---------------------------------------------------------------------------------------------------

    def process(self, batch: pa.RecordBatch, times: Ints, since: int, until: int) -> dict[str, Delta]:
        """Accounts for the instants in [since, until), to which all rows belong; they come in order of time."""
        assert not len(times) or (since <= times[0] and times[-1] < until)
        if not self._names:
            self._kept_from = until
            return {}
        since = max(since, until - (1 << 62))
        if len(self._table):
            # Older copies than all that are kept may have been forgotten or not: nobody who is new sees them.
            self._begins[self._fresh] = np.maximum(self._begins[self._fresh], self._kept_from)
        values = self._table.ids(batch.columns)
        self._make_room()
        order = np.argsort(self._ranges, kind="stable")
        grouped, previous, gaps = (np.empty(len(values), np.int64) for _ in range(3))
        gap_count = arrive(values, times, int(self._ranges.min()), self._copies, grouped, previous, gaps)
        ends = np.empty(len(order), np.int64)
        results = show(
            order, self._ranges, self._begins, self._fresh, since, until, len(self._table), values, times, previous,
            gaps[:gap_count], grouped, self._copies, self._heads, *self._blocks(), self._marks, ends,
        )  # fmt: skip
        settle(values, grouped, self._copies)
        self._fresh[:] = False
        result = self._deltas(order, ends, results)
        for window, start, end in zip(order.tolist(), [0, *ends.tolist()], ends.tolist(), strict=False):
            if end > start:
                self._schedule(window, until, results[VALUE, start:end], results[DEATH, start:end])
        self._kept_from = max(self._kept_from, until - int(self._ranges.max()))
        self._forget()
        return result

    def _blocks(self) -> tuple[Small, Ints, Small, Small]:
        return self._values, self._deaths, self._filled, self._following

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
            own = window, range_us, until, done, values, deaths, self._heads
            done = schedule(*own, *self._blocks(), self._marks)
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
        """Values that are in no window go, when they are the greater half; a calendar gives its memory back."""
        if len(self._deaths) > 8 * int(self._marks[HELD]) + BLOCK * DAYS * len(self._names):
            self._load_entries(self._entries())
        if len(self._table) <= self._worth_forgetting:
            return
        newest = self._copies[: len(self._table), NEWEST]
        live = np.flatnonzero(newest >= self._kept_from)
        if 2 * len(live) <= len(self._table):
            renamed = self._table.keep(live)
            self._copies = self._copies[live]
            rename(renamed, self._heads, self._values, self._filled, self._following)
        self._worth_forgetting = 2 * len(self._table) + _SPARE

    # ---- state ---------------------------------------------------------------------------------------------------

    @property
    def bytes_held(self) -> int:
        blocks = sum(column.nbytes for column in self._blocks())
        return self._table.bytes_held + self._copies.nbytes + self._heads.nbytes + blocks

    def _entries(self) -> list[Matrix]:
        """The values and deaths of every window's calendar, in the rows VALUE and DEATH."""
        found = np.empty((3, int(self._marks[HELD])), np.int64)
        return [found[:, : held(heads, *self._blocks(), found)].copy() for heads in self._heads]

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
