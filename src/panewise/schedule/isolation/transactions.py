"""Window moves and reads as transactions over sub-windows: Golab 2006, sections 7.2.3 and 7.4.3.

A window is a circular array of n sub-windows. Move j replaces the oldest sub-window, j mod n, by newly arrived rows,
and commits at once. A read scans the `length` youngest sub-windows, each once, in any order, and then commits. The
contents of a sub-window between two replacements are a *copy*, which has the number of the move that wrote it:

    n = 5           sub-window       0    1    2    3    4
    after move 4    copy             0    1    2    3    4       oldest: sub-window 0
    after move 6    copy             5    6    2    3    4       oldest: sub-window 2

The window of length k as of move j is thus the copies j - k + 1 to j. Ages are always compared by the numbers of
copies.

(The example for short windows in section 7.2.3 counts in the other direction: if sub-window 0 is the youngest, the
oldest is 1 and not n - 1, because move j writes j mod n.)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from panewise.errors import PanewiseError


class Priority(IntEnum):
    """The priority of a read; a read with a greater value suspends one with a smaller value."""

    PERIODIC = 0
    ONE_TIME = 1


@dataclass(frozen=True)
class WindowRead:
    """A one-time query, or one execution of a periodic query or of a group of them that share a scan.

    >>> WindowRead("Q1", length=3).length
    3
    """

    name: str
    length: int
    priority: Priority = Priority.PERIODIC


@dataclass(frozen=True)
class WindowMove:
    """Replaces the oldest sub-window.

    In a WEAK result, partitioned by expiration, a move also inserts rows into other sub-windows: `inserted_into`. The
    copies there keep their numbers.
    """

    number: int
    inserted_into: frozenset[int] = frozenset()

    def sub_window(self, sub_windows: int) -> int:
        return self.number % sub_windows


def copies_of_window(last_move: int, length: int) -> range:
    """The copies of a window as of a move, from the oldest to the youngest.

    >>> list(copies_of_window(6, 3))
    [4, 5, 6]
    """
    return range(last_move - length + 1, last_move + 1)


def check_length(length: int, sub_windows: int) -> None:
    if not 1 <= length <= sub_windows:
        raise PanewiseError(
            f"a read of {length} sub-windows over a window of {sub_windows}: expected 1 to {sub_windows}"
        )
