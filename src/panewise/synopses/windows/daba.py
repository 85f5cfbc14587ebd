"""DABA, the de-amortised banker's aggregator: two stacks whose flip is spread over all pushes and pops.

Six pointers cut the slices of a sliding window into five lists. `agg[p]` is, for a slice p in three of them, the
combination of

         F          L          R          A          B          E
         |----------|----------|----------|----------|----------|
           [p, B)     [p, R)                [p, B)

Three more combinations are kept: `back` of [B, E), `turned` of [R, B), and `mended` of [A, B), which is agg[A]. F is
the window's start and E its end. B splits the front from the back, as in two stacks, and the window's answer is agg[F]
combined with `back`. When the front is not longer than the back ("flip"), the back joins the front. Then L, R and A
walk over the front and repair its states: each push or pop moves L and A by one towards each other ("shrink": agg[L] is
combined with `turned`, the slice before A with `mended`). When they have met at R, all three move on together
("shift"). They reach B before the front is used up. Invariant: L to R is as long as R to A, and the front is longer
than the back by one more than the distance from L to B. The loops call the pointers front, left, right, turn, split and
end.

A slide costs 4 combinations amortised and 6 at worst: 1 for the push, 2 for the repair after each push and pop, 1 for
the answer. (As first published 5 and 8, because `turned` was combined each time; DABA Lite keeps it.) For any
associative state: the older state stays on the left. An instance per sliding window answers one range; ranges share
only the slices. Windows by rows or by time, historical ones too. A slide of several slices costs as many pushes and
pops. A window that moves backwards starts again. Space: besides the slices, a ring of states per sliding window. Pops
are delayed until the window is asked for again. They may repair states with slices already evicted, but such states are
popped before they are read. Source: Tangwongsan, Hirzel, Schneider 2017 and 2021; Shein and Chrysanthis 2020, section
2.2 and table 2.
"""

from __future__ import annotations

from typing import Any

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
    join_all,
    join_backwards,
    unsigned,
)


@compiled_loop
def _shrink_single(
    ints: Ints, floats: Floats, mask: int, area_ints: Ints, area_floats: Floats, base: int, area_mask: int, left: int,
    middle: int, turned: Any, mended: Any,
) -> Any:  # fmt: skip
    """One shrink: extends the states at left and before `middle` (the pointer turn) to split. Returns the latter."""
    here, there = unsigned(base + (left & area_mask)), unsigned(base + ((middle - 1) & area_mask))
    write_state(area_ints, area_floats, here, join_states(read_state(area_ints, area_floats, here), turned))
    result = join_states(read_state(ints, floats, unsigned((middle - 1) & mask)), mended)
    write_state(area_ints, area_floats, there, result)
    return result


@compiled_loop
def _answer_single(
    ints: Ints, floats: Floats, mask: int, pointers: Ints, areas: Ints, area_ints: Ints, area_floats: Floats,
    single_ints: Ints, single_floats: Floats, none_ints: Ints, none_floats: Floats, starts: Ints, ends: Ints,
    windows: Ints, result_ints: Ints, result_floats: Floats, done: int, counter: Ints,
) -> int:  # fmt: skip
    """Answers for one group. Pointers and states stay in registers while consecutive answers are of one window.

    A stretch is answered phase by phase: within a phase of shrinks or of shifts, no step needs a test.
    """
    q, steady, w, count = done, done, done - done, starts.shape[0]
    tested, one = steady, min(1, mask)
    none = read_state(none_ints, none_floats, unsigned(0))
    while q < count:
        if windows.shape[0] > 0:
            w = windows[q]
        if w >= areas.shape[1]:
            return q
        front, left, right, turn, split, end = (
            pointers[0, w], pointers[1, w], pointers[2, w], pointers[3, w], pointers[4, w], pointers[5, w]
        )  # fmt: skip
        base, area_mask = areas[0, w], areas[1, w] - 1
        back = read_state(single_ints, single_floats, unsigned(2 * w))
        turned = read_state(single_ints, single_floats, unsigned(2 * w + 1))
        mended = none
        if turn < split:
            mended = read_state(area_ints, area_floats, unsigned(base + (turn & area_mask)))
        while q < count and (windows.shape[0] == 0 or windows[q] == w):
            s, e = starts[q], ends[q]
            if e - s > area_mask + 1:
                break
            if s < front or s >= end or e < end:
                front = left = right = turn = split = end = s
                back = none
            elif s == front + 1 and e == end + 1:
                if q >= tested:
                    most = min(STRETCH, count - q)
                    tested = q + most
                    if is_steady(starts, ends, windows, q, most):
                        steady = tested
                if q < steady:
                    slides = min(steady - q, (right - left if left < right else split - left) // 2)
                    unjoined = (one if split == end else 0) + (one if turn == split and left < right else 0)
                    count_operations(counter, (6 if left < right else 2) * slides - unjoined)
                    if left < right:
                        # A slice of the front is repaired before it becomes the oldest, so all are repaired first.
                        join_all(area_ints, area_floats, base, area_mask, left, left + 2 * slides, turned)
                        mended = join_backwards(
                            ints, floats, mask, area_ints, area_floats, base, area_mask, turn - 2 * slides, turn, mended
                        )
                        left, turn = left + 2 * slides, turn - 2 * slides
                    else:
                        left, right, turn = left + 2 * slides, right + 2 * slides, turn + 2 * slides
                    back = answer_stretch(
                        ints, floats, mask, end, area_ints, area_floats, base, area_mask, s, back, result_ints,
                        result_floats, q, slides,
                    )  # fmt: skip
                    if slides > 0:
                        q += slides
                        front, end = front + slides, end + slides
                        continue
            while front < s or end < e:
                if front < s:
                    front += 1
                else:
                    count_operations(counter, one if split < end else 0)
                    back = join_states(back, read_state(ints, floats, unsigned(end & mask)))
                    end += 1
                if front == split:
                    if split < end:  # the window has a single slice
                        write_state(area_ints, area_floats, unsigned(base + (split & area_mask)), back)
                    left = right = turn = split = end
                    back = none
                    continue
                if left == split:
                    left, turn, split = front, end, end
                    turned, back, mended = back, none, none
                if left == right:
                    left, right, turn = left + 1, right + 1, turn + 1
                else:
                    count_operations(counter, 2 * one if turn < split else one)
                    mended = _shrink_single(
                        ints, floats, mask, area_ints, area_floats, base, area_mask, left, turn, turned, mended
                    )
                    left, turn = left + 1, turn - 1
            answer = none
            if s < e:
                answer = read_state(area_ints, area_floats, unsigned(base + (s & area_mask)))
                if split < end:
                    count_operations(counter, one)
                    answer = join_states(answer, back)
            write_state(result_ints, result_floats, unsigned(q), answer)
            q += 1
        pointers[0, w], pointers[1, w], pointers[2, w] = front, left, right
        pointers[3, w], pointers[4, w], pointers[5, w] = turn, split, end
        write_state(single_ints, single_floats, unsigned(2 * w), back)
        write_state(single_ints, single_floats, unsigned(2 * w + 1), turned)
        if q < count and (windows.shape[0] == 0 or windows[q] == w):
            return q
    return q


@compiled_loop
def _repair(
    operation: int, ints: Ints, floats: Floats, mask: int, width: int, pointers: Ints, w: int, area_ints: Ints,
    area_floats: Floats, base: int, area_mask: int, single_ints: Ints, single_floats: Floats, ranks: Ints,
    counter: Ints,
) -> None:  # fmt: skip
    """The repair step after every push and every pop: flip, shift or shrink."""
    front, left, right, turn, split, end = (
        pointers[0, w], pointers[1, w], pointers[2, w], pointers[3, w], pointers[4, w], pointers[5, w]
    )  # fmt: skip
    back, turned, one = 2 * w * width, (2 * w + 1) * width, min(1, mask)
    if front == split:
        if split < end:  # the window has a single slice
            copy_states(
                area_ints, area_floats, (base + (split & area_mask)) * width, single_ints, single_floats, back, width
            )
        left = right = turn = split = end
    else:
        if left == split:
            copy_states(single_ints, single_floats, turned, single_ints, single_floats, back, width)
            left, turn, split = front, end, end
        if left == right:
            left, right, turn = left + 1, right + 1, turn + 1
        else:
            here, there = (base + (left & area_mask)) * width, (base + ((turn - 1) & area_mask)) * width
            after = (base + (turn & area_mask)) * width
            combine_run(operation, area_ints, area_floats, here, single_ints, single_floats, turned, width, ranks)
            count_operations(counter, one)
            copy_states(area_ints, area_floats, there, ints, floats, ((turn - 1) & mask) * width, width)
            if turn < split:
                combine_run(operation, area_ints, area_floats, there, area_ints, area_floats, after, width, ranks)
                count_operations(counter, one)
            left, turn = left + 1, turn - 1
    pointers[1, w], pointers[2, w], pointers[3, w], pointers[4, w] = left, right, turn, split


@compiled_loop
def _answer(
    operation: int, ints: Ints, floats: Floats, mask: int, width: int, groups: int, pointers: Ints, areas: Ints,
    area_ints: Ints, area_floats: Floats, single_ints: Ints, single_floats: Floats, none_ints: Ints,
    none_floats: Floats, starts: Ints, ends: Ints, windows: Ints, result_ints: Ints, result_floats: Floats, done: int,
    ranks: Ints, counter: Ints,
) -> int:  # fmt: skip
    """Answers from number `done` on. Returns the first number not answered for lack of room, or the count."""
    q, w, zero, one, count = done, done - done, done - done, min(1, mask), starts.shape[0]
    while q < count:
        if windows.shape[0] > 0:
            w = windows[q]
        if w >= areas.shape[1] or ends[q] - starts[q] > areas[1, w]:
            return q
        s, e, base, area_mask = starts[q], ends[q], areas[0, w], areas[1, w] - 1
        back = 2 * w * width
        if s < pointers[0, w] or s >= pointers[5, w] or e < pointers[5, w]:
            pointers[:, w] = s
        while pointers[0, w] < s or pointers[5, w] < e:
            if pointers[0, w] < s:
                pointers[0, w] += 1
            else:
                source = (pointers[5, w] & mask) * width
                if pointers[4, w] < pointers[5, w]:
                    combine_run(operation, single_ints, single_floats, back, ints, floats, source, width, ranks)
                    count_operations(counter, one)
                else:
                    copy_states(single_ints, single_floats, back, ints, floats, source, width)
                pointers[5, w] += 1
            _repair(
                operation, ints, floats, mask, width, pointers, w, area_ints, area_floats, base, area_mask,
                single_ints, single_floats, ranks, counter,
            )  # fmt: skip
        if s == e:
            for j in range(groups):
                copy_states(result_ints, result_floats, q * groups + j, none_ints, none_floats, zero, one)
        else:
            oldest = (base + (s & area_mask)) * width
            copy_states(result_ints, result_floats, q * groups, area_ints, area_floats, oldest, groups)
            if pointers[4, w] < e:
                combine_run(
                    operation, result_ints, result_floats, q * groups, single_ints, single_floats, back, groups, ranks
                )
                count_operations(counter, one)
        q += 1
    return q


class DABA(PerWindowAreas):
    """Per window six pointers, the states `back` and `turned`, and the combinations `agg` in its area."""

    POINTERS = 6
    SINGLES = 2
    LOOPS = _repair, _answer
    SINGLE_LOOPS = _shrink_single, join_all, join_backwards, answer_stretch, _answer_single
