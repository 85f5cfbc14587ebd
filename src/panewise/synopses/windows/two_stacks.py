"""TwoStacks: a queue of two stacks per sliding window. Slices are popped from the front and pushed to the back.

Invariant: `front[p]`, for slices p from the start a to the split m, is the combination of the slices [p, m), so a pop
only moves on to the next p. `back` is the combination of [m, b). A window is front[a] combined with back:

    slice       a         m         b
           |----|----|----|----|----|          front:  abc  bc  c        back:  de
             a    b    c    d    e

When the front is used up, the slices of the back are combined from right to left into a new front ("flip").

Insert O(1); a slide costs 3 combinations amortised (one for the back, one for the flip, one for the answer), at worst
one per slice of the window. For any associative state: the older state stays on the left. An instance per sliding
window answers one range; ranges share only the slices. Windows by rows or by time, historical ones too. A window that
moves backwards starts again. Space: besides the slices, a ring of states per sliding window, as long as its longest
front. Source: Tangwongsan, Hirzel, Schneider 2017; Shein and Chrysanthis 2020, section 2.2.
"""

from __future__ import annotations

from panewise.aggregates.kernels import combine_run
from panewise.arrays import Floats, Ints
from panewise.loops import compiled_loop
from panewise.synopses.counting import count_operations
from panewise.synopses.single_states import join_states, read_state, write_state
from panewise.synopses.slice_ring import copy_states
from panewise.synopses.windows.per_window import (
    STRETCH,
    PerWindowAreas,
    answer_stretch,
    is_steady,
    join_backwards,
    unsigned,
)


@compiled_loop
def _flip_single(
    ints: Ints, floats: Floats, mask: int, area_ints: Ints, area_floats: Floats, base: int, area_mask: int, s: int,
    b: int, counter: Ints,
) -> None:  # fmt: skip
    """Flips the slices [s, b), at least one, into the front."""
    count_operations(counter, b - s - 1)
    newest = read_state(ints, floats, unsigned((b - 1) & mask))
    write_state(area_ints, area_floats, unsigned(base + ((b - 1) & area_mask)), newest)
    join_backwards(ints, floats, mask, area_ints, area_floats, base, area_mask, s, b - 1, newest)


@compiled_loop
def _answer_single(
    ints: Ints, floats: Floats, mask: int, pointers: Ints, areas: Ints, area_ints: Ints, area_floats: Floats,
    back_ints: Ints, back_floats: Floats, none_ints: Ints, none_floats: Floats, starts: Ints, ends: Ints,
    windows: Ints, result_ints: Ints, result_floats: Floats, done: int, counter: Ints,
) -> int:  # fmt: skip
    """Answers for one group. The back stays in registers while consecutive answers are of one window."""
    q, tested, w, count = done, done, done - done, starts.shape[0]
    one = min(1, mask)
    none = read_state(none_ints, none_floats, unsigned(0))
    while q < count:
        if windows.shape[0] > 0:
            w = windows[q]
        if w >= areas.shape[1]:
            return q
        a, m, b = pointers[0, w], pointers[1, w], pointers[2, w]
        base, area_mask = areas[0, w], areas[1, w] - 1
        back = read_state(back_ints, back_floats, unsigned(w))
        while q < count and (windows.shape[0] == 0 or windows[q] == w):
            s, e = starts[q], ends[q]
            if e - s > area_mask + 1:
                break
            if s < a or s >= b or e < b:
                if s < e:
                    _flip_single(
                        ints, floats, mask, area_ints, area_floats, base, area_mask, s, e, counter
                    )  # fmt: skip
                m = b = e
                back = none
            elif s >= m:
                _flip_single(ints, floats, mask, area_ints, area_floats, base, area_mask, s, b, counter)
                m = b
                back = none
            elif q >= tested and s == a + 1 and e == b + 1:
                most = min(min(STRETCH, count - q), m - s)
                tested = q + most
                if is_steady(starts, ends, windows, q, most):
                    count_operations(counter, 2 * most - (one if m == b else 0))
                    back = answer_stretch(
                        ints, floats, mask, b, area_ints, area_floats, base, area_mask, s, back, result_ints,
                        result_floats, q, most,
                    )  # fmt: skip
                    q += most
                    a, b = a + most, b + most
                    continue
            a = s
            while b < e:
                count_operations(counter, one if b > m else 0)
                back = join_states(back, read_state(ints, floats, unsigned(b & mask)))
                b += 1
            if s == e:
                write_state(result_ints, result_floats, unsigned(q), none)
            else:
                front = read_state(area_ints, area_floats, unsigned(base + (s & area_mask)))
                if m < b:
                    count_operations(counter, one)
                    front = join_states(front, back)
                write_state(result_ints, result_floats, unsigned(q), front)
            q += 1
        pointers[0, w], pointers[1, w], pointers[2, w] = a, m, b
        write_state(back_ints, back_floats, unsigned(w), back)
        if q < count and (windows.shape[0] == 0 or windows[q] == w):
            return q
    return q


@compiled_loop
def _flip(
    operation: int, ints: Ints, floats: Floats, mask: int, width: int, area_ints: Ints, area_floats: Floats, base: int,
    area_mask: int, s: int, b: int, ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """Flips the slices [s, b) into the front."""
    for p in range(b - 1, s - 1, -1):
        place = (base + (p & area_mask)) * width
        copy_states(area_ints, area_floats, place, ints, floats, (p & mask) * width, width)
        if p < b - 1:
            count_operations(counter, b - b + 1)
            before = (base + ((p + 1) & area_mask)) * width
            combine_run(operation, area_ints, area_floats, place, area_ints, area_floats, before, width, ranks)


@compiled_loop
def _answer(
    operation: int, ints: Ints, floats: Floats, mask: int, width: int, groups: int, pointers: Ints, areas: Ints,
    area_ints: Ints, area_floats: Floats, back_ints: Ints, back_floats: Floats, none_ints: Ints, none_floats: Floats,
    starts: Ints, ends: Ints, windows: Ints, result_ints: Ints, result_floats: Floats, done: int, ranks: Ints,
    counter: Ints,
) -> int:  # fmt: skip
    """Answers from number `done` on. Returns the first number not answered for lack of room, or the count."""
    q, w, zero, one, count = done, done - done, done - done, min(1, mask), starts.shape[0]
    while q < count:
        if windows.shape[0] > 0:
            w = windows[q]
        if w >= areas.shape[1] or ends[q] - starts[q] > areas[1, w]:
            return q
        s, e, base, area_mask = starts[q], ends[q], areas[0, w], areas[1, w] - 1
        a, m, b = pointers[0, w], pointers[1, w], pointers[2, w]
        if s < a or s >= b or e < b:
            _flip(operation, ints, floats, mask, width, area_ints, area_floats, base, area_mask, s, e, ranks, counter)
            m = b = e
        elif s >= m:
            _flip(operation, ints, floats, mask, width, area_ints, area_floats, base, area_mask, s, b, ranks, counter)
            m = b
        while b < e:
            if b == m:
                copy_states(back_ints, back_floats, w * width, ints, floats, (b & mask) * width, width)
            else:
                count_operations(counter, one)
                combine_run(
                    operation, back_ints, back_floats, w * width, ints, floats, (b & mask) * width, width, ranks
                )
            b += 1
        if s == e:
            for j in range(groups):
                copy_states(result_ints, result_floats, q * groups + j, none_ints, none_floats, zero, one)
        else:
            place = (base + (s & area_mask)) * width
            copy_states(result_ints, result_floats, q * groups, area_ints, area_floats, place, groups)
            if m < b:
                count_operations(counter, one)
                combine_run(
                    operation, result_ints, result_floats, q * groups, back_ints, back_floats, w * width, groups, ranks
                )
        pointers[0, w], pointers[1, w], pointers[2, w] = s, m, b
        q += 1
    return q


class TwoStacks(PerWindowAreas):
    """Per window three pointers (start, split, end), the front in its area, and the back as one state."""

    POINTERS = 3
    LOOPS = _flip, _answer
    SINGLE_LOOPS = join_backwards, _flip_single, answer_stretch, _answer_single
