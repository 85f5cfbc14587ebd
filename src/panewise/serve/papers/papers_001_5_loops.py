"""The lazy multi-way joins of Golab 2006, algorithms 4 (no restore) and 5 (restore), section 5.2.2.

Every `interval` the new rows are joined, those of one stream and one value together: a group probes the other windows
once. Without restore, rows that end before the next run go at once, so that no times are compared and results that live
between two runs only are lost. With restore rows stay until they have ended, and times are compared: all results of an
eager join are found. Row n comes at instant n and stays in window i until n + windows[i]; intervals are shorter.

    bucket b of window i: first[bucket_base[i] + b] -> links -> ... -> last      group: heads[value] -> members -> ...

Cost: what `counters` say: rows looked at, and buckets and rows touched by expiration.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from panewise.loops import compiled_loop

Ints = NDArray[np.int64]
VISITS, EXPIRATIONS = 0, 1


@compiled_loop
def _join_group(
    i: int, value: int, oldest: int, head: int, order: Ints, values: Ints, windows: Ints, bucket_base: Ints,
    first: Ints, links: Ints, members: Ints, restore: bool, cursors: Ints, bound: Ints, counters: Ints,
) -> int:  # fmt: skip
    """The number of results of a group of new rows of stream i; `order` is that of the other streams."""
    count, depth, start = 0, 0, True
    while depth >= 0:
        j = order[depth]
        if start:
            cursors[depth] = first[bucket_base[j] + value % (bucket_base[j + 1] - bucket_base[j])]
            start = False
        row = cursors[depth]
        if row < 0:
            depth -= 1
            continue
        cursors[depth] = links[row]
        counters[VISITS] += 1
        # What has ended before the oldest row of the group came joins none of them.
        if (restore and row + windows[j] <= oldest) or values[row] != value:
            continue
        bound[depth] = row
        if depth < len(order) - 1:
            depth, start = depth + 1, True
            continue
        member = head
        if not restore:
            while member >= 0:
                count += 1
                member = members[member]
            continue
        born, ends = bound[0], bound[0] + windows[order[0]]
        for level in range(1, len(order)):
            born, ends = max(born, bound[level]), min(ends, bound[level] + windows[order[level]])
        while member >= 0:
            if max(born, member) < min(ends, member + windows[i]):
                count += 1
            member = members[member]
    return count


@compiled_loop
def grouped_join(
    streams: Ints, values: Ints, distinct: int, windows: Ints, orders: Ints, bucket_base: Ints, interval: int,
    restore: bool, counters: Ints,
) -> int:  # fmt: skip
    """The number of results; row n is of streams[n], its value below `distinct`; orders[i] are the others for i."""
    rows, count, begin = len(streams), 0, 0
    first, last = np.full(bucket_base[-1], -1, np.int64), np.full(bucket_base[-1], -1, np.int64)
    links, members = np.full(rows, -1, np.int64), np.full(rows, -1, np.int64)
    heads, oldest = np.full(distinct, -1, np.int64), np.full(distinct, -1, np.int64)
    present = np.empty(distinct, np.int64)
    cursors, bound = np.zeros(len(windows), np.int64), np.zeros(len(windows), np.int64)
    counters[:] = 0
    while begin < rows:
        now = begin + interval
        for i in range(len(windows)):
            groups = 0
            for row in range(begin, min(now, rows)):
                if streams[row] != i:
                    continue
                value = values[row]
                place = bucket_base[i] + value % (bucket_base[i + 1] - bucket_base[i])
                if first[place] < 0:
                    first[place] = row
                else:
                    links[last[place]] = row
                last[place] = row
                if heads[value] < 0:
                    present[groups], oldest[value] = value, row
                    groups += 1
                members[row] = heads[value]
                heads[value] = row
            for group in range(groups):
                value = present[group]
                count += _join_group(
                    i, value, oldest[value], heads[value], orders[i], values, windows, bucket_base, first, links,
                    members, restore, cursors, bound, counters,
                )  # fmt: skip
                heads[value] = -1
        horizon = now if restore else now + interval
        for i in range(len(windows)):
            for place in range(bucket_base[i], bucket_base[i + 1]):
                counters[EXPIRATIONS] += 1
                while first[place] >= 0 and first[place] + windows[i] <= horizon:
                    first[place] = links[first[place]]
                    counters[EXPIRATIONS] += 1
        begin = now
    return count
