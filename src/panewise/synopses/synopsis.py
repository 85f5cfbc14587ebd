"""What every synopsis over slices does: insert, evict, answer, snapshot, restore.

Slices are numbered from 0 in time order. For the slices from `first` up to, but not including, `after`, a synopsis
holds the states of one kind, each for `width` groups. It answers windows over any of these slices:

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
    """The contract. `ranks` has the order of the codes of string states; it is empty for all other states."""

    kind: StateKind
    width: int
    first: int
    after: int

    def begin_at(self, number: int) -> None:
        """Sets the number of the first slice. The synopsis must be empty."""

    def insert(self, ints: Ints, floats: Floats, ranks: Ints) -> None:
        """Appends the partials of new slices, oldest first: arrays of shape (fields, slices, width)."""

    def insert_from(self, ints: Ints, floats: Floats, rooms: Ints, ranks: Ints) -> None:
        """Appends the partials in these rooms of matrices (fields x slots), without an intermediate copy.

        A room is `width` neighbouring slots.
        """

    def evict(self, before: int) -> None:
        """Forgets the slices numbered below `before`."""

    def answer(
        self, starts: Ints, ends: Ints, ranks: Ints, groups: int | None = None, windows: Ints | None = None
    ) -> tuple[Ints, Floats]:
        """The states of windows [start, end) of slice numbers: arrays of shape (fields, answers, groups).

        `groups`: answer only this many groups, from the first; None: all `width` groups. `windows`: the number of the
        sliding window that each answer is a position of; None: all are positions of window 0. Techniques that keep
        state per sliding window continue from its last position. Answers should be asked for in the order of their
        ends. A window that moves backwards is answered too, but without the help of its last position.
        """

    def drop_window(self, window: int) -> None:
        """A sliding window will not be asked for again. Its number may be reused for another one."""

    def widen(self, width: int) -> None:
        """Makes room for `width` groups; the new groups have the identity in all slices held."""

    def regroup(self, kept: Ints, width: int) -> None:
        """Keeps only these groups, renumbered in this order, with room for `width` groups."""

    def snapshot(self) -> dict[str, Any]:
        """All state, as plain arrays."""

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Replaces the state by that of a snapshot."""

    def int_arrays(self) -> list[Ints]:
        """The int64 fields of all states held. The caller changes them in place to renumber codes of strings."""

    @property
    def bytes_held(self) -> int:
        """Bytes of state."""


def partials(synopsis: Synopsis, ranks: Ints) -> tuple[Ints, Floats]:
    """The partials of all slices held, as they were inserted."""
    if isinstance(synopsis, SliceRing):
        return synopsis.held()
    slices = np.arange(synopsis.first, synopsis.after, dtype=np.int64)
    return synopsis.answer(slices, slices + 1, ranks)
