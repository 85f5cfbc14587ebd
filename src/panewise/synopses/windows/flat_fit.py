"""FlatFIT: each position has a partial over several slices, and a pointer past these slices.

Invariant: `fit[i]` is the combination of the slices [i, pointer[i]); at first that is slice i alone. To answer [start,
end), the pointers are followed from `start`. Then, from the last visited position back to the first, each partial is
combined with the next one, and its pointer set to `end`. The first partial is the answer, and the next answer visits
only two or three positions:

    slice        4    5    6    7    8    9          answer [4, 9): 4 -> 8 -> 9, and afterwards 4 -> 9
    pointer      8    8    8    8    9               answer [5, 10): 5 -> 8 -> 9 -> 10, and afterwards 8 -> 10, 5 -> 10

Once in as many slides as the window has slices, no pointer skips anything ("window reset"), and all slices are visited.
Insert O(1); an answer costs 3 combinations amortised, at worst one per slice of the window (Shein and Chrysanthis 2020,
section 2.2 and table 2). For any associative state, commutative or not: older states stay on the left. One structure
serves all ranges, with 3 combinations each. It is meant for windows whose ends ascend, by rows or by time. A window
that ends before a previous one is answered too, but slice by slice where pointers lead past its end, so historical
windows gain nothing. Space: the slices, and a state and a pointer per slice of the longest window.

States and pointers are in rings with room for the longest window, and no pointer leads further than that. So a pointer
left from a slice one ring earlier does not lead past the slice that now has its place, and the pointer of a slice one
ring later leads past the end of any window here. In both cases its value alone shows that it must not be followed.
"""

from __future__ import annotations

import numpy as np

from panewise.aggregates.kernels import combine_run
from panewise.aggregates.matrix import identity
from panewise.aggregates.states import StateKind
from panewise.arrays import Floats, Ints
from panewise.loops import compiled_loop
from panewise.synopses.answer_buffer import AnswerBuffer
from panewise.synopses.counting import count_operations, loop_for, new_counter
from panewise.synopses.single_states import join_states, read_state, single_loops, write_state
from panewise.synopses.slice_ring import LEAST_ROOM, SliceRing, copy_states

BLOCK = 256  # windows that are tested together for sliding by one slice each


@compiled_loop
def _visit(pointers: Ints, start: int, end: int, visited: Ints) -> int:
    """Follows the pointers from `start` to `end`. Returns the number of positions, or -1 if one leads too far."""
    mask = pointers.shape[0] - 1
    depth, position = 0, start
    while position < end:
        visited[depth] = position
        depth += 1
        position = max(pointers[position & mask], position + 1)
    return depth if position == end else -1


@compiled_loop
def _answer_apart(
    operation: int, ints: Ints, floats: Floats, mask: int, fit_ints: Ints, fit_floats: Floats, pointers: Ints,
    width: int, groups: int, start: int, end: int, result_ints: Ints, result_floats: Floats, target: int, ranks: Ints,
    counter: Ints,
) -> None:  # fmt: skip
    """Answers a window that ends before a previous one; pointers that lead past its end are ignored."""
    fit_mask = pointers.shape[0] - 1
    position, one = start, min(1, width)
    while position < end:
        slot, fit_slot, reach = (position & mask) * width, (position & fit_mask) * width, pointers[position & fit_mask]
        skips = position < reach <= end
        if position == start and skips:
            copy_states(result_ints, result_floats, target, fit_ints, fit_floats, fit_slot, groups)
        elif position == start:
            copy_states(result_ints, result_floats, target, ints, floats, slot, groups)
        elif skips:
            count_operations(counter, one)
            combine_run(operation, result_ints, result_floats, target, fit_ints, fit_floats, fit_slot, groups, ranks)
        else:
            count_operations(counter, one)
            combine_run(operation, result_ints, result_floats, target, ints, floats, slot, groups, ranks)
        position = reach if skips else position + 1


@compiled_loop
def _answer(
    operation: int, ints: Ints, floats: Floats, mask: int, fit_ints: Ints, fit_floats: Floats, pointers: Ints,
    visited: Ints, untouched: Ints, width: int, groups: int, starts: Ints, ends: Ints, result_ints: Ints,
    result_floats: Floats, ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """Answers all windows, in the order given, into results that hold the identity."""
    fit_mask = pointers.shape[0] - 1
    for q in range(starts.shape[0]):
        start, end, target = starts[q], ends[q], q * groups
        if start >= end:
            continue
        depth = _visit(pointers, start, end, visited)
        if depth < 0:
            _answer_apart(
                operation, ints, floats, mask, fit_ints, fit_floats, pointers, width, groups, start, end, result_ints,
                result_floats, target, ranks, counter,
            )  # fmt: skip
            continue
        untouched[0] = max(untouched[0], visited[depth - 1] + 1)
        later = -1
        for k in range(depth - 1, -1, -1):
            position = visited[k]
            slot = (position & fit_mask) * width
            if pointers[position & fit_mask] <= position:
                copy_states(fit_ints, fit_floats, slot, ints, floats, (position & mask) * width, width)
            if later >= 0:
                combine_run(operation, fit_ints, fit_floats, slot, fit_ints, fit_floats, later, width, ranks)
            pointers[position & fit_mask] = end
            later = slot
        count_operations(counter, depth - 1)
        copy_states(result_ints, result_floats, target, fit_ints, fit_floats, later, groups)


@compiled_loop
def _go_up_by(numbers: Ints, step: int) -> bool:
    """Whether each number is `step` more than the one before."""
    astray = numbers[0] ^ numbers[0]
    for k in range(numbers.shape[0]):
        astray |= numbers[k] - (numbers[0] + step * k)
    return bool(astray == 0)


@compiled_loop
def _slide_single(
    ints: Ints, floats: Floats, mask: int, fit_ints: Ints, fit_floats: Floats, pointers: Ints, anchor: int, reach: int,
    starts: Ints, ends: Ints, q: int, result_ints: Ints, result_floats: Floats, counter: Ints,
) -> tuple[int, int]:  # fmt: skip
    """Answers window q and those after it as long as their first pointer leads to the anchor.

    Returns the first window not answered and the end of the anchor's partial. Until the next reset all new slices are
    combined into the partial of the anchor, so its state stays in a register. Places are unsigned as in `per_window`.
    """
    fit_mask = pointers.shape[0] - 1
    first, old, one = q, reach, min(1, anchor)
    state = read_state(fit_ints, fit_floats, np.uint64(anchor & fit_mask))
    while q < starts.shape[0]:
        start, end = starts[q], ends[q]
        place = np.uint64(start & fit_mask)
        if start >= anchor or reach > end or pointers[place] != anchor:
            break
        slot, fit_slot = reach & mask, start & fit_mask
        count = min(BLOCK, starts.shape[0] - q, anchor - start, mask + 1 - slot, fit_mask + 1 - fit_slot)
        if (
            end == reach + 1
            and _go_up_by(starts[q : q + count], one)
            and _go_up_by(ends[q : q + count], one)
            and _go_up_by(pointers[fit_slot : fit_slot + count], one - one)
        ):
            for k in range(count):
                state = join_states(state, read_state(ints, floats, np.uint64(slot + k)))
                write_state(result_ints, result_floats, np.uint64(q + k), state)
            for k in range(count):
                newer = read_state(result_ints, result_floats, np.uint64(q + k))
                whole = join_states(read_state(fit_ints, fit_floats, np.uint64(fit_slot + k)), newer)
                write_state(result_ints, result_floats, np.uint64(q + k), whole)
            q += count
            reach += count
            continue
        while reach < end:
            state = join_states(state, read_state(ints, floats, np.uint64(reach & mask)))
            reach += 1
        whole = join_states(read_state(fit_ints, fit_floats, place), state)
        write_state(result_ints, result_floats, np.uint64(q), whole)
        q += 1
    write_state(fit_ints, fit_floats, np.uint64(anchor & fit_mask), state)
    pointers[anchor & fit_mask] = reach
    count_operations(counter, q - first + reach - old)
    return q, reach


@compiled_loop
def _reset_single(
    ints: Ints, floats: Floats, mask: int, fit_ints: Ints, fit_floats: Floats, pointers: Ints, start: int, end: int,
    counter: Ints,
) -> None:  # fmt: skip
    """A window reset: no pointer skips anything, and each slice is combined with all later ones of the window."""
    fit_mask = pointers.shape[0] - 1
    total = read_state(ints, floats, np.uint64((end - 1) & mask))
    write_state(fit_ints, fit_floats, np.uint64((end - 1) & fit_mask), total)
    pointers[(end - 1) & fit_mask] = end
    for position in range(end - 2, start - 1, -1):
        place = np.uint64(position & fit_mask)
        total = join_states(read_state(ints, floats, np.uint64(position & mask)), total)
        write_state(fit_ints, fit_floats, place, total)
        pointers[place] = end
    count_operations(counter, end - 1 - start)


@compiled_loop
def _compress_single(
    ints: Ints, floats: Floats, mask: int, fit_ints: Ints, fit_floats: Floats, pointers: Ints, visited: Ints,
    depth: int, end: int, counter: Ints,
) -> None:  # fmt: skip
    """From the last visited position to the first, combines each partial with the next one."""
    fit_mask = pointers.shape[0] - 1
    total = read_state(ints, floats, np.uint64(visited[0] & mask))  # only sets the type; the loop replaces it
    for k in range(depth - 1, -1, -1):
        place = np.uint64(visited[k] & fit_mask)
        held = read_state(fit_ints, fit_floats, place)
        if pointers[place] <= visited[k]:
            held = read_state(ints, floats, np.uint64(visited[k] & mask))
        total = held if k == depth - 1 else join_states(held, total)
        write_state(fit_ints, fit_floats, place, total)
        pointers[place] = end
    count_operations(counter, depth - 1)


@compiled_loop
def _answer_single(
    operation: int, ints: Ints, floats: Floats, mask: int, fit_ints: Ints, fit_floats: Floats, pointers: Ints,
    visited: Ints, untouched: Ints, width: int, groups: int, starts: Ints, ends: Ints, result_ints: Ints,
    result_floats: Floats, ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """Answers all windows for one group. The anchor is where the first pointer of the last window led."""
    fit_mask = pointers.shape[0] - 1
    anchor, reach, q = -1, -1, 0
    while q < starts.shape[0]:
        start, end = starts[q], ends[q]
        if start >= end:
            q += 1
            continue
        if start < anchor and reach <= end and pointers[start & fit_mask] == anchor:
            q, reach = _slide_single(
                ints, floats, mask, fit_ints, fit_floats, pointers, anchor, reach, starts, ends, q, result_ints,
                result_floats, counter,
            )  # fmt: skip
            continue
        if start >= untouched[0]:
            _reset_single(ints, floats, mask, fit_ints, fit_floats, pointers, start, end, counter)
            untouched[0] = end
        else:
            depth = _visit(pointers, start, end, visited)
            if depth < 0:
                _answer_apart(
                    operation, ints, floats, mask, fit_ints, fit_floats, pointers, width, groups, start, end,
                    result_ints, result_floats, q, ranks, counter,
                )  # fmt: skip
                q += 1
                continue
            untouched[0] = max(untouched[0], visited[depth - 1] + 1)
            _compress_single(ints, floats, mask, fit_ints, fit_floats, pointers, visited, depth, end, counter)
            if depth > 1:
                anchor, reach = visited[1], end
        whole = read_state(fit_ints, fit_floats, np.uint64(start & fit_mask))
        write_state(result_ints, result_floats, np.uint64(q), whole)
        q += 1


class FlatFit(SliceRing):
    """The ring of slices, and a ring of longer partials with their pointers."""

    def __init__(self, kind: StateKind, width: int) -> None:
        super().__init__(kind, width)
        self.counter = new_counter()
        self.choose_loops(counted=False)
        self._buffer = AnswerBuffer(kind)
        self._make_room(LEAST_ROOM)

    def choose_loops(self, counted: bool) -> None:
        apart = loop_for(_answer_apart, self.kind, counted)
        self._answer_many = loop_for(_answer, self.kind, counted, _answer_apart=apart)
        self._answer_one = None
        single = single_loops(self.kind)
        if single is not None:
            helpers = {
                loop.__name__: loop_for(loop, self.kind, counted, **single)
                for loop in (_slide_single, _reset_single, _compress_single)
            }
            self._answer_one = loop_for(_answer_single, self.kind, counted, **single, **helpers, _answer_apart=apart)

    def _make_room(self, longest: int) -> None:
        """Makes empty rings with room for windows of up to `longest` slices."""
        room = 1 << (longest - 1).bit_length()
        self._fit_ints, self._fit_floats = identity(self.kind, room * self.width)
        self._pointers = np.full(room, -1, np.int64)
        self._visited = np.empty(room, np.int64)
        self._untouched = np.zeros(1, np.int64)  # the first slice that was never visited

    def _renew(self) -> None:
        self._make_room(len(self._pointers))

    @property
    def bytes_held(self) -> int:
        own = (self._fit_ints, self._fit_floats, self._pointers, self._visited)
        return super().bytes_held + sum(array.nbytes for array in own)

    def int_arrays(self) -> list[Ints]:
        return [self._ints, self._fit_ints]

    def answer(
        self, starts: Ints, ends: Ints, ranks: Ints, groups: int | None = None, windows: Ints | None = None
    ) -> tuple[Ints, Floats]:
        count, groups = len(starts), self.width if groups is None else groups
        lengths = ends - starts
        if lengths.max(initial=0) > len(self._pointers):
            self._make_room(int(lengths.max()))
        # Only empty windows need results that hold the identity: their results are not written.
        if lengths.min(initial=1) > 0:
            ints, floats = self._buffer.arrays(count * groups)
        else:
            ints, floats = identity(self.kind, count * groups)
        answer = self._answer_one if self._answer_one and self.width == groups == 1 else self._answer_many
        answer(
            int(self.kind.operation), self._ints, self._floats, self._room - 1, self._fit_ints, self._fit_floats,
            self._pointers, self._visited, self._untouched, self.width, groups, starts, ends, ints, floats, ranks,
            self.counter,
        )  # fmt: skip
        shape = count, groups
        return ints.reshape(self.kind.int_fields, *shape), floats.reshape(self.kind.float_fields, *shape)

    def drop_window(self, window: int) -> None:
        """All sliding windows share one structure."""
