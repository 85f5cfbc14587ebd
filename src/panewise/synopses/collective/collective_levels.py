"""Levels of positions counted from the end of very many substreams: the base of CI-COUNT and CI-SUM.

The positions of a substream of length m, counted from the end, are divided into classes of p levels each. A level of
class c has 2^c positions, exactly one of which is a multiple of 2^c. The timestamp of this position stands for the
level:

    distance from the end    1    2 3    4 5 6 7    8 ... 15        p = 1
    level                    0     1        2           3
                             *    * .    . * . .    . . * ...       * kept: its position is a multiple of 2^level

With n = (m + p) >> c, level j of class c keeps position (n - p - j) * 2^c. So a class moves by one exactly when m + p
becomes a multiple of 2^c, and the position that enters it has just left the class below: amortised, O(p) levels move
per row.

Invariants. `stamps[k, c * p + j]` is the timestamp of that position of substream k, or NEVER if there is no such
position or it has left the longest window. `keys`, `owners` and `places` are a binary max-heap of the stamps per level.
A level's stamp only grows, so a changed stamp only moves up. The substreams also form a list, ordered by their newest
row, the newest first.

"All substreams whose stamp of this level is later than x" are at the top of a heap; 2 * (answers) + 1 stamps are read.
Cost: update O(p log K) amortised, lookup O(candidates), space O(p K log N) for K substreams and N rows in the longest
window. Dead substreams are removed from the end of the list, O(p log N log K) each.

Source: Arasu and Widom 2004, sections 4.1.1 (one level per class), 4.1.2 (p levels), 4.2 (a row of weight a as a equal
rows). Figure 7 is read with `> tau - T`: with `>=`, a substream without rows in the window could be returned.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from panewise.arrays import Ints
from panewise.loops import compiled_loop

Shorts = NDArray[np.int32]
NEVER = -(2**63)
NOTHING = -1  # in place of a level: no condition. In place of a heap position: not in the heap
NOBODY = -2  # in place of a level: no substream satisfies the condition
CLASSES_MAX = 62
LENGTH_MAX = 2**60


@compiled_loop
def _raise_stamp(
    stamps: Ints, keys: Ints, owners: Shorts, places: Shorts, sizes: Ints, k: int, at: int, t: int
) -> None:
    """Sets the stamp of a substream at a level to a later time and moves it up in the level's heap."""
    stamps[k, at] = t
    if at == 0:  # level 0, the newest row, has the list instead of a heap
        return
    i = places[k, at]
    if i < 0:
        i = sizes[at]
        sizes[at] = i + 1
    while i > 0:
        above = (i - 1) >> 1
        if keys[at, above] >= t:
            break
        owner = owners[at, above]
        keys[at, i], owners[at, i] = keys[at, above], owner
        places[owner, at] = i
        i = above
    keys[at, i], owners[at, i] = t, k
    places[k, at] = i


@compiled_loop
def _remove(stamps: Ints, keys: Ints, owners: Shorts, places: Shorts, sizes: Ints, k: int, at: int) -> None:
    """Removes a substream from a level."""
    stamps[k, at] = NEVER
    i = places[k, at]
    if i < 0:
        return
    places[k, at] = NOTHING
    last = sizes[at] - 1
    sizes[at] = last
    if i == last:
        return
    t, owner = keys[at, last], owners[at, last]
    while i > 0 and keys[at, (i - 1) >> 1] < t:
        above = (i - 1) >> 1
        keys[at, i], owners[at, i] = keys[at, above], owners[at, above]
        places[owners[at, i], at] = i
        i = above
    while 2 * i + 1 < last:
        below = 2 * i + 1
        if below + 1 < last and keys[at, below + 1] > keys[at, below]:
            below += 1
        if keys[at, below] <= t:
            break
        keys[at, i], owners[at, i] = keys[at, below], owners[at, below]
        places[owners[at, i], at] = i
        i = below
    keys[at, i], owners[at, i] = t, owner
    places[owner, at] = i


@compiled_loop
def _unlink(newer: Shorts, older: Shorts, k: int) -> None:
    """Removes a substream from the list. The last place of both arrays is the list's head and end."""
    newer[older[k]] = newer[k]
    older[newer[k]] = older[k]


@compiled_loop
def _touch(latest: Ints, newer: Shorts, older: Shorts, k: int, t: int) -> None:
    """Moves a substream to the front of the list, because it has the newest row of all."""
    head = newer.shape[0] - 1
    if latest[k] != NEVER:
        _unlink(newer, older, k)
    latest[k] = t
    newer[k], older[k] = head, older[head]
    newer[older[head]] = k
    older[head] = k


@compiled_loop
def insert_units(
    groups: Ints, times: Ints, begin: int, levels: int, reach: int, lengths: Ints, latest: Ints, newer: Shorts,
    older: Shorts, stamps: Ints, keys: Ints, owners: Shorts, places: Shorts, sizes: Ints,
) -> int:  # fmt: skip
    """Inserts rows of weight 1 from `begin` on. Returns the row that needs another class, or the number of rows."""
    classes = stamps.shape[1] // levels
    for i in range(begin, groups.shape[0]):
        k, t = groups[i], times[i]
        marked = lengths[k] + 1 + levels
        c = 0
        while c < classes and (marked >> c) & 1 == 0:
            c += 1
        if c == classes:
            if stamps[k, classes * levels - 1] > t - reach:
                return i
            c -= 1
        _touch(latest, newer, older, k, t)
        lengths[k] += 1
        while c >= 0:
            base = c * levels
            for at in range(base + levels - 1, max(base - 1, 0), -1):
                if stamps[k, at - 1] != NEVER:
                    _raise_stamp(stamps, keys, owners, places, sizes, k, at, stamps[k, at - 1])
            c -= 1
        stamps[k, 0] = t
    return len(groups)


@compiled_loop
def _former(stamps: Ints, k: int, levels: int, length: int, position: int, c: int) -> Any:
    """The stamp of a position, a multiple of 2^c, before the new row: found in the class that it was in then."""
    while c >= 0:
        j = ((length + levels) >> c) - levels - (position >> c)
        if 0 <= j < levels:
            return stamps[k, c * levels + j]
        c -= 1
    return NEVER


@compiled_loop
def insert_weights(
    groups: Ints, times: Ints, weights: Ints, begin: int, levels: int, reach: int, lengths: Ints, latest: Ints,
    newer: Shorts, older: Shorts, stamps: Ints, keys: Ints, owners: Shorts, places: Shorts, sizes: Ints,
) -> int:  # fmt: skip
    """`insert_units` for rows of weights from 0 on. Each counts as that many rows, but moves O(p log weight) levels."""
    classes = stamps.shape[1] // levels
    for i in range(begin, groups.shape[0]):
        k, t, length = groups[i], times[i], lengths[groups[i]]
        after = length + weights[i]
        c = 0
        while c < classes and (after + levels) >> c != (length + levels) >> c:
            c += 1
        if c == classes:
            # The first position that another class would have.
            entering = (((after + levels) >> c) - levels) << c
            moved = (after + levels) >> c != (length + levels) >> c
            if (
                moved
                and entering > 0
                and (entering > length or _former(stamps, k, levels, length, entering, c - 1) > t - reach)
            ):
                return i
        _touch(latest, newer, older, k, t)
        lengths[k] = after
        # From the top down, so that the classes below still have the former stamps.
        while c > 0:
            c -= 1
            top = (after + levels) >> c
            for j in range(levels - 1, -1, -1):
                position = (top - levels - j) << c
                if position > length:
                    stamp = t
                elif position > 0:
                    stamp = _former(stamps, k, levels, length, position, c)
                else:
                    stamp = NEVER
                if stamp > stamps[k, c * levels + j]:
                    _raise_stamp(stamps, keys, owners, places, sizes, k, c * levels + j, stamp)
    return len(groups)


@compiled_loop
def collect(
    behind: int, bounds: Ints, latest: Ints, older: Shorts, stamps: Ints, keys: Ints, owners: Shorts, sizes: Ints,
    found: Shorts,
) -> tuple[int, int]:  # fmt: skip
    """The substreams whose stamp is later than `behind` at level `least`, but not at level `most`.

    `bounds`: the levels least (NOTHING: the newest row) and most, then the levels that make sure of either bound
    (NOBODY: no substream is sure). Writes to `found` first the substreams that are sure. Returns their number and the
    number of all.
    """
    least, most, sure_least, sure_most = bounds[0], bounds[1], bounds[2], bounds[3]
    count, kept, sure = 0, 0, 0
    if least > 0:
        # Breadth first from the top of the heap. `found` serves as the queue.
        if sizes[least] > 0 and keys[least, 0] > behind:
            found[0] = 0
            count = 1
        done = 0
        while done < count:
            below = 2 * found[done] + 1
            for i in range(below, min(below + 2, sizes[least])):
                if keys[least, i] > behind:
                    found[count] = i
                    count += 1
            done += 1
        for i in range(count):
            found[i] = owners[least, found[i]]
    else:
        head = older.shape[0] - 1
        k = older[head]
        while k != head and latest[k] > behind:
            if least < 0 or stamps[k, 0] > behind:
                found[count] = k
                count += 1
            k = older[k]
    for i in range(count):
        k = found[i]
        if most >= 0 and stamps[k, most] > behind:
            continue
        found[kept] = k
        enough = sure_least == NOTHING or (sure_least >= 0 and stamps[k, sure_least] > behind)
        if enough and (sure_most < 0 or stamps[k, sure_most] <= behind):
            found[kept], found[sure] = found[sure], k
            sure += 1
        kept += 1
    return sure, kept


@compiled_loop
def drop_dead(
    before: int, lengths: Ints, latest: Ints, newer: Shorts, older: Shorts, stamps: Ints, keys: Ints, owners: Shorts,
    places: Shorts, sizes: Ints,
) -> int:  # fmt: skip
    """Forgets the substreams whose newest row is before an instant. Returns their number."""
    head, gone = newer.shape[0] - 1, 0
    k = newer[head]
    while k != head and latest[k] < before:
        for at in range(stamps.shape[1]):
            _remove(stamps, keys, owners, places, sizes, k, at)
        _unlink(newer, older, k)
        latest[k], lengths[k] = NEVER, 0
        gone += 1
        k = newer[head]
    return gone
