"""What every synopsis over slices does: insert, evict, answer, snapshot, restore.

Slices are numbered from 0 in time order. A synopsis holds the states of one kind for slices `first` to `after`
(exclusive), each for `width` groups, and answers windows over any of them:

         first                              after
    ......|----|----|----|----|----|----|----|
                     [  answer(start, end)  )       state arrays: fields x answers x groups, the group axis last
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from panewise.aggregates.states import StateKind
from panewise.arrays import Floats, Ints
from panewise.synopses.slice_ring import SliceRing


class Synopsis(Protocol):
    """The contract. `ranks` orders the codes of string states and is empty for all others."""

    kind: StateKind
    width: int
    first: int
    after: int

    def begin_at(self, number: int) -> None:
        """Of one that is empty: its first slice will have this number."""

    def insert(self, ints: Ints, floats: Floats, ranks: Ints) -> None:
        """Appends the partials of new slices, oldest first: arrays of shape (fields, slices, width)."""

    def insert_from(self, ints: Ints, floats: Floats, rooms: Ints, ranks: Ints) -> None:
        """The same from matrices (fields x slots) of which a room is `width` neighbouring slots, without a copy."""

    def evict(self, before: int) -> None:
        """Forgets the slices numbered below `before`."""

    def answer(
        self, starts: Ints, ends: Ints, ranks: Ints, groups: int | None = None, windows: Ints | None = None
    ) -> tuple[Ints, Floats]:
        """The states of windows [start, end) of slice numbers: arrays of shape (fields, answers, groups).

        `groups`: the first so many groups alone; None for all of the width. `windows` numbers the sliding window that
        each answer is a position of (None: all are of window 0): techniques that keep something per sliding window go
        on from its last position. They are asked in the order of ends; one that goes back is answered all the same, but
        from the beginning.
        """

    def drop_window(self, window: int) -> None:
        """A sliding window will not be asked for again; its number may come to mean another one."""

    def widen(self, width: int) -> None:
        """Makes room for more groups; the new ones are at the identity in all slices held."""

    def regroup(self, kept: Ints, width: int) -> None:
        """Keeps only these groups, renumbered in this order, in arrays of the given width."""

    def snapshot(self) -> dict[str, Any]:
        """All state, as plain arrays."""

    def restore(self, snapshot: dict[str, Any]) -> None:
        """The state of a snapshot, in place of its own."""

    def int_arrays(self) -> list[Ints]:
        """The int64 fields of all states held, to be changed in place where codes of strings are renumbered."""

    @property
    def bytes_held(self) -> int:
        """Bytes of state."""


def partials(synopsis: Synopsis, ranks: Ints) -> tuple[Ints, Floats]:
    """The partials of all slices held, as they were inserted."""
    if isinstance(synopsis, SliceRing):
        return synopsis.held()
    slices = np.arange(synopsis.first, synopsis.after, dtype=np.int64)
    return synopsis.answer(slices, slices + 1, ranks)
