"""A segment tree of treaps: finds the intervals that contain a number and whose value lies in a range.

An interval [begin, end) of numbers below a power of two is cut into pieces, one for each of the O(log N) blocks of a
segment tree that it consists of. Block 1 has all numbers; blocks 2n and 2n + 1 are the halves of block n. Each block
keeps its pieces in a treap, a search tree by (value, substream) and a heap by random priorities. A number lies in log N
blocks. In each treap, the k values of a range are found in O(log N + k).

Here intervals are steps of staircases; each step is linked to the next older step of its substream (see
`collective_extreme.py`). Invariant: every step in use has one piece in each of its blocks, and is linked to all its
pieces. A step is inserted and removed in expected O(log^2 N).
"""

from __future__ import annotations

from typing import Any

from panewise.arrays import Ints
from panewise.loops import compiled_loop

NEVER = -(2**63)
NONE = -1
# The columns of steps and of pieces. A piece is a step's part in one block.
STEP_TIME, STEP_VALUE, STEP_NUMBER, STEP_OLDER, STEP_PIECE, STEP_GROUP = range(6)
PIECE_VALUE, PIECE_GROUP, PIECE_LEFT, PIECE_RIGHT, PIECE_PRIORITY, PIECE_NEXT, PIECE_BLOCK = range(7)


@compiled_loop
def _precedes(pieces: Ints, a: int, value: int, group: int) -> Any:
    return pieces[a, PIECE_VALUE] < value or (pieces[a, PIECE_VALUE] == value and pieces[a, PIECE_GROUP] < group)


@compiled_loop
def _join(pieces: Ints, a: int, b: int) -> int:
    """Joins two treaps; all pieces of the first come before those of the second. Returns the root."""
    root, hook, side = NONE, NONE, PIECE_LEFT
    while a >= 0 and b >= 0:
        if pieces[a, PIECE_PRIORITY] >= pieces[b, PIECE_PRIORITY]:
            top, next_side = a, PIECE_RIGHT
            a = pieces[a, PIECE_RIGHT]
        else:
            top, next_side = b, PIECE_LEFT
            b = pieces[b, PIECE_LEFT]
        if hook < 0:
            root = top
        else:
            pieces[hook, side] = top
        hook, side = top, next_side
    rest = a if a >= 0 else b
    if hook < 0:
        return rest
    pieces[hook, side] = rest
    return root


@compiled_loop
def _enter(pieces: Ints, roots: Ints, block: int, new: int) -> None:
    """Inserts a piece into its block's treap: below the pieces of greater priority, above both halves of the rest."""
    value, group, priority = pieces[new, PIECE_VALUE], pieces[new, PIECE_GROUP], pieces[new, PIECE_PRIORITY]
    hook, side, at = NONE, PIECE_LEFT, roots[block]
    while at >= 0 and pieces[at, PIECE_PRIORITY] >= priority:
        hook = at
        side = PIECE_RIGHT if _precedes(pieces, at, value, group) else PIECE_LEFT
        at = pieces[at, side]
    if hook < 0:
        roots[block] = new
    else:
        pieces[hook, side] = new
    # Splits the rest along a path downwards; `left` and `right` are the last pieces so far of the two halves.
    left, right = new, new
    left_side, right_side = PIECE_LEFT, PIECE_RIGHT
    while at >= 0:
        if _precedes(pieces, at, value, group):
            pieces[left, left_side] = at
            left, left_side = at, PIECE_RIGHT
            at = pieces[at, PIECE_RIGHT]
        else:
            pieces[right, right_side] = at
            right, right_side = at, PIECE_LEFT
            at = pieces[at, PIECE_LEFT]
    pieces[left, left_side] = NONE
    pieces[right, right_side] = NONE


@compiled_loop
def _leave(pieces: Ints, roots: Ints, block: int, old: int) -> None:
    value, group = pieces[old, PIECE_VALUE], pieces[old, PIECE_GROUP]
    hook, side, at = NONE, PIECE_LEFT, roots[block]
    while at != old:
        hook = at
        side = PIECE_RIGHT if _precedes(pieces, at, value, group) else PIECE_LEFT
        at = pieces[at, side]
    joined = _join(pieces, pieces[old, PIECE_LEFT], pieces[old, PIECE_RIGHT])
    if hook < 0:
        roots[block] = joined
    else:
        pieces[hook, side] = joined


@compiled_loop
def _put_piece(pieces: Ints, roots: Ints, counters: Ints, steps: Ints, step: int, block: int) -> None:
    """Makes a new piece of a step. counters[1] is the first free piece, counters[2] the number of pieces ever used."""
    new = counters[1]
    if new >= 0:
        counters[1] = pieces[new, PIECE_NEXT]
    else:
        new = counters[2]
        counters[2] += 1
    counters[3] = counters[3] ^ (counters[3] << 13)
    counters[3] = counters[3] ^ ((counters[3] >> 7) & ((1 << 57) - 1))
    counters[3] = counters[3] ^ (counters[3] << 17)
    pieces[new, PIECE_VALUE], pieces[new, PIECE_GROUP] = steps[step, STEP_VALUE], steps[step, STEP_GROUP]
    pieces[new, PIECE_PRIORITY], pieces[new, PIECE_BLOCK] = counters[3], block
    pieces[new, PIECE_NEXT] = steps[step, STEP_PIECE]
    steps[step, STEP_PIECE] = new
    _enter(pieces, roots, block, new)


@compiled_loop
def _cover(pieces: Ints, roots: Ints, counters: Ints, steps: Ints, step: int, begin: int, end: int) -> None:
    """Puts a step into the blocks that make up the numbers from `begin` to `end`, exclusive."""
    room = roots.shape[0] >> 1
    low, high = begin + room, end + room
    while low < high:
        if low & 1:
            _put_piece(pieces, roots, counters, steps, step, low)
            low += 1
        if high & 1:
            high -= 1
            _put_piece(pieces, roots, counters, steps, step, high)
        low >>= 1
        high >>= 1


@compiled_loop
def _uncover(pieces: Ints, roots: Ints, counters: Ints, steps: Ints, step: int) -> None:
    """Removes a step from all its blocks and frees it. counters[4] is the first free step."""
    piece = steps[step, STEP_PIECE]
    while piece >= 0:
        following = pieces[piece, PIECE_NEXT]
        _leave(pieces, roots, pieces[piece, PIECE_BLOCK], piece)
        pieces[piece, PIECE_NEXT] = counters[1]
        counters[1] = piece
        piece = following
    steps[step, STEP_OLDER] = counters[4]
    steps[step, STEP_NUMBER] = NONE
    counters[4] = step


@compiled_loop
def insert_rows(
    groups: Ints, times: Ints, values: Ints, done: int, spare: int, heads: Ints, numbered: Ints, steps: Ints,
    pieces: Ints, roots: Ints, counters: Ints,
) -> int:  # fmt: skip
    """Inserts rows from `done` on. Returns the row where numbers or pieces ran out, or the number of rows.

    counters: next number, first free piece, pieces used, random state, first free step, steps used.
    """
    room = roots.shape[0] >> 1
    for i in range(done, groups.shape[0]):
        number = counters[0]
        if number == room or counters[2] + spare > pieces.shape[0]:
            return i
        k, value = groups[i], values[i]
        step = heads[k]
        while step >= 0 and steps[step, STEP_VALUE] <= value:
            older = steps[step, STEP_OLDER]
            _uncover(pieces, roots, counters, steps, step)
            step = older
        new = counters[4]
        if new >= 0:
            counters[4] = steps[new, STEP_OLDER]
        else:
            new = counters[5]
            counters[5] += 1
        steps[new, STEP_TIME], steps[new, STEP_VALUE], steps[new, STEP_NUMBER] = times[i], value, number
        steps[new, STEP_OLDER], steps[new, STEP_PIECE], steps[new, STEP_GROUP] = step, NONE, k
        heads[k] = new
        numbered[number] = times[i]
        counters[0] = number + 1
        begin = steps[step, STEP_NUMBER] + 1 if step >= 0 else 0
        _cover(pieces, roots, counters, steps, new, begin, number + 1)
    return len(groups)


@compiled_loop
def count_pieces(steps: Ints, count: int, room: int) -> int:
    """The number of pieces that the first `count` steps, already numbered and linked, are cut into."""
    pieces = 0
    for step in range(count):
        older = steps[step, STEP_OLDER]
        low = (steps[older, STEP_NUMBER] + 1 if older >= 0 else 0) + room
        high = steps[step, STEP_NUMBER] + 1 + room
        while low < high:
            pieces += (low & 1) + (high & 1)
            low, high = (low + 1) >> 1, high >> 1
    return pieces


@compiled_loop
def cover_all(count: int, steps: Ints, pieces: Ints, roots: Ints, counters: Ints) -> None:
    """Puts the first `count` steps, already numbered and linked, into an empty tree."""
    for step in range(count):
        older = steps[step, STEP_OLDER]
        begin = steps[older, STEP_NUMBER] + 1 if older >= 0 else 0
        _cover(pieces, roots, counters, steps, step, begin, steps[step, STEP_NUMBER] + 1)


@compiled_loop
def report(begin: int, least: int, most: int, pieces: Ints, roots: Ints, stack: Ints, found: Ints, keys: Ints) -> int:
    """Finds the intervals that contain number `begin` and have values from `least` to `most`.

    Writes their substreams to `found` and their values to `keys`. Returns how many there are.
    """
    count = 0
    block = begin + (roots.shape[0] >> 1)
    while block > 0:
        depth = 0
        if roots[block] >= 0:
            stack[0] = roots[block]
            depth = 1
        while depth > 0:
            depth -= 1
            at = stack[depth]
            value = pieces[at, PIECE_VALUE]
            if value >= least and pieces[at, PIECE_LEFT] >= 0:
                stack[depth] = pieces[at, PIECE_LEFT]
                depth += 1
            if value <= most and pieces[at, PIECE_RIGHT] >= 0:
                stack[depth] = pieces[at, PIECE_RIGHT]
                depth += 1
            if least <= value <= most:
                found[count], keys[count] = pieces[at, PIECE_GROUP], value
                count += 1
        block >>= 1
    return count
