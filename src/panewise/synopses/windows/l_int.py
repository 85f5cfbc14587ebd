"""L-INT: states over intervals that begin at a landmark or end just before one, in classes of window widths.

Class k has the windows of 2^k to 2^(k+1) - 1 slices. Its landmarks are the slices whose number is a multiple of 2^k. So
every window of the class contains a landmark, less than 2^k slices after its start, and is the union of two intervals:

    landmark             L                 L + 2^k
    window       [-------|------------------------)
                 before[s]      since[L][e - 1]

Invariant, for each class in use and all slices inserted before the last answer: `before[s]` is the combination of the
slices from s up to the next landmark, computed when that landmark is reached. `since[L][i]` is the combination of the
slices from landmark L to slice i, for the last two landmarks up to i; even and odd landmarks have an array each. No
window reaches further back.

An answer costs at most one combination, whatever its width. A slice that enters costs three combinations per class in
use, amortised, because `before` is computed for a whole block at once. A class is made when a window of its widths is
first asked for, and dropped with the last sliding window that used it. For any associative state, older states on the
left. Windows may be historical, and by rows or by time. Space: three states per slice held and class.

Source: Arasu and Widom 2004, section 3.1.2 (figure 5, theorems 3.3 and 3.4), with the ratio c = 2 of widths in a class.
Because the first landmark after a start is used, the paper's longer intervals before a landmark are not needed.
"""

from __future__ import annotations

import numpy as np

from panewise.aggregates.kernels import combine_run
from panewise.aggregates.matrix import identity
from panewise.aggregates.states import StateKind
from panewise.arrays import Floats, Ints
from panewise.loops import compiled_loop
from panewise.synopses.counting import count_operations, loop_for, new_counter
from panewise.synopses.single_states import slot_loops
from panewise.synopses.slice_ring import SliceRing, copy_states

CLASSES = 63


@compiled_loop
def _note_classes(starts: Ints, ends: Ints, windows: Ints, noted: Ints) -> int:
    """Notes which classes each sliding window uses, one bit per class. Returns the bits of all classes used."""
    used = 0
    for q in range(starts.shape[0]):
        length, level = ends[q] - starts[q], 0
        while length >> (level + 1) > 0:
            level += 1
        if level > 0:  # a window of one slice, or none, needs no class
            bit = 1 << level
            used |= bit
            noted[windows[q]] |= bit
    return used


@compiled_loop
def _extend(
    operation: int, ints: Ints, floats: Floats, class_ints: Ints, class_floats: Floats, base: int, level: int,
    room: int, width: int, first: int, begin: int, end: int, anew: bool, ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """Adds the slices [begin, end) to the class whose three rings start at slot `base`."""
    step, one = 1 << level, min(1, width)
    for number in range(begin, end):
        slot = (number & (room - 1)) * width
        newest = (number >> level) & 1
        for which in range(2):
            since = base + (1 + which) * room * width
            if (number == begin and anew) or (which == newest and (number & (step - 1)) == 0):
                copy_states(class_ints, class_floats, since + slot, ints, floats, slot, width)
            else:
                previous = since + ((number - 1) & (room - 1)) * width
                copy_states(class_ints, class_floats, since + slot, class_ints, class_floats, previous, width)
                combine_run(operation, class_ints, class_floats, since + slot, ints, floats, slot, width, ranks)
                count_operations(counter, one)
        if ((number + 1) & (step - 1)) == 0:
            copy_states(class_ints, class_floats, base + slot, ints, floats, slot, width)
            for earlier in range(number - 1, max(number - step, first - 1), -1):
                place = (earlier & (room - 1)) * width
                after = base + ((earlier + 1) & (room - 1)) * width
                copy_states(class_ints, class_floats, base + place, ints, floats, place, width)
                combine_run(
                    operation, class_ints, class_floats, base + place, class_ints, class_floats, after, width, ranks
                )
                count_operations(counter, one)


@compiled_loop
def _answer(
    operation: int, ints: Ints, floats: Floats, class_ints: Ints, class_floats: Floats, places: Ints, room: int,
    width: int, groups: int, starts: Ints, ends: Ints, result_ints: Ints, result_floats: Floats, ranks: Ints,
    counter: Ints,
) -> None:  # fmt: skip
    """Answers all windows into results that hold the identity. `places` has the position of each class held."""
    one = min(1, width)
    for q in range(starts.shape[0]):
        start, end, target = starts[q], ends[q], q * groups
        first = (start & (room - 1)) * width
        if end - start < 2:
            if start < end:
                copy_states(result_ints, result_floats, target, ints, floats, first, groups)
            continue
        level = 1
        while (end - start) >> (level + 1) > 0:
            level += 1
        step = 1 << level
        base = places[level] * 3 * room * width
        landmark = (start + step - 1) & -step
        since = base + (1 + ((landmark >> level) & 1)) * room * width + ((end - 1) & (room - 1)) * width
        if landmark == start:
            copy_states(result_ints, result_floats, target, class_ints, class_floats, since, groups)
        else:
            copy_states(result_ints, result_floats, target, class_ints, class_floats, base + first, groups)
            combine_run(operation, result_ints, result_floats, target, class_ints, class_floats, since, groups, ranks)
            count_operations(counter, one)


class LInt(SliceRing):
    """The ring of slices, and three rings for each class in use."""

    _class_ints: Ints
    _class_floats: Floats
    _reached: Ints

    def __init__(self, kind: StateKind, width: int) -> None:
        super().__init__(kind, width)
        self.counter = new_counter()
        self.choose_loops(counted=False)
        self._noted = np.zeros(1, np.int64)  # per sliding window, one bit for each class that it used
        self._levels: list[int] = []  # the classes held
        self._hold([])

    def choose_loops(self, counted: bool) -> None:
        self._many = loop_for(_extend, self.kind, counted), loop_for(_answer, self.kind, counted)
        slots = slot_loops(self.kind)
        self._one = loop_for(_extend, self.kind, counted, **slots), loop_for(_answer, self.kind, counted, **slots)

    def _hold(self, levels: list[int]) -> None:
        """Holds these classes from now on. Classes held before are copied, the others are empty."""
        size = 3 * self._room * self.width
        ints, floats = identity(self.kind, len(levels) * size)
        reached = np.full(len(levels), -1, np.int64)  # slices before this one are in the class; -1: none
        for new, level in enumerate(levels):
            if level in self._levels:
                old, here = self._levels.index(level), slice(new * size, (new + 1) * size)
                ints[:, here] = self._class_ints[:, old * size : (old + 1) * size]
                floats[:, here] = self._class_floats[:, old * size : (old + 1) * size]
                reached[new] = self._reached[old]
        self._class_ints, self._class_floats, self._reached, self._levels = ints, floats, reached, levels
        self._places = np.full(CLASSES, -1, np.int64)
        self._places[levels] = np.arange(len(levels))

    def _renew(self) -> None:
        levels, self._levels = self._levels, []
        self._hold(levels)

    @property
    def classes(self) -> list[tuple[int, int]]:
        """The least and greatest width of each class held."""
        return [(1 << level, (2 << level) - 1) for level in self._levels]

    @property
    def bytes_held(self) -> int:
        return super().bytes_held + self._class_ints.nbytes + self._class_floats.nbytes

    def int_arrays(self) -> list[Ints]:
        return [self._ints, self._class_ints]

    def _bring_up_to_date(self, ranks: Ints) -> None:
        extend = (self._one if self.width == 1 else self._many)[0]
        for place in range(len(self._levels)):
            reached = int(self._reached[place])
            begin, anew = max(reached, self.first), reached < self.first
            base = place * 3 * self._room * self.width
            if begin < self.after:
                extend(
                    int(self.kind.operation), self._ints, self._floats, self._class_ints, self._class_floats, base,
                    self._levels[place], self._room, self.width, self.first, begin, self.after, anew, ranks,
                    self.counter,
                )  # fmt: skip
            self._reached[place] = self.after

    def answer(
        self, starts: Ints, ends: Ints, ranks: Ints, groups: int | None = None, windows: Ints | None = None
    ) -> tuple[Ints, Floats]:
        count, groups = len(starts), self.width if groups is None else groups
        windows = np.zeros(count, np.int64) if windows is None else windows
        highest = int(windows.max(initial=0))
        if highest >= len(self._noted):
            self._noted = np.concatenate([self._noted, np.zeros(highest + 1, np.int64)])
        used = _note_classes(starts, ends, windows, self._noted)
        missing = [level for level in range(1, CLASSES) if used >> level & 1 and level not in self._levels]
        if missing:
            self._hold(sorted(self._levels + missing))
        self._bring_up_to_date(ranks)
        ints, floats = identity(self.kind, count * groups)
        answer = (self._one if self.width == groups == 1 else self._many)[1]
        answer(
            int(self.kind.operation), self._ints, self._floats, self._class_ints, self._class_floats, self._places,
            self._room, self.width, groups, starts, ends, ints, floats, ranks, self.counter,
        )  # fmt: skip
        shape = count, groups
        return ints.reshape(self.kind.int_fields, *shape), floats.reshape(self.kind.float_fields, *shape)

    def drop_window(self, window: int) -> None:
        """Drops the classes that no other sliding window uses."""
        if window < len(self._noted):
            self._noted[window] = 0
        used = int(np.bitwise_or.reduce(self._noted))
        kept = [level for level in self._levels if used >> level & 1]
        if kept != self._levels:
            self._hold(kept)
