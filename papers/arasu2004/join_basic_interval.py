"""The basic interval synopsis of a join (BIJ): one state per interval of expiration times, for any state that commutes.

An answer goes through the intervals from the youngest on, and leaves the answers of shorter windows on its way: all
queries together cost what the longest does, at most b - 1 combinations (rule CS5), and a few more for unequal windows.
Update: b combinations. Space: b states, the least of the three. Golab 2006, section 8.3.2 and figure 8.3.
"""

from __future__ import annotations

from panewise.aggregates.kernels import combine_run
from panewise.aggregates.matrix import StateMatrix
from panewise.aggregates.states import StateKind
from panewise.aggregates.user import matrix_of
from panewise.arrays import Floats, Ints
from panewise.loops import compiled_loop
from panewise.synopses.counting import count_operations, loop_for
from panewise.synopses.slice_ring import copy_states
from papers.arasu2004.join_intervals import JoinIntervals, shift


@compiled_loop
def _scan(
    operation: int, ints: Ints, floats: Floats, intervals: int, width: int, lengths: Ints, total_ints: Ints,
    total_floats: Floats, result_ints: Ints, result_floats: Floats, ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """Lengths ascend; the total begins with the youngest interval."""
    start = 0 * width  # no literal: it would be compiled for by itself
    position = intervals - 1
    copy_states(total_ints, total_floats, start, ints, floats, position * width, width)
    for q in range(lengths.shape[0]):
        while position > intervals - lengths[q]:
            position -= 1
            combine_run(operation, total_ints, total_floats, start, ints, floats, position * width, width, ranks)
            count_operations(counter, min(1, width))
        copy_states(result_ints, result_floats, q * width, total_ints, total_floats, start, width)


class BasicIntervalJoin(JoinIntervals):
    """Interval k lies at k; the intervals move down by one every slice."""

    def __init__(self, kind: StateKind, width: int, intervals: int, flagged: int = 0) -> None:
        super().__init__(kind, width, intervals, flagged)
        self._held = matrix_of(kind, intervals * width)

    def choose_loops(self, counted: bool) -> None:
        super().choose_loops(counted)
        self._scan = loop_for(_scan, self.kind, counted)

    def _states(self) -> list[StateMatrix]:
        return [self._held]

    def _merge(self, part: StateMatrix, ranks: Ints) -> None:
        shift(self._held, self.width)
        self._held.combine(0, part, 0, self._held.slots, ranks)

    def _answer(self, lengths: Ints, ranks: Ints) -> StateMatrix:
        result, total = matrix_of(self.kind, len(lengths) * self.width), matrix_of(self.kind, self.width)
        self._scan(
            int(self.kind.operation), self._held.ints, self._held.floats, self.intervals, self.width, lengths,
            total.ints, total.floats, result.ints, result.floats, ranks, self.counter,
        )  # fmt: skip
        return result
