"""A keyed store: rows found by key or by id, for STRICT edges, where most rows end by negative rows.

    key    newest                        nodes: key, id, expires, and links within the key
     0  ->  [id 9] -> [id 4] -> [id 1]
     1  ->  [id 7]                       id -> node: an open-addressing hash table

A row is inserted, taken by its key and removed by its id in O(1), expected. Expiring scans all nodes, but only where
some row may have expired: the structure is for edges on which few rows live until they expire by themselves. Keys are
small integers, as a `GroupTable` gives them; memory is O(greatest key + most rows held). Golab 2006, section 3.5.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from panewise.arrays import Ints
from panewise.loops import compiled_loop
from panewise.state.expiring import FOREVER, room_for, widened

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_FREE, _HELD, _NUMBER = 0, 1, 2  # places in `marks`: first free node, rows held, rows ever inserted
# Columns of `nodes`. A free node has key -1 and its successor among the free ones in OLDER.
_KEY, _ID, _EXPIRES, _INSERTED, _NEWER, _OLDER = range(6)
Matrix = NDArray[np.int64]


@compiled_loop
def _slot_of(id: int, table: Ints, nodes: Matrix) -> int:
    """The slot of the hash table that holds the id's node, or the free one where it belongs."""
    mask = np.uint64(len(table) - 1)
    mixed = np.uint64(id) * MULTIPLIER
    slot = (mixed ^ (mixed >> np.uint64(32))) & mask
    while table[slot] >= 0 and nodes[table[slot], _ID] != id:
        slot = (slot + np.uint64(1)) & mask
    return np.int64(slot)  # type: ignore[return-value]


@compiled_loop
def _clear_slot(slot: int, table: Ints, nodes: Matrix) -> None:
    """Empties a slot and moves up those behind it that would no longer be found."""
    mask = len(table) - 1
    free, probe = slot, slot
    while True:
        probe = (probe + 1) & mask
        node = table[probe]
        if node < 0:
            break
        mixed = np.uint64(nodes[node, _ID]) * MULTIPLIER
        home = np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(mask))
        # The node may move to the free slot when that is not before its home, going round.
        if ((probe - home) & mask) >= ((probe - free) & mask):
            table[free] = node
            free = probe
    table[free] = -1


@compiled_loop
def _release(node: int, nodes: Matrix, newest: Ints, counts: Ints, marks: Ints) -> None:
    key, newer, older = nodes[node, _KEY], nodes[node, _NEWER], nodes[node, _OLDER]
    if newer >= 0:
        nodes[newer, _OLDER] = older
    else:
        newest[key] = older
    if older >= 0:
        nodes[older, _NEWER] = newer
    counts[key] -= 1
    nodes[node, _KEY] = -1
    nodes[node, _OLDER] = marks[_FREE]
    marks[_FREE] = node
    marks[_HELD] -= 1


@compiled_loop
def _insert(
    keys: Ints, ids: Ints, expires: Ints, nodes: Matrix, table: Ints, newest: Ints, counts: Ints, marks: Ints
) -> None:
    for i in range(len(ids)):
        key, node = keys[i], marks[_FREE]
        marks[_FREE] = nodes[node, _OLDER]
        nodes[node, _KEY], nodes[node, _ID], nodes[node, _EXPIRES] = key, ids[i], expires[i]
        nodes[node, _INSERTED] = marks[_NUMBER]
        nodes[node, _NEWER], nodes[node, _OLDER] = -1, newest[key]
        if newest[key] >= 0:
            nodes[newest[key], _NEWER] = node
        newest[key] = node
        counts[key] += 1
        table[_slot_of(ids[i], table, nodes)] = node
        marks[_NUMBER] += 1
        marks[_HELD] += 1


@compiled_loop
def _take(keys: Ints, nodes: Matrix, table: Ints, newest: Ints, counts: Ints, marks: Ints, out: Ints) -> None:
    for i in range(len(keys)):
        node = newest[keys[i]] if keys[i] < len(newest) else -1
        out[i] = -1
        if node >= 0:
            out[i] = nodes[node, _ID]
            _clear_slot(_slot_of(out[i], table, nodes), table, nodes)
            _release(node, nodes, newest, counts, marks)


@compiled_loop
def _remove(ids: Ints, nodes: Matrix, table: Ints, newest: Ints, counts: Ints, marks: Ints) -> None:
    for i in range(len(ids)):
        slot = _slot_of(ids[i], table, nodes)
        node = table[slot]
        if node >= 0:
            _clear_slot(slot, table, nodes)
            _release(node, nodes, newest, counts, marks)


@compiled_loop
def _expired(until: int, nodes: Matrix, out: Ints) -> tuple[int, int]:
    """The nodes that expire, in no order, and the earliest expiration among the others."""
    count, earliest = 0, FOREVER
    for node in range(nodes.shape[0]):
        if nodes[node, _KEY] >= 0:
            if nodes[node, _EXPIRES] < until:
                out[count] = node
                count += 1
            else:
                earliest = min(earliest, nodes[node, _EXPIRES])
    return count, earliest


@compiled_loop
def _rehash(nodes: Matrix, table: Ints) -> None:
    table[:] = -1
    for node in range(nodes.shape[0]):
        if nodes[node, _KEY] >= 0:
            table[_slot_of(nodes[node, _ID], table, nodes)] = node


class KeyedStore:
    """Rows by key and by id.

    >>> store = KeyedStore()
    >>> store.insert(np.array([0, 1, 0]), np.array([4, 7, 9]), np.array([50, 60, 70]))
    >>> store.take(np.array([0, 1, 1])).tolist()
    [9, 7, -1]
    >>> store.count(np.array([0, 1])).tolist()
    [1, 0]
    """

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._nodes: Matrix = np.empty((0, 6), np.int64)
        self._table: Ints = np.full(1, -1, np.int64)
        self._newest: Ints = np.empty(0, np.int64)
        self._counts: Ints = np.empty(0, np.int64)
        self._marks: Ints = np.array([-1, 0, 0], np.int64)
        self._earliest = FOREVER  # no row expires before

    def __len__(self) -> int:
        return int(self._marks[_HELD])

    @property
    def bytes_held(self) -> int:
        return self._nodes.nbytes + self._table.nbytes + self._newest.nbytes + self._counts.nbytes

    def insert(self, keys: Ints, ids: Ints, expires: Ints) -> None:
        if not len(ids):
            return
        self._make_room(len(ids), int(keys.max()) + 1)
        _insert(keys, ids, expires, self._nodes, self._table, self._newest, self._counts, self._marks)
        self._earliest = min(self._earliest, int(expires.min()))

    def _make_room(self, count: int, keys: int) -> None:
        if keys > len(self._newest):
            before, room = len(self._newest), room_for(keys)
            self._newest, self._counts = widened(self._newest, room), widened(self._counts, room)
            self._newest[before:], self._counts[before:] = -1, 0
        before = self._nodes.shape[0]
        if len(self) + count > before:
            room = room_for(len(self) + count)
            nodes = np.full((room, 6), -1, np.int64)
            nodes[:before] = self._nodes
            nodes[before:, _OLDER] = np.arange(before + 1, room + 1)
            nodes[room - 1, _OLDER] = self._marks[_FREE]
            self._nodes, self._marks[_FREE] = nodes, before
            self._table = np.full(2 * room, -1, np.int64)
            _rehash(nodes, self._table)

    def take(self, keys: Ints) -> Ints:
        """For each key the id of its newest row, which leaves; -1 where there is none."""
        out = np.empty(len(keys), np.int64)
        _take(keys, self._nodes, self._table, self._newest, self._counts, self._marks, out)
        return out

    def remove(self, ids: Ints) -> None:
        """Takes rows out; ids that are not held are ignored."""
        _remove(ids, self._nodes, self._table, self._newest, self._counts, self._marks)

    def count(self, keys: Ints) -> Ints:
        """How many rows each key has."""
        known = keys < len(self._counts)
        return np.where(known, self._counts[np.where(known, keys, 0)], 0) if known.any() else np.zeros_like(keys)

    def expire(self, until: int) -> tuple[Ints, Ints]:
        """Ids and expirations of all rows with `expires < until`, which leave: by expiration, ties as inserted."""
        if until <= self._earliest:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        found = np.empty(len(self), np.int64)
        count, self._earliest = _expired(until, self._nodes, found)
        found = self._in_order(found[:count])
        ids, expires = self._nodes[found, _ID], self._nodes[found, _EXPIRES]
        self.remove(ids)
        return ids, expires

    def _in_order(self, nodes: Ints) -> Ints:
        result: Ints = nodes[np.lexsort((self._nodes[nodes, _INSERTED], self._nodes[nodes, _EXPIRES]))]
        return result

    def snapshot(self) -> dict[str, Any]:
        held = np.flatnonzero(self._nodes[:, _KEY] >= 0)
        held = held[np.argsort(self._nodes[held, _INSERTED])]
        return {"keys": self._nodes[held, _KEY], "ids": self._nodes[held, _ID], "expires": self._nodes[held, _EXPIRES]}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._clear()
        self.insert(snapshot["keys"], snapshot["ids"], snapshot["expires"])
