"""The compiled loops behind `OpenSlices`: which slice a point falls into, and which slot it gets there.

They are in one file because a loop is recompiled when its own file changes, but not when the file of a loop that it
calls does. The arrays of `OpenSlices` are grouped in plain tuples: with named ones Numba needs longer for each call.
`counts` has the numbers of open slices, free rooms and free entries, and the width of a cell of time as a power of two.
"""

from __future__ import annotations

import numpy as np

from panewise.arrays import INT64_MAX, Ints
from panewise.loops import compiled_loop

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
SliceArrays = tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints]
"""starts, ends, rooms, counts, free, room_spans, cells, epochs, firsts, slides and phases of `OpenSlices`."""
EntryArrays = tuple[Ints, Ints, Ints, Ints, Ints, Ints]
"""table, entry_room, entry_group, entry_next, heads and entry_free of sparse `OpenSlices`."""


@compiled_loop
def bounds(point: int, epochs: Ints, firsts: Ints, slides: Ints, phases: Ints) -> tuple[int, int]:
    """Start and end of the slice around a point: the nearest edges of its epoch."""
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
    """The room of the open slice around a point, found by bisection; opens the slice if necessary. -1: no free room.

    It takes arrays one by one, because with a tuple its callers are slower.
    """
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
    starts[low], ends[low] = bounds(point, epochs, firsts, slides, phases)
    counts[1] -= 1
    room = free[counts[1]]
    rooms[low] = room
    room_spans[0, room], room_spans[1, room] = starts[low], ends[low]
    counts[0] += 1
    return int(room)


# The loops below look into the cells themselves, because a call would cost more than the look-up.


@compiled_loop
def assign_dense(points: Ints, groups: Ints, begin: int, width: int, slices: SliceArrays, slots: Ints) -> int:
    """The slots of rows from `begin` on. Returns the number of the first row without one, for want of a free room."""
    starts, ends, rooms, counts, free, room_spans, cells, epochs, firsts, slides, phases = slices
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
def assign_alone(points: Ints, begin: int, ascending: bool, slices: SliceArrays, slots: Ints, rows: Ints) -> int:
    """Like `assign_dense` for one group: assigns runs of rows of one slice, and counts them in `rows`.

    If points ascend, the end of a run is found by bisection.
    """
    starts, ends, rooms, counts, free, room_spans, cells, epochs, firsts, slides, phases = slices
    shift, count, i = counts[3], points.shape[0], begin
    while i < count:
        point = points[i]
        cell = (point >> shift) & (cells.shape[0] - 1)
        room = cells[cell]
        if point < room_spans[0, room] or point >= room_spans[1, room]:
            room = _opened(point, starts, ends, rooms, counts, free, room_spans, epochs, firsts, slides, phases)
            if room < 0:
                return i
            cells[cell] = room
        low, high, end = room_spans[0, room], room_spans[1, room], i + 1
        if ascending:
            inside, beyond, step = i, min(i + 1, count), 1
            while beyond < count and points[beyond] < high:
                inside, beyond, step = beyond, min(beyond + step, count), 2 * step
            while beyond - inside > 1:
                middle = (inside + beyond) >> 1
                if points[middle] < high:
                    inside = middle
                else:
                    beyond = middle
            end = inside + 1
        else:
            while end < count and low <= points[end] < high:
                end += 1
        slots[i:end] = room
        rows[room] += end - i
        i = end
    return len(points)


@compiled_loop
def assign_known(
    points: Ints, words: Ints, word_base: int, direct: Ints, width: int, slices: SliceArrays, slots: Ints, rows: Ints
) -> int:
    """The fast path: finds groups by one load from `direct`, and counts rows in `rows`. Returns the number of the first
    row with an unknown word, or without a free room."""
    starts, ends, rooms, counts, free, room_spans, cells, epochs, firsts, slides, phases = slices
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
def assign_sparse(
    points: Ints, groups: Ints, begin: int, slices: SliceArrays, entries: EntryArrays, slots: Ints
) -> int:
    """Like `assign_dense` for sparse slices. Also stops if there is no free entry."""
    starts, ends, rooms, counts, free, room_spans, cells, epochs, firsts, slides, phases = slices
    table, entry_room, entry_group, entry_next, heads, entry_free = entries
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
def fill_table(table: Ints, entry_room: Ints, entry_group: Ints) -> None:
    """Rebuilds the table from all entries in use."""
    mask = np.uint64(table.shape[0] - 1)
    table[:] = -1
    for entry in range(entry_room.shape[0]):
        if entry_room[entry] >= 0:
            slot = _entry_hash(entry_room[entry], entry_group[entry]) & mask
            while table[slot] >= 0:
                slot = (slot + np.uint64(1)) & mask
            table[slot] = entry


@compiled_loop
def release_room(room: int, entries: EntryArrays, counts: Ints, released: Ints) -> int:
    """Takes a room's entries out of the table, and moves later ones back so that probes find them. Lists the entries in
    `released`, and returns their number."""
    table, entry_room, entry_group, entry_next, heads, entry_free = entries
    mask = np.uint64(table.shape[0] - 1)
    found = 0
    entry = heads[room]
    while entry >= 0:
        released[found] = entry
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


@compiled_loop
def list_entries(rooms: Ints, heads: Ints, entry_next: Ints, entries: Ints, positions: Ints) -> None:
    """Lists the entries of sparse slices, slice by slice, each with the position of its slice."""
    found = 0
    for position in range(rooms.shape[0]):
        entry = heads[rooms[position]]
        while entry >= 0:
            entries[found] = entry
            positions[found] = position
            found += 1
            entry = entry_next[entry]


@compiled_loop
def take_out(entries: Ints, table: Ints, entry_room: Ints, entry_group: Ints) -> None:
    """Takes all entries out of the table. Each is found by its number, so later probes need not be repaired."""
    mask = np.uint64(table.shape[0] - 1)
    for entry in entries:
        slot = _entry_hash(entry_room[entry], entry_group[entry]) & mask
        while table[slot] != entry:
            slot = (slot + np.uint64(1)) & mask
        table[slot] = -1


@compiled_loop
def occupied(rows: Ints, rooms: Ints, width: int, slots: Ints, positions: Ints) -> int:
    """Lists the slots of dense slices that have rows, slice by slice, each with the position of its slice. Returns the
    number of these slots."""
    found = 0
    for position in range(rooms.shape[0]):
        for slot in range(rooms[position] * width, (rooms[position] + 1) * width):
            if rows[slot] > 0:
                slots[found] = slot
                positions[found] = position
                found += 1
    return found
