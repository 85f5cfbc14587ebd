"""The interval synopsis (B-INT): states over base intervals of 1, 2, 4, ... slices, for any associative state.

    level 2   |-------------------|-------------------|        node j of level l covers slices
    level 1   |---------|---------|---------|---------|        [j * 2^l, (j + 1) * 2^l)
    level 0   |----|----|----|----|----|----|----|----|
    slice       0    1    2    3    4    5    6    7

A node costs one combination, so an insert costs one, amortised. Nodes are made when a window first needs them, and only
on levels that some window is long enough to use. A window is covered by at most 2 log2(slices) nodes. Windows that are
asked for together share work: sliding windows of one range cost three combinations each, and of many ranges that end
together each is built on the next shorter one. Nothing is ever subtracted, so doubles stay as exact as their sum, and
NaN and infinities disappear with their slice. Levels are rings, and eviction changes one number.

Every range and every historical window is answered from the same nodes, by rows or by time: slices are numbered, not
timed. Space: two states per slice held. Source: Arasu and Widom 2004, section 3.1.1; Golab 2006, section 2.3.4.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from panewise.aggregates.kernels import combine_run
from panewise.aggregates.matrix import identity
from panewise.aggregates.states import StateKind
from panewise.aggregates.user import combine_of
from panewise.arrays import Floats, Ints
from panewise.loops import compiled_loop, is_compiled, is_worth_calling
from panewise.synopses.counting import count_operations, loop_for, new_counter
from panewise.synopses.slice_ring import SliceRing, copy_states

BY_HAND = 4096  # while no loop is compiled, up to so many slices a call are combined one by one
BY_HAND_IN_ALL = 64 * BY_HAND  # takes about half a second, as long as compiling the loops


@compiled_loop
def _place(room: int, level: int, node: int) -> int:
    """The place of a node. Level 0 comes first; each level is half as long as the one before."""
    return 2 * room - ((2 * room) >> level) + (node & ((room >> level) - 1))


@compiled_loop
def _raise(
    operation: int, ints: Ints, floats: Floats, room: int, width: int, tallest: int, begin: int, end: int, ranks: Ints,
    counter: Ints,
) -> None:  # fmt: skip
    """Makes the nodes above level 0 whose last slice is one of [begin, end)."""
    one = min(1, width)  # not a literal, because Numba compiles again for each literal argument
    for number in range(begin, end):
        level = 1
        while level <= tallest and ((number + 1) & ((1 << level) - 1)) == 0:
            node = number >> level
            target = _place(room, level, node) * width
            left = _place(room, level - 1, 2 * node) * width
            right = _place(room, level - 1, 2 * node + 1) * width
            copy_states(ints, floats, target, ints, floats, left, width)
            combine_run(operation, ints, floats, target, ints, floats, right, width, ranks)
            count_operations(counter, one)
            level += 1


@compiled_loop
def _cover(
    operation: int, ints: Ints, floats: Floats, room: int, width: int, groups: int, tallest: int, position: int,
    end: int, fresh: bool, result_ints: Ints, result_floats: Floats, target: int, ranks: Ints, counter: Ints,
) -> bool:  # fmt: skip
    """Appends the slices [position, end) to a result, which is empty if `fresh`. Returns whether it still is."""
    one = min(1, width)
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
            count_operations(counter, one)
        position += 1 << level
    return fresh


@compiled_loop
def _answer_nested(
    operation: int, ints: Ints, floats: Floats, room: int, width: int, groups: int, tallest: int, starts: Ints,
    ends: Ints, result_ints: Ints, result_floats: Floats, int_identity: Ints, float_identity: Floats, ranks: Ints,
    counter: Ints,
) -> None:  # fmt: skip
    """Answers windows in any order. A window that contains the one before it and ends with it is built on it."""
    one, anew = min(1, width), room > 0  # not literals, because Numba compiles again for each literal argument
    for q in range(starts.shape[0]):
        target = q * groups
        end = ends[q]
        suffix = q > 0 and ends[q - 1] == end and starts[q] <= starts[q - 1] < end
        if suffix:
            end = starts[q - 1]
        fresh = _cover(
            operation, ints, floats, room, width, groups, tallest, starts[q], end, anew, result_ints, result_floats,
            target, ranks, counter,
        )  # fmt: skip
        if suffix and fresh:
            copy_states(result_ints, result_floats, target, result_ints, result_floats, target - groups, groups)
        elif suffix:
            combine_run(
                operation, result_ints, result_floats, target, result_ints, result_floats, target - groups, groups,
                ranks,
            )  # fmt: skip
            count_operations(counter, one)
        elif fresh:
            for f in range(result_ints.shape[0]):
                result_ints[f, target : target + groups] = int_identity[f]
            for f in range(result_floats.shape[0]):
                result_floats[f, target : target + groups] = float_identity[f]


@compiled_loop
def _answer_sliding(
    operation: int, ints: Ints, floats: Floats, room: int, width: int, groups: int, tallest: int, starts: Ints,
    ends: Ints, result_ints: Ints, result_floats: Floats, ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """Answers non-empty windows whose starts and ends both ascend. Runs that share a slice are answered together.

    the run's windows   |---------:----|          left of the split: suffixes, made from right to left
                          |-------:------|        right of it: prefixes, made from left to right
                             |----:---------|     so each window costs three combinations, whatever its length
    """
    part_ints = np.empty((ints.shape[0], groups), np.int64)
    part_floats = np.empty((floats.shape[0], groups), np.float64)
    zero, one, anew = 0 * room, min(1, width), room > 0  # not literals: Numba compiles again for each literal argument
    first = zero
    while first < starts.shape[0]:
        last = first
        while last + 1 < starts.shape[0] and starts[last + 1] < ends[first]:
            last += 1
        split = starts[last]
        for q in range(last - 1, first - 1, -1):
            fresh = _cover(
                operation, ints, floats, room, width, groups, tallest, starts[q], starts[q + 1], anew, result_ints,
                result_floats, q * groups, ranks, counter,
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
                count_operations(counter, one)
        reached = split
        fresh = anew
        for q in range(first, last + 1):
            fresh = _cover(
                operation, ints, floats, room, width, groups, tallest, reached, ends[q], fresh, part_ints, part_floats,
                zero, ranks, counter,
            )  # fmt: skip
            reached = ends[q]
            if starts[q] < split:
                combine_run(
                    operation, result_ints, result_floats, q * groups, part_ints, part_floats, zero, groups, ranks
                )
                count_operations(counter, one)
            else:
                copy_states(result_ints, result_floats, q * groups, part_ints, part_floats, zero, groups)
        first = last + 1


@compiled_loop
def _survey(starts: Ints, ends: Ints) -> tuple[int, bool]:
    """The longest window, and whether all windows are non-empty and none has a start or end before the previous one."""
    longest, sliding = 0, True
    for q in range(starts.shape[0]):
        longest = max(longest, ends[q] - starts[q])
        sliding = sliding and starts[q] < ends[q]
        if q > 0:
            sliding = sliding and starts[q - 1] <= starts[q] and ends[q - 1] <= ends[q]
    return longest, sliding


class IntervalSynopsis(SliceRing):
    """Base intervals in rings, one per level; the ring of slices is level 0."""

    STATES_A_SLICE = 2

    def __init__(self, kind: StateKind, width: int) -> None:
        super().__init__(kind, width)
        self.counter = new_counter()
        self.choose_loops(counted=False)
        self._combine: Any = combine_of(kind) or combine_run
        self._tallest = 0  # highest level kept; no window so far was long enough to use higher ones
        self._raised = 0  # the nodes of slices before this one are complete
        self._int_identity = np.array(kind.int_identity, np.int64)
        self._float_identity = np.array(kind.float_identity, np.float64)

    def choose_loops(self, counted: bool) -> None:
        cover = loop_for(_cover, self.kind, counted)
        self._raise = loop_for(_raise, self.kind, counted)
        self._nested = loop_for(_answer_nested, self.kind, counted, _cover=cover)
        self._sliding = loop_for(_answer_sliding, self.kind, counted, _cover=cover)
        self._counted = counted

    def _renew(self) -> None:
        self._raised = self.first

    def _ready(self, tallest: int, ranks: Ints) -> None:
        """Makes the missing nodes of levels up to `tallest`, which a window now needs.

        Nodes that reach before `first` are never read, so their states do not matter.
        """
        if tallest > self._tallest:
            self._tallest, self._raised = tallest, self.first
        begin = max(self._raised, self.first)
        operation = int(self.kind.operation)
        self._raise(
            operation, self._ints, self._floats, self._room, self.width, self._tallest, begin, self.after, ranks,
            self.counter,
        )  # fmt: skip
        self._raised = self.after

    def answer(
        self, starts: Ints, ends: Ints, ranks: Ints, groups: int | None = None, windows: Ints | None = None
    ) -> tuple[Ints, Floats]:
        count, groups = len(starts), self.width if groups is None else groups
        slices = int((ends - starts).sum())
        waiting = not (self._counted or is_compiled(self._sliding) or is_compiled(self._nested))
        survey: Any = _survey
        longest, sliding = (survey.py_func if waiting and slices <= BY_HAND else survey)(starts, ends)
        loop = self._sliding if sliding else self._nested
        if not self._counted and not is_worth_calling(loop, slices, BY_HAND, BY_HAND_IN_ALL):
            return self._answer_by_hand(starts, ends, ranks, groups)
        # Many windows of one range share their slices without levels. Levels help if few windows are long.
        levels = 0
        if longest > 1 and not (sliding and longest <= 2 * count):
            levels = int(longest).bit_length() - 1
            self._ready(levels, ranks)
        ints = np.empty((self.kind.int_fields, count * groups), np.int64)
        floats = np.empty((self.kind.float_fields, count * groups))
        held = int(self.kind.operation), self._ints, self._floats, self._room, self.width, groups, levels
        if sliding:
            self._sliding(*held, starts, ends, ints, floats, ranks, self.counter)
        else:
            identities = self._int_identity, self._float_identity
            self._nested(*held, starts, ends, ints, floats, *identities, ranks, self.counter)
        shape = count, groups
        return ints.reshape(self.kind.int_fields, *shape), floats.reshape(self.kind.float_fields, *shape)

    def _answer_by_hand(self, starts: Ints, ends: Ints, ranks: Ints, groups: int) -> tuple[Ints, Floats]:
        """Answers a few short windows slice by slice, so that a first answer need not wait for the loops to compile."""
        combine, operation = self._combine, int(self.kind.operation)
        shape = len(starts), groups
        ints, floats = identity(self.kind, len(starts) * groups)
        for window, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            for number in range(start, end):
                place = (number & (self._room - 1)) * self.width
                combine(operation, ints, floats, window * groups, self._ints, self._floats, place, groups, ranks)
        return ints.reshape(self.kind.int_fields, *shape), floats.reshape(self.kind.float_fields, *shape)

    def drop_window(self, window: int) -> None:
        """Nothing is kept per sliding window."""
