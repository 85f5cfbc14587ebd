"""The order in which a read scans its unread sub-windows: Golab 2006, section 7.4.2.

The *time to update* (TTU) of a sub-window is the number of moves until it is replaced: 1 for the oldest, n for the
youngest. A set of sub-windows is an integer whose bit i is the sub-window with TTU i + 1. A move shifts every set right
by one; the bit that drops out is the sub-window that was replaced:

    n = 5, last move 6        TTU           1    2    3    4    5
                              bit           0    1    2    3    4
                              sub-window    2    3    4    0    1

An order is a function of the set of unread sub-windows (never empty), the number n of sub-windows and the last move. It
returns a bit number. Time: a constant number of operations on integers of n bits.
"""

from __future__ import annotations

from collections.abc import Callable

ReadOrder = Callable[[int, int, int], int]


def youngest_first(unread: int, sub_windows: int, last_move: int) -> int:
    """Highest time to update first: algorithm 8, line 21.

    >>> youngest_first(0b01011, 5, 6)
    3
    """
    return unread.bit_length() - 1


def oldest_first(unread: int, sub_windows: int, last_move: int) -> int:
    """Lowest time to update first: the sub-window that is replaced next is read before that.

    >>> oldest_first(0b01010, 5, 6)
    1
    """
    return (unread & -unread).bit_length() - 1


def by_sub_window(unread: int, sub_windows: int, last_move: int) -> int:
    """Sub-window 0 first, then 1, 2 ...: the order in which transactions are written, independent of moves.

    >>> [sub_window_of(by_sub_window(unread, 5, 6), 5, 6) for unread in (0b11111, 0b10111, 0b00110)]
    [0, 1, 3]
    """
    from_zero = unread >> bit_of(0, sub_windows, last_move) << bit_of(0, sub_windows, last_move)
    return oldest_first(from_zero or unread, sub_windows, last_move)


def sub_window_of(bit: int, sub_windows: int, last_move: int) -> int:
    return (last_move + 1 + bit) % sub_windows


def bit_of(sub_window: int, sub_windows: int, last_move: int) -> int:
    return (sub_window - last_move - 1) % sub_windows


def copy_of(bit: int, sub_windows: int, last_move: int) -> int:
    """The number of the copy in the sub-window of a bit."""
    return last_move + 1 + bit - sub_windows


def youngest_bits(length: int, sub_windows: int) -> int:
    """The set of the youngest sub-windows.

    >>> bin(youngest_bits(2, 5))
    '0b11000'
    """
    return ((1 << length) - 1) << (sub_windows - length)
