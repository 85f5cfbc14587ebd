"""The base of techniques that keep an instance per sliding window and move it from position to position.

Each window has a column of `pointers`, the first its start and the last its end, in slices:

          a = start          b = end
    ..|----|----|----|----|----|....          asked for [s, e) with a <= s < b <= e: slices b to e are pushed and
             s                      e         a to s popped; asked for anything else, it starts again at s

One compiled loop computes all answers of a call. At a window that has no column or too little room it stops and returns
the number of the answer; the caller makes room and calls it again. A column of zeros is an empty instance.

With one group, consecutive answers of one window whose starts and ends both move by one slice are a stretch. Loops ask
`is_steady` once for STRETCH answers and then run without tests.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from panewise.aggregates.matrix import NO_INTS, identity
from panewise.aggregates.states import StateKind
from panewise.arrays import Floats, Ints
from panewise.loops import compiled_loop
from panewise.synopses.answer_buffer import AnswerBuffer
from panewise.synopses.counting import loops_for, new_counter
from panewise.synopses.single_states import join_states, read_state, single_loops, write_state
from panewise.synopses.slice_ring import SliceRing

STRETCH = 1024  # answers; few enough that their starts and ends stay in the first-level cache
LEAST_AREA = 16  # states
unsigned: Any = np.uint64  # an unsigned index needs no test for being negative


@compiled_loop
def is_steady(starts: Ints, ends: Ints, windows: Ints, q: int, count: int) -> bool:
    """Whether the answers from q on are of one window, and each starts and ends one slice after the one before."""
    odd = 0  # the loops have no early exit, so that they are vectorised
    start, end = starts[q : q + count], ends[q : q + count]
    first_start, first_end = start[0], end[0]
    for i in range(count):
        odd += (start[i] - i != first_start) | (end[i] - i != first_end)
    if windows.shape[0] > 0:
        window = windows[q : q + count]
        number = window[0]
        for i in range(count):
            odd += window[i] != number
    return odd == 0


@compiled_loop
def join_backwards(
    ints: Ints, floats: Floats, mask: int, area_ints: Ints, area_floats: Floats, base: int, area_mask: int, first: int,
    after: int, state: Any,
) -> Any:  # fmt: skip
    """Writes to the window's area, for each slice of [first, after), its combination with all later ones and `state`.

    It goes from the newest slice to the oldest and returns the last combination. Here and in the loops below, rings are
    traversed in parts that do not wrap around, so that an index only counts on.
    """
    p = after
    while p > first:
        source, place = (p - 1) & mask, (p - 1) & area_mask
        for i in range(min(p - first, source + 1, place + 1)):
            state = join_states(read_state(ints, floats, unsigned(source - i)), state)
            write_state(area_ints, area_floats, unsigned(base + place - i), state)
        p -= min(p - first, source + 1, place + 1)
    return state


@compiled_loop
def join_all(
    area_ints: Ints, area_floats: Floats, base: int, area_mask: int, first: int, after: int, state: Any
) -> None:
    """Appends `state` to the area's state of each of the slices [first, after)."""
    p = first
    while p < after:
        place = base + (p & area_mask)
        count = min(after - p, area_mask + 1 - (p & area_mask))
        for i in range(count):
            older = read_state(area_ints, area_floats, unsigned(place + i))
            write_state(area_ints, area_floats, unsigned(place + i), join_states(older, state))
        p += count


@compiled_loop
def answer_stretch(
    ints: Ints, floats: Floats, mask: int, end: int, area_ints: Ints, area_floats: Floats, base: int, area_mask: int,
    start: int, back: Any, result_ints: Ints, result_floats: Floats, q: int, count: int,
) -> Any:  # fmt: skip
    """Answers `count` windows from the front in the area and a back that grows by a slice each. Returns the back."""
    done = q - q
    while done < count:
        source, place = (end + done) & mask, (start + done) & area_mask
        some = min(count - done, mask + 1 - source, area_mask + 1 - place)
        for i in range(some):
            back = join_states(back, read_state(ints, floats, unsigned(source + i)))
            front = read_state(area_ints, area_floats, unsigned(base + place + i))
            write_state(result_ints, result_floats, unsigned(q + done + i), join_states(front, back))
        done += some
    return back


@compiled_loop
def _longest(starts: Ints, ends: Ints, windows: Ints, longest: Ints) -> None:
    for q in range(starts.shape[0]):
        w = windows[q] if windows.shape[0] > 0 else 0
        longest[w] = max(longest[w], ends[q] - starts[q])


class PerWindow(SliceRing):
    """A ring of partials and a column of pointers per sliding window."""

    POINTERS = 2

    def __init__(self, kind: StateKind, width: int) -> None:
        super().__init__(kind, width)
        self.counter = new_counter()
        self._answers = AnswerBuffer(kind)
        self._pointers: Ints = np.zeros((self.POINTERS, 1), np.int64)
        self.choose_loops(counted=False)
        self._renew()

    def choose_loops(self, counted: bool) -> None:
        """Sets the loops that `_advance` calls."""
        raise NotImplementedError

    def _advance(
        self, starts: Ints, ends: Ints, windows: Ints, groups: int, ints: Ints, floats: Floats, done: int, ranks: Ints
    ) -> int:
        """Answers from number `done` on. Returns the first number not answered for lack of room, or the count."""
        raise NotImplementedError

    def _renew(self) -> None:
        self._pointers[:] = 0

    def drop_window(self, window: int) -> None:
        if window < self._pointers.shape[1]:
            self._pointers[:, window] = 0

    def answer(
        self, starts: Ints, ends: Ints, ranks: Ints, groups: int | None = None, windows: Ints | None = None
    ) -> tuple[Ints, Floats]:
        count, groups = len(starts), self.width if groups is None else groups
        numbers = NO_INTS if windows is None else windows
        ints, floats = self._answers.arrays(count * groups)
        done = self._advance(starts, ends, numbers, groups, ints, floats, 0, ranks)
        while done < count:
            self._make_room(starts[done:], ends[done:], numbers[done:])
            done = self._advance(starts, ends, numbers, groups, ints, floats, done, ranks)
        shape = count, groups
        return ints.reshape(self.kind.int_fields, *shape), floats.reshape(self.kind.float_fields, *shape)

    def _make_room(self, starts: Ints, ends: Ints, windows: Ints) -> None:
        """Makes columns for the windows of these answers."""
        held, needed = self._pointers.shape[1], int(windows.max()) + 1 if len(windows) else 1
        if needed > held:
            pointers = np.zeros((self.POINTERS, max(needed, 2 * held)), np.int64)
            pointers[:, :held] = self._pointers
            self._pointers = pointers


class PerWindowAreas(PerWindow):
    """Adds, per window, a few single states and an area: a ring of states for as many slices as the window was long.

    Areas are parts of one pair of arrays; their sizes are powers of two. A window that outgrows its area gets a new one
    at the end of the arrays and starts again. Abandoned areas take less space than those in use.
    """

    SINGLES = 1  # states per window

    # Loops for many groups and for one group. Each may call those before it; the last one answers.
    LOOPS: tuple[Any, ...]
    SINGLE_LOOPS: tuple[Any, ...]

    def __init__(self, kind: StateKind, width: int) -> None:
        self._none_ints, self._none_floats = identity(kind, 1)
        super().__init__(kind, width)

    @property
    def bytes_held(self) -> int:
        areas = self._area_ints.nbytes + self._area_floats.nbytes
        return super().bytes_held + areas + self._single_ints.nbytes + self._single_floats.nbytes

    def int_arrays(self) -> list[Ints]:
        return [*super().int_arrays(), self._area_ints, self._single_ints]

    def choose_loops(self, counted: bool) -> None:
        self._answer = self._chosen(self.LOOPS, counted)
        single = single_loops(self.kind)
        self._answer_single = None if single is None else self._chosen(self.SINGLE_LOOPS, counted, **single)

    def _chosen(self, loops: tuple[Any, ...], counted: bool, **helpers: Any) -> Any:
        return loops_for(loops, self.kind, counted, **helpers)[loops[-1].__name__]

    def _advance(
        self, starts: Ints, ends: Ints, windows: Ints, groups: int, ints: Ints, floats: Floats, done: int, ranks: Ints
    ) -> int:
        areas = self._pointers, self._areas, self._area_ints, self._area_floats
        states = self._single_ints, self._single_floats, self._none_ints, self._none_floats
        held, mask = (self._ints, self._floats), self._room - 1
        asked = starts, ends, windows, ints, floats, done
        answered: int
        if self.width == groups == 1 and self._answer_single is not None:
            answered = self._answer_single(*held, mask, *areas, *states, *asked, self.counter)
        else:
            operation = int(self.kind.operation)
            answered = self._answer(
                operation, *held, mask, self.width, groups, *areas, *states, *asked, ranks, self.counter
            )
        return answered

    def _renew(self) -> None:
        super()._renew()
        columns = self._pointers.shape[1]
        self._areas: Ints = np.zeros((2, columns), np.int64)  # begin and size of each area, in slices
        self._used = 0
        self._area_ints, self._area_floats = identity(self.kind, 0)
        self._single_ints, self._single_floats = identity(self.kind, columns * self.SINGLES * self.width)

    def _make_room(self, starts: Ints, ends: Ints, windows: Ints) -> None:
        super()._make_room(starts, ends, windows)
        columns = self._pointers.shape[1]
        areas = np.zeros((2, columns), np.int64)
        areas[:, : self._areas.shape[1]] = self._areas
        longest = np.zeros(columns, np.int64)
        _longest(starts, ends, windows, longest)
        for window in np.flatnonzero(longest > areas[1]):
            size = max(LEAST_AREA, 1 << (int(longest[window]) - 1).bit_length())
            areas[:, window] = self._used, size
            self._used += size
            self._pointers[:, window] = 0
        self._areas = areas
        self._area_ints, self._area_floats = self._grown(self._area_ints, self._area_floats, self._used)
        self._single_ints, self._single_floats = self._grown(
            self._single_ints, self._single_floats, columns * self.SINGLES
        )

    def _grown(self, ints: Ints, floats: Floats, states: int) -> tuple[Ints, Floats]:
        """The arrays, or larger copies if they have no room for this many states of `width` groups."""
        held, needed = max(ints.shape[1], floats.shape[1]), states * self.width
        if needed <= held:
            return ints, floats
        more_ints, more_floats = identity(self.kind, max(needed, 2 * held))
        more_ints[:, :held], more_floats[:, :held] = ints, floats
        return more_ints, more_floats
