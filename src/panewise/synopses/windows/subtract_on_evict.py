"""Subtract-on-evict, Panes (Inv): one running value per sliding window, from which expired slices are subtracted.

Invariant: `running[w]` is the sum of the slices [a, b) of window w's last position. The window moves to [s, e) by
adding the slices that entered and subtracting those that left: two operations a slide, whatever the range. Integers
wrap around, so the result is exact even if an intermediate sum has left int64.

    running   [a      b)              - slice a            + slice b
                 [s      e)

Insert O(1), evict O(1); an answer costs 2 operations per slice moved. A window that is asked for the first time costs
one operation per slice, or starts from the window answered before it if that is nearer. Space: one state per window
besides the slices. For states that can be subtracted exactly (integers). Windows by rows or by time, historical ones
too; a window can also move backwards. Ranges share only the slices. Source: Li et al. 2005; Shein and Chrysanthis 2020,
section 2.2; Tangwongsan et al. 2017.
"""

from __future__ import annotations

import numpy as np

from panewise.aggregates.matrix import NO_INTS
from panewise.aggregates.states import StateKind
from panewise.arrays import Floats, Ints
from panewise.loops import compiled_loop
from panewise.synopses.counting import count_operations, loop_for
from panewise.synopses.windows.per_window import STRETCH, PerWindow, is_steady, unsigned


@compiled_loop
def _add_slices(
    ints: Ints, mask: int, width: int, running: Ints, w: int, begin: int, end: int, sign: int, counter: Ints
) -> None:
    """Adds the slices [begin, end) to a running value (sign 1) or subtracts them (sign -1)."""
    count_operations(counter, end - begin)
    target = w * width
    for p in range(begin, end):
        source = (p & mask) * width
        for f in range(ints.shape[0]):
            for j in range(width):
                running[f, target + j] += sign * ints[f, source + j]


@compiled_loop
def _move(
    ints: Ints, mask: int, width: int, pointers: Ints, running: Ints, w: int, last: int, s: int, e: int, plus: int,
    minus: int, counter: Ints,
) -> None:  # fmt: skip
    """Moves window w to [s, e) from the nearest of: its own position, the position of window `last`, an empty one."""
    a, b = pointers[0, w], pointers[1, w]
    if a == b:
        a = b = s
    distance = abs(s - a) + abs(e - b)
    if distance > 2 and last >= 0 and last != w:
        other = abs(s - pointers[0, last]) + abs(e - pointers[1, last])
        if other < distance and pointers[0, last] < pointers[1, last]:
            a, b, distance = pointers[0, last], pointers[1, last], other
            for f in range(running.shape[0]):
                for j in range(width):
                    running[f, w * width + j] = running[f, last * width + j]
    if a == b or (distance >= e - s and (a != s or b != s)):
        a = b = s
        for f in range(running.shape[0]):
            for j in range(width):
                running[f, w * width + j] = 0
    end_sign, start_sign = (plus if b < e else minus), (minus if a < s else plus)
    _add_slices(ints, mask, width, running, w, min(b, e), max(b, e), end_sign, counter)
    _add_slices(ints, mask, width, running, w, min(a, s), max(a, s), start_sign, counter)
    pointers[0, w], pointers[1, w] = s, e


@compiled_loop
def _answer_stretch(
    ints: Ints, mask: int, pointers: Ints, running: Ints, w: int, count: int, result: Ints, q: int, counter: Ints
) -> None:
    """Answers one window `count` times for one group, each time one slice further."""
    a, b = pointers[0, w] & mask, pointers[1, w] & mask
    count_operations(counter, 2 * count)
    for f in range(ints.shape[0]):
        leaving, entering, answers = ints[f, a : a + count], ints[f, b : b + count], result[f, q : q + count]
        value = running[f, w]
        for i in range(count):
            value += entering[i] - leaving[i]
            answers[i] = value
        running[f, w] = value
    pointers[0, w] += count
    pointers[1, w] += count


@compiled_loop
def _answer(
    ints: Ints, mask: int, width: int, groups: int, pointers: Ints, running: Ints, starts: Ints, ends: Ints,
    windows: Ints, by_length: Ints, result: Ints, done: int, counter: Ints,
) -> int:  # fmt: skip
    """Answers from number `done` on. Returns the first number not answered for lack of room, or the count.

    An answer continues the running value of its window, or of its length if `by_length` is not empty.
    """
    q, tested, w, count = done, done, done - done, starts.shape[0]
    plus, last = min(1, mask), -min(1, mask)
    minus = -plus
    while q < count:
        if windows.shape[0] > 0:
            w = windows[q]
        s, e = starts[q], ends[q]
        if by_length.shape[0] > 0:
            w = by_length[e - s]
        if w < 0 or w >= pointers.shape[1]:
            return q
        a, b = pointers[0, w], pointers[1, w]
        if width == 1 and s == a + 1 and e == b + 1 and a < b:
            if q >= tested:
                most = min(min(STRETCH, count - q), mask + 1 - max(a & mask, b & mask))
                tested = q + most
                if is_steady(starts, ends, windows, q, most):
                    _answer_stretch(ints, mask, pointers, running, w, most, result, q, counter)
                    q += most
                    last = w
                    continue
            count_operations(counter, plus + plus)
            for f in range(ints.shape[0]):
                value = running[f, w] + ints[f, unsigned(b & mask)] - ints[f, unsigned(a & mask)]
                running[f, w] = value
                result[f, q] = value
            pointers[0, w], pointers[1, w] = s, e
            last = w
            q += 1
            continue
        _move(ints, mask, width, pointers, running, w, last, s, e, plus, minus, counter)
        for f in range(ints.shape[0]):
            for j in range(groups):
                result[f, q * groups + j] = running[f, w * width + j]
        last = w
        q += 1
    return q


@compiled_loop
def _forget(ints: Ints, mask: int, width: int, pointers: Ints, running: Ints, first: int, counter: Ints) -> None:
    """Subtracts the slices before `first` from all running values, while the ring still has them."""
    minus = -min(1, mask)
    for w in range(pointers.shape[1]):
        if pointers[0, w] < first:
            if pointers[1, w] <= first:
                pointers[0, w] = pointers[1, w] = 0
            else:
                _add_slices(ints, mask, width, running, w, pointers[0, w], first, minus, counter)
                pointers[0, w] = first


class SubtractOnEvict(PerWindow):
    """A running value per sliding window."""

    def __init__(self, kind: StateKind, width: int) -> None:
        assert kind.algebra.invertible and not kind.float_fields, f"{kind.name} cannot be subtracted exactly"
        self._running: Ints = NO_INTS
        self._by_length: Ints = NO_INTS
        super().__init__(kind, width)

    def choose_loops(self, counted: bool) -> None:
        add = loop_for(_add_slices, self.kind, counted)
        move = loop_for(_move, self.kind, counted, _add_slices=add)
        stretch = loop_for(_answer_stretch, self.kind, counted)
        self._answer = loop_for(_answer, self.kind, counted, _move=move, _answer_stretch=stretch)
        self._forget = loop_for(_forget, self.kind, counted, _add_slices=add)

    @property
    def bytes_held(self) -> int:
        return super().bytes_held + self._running.nbytes

    def _renew(self) -> None:
        super()._renew()
        self._running = np.zeros((self.kind.int_fields, self._pointers.shape[1] * self.width), np.int64)

    def _evicted(self) -> None:
        self._forget(self._ints, self._room - 1, self.width, self._pointers, self._running, self.first, self.counter)

    def _make_room(self, starts: Ints, ends: Ints, windows: Ints) -> None:
        super()._make_room(starts, ends, windows)
        running = np.zeros((self.kind.int_fields, self._pointers.shape[1] * self.width), np.int64)
        running[:, : self._running.shape[1]] = self._running
        self._running = running

    def _advance(
        self, starts: Ints, ends: Ints, windows: Ints, groups: int, ints: Ints, floats: Floats, done: int, ranks: Ints
    ) -> int:
        answered: int = self._answer(
            self._ints, self._room - 1, self.width, groups, self._pointers, self._running, starts, ends, windows,
            self._by_length, ints, done, self.counter,
        )  # fmt: skip
        return answered
