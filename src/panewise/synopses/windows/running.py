"""The running synopsis (R-INT): prefix sums over slices, for invertible states.

Invariant: `prefix[k]` is the combination of all slices before slice k. A window [a, b) is `prefix[b] - prefix[a]`, so
an answer costs one subtraction per group, whatever its range. The same array answers every range, historical windows
too. Insert O(1), evict O(1), answer O(1), per group; space: one prefix per slice held.

Only integer states are invertible here (counts, sums in two words): two's complement makes the difference of two
prefixes exact even where a prefix has wrapped. Windows by rows or by time: slices are numbered, not timed. Source:
Arasu and Widom 2004, section 3.2; Golab 2006, section 2.3.4.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from panewise.aggregates.states import StateKind
from panewise.arrays import Floats, Ints
from panewise.loops import compiled_loop
from panewise.synopses.answer_buffer import AnswerBuffer
from panewise.synopses.slice_ring import BLOCK, in_a_row
from panewise.synopses.synopsis import partials

LEAST_ROOM = 128  # prefixes


@compiled_loop
def _insert_one_group(prefix: Ints, mask: int, after: int, part: Ints, places: Ints) -> None:
    """Appends prefixes in blocks; consecutive partials are read in one run.

    It goes field by field. Alternating between rows whose lengths are powers of two would make reads wait for writes.
    """
    i = 0
    while i < places.shape[0]:
        target = (after + i + 1) & mask
        block = places[i : i + min(BLOCK, places.shape[0] - i, mask + 1 - target)]
        count, neighbours = block.shape[0], in_a_row(block)
        for f in range(prefix.shape[0]):
            total, into = prefix[f, (after + i) & mask], prefix[f, target : target + count]
            if neighbours:
                source = part[f, block[0] : block[0] + count]
                for k in range(count):
                    total += source[k]
                    into[k] = total
            else:
                for k in range(count):
                    total += part[f, block[k]]
                    into[k] = total
        i += count


@compiled_loop
def _insert(prefix: Ints, room: int, width: int, after: int, part: Ints, places: Ints) -> None:
    mask = room - 1
    if width == 1:
        _insert_one_group(prefix, mask, after, part, places)
        return
    for i in range(places.shape[0]):
        old, new, source = ((after + i) & mask) * width, ((after + i + 1) & mask) * width, places[i] * width
        for f in range(prefix.shape[0]):
            for g in range(width):
                prefix[f, new + g] = prefix[f, old + g] + part[f, source + g]


@compiled_loop
def _answer_one_group(prefix: Ints, mask: int, starts: Ints, ends: Ints, result: Ints) -> None:
    """Answers in blocks. A block of windows that slide by one slice is the difference of two runs of prefixes."""
    q = 0
    while q < starts.shape[0]:
        a, b = starts[q] & mask, ends[q] & mask
        count = min(BLOCK, starts.shape[0] - q, mask + 1 - a, mask + 1 - b)
        first, last = starts[q : q + count], ends[q : q + count]
        if in_a_row(first) and in_a_row(last):
            for f in range(prefix.shape[0]):
                old, new, into = prefix[f, a : a + count], prefix[f, b : b + count], result[f, q : q + count]
                for k in range(count):
                    into[k] = new[k] - old[k]
        else:
            for f in range(prefix.shape[0]):
                old, into = prefix[f], result[f, q : q + count]
                for k in range(count):
                    into[k] = old[last[k] & mask] - old[first[k] & mask]
        q += count


@compiled_loop
def _answer(prefix: Ints, room: int, width: int, groups: int, starts: Ints, ends: Ints, result: Ints) -> None:
    mask = room - 1
    if width == 1 and groups == 1:
        _answer_one_group(prefix, mask, starts, ends, result)
        return
    for q in range(starts.shape[0]):
        a, b, target = (starts[q] & mask) * width, (ends[q] & mask) * width, q * groups
        for f in range(prefix.shape[0]):
            for g in range(groups):
                result[f, target + g] = prefix[f, b + g] - prefix[f, a + g]


class RunningSynopsis:
    """Prefix sums in a ring: the prefix before slice k lies at k mod its room, which is a power of two."""

    def __init__(self, kind: StateKind, width: int) -> None:
        assert kind.algebra.invertible and not kind.float_fields, f"{kind.name} cannot be subtracted exactly"
        self.kind = kind
        self.width = width
        self.first = 0
        self.after = 0
        self._answers = AnswerBuffer(kind)
        self._room = LEAST_ROOM
        self._prefix: Ints = np.zeros((kind.int_fields, self._room * width), np.int64)

    @property
    def bytes_held(self) -> int:
        return self._prefix.nbytes

    def begin_at(self, number: int) -> None:
        self.first = self.after = number

    def int_arrays(self) -> list[Ints]:
        return [self._prefix]

    def insert(self, ints: Ints, floats: Floats, ranks: Ints) -> None:
        count = ints.shape[1]
        flat = np.ascontiguousarray(ints).reshape(self.kind.int_fields, count * self.width)
        self.insert_from(flat, floats, np.arange(count, dtype=np.int64), ranks)

    def insert_from(self, ints: Ints, floats: Floats, rooms: Ints, ranks: Ints) -> None:
        needed = self.after - self.first + len(rooms) + 1
        if needed > self._room:
            self._move(None, self.width, 1 << (needed - 1).bit_length())
        _insert(self._prefix, self._room, self.width, self.after, ints, rooms)
        self.after += len(rooms)

    def _move(self, kept: Ints | None, width: int, room: int) -> None:
        """Moves the prefixes of all groups, or of the groups `kept`, to a ring of another size."""
        shape = self.kind.int_fields, self._room, self.width
        numbers = np.arange(self.first, self.after + 1)
        held = self._prefix.reshape(shape)[:, numbers & (self._room - 1)]
        if kept is not None:
            held = held[:, :, kept]
        prefix = np.zeros((self.kind.int_fields, room, width), np.int64)
        prefix[:, numbers & (room - 1), : held.shape[2]] = held
        self._prefix, self.width, self._room = prefix.reshape(self.kind.int_fields, room * width), width, room

    def evict(self, before: int) -> None:
        self.first = min(max(self.first, before), self.after)

    def answer(
        self, starts: Ints, ends: Ints, ranks: Ints, groups: int | None = None, windows: Ints | None = None
    ) -> tuple[Ints, Floats]:
        groups = self.width if groups is None else groups
        result, nothing = self._answers.arrays(len(starts) * groups)
        _answer(self._prefix, self._room, self.width, groups, starts, ends, result)
        return result.reshape(self.kind.int_fields, len(starts), groups), nothing.reshape(0, len(starts), groups)

    def drop_window(self, window: int) -> None:
        """Nothing is kept per sliding window."""

    def widen(self, width: int) -> None:
        self._move(None, width, self._room)

    def regroup(self, kept: Ints, width: int) -> None:
        self._move(kept, width, self._room)

    def snapshot(self) -> dict[str, Any]:
        ints, _ = partials(self, np.empty(0, np.int64))
        held = {"first": self.first, "after": self.after, "width": self.width}
        return held | {"ints": ints.reshape(-1), "floats": np.empty(0)}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.width = snapshot["width"]
        self.first = self.after = snapshot["first"]
        self._room = LEAST_ROOM
        self._prefix = np.zeros((self.kind.int_fields, self._room * self.width), np.int64)
        count = snapshot["after"] - snapshot["first"]
        ints = snapshot["ints"].reshape(self.kind.int_fields, count, self.width)
        self.insert(ints, np.empty((0, count, self.width)), np.empty(0, np.int64))
