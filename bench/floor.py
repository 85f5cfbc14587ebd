"""The floor: the answers of the window benchmark by hand, in Numba, on one core, in memory.

The rows are 1 ms apart, with integer keys 0..99 and values 0..100; the query is SUM and MAX per key, RANGE r seconds
SLIDE 1 second. The program knows its query beforehand and has no watermark, no types and no interface: it is a limit
against which the engine is measured in the same run, not a peer. Rows cost O(1), windows O(1) amortised each: a
running sum and count, and a deque of falling maxima per key.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from panewise.arrays import Floats, Ints

ROWS = 2_000_000
GROUPS = 100
EPOCH_MS = 1_704_067_200_000
SLIDE_MS = 1000


def rows(count: int = ROWS, seed: int = 42) -> tuple[Ints, Ints, Floats]:
    """Timestamps in milliseconds, keys and values."""
    random = np.random.default_rng(seed)
    keys = random.integers(0, GROUPS, count)
    values = random.random(count) * 100.0
    return EPOCH_MS + np.arange(count, dtype=np.int64), keys.astype(np.int64), values


@njit(cache=True)
def _fold(times: Ints, keys: Ints, values: Floats, begin: int, sums: Floats, maxima: Floats, counts: Ints) -> None:
    for row in range(times.shape[0]):
        slice_number = (times[row] - begin) // SLIDE_MS
        key = keys[row]
        value = values[row]
        sums[slice_number, key] += value
        counts[slice_number, key] += 1
        if value > maxima[slice_number, key]:
            maxima[slice_number, key] = value


@njit(cache=True)
def _slide(sums: Floats, maxima: Floats, counts: Ints, range_slices: int) -> tuple[int, float, float]:
    slices, groups = sums.shape
    results = 0
    total_sum = 0.0
    total_maximum = 0.0
    falling = np.empty(slices, np.int64)  # numbers of slices whose maxima fall from head to tail
    for group in range(groups):
        head = tail = 0
        running_sum = 0.0
        running_count = 0
        for end in range(1, slices + range_slices):
            if end <= slices:
                entering = end - 1
                running_sum += sums[entering, group]
                running_count += counts[entering, group]
                while tail > head and maxima[falling[tail - 1], group] <= maxima[entering, group]:
                    tail -= 1
                falling[tail] = entering
                tail += 1
            leaving = end - 1 - range_slices
            if leaving >= 0:
                running_sum -= sums[leaving, group]
                running_count -= counts[leaving, group]
                if falling[head] == leaving:
                    head += 1
            if running_count > 0:
                results += 1
                total_sum += running_sum
                total_maximum += maxima[falling[head], group]
    return results, total_sum, total_maximum


def answer(times: Ints, keys: Ints, values: Floats, range_s: int) -> tuple[int, float, float]:
    """How many results there are (non-empty windows times keys), and the sums of their SUMs and of their MAXes."""
    slices = int((times[-1] - times[0]) // SLIDE_MS) + 1
    shape = slices, GROUPS
    sums, maxima, counts = np.zeros(shape), np.full(shape, -np.inf), np.zeros(shape, np.int64)
    _fold(times, keys, values, times[0], sums, maxima, counts)
    result: tuple[Any, Any, Any] = _slide(sums, maxima, counts, range_s)
    return result
