"""Open slices: the slices that the watermark has not passed, and the slot of every row in them.

A row finds its slice in O(1): the slice of the row before it is tried first, then that of the last row in the same cell
of time, a fraction of a slide wide; bisection over the open slices is left for the first row of a cell. Slices without
rows are never made, so a gap in the stream costs nothing.

Edges change when queries come and go. A change holds from an instant on that no row has reached (an *epoch*), so that
no slice is ever cut in two.

Two ways to give out slots. Dense: a slice is a room of `width` neighbouring slots, one per group. Sparse: a slot per
(slice, group) that occurs, found by hashing, for slices that touch few of very many groups.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from panewise.loops import compiled_loop
from panewise.slicing.pairs import Cadence, edge_classes

Ints = NDArray[np.int64]
INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1
CELLS = 4096
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@compiled_loop
def _bounds(point: int, epochs: Ints, firsts: Ints, slides: Ints, phases: Ints) -> tuple[int, int]:
    """The slice around a point: the nearest edges of its epoch on both sides."""
    epoch = epochs.shape[0] - 1
    while epochs[epoch] > point:
        epoch -= 1
    start = epochs[epoch]
    end = epochs[epoch + 1] if epoch + 1 < epochs.shape[0] else INT64_MAX
    for c in range(firsts[epoch], firsts[epoch + 1]):
        edge = point - (point - phases[c]) % slides[c]
        start = max(start, edge)
        end = min(end, edge + slides[c])
    return start, end


@compiled_loop
def _opened(
    point: int, starts: Ints, ends: Ints, rooms: Ints, counts: Ints, free: Ints, room_spans: Ints, epochs: Ints,
    firsts: Ints, slides: Ints, phases: Ints,
) -> int:  # fmt: skip
    """The room of the open slice around a point, by bisection, opened if need be; -1 where no room is free."""
    low, high = 0, counts[0]
    while low < high:
        middle = (low + high) >> 1
        if starts[middle] <= point:
            low = middle + 1
        else:
            high = middle
    if low > 0 and point < ends[low - 1]:
        return int(rooms[low - 1])
    if counts[1] == 0:
        return -1
    for k in range(counts[0], low, -1):
        starts[k] = starts[k - 1]
        ends[k] = ends[k - 1]
        rooms[k] = rooms[k - 1]
    starts[low], ends[low] = _bounds(point, epochs, firsts, slides, phases)
    counts[1] -= 1
    room = free[counts[1]]
    rooms[low] = room
    room_spans[0, room], room_spans[1, room] = starts[low], ends[low]
    counts[0] += 1
    return int(room)


# The loops below look into the cells themselves: a call would pass a dozen arrays, which costs more than the look-up.


@compiled_loop
def _assign_dense(
    points: Ints, groups: Ints, begin: int, width: int, starts: Ints, ends: Ints, rooms: Ints, counts: Ints, free: Ints,
    room_spans: Ints, cells: Ints, epochs: Ints, firsts: Ints, slides: Ints, phases: Ints, slots: Ints,
) -> int:  # fmt: skip
    low, high, base, shift = 1, 0, 0, counts[3]
    grouped = groups.shape[0] > 0
    for i in range(begin, points.shape[0]):
        point = points[i]
        if point < low or point >= high:
            cell = (point >> shift) & (cells.shape[0] - 1)
            room = cells[cell]
            if point < room_spans[0, room] or point >= room_spans[1, room]:
                room = _opened(point, starts, ends, rooms, counts, free, room_spans, epochs, firsts, slides, phases)
                if room < 0:
                    return i
                cells[cell] = room
            low, high, base = room_spans[0, room], room_spans[1, room], room * width
        slots[i] = base + groups[i] if grouped else base
    return len(points)


@compiled_loop
def _assign_known(
    points: Ints, words: Ints, word_base: int, direct: Ints, width: int, starts: Ints, ends: Ints, rooms: Ints,
    counts: Ints, free: Ints, room_spans: Ints, cells: Ints, epochs: Ints, firsts: Ints, slides: Ints, phases: Ints,
    slots: Ints, rows: Ints,
) -> int:  # fmt: skip
    """The short way: groups by one load, and `rows` counted at once. Ends at a word not known, or for want of room."""
    span = np.uint64(direct.shape[0])
    low, base, shift = 0 * points[0], 0 * width, counts[3]
    length = np.uint64(0)
    for i in range(points.shape[0]):
        point = points[i]
        if np.uint64(point - low) >= length:
            cell = (point >> shift) & (cells.shape[0] - 1)
            room = cells[cell]
            if point < room_spans[0, room] or point >= room_spans[1, room]:
                room = _opened(point, starts, ends, rooms, counts, free, room_spans, epochs, firsts, slides, phases)
                if room < 0:
                    return i
                cells[cell] = room
            low, base = room_spans[0, room], room * width
            length = np.uint64(room_spans[1, room] - low)
        place = np.uint64(words[i] - word_base)
        if place >= span:
            return i
        group = direct[place]
        if group < 0:
            return i
        slots[i] = base + group
        rows[base + group] += 1
    return len(points)


@compiled_loop
def _entry_hash(room: int, group: int) -> np.uint64:
    mixed = (np.uint64(group) * MULTIPLIER) ^ (np.uint64(room) * np.uint64(0xBF58476D1CE4E5B9))
    return mixed ^ (mixed >> np.uint64(29))


@compiled_loop
def _assign_sparse(
    points: Ints, groups: Ints, begin: int, starts: Ints, ends: Ints, rooms: Ints, counts: Ints, free: Ints, room_spans:
    Ints, cells: Ints, epochs: Ints, firsts: Ints, slides: Ints, phases: Ints, table: Ints, entry_room: Ints,
    entry_group: Ints, entry_next: Ints, heads: Ints, entry_free: Ints, slots: Ints,
) -> int:  # fmt: skip
    low, high, room, shift = 1, 0, 0 * counts[0], counts[3]
    mask = np.uint64(table.shape[0] - 1)
    for i in range(begin, points.shape[0]):
        point = points[i]
        if point < low or point >= high:
            cell = (point >> shift) & (cells.shape[0] - 1)
            room = cells[cell]
            if point < room_spans[0, room] or point >= room_spans[1, room]:
                room = _opened(point, starts, ends, rooms, counts, free, room_spans, epochs, firsts, slides, phases)
                if room < 0:
                    return i
                cells[cell] = room
            low, high = room_spans[0, room], room_spans[1, room]
        slot = _entry_hash(room, groups[i]) & mask
        while True:
            entry = table[slot]
            if entry < 0 or (entry_group[entry] == groups[i] and entry_room[entry] == room):
                break
            slot = (slot + np.uint64(1)) & mask
        if entry < 0:
            if counts[2] == 0:
                return i
            counts[2] -= 1
            entry = entry_free[counts[2]]
            table[slot] = entry
            entry_room[entry] = room
            entry_group[entry] = groups[i]
            entry_next[entry] = heads[room]
            heads[room] = entry
        slots[i] = entry
    return len(points)


@compiled_loop
def _fill_table(table: Ints, entry_room: Ints, entry_group: Ints) -> None:
    mask = np.uint64(table.shape[0] - 1)
    table[:] = -1
    for entry in range(entry_room.shape[0]):
        if entry_room[entry] >= 0:
            slot = _entry_hash(entry_room[entry], entry_group[entry]) & mask
            while table[slot] >= 0:
                slot = (slot + np.uint64(1)) & mask
            table[slot] = entry


@compiled_loop
def _release_room(
    room: int, table: Ints, entry_room: Ints, entry_group: Ints, entry_next: Ints, heads: Ints, entry_free: Ints,
    counts: Ints, entries: Ints,
) -> int:  # fmt: skip
    """Takes a room's entries out of the table, moving later ones back so that no probe breaks; lists them."""
    mask = np.uint64(table.shape[0] - 1)
    found = 0
    entry = heads[room]
    while entry >= 0:
        entries[found] = entry
        found += 1
        slot = _entry_hash(room, entry_group[entry]) & mask
        while table[slot] != entry:
            slot = (slot + np.uint64(1)) & mask
        hole = slot
        while True:
            slot = (slot + np.uint64(1)) & mask
            other = table[slot]
            if other < 0:
                break
            home = _entry_hash(entry_room[other], entry_group[other]) & mask
            if ((slot - home) & mask) >= ((slot - hole) & mask):
                table[hole] = other
                hole = slot
        table[hole] = -1
        entry_room[entry] = -1
        entry_free[counts[2]] = entry
        counts[2] += 1
        entry = entry_next[entry]
    heads[room] = -1
    return found


class OpenSlices:
    """Slots for rows in slices that are still open; `width` slots a slice, or None for sparse ones."""

    def __init__(self, width: int | None) -> None:
        self.width = width
        self._starts: Ints = np.zeros(64, np.int64)
        self._ends: Ints = np.zeros(64, np.int64)
        self._rooms: Ints = np.zeros(64, np.int64)
        self._free: Ints = np.arange(64, dtype=np.int64)
        # Open slices, free rooms, free entries, and the width of a cell of time as a power of two.
        self._counts: Ints = np.array([0, 64, 0, 0], np.int64)
        self._room_spans: Ints = np.zeros((2, 64), np.int64)  # start and end by room; a free room spans nothing
        self._cells: Ints = np.zeros(CELLS, np.int64)  # the room that the last point of a cell fell into
        self._epochs: Ints = np.array([INT64_MIN], np.int64)
        self._firsts: Ints = np.array([0, 0], np.int64)
        self._slides: Ints = np.empty(0, np.int64)
        self._phases: Ints = np.empty(0, np.int64)
        self._buffer: Ints = np.empty(0, np.int64)
        if width is None:
            self._make_entries(1024)

    def _make_entries(self, room: int) -> None:
        self._table: Ints = np.full(2 * room, -1, np.int64)
        self._entry_room: Ints = np.full(room, -1, np.int64)
        self._entry_group: Ints = np.zeros(room, np.int64)
        self._entry_next: Ints = np.zeros(room, np.int64)
        self._entry_free: Ints = np.arange(room, dtype=np.int64)
        self._heads: Ints = np.full(len(self._starts), -1, np.int64)
        self._counts[2] = room

    # -- edges ---------------------------------------------------------------------------------------------------

    def cut_from(self, point: int, cadences: list[Cadence]) -> None:
        """These windows' edges hold from `point` on; no row may have reached it."""
        slides, phases = edge_classes(cadences)
        kept = self._epochs < point
        count = int(kept.sum())
        used = int(self._firsts[count])
        self._epochs = np.append(self._epochs[:count], point)
        self._slides = np.concatenate([self._slides[:used], slides])
        self._phases = np.concatenate([self._phases[:used], phases])
        self._firsts = np.append(self._firsts[: count + 1], len(self._slides))
        if len(slides):
            # A few cells a slide: rows that come out of order then find their slice at once.
            self._counts[3] = max(0, int(slides.min()).bit_length() - 3)

    def forget_epochs(self, before: int) -> None:
        """Drops epochs that ended before a point: no row can fall into them any more."""
        gone = int((self._epochs[1:] <= before).sum())
        if gone:
            first = int(self._firsts[gone])
            self._epochs = self._epochs[gone:].copy()
            self._epochs[0] = INT64_MIN
            self._slides, self._phases = self._slides[first:], self._phases[first:]
            self._firsts = self._firsts[gone:] - first

    def is_edge(self, point: int) -> bool:
        """Whether slices to come are cut at the point."""
        return bool(_bounds(point, self._epochs, self._firsts, self._slides, self._phases)[0] == point)

    # -- slots ---------------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        return int(self._counts[0])

    @property
    def starts(self) -> Ints:
        return self._starts[: self.count]

    @property
    def ends(self) -> Ints:
        return self._ends[: self.count]

    @property
    def rooms(self) -> Ints:
        return self._rooms[: self.count]

    @property
    def slots(self) -> int:
        """How many slots there are in all."""
        return len(self._entry_room) if self.width is None else len(self._starts) * self.width

    @property
    def bytes_held(self) -> int:
        return sum(v.nbytes for v in vars(self).values() if isinstance(v, np.ndarray))

    def assign(self, points: Ints, groups: Ints) -> Ints:
        """The slot of every row, until the next call. There may be more slots afterwards: the states' owner follows."""
        slots = self._scratch(len(points))
        done = 0
        while True:
            if self.width is not None:
                done = _assign_dense(points, groups, done, self.width, *self._shared(), slots)
            else:
                done = _assign_sparse(
                    points, groups, done, *self._shared(), self._table, self._entry_room, self._entry_group,
                    self._entry_next, self._heads, self._entry_free, slots,
                )  # fmt: skip
            if done == len(points):
                return slots
            if self._counts[1] == 0:
                self._grow_rooms()
            else:
                self._grow_entries()

    def _shared(self) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints]:
        return (
            self._starts, self._ends, self._rooms, self._counts, self._free, self._room_spans, self._cells,
            self._epochs, self._firsts, self._slides, self._phases,
        )  # fmt: skip

    def _scratch(self, count: int) -> Ints:
        """Room for slots, used again by the next call: fresh memory would cost more than the work."""
        if len(self._buffer) < count:
            self._buffer = np.empty(count, np.int64)
        return self._buffer[:count]

    def assign_known(self, points: Ints, words: Ints, base: int, direct: Ints, rows: Ints) -> Ints:
        """The slots of the first rows, as many as the short way serves; they are counted in `rows`, slot by slot."""
        assert self.width is not None
        slots = self._scratch(len(points))
        done = _assign_known(points, words, base, direct, self.width, *self._shared(), slots, rows)
        return slots[:done]

    def _grow_rooms(self) -> None:
        old = len(self._starts)
        self._starts, self._ends, self._rooms = (
            np.concatenate([a, np.zeros(old, np.int64)]) for a in (self._starts, self._ends, self._rooms)
        )
        self._free = np.concatenate([np.arange(old, 2 * old, dtype=np.int64), np.zeros(old, np.int64)])
        self._room_spans = np.concatenate([self._room_spans, np.zeros_like(self._room_spans)], axis=1)
        self._counts[1] = old
        if self.width is None:
            self._heads = np.concatenate([self._heads, np.full(old, -1, np.int64)])

    def _grow_entries(self) -> None:
        old = len(self._entry_room)
        self._entry_room = np.concatenate([self._entry_room, np.full(old, -1, np.int64)])
        self._entry_group = np.concatenate([self._entry_group, np.zeros(old, np.int64)])
        self._entry_next = np.concatenate([self._entry_next, np.zeros(old, np.int64)])
        self._entry_free = np.concatenate([np.arange(old, 2 * old, dtype=np.int64), np.zeros(old, np.int64)])
        self._counts[2] = old
        self._table = np.full(4 * old, -1, np.int64)
        _fill_table(self._table, self._entry_room, self._entry_group)

    # -- closing -------------------------------------------------------------------------------------------------

    def closable(self, watermark: int) -> int:
        """How many slices, the oldest ones, end at the watermark or before."""
        return int(np.searchsorted(self.ends, watermark, side="right"))

    def entries_of(self, position: int) -> tuple[Ints, Ints]:
        """Slots and groups of a sparse slice, which leaves the table; `close` must follow before the next `assign`."""
        entries = self._scratch(len(self._entry_room))
        found = _release_room(
            int(self._rooms[position]), self._table, self._entry_room, self._entry_group, self._entry_next, self._heads,
            self._entry_free, self._counts, entries,
        )  # fmt: skip
        slots = entries[:found].copy()
        return slots, self._entry_group[slots]

    def groups_held(self) -> Ints:
        """The groups of all rows in open sparse slices, some of them several times."""
        return self._entry_group[self._entry_room >= 0]

    def rename_groups(self, renamed: Ints) -> None:
        """New numbers for the groups of open sparse slices."""
        used = self._entry_room >= 0
        self._entry_group[used] = renamed[self._entry_group[used]]
        _fill_table(self._table, self._entry_room, self._entry_group)

    def close(self, count: int) -> None:
        """Frees the rooms of the oldest `count` slices."""
        if count:
            free = int(self._counts[1])
            self._free[free : free + count] = self._rooms[:count]
            self._room_spans[:, self._rooms[:count]] = 0
            for array in (self._starts, self._ends, self._rooms):
                array[: self.count - count] = array[count : self.count].copy()
            self._counts[0] -= count
            self._counts[1] += count

    def snapshot(self) -> dict[str, Any]:
        arrays = {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        del arrays["_buffer"]
        return arrays | {"width": self.width}

    def restore(self, snapshot: dict[str, Any]) -> None:
        for name, value in snapshot.items():
            setattr(self, name, np.array(value) if isinstance(value, np.ndarray) else value)
