"""SlickDeque (Non-Inv): per group the slices that may still win, shared by all ranges.

Invariant: a group's deque holds slices in time order, and no slice in it is beaten by a later one. A new slice removes
the slices at the tail that it beats, then is appended. The winner of a window that ends now is the first slice in the
deque that is not older than the window:

    asked for max       value  6   5   3   2         insert 4:  value  6   5   4
    slices 0 to 9       slice  1   3   4   6                    slice  1   3   7      since 3 for [2, 8): 5

Insert and evict O(1). An answer needs no combination: each sliding window keeps, per group, the position of its last
winner and searches from there, so answers cost O(1) amortised, however many ranges there are and however long the deque
is. Comparisons: under 2 a slice amortised, at worst one per slice of the window.

For states that select one of their inputs (MIN, MAX, the earliest or latest row, and the extremes by a key). For
windows of any range, by rows or by time, that end at the newest slice asked for (suffix windows). A window that ends
earlier is answered slice by slice, so this technique is not for historical windows. Space: besides the slices, a number
per slice and group, and one per window and group. Source: Shein, Chrysanthis, Labrinidis 2018; Shein and Chrysanthis
2020, section 2.2 and figure 10.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from panewise.aggregates.kernels import (
    EARLIEST,
    LATEST,
    MAX_FLOAT,
    MAX_INT,
    MAX_STRING,
    MIN_FLOAT,
    MIN_STRING,
    _prefers,
)
from panewise.aggregates.matrix import CHOICES, NO_INTS, identity
from panewise.aggregates.states import Operation, StateKind
from panewise.arrays import Floats, Ints
from panewise.loops import compiled_loop
from panewise.synopses.answer_buffer import AnswerBuffer
from panewise.synopses.counting import count_operations, loop_for, new_counter
from panewise.synopses.single_states import read_state, single_loops, write_state
from panewise.synopses.slice_ring import SliceRing
from panewise.synopses.windows.per_window import STRETCH, is_steady, unsigned

BLOCK = 64  # answers


# -- Whether the state in slot `new` beats that in slot `old`, which is of an older slice ------------------------------


@compiled_loop
def _wins(operation: int, ints: Ints, floats: Floats, old: int, new: int, ranks: Ints) -> Any:
    """An equal value wins, because nobody can see which of the two was chosen. NaN is the greatest."""
    if operation == MAX_FLOAT:
        return floats[0, new] >= floats[0, old] or floats[0, new] != floats[0, new]
    if operation == MIN_FLOAT:
        return floats[0, new] <= floats[0, old] or floats[0, old] != floats[0, old]
    if operation == MAX_INT:
        return ints[0, new] >= ints[0, old]
    return ints[0, new] <= ints[0, old]


@compiled_loop
def _wins_chosen(operation: int, ints: Ints, floats: Floats, old: int, new: int, ranks: Ints) -> Any:
    """`_wins` for strings, and for rows chosen by time or by a key."""
    if operation == MIN_STRING or operation == MAX_STRING:
        code, held = ints[0, new], ints[0, old]
        if code < 0 or held < 0:
            return held < 0
        return code == held or (operation == MIN_STRING) == (ranks[code] < ranks[held])
    earlier = ints[0, new] < ints[0, old] or (ints[0, new] == ints[0, old] and ints[1, new] < ints[1, old])
    if operation == EARLIEST or operation == LATEST:
        return earlier == (operation == EARLIEST)
    if ints[3, new] < 0 or ints[3, old] < 0:
        return ints[3, old] < 0
    preference = _prefers(operation, ints, floats, old, ints, floats, new, ranks)
    return earlier if preference == 0 else preference > 0


@compiled_loop
def _beats_max_float(old: float, new: float) -> bool:
    return new >= old or new != new


@compiled_loop
def _beats_min_float(old: float, new: float) -> bool:
    return new <= old or old != old


@compiled_loop
def _beats_max_int(old: int, new: int) -> bool:
    return new >= old


@compiled_loop
def _beats_min_int(old: int, new: int) -> bool:
    return new <= old


# The loop for one group is written with `_beats`, which is replaced by the function of the operation.
_beats = _beats_max_int
_BEATS = {
    Operation.MAX_FLOAT: _beats_max_float,
    Operation.MIN_FLOAT: _beats_min_float,
    Operation.MAX_INT: _beats_max_int,
    Operation.MIN_INT: _beats_min_int,
}


# -- The deques --------------------------------------------------------------------------------------------------------


@compiled_loop
def _push(
    operation: int, ints: Ints, floats: Floats, mask: int, width: int, deques: Ints, heads: Ints, tails: Ints,
    begin: int, end: int, ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """Appends the slices [begin, end) to the deques of all groups."""
    one = min(1, mask)
    for p in range(begin, end):
        slot = (p & mask) * width
        for g in range(width):
            head, tail = heads[g], tails[g]
            while tail > head:
                count_operations(counter, one)
                held = (deques[((tail - 1) & mask) * width + g] & mask) * width + g
                if not _wins(operation, ints, floats, held, slot + g, ranks):
                    break
                tail -= 1
            deques[(tail & mask) * width + g] = p
            tails[g] = tail + 1


@compiled_loop
def _answer(
    operation: int, ints: Ints, floats: Floats, mask: int, width: int, groups: int, deques: Ints, heads: Ints,
    tails: Ints, cursors: Ints, reached: int, none_ints: Ints, none_floats: Floats, starts: Ints, ends: Ints,
    windows: Ints, result_ints: Ints, result_floats: Floats, ranks: Ints, counter: Ints,
) -> int:  # fmt: skip
    """Answers all windows. Returns the end of the slices in the deques."""
    w, one = reached - reached, min(1, mask)
    for q in range(starts.shape[0]):
        s, e = starts[q], ends[q]
        if windows.shape[0] > 0:
            w = windows[q]
        if e > reached:
            _push(operation, ints, floats, mask, width, deques, heads, tails, reached, e, ranks, counter)
            reached = e
        for g in range(groups):
            chosen = s
            if e == reached:
                head, tail = heads[g], tails[g]
                cursor = max(head, min(cursors[w * width + g], tail - 1))
                while cursor > head and deques[((cursor - 1) & mask) * width + g] >= s:
                    cursor -= 1
                while cursor < tail and deques[(cursor & mask) * width + g] < s:
                    cursor += 1
                cursors[w * width + g] = cursor
                if s < e:
                    chosen = deques[(cursor & mask) * width + g]
            else:
                for p in range(s + 1, e):
                    count_operations(counter, one)
                    old, new = (chosen & mask) * width + g, (p & mask) * width + g
                    if _wins(operation, ints, floats, old, new, ranks):
                        chosen = p
            slot = (chosen & mask) * width + g
            for f in range(ints.shape[0]):
                result_ints[f, q * groups + g] = ints[f, slot] if s < e else none_ints[f, 0]
            for f in range(floats.shape[0]):
                result_floats[f, q * groups + g] = floats[f, slot] if s < e else none_floats[f, 0]
    return reached


@compiled_loop
def _answer_block(
    ints: Ints, floats: Floats, mask: int, deques: Ints, cursor: int, tail: int, value_ints: Ints, value_floats: Floats,
    survivors: Ints, s: int, reached: int, result_ints: Ints, result_floats: Floats, q: int, counter: Ints,
) -> tuple[int, int]:  # fmt: skip
    """Answers one window BLOCK times, each time one slice further, if no slice that enters wins any of these answers.

    No branch predictor can guess which slices a new one removes. Few slices of a block survive it, found from its end.
    If the winner of the block's last window is not beaten by the best of them, all answers are won by older slices.
    Returns the new tail and cursor. Returns the tail -1 and changes nothing if the condition does not hold.
    """
    last = reached + BLOCK - 1
    best = read_state(ints, floats, unsigned(last & mask))
    survivors[0] = last
    found = 1
    for p in range(last - 1, reached - 1, -1):
        value = read_state(ints, floats, unsigned(p & mask))
        if not _beats(value, best):
            best = value
            survivors[found] = p
            found += 1
    winner = cursor
    while winner < tail and deques[unsigned(winner & mask)] < s + BLOCK - 1:
        winner += 1
    count_operations(counter, last - reached + 1)
    if winner == tail or _beats(read_state(value_ints, value_floats, unsigned(winner & mask)), best):
        return -1, cursor
    for i in range(BLOCK):
        while deques[unsigned(cursor & mask)] < s + i:
            cursor += 1
        value = read_state(value_ints, value_floats, unsigned(cursor & mask))
        write_state(result_ints, result_floats, unsigned(q + i), value)
    while _beats(read_state(value_ints, value_floats, unsigned((tail - 1) & mask)), best):
        tail -= 1
        count_operations(counter, last - last + 1)
    for k in range(found - 1, -1, -1):
        deques[unsigned(tail & mask)] = survivors[k]
        value = read_state(ints, floats, unsigned(survivors[k] & mask))
        write_state(value_ints, value_floats, unsigned(tail & mask), value)
        tail += 1
    return tail, cursor


@compiled_loop
def _answer_single(
    ints: Ints, floats: Floats, mask: int, deques: Ints, heads: Ints, tails: Ints, cursors: Ints, reached: int,
    value_ints: Ints, value_floats: Floats, none_ints: Ints, none_floats: Floats, starts: Ints, ends: Ints,
    windows: Ints, result_ints: Ints, result_floats: Floats, counter: Ints,
) -> int:  # fmt: skip
    """Answers all windows for one group. Values are stored beside the deque; the newest one is in a register."""
    w, one, head, tail, count = reached - reached, min(1, mask), heads[0], tails[0], starts.shape[0]
    none = read_state(none_ints, none_floats, unsigned(0))
    newest = none
    if head < tail:
        newest = read_state(value_ints, value_floats, unsigned((tail - 1) & mask))
    survivors = np.empty(BLOCK, np.int64)
    q = tested = steady = slow = w
    while q < count:
        if windows.shape[0] > 0:
            w = windows[q]
        cursor = cursors[w]
        while q < count and (windows.shape[0] == 0 or windows[q] == w):
            s, e = starts[q], ends[q]
            if q >= tested and e == reached + 1:
                most = min(STRETCH, count - q)
                tested = q + most
                if is_steady(starts, ends, windows, q, most):
                    steady = tested
            if q + BLOCK <= steady and e == reached + 1 and q >= slow:
                cursor = max(head, min(cursor, tail - 1))
                while cursor > head and deques[unsigned((cursor - 1) & mask)] >= s:
                    cursor -= 1
                pushed, cursor = _answer_block(
                    ints, floats, mask, deques, cursor, tail, value_ints, value_floats, survivors, s, reached,
                    result_ints, result_floats, q, counter,
                )  # fmt: skip
                if pushed > 0:
                    tail = pushed
                    reached += BLOCK
                    q += BLOCK
                    newest = read_state(ints, floats, unsigned((reached - 1) & mask))
                    continue
                slow = q + BLOCK
            while reached < e:
                value = read_state(ints, floats, unsigned(reached & mask))
                while tail > head:
                    count_operations(counter, one)
                    if not _beats(newest, value):
                        break
                    tail -= 1
                    newest = read_state(value_ints, value_floats, unsigned((tail - 1) & mask))
                deques[unsigned(tail & mask)] = reached
                write_state(value_ints, value_floats, unsigned(tail & mask), value)
                newest = value
                tail += 1
                reached += 1
            chosen = none
            if e < reached and s < e:
                chosen = read_state(ints, floats, unsigned(s & mask))
                for p in range(s + 1, e):
                    count_operations(counter, one)
                    value = read_state(ints, floats, unsigned(p & mask))
                    if _beats(chosen, value):
                        chosen = value
            elif s < e:
                cursor = max(head, min(cursor, tail - 1))
                while cursor > head and deques[unsigned((cursor - 1) & mask)] >= s:
                    cursor -= 1
                while deques[unsigned(cursor & mask)] < s:
                    cursor += 1
                chosen = read_state(value_ints, value_floats, unsigned(cursor & mask))
            write_state(result_ints, result_floats, unsigned(q), chosen)
            q += 1
        cursors[w] = cursor
    heads[0], tails[0] = head, tail
    return reached


@compiled_loop
def _forget(deques: Ints, mask: int, width: int, heads: Ints, tails: Ints, first: int) -> None:
    """Removes slices before `first` from the heads of the deques."""
    for g in range(width):
        head, tail = heads[g], tails[g]
        while head < tail and deques[(head & mask) * width + g] < first:
            head += 1
        heads[g] = head


class SlickDeque(SliceRing):
    """A deque of slice numbers per group, in a ring, and the position of the last winner per window and group."""

    def __init__(self, kind: StateKind, width: int) -> None:
        assert kind.algebra.selective, f"{kind.name} does not choose one of its inputs"
        super().__init__(kind, width)
        self.counter = new_counter()
        self._answers = AnswerBuffer(kind)
        self._none_ints, self._none_floats = identity(kind, 1)
        self._windows = 1
        self.choose_loops(counted=False)
        self._renew()

    def choose_loops(self, counted: bool) -> None:
        wins = _wins_chosen if self.kind.operation in CHOICES else _wins
        push = loop_for(_push, self.kind, counted, _wins=wins)
        self._answer = loop_for(_answer, self.kind, counted, _wins=wins, _push=push)
        single = single_loops(self.kind)
        self._answer_single: Any = None
        if single is not None:
            beats = _BEATS[self.kind.operation]
            block = loop_for(_answer_block, self.kind, counted, **single, _beats=beats)
            self._answer_single = loop_for(
                _answer_single, self.kind, counted, **single, _beats=beats, _answer_block=block
            )

    @property
    def bytes_held(self) -> int:
        values = self._value_ints.nbytes + self._value_floats.nbytes
        return super().bytes_held + self._deques.nbytes + self._cursors.nbytes + values

    def _renew(self) -> None:
        self._deques: Ints = np.zeros(self._room * self.width, np.int64)
        self._heads: Ints = np.zeros(self.width, np.int64)
        self._tails: Ints = np.zeros(self.width, np.int64)
        self._cursors: Ints = np.zeros(self._windows * self.width, np.int64)
        self._reached = self.first
        self._alone = self.width == 1 and self._answer_single is not None
        self._value_ints, self._value_floats = identity(self.kind, self._room if self._alone else 0)

    def _evicted(self) -> None:
        _forget(self._deques, self._room - 1, self.width, self._heads, self._tails, self.first)
        self._reached = max(self._reached, self.first)

    def deque(self, group: int) -> list[int]:
        """The slices in a group's deque, oldest first."""
        places = np.arange(self._heads[group], self._tails[group]) & (self._room - 1)
        return [int(number) for number in self._deques[places * self.width + group]]

    def drop_window(self, window: int) -> None:
        """Nothing to drop: the next window of this number can start from any position of a winner."""

    def answer(
        self, starts: Ints, ends: Ints, ranks: Ints, groups: int | None = None, windows: Ints | None = None
    ) -> tuple[Ints, Floats]:
        count, groups = len(starts), self.width if groups is None else groups
        if windows is not None and count and (needed := int(windows.max()) + 1) > self._windows:
            cursors = np.zeros(2 * needed * self.width, np.int64)
            cursors[: len(self._cursors)] = self._cursors
            self._cursors, self._windows = cursors, 2 * needed
        ints, floats = self._answers.arrays(count * groups)
        numbers = NO_INTS if windows is None else windows
        held, mask, none = (self._ints, self._floats), self._room - 1, (self._none_ints, self._none_floats)
        deques = self._deques, self._heads, self._tails, self._cursors, self._reached
        asked = starts, ends, numbers, ints, floats
        if self._alone and groups:
            values = self._value_ints, self._value_floats
            self._reached = self._answer_single(*held, mask, *deques, *values, *none, *asked, self.counter)
        else:
            operation = int(self.kind.operation)
            self._reached = self._answer(
                operation, *held, mask, self.width, groups, *deques, *none, *asked, ranks, self.counter
            )
        shape = count, groups
        return ints.reshape(self.kind.int_fields, *shape), floats.reshape(self.kind.float_fields, *shape)
