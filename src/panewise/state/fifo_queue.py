"""A FIFO queue: rows that expire in the order of arrival, the state of WEAKEST edges.

    [ . . . | 12 12 15 18 21 | . . ]        expired rows are a prefix, found by binary search
          start             stop

Invariant: expirations ascend. Inserting costs O(1) a row, expiring O(log held) a call and O(1) a row. Removing a row
scans the queue and should be rare. Golab 2006, section 3.5.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from panewise.arrays import Ints
from panewise.state.expiring import room_for


class FifoQueue:
    """Rows that leave in the order in which they came.

    >>> queue = FifoQueue()
    >>> queue.insert(np.array([7, 8, 9]), np.array([10, 10, 20]))
    >>> [column.tolist() for column in queue.expire(11)]
    [[7, 8], [10, 10]]
    >>> len(queue)
    1
    """

    def __init__(self) -> None:
        self._ids: Ints = np.empty(0, np.int64)
        self._expires: Ints = np.empty(0, np.int64)
        self._start = self._stop = 0

    def __len__(self) -> int:
        return self._stop - self._start

    @property
    def bytes_held(self) -> int:
        return self._ids.nbytes + self._expires.nbytes

    def insert(self, ids: Ints, expires: Ints) -> None:
        """Adds rows that do not expire before those held. The rows of one call may have any order."""
        if not len(ids):
            return
        if bool((expires[1:] < expires[:-1]).any()):
            # Rows of several inputs that are born at one instant may die at different instants.
            order = np.argsort(expires, kind="stable")
            ids, expires = ids[order], expires[order]
        assert not len(self) or self._expires[self._stop - 1] <= expires[0], "a row expires before one that is held"
        stop = self._stop + len(ids)
        if stop > len(self._ids):
            self._load(self._held(self._ids), self._held(self._expires), room_for(2 * (len(self) + len(ids))))
            stop = self._stop + len(ids)
        self._ids[self._stop : stop], self._expires[self._stop : stop] = ids, expires
        self._stop = stop

    def _held(self, column: Ints) -> Ints:
        return column[self._start : self._stop]

    def _load(self, ids: Ints, expires: Ints, room: int) -> None:
        columns = np.empty(room, np.int64), np.empty(room, np.int64)
        columns[0][: len(ids)], columns[1][: len(ids)] = ids, expires
        self._ids, self._expires = columns
        self._start, self._stop = 0, len(ids)

    def expire(self, until: int) -> tuple[Ints, Ints]:
        gone = int(np.searchsorted(self._held(self._expires), until))
        ids, expires = self._held(self._ids)[:gone].copy(), self._held(self._expires)[:gone].copy()
        self._start += gone
        # Shrinks after a burst, to twice the needed room, so that it need not grow again at once.
        if len(self._ids) > 4 * room_for(len(self)):
            self._load(self._held(self._ids), self._held(self._expires), 2 * room_for(len(self)))
        return ids, expires

    def remove(self, ids: Ints) -> None:
        if len(ids) and len(self):
            kept = ~np.isin(self._held(self._ids), ids)
            self._load(self._held(self._ids)[kept], self._held(self._expires)[kept], len(self._ids))

    def snapshot(self) -> dict[str, Any]:
        return {"ids": self._held(self._ids).copy(), "expires": self._held(self._expires).copy()}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._load(snapshot["ids"], snapshot["expires"], room_for(len(snapshot["ids"])))
