"""Open slices: the slices that the watermark has not passed, and the slot of every row in them.

A row finds its slice in O(1). The slice of the previous row is tried first, then that of the last row in the same cell
of time, a fraction of a slide wide. Only the first row of a cell needs a bisection over the open slices. Slices without
rows are never made, so a gap in the stream costs nothing.

Edges change when queries come and go. A change starts an *epoch*, at an instant that no row has reached yet. An open
slice that extends beyond this instant then ends there, so the rows of a slice are never divided.

Slots are allocated in one of two ways. Dense: a slice is a room of `width` adjacent slots, one for each group. Sparse:
a slot for each (slice, group) that occurs, found by hashing, for slices with few of very many groups.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from panewise.arrays import INT64_MAX, INT64_MIN, Ints
from panewise.slicing.slot_loops import (
    EntryArrays,
    SliceArrays,
    assign_alone,
    assign_dense,
    assign_known,
    assign_sparse,
    bounds,
    fill_table,
    list_entries,
    occupied,
    release_room,
    take_out,
)
from panewise.slicing.window_set import WindowSet

CELLS = 4096
EDGES = ("epochs", "firsts", "slides", "phases")
# The written names of arrays, which never change, and the names of their fields.
WRITTEN = {
    name: name
    for name in "_starts _ends _rooms _free _counts _room_spans _cells _epochs _firsts _slides _phases".split()
}
WRITTEN_SPARSE = {name: name for name in "_table _entry_room _entry_group _entry_next _entry_free _heads".split()}


class OpenSlices:
    """Slots for rows in open slices: `width` slots for each slice, or sparse slots (None)."""

    def __init__(self, width: int | None) -> None:
        self.width = width
        self._starts: Ints = np.zeros(64, np.int64)
        self._ends: Ints = np.zeros(64, np.int64)
        self._rooms: Ints = np.zeros(64, np.int64)
        self._free: Ints = np.arange(64, dtype=np.int64)
        # Numbers of open slices, free rooms and free entries, and the width of a cell of time as a power of two.
        self._counts: Ints = np.array([0, 64, 0, 0], np.int64)
        self._room_spans: Ints = np.zeros((2, 64), np.int64)  # start and end by room; empty for a free room
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

    def cut_from(self, point: int, windows: WindowSet) -> None:
        """From `point` on, slices are cut at these windows' edges. No row may have reached it yet."""
        slides, phases = windows.edges
        kept = self._epochs < point
        count = int(kept.sum())
        used = int(self._firsts[count])
        self._epochs = np.append(self._epochs[:count], point)
        self._slides = np.concatenate([self._slides[:used], slides])
        self._phases = np.concatenate([self._phases[:used], phases])
        self._firsts = np.append(self._firsts[: count + 1], len(self._slides))
        self._set_cells()
        for i in np.flatnonzero((self.starts < point) & (point < self.ends)):
            self._end(int(i), point)

    def _set_cells(self) -> None:
        """Makes cells a fraction of the shortest slide, so that rows out of order find their slice at once."""
        slides = self._slides[self._firsts[-2] :]
        if len(slides):
            self._counts[3] = max(0, int(slides.min()).bit_length() - 3)

    def _end(self, position: int, point: int) -> None:
        """Makes a slice end earlier, at a point that no row has reached."""
        self._ends[position] = self._room_spans[1, self._rooms[position]] = point

    def forget_epochs(self, before: int) -> None:
        """Drops epochs that ended before a point, because no row can fall into them any more.

        The last of them is kept, because the slices of the next epoch begin where it ends.
        """
        gone = int((self._epochs[1:] <= before).sum()) - 1
        if gone > 0:
            first = int(self._firsts[gone])
            self._epochs = self._epochs[gone:].copy()
            self._epochs[0] = INT64_MIN
            self._slides, self._phases = self._slides[first:], self._phases[first:]
            self._firsts = self._firsts[gone:] - first

    def edges(self) -> dict[str, list[int]]:
        """The edges of all epochs that are kept, for `set_edges`."""
        return {name: getattr(self, f"_{name}").tolist() for name in EDGES}

    def edge_arrays(self) -> list[Ints]:
        """The edges as arrays. They are never changed in place, so the same objects mean the same edges."""
        return [getattr(self, f"_{name}") for name in EDGES]

    def hand_over(self, sparse: OpenSlices, counts: Ints) -> tuple[Ints, Ints]:
        """Copies these dense slices to empty sparse ones, with an entry for each group with a count in a slice.

        `counts` is by slot. Returns the slots of the entries there, and of the same groups here.
        """
        assert self.width is not None
        sparse.set_edges(self.edges())
        if not self.count:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        sparse.open_spans(self.starts, self.ends)
        places, groups = np.nonzero(counts.reshape(-1, self.width)[self.rooms])
        return sparse.assign(self.starts[places], groups), self.rooms[places] * self.width + groups

    def set_edges(self, edges: dict[str, list[int]]) -> None:
        """Replaces the edges by those that `edges` returned."""
        for name in EDGES:
            setattr(self, f"_{name}", np.array(edges[name], np.int64))
        self._set_cells()

    def until_cut(self, starts: Ints, ends: Ints) -> Ints:
        """The ends of slices, cut at the first change of edges after their start."""
        cuts = np.append(self._epochs[1:], INT64_MAX)
        result: Ints = np.minimum(ends, cuts[np.searchsorted(cuts[:-1], starts, side="right")])
        return result

    def has_edges_of(self, windows: WindowSet) -> bool:
        """Whether future slices are cut exactly at these windows' edges."""
        newest = slice(int(self._firsts[-2]), int(self._firsts[-1]))
        slides, phases = windows.edges
        return np.array_equal(self._slides[newest], slides) and np.array_equal(self._phases[newest], phases)

    def slice_start(self, point: int) -> int:
        """The start of the slice of a future row at the point."""
        return int(bounds(point, self._epochs, self._firsts, self._slides, self._phases)[0])

    def is_edge(self, point: int) -> bool:
        """Whether future slices are cut at the point."""
        return self.slice_start(point) == point

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
        """Total number of slots."""
        return len(self._entry_room) if self.width is None else len(self._starts) * self.width

    @property
    def bytes_held(self) -> int:
        return sum(v.nbytes for v in vars(self).values() if isinstance(v, np.ndarray))

    def widen(self, width: int) -> None:
        """Gives every dense slice `width` slots, more or fewer. The caller moves the states to the new slots."""
        assert self.width is not None
        self.width = width

    def assign(self, points: Ints, groups: Ints) -> Ints:
        """The slot of every row; valid until the next call. The number of slots may grow: the caller must follow."""
        slots = self._scratch(len(points))
        done = 0
        while True:
            if self.width is not None:
                done = assign_dense(points, groups, done, self.width, self._slice_arrays(), slots)
            else:
                done = assign_sparse(points, groups, done, self._slice_arrays(), self._entry_arrays(), slots)
            if done == len(points):
                return slots
            if self._counts[1] == 0:
                self._grow_rooms()
            else:
                self._grow_entries()

    def places(self, slots: Ints) -> tuple[Ints, Ints]:
        """The room and the group of each slot, in new arrays."""
        if self.width is None:
            return self._entry_room[slots], self._entry_group[slots]
        if self.width == 1:
            return slots.copy(), np.zeros(len(slots), np.int64)
        rooms = slots // self.width
        return rooms, slots - rooms * self.width

    def open_spans(self, starts: Ints, ends: Ints) -> None:
        """Opens slices with these bounds, distinct and ascending. Slices that are open already may end earlier."""
        held = self.count
        places = np.searchsorted(self.starts, starts)
        known = np.append(self.starts, INT64_MAX)[places] == starts
        again = np.flatnonzero(known)
        for i in again[ends[again] < self._ends[places[again]]]:
            self._end(int(places[i]), int(ends[i]))
        fresh = np.flatnonzero(~known)
        while self._counts[1] < len(fresh):
            self._grow_rooms()
        self._counts[1] -= len(fresh)
        rooms = self._free[self._counts[1] : self._counts[1] + len(fresh)]
        self._room_spans[:, rooms] = starts[fresh], ends[fresh]
        order = np.argsort(np.concatenate([self.starts, starts[fresh]]), kind="stable")
        for array, more in ((self._starts, starts[fresh]), (self._ends, ends[fresh]), (self._rooms, rooms)):
            array[: held + len(fresh)] = np.concatenate([array[:held], more])[order]
        self._counts[0] += len(fresh)
        assert (self.ends[:-1] <= self.starts[1:]).all(), "slices overlap"

    def drain_dense(self, rows: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Closes all dense slices. Returns the slots with `rows`, and the start, end and group of each."""
        assert self.width is not None
        slots, positions = np.empty((2, self.count * self.width), np.int64)
        found = occupied(rows, self.rooms, self.width, slots, positions)
        slots, positions = slots[:found], positions[:found]
        groups = slots - self.rooms[positions] * self.width
        return self._drained(slots, positions, groups)

    def drain_sparse(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Closes all sparse slices. Returns all slots, and the start, end and group of each."""
        free, room = int(self._counts[2]), len(self._entry_room)
        slots, positions = np.empty((2, room - free), np.int64)
        list_entries(self.rooms, self._heads, self._entry_next, slots, positions)
        if 8 * len(slots) < room:
            take_out(slots, self._table, self._entry_room, self._entry_group)
        else:
            self._table.fill(-1)
        self._entry_room[slots] = -1
        self._entry_free[free:] = slots[::-1]
        self._counts[2] = room
        self._heads[self.rooms] = -1
        return self._drained(slots, positions, self._entry_group[slots])

    def _drained(self, slots: Ints, positions: Ints, groups: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        starts, ends = self.starts[positions], self.ends[positions]
        self.close(self.count)
        return slots, starts, ends, groups

    def _slice_arrays(self) -> SliceArrays:
        return (
            self._starts, self._ends, self._rooms, self._counts, self._free, self._room_spans, self._cells,
            self._epochs, self._firsts, self._slides, self._phases,
        )  # fmt: skip

    def _entry_arrays(self) -> EntryArrays:
        return self._table, self._entry_room, self._entry_group, self._entry_next, self._heads, self._entry_free

    def _scratch(self, count: int) -> Ints:
        """A buffer for slots, which the next call reuses: new memory would cost more than the work."""
        if len(self._buffer) < count:
            self._buffer = np.empty(count, np.int64)
        return self._buffer[:count]

    def assign_known(self, points: Ints, words: Ints, base: int, direct: Ints, rows: Ints) -> Ints:
        """Assigns the first rows by the fast path, as far as it goes; counts them in `rows`. Returns their slots."""
        assert self.width is not None
        slots = self._scratch(len(points))
        done = assign_known(points, words, base, direct, self.width, self._slice_arrays(), slots, rows)
        return slots[:done]

    def assign_alone(self, points: Ints, done: int, ascending: bool, rows: Ints) -> tuple[Ints, int]:
        """Assigns rows of one group from `done` on, counted in `rows`. Returns the slots, and how far it came.

        If that is not the end, there are more slots now: the caller enlarges `rows` and calls again.
        """
        assert self.width == 1
        slots = self._scratch(len(points))
        done = assign_alone(points, done, ascending, self._slice_arrays(), slots, rows)
        if done < len(points):
            self._grow_rooms()
        return slots, done

    def _grow_rooms(self) -> None:
        old = len(self._starts)
        self._starts, self._ends, self._rooms = (
            np.concatenate([a, np.zeros(old, np.int64)]) for a in (self._starts, self._ends, self._rooms)
        )
        free = int(self._counts[1])
        more = np.arange(old, 2 * old, dtype=np.int64)
        self._free = np.concatenate([self._free[:free], more, np.zeros(old - free, np.int64)])
        self._room_spans = np.concatenate([self._room_spans, np.zeros_like(self._room_spans)], axis=1)
        self._counts[1] += old
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
        fill_table(self._table, self._entry_room, self._entry_group)

    # -- closing -------------------------------------------------------------------------------------------------

    def closable(self, watermark: int) -> int:
        """Number of slices that end at the watermark or before; they are the oldest."""
        return int(np.searchsorted(self.ends, watermark, side="right"))

    def entries_of(self, position: int) -> tuple[Ints, Ints]:
        """Removes a sparse slice's entries; returns their slots and groups. `close` must follow before `assign`."""
        released = self._scratch(len(self._entry_room))
        found = release_room(int(self._rooms[position]), self._entry_arrays(), self._counts, released)
        slots = released[:found].copy()
        return slots, self._entry_group[slots]

    @property
    def entries(self) -> tuple[Ints, Ints, Ints]:
        """The entries of sparse slices: by room the first slot (-1: none), by slot the next slot and the group."""
        return self._heads, self._entry_next, self._entry_group

    def groups_held(self) -> Ints:
        """The groups of all entries of sparse slices; a group may be listed several times."""
        return self._entry_group[self._entry_room >= 0]

    def rename_groups(self, renamed: Ints) -> None:
        """Renumbers the groups of sparse slices."""
        used = self._entry_room >= 0
        self._entry_group[used] = renamed[self._entry_group[used]]
        fill_table(self._table, self._entry_room, self._entry_group)

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
        written = WRITTEN if self.width is not None else WRITTEN | WRITTEN_SPARSE
        return {name: getattr(self, field) for name, field in written.items()} | {"width": self.width}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.width = snapshot["width"]
        written = WRITTEN if self.width is not None else WRITTEN | WRITTEN_SPARSE
        for name, field in written.items():
            setattr(self, field, np.array(snapshot[name]))
