"""The running synopsis (R-INT): prefix sums over slices, for states that can be taken away again.

Invariant: `prefix[k]` is the combination of all slices before slice k. A window [a, b) is `prefix[b] - prefix[a]`, so
an answer costs one subtraction per group whatever its range, and every range, also a historical one, is answered from
the same arrays. Insert O(1), evict O(1), answer O(1), per group; space: one prefix per slice held.

Only integer states are invertible here (counts, sums in two words): two's complement makes the difference of two
prefixes exact even where a prefix has wrapped. Source: Arasu and Widom 2004, section 3.2; Golab 2006, section 2.3.4.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from panewise.aggregates.states import StateKind
from panewise.loops import compiled_loop
from panewise.synopses.contract import partials

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@compiled_loop
def _insert(prefix: Ints, after: int, part: Ints, places: Ints) -> None:
    room, width = prefix.shape[1], prefix.shape[2]
    for i in range(places.shape[0]):
        old, new, source = (after + i) % room, (after + i + 1) % room, places[i] * width
        for f in range(prefix.shape[0]):
            for g in range(width):
                prefix[f, new, g] = prefix[f, old, g] + part[f, source + g]


@compiled_loop
def _answer(prefix: Ints, starts: Ints, ends: Ints, result: Ints) -> None:
    room = prefix.shape[1]
    for q in range(starts.shape[0]):
        a, b = starts[q] % room, ends[q] % room
        for f in range(prefix.shape[0]):
            for g in range(result.shape[2]):
                result[f, q, g] = prefix[f, b, g] - prefix[f, a, g]


class RunningSynopsis:
    """Prefix sums in a ring."""

    def __init__(self, kind: StateKind, width: int) -> None:
        assert kind.algebra.invertible and not kind.float_fields, f"{kind.name} cannot be taken away exactly"
        self.kind = kind
        self.width = width
        self.first = 0
        self.after = 0
        self._prefix: Ints = np.zeros((kind.int_fields, 65, width), np.int64)

    @property
    def bytes_held(self) -> int:
        return self._prefix.nbytes

    def insert(self, ints: Ints, floats: Floats, ranks: Ints) -> None:
        count = ints.shape[1]
        flat = np.ascontiguousarray(ints).reshape(self.kind.int_fields, count * self.width)
        self.insert_from(flat, floats, np.arange(count, dtype=np.int64), ranks)

    def insert_from(self, ints: Ints, floats: Floats, rooms: Ints, ranks: Ints) -> None:
        room = self._prefix.shape[1]
        needed = self.after - self.first + len(rooms) + 1
        if needed > room:
            self._resize(max(2 * (room - 1), needed) + 1, self.width)
        _insert(self._prefix, self.after, ints, rooms)
        self.after += len(rooms)

    def _resize(self, room: int, width: int) -> None:
        held = np.arange(self.first, self.after + 1)
        prefix = np.zeros((self.kind.int_fields, room, width), np.int64)
        prefix[:, held % room, : self.width] = self._prefix[:, held % self._prefix.shape[1], :]
        self._prefix, self.width = prefix, width

    def evict(self, before: int) -> None:
        self.first = min(max(self.first, before), self.after)

    def answer(self, starts: Ints, ends: Ints, ranks: Ints, groups: int | None = None) -> tuple[Ints, Floats]:
        groups = self.width if groups is None else groups
        result = np.empty((self.kind.int_fields, len(starts), groups), np.int64)
        _answer(self._prefix, starts, ends, result)
        return result, np.empty((0, len(starts), groups))

    def widen(self, width: int) -> None:
        self._resize(self._prefix.shape[1], width)

    def regroup(self, kept: Ints, width: int) -> None:
        prefix = np.zeros((self.kind.int_fields, self._prefix.shape[1], width), np.int64)
        prefix[:, :, : len(kept)] = self._prefix[:, :, kept]
        self._prefix, self.width = prefix, width

    def snapshot(self) -> dict[str, Any]:
        ints, _ = partials(self, np.empty(0, np.int64))
        return {"first": self.first, "after": self.after, "width": self.width, "ints": ints.reshape(-1)}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.width = snapshot["width"]
        self.first = self.after = snapshot["first"]
        self._prefix = np.zeros((self.kind.int_fields, 65, self.width), np.int64)
        count = snapshot["after"] - snapshot["first"]
        ints = snapshot["ints"].reshape(self.kind.int_fields, count, self.width)
        self.insert(ints, np.empty((0, count, self.width)), np.empty(0, np.int64))
