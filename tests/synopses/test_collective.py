"""Substream filters against brute force: never a substream missing, every extra one within the relaxed bound."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.arrays import Ints
from panewise.errors import DataError, PlanError
from panewise.synopses.collective.collective_count import CollectiveCount
from panewise.synopses.collective.collective_extreme import CollectiveExtreme
from panewise.synopses.collective.collective_levels import LENGTH_MAX
from panewise.synopses.collective.collective_sum import CollectiveSum
from panewise.synopses.collective.substream_running import SubstreamExtremes, SubstreamRunning
from tests.now_or_soak import examples

RELATIVE_ERRORS = {1: 3 / 4, 2: 1 / 2, 4: 1 / 3, 8: 1 / 5}


@dataclass
class Trace:
    """Rows of a few substreams in order of time, and where batches end."""

    groups: Ints
    times: Ints
    values: Ints
    cuts: list[int]
    longest: int

    def batches(self) -> list[tuple[slice, int]]:
        """Each batch, and how many rows there are with it."""
        edges = sorted({0, *self.cuts, len(self.groups)})
        return [(slice(a, b), b) for a, b in pairwise(edges)]

    def window(self, upto: int, now: int, range_us: int) -> dict[int, list[int]]:
        """The values of each substream in (now - range, now] of the first rows."""
        found: dict[int, list[int]] = {}
        for k, t, v in zip(self.groups[:upto], self.times[:upto], self.values[:upto], strict=True):
            if now - range_us < t <= now:
                found.setdefault(int(k), []).append(int(v))
        return found


@st.composite
def traces(draw: st.DrawFn, values: st.SearchStrategy[int]) -> Trace:
    count = draw(st.integers(1, 250))
    seed = draw(st.integers(0, 2**32 - 1))
    random = np.random.default_rng(seed)
    width = draw(st.integers(1, 90))
    # Some substreams have most of the rows, as in life.
    groups = np.minimum(random.integers(0, width, count), random.integers(0, width, count))
    times = np.sort(random.integers(0, draw(st.integers(1, 300)), count))
    few = np.array(draw(st.lists(values, min_size=1, max_size=12)), np.int64)
    cuts = draw(st.lists(st.integers(0, count), max_size=6))
    return Trace(groups, times, few[random.integers(0, len(few), count)], cuts, draw(st.integers(1, 200)))


BOUNDS = st.one_of(st.none(), st.integers(0, 60), st.integers(0, 5000))
LOOKUPS = st.lists(st.tuples(st.integers(1, 200), BOUNDS, BOUNDS), min_size=1, max_size=4)


def check_candidates(
    index: Any, rows: dict[int, list[int]], aggregate: Any, now: int, lookup: Any, error: float
) -> None:
    """Against the definition of the guarantee."""
    range_us, least, most = lookup
    truth = {k: aggregate(values) for k, values in rows.items()}
    found = index.lookup(now, range_us, least, most).tolist()
    assert len(found) == len(set(found))
    passing = {k for k, a in truth.items() if (least is None or a >= least) and (most is None or a <= most)}
    assert passing <= set(found)
    if least is not None and most is not None and most < least:
        assert not found
    for k in found:
        assert k in truth, "a substream without rows in the window"
        assert least is None or least < 1 or truth[k] > (least - 1) * (1 - error) - 1e-9
        assert most is None or truth[k] * (1 - error) < most + 1 + 1e-9


@pytest.mark.parametrize("levels", [1, 2, 4, 8])
@given(trace=traces(st.integers(0, 3)), lookups=LOOKUPS, evicts=st.booleans(), saves=st.booleans())
@examples(20, soak=40)
def test_counts_are_never_missed_and_never_too_far(
    levels: int, trace: Trace, lookups: list[Any], evicts: bool, saves: bool
) -> None:
    index = CollectiveCount(levels, trace.longest)
    assert index.relative_error == pytest.approx(RELATIVE_ERRORS[levels])
    for part, upto in trace.batches():
        index.insert(trace.groups[part], trace.times[part])
        now = int(trace.times[upto - 1]) + 1
        if evicts:
            index.evict(now - trace.longest + 1)
        if saves:
            snapshot, index = index.snapshot(), CollectiveCount(levels)
            index.restore(snapshot)
        for range_us, least, most in lookups:
            range_us = min(range_us, trace.longest)
            rows = trace.window(upto, now, range_us)
            check_candidates(index, rows, len, now, (range_us, least, most), RELATIVE_ERRORS[levels])


@pytest.mark.parametrize("levels", [1, 2, 4, 8])
@given(trace=traces(st.one_of(st.integers(0, 9), st.integers(0, 4000))), lookups=LOOKUPS, saves=st.booleans())
@examples(20, soak=40)
def test_sums_are_never_missed_and_never_too_far(levels: int, trace: Trace, lookups: list[Any], saves: bool) -> None:
    index = CollectiveSum(levels, trace.longest)
    for part, upto in trace.batches():
        index.insert(trace.groups[part], trace.times[part], trace.values[part])
        now = int(trace.times[upto - 1])
        if saves:
            snapshot, index = index.snapshot(), CollectiveSum(levels)
            index.restore(snapshot)
        for range_us, least, most in lookups:
            range_us = min(range_us, trace.longest)
            rows = trace.window(upto, now, range_us)
            check_candidates(index, rows, sum, now, (range_us, least, most), RELATIVE_ERRORS[levels])


@given(trace=traces(st.integers(0, 5)))
@examples(15, soak=30)
def test_a_sum_is_the_count_of_as_many_equal_rows(trace: Trace) -> None:
    summed, counted = CollectiveSum(2, trace.longest), CollectiveCount(2, trace.longest)
    copies = np.repeat(np.arange(len(trace.groups)), trace.values)
    summed.insert(trace.groups, trace.times, trace.values)
    counted.insert(trace.groups[copies], trace.times[copies])
    now = int(trace.times[-1])
    for least in (1, 2, 5, 9, 30, 200):
        for range_us in (1, trace.longest // 2 + 1, trace.longest):
            both = (index.lookup(now, range_us, least).tolist() for index in (summed, counted))
            assert sorted(next(both)) == sorted(next(both))


@given(trace=traces(st.integers(-50, 50)), lookups=LOOKUPS, floats=st.booleans(), maximum=st.booleans())
@examples(30, soak=60)
def test_extremes_are_exact(trace: Trace, lookups: list[Any], floats: bool, maximum: bool) -> None:
    index = CollectiveExtreme(maximum, trace.longest, floats)
    extreme = max if maximum else min
    for number, (part, upto) in enumerate(trace.batches()):
        values = trace.values[part].astype(np.float64) / 4 if floats else trace.values[part]
        index.insert(trace.groups[part], trace.times[part], values)
        now = int(trace.times[upto - 1])
        if number % 2:
            snapshot, index = index.snapshot(), CollectiveExtreme(maximum)
            index.restore(snapshot)
            index.evict(now - trace.longest + 1)
        for range_us, above, below in lookups:
            range_us = min(range_us, trace.longest)
            least, most = (None if bound is None else bound % 100 - 50 for bound in (above, below))
            found, answers = index.lookup(now, range_us, least, most)
            rows = trace.window(upto, now, range_us)
            truth = {k: extreme(v) / 4 if floats else extreme(v) for k, v in rows.items()}
            expected = {k: a for k, a in truth.items() if (least is None or a >= least) and (most is None or a <= most)}
            assert len(found) == len(expected)
            assert dict(zip(found.tolist(), answers.tolist(), strict=True)) == expected


@given(trace=traces(st.integers(-9, 9)), lookups=LOOKUPS, saves=st.booleans())
@examples(30, soak=60)
def test_exact_answers_by_checking_candidates(trace: Trace, lookups: list[Any], saves: bool) -> None:
    index, running = CollectiveCount(2, trace.longest), SubstreamRunning(1, trace.longest)
    staircase = SubstreamExtremes(trace.longest)
    every = np.arange(90)
    for part, upto in trace.batches():
        groups, times, values = trace.groups[part], trace.times[part], trace.values[part]
        index.insert(groups, times)
        running.insert(groups, times, values.reshape(1, -1))
        staircase.insert(groups, times, values)
        now = int(trace.times[upto - 1])
        running.evict(now - trace.longest + 1)
        if saves:
            snapshots = running.snapshot(), staircase.snapshot()
            running, staircase = SubstreamRunning(1, 1), SubstreamExtremes(1)
            running.restore(snapshots[0])
            staircase.restore(snapshots[1])
        running.widen(90)
        staircase.widen(90)
        for range_us, least, most in lookups:
            range_us = min(range_us, trace.longest)
            rows = trace.window(upto, now, range_us)
            counts, sums = running.answer(every, now, range_us)
            present, greatest = staircase.answer(every, now, range_us)
            for k in every.tolist():
                assert (counts[k], sums[0, k]) == (len(rows.get(k, [])), sum(rows.get(k, [])))
                assert present[k] == (k in rows)
                assert k not in rows or greatest[k] == max(rows[k])
            least, most = least or 0, 2**62 if most is None else most
            candidates = index.lookup(now, range_us, least, most)
            exact = running.counted(candidates, now, range_us, least, most)
            assert sorted(exact.tolist()) == sorted(k for k, v in rows.items() if least <= len(v) <= most)


@given(trace=traces(st.integers(0, 9)), kept=st.sets(st.integers(0, 63), max_size=30))
@examples(15, soak=30)
def test_substreams_are_renumbered(trace: Trace, kept: set[int]) -> None:
    trace.groups = trace.groups % 64
    order = np.array(sorted(kept, reverse=True), np.int64)
    count, extreme = CollectiveCount(2, trace.longest), CollectiveExtreme(True, trace.longest)
    running = SubstreamRunning(1, trace.longest)
    half = len(trace.groups) // 2
    now = int(trace.times[-1])
    for part in (slice(0, half), slice(half, None)):
        groups, times, values = trace.groups[part], trace.times[part], trace.values[part]
        if part.start:
            renamed = np.full(64, -1)
            renamed[order] = np.arange(len(order))
            count, extreme, running = count.regrouped(order), extreme.regrouped(order), running.regrouped(order)
            chosen = renamed[groups] >= 0
            groups, times, values = renamed[groups][chosen], times[chosen], values[chosen]
        count.insert(groups, times)
        extreme.insert(groups, times, values)
        running.insert(groups, times, values.reshape(1, -1))
    rows = trace.window(len(trace.groups), now, trace.longest)
    renumbered = {new: rows[int(old)] for new, old in enumerate(order) if int(old) in rows} if half else rows
    assert set(count.lookup(now, trace.longest).tolist()) == set(renumbered)
    found, answers = extreme.lookup(now, trace.longest)
    assert dict(zip(found.tolist(), answers.tolist(), strict=True)) == {k: max(v) for k, v in renumbered.items()}
    groups = np.array(sorted(renumbered), np.int64)
    assert running.answer(groups, now, trace.longest)[1][0].tolist() == [sum(renumbered[k]) for k in sorted(renumbered)]


def test_there_is_room_for_substreams_without_rows() -> None:
    far = np.array([9_999, 0])
    counts, staircase = SubstreamRunning(0, 10), SubstreamExtremes(10)
    indices: list[Any] = [CollectiveCount(1, 10), CollectiveSum(1, 10), CollectiveExtreme(True, 10)]
    counts.insert(np.array([0]), np.array([1]), np.empty((0, 1), np.int64))
    staircase.insert(np.array([0]), np.array([1]), np.array([7]))
    with pytest.raises(AssertionError, match="was asked for that has no room"):
        staircase.answer(far, 1, 10)
    for synopsis in (counts, staircase, *indices):
        synopsis.widen(10_000)
    assert counts.answer(far, 1, 10)[0].tolist() == [0, 1]
    assert staircase.answer(far, 1, 10)[0].tolist() == [False, True]
    assert counts.regrouped(far).answer(np.array([0, 1]), 1, 10)[0].tolist() == [0, 1]
    assert staircase.regrouped(far).answer(np.array([0, 1]), 1, 10)[0].tolist() == [False, True]
    assert [index.regrouped(far).live().tolist() for index in indices] == [[], [], []]
    assert counts.answer(far, 1, 10)[0].tolist() == [0, 1], "what is regrouped stays as it is"


def test_counts_without_sums_are_renumbered() -> None:
    running = SubstreamRunning(0, 100)
    running.insert(np.array([0, 5, 5, 3]), np.array([1, 2, 3, 4]), np.empty((0, 4), np.int64))
    for kept, counts in (([5, 0], [2, 1]), ([], [])):
        running = running.regrouped(np.array(kept, np.int64))
        assert running.answer(np.arange(len(kept)), 4, 100)[0].tolist() == counts


def test_the_worked_example() -> None:
    """Example 4.1: substreams k1, k2, k3 at time 106, and who has at least 11 rows in the last 20."""
    boxes = [
        [80, 82, 86, 90, 93, 94, 96, 98, 100, 101, 103, 104, 105, 106],
        [66, 71, 73, 82, 85, 87, 92, 93, 96, 97, 98, 100, 102, 103, 105],
        [47, 50, 53, 60, 68, 73, 76, 80, 81, 85, 91, 94, 97, 100, 102],
    ]
    boxes[0].insert(0, 76)
    last_positions = [58, 43, 29]
    rows = []
    for k, (box, last) in enumerate(zip(boxes, last_positions, strict=True)):
        # What came before the figure, so that positions are those of the figure.
        rows += [(number - 1000, k) for number in range(last - len(box))]
        rows += [(time, k) for time in box]
    rows.sort()
    index, running = CollectiveCount(levels=1, longest_us=2000), SubstreamRunning(0, 2000)
    groups, times = np.array([k for _, k in rows]), np.array([t for t, _ in rows])
    index.insert(groups, times)
    running.insert(groups, times, np.empty((0, len(rows)), np.int64))
    assert index._stamps[2, 2] == 85, "TSTAMP[k3, 2]"
    assert index.levels_of(11, None)[0] == 2
    candidates = index.lookup(now=106, range_us=20, least=11)
    assert sorted(candidates.tolist()) == [0, 1]
    assert running.answer(np.array([0]), 106, 20)[0].tolist() == [11], "k1 holds exactly 11"
    assert running.counted(candidates, 106, 20, 11, 2**62).tolist() == [0]


def test_a_substream_without_rows_in_the_window_never_comes_out() -> None:
    """Figure 7 with >= would return a substream whose row stands exactly on the window's open end."""
    index = CollectiveCount(1, 100)
    index.insert(np.array([0, 1]), np.array([10, 11]))
    assert index.lookup(now=20, range_us=10, least=1).tolist() == [1]
    assert index.lookup(now=20, range_us=10).tolist() == [1]


def test_levels_follow_the_window_not_the_stream() -> None:
    """A substream that goes on for ever needs no more classes than its longest window."""
    index = CollectiveCount(1, 16)
    index.insert(np.zeros(100_000, np.int64), np.arange(100_000))
    assert index.classes <= 6
    assert index.lookup(99_999, 16, least=16).tolist() == [0]
    assert index.lookup(99_999, 16, least=70).tolist() == []


def test_lengths_of_sums_stay_countable() -> None:
    index = CollectiveSum(2, 10)
    for second in range(40):
        index.insert(np.array([0]), np.array([second]), np.array([2**55 + second]))
    for second in range(40, 60):
        index.insert(np.array([0, 1]), np.array([second, second]), np.array([3, 1000]))
    assert int(index._lengths.max()) < LENGTH_MAX
    assert index.lookup(59, 10, least=5000).tolist() == [1]


def test_sums_are_counted_as_they_are() -> None:
    """Neither the greatest value times the rows, nor what different substreams add up to, counts as a sum."""
    index = CollectiveSum(4, 10)
    ones = np.ones(65_536, np.int64)
    ones[777] = 2**45
    index.insert(np.arange(65_536) % 100, np.zeros(65_536, np.int64), ones)
    assert index.lookup(0, 10, least=2**44).tolist() == [77]
    index.insert(np.arange(64), np.full(64, 1), np.full(64, 2**55))
    assert sorted(index.lookup(1, 10, least=2**54).tolist()) == list(range(64))


@pytest.mark.parametrize("levels", [1, 2, 4])
def test_a_batch_of_many_windows_adds_up_to_more_than_any_of_them(levels: int) -> None:
    index, random = CollectiveSum(levels, 10), np.random.default_rng(levels)
    groups, times = random.integers(0, 3, 3000), np.sort(random.integers(0, 3000, 3000))
    trace = Trace(groups, times, random.integers(0, 2**53, 3000), [], 10)
    assert sum(trace.values.tolist()) > 4 * LENGTH_MAX
    index.insert(groups, times, trace.values)
    now = int(times[-1])
    assert int(index._lengths.max()) < LENGTH_MAX
    for least, most in ((2**54, None), (2**55, None), (None, 2**55), (2**53, 2**56)):
        for range_us in (2, 5, 10):
            rows = trace.window(len(groups), now, range_us)
            check_candidates(index, rows, sum, now, (range_us, least, most), RELATIVE_ERRORS[levels])


def test_what_a_filter_does_not_do_is_refused() -> None:
    one = np.array([0])
    sums, counts, greatest = CollectiveSum(1, 100), CollectiveCount(1, 100), CollectiveExtreme(True, 100)
    with pytest.raises(DataError, match="from 0 on, and -3 came"):
        sums.insert(one, np.array([5]), np.array([-3]))
    with pytest.raises(DataError, match="adds integers"):
        sums.insert(one, np.array([5]), np.array([1.5]))
    with pytest.raises(DataError, match="add up to more"):
        sums.insert(one, np.array([5]), np.array([2**61]))
    assert sums.live().tolist() == [], "nothing of what was refused is held"
    with pytest.raises(DataError, match="compares integers, not float64"):
        greatest.insert(one, np.array([5]), np.array([1.5]))
    with pytest.raises(PlanError, match="at least 1 level"):
        CollectiveCount(0)
    counts.insert(one, np.array([50]))
    greatest.insert(one, np.array([50]), np.array([1]))
    for index in (counts, greatest):
        with pytest.raises(PlanError, match="windows that end now"):
            index.lookup(now=49, range_us=10)
        with pytest.raises(PlanError, match="longest window"):
            index.lookup(now=50, range_us=101)
    with pytest.raises(DataError, match="in order of time"):
        counts.insert(one, np.array([49]))
    with pytest.raises(DataError, match="in order of time"):
        greatest.insert(one, np.array([49]), np.array([1]))
    with pytest.raises(DataError, match="in order of time"):
        SubstreamRunning(0, 10).insert(np.array([0, 0]), np.array([2, 1]), np.empty((0, 2), np.int64))


def test_eviction_gives_back_what_dead_substreams_held() -> None:
    index, running = CollectiveCount(2, 10), SubstreamRunning(0, 10)
    for number in range(100):
        groups, times = np.arange(1000) + 1000 * (number % 2), np.full(1000, 20 * number)
        index.insert(groups, times)
        running.insert(groups, times, np.empty((0, 1000), np.int64))
        assert index.evict(20 * number - 9) == (1000 if number else 0)
        running.evict(20 * number - 9)
        assert index.live().tolist() == running.live().tolist() == groups.tolist()
        assert sorted(index.lookup(20 * number, 10, least=1).tolist()) == groups.tolist()
    assert running.bytes_held < 500_000
