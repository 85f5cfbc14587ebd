"""A calendar queue: rows partitioned by when they expire, the state of WEAK edges.

The "days" of the calendar are a circular array of lists. A row is appended to the list of the day on which it expires,
so rows may come in any order. Time passes through the days one after the other:

    day            5           6           7           8           5 + 4        (4 partitions)
    expires     [50, 60)    [60, 70)    [70, 80)    [80, 90)    the list of day 5 again
                 today       61 69 64    75          82 81
                 sorted      in order of insertion

Today's rows are sorted once, when the day begins, and leave as a prefix. A new row that expires today is merged in.
Rows that expire more than a round ahead wait in the list of their day, which skips them once a round. Rows that never
expire have a list of their own.

Cost: inserting O(1) a row, expiring O(log partition) a row and O(1) for each day that has passed, at most one round.
Removing a row scans all partitions and should be rare. Days are so long that the held rows fit into one round, and
grow when these need more. Golab 2006, section 3.5.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from panewise.arrays import Ints
from panewise.loops import compiled_loop
from panewise.state.expiring import FOREVER, NONE, room_for, widened

PARTITIONS = 64
_FREE, _HELD = 0, 1  # places in `marks`: the first free node, and how many nodes are in lists


@compiled_loop
def _link(
    new_ids: Ints, new_expires: Ints, day: int, today: int, heads: Ints, tails: Ints, ids: Ints, expires: Ints,
    following: Ints, marks: Ints,
) -> int:  # fmt: skip
    """Appends rows to the lists of their days. Rows for today or before go to the front of the given arrays instead.

    Returns the number of those.
    """
    count = len(heads) - 1
    aside = 0
    for i in range(len(new_ids)):
        row, instant = new_ids[i], new_expires[i]
        number = instant // day
        if instant == FOREVER:
            place = count
        elif number <= today:
            new_ids[aside], new_expires[aside] = row, instant
            aside += 1
            continue
        else:
            place = number % count
        node = marks[_FREE]
        marks[_FREE] = following[node]
        ids[node], expires[node], following[node] = row, instant, -1
        if heads[place] < 0:
            heads[place] = node
        else:
            following[tails[place]] = node
        tails[place] = node
        marks[_HELD] += 1
    return aside


@compiled_loop
def _take_out(place: int, node: int, before: np.int64, heads: Ints, following: Ints, marks: Ints) -> None:
    """Takes a node out of its list and frees it. `before` is the node before it that stays (-1: none)."""
    if before < 0:
        heads[place] = following[node]
    else:
        following[before] = following[node]
    following[node] = marks[_FREE]
    marks[_FREE] = node
    marks[_HELD] -= 1


@compiled_loop
def _collect(
    first: int, days: int, limit: int, heads: Ints, tails: Ints, ids: Ints, expires: Ints, following: Ints,
    marks: Ints, out_ids: Ints, out_expires: Ints,
) -> int:  # fmt: skip
    """Moves the rows of these days that expire before the limit to `out`, day by day, in order of insertion. Returns
    their number."""
    count = len(heads) - 1
    taken = 0
    for k in range(days):
        place = (first + k) % count
        node, before = heads[place], np.int64(-1)
        while node >= 0:
            after = following[node]
            if expires[node] < limit:
                out_ids[taken], out_expires[taken] = ids[node], expires[node]
                taken += 1
                _take_out(place, node, before, heads, following, marks)
            else:
                before = node
            node = after
        tails[place] = before
    return taken


@compiled_loop
def _unlink(removed: Ints, heads: Ints, tails: Ints, ids: Ints, following: Ints, marks: Ints) -> None:
    """Takes the ids in `removed`, which ascend, out of all lists."""
    for place in range(len(heads)):
        node, before = heads[place], np.int64(-1)
        while node >= 0:
            after = following[node]
            found = np.searchsorted(removed, ids[node])
            if found < len(removed) and removed[found] == ids[node]:
                _take_out(place, node, before, heads, following, marks)
            else:
                before = node
            node = after
        tails[place] = before


@compiled_loop
def _list(place: int, heads: Ints, ids: Ints, following: Ints, out_ids: Ints) -> int:
    node, count = heads[place], 0
    while node >= 0:
        out_ids[count] = ids[node]
        count += 1
        node = following[node]
    return count


class CalendarQueue:
    """Rows by the day on which they expire.

    >>> queue = CalendarQueue(partitions=4)
    >>> queue.insert(np.array([1, 2, 3]), np.array([69, 52, 61]))
    >>> [column.tolist() for column in queue.expire(62)]
    [[2, 3], [52, 61]]
    """

    def __init__(self, partitions: int = PARTITIONS) -> None:
        assert partitions > 0
        self._partitions = partitions
        self._clear()

    def _clear(self) -> None:
        self._day = 1
        self._today = 0  # number of the last day whose rows have been taken out of the lists
        self._heads: Ints = np.full(self._partitions + 1, -1, np.int64)
        self._tails: Ints = np.full(self._partitions + 1, -1, np.int64)
        self._ids, self._expires, self._following = NONE, NONE, NONE
        self._marks: Ints = np.array([-1, 0], np.int64)
        self._today_ids, self._today_expires = NONE, NONE

    def __len__(self) -> int:
        return int(self._marks[_HELD]) + len(self._today_ids)

    @property
    def bytes_held(self) -> int:
        return 3 * self._ids.nbytes + 2 * (self._heads.nbytes + self._today_ids.nbytes)

    def insert(self, ids: Ints, expires: Ints) -> None:
        if not len(ids):
            return
        finite = expires[expires != FOREVER]
        if len(finite):
            earliest = int(finite.min())
            if not self._finite_held():
                self._today = earliest // self._day
            self._lengthen_days(min(earliest, self._today * self._day), finite)
        self._make_room(len(ids))
        ids, expires = np.array(ids, np.int64), np.array(expires, np.int64)  # the loop writes into them
        lists = self._heads, self._tails, self._ids, self._expires, self._following, self._marks
        aside = _link(ids, expires, self._day, self._today, *lists)
        if aside:
            self._merge_into_today(ids[:aside], expires[:aside])

    def _finite_held(self) -> bool:
        return bool(len(self._today_ids)) or bool((self._heads[:-1] >= 0).any())

    def _merge_into_today(self, ids: Ints, expires: Ints) -> None:
        ids, expires = np.concatenate([self._today_ids, ids]), np.concatenate([self._today_expires, expires])
        order = np.argsort(expires, kind="stable")
        self._today_ids, self._today_expires = ids[order], expires[order]

    def _lengthen_days(self, earliest: int, expires: Ints) -> None:
        """If a round is too short for these instants, makes days longer and redistributes the held rows."""
        if int(expires.max()) - earliest < self._day * self._partitions:
            return
        # A few rows far ahead must not make days so long that all other rows are in one.
        most = len(expires) - 1 - len(expires) // 16
        latest = int(np.partition(expires, most)[most])
        if latest - earliest < self._day * self._partitions:
            return
        ids, expires = self._collected(0, self._partitions, FOREVER)
        ids, expires = np.concatenate([self._today_ids, ids]), np.concatenate([self._today_expires, expires])
        self._today_ids, self._today_expires = NONE, NONE
        self._day = min(2 * (latest - earliest + 1) // self._partitions + 1, 1 << 62)
        self._today = earliest // self._day
        if len(ids):
            self.insert(ids, expires)

    def _make_room(self, count: int) -> None:
        held = int(self._marks[_HELD])
        if held + count <= len(self._ids):
            return
        before, room = len(self._ids), room_for(held + count)
        self._ids, self._expires = widened(self._ids, room), widened(self._expires, room)
        self._following = widened(self._following, room)
        self._following[before:] = np.arange(before + 1, room + 1)
        self._following[room - 1] = self._marks[_FREE]
        self._marks[_FREE] = before

    def expire(self, until: int) -> tuple[Ints, Ints]:
        last = (until - 1) // self._day
        ids, expires = self._today_ids, self._today_expires
        if last > self._today:
            # The days that begin are taken whole and sorted. Their rows that are not due yet become today's.
            limit = min((last + 1) * self._day, FOREVER)
            first, days = self._today + 1, min(last - self._today, self._partitions)
            taken, instants = self._collected(first % self._partitions, days, limit)
            order = np.argsort(instants, kind="stable")
            ids, expires = np.concatenate([ids, taken[order]]), np.concatenate([expires, instants[order]])
            self._today = last
        due = int(np.searchsorted(expires, until))
        self._today_ids, self._today_expires = ids[due:], expires[due:]
        self._give_back()
        return ids[:due], expires[:due]

    def _give_back(self) -> None:
        """Shrinks the arrays after a burst."""
        if len(self._ids) > 4 * room_for(int(self._marks[_HELD])):
            contents, day, today = self._contents(), self._day, self._today
            self._clear()
            self._day, self._today = day, today
            self.insert(*contents)

    def _collected(self, first: int, days: int, limit: int) -> tuple[Ints, Ints]:
        held = int(self._marks[_HELD])
        ids, expires = np.empty(held, np.int64), np.empty(held, np.int64)
        lists = self._heads, self._tails, self._ids, self._expires, self._following, self._marks
        taken = _collect(first, days, limit, *lists, ids, expires)
        return ids[:taken].copy(), expires[:taken].copy()

    def remove(self, ids: Ints) -> None:
        if not len(ids):
            return
        _unlink(np.sort(ids), self._heads, self._tails, self._ids, self._following, self._marks)
        kept = ~np.isin(self._today_ids, ids)
        self._today_ids, self._today_expires = self._today_ids[kept], self._today_expires[kept]

    def snapshot(self) -> dict[str, Any]:
        """The rows by day, within a day in their order. Days are not saved: `restore` makes new ones."""
        ids, expires = self._contents()
        return {"ids": ids, "expires": expires}

    def _contents(self) -> tuple[Ints, Ints]:
        held = int(self._marks[_HELD])
        nodes = np.empty(held, np.int64)
        count = 0
        numbers: Ints = np.arange(len(self._ids))
        for place in range(self._partitions + 1):
            count += _list(place, self._heads, numbers, self._following, nodes[count:])
        ids, expires = self._ids[nodes], self._expires[nodes]
        return np.concatenate([self._today_ids, ids]), np.concatenate([self._today_expires, expires])

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._clear()
        self.insert(snapshot["ids"], snapshot["expires"])
