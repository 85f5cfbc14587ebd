"""Distinct windows in the order that suits synopses, found in time linear in the number of windows.

Thousands of members ask for thousands of windows at every flush, and many of these are equal: all windows of 60 s that
slide by 2 s are also windows of 60 s that slide by 1 s. The order is by end, and shortest first for equal ends, so that
a synopsis can build an answer on the one before it. Starts and ends are small numbers, so a counting sort is enough.
"""

from __future__ import annotations

import numpy as np

from panewise.arrays import Ints
from panewise.loops import compiled_loop

NEAR = 8  # slices to search one by one from the estimated place, before bisection
ROOMY = 16  # with this many times more slices than windows, a sort by comparison is cheaper


@compiled_loop
def _counted(keys: Ints, order: Ints, counts: Ints, result: Ints) -> None:
    """Sorts `order` by the keys of its numbers, stably, into `result`."""
    for i in range(order.shape[0]):
        counts[keys[order[i]] + 1] += 1
    for k in range(1, counts.shape[0]):
        counts[k] += counts[k - 1]
    for i in range(order.shape[0]):
        key = keys[order[i]]
        result[counts[key]] = order[i]
        counts[key] += 1


@compiled_loop
def _numbered(starts: Ints, ends: Ints, order: Ints, firsts: Ints, places: Ints) -> int:
    """Finds the first window of each run of equal windows in the order given, and the run of every window; returns the
    number of runs."""
    found = 0
    for i in range(order.shape[0]):
        w = order[i]
        if found == 0 or starts[w] != starts[firsts[found - 1]] or ends[w] != ends[firsts[found - 1]]:
            firsts[found] = w
            found += 1
        places[w] = found - 1
    return found


@compiled_loop
def _placed(starts: Ints, points: Ints, result: Ints) -> None:
    count = starts.shape[0]
    first = starts[0] if count else 0
    per_slice = (count - 1) / (starts[count - 1] - first) if count > 1 else 0.0
    for i in range(points.shape[0]):
        point = points[i]
        place = min(max(np.int64((point - first) * per_slice), 0), count)
        steps = 0
        while steps < NEAR and place < count and starts[place] < point:
            place += 1
            steps += 1
        while steps < NEAR and place > 0 and starts[place - 1] >= point:
            place -= 1
            steps += 1
        if steps == NEAR:
            place, high = 0, count
            while place < high:
                middle = (place + high) >> 1
                if starts[middle] < point:
                    place = middle + 1
                else:
                    high = middle
        result[i] = place


def slice_places(starts: Ints, points: Ints) -> Ints:
    """The number of starts, which ascend, before each point.

    Slices of one length, the usual case, are found at once; others by bisection.

    >>> slice_places(np.array([10, 20, 30]), np.array([5, 10, 11, 30, 99])).tolist()
    [0, 0, 1, 2, 3]
    """
    result = np.empty(len(points), np.int64)
    _placed(starts, points, result)
    return result


def distinct_windows(starts: Ints, ends: Ints, slices: int) -> tuple[Ints, Ints]:
    """The windows to ask for, in order, and for each window its place among them.

    Ends are at most the number of slices, and starts at least -1.

    >>> firsts, places = distinct_windows(np.array([0, 2, 1, 2]), np.array([4, 4, 3, 4]), 4)
    >>> firsts.tolist(), places.tolist()
    ([2, 1, 0], [2, 1, 0, 1])
    """
    count = len(starts)
    if slices > ROOMY * count:
        keys = ends * (slices + 2) - starts
        _, firsts, places = np.unique(keys, return_index=True, return_inverse=True)
        return firsts, places
    by_start, by_end = np.empty(count, np.int64), np.empty(count, np.int64)
    _counted(slices - starts, np.arange(count), np.zeros(slices + 3, np.int64), by_start)
    _counted(ends, by_start, np.zeros(slices + 2, np.int64), by_end)
    firsts, places = np.empty(count, np.int64), np.empty(count, np.int64)
    found = _numbered(starts, ends, by_end, firsts, places)
    return firsts[:found], places
