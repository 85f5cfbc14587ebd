"""What the synopses of aggregates over joins have in common: intervals by expiration, and what unequal windows need.

A join of windows of b slices each is weak: a new result may be about to expire. Its intervals are therefore told apart
by when results expire, which is decided by their oldest part: interval k holds the results whose oldest part fell into
slice `after - b + k`. The oldest interval is dropped and a new one appended every slice, and what the slice brought is
merged into *all* of them:

    interval        0    1    2    3    4    5    6    7         b = 8: interval 0 expires in the next slice
    before        |----|----|----|----|----|----|----|----|
    new results        |-*--|----|-**-|-*--|----|--*-|-*--|-***|
    after              |----|----|----|----|----|----|----|----|
                                 [     windows of 5 slices     )

Results of windows of n slices each are those of the n youngest intervals, because all others have a part that is older.
Windows of unequal lengths n1 < n2 need in addition, of the intervals between, the results without a part of the first
window that is too old. Each interval therefore keeps 2g more states: for either window w and every d from 1 to g, the
results without a part of window w in this slice and the d - 1 that follow it.

    n1 = 3, n2 = 5     |----|----|----|----|----|----|----|----|
                                 [ w0:2 : w0:1 :      all      )

The thesis draws two more states, in the g oldest intervals. One state a window answers n2 = n1 + 1 only, and results
are flagged when they are born, long before their interval is among the oldest, so it is g states a window, in all of
them; in return any unequal lengths that differ by g at most are answered, of which rule SS3 asks for those from b - g
on. Update O(b + b g), space b + 2 b g states a group and what the technique adds. Golab 2006, section 8.3.2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panewise.aggregates.kernels import combine_run
from panewise.aggregates.matrix import StateMatrix
from panewise.aggregates.states import StateKind
from panewise.aggregates.user import matrix_of
from panewise.arrays import Floats, Ints
from panewise.loops import compiled_loop
from panewise.synopses.counting import count_operations, loop_for, new_counter


@compiled_loop
def _add_between(
    operation: int, ints: Ints, floats: Floats, intervals: int, flagged: int, width: int, shortest: Ints, longest: Ints,
    window: Ints, result_ints: Ints, result_floats: Floats, ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """The intervals between the shorter and the longer window, without results whose part of the shorter is too old."""
    for q in range(shortest.shape[0]):
        border = intervals - shortest[q]
        for k in range(intervals - longest[q], border):
            source = (2 * flagged * k + flagged * window[q] + border - k - 1) * width
            combine_run(operation, result_ints, result_floats, q * width, ints, floats, source, width, ranks)
        count_operations(counter, longest[q] - shortest[q])


def shift(matrix: StateMatrix, slots: int) -> None:
    """The oldest slots leave, as many at the identity come behind the youngest."""
    kept = matrix.slots - slots
    matrix.ints[:, :kept], matrix.floats[:, :kept] = matrix.ints[:, slots:], matrix.floats[:, slots:]
    matrix.reset(slice(kept, None))


class JoinIntervals(ABC):
    """`intervals` is the thesis's b, `flagged` its g. A technique says how it keeps and reads all results."""

    def __init__(self, kind: StateKind, width: int, intervals: int, flagged: int = 0) -> None:
        assert intervals >= 1 and 0 <= flagged < intervals
        self.kind = kind
        self.width = width
        self.intervals = intervals
        self.flagged = flagged
        self.after = 0  # the number of the slice to come
        self.counter = new_counter()
        self._between = matrix_of(kind, 2 * flagged * intervals * width)
        self.choose_loops(counted=False)

    def choose_loops(self, counted: bool) -> None:
        self._add_between = loop_for(_add_between, self.kind, counted)

    @abstractmethod
    def _states(self) -> list[StateMatrix]:
        """The technique's own matrices."""

    @abstractmethod
    def _merge(self, part: StateMatrix, ranks: Ints) -> None:
        """The next slice: `part` has `width` states for each interval, as they are after it."""

    @abstractmethod
    def _answer(self, lengths: Ints, ranks: Ints) -> StateMatrix:
        """The states of all results of equal windows of these lengths, which ascend."""

    @property
    def bytes_held(self) -> int:
        return self._between.bytes_held + sum(matrix.bytes_held for matrix in self._states())

    def update(self, ints: Ints, floats: Floats, ranks: Ints) -> None:
        """One slice more: the states of its results for each interval, as a JoinBuffer gives them.

        Arrays of shape (fields, intervals, 1 + 2 * flagged, width): of all results, then without those of either
        window.
        """
        everything = matrix_of(self.kind, 0)
        everything.ints, everything.floats = (_flat(array[:, :, 0]) for array in (ints, floats))
        self._merge(everything, ranks)
        if self.flagged:
            part = matrix_of(self.kind, 0)
            part.ints, part.floats = (_flat(array[:, :, 1:]) for array in (ints, floats))
            shift(self._between, 2 * self.flagged * self.width)
            self._between.combine(0, part, 0, self._between.slots, ranks)
        self.after += 1

    def reaches(self, first: int, second: int) -> bool:
        """Whether windows of these lengths in slices are answered."""
        return 1 <= min(first, second) <= max(first, second) <= min(self.intervals, min(first, second) + self.flagged)

    def answer(self, lengths: Ints, ranks: Ints) -> tuple[Ints, Floats]:
        """The states of joins of windows (n1, n2), an array of answers x 2: arrays of shape (fields, answers, width).

        All at once: what they have in common is read once, as far as the technique can (rules CS4 and CS5).
        """
        assert all(self.reaches(*pair) for pair in lengths.tolist()), "windows that are not held"
        order = np.argsort(lengths.min(axis=1), kind="stable")
        shortest, longest = lengths[order].min(axis=1), lengths[order].max(axis=1)
        found = self._answer(shortest, ranks)
        self._add_between(
            int(self.kind.operation), self._between.ints, self._between.floats, self.intervals, self.flagged,
            self.width, shortest, longest, np.argmin(lengths[order], axis=1), found.ints, found.floats, ranks,
            self.counter,
        )  # fmt: skip
        placed = np.empty(len(order), np.int64)
        placed[order] = np.arange(len(order))
        shape = len(lengths), self.width
        ints = found.ints.reshape(self.kind.int_fields, *shape)[:, placed]
        return ints, found.floats.reshape(self.kind.float_fields, *shape)[:, placed]

    def snapshot(self) -> dict[str, Any]:
        states = [self._between, *self._states()]
        return {
            "after": self.after,
            "ints": [matrix.ints.reshape(-1).copy() for matrix in states],
            "floats": [matrix.floats.reshape(-1).copy() for matrix in states],
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.after = snapshot["after"]
        states = [self._between, *self._states()]
        for matrix, ints, floats in zip(states, snapshot["ints"], snapshot["floats"], strict=True):
            matrix.ints = ints.reshape(matrix.ints.shape).copy()
            matrix.floats = floats.reshape(matrix.floats.shape).copy()


def _flat(states: NDArray[Any]) -> NDArray[Any]:
    """Fields x slots, in C order, for which the loops are compiled."""
    return np.ascontiguousarray(states).reshape(len(states), int(np.prod(states.shape[1:])))
