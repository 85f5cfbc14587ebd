"""Exact answers per substream: running values by time (R-INT) and staircases of extremes.

Each substream has a ring of entries in a shared pool; an entry is a row's time and values. The sizes of rings ("rooms")
are powers of two, and outgrown rings are reused for other substreams:

    pool     | ring of 0 | ring of 1     | ring of 2 | free | ...
    ring     first ... after, entry e of substream k at begins[k] + (e & (rooms[k] - 1))

`SubstreamRunning`: an entry has the sum of all values before it, so the sum over a window is the difference of two
entries. Fields are integers; two's complement makes the difference exact even if a sum has wrapped.
`SubstreamExtremes`: keeps only the entries that are greater than all later ones; times ascend, values descend. The
first entry inside a suffix window is the window's maximum.

Invariant: times ascend within a ring. Loops do not check bounds: a substream must have been given room, by its rows or
by `widen`, before it is asked for. Insert O(1) amortised; a window of one substream O(log entries), by binary search;
evict O(substreams + entries evicted). Running values also answer historical windows.
Source: Arasu and Widom 2004, section 3.2 with its timestamped version; the exact lookups of section 4.1.
"""

from __future__ import annotations

from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from panewise.arrays import Ints
from panewise.errors import DataError
from panewise.loops import compiled_loop

NEVER = -(2**63)
LEAST_ROOM = 4
SIZES = 48  # different sizes of rings


@compiled_loop
def _move_ring(
    k: int, room: int, begins: Ints, rooms: Ints, firsts: Ints, afters: Ints, free: Ints, used: Ints, times: Ints,
    values: Ints,
) -> bool:  # fmt: skip
    """Moves a substream to a ring of another size. Returns False if the pool is full."""
    size = 0
    while LEAST_ROOM << size < room:
        size += 1
    if free[size] >= 0:
        begin = free[size]
        free[size] = times[begin]
    elif used[0] + room <= times.shape[0]:
        begin = used[0]
        used[0] += room
    else:
        return False
    old, old_room = begins[k], rooms[k]
    for e in range(firsts[k], afters[k]):
        times[begin + (e & (room - 1))] = times[old + (e & (old_room - 1))]
        for f in range(values.shape[0]):
            values[f, begin + (e & (room - 1))] = values[f, old + (e & (old_room - 1))]
    if old_room > 0:
        _free_ring(k, begins, rooms, free, times)
    begins[k], rooms[k] = begin, room
    return True


@compiled_loop
def _free_ring(k: int, begins: Ints, rooms: Ints, free: Ints, times: Ints) -> None:
    size = 0
    while LEAST_ROOM << size < rooms[k]:
        size += 1
    times[begins[k]] = free[size]
    free[size] = begins[k]
    rooms[k] = 0


@compiled_loop
def _drop_old(k: int, before: int, begins: Ints, rooms: Ints, firsts: Ints, afters: Ints, times: Ints) -> int:
    """Drops a substream's entries before an instant. Returns the time of the last one dropped, or NEVER."""
    last = NEVER
    while firsts[k] < afters[k] and times[begins[k] + (firsts[k] & (rooms[k] - 1))] < before:
        last = times[begins[k] + (firsts[k] & (rooms[k] - 1))]
        firsts[k] += 1
    return last


@compiled_loop
def _room_for_one(
    k: int, before: int, begins: Ints, rooms: Ints, firsts: Ints, afters: Ints, free: Ints, used: Ints, times: Ints,
    values: Ints,
) -> bool:  # fmt: skip
    """Makes room for one more entry in a substream's ring. Returns False if the pool is full.

    Entries before an instant may be dropped for it.
    """
    if afters[k] - firsts[k] < rooms[k]:
        return True
    if rooms[k] > 0:
        _drop_old(k, before, begins, rooms, firsts, afters, times)
    # A ring that is still half full grows, so that the cost of dropping old entries is amortised over new ones.
    if 2 * (afters[k] - firsts[k]) < rooms[k]:
        return True
    room = max(LEAST_ROOM, 2 * rooms[k])
    return bool(_move_ring(k, room, begins, rooms, firsts, afters, free, used, times, values))


@compiled_loop
def append_running(
    groups: Ints, new_times: Ints, new_values: Ints, done: int, reach: int, totals: Ints, begins: Ints, rooms: Ints,
    firsts: Ints, afters: Ints, free: Ints, used: Ints, times: Ints, values: Ints,
) -> int:  # fmt: skip
    """Appends rows from `done` on. Returns the row for which the pool has no room, or the number of rows."""
    for i in range(done, groups.shape[0]):
        k, t = groups[i], new_times[i]
        if not _room_for_one(k, t - reach, begins, rooms, firsts, afters, free, used, times, values):
            return i
        place = begins[k] + (afters[k] & (rooms[k] - 1))
        times[place] = t
        afters[k] += 1
        for f in range(values.shape[0]):
            values[f, place] = totals[f, k]
            totals[f, k] += new_values[f, i]
    return len(groups)


@compiled_loop
def append_extremes(
    groups: Ints, new_times: Ints, new_values: Ints, done: int, reach: int, totals: Ints, begins: Ints, rooms: Ints,
    firsts: Ints, afters: Ints, free: Ints, used: Ints, times: Ints, values: Ints,
) -> int:  # fmt: skip
    """`append_running` for staircases: entries that are not greater than the new row are removed."""
    for i in range(done, groups.shape[0]):
        k, t, value = groups[i], new_times[i], new_values[0, i]
        while afters[k] > firsts[k] and values[0, begins[k] + ((afters[k] - 1) & (rooms[k] - 1))] <= value:
            afters[k] -= 1
        if not _room_for_one(k, t - reach, begins, rooms, firsts, afters, free, used, times, values):
            return i
        place = begins[k] + (afters[k] & (rooms[k] - 1))
        times[place], values[0, place] = t, value
        afters[k] += 1
    return len(groups)


@compiled_loop
def _first_behind(k: int, instant: int, begins: Ints, rooms: Ints, firsts: Ints, afters: Ints, times: Ints) -> Any:
    """The number of the first entry later than an instant, or the number after the last entry."""
    low, high, begin, mask = firsts[k], afters[k], begins[k], rooms[k] - 1
    while low < high:
        middle = (low + high) >> 1
        if times[begin + (middle & mask)] > instant:
            high = middle
        else:
            low = middle + 1
    return low


@compiled_loop
def running_values(
    groups: Ints, behind: int, upto: int, totals: Ints, begins: Ints, rooms: Ints, firsts: Ints, afters: Ints,
    times: Ints, values: Ints, counts: Ints, result: Ints,
) -> None:  # fmt: skip
    """For each substream, the number of rows in (behind, upto] and the sum of each field."""
    for i in range(groups.shape[0]):
        k = groups[i]
        start = _first_behind(k, behind, begins, rooms, firsts, afters, times)
        end = afters[k]
        if end > firsts[k] and times[begins[k] + ((end - 1) & (rooms[k] - 1))] > upto:
            end = _first_behind(k, upto, begins, rooms, firsts, afters, times)
        counts[i] = end - start
        for f in range(values.shape[0]):
            if end <= start:
                result[f, i] = 0
            elif end == afters[k]:
                result[f, i] = totals[f, k] - values[f, begins[k] + (start & (rooms[k] - 1))]
            else:
                mask = rooms[k] - 1
                result[f, i] = values[f, begins[k] + (end & mask)] - values[f, begins[k] + (start & mask)]


@compiled_loop
def counted_between(
    groups: Ints, behind: int, least: int, most: int, begins: Ints, rooms: Ints, firsts: Ints, afters: Ints,
    times: Ints, found: Ints,
) -> int:  # fmt: skip
    """Finds the substreams with `least` to `most` rows, at least one, later than an instant. Returns their number."""
    count = 0
    for i in range(groups.shape[0]):
        k = groups[i]
        rows = afters[k] - _first_behind(k, behind, begins, rooms, firsts, afters, times)
        if rows > 0 and least <= rows <= most:
            found[count] = k
            count += 1
    return count


@compiled_loop
def extreme_values(
    groups: Ints, behind: int, begins: Ints, rooms: Ints, firsts: Ints, afters: Ints, times: Ints, values: Ints,
    present: NDArray[np.bool_], result: Ints,
) -> None:  # fmt: skip
    for i in range(groups.shape[0]):
        k = groups[i]
        start = _first_behind(k, behind, begins, rooms, firsts, afters, times)
        present[i] = start < afters[k]
        if present[i]:
            result[i] = values[0, begins[k] + (start & (rooms[k] - 1))]


@compiled_loop
def evict_rings(before: int, begins: Ints, rooms: Ints, firsts: Ints, afters: Ints, free: Ints, times: Ints) -> int:
    """Drops the entries before an instant and frees empty rings. Returns the time of the last one dropped, or NEVER."""
    last = NEVER
    for k in range(begins.shape[0]):
        if rooms[k] > 0:
            last = max(last, _drop_old(k, before, begins, rooms, firsts, afters, times))
            if firsts[k] == afters[k]:
                _free_ring(k, begins, rooms, free, times)
    return last


class _Rings:
    """The rings of all substreams, with the operations that both kinds of entries share."""

    def __init__(self, fields: int, longest_us: int) -> None:
        self.fields = fields
        self.longest_us = longest_us
        self.newest = NEVER
        self._begin(64, 1024)

    def _begin(self, width: int, room: int) -> None:
        self._totals: Ints = np.zeros((self.fields, width), np.int64)
        self._begins, self._rooms, self._firsts, self._afters = (np.zeros(width, np.int64) for _ in range(4))
        self._free: Ints = np.full(SIZES, -1, np.int64)
        self._used: Ints = np.zeros(1, np.int64)
        self._times: Ints = np.zeros(room, np.int64)
        self._values: Ints = np.zeros((self.fields, room), np.int64)

    @property
    def width(self) -> int:
        return len(self._begins)

    @property
    def bytes_held(self) -> int:
        arrays = self._totals, self._begins, self._rooms, self._firsts, self._afters, self._times, self._values
        return sum(array.nbytes for array in arrays)

    def _insert(self, append: Any, groups: Ints, times: Ints, values: Ints) -> None:
        if not len(groups):
            return
        if int(times[0]) < self.newest or bool((times[1:] < times[:-1]).any()):
            raise DataError("the rows of a substream come in order of time", hint="sort them, or reorder them before")
        self.newest = int(times[-1])
        self.widen(int(groups.max()) + 1)
        done = 0
        while True:
            rings = self._begins, self._rooms, self._firsts, self._afters, self._free, self._used
            done = append(groups, times, values, done, self.longest_us, self._totals, *rings, self._times, self._values)
            if done == len(groups):
                return
            self._make_room()

    def _make_room(self) -> None:
        room = 2 * len(self._times)
        times, values = np.zeros(room, np.int64), np.zeros((self.fields, room), np.int64)
        times[: room // 2], values[:, : room // 2] = self._times, self._values
        self._times, self._values = times, values

    def widen(self, width: int) -> None:
        """Makes room for this many substreams, including those without rows."""
        if width <= self.width:
            return
        more = (1 << (width - 1).bit_length()) - self.width
        for name in ("_begins", "_rooms", "_firsts", "_afters"):
            setattr(self, name, np.concatenate([getattr(self, name), np.zeros(more, np.int64)]))
        self._totals = np.concatenate([self._totals, np.zeros((self.fields, more), np.int64)], axis=1)

    def _check_room(self, groups: Ints) -> None:
        assert not len(groups) or int(groups.max()) < self.width, "a substream was asked for that has no room"

    def evict(self, before: int) -> int:
        """Forgets the entries before an instant. Returns the time of the last one forgotten, or NEVER."""
        rings = self._begins, self._rooms, self._firsts, self._afters
        return int(evict_rings(before, *rings, self._free, self._times))

    def live(self) -> Ints:
        """The substreams with entries, ascending."""
        return np.flatnonzero(self._afters > self._firsts)

    def held(self) -> tuple[Ints, Ints]:
        """The number of entries of each substream, and the places of all entries in the pool, by substream."""
        counts = self._afters - self._firsts
        owners = np.repeat(np.arange(self.width), counts)
        starts = np.cumsum(counts) - counts
        numbers = np.arange(len(owners)) - starts[owners] + self._firsts[owners]
        return counts, self._begins[owners] + (numbers & (self._rooms[owners] - 1))

    def regrouped(self, kept: Ints) -> Self:
        """A new synopsis of only these substreams, renumbered in this order."""
        snapshot = self.snapshot()
        counts, times = snapshot["counts"], snapshot["times"]
        starts = np.cumsum(counts) - counts
        chosen = counts[kept]
        within = np.arange(int(chosen.sum())) - np.repeat(np.cumsum(chosen) - chosen, chosen)
        places = np.repeat(starts[kept], chosen) + within
        other = copy(self)
        other.restore(
            {
                **snapshot,
                "counts": chosen,
                "totals": self._totals[:, kept].reshape(-1),
                "times": times[places],
                "values": snapshot["values"].reshape(self.fields, len(times))[:, places].reshape(-1),
            }
        )
        return other

    def snapshot(self) -> dict[str, Any]:
        counts, places = self.held()
        return {
            "newest": self.newest,
            "longest_us": self.longest_us,
            "counts": counts,
            "totals": self._totals.reshape(-1).copy(),
            "times": self._times[places],
            "values": self._values[:, places].reshape(-1),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Replaces the state by that of a snapshot, in new arrays."""
        self.newest, self.longest_us = snapshot["newest"], snapshot["longest_us"]
        counts = snapshot["counts"]
        count = len(counts)
        rooms = np.where(counts > 0, LEAST_ROOM, 0).astype(np.int64)
        while (rooms < counts).any():
            rooms = np.where(rooms < counts, 2 * rooms, rooms)
        self._begin(max(64, count), max(1024, 1 << int(rooms.sum()).bit_length()))
        begins = np.cumsum(rooms) - rooms
        self._used[0] = int(rooms.sum())
        self._begins[:count], self._rooms[:count], self._afters[:count] = begins, rooms, counts
        self._totals[:, :count] = snapshot["totals"].reshape(self.fields, count)
        _, places = self.held()
        self._times[places] = snapshot["times"]
        self._values[:, places] = snapshot["values"].reshape(self.fields, len(places))


class SubstreamRunning(_Rings):
    """Counts and sums of substreams.

    >>> running = SubstreamRunning(fields=1, longest_us=100)
    >>> running.insert(np.array([0, 1, 0]), np.array([1, 2, 3]), np.array([[10, 20, 30]]))
    >>> counts, sums = running.answer(np.array([0, 1]), now=3, range_us=2)
    >>> counts.tolist(), sums.tolist()
    ([1, 1], [[30, 20]])
    """

    def insert(self, groups: Ints, times: Ints, values: Ints) -> None:
        """Inserts rows, which must be in order of time. `values`: fields x rows."""
        self._insert(append_running, groups, times, values)

    def answer(self, groups: Ints, now: int, range_us: int) -> tuple[Ints, Ints]:
        """The number of rows of these substreams in (now - range, now], and the sums (fields x substreams)."""
        self._check_room(groups)
        counts, sums = np.empty(len(groups), np.int64), np.empty((self.fields, len(groups)), np.int64)
        rings = self._begins, self._rooms, self._firsts, self._afters
        behind = max(now - range_us, NEVER + 1)
        running_values(groups, behind, now, self._totals, *rings, self._times, self._values, counts, sums)
        return counts, sums

    def counted(self, groups: Ints, now: int, range_us: int, least: int, most: int) -> Ints:
        """Those of the substreams that have `least` to `most` rows, at least one, in the suffix window."""
        self._check_room(groups)
        found = np.empty(len(groups), np.int64)
        rings = self._begins, self._rooms, self._firsts, self._afters
        count = counted_between(groups, max(now - range_us, NEVER + 1), least, most, *rings, self._times, found)
        return found[:count]


class SubstreamExtremes(_Rings):
    """The maxima of substreams over suffix windows. For minima, the caller complements the values (`~value`)."""

    def __init__(self, longest_us: int) -> None:
        super().__init__(1, longest_us)

    def insert(self, groups: Ints, times: Ints, values: Ints) -> None:
        """Inserts rows, which must be in order of time."""
        self._insert(append_extremes, groups, times, values.reshape(1, -1))

    def answer(self, groups: Ints, now: int, range_us: int) -> tuple[NDArray[np.bool_], Ints]:
        """Whether each of these substreams has a row in (now - range, now], and if so its greatest value."""
        self._check_room(groups)
        present, result = np.zeros(len(groups), np.bool_), np.zeros(len(groups), np.int64)
        rings = self._begins, self._rooms, self._firsts, self._afters
        behind = max(now - range_us, NEVER + 1)
        extreme_values(groups, behind, *rings, self._times, self._values, present, result)
        return present, result
