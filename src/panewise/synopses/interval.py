"""The interval synopsis (B-INT): states over base intervals of 1, 2, 4, ... slices, for any associative state.

    level 2   |-------------------|-------------------|        node j of level l covers slices
    level 1   |---------|---------|---------|---------|        [j * 2^l, (j + 1) * 2^l)
    level 0   |----|----|----|----|----|----|----|----|
    slice       0    1    2    3    4    5    6    7

A node is made when its last slice comes, so an insert combines once, amortised. A window is covered by at most
2 log2(slices) nodes. Answers for many ranges that end together are chained, the shorter one being a part of the longer
one, so that all of them together cost little more than the longest. Nothing is ever subtracted: doubles stay as exact as
their sum, NaN and infinities leave with their slice. Levels are rings: eviction moves one number.

Space: two states per slice held. Source: Arasu and Widom 2004, section 3.1.1; Golab 2006, section 2.3.4.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from panewise.aggregates.kernels import combine_run
from panewise.aggregates.matrix import identity
from panewise.aggregates.states import StateKind
from panewise.loops import compiled_loop, specialised
from panewise.synopses.contract import partials

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@compiled_loop
def _copy(ints: Ints, floats: Floats, d: int, ints2: Ints, floats2: Floats, s: int, count: int) -> None:
    for f in range(ints.shape[0]):
        for j in range(count):
            ints[f, d + j] = ints2[f, s + j]
    for f in range(floats.shape[0]):
        for j in range(count):
            floats[f, d + j] = floats2[f, s + j]


@compiled_loop
def _place(room: int, level: int, node: int) -> int:
    """Where a node lies: level 0 first, each level half as long as the one before."""
    return 2 * room - ((2 * room) >> level) + (node & ((room >> level) - 1))


@compiled_loop
def _insert(
    operation: int, ints: Ints, floats: Floats, room: int, width: int, after: int, count: int, part_ints: Ints,
    part_floats: Floats, ranks: Ints,
) -> None:  # fmt: skip
    for i in range(count):
        number = after + i
        _copy(ints, floats, _place(room, 0, number) * width, part_ints, part_floats, i * width, width)
        level = 1
        while ((number + 1) & ((1 << level) - 1)) == 0 and (room >> level) > 0:
            node = number >> level
            target = _place(room, level, node) * width
            left = _place(room, level - 1, 2 * node) * width
            right = _place(room, level - 1, 2 * node + 1) * width
            _copy(ints, floats, target, ints, floats, left, width)
            combine_run(operation, ints, floats, target, ints, floats, right, width, ranks)
            level += 1


@compiled_loop
def _answer(
    operation: int, ints: Ints, floats: Floats, room: int, width: int, starts: Ints, ends: Ints, result_ints: Ints,
    result_floats: Floats, ranks: Ints,
) -> None:  # fmt: skip
    """Answer q may build on answer q - 1 where that one is its suffix. The results hold the identity at first."""
    for q in range(starts.shape[0]):
        position, end = starts[q], ends[q]
        suffix = q > 0 and ends[q - 1] == end and position <= starts[q - 1] < end
        if suffix:
            end = starts[q - 1]
        target = q * width
        fresh = True
        while position < end:
            level = 0
            while (
                (position & ((1 << (level + 1)) - 1)) == 0
                and position + (1 << (level + 1)) <= end
                and (room >> (level + 1)) > 0
            ):
                level += 1
            node = _place(room, level, position >> level) * width
            if fresh:
                _copy(result_ints, result_floats, target, ints, floats, node, width)
                fresh = False
            else:
                combine_run(operation, result_ints, result_floats, target, ints, floats, node, width, ranks)
            position += 1 << level
        if suffix:
            before = (q - 1) * width
            if fresh:
                _copy(result_ints, result_floats, target, result_ints, result_floats, before, width)
            else:
                combine_run(
                    operation, result_ints, result_floats, target, result_ints, result_floats, before, width, ranks
                )


class IntervalSynopsis:
    """Base intervals in rings, one per level."""

    def __init__(self, kind: StateKind, width: int, combine: Any = None) -> None:
        self.kind = kind
        self.width = width
        self.first = 0
        self.after = 0
        self._insert, self._answer = _insert, _answer
        if combine is not None:
            self._insert = specialised(_insert, combine_run=combine)
            self._answer = specialised(_answer, combine_run=combine)
        self._room = 64
        self._ints, self._floats = identity(kind, 2 * self._room * width)

    @property
    def bytes_held(self) -> int:
        return self._ints.nbytes + self._floats.nbytes

    def insert(self, ints: Ints, floats: Floats, ranks: Ints) -> None:
        count = max(ints.shape[1], floats.shape[1])
        needed = self.after - self.first + count
        if needed > self._room:
            self._rebuild(1 << (needed - 1).bit_length(), ranks)
        flat_ints = np.ascontiguousarray(ints).reshape(self.kind.int_fields, count * self.width)
        flat_floats = np.ascontiguousarray(floats).reshape(self.kind.float_fields, count * self.width)
        self._insert(
            int(self.kind.operation), self._ints, self._floats, self._room, self.width, self.after, count, flat_ints,
            flat_floats, ranks,
        )  # fmt: skip
        self.after += count

    def _rebuild(self, room: int, ranks: Ints) -> None:
        ints, floats = partials(self, ranks)
        self._load(self.first, ints, floats, room, ranks)

    def _load(self, first: int, ints: Ints, floats: Floats, room: int, ranks: Ints) -> None:
        """Starts anew with these partials; nodes that reach before `first` are never read, so they may be anything."""
        self._room = room
        self.first = self.after = first
        self._ints, self._floats = identity(self.kind, 2 * room * self.width)
        self.insert(ints, floats, ranks)

    def evict(self, before: int) -> None:
        self.first = min(max(self.first, before), self.after)

    def answer(self, starts: Ints, ends: Ints, ranks: Ints) -> tuple[Ints, Floats]:
        count = len(starts)
        ints, floats = identity(self.kind, count * self.width)
        self._answer(
            int(self.kind.operation),
            self._ints,
            self._floats,
            self._room,
            self.width,
            starts,
            ends,
            ints,
            floats,
            ranks,
        )
        return (
            ints.reshape(self.kind.int_fields, count, self.width),
            floats.reshape(self.kind.float_fields, count, self.width),
        )

    def widen(self, width: int) -> None:
        self._remap(None, width)

    def regroup(self, kept: Ints, width: int) -> None:
        self._remap(kept, width)

    def _remap(self, kept: Ints | None, width: int) -> None:
        nodes = 2 * self._room
        ints, floats = identity(self.kind, nodes * width)
        for new, old in ((ints, self._ints), (floats, self._floats)):
            source = old.reshape(len(old), nodes, self.width)
            target = new.reshape(len(new), nodes, width)
            if kept is None:
                target[:, :, : self.width] = source
            else:
                target[:, :, : len(kept)] = source[:, :, kept]
        self._ints, self._floats, self.width = ints, floats, width

    def snapshot(self) -> dict[str, Any]:
        ints, floats = partials(self, np.empty(0, np.int64))
        return {
            "first": self.first,
            "after": self.after,
            "width": self.width,
            "ints": ints.reshape(-1),
            "floats": floats.reshape(-1),
        }

    def restore(self, snapshot: dict[str, Any], ranks: Ints | None = None) -> None:
        self.width = snapshot["width"]
        count = snapshot["after"] - snapshot["first"]
        ints = snapshot["ints"].reshape(self.kind.int_fields, count, self.width)
        floats = snapshot["floats"].reshape(self.kind.float_fields, count, self.width)
        room = max(64, 1 << max(0, count - 1).bit_length())
        self._load(snapshot["first"], ints, floats, room, np.empty(0, np.int64) if ranks is None else ranks)
