"""COUNT DISTINCT of any window without reading its values, from the previous slice of each value.

    slice          0      1      2      3        a value counts in the first slice of a window that has it, that is,
    values        a b    a c     b     a c       where its previous slice lies before the window:
    previous      - -    0 -     0     1 1       [1, 4): 0, -, 0 are below 1, so there are 3 distinct values

For each slice and group, the previous slices are kept as a run, with counts, in dyadic intervals. A table has the slice
in which each value of each group was last seen. Invariant: for each distinct value of a group in [start, end), exactly
one slice of the window has it with a previous slice below `start`. So an answer is one binary search in each run of the
cover: O(log slices log q), where q, the number of distinct previous slices, is at most the number of slices held.
Insert O(1) per distinct value of the slice. Space: an entry per distinct value held, and O(log slices) times the
distinct previous slices.

Windows may have any range, be historical, and be by count or by time. Values need only equality. Golab 2006, section
2.3.4, keeps a count of each distinct value for the same exact answers; the intervals are from Arasu and Widom 2004,
section 3.
"""

from __future__ import annotations

import numpy as np

from panewise.arrays import Ints
from panewise.loops import compiled_loop
from panewise.synopses.values.dyadic_runs import DyadicRuns
from panewise.synopses.values.runs import Run, run_of

LEAST_ROOM = 1024
NEVER = -1  # the previous slice of a value seen for the first time


class DistinctCounts:
    """The previous slices of the values in slices `first` to `after`, and the table of last slices."""

    def __init__(self, first: int = 0) -> None:
        self._before = DyadicRuns()
        self._before.replace(first, *(np.empty(0, np.int64) for _ in range(4)))
        self._clear(LEAST_ROOM)

    def _clear(self, room: int) -> None:
        self._table: Ints = np.full((room, 3), NEVER, np.int64)  # group, value, last slice
        self._used = 0

    @property
    def bytes_held(self) -> int:
        return self._before.bytes_held + self._table.nbytes

    def insert(self, runs: list[Run]) -> None:
        for run in runs:
            self.insert_joined(np.array([len(run)]), run.groups, run.values, run.counts)

    def insert_joined(self, lengths: Ints, groups: Ints, values: Ints, counts: Ints) -> None:
        """Appends new slices as concatenated runs. The counts of values are ignored."""
        if 2 * (self._used + len(values)) > len(self._table):
            self._rebuild(self._entries(), len(values))
        before = np.empty(len(values), np.int64)
        self._used += _saw(self._table, self._before.after, lengths, groups, values, before)
        begin, runs = 0, []
        for length in lengths.tolist():
            runs.append(run_of(groups[begin : begin + length], before[begin : begin + length]))
            begin += length
        self._before.insert(runs)

    def evict(self, before: int) -> None:
        self._before.evict(before)

    def distinct(self, starts: Ints, ends: Ints, groups: Ints) -> Ints:
        """How many distinct values there are in each window and group (answers x groups)."""
        result = np.zeros((len(starts), len(groups)), np.int64)
        ranges = self._before.ranges(starts, ends, groups)
        _below(self._before.values, self._before.before, *ranges, np.repeat(starts, len(groups)), result.reshape(-1))
        return result

    def regroup(self, renamed: Ints) -> None:
        """Renumbers groups: `renamed` has the new number of each old one, -1 for a dropped group."""
        self._before.regroup(renamed)
        entries = self._entries()
        entries[:, 0] = renamed[entries[:, 0]]
        self._rebuild(entries[entries[:, 0] >= 0], 0)

    def recode(self, renamed: Ints) -> None:
        """Renumbers values: `renamed` has the new code of each old one."""
        entries = self._entries()
        entries[:, 1] = renamed[entries[:, 1]]
        self._rebuild(entries, 0)

    def _entries(self) -> Ints:
        """The table entries whose last slice is still held. Older entries are equivalent to none."""
        return self._table[self._table[:, 2] >= max(0, self._before.first)]

    def _rebuild(self, entries: Ints, more: int) -> None:
        self._clear(max(LEAST_ROOM, 1 << (4 * (len(entries) + more)).bit_length()))
        _enter(self._table, entries)
        self._used = len(entries)


@compiled_loop
def _find(table: Ints, group: int, value: int) -> int:
    """The place of an entry, or the free place for it."""
    mask = table.shape[0] - 1
    mixed = np.uint64(value) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(group) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    place = np.int64(mixed >> np.uint64(32)) & mask
    while table[place, 2] >= 0 and (table[place, 1] != value or table[place, 0] != group):
        place = (place + 1) & mask
    return int(place)


@compiled_loop
def _saw(table: Ints, after: int, lengths: Ints, groups: Ints, values: Ints, before: Ints) -> int:
    """Records the values of new slices and writes their previous slices. Returns the number of new entries."""
    at, new = 0, 0
    for i in range(lengths.shape[0]):
        for _ in range(lengths[i]):
            place = _find(table, groups[at], values[at])
            before[at] = table[place, 2]
            if table[place, 2] < 0:
                table[place, 0], table[place, 1] = groups[at], values[at]
                new += 1
            table[place, 2] = after + i
            at += 1
    return new


@compiled_loop
def _enter(table: Ints, entries: Ints) -> None:
    for i in range(entries.shape[0]):
        place = _find(table, entries[i, 0], entries[i, 1])
        table[place, 0], table[place, 1], table[place, 2] = entries[i, 0], entries[i, 1], entries[i, 2]


@compiled_loop
def _below(values: Ints, before: Ints, offsets: Ints, lows: Ints, highs: Ints, bounds: Ints, result: Ints) -> None:
    """Counts, for each entry, the values in its ranges that are less than its bound."""
    for entry in range(result.shape[0]):
        for n in range(offsets[entry], offsets[entry + 1]):
            low, high = lows[n], highs[n]
            while low < high:
                middle = (low + high) >> 1
                if values[middle] < bounds[entry]:
                    low = middle + 1
                else:
                    high = middle
            result[entry] += before[low] - before[lows[n]]
