"""The loops of negation: how the rows that come and leave in a step change the result.

Events are processed in order of instants. At one instant their order ensures that no result is shown and ended at the
same instant:

    rows (EXISTS, NOT EXISTS, EXCEPT ALL)   left rows leave, right rows come, right rows leave, left rows come
    values (EXCEPT)                         right rows come, left rows come, left rows leave, right rows leave

Right rows that come are counted before those that leave, so a key with right rows before and after an instant has some
throughout.

The live left rows of a key form a list in order of arrival. EXISTS and NOT EXISTS show all of it or nothing; EXCEPT ALL
shows its first max(left - right, 0) rows. If deaths ascend these rows die first, so that only new right rows end
results prematurely:

    left rows of a key      1   2   3 | 5   8           two right rows: `hidden` is 5
                            shown     | hidden

Golab 2006, sections 2.2.2 and 3.5.2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from panewise.arrays import Ints
from panewise.loops import compiled_loop
from panewise.operators.relation_delta import FOREVER

Matrix = NDArray[np.int64]
NOT_EXISTS, EXISTS, EXCEPT_ALL = 0, 1, 2
# Columns of `by_key`, a row for each key: its first, last and first hidden left slot (-1: none), and its number of rows
# on the left and on the right.
FIRST, LAST, HIDDEN, LEFT, RIGHT = range(5)
# Columns of `links`, a row for each left slot: its neighbours within its key, and its result (-1: not shown). A result
# is twice its number, plus 1 if it has no known death, so that it must end even when its row dies.
BEFORE, AFTER, SHOWN = range(3)
# Columns of `shows`, a row for each new result.
SLOT, BIRTH, DEATH = range(3)
# Places in `tally`: results and ends of this step; premature and natural ends since the beginning.
SHOWS, ENDS, PREMATURE, NATURAL = range(4)
# The arrays of a loop are grouped in plain tuples: with named ones Numba needs longer for each call.
LeftGone = tuple[Ints, Ints, Ints]
"""Left rows that leave, by slot or value, when, and whether they end before their death (1)."""
RightRows = tuple[Ints, Ints, Ints, Ints]
"""Keys of right rows that come, and when; keys of right rows that leave, and when."""


@compiled_loop
def _grown(rows: Matrix, needed: int) -> Matrix:
    if needed <= rows.shape[0]:
        return rows
    result = np.empty((2 * needed, rows.shape[1]), np.int64)
    result[: rows.shape[0]] = rows
    return result


@compiled_loop
def _show(
    slot: int, instant: int, by_ends: bool, first: int, deaths: Ints, links: Matrix, shows: Matrix, tally: Ints
) -> None:
    count = tally[SHOWS]
    shows[count, SLOT], shows[count, BIRTH] = slot, instant
    shows[count, DEATH] = FOREVER if by_ends else deaths[slot]
    links[slot, SHOWN] = 2 * (first + count) + (1 if by_ends else 0)
    tally[SHOWS] = count + 1


@compiled_loop
def _end(number: int, instant: int, first: int, shows: Matrix, ends: Matrix, tally: Ints) -> None:
    """Ends a result: one of this step gets a death, an older one is added to `ends`."""
    if number >= first:
        shows[number - first, DEATH] = instant
    else:
        ends[tally[ENDS], 0], ends[tally[ENDS], 1] = number, instant
        tally[ENDS] += 1


@compiled_loop
def _hide(slot: int, instant: int, first: int, links: Matrix, shows: Matrix, ends: Matrix, tally: Ints) -> None:
    _end(links[slot, SHOWN] >> 1, instant, first, shows, ends, tally)
    links[slot, SHOWN] = -1
    tally[PREMATURE] += 1


@compiled_loop
def _append(slot: int, key: int, by_key: Matrix, links: Matrix) -> None:
    last = by_key[key, LAST]
    links[slot, BEFORE], links[slot, AFTER], links[slot, SHOWN] = last, -1, -1
    if last < 0:
        by_key[key, FIRST] = slot
    else:
        links[last, AFTER] = slot
    by_key[key, LAST] = slot
    if by_key[key, HIDDEN] < 0:
        by_key[key, HIDDEN] = slot
    by_key[key, LEFT] += 1


@compiled_loop
def _unlink(slot: int, key: int, by_key: Matrix, links: Matrix) -> None:
    before, after = links[slot, BEFORE], links[slot, AFTER]
    if before < 0:
        by_key[key, FIRST] = after
    else:
        links[before, AFTER] = after
    if after < 0:
        by_key[key, LAST] = before
    else:
        links[after, BEFORE] = before
    if by_key[key, HIDDEN] == slot:
        by_key[key, HIDDEN] = after
    by_key[key, LEFT] -= 1


@compiled_loop
def _last_shown(key: int, by_key: Matrix, links: Matrix) -> int:
    hidden = by_key[key, HIDDEN]
    slot: int = by_key[key, LAST] if hidden < 0 else links[hidden, BEFORE]
    return slot


@compiled_loop
def _hide_last(
    key: int, instant: int, first: int, by_key: Matrix, links: Matrix, shows: Matrix, ends: Matrix, tally: Ints
) -> None:
    """EXCEPT ALL: hides the last shown row of a key, if there is one."""
    slot = _last_shown(key, by_key, links)
    if slot >= 0:
        _hide(slot, instant, first, links, shows, ends, tally)
        by_key[key, HIDDEN] = slot


@compiled_loop
def _left_leaves(
    kind: int, slot: int, key: int, premature: int, instant: int, first: int, by_key: Matrix, links: Matrix,
    shows: Matrix, ends: Matrix, tally: Ints,
) -> None:  # fmt: skip
    told = links[slot, SHOWN]
    _unlink(slot, key, by_key, links)
    if told >= 0:
        tally[PREMATURE if premature else NATURAL] += 1
        if premature or told & 1:
            _end(told >> 1, instant, first, shows, ends, tally)
    elif kind == EXCEPT_ALL:
        # A hidden row has left, so one row fewer is shown.
        _hide_last(key, instant, first, by_key, links, shows, ends, tally)


@compiled_loop
def _left_comes(
    kind: int, slot: int, key: int, by_ends: bool, instant: int, first: int, deaths: Ints, by_key: Matrix,
    links: Matrix, shows: Matrix, tally: Ints,
) -> None:  # fmt: skip
    _append(slot, key, by_key, links)
    if kind == EXCEPT_ALL:
        if by_key[key, LEFT] > by_key[key, RIGHT]:
            _show_next(key, by_ends, instant, first, deaths, by_key, links, shows, tally)
    elif (by_key[key, RIGHT] > 0) == (kind == EXISTS):
        _show(slot, instant, by_ends, first, deaths, links, shows, tally)


@compiled_loop
def _show_next(
    key: int, by_ends: bool, instant: int, first: int, deaths: Ints, by_key: Matrix, links: Matrix, shows: Matrix,
    tally: Ints,
) -> None:  # fmt: skip
    """EXCEPT ALL: shows the first hidden row of a key, which must exist."""
    slot = by_key[key, HIDDEN]
    by_key[key, HIDDEN] = links[slot, AFTER]
    _show(slot, instant, by_ends, first, deaths, links, shows, tally)


@compiled_loop
def _right_changes(
    kind: int, key: int, change: int, by_ends: bool, instant: int, first: int, deaths: Ints, by_key: Matrix,
    links: Matrix, shows: Matrix, ends: Matrix, tally: Ints,
) -> None:  # fmt: skip
    """Applies a row that has come (change 1) or left (-1) on the right; it is counted already."""
    if kind == EXCEPT_ALL:
        if change > 0:
            _hide_last(key, instant, first, by_key, links, shows, ends, tally)
        elif by_key[key, LEFT] > by_key[key, RIGHT]:
            _show_next(key, by_ends, instant, first, deaths, by_key, links, shows, tally)
        return
    slot = by_key[key, FIRST]
    while slot >= 0:
        if (change > 0) == (kind == EXISTS):
            _show(slot, instant, by_ends, first, deaths, links, shows, tally)
        else:
            _hide(slot, instant, first, links, shows, ends, tally)
        slot = links[slot, AFTER]


@compiled_loop
def _at(instants: Ints, place: int) -> int:
    """The instant of the next event of a list; FOREVER if there is none."""
    return instants[place] if place < len(instants) else FOREVER


@compiled_loop
def _matters(kind: int, key: int, change: int, by_key: Matrix) -> bool:
    """Whether a row that has come or left on the right, and is counted already, may change what is shown of its key.

    For EXISTS and NOT EXISTS, only the first right row that comes and the last one that leaves do.
    """
    if by_key[key, LEFT] == 0:
        return False
    partners = by_key[key, RIGHT]
    return kind == EXCEPT_ALL or partners == (1 if change > 0 else 0)


@compiled_loop
def rows_change(
    kind: int, by_ends: bool, left_rows: LeftGone, right_rows: RightRows, slots_from: int, births: Ints, first: int,
    keys: Ints, deaths: Ints, by_key: Matrix, links: Matrix, tally: Ints,
) -> tuple[Matrix, Matrix]:  # fmt: skip
    """The new results, numbered from `first`, and the ends. The left slots from `slots_from` on come at `births`.

    `by_ends`: results that are shown now get no known death, and will end. Before an event there is always enough room:
    for one result if a left row comes or leaves, for all left rows of the key if the right side changes.
    """
    gone, gone_at, premature = left_rows
    right_keys, right_at, right_gone, right_gone_at = right_rows
    shows = np.empty((len(births) + 16, 3), np.int64)
    ends = np.empty((len(gone) + len(right_keys) + 16, 2), np.int64)
    left_gone = right_came = right_left = left_came = 0  # how many events of each list have happened
    while True:
        leaves, comes = _at(gone_at, left_gone), _at(births, left_came)
        right_comes, right_leaves = _at(right_at, right_came), _at(right_gone_at, right_left)
        instant = min(leaves, comes, right_comes, right_leaves)
        if instant == FOREVER:
            return shows, ends
        if instant == leaves:
            if tally[ENDS] == ends.shape[0]:
                ends = _grown(ends, tally[ENDS] + 1)
            slot = gone[left_gone]
            early = premature[left_gone]
            left_gone += 1
            _left_leaves(kind, slot, keys[slot], early, instant, first, by_key, links, shows, ends, tally)
            continue
        if instant < right_comes and instant < right_leaves:
            if tally[SHOWS] == shows.shape[0]:
                shows = _grown(shows, tally[SHOWS] + 1)
            slot = slots_from + left_came
            left_came += 1
            _left_comes(kind, slot, keys[slot], by_ends, instant, first, deaths, by_key, links, shows, tally)
            continue
        if instant == right_comes:
            key, change = right_keys[right_came], 1
            right_came += 1
        else:
            key, change = right_gone[right_left], -1
            right_left += 1
        by_key[key, RIGHT] += change
        if _matters(kind, key, change, by_key):
            left = by_key[key, LEFT]
            if tally[SHOWS] + left > shows.shape[0]:
                shows = _grown(shows, tally[SHOWS] + left)
            if tally[ENDS] + left > ends.shape[0]:
                ends = _grown(ends, tally[ENDS] + left)
            _right_changes(kind, key, change, by_ends, instant, first, deaths, by_key, links, shows, ends, tally)


@compiled_loop
def values_change(
    left_rows: LeftGone, right_rows: RightRows, births: Ints, came: Ints, first: int, by_key: Matrix, shown: Ints,
    tally: Ints,
) -> tuple[Matrix, Matrix]:  # fmt: skip
    """The new results and the ends of EXCEPT. A value is shown while it is on the left and not on the right. The left
    values `came` come at `births`."""
    gone, gone_at, premature = left_rows
    right_keys, right_at, right_gone, right_gone_at = right_rows
    shows = np.empty((len(births) + len(right_gone) + 1, 3), np.int64)
    ends = np.empty((len(gone) + len(right_keys) + 1, 2), np.int64)
    right_came = left_came = left_gone = right_left = 0  # how many events of each list have happened
    reason = PREMATURE
    while True:
        right_comes, comes = _at(right_at, right_came), _at(births, left_came)
        leaves, right_leaves = _at(gone_at, left_gone), _at(right_gone_at, right_left)
        instant = min(right_comes, comes, leaves, right_leaves)
        if instant == FOREVER:
            return shows, ends
        if instant == right_comes:
            key, side, change, reason = right_keys[right_came], RIGHT, 1, PREMATURE
            right_came += 1
        elif instant == comes:
            key, side, change = came[left_came], LEFT, 1
            left_came += 1
        elif instant == leaves:
            key, side, change = gone[left_gone], LEFT, -1
            reason = PREMATURE if premature[left_gone] else NATURAL
            left_gone += 1
        else:
            key, side, change = right_gone[right_left], RIGHT, -1
            right_left += 1
        by_key[key, side] += change
        wanted = by_key[key, LEFT] > 0 and by_key[key, RIGHT] == 0
        if wanted and shown[key] < 0:
            count = tally[SHOWS]
            shows[count, SLOT], shows[count, BIRTH], shows[count, DEATH] = key, instant, FOREVER
            shown[key] = first + count
            tally[SHOWS] = count + 1
        elif not wanted and shown[key] >= 0:
            _end(shown[key], instant, first, shows, ends, tally)
            shown[key] = -1
            tally[reason] += 1


@compiled_loop
def relink(keys: Ints, shown: Ints, by_key: Matrix, links: Matrix) -> None:
    """Rebuilds the lists of the left rows, which are in order of slots, from their keys and results."""
    by_key[:, :LEFT] = -1
    by_key[:, LEFT] = 0
    for slot in range(len(keys)):
        key = keys[slot]
        last = by_key[key, LAST]
        links[slot, BEFORE], links[slot, AFTER], links[slot, SHOWN] = last, -1, shown[slot]
        if last < 0:
            by_key[key, FIRST] = slot
        else:
            links[last, AFTER] = slot
        by_key[key, LAST] = slot
        by_key[key, LEFT] += 1
        if shown[slot] < 0 and by_key[key, HIDDEN] < 0:
            by_key[key, HIDDEN] = slot
