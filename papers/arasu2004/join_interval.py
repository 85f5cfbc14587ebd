"""The interval synopsis of a join (IJ): states over 1, 2, 4, ... neighbouring intervals of expiration times.

    level 2   |-------------------|-------------------|        node j of level l covers the slices
    level 1   |---------|---------|---------|---------|        [j * 2^l, (j + 1) * 2^l)
    level 0   |----|----|----|----|----|----|----|----|

As in the interval synopsis of one window, but no node is ever finished: each slice brings results for all of them.
Update: at most 2b combinations to gather the new results level by level, and as many to merge them. An answer combines
at most 2 log2(b) nodes, whatever its length; queries over the same lengths share it (rule CS4). Nodes that begin in
expired slices are not read. For any state that commutes. Space: 2b nodes, on rings of a power of two of at least 2b.
Golab 2006, sections 2.3.4 and 8.3.2.
"""

from __future__ import annotations

import numpy as np

from panewise.aggregates.kernels import combine_run
from panewise.aggregates.matrix import StateMatrix
from panewise.aggregates.states import StateKind
from panewise.aggregates.user import matrix_of
from panewise.arrays import Floats, Ints
from panewise.loops import compiled_loop
from panewise.synopses.counting import count_operations, loop_for
from panewise.synopses.slice_ring import copy_states
from papers.arasu2004.join_intervals import JoinIntervals


@compiled_loop
def _place(room: int, level: int, node: int) -> int:
    """Where a node lies: level 0 first, each level half as long as the one before."""
    return 2 * room - ((2 * room) >> level) + (node & ((room >> level) - 1))


@compiled_loop
def _merge_levels(
    operation: int, ints: Ints, floats: Floats, room: int, width: int, tallest: int, first: int, last: int,
    part_ints: Ints, part_floats: Floats, ranks: Ints,
) -> None:  # fmt: skip
    """The parts of slices first to last enter their nodes; then two neighbours each become one, in place."""
    begin, end = first, last
    for level in range(tallest + 1):
        for node in range(begin, end + 1):
            target = _place(room, level, node) * width
            combine_run(operation, ints, floats, target, part_ints, part_floats, (node - begin) * width, width, ranks)
        for node in range(begin, end + 1):
            target, source = ((node >> 1) - (begin >> 1)) * width, (node - begin) * width
            if node == begin or node & 1 == 0:
                if target != source:
                    copy_states(part_ints, part_floats, target, part_ints, part_floats, source, width)
            else:
                combine_run(operation, part_ints, part_floats, target, part_ints, part_floats, source, width, ranks)
        begin, end = begin >> 1, end >> 1


@compiled_loop
def _cover(
    operation: int, ints: Ints, floats: Floats, room: int, width: int, tallest: int, after: int, lengths: Ints,
    result_ints: Ints, result_floats: Floats, ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """Each window by the fewest nodes."""
    for q in range(lengths.shape[0]):
        position = after - lengths[q]
        fresh = True
        while position < after:
            level = 0
            while (
                level < tallest
                and (position & ((1 << (level + 1)) - 1)) == 0
                and position + (1 << (level + 1)) <= after
            ):
                level += 1
            node = _place(room, level, position >> level) * width
            if fresh:
                copy_states(result_ints, result_floats, q * width, ints, floats, node, width)
            else:
                combine_run(operation, result_ints, result_floats, q * width, ints, floats, node, width, ranks)
                count_operations(counter, min(1, width))
            fresh = False
            position += 1 << level


class IntervalJoin(JoinIntervals):
    """Nodes in rings, one per level."""

    def __init__(self, kind: StateKind, width: int, intervals: int, flagged: int = 0) -> None:
        super().__init__(kind, width, intervals, flagged)
        self._tallest = intervals.bit_length() - 1
        self._room = 1 << (2 * intervals - 1).bit_length()  # nodes that reach before the window have a place too
        self._nodes = matrix_of(kind, 2 * self._room * width)

    def choose_loops(self, counted: bool) -> None:
        super().choose_loops(counted)
        self._merge_levels = loop_for(_merge_levels, self.kind, counted)
        self._cover = loop_for(_cover, self.kind, counted)

    def _states(self) -> list[StateMatrix]:
        return [self._nodes]

    def _merge(self, part: StateMatrix, ranks: Ints) -> None:
        last = self.after
        for level in range(self._tallest + 1):
            if last % (1 << level) == 0:  # the first slice of a node, whose place another one had
                node = _place(self._room, level, last >> level)
                self._nodes.reset(slice(node * self.width, (node + 1) * self.width))
        # Before the first slice there is nothing, and nothing is in the parts of intervals there.
        first = max(0, last - self.intervals + 1)
        skipped = (self.intervals - (last - first + 1)) * self.width
        self._merge_levels(
            int(self.kind.operation), self._nodes.ints, self._nodes.floats, self._room, self.width, self._tallest,
            first, last, np.ascontiguousarray(part.ints[:, skipped:]), np.ascontiguousarray(part.floats[:, skipped:]),
            ranks,
        )  # fmt: skip

    def _answer(self, lengths: Ints, ranks: Ints) -> StateMatrix:
        # Of windows that reach before the first slice, what is there.
        lengths = np.minimum(lengths, self.after)
        result = matrix_of(self.kind, len(lengths) * self.width)
        self._cover(
            int(self.kind.operation), self._nodes.ints, self._nodes.floats, self._room, self.width, self._tallest,
            self.after, lengths, result.ints, result.floats, ranks, self.counter,
        )  # fmt: skip
        return result
