"""The loops of a DISTINCT shared by many windows: a row is processed once, and a window only if its results change.

In each step `arrive` groups the new rows by value and finds the rows that come after a gap; `show` gives the results of
the step, window by window in order of range; `schedule` files the results that live longer by the day of their death.

    copies of a value     1  2        6
    a window of 3 shows   [1 ---- 4)[4, 5)    [6 ---- 9)          6 comes after a gap of 4: a new birth here,
    a window of 5 shows   [1 -------- 6)[6, 7)[7 ------ 11)       and one more copy here, which is shown when 2 dies

The calendar: every window has DAYS lists. A day is so long that all deaths of a window's results fit into one round. A
list consists of blocks of BLOCK entries, which are in no order. Each step scans the lists of the days that it covers:

    window, day -> block 7 [(value, death) x 16] -> block 3 [(value, death) x 5]

Free blocks form a list too. The arrays of a loop are grouped in plain tuples: with named ones Numba needs longer for
each call.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from panewise.arrays import Ints, Small
from panewise.loops import compiled_loop

Matrix = NDArray[np.int64]
NEVER = -(2**63)
DAYS = 128
BLOCK = 16
VALUE, BIRTH, DEATH = range(3)  # rows of `results`, which has a column for each result
NEWEST, START, COUNT = range(3)  # columns of `copies`, a row for each value: its newest copy, its rows in this step
FREE, HELD = range(2)  # places in `marks`: the first free block, and the number of entries
WindowArrays = tuple[Ints, Ints, Ints, NDArray[np.bool_]]
"""The windows in order of range; by window its range, the first instant that it sees, and whether it is new."""
RowArrays = tuple[Ints, Ints, Ints, Ints]
"""Values and instants of a step's rows, and `previous` and `grouped` as `arrive` fills them."""
CalendarArrays = tuple[Small, Small, Ints, Small, Small, Ints]
"""First block by window and day; values and deaths by entry; number of entries and next block by block; `marks`."""


@compiled_loop
def arrive(
    values: Ints, times: Ints, least_range: int, copies: Matrix, grouped: Ints, previous: Ints, gaps: Ints
) -> int:
    """Groups the instants of rows by value into `grouped`; `copies` gets the place and number of each value's instants.

    `previous` gets the instant of the copy before each row, NEVER if there is none. `gaps` gets the rows that come
    `least_range` or more after that copy. Returns the number of these.
    """
    for i in range(len(values)):
        copies[values[i], COUNT] += 1
    begin = gap_count = 0
    for i in range(len(values)):
        value, instant = values[i], times[i]
        place = copies[value, START]
        if place < 0:
            # START is the place of the next row, and finally the end of the value's rows.
            place = begin
            begin += copies[value, COUNT]
            previous[i] = copies[value, NEWEST]
        else:
            previous[i] = grouped[place - 1]
        grouped[place] = instant
        copies[value, START] = place + 1
        if previous[i] == NEVER or instant - previous[i] >= least_range:
            gaps[gap_count] = i
            gap_count += 1
    return gap_count


@compiled_loop
def settle(values: Ints, grouped: Ints, copies: Matrix) -> None:
    """Ends a step: sets the newest copies, and resets the rows of all values."""
    for i in range(len(values)):
        value = values[i]
        if copies[value, START] >= 0:
            copies[value, NEWEST] = grouped[copies[value, START] - 1]
            copies[value, START], copies[value, COUNT] = -1, 0


@compiled_loop
def _grown(results: Matrix, needed: int) -> Matrix:
    if needed <= results.shape[1]:
        return results
    wider = np.empty((results.shape[0], 2 * needed), np.int64)
    wider[:, : results.shape[1]] = results
    return wider


@compiled_loop
def _copy_before(value: int, instant: int, copies: Matrix, grouped: Ints) -> int:
    """The newest copy of a value before an instant."""
    count = copies[value, COUNT]
    if count:
        high = copies[value, START]
        low = high - count
        first = low
        if grouped[high - 1] < instant:
            last: int = grouped[high - 1]
            return last
        while low < high:
            middle = (low + high) // 2
            if grouped[middle] < instant:
                low = middle + 1
            else:
                high = middle
        if low > first:
            found: int = grouped[low - 1]
            return found
    newest: int = copies[value, NEWEST]
    return newest


@compiled_loop
def _due(window: int, range_us: int, since: int, until: int, calendars: CalendarArrays, pending: Matrix) -> int:
    """Moves the results that die before `until` from a window's calendar to `pending`. Returns their number."""
    all_heads, values, deaths, filled, following, marks = calendars
    heads = all_heads[window]
    day = range_us // (DAYS - 2) + 1
    first, days = since // day, DAYS
    if until - since < range_us:
        days = min(DAYS, (until - 1) // day - first + 1)
    count = 0
    for k in range(days):
        place = (first + k) % DAYS
        block, before = heads[place], -1
        while block >= 0:
            entry, end, after = BLOCK * block, BLOCK * block + filled[block], following[block]
            while entry < end:
                if deaths[entry] < until:
                    pending[VALUE, count], pending[DEATH, count] = values[entry], deaths[entry]
                    count += 1
                    end -= 1
                    values[entry], deaths[entry] = values[end], deaths[end]
                else:
                    entry += 1
            filled[block] = end - BLOCK * block
            if filled[block]:
                before = block
            else:
                if before < 0:
                    heads[place] = after
                else:
                    following[before] = after
                following[block] = marks[FREE]
                marks[FREE] = block
            block = after
    marks[HELD] -= count
    return count


@compiled_loop
def _hand_over(range_us: int, begins: int, since: int, size: int, copies: Matrix, results: Matrix, count: int) -> int:
    """In the first step of a window, adds the values that are held already and that it may see. Returns the new
    count of results."""
    for value in range(size):
        newest = copies[value, NEWEST]
        if newest != NEVER and newest >= begins and newest + range_us > since:
            results[VALUE, count], results[BIRTH, count], results[DEATH, count] = value, since, newest + range_us
            count += 1
    return count


@compiled_loop
def _enter(
    range_us: int, begins: int, rows: Ints, values: Ints, times: Ints, previous: Ints, results: Matrix, count: int
) -> int:
    """Adds results for the rows that bring their value into the window. Returns the new count of results."""
    for k in range(len(rows)):
        i = rows[k]
        instant = times[i]
        if instant >= begins and (previous[i] < begins or previous[i] == NEVER or instant - previous[i] >= range_us):
            results[VALUE, count], results[BIRTH, count], results[DEATH, count] = values[i], instant, instant + range_us
            count += 1
    return count


@compiled_loop
def _succeed(
    pending: Matrix, waiting: int, range_us: int, until: int, copies: Matrix, grouped: Ints, results: Matrix, count: int
) -> tuple[Matrix, int]:
    """Adds the results that succeed pending ones, as long as these die before `until`."""
    for i in range(waiting):
        value, death = pending[VALUE, i], pending[DEATH, i]
        while death < until:
            copy = _copy_before(value, death, copies, grouped)
            if copy + range_us <= death:
                break
            if count == results.shape[1]:
                results = _grown(results, count + 1)
            results[VALUE, count], results[BIRTH, count] = value, death
            death = copy + range_us
            results[DEATH, count] = death
            count += 1
    return results, count


@compiled_loop
def _gaps_for(gaps: Ints, range_us: int, times: Ints, previous: Ints) -> Ints:
    """Keeps the rows that come at least the window's range after the copy before them."""
    left = 0
    for j in range(len(gaps)):
        i = gaps[j]
        if previous[i] == NEVER or times[i] - previous[i] >= range_us:
            gaps[left] = i
            left += 1
    return gaps[:left]


@compiled_loop
def _sort_bucket(results: Matrix, begin: int, end: int) -> None:
    if end - begin > 32:
        order = np.argsort(results[BIRTH, begin:end], kind="mergesort")
        for row in range(3):
            results[row, begin:end] = results[row, begin:end][order]
        return
    for i in range(begin + 1, end):
        value, birth, death = results[VALUE, i], results[BIRTH, i], results[DEATH, i]
        k = i
        while k > begin and results[BIRTH, k - 1] > birth:
            for row in range(3):
                results[row, k] = results[row, k - 1]
            k -= 1
        results[VALUE, k], results[BIRTH, k], results[DEATH, k] = value, birth, death


@compiled_loop
def _in_order(results: Matrix, start: int, end: int) -> None:
    """Sorts a window's results by birth: distributes them into about as many buckets, and sorts each bucket."""
    count, low, high, ascending = end - start, results[BIRTH, start], results[BIRTH, start], True
    for i in range(start + 1, end):
        birth = results[BIRTH, i]
        ascending &= birth >= results[BIRTH, i - 1]
        low, high = min(low, birth), max(high, birth)
    if ascending:
        return
    shift = 0
    while (high - low) >> shift > count:
        shift += 1
    places = np.zeros(((high - low) >> shift) + 2, np.int64)
    for i in range(start, end):
        places[((results[BIRTH, i] - low) >> shift) + 1] += 1
    for bucket in range(1, len(places)):
        places[bucket] += places[bucket - 1]
    unsorted = results[:, start:end].copy()
    for i in range(count):
        bucket = (unsorted[BIRTH, i] - low) >> shift
        place = start + places[bucket]
        places[bucket] += 1
        for row in range(3):
            results[row, place] = unsorted[row, i]
    if shift:
        begin = start
        for bucket in range(len(places) - 1):
            if places[bucket] > begin - start + 1:
                _sort_bucket(results, begin, start + places[bucket])
            begin = start + places[bucket]


@compiled_loop
def _ties_in_order(results: Matrix, start: int, end: int) -> None:
    """Sorts results with equal births by value, so that their order depends neither on how time is divided into steps
    nor on the places of entries in blocks, which change with a snapshot."""
    begin = start
    for i in range(start + 1, end + 1):
        if i < end and results[BIRTH, i] == results[BIRTH, begin]:
            continue
        if i - begin > 1:
            order = np.argsort(results[VALUE, begin:i])
            results[VALUE, begin:i], results[DEATH, begin:i] = (
                results[VALUE, begin:i][order],
                results[DEATH, begin:i][order],
            )
        begin = i


@compiled_loop
def show(
    windows: WindowArrays, since: int, until: int, size: int, new: RowArrays, gaps: Ints, copies: Matrix,
    calendars: CalendarArrays, ends: Ints,
) -> Matrix:  # fmt: skip
    """The results of a step, window by window in order of range, within a window by birth. `ends` gets the end of each
    window's results. `gaps` is overwritten."""
    order, ranges, begins, fresh = windows
    values, times, previous, grouped = new
    results = np.empty((3, len(gaps) + 64), np.int64)
    pending = np.empty((3, size + len(values)), np.int64)
    everything = np.empty(0, np.int64)
    count = 0
    for k in range(len(order)):
        window, start = order[k], count
        range_us, begin = ranges[window], begins[window]
        waiting = _due(window, range_us, since, until, calendars, pending)
        # A row that does not bring its value into this window does not bring it into a longer one either.
        gaps = _gaps_for(gaps, range_us, times, previous)
        rows = gaps
        if begin != NEVER and begin + range_us > since:
            # While there may be recent copies that the window has not seen, any row may be its first of a value.
            if not len(everything):
                everything = np.arange(len(values))
            rows = everything
        hands_over = fresh[window] and begin < since
        results = _grown(results, count + len(rows) + (size if hands_over else 0))
        if hands_over:
            count = _hand_over(range_us, begin, since, size, copies, results, count)
        count = _enter(range_us, begin, rows, values, times, previous, results, count)
        for i in range(start, count):
            if results[DEATH, i] < until:
                pending[VALUE, waiting], pending[DEATH, waiting] = results[VALUE, i], results[DEATH, i]
                waiting += 1
        results, count = _succeed(pending, waiting, range_us, until, copies, grouped, results, count)
        if count > start:
            _in_order(results, start, count)
            _ties_in_order(results, start, count)
        ends[k] = count
    return results[:, :count]


@compiled_loop
def schedule(
    window: int, range_us: int, until: int, begin: int, new_values: Ints, new_deaths: Ints, calendars: CalendarArrays
) -> int:
    """Files the results of a window that die at `until` or later, from the one at `begin` on. Stops if there is no free
    block, and returns the place where it stopped."""
    heads, values, deaths, filled, following, marks = calendars
    day = range_us // (DAYS - 2) + 1
    for i in range(begin, len(new_values)):
        if new_deaths[i] < until:
            continue
        place = new_deaths[i] // day % DAYS
        block = heads[window, place]
        if block < 0 or filled[block] == BLOCK:
            block = marks[FREE]
            if block < 0:
                return i
            marks[FREE] = following[block]
            following[block], filled[block] = heads[window, place], 0
            heads[window, place] = block
        entry = BLOCK * block + filled[block]
        values[entry], deaths[entry] = new_values[i], new_deaths[i]
        filled[block] += 1
        marks[HELD] += 1
    return len(new_values)


@compiled_loop
def held(window: int, calendars: CalendarArrays, out: Matrix) -> int:
    """Copies the values and deaths in a window's calendar to rows VALUE and DEATH of `out`. Returns their number."""
    heads, values, deaths, filled, following, _ = calendars
    count = 0
    for place in range(DAYS):
        block = heads[window, place]
        while block >= 0:
            for entry in range(BLOCK * block, BLOCK * block + filled[block]):
                out[VALUE, count], out[DEATH, count] = values[entry], deaths[entry]
                count += 1
            block = following[block]
    return count


@compiled_loop
def rename(renamed: Ints, calendars: CalendarArrays) -> None:
    """Renumbers the values in all calendars."""
    heads, values, _, filled, following, _ = calendars
    for window in range(heads.shape[0]):
        for place in range(DAYS):
            block = heads[window, place]
            while block >= 0:
                for entry in range(BLOCK * block, BLOCK * block + filled[block]):
                    values[entry] = renamed[values[entry]]
                block = following[block]
