"""Queues that hold rows until they expire: one contract, and a structure for each update pattern.

| structure       | for                 | insert        | expire                       | remove                  |
| --------------- | ------------------- | ------------- | ---------------------------- | ----------------------- |
| `FifoQueue`     | WEAKEST             | O(1)          | O(log held + expired)        | O(held)                 |
| `CalendarQueue` | WEAK                | O(1)          | O(expired log partition)     | O(held)                 |

Insert costs are per row, the others per call. A row is an id of the owner's choice, unique among those held, with the
instant at which it expires. Golab 2006, sections 3.5.2 and 3.6.1.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from panewise.arrays import Ints

FOREVER = 2**63 - 1
NONE: Ints = np.empty(0, np.int64)


class Expiring(Protocol):
    """An expiration queue."""

    def insert(self, ids: Ints, expires: Ints) -> None:
        """Adds rows. A row that expires at FOREVER leaves only by `remove`."""

    def expire(self, until: int) -> tuple[Ints, Ints]:
        """Removes all rows with `expires < until`. Returns ids and expirations, by expiration, ties as inserted."""

    def remove(self, ids: Ints) -> None:
        """Removes rows before they expire. Ids that are not held are ignored."""

    def __len__(self) -> int: ...

    @property
    def bytes_held(self) -> int: ...

    def snapshot(self) -> dict[str, Any]: ...

    def restore(self, snapshot: dict[str, Any]) -> None: ...


def room_for(count: int) -> int:
    """A capacity for this many rows: a power of two, at least 1024."""
    return max(1024, 1 << (count - 1).bit_length()) if count else 1024


def widened(array: NDArray[Any], room: int) -> NDArray[Any]:
    """The array with more room at its end."""
    result = np.empty(room, array.dtype)
    result[: len(array)] = array
    return result
