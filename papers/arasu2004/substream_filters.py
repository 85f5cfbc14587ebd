"""Substream filters: Arasu and Widom 2004, figure 12, CI-COUNT by p against asking every substream.

The paper replays a day of trades in about 5,000 stocks and asks for the stocks with more than so many trades in the
last 15 minutes to 3 hours, thresholds such that 3 to 5 of 100 stocks pass; after every trade comes one such lookup. Its
trace is not public, so the trades here are drawn: 5,000 stocks by a power law, times uniform over six and a half hours.

    naive      every substream's running synopsis is asked, and those above the threshold are the answer
    CI-COUNT   the collective index proposes substreams, and only these are asked
    sure       those that the index knows to pass, because a farther level lies in the window as well, are not asked

Both are driven by one compiled loop that calls the synopses' own, so that neither pays for Python; every answer of one
is compared with the other's.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panewise.arrays import Ints
from panewise.loops import compiled_loop, specialised
from panewise.synopses.collective.collective_count import CollectiveCount
from panewise.synopses.collective.collective_levels import collect, insert_units
from panewise.synopses.collective.substream_running import SubstreamRunning, append_running, counted_between

MINUTE = 60_000_000
LONGEST = 180 * MINUTE
DAY = 390 * MINUTE
UNBOUNDED = 2**62


@compiled_loop
def drive_naive(
    groups: Ints, times: Ints, ranges: Ints, leasts: Ints, every: Ints, reach: int, begin: int, most: int,
    rings: Any, sizes_found: Ints, found: Ints,
) -> int:  # fmt: skip
    """After each trade one lookup of all substreams; stops at a trade for which the pool has no room."""
    totals, begins, rooms, firsts, afters, free, used, pool_times, pool_values = rings
    nothing = np.empty((0, 1), np.int64)
    zero = begin - begin
    for i in range(begin, groups.shape[0]):
        trade = slice(i, i + 1)
        taken = append_running(
            groups[trade], times[trade], nothing, zero, reach, totals, begins, rooms, firsts, afters, free, used,
            pool_times, pool_values,
        )  # fmt: skip
        if taken == 0:
            return i
        behind = times[i] - ranges[i]
        sizes_found[i] = counted_between(
            every, behind, leasts[i], most, begins, rooms, firsts, afters, pool_times, found
        )
    return len(groups)


@compiled_loop
def drive_collective(
    groups: Ints, times: Ints, ranges: Ints, leasts: Ints, bounds: Ints, levels: int, reach: int, begin: int, most: int,
    trusts: bool, rings: Any, index: Any, candidates: Any, sizes_asked: Ints, sizes_found: Ints, found: Ints,
) -> int:  # fmt: skip
    """The same, where the index is asked first, and only its candidates after it."""
    totals, begins, rooms, firsts, afters, free, used, pool_times, pool_values = rings
    lengths, latest, newer, older, stamps, keys, owners, places, sizes = index
    nothing = np.empty((0, 1), np.int64)
    zero = begin - begin
    for i in range(begin, groups.shape[0]):
        trade = slice(i, i + 1)
        # The index first: where it stops, nothing of the trade has been taken.
        taken = insert_units(
            groups[trade], times[trade], zero, levels, reach, lengths, latest, newer, older, stamps, keys, owners,
            places, sizes,
        )  # fmt: skip
        if taken == 0:
            return i
        append_running(
            groups[trade], times[trade], nothing, zero, reach, totals, begins, rooms, firsts, afters, free, used,
            pool_times, pool_values,
        )  # fmt: skip
        behind = times[i] - ranges[i]
        sure, count = 0, 0
        if bounds[i, 0] < sizes.shape[0]:
            sure, count = collect(behind, bounds[i], latest, older, stamps, keys, owners, sizes, candidates)
        if not trusts:
            sure = 0
        sizes_asked[i] = count - sure
        sizes_found[i] = sure + counted_between(
            candidates[sure:count], behind, leasts[i], most, begins, rooms, firsts, afters, pool_times, found
        )
    return len(groups)


@dataclass(frozen=True)
class Trades:
    """Trades in order of time, of which the first half has come before the measurement."""

    substreams: int
    groups: Ints
    times: Ints

    @classmethod
    def drawn(cls, substreams: int, count: int) -> Trades:
        random = np.random.default_rng(12)
        weights = 1 / np.arange(1, substreams + 1) ** 0.8
        ranks = np.searchsorted(np.cumsum(weights) / weights.sum(), random.random(count))
        return cls(substreams, random.permutation(substreams)[ranks], np.sort(random.integers(0, DAY, count)))

    @property
    def half(self) -> int:
        return len(self.groups) // 2

    def running(self) -> SubstreamRunning:
        running = SubstreamRunning(0, LONGEST)
        half = self.half
        running.insert(self.groups[:half], self.times[:half], np.empty((0, half), np.int64))
        running._make_room()
        return running


@dataclass(frozen=True)
class FilterOutcome:
    """Inputs are trades and lookups, one of each in turn."""

    selectivity: float
    levels: int  # 0: the naive approach
    trusts: bool  # whether sure ones are not asked
    inputs_per_s: float
    asked: float  # substreams asked per lookup
    passing: float
    bytes_held: int
    answers: Ints


def lookups(trades: Trades, selectivity: float, count: int) -> tuple[Ints, Ints]:
    """Ranges of 15 minutes to 3 hours, and for each the least count of the share of substreams that should pass."""
    random = np.random.default_rng(34)
    running, now = trades.running(), int(trades.times[trades.half])
    ranges = random.integers(15 * MINUTE, LONGEST, 64)
    every = np.arange(trades.substreams)
    counts = [running.answer(every, now, int(range_us))[0] for range_us in ranges]
    leasts = np.array([int(np.quantile(c, 1 - selectivity)) + 1 for c in counts])
    chosen = random.integers(0, len(ranges), count)
    return ranges[chosen], leasts[chosen]


def measured(trades: Trades, selectivity: float, levels: int, trusts: bool, count: int, repeat: int) -> FilterOutcome:
    """One approach over `count` trades, each followed by a lookup; the median of some runs."""
    ranges, leasts = lookups(trades, selectivity, count)
    piece = slice(trades.half, trades.half + count)
    groups, times = trades.groups[piece], trades.times[piece]
    seconds: list[float] = []
    asked, passing = np.zeros(count, np.int64), np.zeros(count, np.int64)
    arrays = groups, times, ranges, leasts
    begun, index = trades.running(), CollectiveCount(max(1, levels), LONGEST, trades.substreams)
    if levels:
        index.insert(trades.groups[: trades.half], trades.times[: trades.half])
    for _ in range(repeat + 1):  # the first one compiles
        running = deepcopy(begun)
        if levels:
            seconds.append(_time_collective(running, deepcopy(index), arrays, trusts, asked, passing))
        else:
            seconds.append(_time_naive(trades, running, arrays, asked, passing))
    held = begun.bytes_held + (index.bytes_held if levels else 0)
    rate = 2 * count / float(np.median(seconds[1:]))
    return FilterOutcome(selectivity, levels, trusts, rate, float(asked.mean()), float(passing.mean()), held, passing)


def _bounds(index: CollectiveCount, leasts: Ints) -> Ints:
    """The levels of each lookup, fitted to those that the index has now."""
    rows = []
    for least in leasts:
        rows.append(index.levels_of(int(least), None))
        index.within_reach(rows[-1])
    return np.array(rows)


def _rings(running: SubstreamRunning) -> tuple[NDArray[Any], ...]:
    places = running._totals, running._begins, running._rooms, running._firsts, running._afters
    return *places, running._free, running._used, running._times, running._values


def _time_naive(trades: Trades, running: SubstreamRunning, arrays: Any, asked: Ints, passing: Ints) -> float:
    # Compiled here and not kept on disk, where it would go on calling loops as they were.
    drive = specialised(drive_naive, None, append_running=append_running, counted_between=counted_between)
    every, found, done = np.arange(trades.substreams), np.empty(trades.substreams, np.int64), 0
    begin = process_time()
    while done < len(passing):
        done = drive(*arrays, every, LONGEST, done, UNBOUNDED, _rings(running), passing, found)
        if done < len(passing):
            running._make_room()
    asked[:] = trades.substreams
    return process_time() - begin


def _time_collective(
    running: SubstreamRunning, index: CollectiveCount, arrays: Any, trusts: bool, asked: Ints, passing: Ints
) -> float:
    called = {"append_running": append_running, "counted_between": counted_between}
    drive = specialised(drive_collective, None, insert_units=insert_units, collect=collect, **called)
    proposed, found, done = np.empty(index.width + 1, np.int32), np.empty(index.width, np.int64), 0
    bounds, seconds = _bounds(index, arrays[3]), 0.0
    while done < len(passing):
        tables = _rings(running), index._arrays(), proposed, asked, passing, found
        begin = process_time()
        done = drive(*arrays, bounds, index.levels, LONGEST, done, UNBOUNDED, trusts, *tables)
        if done < len(passing):
            index._add_class()
        seconds += process_time() - begin
        bounds = _bounds(index, arrays[3])
    return seconds
