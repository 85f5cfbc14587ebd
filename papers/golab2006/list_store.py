"""A list that is scanned for what has expired: the state of the baselines DIRECT and NT.

Rows stand in the order in which they came. Every `expire` and every `remove` reads the whole list, whatever it finds:
that is the cost which the structures by update pattern avoid, and the reason why this one exists. Golab 2006, section
3.6.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from panewise.arrays import Ints
from panewise.loops import compiled_loop
from panewise.state.expiring import room_for, widened


@compiled_loop
def _split(ids: Ints, expires: Ints, size: int, until: int, gone_ids: Ints, gone_expires: Ints) -> int:
    """Moves what expires to `gone`, closes the gaps, and says how many went."""
    gone = kept = 0
    for i in range(size):
        if expires[i] < until:
            gone_ids[gone], gone_expires[gone] = ids[i], expires[i]
            gone += 1
        else:
            ids[kept], expires[kept] = ids[i], expires[i]
            kept += 1
    return gone


@compiled_loop
def _without(ids: Ints, expires: Ints, size: int, removed: Ints) -> int:
    """Closes the gaps that the removed ids, ascending, leave; how many rows stay."""
    kept = 0
    for i in range(size):
        place = np.searchsorted(removed, ids[i])
        if place == len(removed) or removed[place] != ids[i]:
            ids[kept], expires[kept] = ids[i], expires[i]
            kept += 1
    return kept


class ListStore:
    """Rows in the order in which they came.

    >>> store = ListStore()
    >>> store.insert(np.array([7, 8, 9]), np.array([30, 10, 20]))
    >>> [column.tolist() for column in store.expire(21)]
    [[8, 9], [10, 20]]
    """

    def __init__(self) -> None:
        self._ids: Ints = np.empty(1024, np.int64)
        self._expires: Ints = np.empty(1024, np.int64)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def bytes_held(self) -> int:
        return self._ids.nbytes + self._expires.nbytes

    def insert(self, ids: Ints, expires: Ints) -> None:
        size = self._size + len(ids)
        if size > len(self._ids):
            room = room_for(size)
            self._ids, self._expires = widened(self._ids, room), widened(self._expires, room)
        self._ids[self._size : size], self._expires[self._size : size] = ids, expires
        self._size = size

    def expire(self, until: int) -> tuple[Ints, Ints]:
        ids, expires = np.empty(self._size, np.int64), np.empty(self._size, np.int64)
        gone = _split(self._ids, self._expires, self._size, until, ids, expires)
        self._shrink(self._size - gone)
        order = np.argsort(expires[:gone], kind="stable")
        return ids[:gone][order], expires[:gone][order]

    def remove(self, ids: Ints) -> None:
        if len(ids):
            self._shrink(_without(self._ids, self._expires, self._size, np.sort(ids)))

    def _shrink(self, size: int) -> None:
        self._size = size
        if len(self._ids) > 4 * room_for(size):
            room = 2 * room_for(size)
            self._ids, self._expires = widened(self._ids[:size], room), widened(self._expires[:size], room)

    def snapshot(self) -> dict[str, Any]:
        return {"ids": self._ids[: self._size].copy(), "expires": self._expires[: self._size].copy()}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._size = 0
        self.insert(snapshot["ids"], snapshot["expires"])
