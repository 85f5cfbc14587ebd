"""FlatFAT: a complete binary tree without pointers over the ring of slices.

    node            1                       root
               2         3                  node k has the children 2k and 2k + 1
             4   5     6   7
    leaf     0 1 2 3   4 5 6 7              place p of the ring is node room + p

Invariant: an inner node holds the combination of its leaves, in the order of places, for all slices inserted before the
last answer. A slice that enters changes the nodes from its leaf up to the root, which takes log2(room) combinations;
nodes above several slices that enter together are made once. A window is a run of leaves, or two runs if it wraps
around the ring. A run is covered by at most 2 log2(room) nodes, combined from the oldest to the newest. Eviction does
nothing: no window contains nodes above evicted slices. For any associative state, commutative or not. One tree answers
every range and every historical window, by rows or by time.

Insert and answer O(log n), also in the worst case. Space: two states per slice held (twice the ring's room). Source:
Shein and Chrysanthis 2020, section 2.2 and table 2 (after Tangwongsan, Hirzel, Schneider and Wu 2015).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from panewise.aggregates.kernels import combine_run
from panewise.aggregates.matrix import identity
from panewise.aggregates.states import StateKind
from panewise.arrays import Floats, Ints
from panewise.loops import compiled_loop
from panewise.synopses.counting import count_operations, loop_for, new_counter
from panewise.synopses.single_states import join_states, read_state, single_loops, slot_loops, write_state
from panewise.synopses.slice_ring import SliceRing, copy_states

TALLEST = 64  # levels


@compiled_loop
def _update(
    operation: int, ints: Ints, floats: Floats, inner_ints: Ints, inner_floats: Floats, room: int, width: int,
    begin: int, end: int, ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """Computes all nodes above the leaves at places [begin, end), level by level."""
    low, high = (begin + room) >> 1, (end - 1 + room) >> 1
    while low > 0:
        count_operations(counter, high - low + 1)
        for node in range(low, high + 1):
            left, right = 2 * node, 2 * node + 1
            if left >= room:
                copy_states(inner_ints, inner_floats, node * width, ints, floats, (left - room) * width, width)
                combine_run(
                    operation, inner_ints, inner_floats, node * width, ints, floats, (right - room) * width, width,
                    ranks,
                )  # fmt: skip
            else:
                copy_states(inner_ints, inner_floats, node * width, inner_ints, inner_floats, left * width, width)
                combine_run(
                    operation, inner_ints, inner_floats, node * width, inner_ints, inner_floats, right * width, width,
                    ranks,
                )  # fmt: skip
        low, high = low >> 1, high >> 1


@compiled_loop
def _append(
    operation: int, ints: Ints, floats: Floats, inner_ints: Ints, inner_floats: Floats, room: int, width: int,
    groups: int, node: int, fresh: bool, result_ints: Ints, result_floats: Floats, target: int, ranks: Ints,
    counter: Ints,
) -> None:  # fmt: skip
    """Appends a node's state to the result, which is empty if `fresh`."""
    if not fresh:
        count_operations(counter, width // width)
    if node >= room:
        slot = (node - room) * width
        if fresh:
            copy_states(result_ints, result_floats, target, ints, floats, slot, groups)
        else:
            combine_run(operation, result_ints, result_floats, target, ints, floats, slot, groups, ranks)
    elif fresh:
        copy_states(result_ints, result_floats, target, inner_ints, inner_floats, node * width, groups)
    else:
        combine_run(
            operation, result_ints, result_floats, target, inner_ints, inner_floats, node * width, groups, ranks
        )


@compiled_loop
def _cover(
    operation: int, ints: Ints, floats: Floats, inner_ints: Ints, inner_floats: Floats, room: int, width: int,
    groups: int, begin: int, end: int, fresh: bool, later: Ints, result_ints: Ints, result_floats: Floats, target: int,
    ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """Appends the leaves at places [begin, end): first the nodes up the left side, then those down the right one."""
    low, high, depth = begin + room, end + room, 0
    while low < high:
        if low & 1:
            _append(
                operation, ints, floats, inner_ints, inner_floats, room, width, groups, low, fresh, result_ints,
                result_floats, target, ranks, counter,
            )  # fmt: skip
            fresh = fresh != fresh  # False, but not a literal, because Numba compiles again for each literal argument
            low += 1
        if high & 1:
            high -= 1
            later[depth] = high
            depth += 1
        low, high = low >> 1, high >> 1
    for k in range(depth - 1, -1, -1):
        _append(
            operation, ints, floats, inner_ints, inner_floats, room, width, groups, later[k], fresh, result_ints,
            result_floats, target, ranks, counter,
        )  # fmt: skip
        fresh = fresh != fresh


@compiled_loop
def _answer(
    operation: int, ints: Ints, floats: Floats, inner_ints: Ints, inner_floats: Floats, room: int, width: int,
    groups: int, starts: Ints, ends: Ints, result_ints: Ints, result_floats: Floats, ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """Answers all windows into results that hold the identity."""
    later = np.empty(TALLEST, np.int64)
    zero, fresh = 0 * room, room > 0
    for q in range(starts.shape[0]):
        if starts[q] >= ends[q]:
            continue
        low, length = starts[q] & (room - 1), ends[q] - starts[q]
        straight = min(low + length, room)
        _cover(
            operation, ints, floats, inner_ints, inner_floats, room, width, groups, low, straight, fresh, later,
            result_ints, result_floats, q * groups, ranks, counter,
        )  # fmt: skip
        if low + length > room:
            _cover(
                operation, ints, floats, inner_ints, inner_floats, room, width, groups, zero, low + length - room,
                not fresh, later, result_ints, result_floats, q * groups, ranks, counter,
            )  # fmt: skip


@compiled_loop
def _cover_single(
    ints: Ints, floats: Floats, inner_ints: Ints, inner_floats: Floats, room: int, begin: int, end: int,
    counter: Ints,
) -> Any:  # fmt: skip
    """The state of the leaves at places [begin, end), joined from both sides towards the middle.

    No branch predictor can guess whether a level adds a node, so each level adds two nodes. Node 0 has the identity.
    """
    low, high = begin + room, end + room
    nodes = -1
    left = right = read_state(inner_ints, inner_floats, np.uint64(0))
    if low & 1:
        left = read_state(ints, floats, np.uint64(begin))
        low += 1
        nodes += 1
    if high & 1:
        high -= 1
        right = read_state(ints, floats, np.uint64(end - 1))
        nodes += 1
    low, high = low >> 1, high >> 1
    while low < high:
        nodes += (low & 1) + (high & 1)
        left = join_states(left, read_state(inner_ints, inner_floats, np.uint64(low & -(low & 1))))
        right = join_states(read_state(inner_ints, inner_floats, np.uint64((high - 1) & -(high & 1))), right)
        low, high = (low + 1) >> 1, high >> 1
    count_operations(counter, nodes)
    return join_states(left, right)


@compiled_loop
def _answer_single(
    operation: int, ints: Ints, floats: Floats, inner_ints: Ints, inner_floats: Floats, room: int, starts: Ints,
    ends: Ints, result_ints: Ints, result_floats: Floats, counter: Ints,
) -> None:  # fmt: skip
    """Answers all windows for one group, into results that hold the identity."""
    for q in range(starts.shape[0]):
        if starts[q] >= ends[q]:
            continue
        low, length = starts[q] & (room - 1), ends[q] - starts[q]
        state = _cover_single(ints, floats, inner_ints, inner_floats, room, low, min(low + length, room), counter)
        if low + length > room:
            rest = _cover_single(ints, floats, inner_ints, inner_floats, room, low - low, low + length - room, counter)
            state = join_states(state, rest)
            count_operations(counter, room // room)
        write_state(result_ints, result_floats, np.uint64(q), state)


class FlatFat(SliceRing):
    """The ring of slices as leaves, and an array of inner nodes."""

    def __init__(self, kind: StateKind, width: int) -> None:
        super().__init__(kind, width)
        self.counter = new_counter()
        self.choose_loops(counted=False)
        self._renew()

    def choose_loops(self, counted: bool) -> None:
        self._update_many = self._update_one = loop_for(_update, self.kind, counted)
        append = loop_for(_append, self.kind, counted)
        cover = loop_for(_cover, self.kind, counted, _append=append)
        self._answer_many = loop_for(_answer, self.kind, counted, _cover=cover)
        self._answer_one = None
        single = single_loops(self.kind)
        if single is not None:
            self._update_one = loop_for(_update, self.kind, counted, **slot_loops(self.kind))
            cover = loop_for(_cover_single, self.kind, counted, **single)
            self._answer_one = loop_for(_answer_single, self.kind, counted, _cover_single=cover, **single)

    def _renew(self) -> None:
        self._inner_ints, self._inner_floats = identity(self.kind, self._room * self.width)
        self._updated = self.first  # the nodes above slices before this one are up to date

    @property
    def bytes_held(self) -> int:
        return super().bytes_held + self._inner_ints.nbytes + self._inner_floats.nbytes

    def int_arrays(self) -> list[Ints]:
        return [self._ints, self._inner_ints]

    def _bring_up_to_date(self, ranks: Ints) -> None:
        """Computes the nodes above slices that entered since the last answer."""
        low, length = self._updated & (self._room - 1), self.after - self._updated
        runs = [(low, min(low + length, self._room)), (0, low + length - self._room)]
        update = self._update_one if self.width == 1 else self._update_many
        for begin, end in runs:
            if begin < end:
                update(
                    int(self.kind.operation), self._ints, self._floats, self._inner_ints, self._inner_floats,
                    self._room, self.width, begin, end, ranks, self.counter,
                )  # fmt: skip
        self._updated = self.after

    def answer(
        self, starts: Ints, ends: Ints, ranks: Ints, groups: int | None = None, windows: Ints | None = None
    ) -> tuple[Ints, Floats]:
        self._updated = max(self._updated, self.first)
        if self._updated < self.after:
            self._bring_up_to_date(ranks)
        count, groups = len(starts), self.width if groups is None else groups
        ints, floats = identity(self.kind, count * groups)
        held = int(self.kind.operation), self._ints, self._floats, self._inner_ints, self._inner_floats, self._room
        if self._answer_one is not None and self.width == groups == 1:
            self._answer_one(*held, starts, ends, ints, floats, self.counter)
        else:
            self._answer_many(*held, self.width, groups, starts, ends, ints, floats, ranks, self.counter)
        shape = count, groups
        return ints.reshape(self.kind.int_fields, *shape), floats.reshape(self.kind.float_fields, *shape)

    def drop_window(self, window: int) -> None:
        """Nothing is kept per sliding window."""
