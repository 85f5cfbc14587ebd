"""Bags of values over dyadic intervals (B-INT-QNT): exact quantiles, COUNT DISTINCT and TOP k of any window.

Each slice is a run, and each dyadic interval that some window needed is a run merged from its halves. A window is the
union of O(log slices) of these runs, its cover. Groups are ranges within runs. With p runs in the cover, of at most q
distinct values each:

    insert    O(log slices) per distinct value of a slice, when nodes above it are first needed
    evict     O(1)
    totals    O(p log groups)
    ranked    selection over the runs by binary search: expected O(p log^2 q), without sorting or merging the window;
              any rank per answer and group, so any fraction per query
    distinct  O(p log q), from `distinct_counts`, which is kept once distinct values have been asked for
    top, above    O(distinct values of the cover): a merge of sorted counts

Space: O(log slices) times the distinct values of the slices. Values need only equality and, for `ranked`, order.
Windows may have any range, be historical, and be by count or by time, because slices are numbered, not timed. One
compiled loop answers all windows of a call.

Sources: Arasu and Widom 2004, section 3.3; Golab 2006, section 2.3.4 (holistic aggregates, interval synopses). The
papers repeat equal elements; here they are counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from panewise.arrays import Ints
from panewise.loops import compiled_loop
from panewise.synopses.values.distinct_counts import DistinctCounts
from panewise.synopses.values.dyadic_runs import DyadicRuns
from panewise.synopses.values.runs import Run, run_of


class BagSynopsis:
    """Runs of slices `first` to `after`, and of dyadic intervals over them, made when first needed.

    Answers are for windows [start, end) of slice numbers and for groups, in any order; a group may have no value in the
    window. They have the shape answers x groups.

    >>> bag = BagSynopsis()
    >>> bag.insert([run_of(np.zeros(3, np.int64), np.array(values)) for values in ([5, 1, 5], [2, 9, 2], [5, 7, 0])])
    >>> starts, ends, groups = np.array([0, 1]), np.array([3, 3]), np.array([0])
    >>> bag.ranked(starts, ends, groups, np.array([[5], [6]])).tolist()
    [[5], [9]]
    >>> bag.distinct(starts, ends, groups).tolist()
    [[6], [5]]
    """

    def __init__(self) -> None:
        self._runs = DyadicRuns()
        self._distinct: DistinctCounts | None = None  # made when distinct values are first counted

    @property
    def first(self) -> int:
        return self._runs.first

    @property
    def after(self) -> int:
        return self._runs.after

    @property
    def bytes_held(self) -> int:
        """Bytes of state."""
        return self._runs.bytes_held + (self._distinct.bytes_held if self._distinct is not None else 0)

    def insert(self, runs: list[Run]) -> None:
        """Appends new slices, oldest first, one run each. A slice without values is an empty run."""
        self._runs.insert(runs)
        if self._distinct is not None:
            self._distinct.insert(runs)

    def insert_joined(self, lengths: Ints, groups: Ints, values: Ints, counts: Ints) -> None:
        """Appends new slices as concatenated runs of these lengths: one call for many small slices."""
        self._runs.insert_joined(lengths, groups, values, counts)
        if self._distinct is not None:
            self._distinct.insert_joined(lengths, groups, values, counts)

    def evict(self, before: int) -> None:
        """Forgets the slices numbered below `before`."""
        self._runs.evict(before)
        if self._distinct is not None:
            self._distinct.evict(before)

    # -- answers -----------------------------------------------------------------------------------------------------

    def totals(self, starts: Ints, ends: Ints, groups: Ints) -> Ints:
        """Numbers of values; equal values count each time."""
        result = np.zeros((len(starts), len(groups)), np.int64)
        ranges = self._runs.ranges(starts, ends, groups)
        _totals(self._runs.before, *ranges, result.reshape(-1))
        return result

    def ranked(self, starts: Ints, ends: Ints, groups: Ints, ranks: Ints) -> Ints:
        """The value of each rank (answers x groups, from 1 to the total), or 0 if there is no such rank."""
        result = np.zeros((len(starts), len(groups)), np.int64)
        # Ranges first, because computing them may move the arena.
        ranges = self._runs.ranges(starts, ends, groups)
        _ranked(self._runs.values, self._runs.before, *ranges, ranks.reshape(-1), result.reshape(-1))
        return result

    def distinct(self, starts: Ints, ends: Ints, groups: Ints) -> Ints:
        """Numbers of distinct values."""
        if self._distinct is None:
            self._distinct = DistinctCounts(self.first)
            self._distinct.insert_joined(*self._runs.held())
        return self._distinct.distinct(starts, ends, groups)

    def top(self, starts: Ints, ends: Ints, groups: Ints, k: int, order: Ints | None = None) -> tuple[Ints, Ints, Ints]:
        """The k most frequent values of each answer and group, most frequent first: (offsets, values, counts).

        The values of an answer and a group begin at offsets[answer * len(groups) + group]; a last offset has the end of
        all. Equal counts come in the order of their values or, for codes of strings, of `order`, which has the rank of
        each code.
        """
        assert k >= 1, "top needs k of at least 1"
        thresholds = np.zeros((len(starts), len(groups)), np.int64)
        return self._counted(starts, ends, groups, thresholds, k, order)

    def above(
        self, starts: Ints, ends: Ints, groups: Ints, thresholds: Ints, order: Ints | None = None
    ) -> tuple[Ints, Ints, Ints]:
        """All values that occur more often than the threshold (answers x groups), in the same form as `top`."""
        return self._counted(starts, ends, groups, thresholds, np.iinfo(np.int64).max, order)

    def _counted(
        self, starts: Ints, ends: Ints, groups: Ints, thresholds: Ints, k: int, order: Ints | None
    ) -> tuple[Ints, Ints, Ints]:
        ranges = self._runs.ranges(starts, ends, groups)
        found, values, counts = _counted(self._runs.values, self._runs.before, *ranges, thresholds.reshape(-1), k)
        entries = np.repeat(np.arange(len(found) - 1), np.diff(found))
        by = np.lexsort((values if order is None else order[values], -counts, entries))
        entries, values, counts = entries[by], values[by], counts[by]
        if k < np.iinfo(np.int64).max:  # the loop also returned values that tie with the k-th
            kept = np.arange(len(entries)) - found[entries] < k
            entries, values, counts = entries[kept], values[kept], counts[kept]
        ended = np.zeros(len(found), np.int64)
        np.cumsum(np.bincount(entries, minlength=len(found) - 1), out=ended[1:])
        return ended, values, counts

    # -- renumbering and snapshots -----------------------------------------------------------------------------------

    def regroup(self, renamed: Ints) -> None:
        """Renumbers groups: `renamed` has the new number of each old one, -1 for a dropped group."""
        self._runs.regroup(renamed)
        if self._distinct is not None:
            self._distinct.regroup(renamed)

    def recode(self, renamed: Ints) -> None:
        """Renumbers values: `renamed` has the new code of each old one (any number for codes that no group has)."""
        if self._distinct is not None:
            self._distinct.recode(renamed)
        lengths, groups, values, counts = self._runs.held()
        codes = np.unique(values)
        if np.all(np.diff(renamed[codes]) > 0):
            self._runs.recode(renamed)
            return
        ends = np.cumsum(lengths)
        runs = [
            run_of(groups[end - length : end], renamed[values[end - length : end]], counts[end - length : end])
            for length, end in zip(lengths, ends, strict=True)
        ]
        first = self.first
        self._runs.replace(first, *(np.empty(0, np.int64) for _ in range(4)))
        self._runs.insert(runs)

    def held(self) -> list[Run]:
        """The runs of all slices held, as they were inserted."""
        lengths, groups, values, counts = self._runs.held()
        ends = np.cumsum(lengths).tolist()
        pieces = [slice(end - length, end) for length, end in zip(lengths.tolist(), ends, strict=True)]
        return [Run(groups[piece], values[piece], counts[piece]) for piece in pieces]

    def snapshot(self) -> dict[str, Any]:
        """All state as plain arrays. Intervals above slices are made again when needed."""
        lengths, groups, values, counts = self._runs.held()
        return {
            "first": self.first,
            "after": self.after,
            "lengths": lengths,
            "groups": groups,
            "values": values,
            "counts": counts,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Replaces the state by that of a snapshot."""
        arrays = (np.asarray(snapshot[name], np.int64) for name in ("lengths", "groups", "values", "counts"))
        self._runs.replace(int(snapshot["first"]), *arrays)
        self._distinct = None


# -- loops -----------------------------------------------------------------------------------------------------------


@compiled_loop
def _totals(before: Ints, offsets: Ints, lows: Ints, highs: Ints, result: Ints) -> None:
    for entry in range(result.shape[0]):
        for n in range(offsets[entry], offsets[entry + 1]):
            result[entry] += before[highs[n]] - before[lows[n]]


@compiled_loop
def _ranked(values: Ints, before: Ints, offsets: Ints, lows: Ints, highs: Ints, ranks: Ints, result: Ints) -> None:
    most_runs = 0
    for entry in range(result.shape[0]):
        most_runs = max(most_runs, offsets[entry + 1] - offsets[entry])
    middles = np.empty(most_runs, np.int64)
    for entry in range(result.shape[0]):
        begin, end = offsets[entry], offsets[entry + 1]
        result[entry] = _selected(values, before, lows[begin:end], highs[begin:end], middles, ranks[entry])


@compiled_loop
def _selected(values: Ints, before: Ints, lows: Ints, highs: Ints, middles: Ints, rank: int) -> int:
    """The value of a rank among sorted ranges: each pivot splits all ranges, and one side is dropped.

    Pivots are taken from the longest range: in turn where the rank would be if all ranges had the same distribution,
    and in the middle. The first is a good guess; the second halves the range in any case.
    """
    runs, total = lows.shape[0], 0
    for j in range(runs):
        total += before[highs[j]] - before[lows[j]]
    if rank < 1 or rank > total:
        return 0
    guess = True
    while True:
        longest = 0
        for j in range(1, runs):
            if highs[j] - lows[j] > highs[longest] - lows[longest]:
                longest = j
        length = highs[longest] - lows[longest]
        if guess and length > 4:
            pivot = values[lows[longest] + int(length * (rank - 0.5) / total)]
        else:
            pivot = values[lows[longest] + (length >> 1)]
        guess = not guess
        less, equal = 0, 0
        for j in range(runs):
            low, high = lows[j], highs[j]
            while low < high:
                middle = (low + high) >> 1
                if values[middle] < pivot:
                    low = middle + 1
                else:
                    high = middle
            middles[j] = low
            less += before[low] - before[lows[j]]
            if low < highs[j] and values[low] == pivot:
                equal += before[low + 1] - before[low]
        if rank > less and rank <= less + equal:
            return int(pivot)
        if rank <= less:
            total = less
            for j in range(runs):
                highs[j] = middles[j]
        else:
            total -= less + equal
            rank -= less + equal
            for j in range(runs):
                has_pivot = middles[j] < highs[j] and values[middles[j]] == pivot
                lows[j] = middles[j] + has_pivot


@compiled_loop
def _united(
    values: Ints, before: Ints, lows: Ints, highs: Ints,
    new_values: Ints, new_counts: Ints, old_values: Ints, old_counts: Ints,
) -> tuple[int, Ints, Ints]:  # fmt: skip
    """The merged ranges. The shortest are merged first, so that what is merged repeatedly is short."""
    runs = lows.shape[0]
    for i in range(1, runs):
        low, high = lows[i], highs[i]
        j = i
        while j and highs[j - 1] - lows[j - 1] > high - low:
            lows[j], highs[j] = lows[j - 1], highs[j - 1]
            j -= 1
        lows[j], highs[j] = low, high
    length = 0
    for r in range(runs):
        new_values, new_counts, old_values, old_counts = old_values, old_counts, new_values, new_counts
        a, b, high, at = 0, lows[r], highs[r], 0
        while a < length and b < high:
            if old_values[a] <= values[b]:
                new_values[at], new_counts[at] = old_values[a], old_counts[a]
                if old_values[a] == values[b]:
                    new_counts[at] += before[b + 1] - before[b]
                    b += 1
                a += 1
            else:
                new_values[at], new_counts[at] = values[b], before[b + 1] - before[b]
                b += 1
            at += 1
        while a < length:
            new_values[at], new_counts[at] = old_values[a], old_counts[a]
            a += 1
            at += 1
        while b < high:
            new_values[at], new_counts[at] = values[b], before[b + 1] - before[b]
            b += 1
            at += 1
        length = at
    return length, new_values, new_counts


@compiled_loop
def _least_of_top(counts: Ints, length: int, k: int, best: Ints) -> int:
    """The k-th greatest count. `best` is a heap of the k greatest counts so far, with the least on top."""
    held = 0
    for i in range(length):
        count = counts[i]
        if held < k:
            at = held
            held += 1
            while at and best[(at - 1) >> 1] > count:
                best[at] = best[(at - 1) >> 1]
                at = (at - 1) >> 1
            best[at] = count
        elif count > best[0]:
            at = 0
            while True:
                child = 2 * at + 1
                if child >= k:
                    break
                if child + 1 < k and best[child + 1] < best[child]:
                    child += 1
                if best[child] >= count:
                    break
                best[at] = best[child]
                at = child
            best[at] = count
    return int(best[0])


@compiled_loop
def _counted(
    values: Ints, before: Ints, offsets: Ints, lows: Ints, highs: Ints, thresholds: Ints, k: int
) -> tuple[Ints, Ints, Ints]:
    """For each window and group, the values whose counts exceed the threshold and reach the k-th greatest count."""
    room = 0
    for entry in range(thresholds.shape[0]):
        length = 0
        for n in range(offsets[entry], offsets[entry + 1]):
            length += highs[n] - lows[n]
        room = max(room, length)
    values1, counts1 = np.empty(room, np.int64), np.empty(room, np.int64)
    values2, counts2 = np.empty(room, np.int64), np.empty(room, np.int64)
    best = np.empty(min(k, room), np.int64)
    found_offsets = np.zeros(thresholds.shape[0] + 1, np.int64)
    found_values, found_counts = np.empty(1024, np.int64), np.empty(1024, np.int64)
    at = 0
    for entry in range(thresholds.shape[0]):
        begin, end = offsets[entry], offsets[entry + 1]
        length, all_values, all_counts = _united(
            values, before, lows[begin:end], highs[begin:end], values1, counts1, values2, counts2
        )
        least = thresholds[entry] + 1
        if length > k:
            least = max(least, _least_of_top(all_counts, length, k, best))
        if at + length > found_values.shape[0]:
            more = max(2 * found_values.shape[0], at + length)
            more_values, more_counts = np.empty(more, np.int64), np.empty(more, np.int64)
            more_values[:at], more_counts[:at] = found_values[:at], found_counts[:at]
            found_values, found_counts = more_values, more_counts
        for i in range(length):
            if all_counts[i] >= least:
                found_values[at], found_counts[at] = all_values[i], all_counts[i]
                at += 1
        found_offsets[entry + 1] = at
    return found_offsets, found_values[:at].copy(), found_counts[:at].copy()
