"""Materialize-all: the answer of every sliding window asked for so far is kept up to date with every slice.

Invariant: for each registered sliding window, identified by its number, it holds the combination of the last `length`
slices before `now`. A window is registered, from its slices, when it is first asked for, and again when its length
changes. `now` advances slice by slice: to the end of each window that is asked for, and to the newest slice when slices
are evicted. Each slice that enters changes the answers of all registered windows, whether they are asked for or not.

    answer of a registered window   a copy
    slice that enters               invertible states: two operations per window (the new slice is added, the oldest one
                                    subtracted); others: all answers are recomputed, with one combination per slice of
                                    the longest window and one per window, each answer built on the next shorter one

So it is good for many lookups and few slices, and bad otherwise. It is one end of the trade-off between the cost of a
slice and that of an answer; `panes` is the other end. It is meant for windows by rows that end with the newest slice
and whose lengths in slices do not change. Other windows (by time, historical) are answered too, each from its slices.
For any associative state, older states on the left. Space: the slices, and one state per window. Source: Arasu and
Widom 2004, sections 1.2 and 6.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from panewise.aggregates.kernels import combine_run
from panewise.aggregates.matrix import identity
from panewise.aggregates.states import StateKind
from panewise.arrays import Floats, Ints
from panewise.loops import compiled_loop
from panewise.synopses.counting import count_operations, loops_for, new_counter
from panewise.synopses.single_states import slot_loops
from panewise.synopses.slice_ring import SliceRing, copy_states

NOW, INVERTIBLE = 0, 1  # elements of `clock`


@compiled_loop
def _fold(
    operation: int, ints: Ints, floats: Floats, mask: int, width: int, groups: int, start: int, end: int,
    target_ints: Ints, target_floats: Floats, target: int, ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """Combines the slices [start, end), at least one, into the target."""
    copy_states(target_ints, target_floats, target, ints, floats, (start & mask) * width, groups)
    for position in range(start + 1, end):
        combine_run(
            operation, target_ints, target_floats, target, ints, floats, (position & mask) * width, groups, ranks
        )
    count_operations(counter, end - start - 1)


@compiled_loop
def _slide(
    ints: Ints, held_ints: Ints, mask: int, width: int, lengths: Ints, order: Ints, now: int, counter: Ints
) -> None:
    """Adds slice `now` to all windows and subtracts the oldest slice of each."""
    enters = (now & mask) * width
    for k in range(order.shape[0]):
        window = order[k]
        leaves = ((now - lengths[window]) & mask) * width
        for f in range(ints.shape[0]):
            for g in range(width):
                held_ints[f, window * width + g] += ints[f, enters + g] - ints[f, leaves + g]
    count_operations(counter, 2 * order.shape[0])


@compiled_loop
def _make_all(
    operation: int, ints: Ints, floats: Floats, held_ints: Ints, held_floats: Floats, mask: int, width: int,
    lengths: Ints, order: Ints, now: int, ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """Computes the answers of all windows that end before slice `now`. `order` has the shortest window first."""
    one = min(1, width)
    for k in range(order.shape[0]):
        target, start, end = order[k] * width, now - lengths[order[k]], now
        if k > 0:
            end = now - lengths[order[k - 1]]
        if start < end:
            _fold(
                operation, ints, floats, mask, width, width, start, end, held_ints, held_floats, target, ranks, counter
            )
        if k > 0 and start < end:
            combine_run(
                operation, held_ints, held_floats, target, held_ints, held_floats, order[k - 1] * width, width, ranks
            )
            count_operations(counter, one)
        elif k > 0:
            copy_states(held_ints, held_floats, target, held_ints, held_floats, order[k - 1] * width, width)


@compiled_loop
def _pass_time(
    operation: int, ints: Ints, floats: Floats, held_ints: Ints, held_floats: Floats, mask: int, width: int,
    lengths: Ints, order: Ints, clock: Ints, end: int, ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """Lets every slice before `end` enter, and updates all answers with each."""
    if order.shape[0] > 0:
        for now in range(clock[NOW], end):
            if clock[INVERTIBLE] != 0:
                _slide(ints, held_ints, mask, width, lengths, order, now, counter)
            else:
                _make_all(
                    operation, ints, floats, held_ints, held_floats, mask, width, lengths, order, now + 1, ranks,
                    counter,
                )  # fmt: skip
    clock[NOW] = max(clock[NOW], end)


@compiled_loop
def _register(lengths: Ints, order: Ints, count: int, window: int, length: int) -> int:
    """Sets a window's length and its place in the order, shortest first. Returns the number of windows."""
    if lengths[window] > 0:
        place = 0
        while order[place] != window:
            place += 1
        for k in range(place, count - 1):
            order[k] = order[k + 1]
        count -= 1
    lengths[window] = length
    place = count
    while place > 0 and lengths[order[place - 1]] > length:
        order[place] = order[place - 1]
        place -= 1
    order[place] = window
    return count + 1


@compiled_loop
def _answer(
    operation: int, ints: Ints, floats: Floats, held_ints: Ints, held_floats: Floats, mask: int, width: int,
    groups: int, lengths: Ints, order: Ints, count: int, clock: Ints, starts: Ints, ends: Ints,
    windows: Ints, result_ints: Ints, result_floats: Floats, ranks: Ints, counter: Ints,
) -> int:  # fmt: skip
    """Answers all windows into results that hold the identity. Returns the number of registered windows."""
    for q in range(starts.shape[0]):
        start, end, window, target = starts[q], ends[q], windows[q], q * groups
        if start >= end:
            continue
        _pass_time(
            operation, ints, floats, held_ints, held_floats, mask, width, lengths, order[:count], clock, end, ranks,
            counter,
        )  # fmt: skip
        if end < clock[NOW]:
            _fold(
                operation, ints, floats, mask, width, groups, start, end, result_ints, result_floats, target, ranks,
                counter,
            )  # fmt: skip
            continue
        if lengths[window] != end - start:
            count = _register(lengths, order, count, window, end - start)
            _fold(
                operation, ints, floats, mask, width, width, start, end, held_ints, held_floats, window * width, ranks,
                counter,
            )  # fmt: skip
        copy_states(result_ints, result_floats, target, held_ints, held_floats, window * width, groups)
    return count


class MaterializeAll(SliceRing):
    """The ring of slices, and one answer per sliding window."""

    _lengths: Ints
    _order: Ints
    _held_ints: Ints
    _held_floats: Floats

    def __init__(self, kind: StateKind, width: int) -> None:
        super().__init__(kind, width)
        self.counter = new_counter()
        self.choose_loops(counted=False)
        self._ranks = np.empty(0, np.int64)  # from the last call of `insert_from`
        self._renew()

    def choose_loops(self, counted: bool) -> None:
        self._many = self._loops(counted, {})
        self._one = self._loops(counted, slot_loops(self.kind))

    def _loops(self, counted: bool, slots: dict[str, Any]) -> tuple[Any, Any]:
        chosen = loops_for((_fold, _slide, _make_all, _pass_time, _answer), self.kind, counted, **slots)
        return chosen["_pass_time"], chosen["_answer"]

    def _renew(self) -> None:
        """Forgets all registered windows."""
        self._registered = 0
        self._clock = np.array([self.first, self.kind.algebra.invertible and not self.kind.float_fields], np.int64)
        self._make_room(1)

    def _make_room(self, windows: int) -> None:
        """Makes room for windows with numbers below `windows`; registered windows stay."""
        lengths, order = np.zeros(windows, np.int64), np.zeros(windows, np.int64)
        ints, floats = identity(self.kind, windows * self.width)
        if self._registered:
            kept = len(self._lengths)
            lengths[:kept], order[:kept] = self._lengths, self._order
            ints[:, : kept * self.width], floats[:, : kept * self.width] = self._held_ints, self._held_floats
        self._lengths, self._order, self._held_ints, self._held_floats = lengths, order, ints, floats

    @property
    def bytes_held(self) -> int:
        own = (self._held_ints, self._held_floats, self._lengths, self._order)
        return super().bytes_held + sum(array.nbytes for array in own)

    def int_arrays(self) -> list[Ints]:
        self._renew()  # the caller changes the codes, so the ranks of the last slices become invalid
        return [self._ints]

    def insert_from(self, ints: Ints, floats: Floats, rooms: Ints, ranks: Ints) -> None:
        needed = self.after - min(self.first, self._oldest()) + len(rooms)
        if needed > self._room:
            self._move(None, self.width, 1 << (needed - 1).bit_length())
        super().insert_from(ints, floats, rooms, ranks)
        self._ranks = ranks

    def _oldest(self) -> int:
        """The first slice of the longest registered window. It may have been evicted, but it is still in the ring."""
        longest = int(self._lengths[self._order[self._registered - 1]]) if self._registered else 0
        return int(self._clock[NOW]) - longest if longest else self.after

    def evict(self, before: int) -> None:
        """Evicts slices. Slices that have not entered yet enter first, because they may need evicted slices."""
        if self._registered and before > self._oldest() and self._clock[NOW] < self.after:
            pass_time, _ = self._one if self.width == 1 else self._many
            pass_time(
                int(self.kind.operation), self._ints, self._floats, self._held_ints, self._held_floats, self._room - 1,
                self.width, self._lengths, self._order[: self._registered], self._clock, self.after, self._ranks,
                self.counter,
            )  # fmt: skip
        super().evict(before)

    def answer(
        self, starts: Ints, ends: Ints, ranks: Ints, groups: int | None = None, windows: Ints | None = None
    ) -> tuple[Ints, Floats]:
        count, groups = len(starts), self.width if groups is None else groups
        windows = np.zeros(count, np.int64) if windows is None else windows
        highest = int(windows.max(initial=0))
        if highest >= len(self._lengths):
            self._make_room(2 * highest + 1)
        ints, floats = identity(self.kind, count * groups)
        _, answer = self._one if self.width == groups == 1 else self._many
        self._registered = answer(
            int(self.kind.operation), self._ints, self._floats, self._held_ints, self._held_floats, self._room - 1,
            self.width, groups, self._lengths, self._order, self._registered, self._clock, starts, ends,
            windows, ints, floats, ranks, self.counter,
        )  # fmt: skip
        shape = count, groups
        return ints.reshape(self.kind.int_fields, *shape), floats.reshape(self.kind.float_fields, *shape)

    def drop_window(self, window: int) -> None:
        """Removes a window from the registered ones."""
        if window < len(self._lengths) and self._lengths[window]:
            kept = [other for other in self._order[: self._registered].tolist() if other != window]
            self._registered = len(kept)
            self._order[: len(kept)] = kept
            self._lengths[window] = 0
