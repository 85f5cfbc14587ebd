"""Panes (the basic interval synopsis): only the partials of slices; an answer combines all partials of its window.

Invariant: the ring holds one partial per slice, and nothing else. Insert O(1), evict O(1); an answer costs one
combination per slice of the window, minus one. For any associative state, commutative or not, since the oldest comes
first. The ring answers every range and every historical window, by rows or by time. No technique needs less space, and
none needs more time for an answer. It is also the materialize-none of Arasu and Widom 2004, section 6.1.

Source: Golab 2006, section 2.3.4 (basic interval synopsis); Shein and Chrysanthis 2020, section 2.2 (Panes).
"""

from __future__ import annotations

import numpy as np

from panewise.aggregates.kernels import combine_run
from panewise.aggregates.matrix import identity
from panewise.aggregates.states import StateKind
from panewise.arrays import Floats, Ints
from panewise.loops import compiled_loop
from panewise.synopses.counting import count_operations, loop_for, new_counter
from panewise.synopses.single_states import join_states, read_state, single_loops, write_state
from panewise.synopses.slice_ring import SliceRing, copy_states


@compiled_loop
def _answer(
    operation: int, ints: Ints, floats: Floats, mask: int, width: int, groups: int, starts: Ints, ends: Ints,
    result_ints: Ints, result_floats: Floats, ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """Answers all windows into results that hold the identity."""
    for q in range(starts.shape[0]):
        if starts[q] >= ends[q]:
            continue
        target = q * groups
        copy_states(result_ints, result_floats, target, ints, floats, (starts[q] & mask) * width, groups)
        for position in range(starts[q] + 1, ends[q]):
            combine_run(
                operation, result_ints, result_floats, target, ints, floats, (position & mask) * width, groups, ranks
            )
        count_operations(counter, ends[q] - starts[q] - 1)


@compiled_loop
def _answer_single(
    operation: int, ints: Ints, floats: Floats, mask: int, width: int, groups: int, starts: Ints, ends: Ints,
    result_ints: Ints, result_floats: Floats, ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """Answers all windows for one group. The state stays in a register; places are unsigned as in `per_window`."""
    for q in range(starts.shape[0]):
        if starts[q] >= ends[q]:
            continue
        state = read_state(ints, floats, np.uint64(starts[q] & mask))
        for position in range(starts[q] + 1, ends[q]):
            state = join_states(state, read_state(ints, floats, np.uint64(position & mask)))
        write_state(result_ints, result_floats, np.uint64(q), state)
        count_operations(counter, ends[q] - starts[q] - 1)


class Panes(SliceRing):
    """A ring of partials."""

    def __init__(self, kind: StateKind, width: int) -> None:
        super().__init__(kind, width)
        self.counter = new_counter()
        self.choose_loops(counted=False)

    def choose_loops(self, counted: bool) -> None:
        self._answer_many = self._answer_one = loop_for(_answer, self.kind, counted)
        single = single_loops(self.kind)
        if single is not None:
            self._answer_one = loop_for(_answer_single, self.kind, counted, **single)

    def answer(
        self, starts: Ints, ends: Ints, ranks: Ints, groups: int | None = None, windows: Ints | None = None
    ) -> tuple[Ints, Floats]:
        count, groups = len(starts), self.width if groups is None else groups
        ints, floats = identity(self.kind, count * groups)
        answer = self._answer_one if self.width == groups == 1 else self._answer_many
        answer(
            int(self.kind.operation), self._ints, self._floats, self._room - 1, self.width, groups, starts, ends, ints,
            floats, ranks, self.counter,
        )  # fmt: skip
        shape = count, groups
        return ints.reshape(self.kind.int_fields, *shape), floats.reshape(self.kind.float_fields, *shape)

    def drop_window(self, window: int) -> None:
        """Nothing is kept per sliding window."""
