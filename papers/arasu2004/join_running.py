"""The running synopsis of a join (RJ): everything that expires up to each interval's end, for states that subtract.

Value k is the state of all results ever whose oldest part fell before the end of interval k - 1; an answer is the last
value minus the one before its window, whatever its length. Queries over the same lengths share it (rule CS4); others
subtract another value.

    value            0      1      2      3      4         b = 4; an update drops value 0 and appends one that begins as
    expires   ...----|------|------|------|------|         the last, then adds running sums of the new results to all

Update: 2b additions. Answer: one subtraction, and a few additions for unequal windows. Space: b + 1 states. Only
integers: two's complement makes the difference exact even where a value has wrapped. Golab 2006, section 8.3.2 and
figure 8.3.
"""

from __future__ import annotations

import numpy as np

from panewise.aggregates.matrix import StateMatrix
from panewise.aggregates.states import StateKind
from panewise.aggregates.user import matrix_of
from panewise.arrays import Ints
from papers.arasu2004.join_intervals import JoinIntervals


class RunningJoin(JoinIntervals):
    """`intervals + 1` values; the last is everything."""

    def __init__(self, kind: StateKind, width: int, intervals: int, flagged: int = 0) -> None:
        assert kind.algebra.invertible and not kind.float_fields, f"{kind.name} cannot be taken away exactly"
        super().__init__(kind, width, intervals, flagged)
        self._running = matrix_of(kind, (intervals + 1) * width)

    def _states(self) -> list[StateMatrix]:
        return [self._running]

    @property
    def _values(self) -> Ints:
        return self._running.ints.reshape(self.kind.int_fields, self.intervals + 1, self.width)

    def _merge(self, part: StateMatrix, ranks: Ints) -> None:
        values = self._values
        values[:, :-1] = values[:, 1:]
        values[:, 1:] += np.cumsum(part.ints.reshape(self.kind.int_fields, self.intervals, self.width), axis=1)

    def _answer(self, lengths: Ints, ranks: Ints) -> StateMatrix:
        result = matrix_of(self.kind, 0)
        values = self._values
        found = values[:, -1:] - values[:, self.intervals - lengths]
        result.ints = found.reshape(self.kind.int_fields, len(lengths) * self.width)
        result.floats = np.empty((0, len(lengths) * self.width))
        self.counter[0] += len(lengths)
        return result
