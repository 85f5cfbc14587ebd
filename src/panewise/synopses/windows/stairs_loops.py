"""The compiled loops of the stairwise structure, which `stairs.py` explains, and the rows of their table.

The structure is one table of integers with a column per window, and arrays of states. The loops observe how windows
move, maintain cores and buffers, and combine answers.
"""

from __future__ import annotations

from panewise.aggregates.kernels import combine_run
from panewise.arrays import Floats, Ints
from panewise.loops import compiled_loop
from panewise.synopses.counting import count_operations
from panewise.synopses.slice_ring import copy_states

# The rows of the table, which has a column per window. First, the observed movement of the window:
SEEN_START, SEEN_END, RANGE, SLIDE, AGREED, MOVES = 0, 1, 2, 3, 4, 5
# then the window whose stair it uses (HOST, -1 if it is loose) and the stair's last position (END -1: to be rebuilt),
HOST, START, END = 6, 7, 8
# then its stair: the stairs below and above (-1: none), the length of pieces, the end of the core [START, CUT), the
# slice where the core's two stacks meet, and whether the newer stack has any pieces,
BELOW, ABOVE, STEP, CUT, FLIP, BACK = 9, 10, 11, 12, 13, 14
# and the first place and the number of places of its chain in the arrays of pieces.
PLACE, ROOM = 15, 16
ROWS = 17
RESTLESS = 8  # after this many moves without two equal steps, a window counts as irregular


@compiled_loop
def _observe(table: Ints, w: int, start: int, end: int) -> bool:
    """Records a position of a window. Returns whether the window is loose and could now get a stair."""
    seen = table[SEEN_END, w]
    if seen >= 0:
        if start != table[SEEN_START, w]:
            table[MOVES, w] += 1
        if end - seen == table[SLIDE, w] > 0 and end - start == table[RANGE, w]:
            table[AGREED, w] += 1
        else:
            table[AGREED, w] = 0
        table[SLIDE, w] = end - seen
    table[RANGE, w] = end - start
    table[SEEN_START, w], table[SEEN_END, w] = start, end
    return bool(table[HOST, w] < 0 and (table[AGREED, w] > 0 or table[MOVES, w] >= RESTLESS))


@compiled_loop
def loosen(table: Ints, stair: int) -> None:
    """Removes a stair and all stairs above it."""
    if table[BELOW, stair] >= 0:
        table[ABOVE, table[BELOW, stair]] = -1
    while stair >= 0:
        table[HOST, stair] = -1
        table[AGREED, stair] = 0
        table[END, stair] = -1
        stair = table[ABOVE, stair]


@compiled_loop
def _lay(
    ints: Ints, floats: Floats, room: int, width: int, table: Ints, stair: int, lengths: Ints, piece_ints: Ints,
    piece_floats: Floats, begin: int, end: int,
) -> None:  # fmt: skip
    """Copies the slices [begin, end) to the pieces of a stair's chain, one slice per piece."""
    mask, place = table[ROOM, stair] - 1, table[PLACE, stair]
    for number in range(begin, end):
        target = place + (number & mask)
        lengths[target] = 1
        source = (number & (room - 1)) * width
        copy_states(piece_ints, piece_floats, target * width, ints, floats, source, width)


@compiled_loop
def _flip(
    operation: int, width: int, table: Ints, stair: int, lengths: Ints, piece_ints: Ints, piece_floats: Floats,
    suffix_ints: Ints, suffix_floats: Floats, visited: Ints, ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """Computes for each piece of the core the combination from this piece to the end of the core."""
    mask, place = table[ROOM, stair] - 1, table[PLACE, stair]
    depth, position = 0, table[START, stair]
    while position < table[CUT, stair]:
        visited[depth] = place + (position & mask)
        position += lengths[visited[depth]]
        depth += 1
    for k in range(depth - 1, -1, -1):
        here = visited[k] * width
        copy_states(suffix_ints, suffix_floats, here, piece_ints, piece_floats, here, width)
        if k < depth - 1:
            later = visited[k + 1] * width
            combine_run(operation, suffix_ints, suffix_floats, here, suffix_ints, suffix_floats, later, width, ranks)
    count_operations(counter, max(depth - 1, 0))
    table[FLIP, stair] = table[CUT, stair]
    table[BACK, stair] = 0


@compiled_loop
def _grow_core(
    operation: int, width: int, table: Ints, stair: int, reach: int, lengths: Ints, piece_ints: Ints,
    piece_floats: Floats, back_ints: Ints, back_floats: Floats, ranks: Ints, counter: Ints,
) -> bool:  # fmt: skip
    """Moves the part of the buffer that fills whole pieces into the core.

    Returns False if the smaller pieces of the buffer do not add up to pieces of this stair's length.
    """
    mask, place, step = table[ROOM, stair] - 1, table[PLACE, stair], table[STEP, stair]
    cut, back, one = table[CUT, stair], stair * width, min(1, width)
    while cut + step <= reach:
        target = place + (cut & mask)
        position = cut + lengths[target]
        while position < cut + step:
            more = place + (position & mask)
            combine_run(
                operation,
                piece_ints,
                piece_floats,
                target * width,
                piece_ints,
                piece_floats,
                more * width,
                width,
                ranks,
            )
            count_operations(counter, one)
            position += lengths[more]
        if position != cut + step:
            return False
        lengths[target] = step
        if table[BACK, stair] == 0:
            copy_states(back_ints, back_floats, back, piece_ints, piece_floats, target * width, width)
            table[BACK, stair] = 1
        else:
            combine_run(operation, back_ints, back_floats, back, piece_ints, piece_floats, target * width, width, ranks)
            count_operations(counter, one)
        cut += step
    table[CUT, stair] = cut
    return True


@compiled_loop
def _climb(
    operation: int, ints: Ints, floats: Floats, room: int, width: int, table: Ints, stair: int, start: int, end: int,
    lengths: Ints, piece_ints: Ints, piece_floats: Floats, suffix_ints: Ints, suffix_floats: Floats, back_ints: Ints,
    back_floats: Floats, visited: Ints, ranks: Ints, counter: Ints,
) -> int:  # fmt: skip
    """Moves a stair to [start, end). Returns the end of its own core and buffer, -1 if it does not fit its chain."""
    below, reach = table[BELOW, stair], end
    if below >= 0:
        if table[END, below] != end:
            return -1
        reach = table[START, below]
    space, step, old = table[ROOM, stair], table[STEP, stair], table[START, stair]
    if start > reach or end - start > space:
        return -1
    if table[END, stair] < 0 or end < table[END, stair] or start < old or end - old > space:
        _lay(ints, floats, room, width, table, stair, lengths, piece_ints, piece_floats, start, reach)
        table[CUT, stair] = reach if step == 1 else start + (reach - start) // step * step
        above = table[ABOVE, stair]
        while above >= 0:
            table[END, above] = -1
            above = table[ABOVE, above]
        flips = True
    else:
        if step > 1 and (start - old) % step != 0:
            return -1
        if below < 0:
            _lay(ints, floats, room, width, table, stair, lengths, piece_ints, piece_floats, table[END, stair], end)
        if not _grow_core(
            operation, width, table, stair, reach, lengths, piece_ints, piece_floats, back_ints, back_floats, ranks,
            counter,
        ):  # fmt: skip
            return -1
        flips = start >= table[FLIP, stair]
    table[START, stair], table[END, stair] = start, end
    if flips:
        _flip(
            operation, width, table, stair, lengths, piece_ints, piece_floats, suffix_ints, suffix_floats, visited,
            ranks, counter,
        )  # fmt: skip
    return reach


@compiled_loop
def _join(
    operation: int, fresh: bool, ints: Ints, floats: Floats, d: int, ints2: Ints, floats2: Floats, s: int, width: int,
    ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """Appends the second state to the first, or copies it there if `fresh`, that is if there is no first state yet."""
    one = min(1, width)
    if fresh:
        copy_states(ints, floats, d, ints2, floats2, s, width)
    else:
        combine_run(operation, ints, floats, d, ints2, floats2, s, width, ranks)
        count_operations(counter, one)


@compiled_loop
def _add_up(
    operation: int, width: int, table: Ints, stair: int, reach: int, lengths: Ints, piece_ints: Ints,
    piece_floats: Floats, suffix_ints: Ints, suffix_floats: Floats, back_ints: Ints, back_floats: Floats,
    whole_ints: Ints, whole_floats: Floats, ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """Computes the answer of a stair that is not empty: its core, its buffer and the answer of the stair below."""
    mask, place, target = table[ROOM, stair] - 1, table[PLACE, stair], stair * width
    fresh, start = width > 0, table[START, stair]
    if start < table[FLIP, stair]:
        here = (place + (start & mask)) * width
        _join(
            operation, fresh, whole_ints, whole_floats, target, suffix_ints, suffix_floats, here, width, ranks, counter
        )
        fresh = False
    if table[BACK, stair] > 0:
        _join(operation, fresh, whole_ints, whole_floats, target, back_ints, back_floats, target, width, ranks, counter)
        fresh = False
    position = table[CUT, stair]
    while position < reach:
        here = place + (position & mask)
        _join(
            operation, fresh, whole_ints, whole_floats, target, piece_ints, piece_floats, here * width, width, ranks,
            counter,
        )  # fmt: skip
        fresh = False
        position += lengths[here]
    below = table[BELOW, stair]
    if below >= 0 and table[START, below] < table[END, below]:
        _join(
            operation, fresh, whole_ints, whole_floats, target, whole_ints, whole_floats, below * width, width, ranks,
            counter,
        )  # fmt: skip


@compiled_loop
def _answer_loose(
    operation: int, ints: Ints, floats: Floats, room: int, width: int, table: Ints, w: int, start: int, end: int,
    shorter: int, shorter_start: int, whole_ints: Ints, whole_floats: Floats, ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """Answers a loose window from slices. `shorter`: a window just answered that is a suffix of this one, or -1."""
    target, fresh, position, until = w * width, width > 0, start, end
    if 0 <= table[END, w] <= end and table[START, w] == start < table[END, w]:
        fresh, position, shorter = False, table[END, w], -1
    elif shorter >= 0:
        until = shorter_start
    for number in range(position, until):
        source = (number & (room - 1)) * width
        _join(operation, fresh, whole_ints, whole_floats, target, ints, floats, source, width, ranks, counter)
        fresh = False
    if shorter >= 0:
        _join(
            operation, fresh, whole_ints, whole_floats, target, whole_ints, whole_floats, shorter * width, width, ranks,
            counter,
        )  # fmt: skip
    table[START, w], table[END, w] = start, end


@compiled_loop
def answer_stairs(
    operation: int, ints: Ints, floats: Floats, room: int, width: int, groups: int, table: Ints, lengths: Ints,
    piece_ints: Ints, piece_floats: Floats, suffix_ints: Ints, suffix_floats: Floats, back_ints: Ints,
    back_floats: Floats, whole_ints: Ints, whole_floats: Floats, visited: Ints, begin: int, arrange_from: int,
    starts: Ints, ends: Ints, windows: Ints, result_ints: Ints, result_floats: Floats, ranks: Ints, counter: Ints,
) -> tuple[int, bool]:  # fmt: skip
    """Answers windows from number `begin` on, into results that hold the identity.

    Returns the number of answers done, and whether loose windows have to be arranged before it continues. It stops for
    that only from answer `arrange_from` on, and only where the next answer has another end.
    """
    shorter, waiting = -1, False
    for q in range(begin, starts.shape[0]):
        w, start, end = windows[q], starts[q], ends[q]
        waiting = _observe(table, w, start, end) or waiting
        stair = table[HOST, w]
        if stair >= 0 and table[HOST, stair] != stair:  # its stair was removed
            table[HOST, w] = stair = -1
            table[END, w] = -1
        if start < end:
            if stair >= 0 and not (table[START, stair] == start and table[END, stair] == end):
                reach = _climb(
                    operation, ints, floats, room, width, table, stair, start, end, lengths, piece_ints, piece_floats,
                    suffix_ints, suffix_floats, back_ints, back_floats, visited, ranks, counter,
                )  # fmt: skip
                if reach < 0:
                    loosen(table, stair)
                    table[HOST, w] = stair = -1
                    table[END, w] = -1
                else:
                    _add_up(
                        operation, width, table, stair, reach, lengths, piece_ints, piece_floats, suffix_ints,
                        suffix_floats, back_ints, back_floats, whole_ints, whole_floats, ranks, counter,
                    )  # fmt: skip
            if stair < 0:
                nested = (
                    q > begin and shorter >= 0 and shorter != w and ends[q - 1] == end and start <= starts[q - 1] < end
                )
                _answer_loose(
                    operation, ints, floats, room, width, table, w, start, end, shorter if nested else -1,
                    starts[q - 1], whole_ints, whole_floats, ranks, counter,
                )  # fmt: skip
                stair = w
            copy_states(result_ints, result_floats, q * groups, whole_ints, whole_floats, stair * width, groups)
            shorter = stair
        if waiting and q >= arrange_from and (q + 1 == starts.shape[0] or ends[q + 1] != end):
            return q + 1, True
    return starts.shape[0], False


# Each loop may call the loops before it.
LOOPS = (_flip, _grow_core, _climb, _join, _add_up, _answer_loose, answer_stairs)
