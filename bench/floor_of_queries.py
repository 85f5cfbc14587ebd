"""The floor of many queries: MAX over many windows by hand, in Numba, on one core, in memory.

The rows are those of `floor.py`, without their keys or with them; the queries have slides of 1 to 60 s and ranges of 1
to 60 slides. Like that floor it knows its queries beforehand and has no watermark, no types and no interface: a limit,
not a peer. Rows are folded once into seconds; then each query goes over the seconds with a deque of falling maxima,
O(seconds + results) a query. A window without a row is no result. The answers of all queries are also given by
NumPy (`expected`), for comparing them one by one.

It stands apart from `floor.py` because figures of peers that are kept are those of that file's text.
"""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
from numba import njit

from bench.floor import EPOCH_MS, GROUPS, SLIDE_MS
from panewise.arrays import Floats, Ints

SLIDES_S = (1, 2, 5, 10, 20, 30, 60)
SLIDES_A_RANGE_MAX = 60

Window = tuple[int, int]  # range and slide in seconds


def queries(count: int, seed: int = 7) -> list[Window]:
    """The windows of so many queries; fewer are the first ones of more."""
    draw = random.Random(seed)
    windows = []
    for _ in range(count):
        slide = draw.choice(SLIDES_S)
        windows.append((slide * draw.randint(1, SLIDES_A_RANGE_MAX), slide))
    return windows


@njit(cache=True)
def fold_maxima(times: Ints, values: Floats, begin: int, maxima: Floats) -> None:
    """Rows in order of time, to the maximum of each second."""
    row = 0
    count = times.shape[0]
    while row < count:
        second = (times[row] - begin) // SLIDE_MS
        stop = begin + (second + 1) * SLIDE_MS
        largest = values[row]
        row += 1
        while row < count and times[row] < stop:
            if values[row] > largest:
                largest = values[row]
            row += 1
        maxima[second] = largest


@njit(cache=True)
def fold_group_maxima(times: Ints, keys: Ints, values: Floats, begin: int, maxima: Floats) -> None:
    """The same for every key; maxima by key, then second."""
    for row in range(times.shape[0]):
        second = (times[row] - begin) // SLIDE_MS
        if values[row] > maxima[keys[row], second]:
            maxima[keys[row], second] = values[row]


@njit(cache=True)
def slide_queries(maxima: Floats, ranges: Ints, slides: Ints, gaps: bool) -> tuple[int, float]:
    """How many results all queries have, and the sum of their maxima; `gaps`: whether some second has no row."""
    seconds = maxima.shape[0]
    results = 0
    total_maximum = 0.0
    falling = np.empty(seconds, np.int64)  # seconds whose maxima fall from head to tail
    for query in range(ranges.shape[0]):
        range_s, slide_s = ranges[query], slides[query]
        head = tail = taken = 0
        end = slide_s
        while end - range_s < seconds:
            while taken < min(end, seconds):
                while tail > head and maxima[falling[tail - 1]] <= maxima[taken]:
                    tail -= 1
                falling[tail] = taken
                tail += 1
                taken += 1
            while head < tail and falling[head] < end - range_s:
                head += 1
            # A second without rows has a maximum of minus infinity, and so has a window of only such.
            if head < tail and not (gaps and maxima[falling[head]] == -np.inf):
                results += 1
                total_maximum += maxima[falling[head]]
            end += slide_s
    return results, total_maximum


def answer(times: Ints, values: Floats, windows: list[Window]) -> tuple[int, float]:
    """Results of all queries without keys, every second having rows: their number and the sum of their maxima."""
    maxima = np.full(_seconds(times), -np.inf)
    fold_maxima(times, values, times[0], maxima)
    result: tuple[int, float] = slide_queries(maxima, *_columns(windows), False)
    return result


def answer_by_group(times: Ints, keys: Ints, values: Floats, windows: list[Window]) -> tuple[int, float]:
    """The same by key."""
    maxima = np.full((GROUPS, _seconds(times)), -np.inf)
    fold_group_maxima(times, keys, values, times[0], maxima)
    columns = _columns(windows)
    answers = [slide_queries(of_group, *columns, True) for of_group in maxima]
    return sum(results for results, _ in answers), sum(total for _, total in answers)


def _seconds(times: Ints) -> int:
    return int((times[-1] - times[0]) // SLIDE_MS) + 1


def _columns(windows: list[Window]) -> tuple[Ints, Ints]:
    table = np.array(windows, np.int64)
    return table[:, 0].copy(), table[:, 1].copy()


# -- what the answers are, by another way ----------------------------------------------------------------------------


def seconds_maxima(times: Ints, keys: Ints, values: Floats) -> Floats:
    """By second, then key: minus infinity where the key has no row; keys of zero throughout are one group."""
    cells = np.full((_seconds(times), int(keys.max()) + 1), -np.inf)
    np.maximum.at(cells, ((times - times[0]) // SLIDE_MS, keys), values)
    return cells


def expected(cells: Floats, window: Window) -> tuple[Ints, Ints, Floats]:
    """The results of one query, by end and then key: ends in seconds after the first row, keys, maxima."""
    range_s, slide_s = window
    seconds, groups = cells.shape
    ends = np.arange(slide_s, seconds + range_s, slide_s)
    # A slide of seconds is one cell, which ranges are multiples of; none is before the first nor after the last.
    panes = range_s // slide_s
    whole = np.full((-(-seconds // slide_s) * slide_s, groups), -np.inf)
    whole[:seconds] = cells
    around = (panes - 1, len(ends) - len(whole) // slide_s)
    padded = np.pad(whole.reshape(-1, slide_s, groups).max(axis=1), (around, (0, 0)), constant_values=-np.inf)
    maxima = np.lib.stride_tricks.sliding_window_view(padded, panes, axis=0).max(axis=2)
    at, keys = np.nonzero(maxima > -np.inf)
    return ends[at], keys, maxima[at, keys]


def difference(results: pa.Table, wanted: tuple[Ints, Ints, Floats]) -> str:
    """What is wrong with the results (window_end, k where there are groups, m) of one query, in any order of rows."""
    ends, keys, maxima = wanted
    if results.num_rows != len(ends):
        return f"{results.num_rows} results instead of {len(ends)}"
    found_ends = results.column("window_end").cast(pa.int64()).to_numpy() // 1_000_000 - EPOCH_MS // 1000
    found_keys = results.column("k").to_numpy() if "k" in results.column_names else np.zeros_like(found_ends)
    order = np.lexsort((found_keys, found_ends))
    if not ((found_ends[order] == ends).all() and (found_keys[order] == keys).all()):
        return "a window or a group differs"
    return "" if (results.column("m").to_numpy()[order] == maxima).all() else "a maximum differs"
