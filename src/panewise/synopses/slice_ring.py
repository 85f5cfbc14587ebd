"""The ring of partials of the slices held. Most techniques keep it and derive the rest of their state from it.

    slice      12   13   14   15   16          first = 12, after = 17, room = 8: slice n lies at n mod 8
    place       4    5    6    7    0

Matrices are fields x (room * width): the states of a slice's groups are neighbours. A technique adds its own arrays and
loops. It overrides `_renew` to reset its derived state when the ring was replaced. So growth, new groups and snapshots,
which hold only the partials, are implemented once, here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from panewise.aggregates.matrix import identity
from panewise.aggregates.states import StateKind
from panewise.arrays import Floats, Ints
from panewise.loops import compiled_loop

LEAST_ROOM = 64
BLOCK = 1024  # neighbouring slices that are tested together


@compiled_loop
def copy_states(ints: Ints, floats: Floats, d: int, ints2: Ints, floats2: Floats, s: int, count: int) -> None:
    """Copies `count` states from slot s on of the second matrices to slot d on of the first."""
    for f in range(ints.shape[0]):
        for j in range(count):
            ints[f, d + j] = ints2[f, s + j]
    for f in range(floats.shape[0]):
        for j in range(count):
            floats[f, d + j] = floats2[f, s + j]


@compiled_loop
def _copy(target: NDArray[Any], source: NDArray[Any]) -> None:
    """Copies an array. The loop is vectorised because an index from 0 needs no test for being negative."""
    for i in range(target.shape[0]):
        target[i] = source[i]


@compiled_loop
def in_a_row(numbers: Ints) -> bool:
    """Whether each number is one more than the one before. Without an early exit, so that the loop is vectorised."""
    astray = numbers[0] ^ numbers[0]
    for k in range(numbers.shape[0]):
        astray |= numbers[k] - (numbers[0] + k)
    return bool(astray == 0)


@compiled_loop
def put_slices(
    ints: Ints, floats: Floats, room: int, width: int, after: int, part_ints: Ints, part_floats: Floats, places: Ints
) -> None:
    """Stores the partials at these places as the slices from `after` on; consecutive places are copied together."""
    i = 0
    while i < places.shape[0]:
        begin = (after + i) & (room - 1)
        block = places[i : i + min(BLOCK, places.shape[0] - i, room - begin)]
        length, whole, done = block.shape[0], in_a_row(block), 0
        while done < length:
            run = length if whole else 1
            while done + run < length and block[done + run] == block[done + run - 1] + 1:
                run += 1
            target, source, slots = (begin + done) * width, block[done] * width, run * width
            for f in range(ints.shape[0]):
                _copy(ints[f, target : target + slots], part_ints[f, source : source + slots])
            for f in range(floats.shape[0]):
                _copy(floats[f, target : target + slots], part_floats[f, source : source + slots])
            done += run
        i += length


class SliceRing:
    """The part of a synopsis that all techniques over a ring of partials share."""

    STATES_A_SLICE = 1  # a technique may reserve room for more states, behind the ring in the same matrices

    def __init__(self, kind: StateKind, width: int) -> None:
        self.kind = kind
        self.width = width
        self.first = 0
        self.after = 0
        self._room = LEAST_ROOM  # slices; a power of two
        self._ints, self._floats = identity(kind, self.STATES_A_SLICE * self._room * width)

    def _renew(self) -> None:
        """Resets what is derived from the ring. Called when the ring or its slices have been replaced."""

    def _evicted(self) -> None:
        """Called after slices below `first` were evicted."""

    @property
    def bytes_held(self) -> int:
        return self._ints.nbytes + self._floats.nbytes

    def begin_at(self, number: int) -> None:
        self.first = self.after = number
        self._renew()

    def insert(self, ints: Ints, floats: Floats, ranks: Ints) -> None:
        count = max(ints.shape[1], floats.shape[1])
        flat_ints = np.ascontiguousarray(ints).reshape(self.kind.int_fields, count * self.width)
        flat_floats = np.ascontiguousarray(floats).reshape(self.kind.float_fields, count * self.width)
        self.insert_from(flat_ints, flat_floats, np.arange(count, dtype=np.int64), ranks)

    def insert_from(self, ints: Ints, floats: Floats, rooms: Ints, ranks: Ints) -> None:
        needed = self.after - self.first + len(rooms)
        if needed > self._room:
            self._move(None, self.width, 1 << (needed - 1).bit_length())
        put_slices(self._ints, self._floats, self._room, self.width, self.after, ints, floats, rooms)
        self.after += len(rooms)

    def evict(self, before: int) -> None:
        self.first = min(max(self.first, before), self.after)
        self._evicted()

    def held(self) -> tuple[Ints, Floats]:
        """The partials of all slices held, in order: fields x slices x width."""
        places = np.arange(self.first, self.after) & (self._room - 1)
        states = self.STATES_A_SLICE * self._room
        ints = self._ints.reshape(self.kind.int_fields, states, self.width)[:, places]
        floats = self._floats.reshape(self.kind.float_fields, states, self.width)[:, places]
        return ints, floats

    def int_arrays(self) -> list[Ints]:
        """The int64 fields of all states held. A technique with more arrays of states adds them."""
        return [self._ints]

    def widen(self, width: int) -> None:
        self._move(None, width, self._room)

    def regroup(self, kept: Ints, width: int) -> None:
        self._move(kept, width, self._room)

    def _move(self, kept: Ints | None, width: int, room: int) -> None:
        """Moves the partials of all groups, or of the groups `kept`, to a ring of another size."""
        ints, floats = self.held()
        if kept is not None:
            ints, floats = ints[:, :, kept], floats[:, :, kept]
        self._load(self.first, ints, floats, width, room)

    def _load(self, first: int, ints: Ints, floats: Floats, width: int, room: int) -> None:
        """Replaces all slices by these partials, which may have fewer groups than `width`."""
        count, groups = ints.shape[1] or floats.shape[1], ints.shape[2] if len(ints) else floats.shape[2]
        self.first, self.after = first, first + count
        self.width, self._room = width, room
        states = self.STATES_A_SLICE * room
        self._ints, self._floats = identity(self.kind, states * width)
        places = np.arange(first, first + count) & (room - 1)
        self._ints.reshape(self.kind.int_fields, states, width)[:, places, :groups] = ints
        self._floats.reshape(self.kind.float_fields, states, width)[:, places, :groups] = floats
        self._renew()

    def snapshot(self) -> dict[str, Any]:
        ints, floats = self.held()
        return {
            "first": self.first,
            "after": self.after,
            "width": self.width,
            "ints": ints.reshape(-1),
            "floats": floats.reshape(-1),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        count, width = snapshot["after"] - snapshot["first"], snapshot["width"]
        ints = snapshot["ints"].reshape(self.kind.int_fields, count, width)
        floats = snapshot["floats"].reshape(self.kind.float_fields, count, width)
        room = max(LEAST_ROOM, 1 << max(0, count - 1).bit_length())
        self._load(snapshot["first"], ints, floats, width, room)
