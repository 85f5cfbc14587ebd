"""The interval synopsis (B-INT): states over base intervals of 1, 2, 4, ... slices, for any associative state.

    level 2   |-------------------|-------------------|        node j of level l covers slices
    level 1   |---------|---------|---------|---------|        [j * 2^l, (j + 1) * 2^l)
    level 0   |----|----|----|----|----|----|----|----|
    slice       0    1    2    3    4    5    6    7

A node costs one combination, so an insert costs one, amortised; nodes are made when a window first needs them, and
levels that no window is long enough to use are not made at all. A window is covered by at most 2 log2(slices) nodes.
Windows that are asked for together share their work: those of one range that slides cost three combinations each, and
of many ranges that end together each is built on the next shorter one. Nothing is ever subtracted: doubles stay as
exact as their sum, NaN and infinities leave with their slice. Levels are rings: eviction moves one number.

Space: two states per slice held. Source: Arasu and Widom 2004, section 3.1.1; Golab 2006, section 2.3.4.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from panewise.aggregates import kernels
from panewise.aggregates.kernels import combine_run
from panewise.aggregates.matrix import identity
from panewise.aggregates.states import StateKind
from panewise.aggregates.user import combine_of
from panewise.loops import compiled_loop, is_compiled, specialised
from panewise.synopses.contract import partials
from panewise.synopses.slice_ring import copy_states, put_slices

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
BY_HAND = 4096  # slices


@compiled_loop
def _place(room: int, level: int, node: int) -> int:
    """Where a node lies: level 0 first, each level half as long as the one before."""
    return 2 * room - ((2 * room) >> level) + (node & ((room >> level) - 1))


@compiled_loop
def _raise(
    operation: int, ints: Ints, floats: Floats, room: int, width: int, tallest: int, begin: int, end: int, ranks: Ints
) -> None:
    """Makes the nodes above level 0 whose last slice is one of [begin, end)."""
    for number in range(begin, end):
        level = 1
        while level <= tallest and ((number + 1) & ((1 << level) - 1)) == 0:
            node = number >> level
            target = _place(room, level, node) * width
            left = _place(room, level - 1, 2 * node) * width
            right = _place(room, level - 1, 2 * node + 1) * width
            copy_states(ints, floats, target, ints, floats, left, width)
            combine_run(operation, ints, floats, target, ints, floats, right, width, ranks)
            level += 1


@compiled_loop
def _cover(
    operation: int, ints: Ints, floats: Floats, room: int, width: int, groups: int, tallest: int, position: int,
    end: int, fresh: bool, result_ints: Ints, result_floats: Floats, target: int, ranks: Ints,
) -> bool:  # fmt: skip
    """Appends the slices [position, end) to a result, which is empty where `fresh`; says whether it still is."""
    while position < end:
        level = 0
        while level < tallest and (position & ((1 << (level + 1)) - 1)) == 0 and position + (1 << (level + 1)) <= end:
            level += 1
        node = _place(room, level, position >> level) * width
        if fresh:
            copy_states(result_ints, result_floats, target, ints, floats, node, groups)
            fresh = False
        else:
            combine_run(operation, result_ints, result_floats, target, ints, floats, node, groups, ranks)
        position += 1 << level
    return fresh


@compiled_loop
def _answer_nested(
    operation: int, ints: Ints, floats: Floats, room: int, width: int, groups: int, tallest: int, starts: Ints,
    ends: Ints, result_ints: Ints, result_floats: Floats, int_identity: Ints, float_identity: Floats, ranks: Ints,
) -> None:  # fmt: skip
    """Windows in any order; one that ends where the one before it does, and contains it, is built on that."""
    anew = room > 0  # true, but no literal: each literal argument would be compiled for by itself
    for q in range(starts.shape[0]):
        target = q * groups
        end = ends[q]
        suffix = q > 0 and ends[q - 1] == end and starts[q] <= starts[q - 1] < end
        if suffix:
            end = starts[q - 1]
        fresh = _cover(
            operation, ints, floats, room, width, groups, tallest, starts[q], end, anew, result_ints, result_floats,
            target, ranks,
        )  # fmt: skip
        if suffix and fresh:
            copy_states(result_ints, result_floats, target, result_ints, result_floats, target - groups, groups)
        elif suffix:
            combine_run(
                operation,
                result_ints,
                result_floats,
                target,
                result_ints,
                result_floats,
                target - groups,
                groups,
                ranks,
            )
        elif fresh:
            for f in range(result_ints.shape[0]):
                result_ints[f, target : target + groups] = int_identity[f]
            for f in range(result_floats.shape[0]):
                result_floats[f, target : target + groups] = float_identity[f]


@compiled_loop
def _answer_sliding(
    operation: int, ints: Ints, floats: Floats, room: int, width: int, groups: int, tallest: int, starts: Ints,
    ends: Ints, result_ints: Ints, result_floats: Floats, ranks: Ints,
) -> None:  # fmt: skip
    """Non-empty windows whose starts and ends both ascend: runs of them that share a slice are answered together.

    the run's windows   |---------:----|          left of the split: suffixes, made from the right to the left
                          |-------:------|        right of it: prefixes, made from the left to the right
                             |----:---------|     so each window costs three combinations, whatever its length
    """
    part_ints = np.empty((ints.shape[0], groups), np.int64)
    part_floats = np.empty((floats.shape[0], groups), np.float64)
    zero, anew = 0 * room, room > 0  # no literals: each would be compiled for by itself
    first = zero
    while first < starts.shape[0]:
        last = first
        while last + 1 < starts.shape[0] and starts[last + 1] < ends[first]:
            last += 1
        split = starts[last]
        for q in range(last - 1, first - 1, -1):
            fresh = _cover(
                operation, ints, floats, room, width, groups, tallest, starts[q], starts[q + 1], anew, result_ints,
                result_floats, q * groups, ranks,
            )  # fmt: skip
            if fresh:
                if starts[q] < split:
                    copy_states(
                        result_ints, result_floats, q * groups, result_ints, result_floats, (q + 1) * groups, groups
                    )
            elif starts[q + 1] < split:
                combine_run(
                    operation, result_ints, result_floats, q * groups, result_ints, result_floats, (q + 1) * groups,
                    groups, ranks,
                )  # fmt: skip
        reached = split
        fresh = anew
        for q in range(first, last + 1):
            fresh = _cover(
                operation,
                ints,
                floats,
                room,
                width,
                groups,
                tallest,
                reached,
                ends[q],
                fresh,
                part_ints,
                part_floats,
                zero,
                ranks,
            )
            reached = ends[q]
            if starts[q] < split:
                combine_run(
                    operation, result_ints, result_floats, q * groups, part_ints, part_floats, zero, groups, ranks
                )
            else:
                copy_states(result_ints, result_floats, q * groups, part_ints, part_floats, zero, groups)
        first = last + 1


@compiled_loop
def _survey(starts: Ints, ends: Ints) -> tuple[int, bool]:
    """The longest window, and whether all are non-empty and move forwards, start and end."""
    longest, sliding = 0, True
    for q in range(starts.shape[0]):
        longest = max(longest, ends[q] - starts[q])
        sliding = sliding and starts[q] < ends[q]
        if q > 0:
            sliding = sliding and starts[q - 1] <= starts[q] and ends[q - 1] <= ends[q]
    return longest, sliding


class IntervalSynopsis:
    """Base intervals in rings, one per level."""

    def __init__(self, kind: StateKind, width: int) -> None:
        self.kind = kind
        self.width = width
        self.first = 0
        self.after = 0
        self._raise, self._nested, self._sliding = _raise, _answer_nested, _answer_sliding
        combine = combine_of(kind)
        self._combine: Any = combine_run if combine is None else combine
        if combine is not None:
            name = "chosen" if combine is kernels.combine_chosen else None
            cover = specialised(_cover, name, combine_run=combine)
            self._raise = specialised(_raise, name, combine_run=combine)
            self._nested = specialised(_answer_nested, name, combine_run=combine, _cover=cover)
            self._sliding = specialised(_answer_sliding, name, combine_run=combine, _cover=cover)
        self._room = 64
        self._tallest = 0  # levels above are not kept: no window so far was long enough to use them
        self._raised = 0  # slices before it are in all their nodes
        self._ints, self._floats = identity(kind, 2 * self._room * width)
        self._int_identity = np.array(kind.int_identity, np.int64)
        self._float_identity = np.array(kind.float_identity, np.float64)

    @property
    def bytes_held(self) -> int:
        return self._ints.nbytes + self._floats.nbytes

    def begin_at(self, number: int) -> None:
        self.first = self.after = self._raised = number

    def insert(self, ints: Ints, floats: Floats, ranks: Ints) -> None:
        count = max(ints.shape[1], floats.shape[1])
        flat_ints = np.ascontiguousarray(ints).reshape(self.kind.int_fields, count * self.width)
        flat_floats = np.ascontiguousarray(floats).reshape(self.kind.float_fields, count * self.width)
        self.insert_from(flat_ints, flat_floats, np.arange(count, dtype=np.int64), ranks)

    def insert_from(self, ints: Ints, floats: Floats, rooms: Ints, ranks: Ints) -> None:
        needed = self.after - self.first + len(rooms)
        if needed > self._room:
            held_ints, held_floats = partials(self, ranks)
            self._load(self.first, held_ints, held_floats, 1 << (needed - 1).bit_length(), ranks)
        put_slices(self._ints, self._floats, self._room, self.width, self.after, ints, floats, rooms)
        self.after += len(rooms)

    def _ready(self, tallest: int, ranks: Ints) -> None:
        """Makes the nodes, of as many levels as a window now needs, that are still missing.

        Nodes that reach before `first` are never read, so they may be anything.
        """
        if tallest > self._tallest:
            self._tallest, self._raised = tallest, self.first
        begin = max(self._raised, self.first)
        operation = int(self.kind.operation)
        self._raise(
            operation, self._ints, self._floats, self._room, self.width, self._tallest, begin, self.after, ranks
        )
        self._raised = self.after

    def _load(self, first: int, ints: Ints, floats: Floats, room: int, ranks: Ints) -> None:
        """Starts anew with these partials."""
        self._room = room
        self.first = self.after = self._raised = first
        self._ints, self._floats = identity(self.kind, 2 * room * self.width)
        self.insert(ints, floats, ranks)

    def evict(self, before: int) -> None:
        self.first = min(max(self.first, before), self.after)

    def answer(
        self, starts: Ints, ends: Ints, ranks: Ints, groups: int | None = None, windows: Ints | None = None
    ) -> tuple[Ints, Floats]:
        count, groups = len(starts), self.width if groups is None else groups
        if not (is_compiled(self._sliding) or is_compiled(self._nested)) and (ends - starts).sum() <= BY_HAND:
            return self._answer_by_hand(starts, ends, ranks, groups)
        longest, sliding = _survey(starts, ends)
        # Many windows of one range share their slices as it is: levels help where few windows are long.
        levels = 0
        if longest > 1 and not (sliding and longest <= 2 * count):
            levels = int(longest).bit_length() - 1
            self._ready(levels, ranks)
        ints = np.empty((self.kind.int_fields, count * groups), np.int64)
        floats = np.empty((self.kind.float_fields, count * groups))
        held = int(self.kind.operation), self._ints, self._floats, self._room, self.width, groups, levels
        if sliding:
            self._sliding(*held, starts, ends, ints, floats, ranks)
        else:
            self._nested(*held, starts, ends, ints, floats, self._int_identity, self._float_identity, ranks)
        shape = count, groups
        return ints.reshape(self.kind.int_fields, *shape), floats.reshape(self.kind.float_fields, *shape)

    def _answer_by_hand(self, starts: Ints, ends: Ints, ranks: Ints, groups: int) -> tuple[Ints, Floats]:
        """A few short windows, slice by slice: a first answer need not wait until the loops above are compiled."""
        combine, operation = self._combine, int(self.kind.operation)
        shape = len(starts), groups
        ints, floats = identity(self.kind, len(starts) * groups)
        for window, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            for number in range(start, end):
                place = (number & (self._room - 1)) * self.width
                combine(operation, ints, floats, window * groups, self._ints, self._floats, place, groups, ranks)
        return ints.reshape(self.kind.int_fields, *shape), floats.reshape(self.kind.float_fields, *shape)

    def int_arrays(self) -> list[Ints]:
        """The int64 fields of all states held."""
        return [self._ints]

    def drop_window(self, window: int) -> None:
        """Nothing is kept per sliding window."""

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
