"""Frequent items (algorithm 6): the values over a threshold, from the k most frequent values of each slice.

For each slice and group, the list of the k most frequent values is kept with exact counts. The k-th count is the
slice's share of delta, because no value missing in the list occurs more often in the slice. Over a window,

    counted(v)  the sum of the listed counts of v:  counted(v) <= true(v) <= counted(v) + delta
    delta       the sum of the shares:              a value on no list occurs at most delta times
    reported    v where counted(v) > delta          so true(v) > delta: there is never a false report

A value with more than delta occurrences may be missed if it is on too few lists; it then occurs at most 2 delta times.
A slice with fewer than k values lists all of them and has the share 0. Windows are also reported before they are full.
Slices may have any number of rows, so windows may be by count or by time.

Lists and shares are runs, each kept in a `BagSynopsis`. Windows of any range, also historical ones, are sums over O(log
slices) intervals. Insert O(distinct values of the slice), answer O(distinct values listed). Space: O(k log slices) per
slice and group; the paper's queue, which answers one window, needs O(k).

Source: Golab 2006, section 6.2. Values need only equality.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from panewise.arrays import Ints
from panewise.loops import compiled_loop
from panewise.synopses.values.bags import BagSynopsis
from panewise.synopses.values.runs import Run


class FrequentSynopsis:
    """The k most frequent values of each slice and group, with their counts.

    >>> from panewise.synopses.values.runs import run_of
    >>> rows = [[7, 7, 7, 4, 4, 9], [7, 7, 4, 4, 4, 1], [7, 7, 7, 7, 2, 3]]
    >>> frequent = FrequentSynopsis(2)
    >>> frequent.insert([run_of(np.zeros(6, np.int64), np.array(values)) for values in rows])
    >>> window = np.array([0]), np.array([3]), np.array([0])
    >>> frequent.threshold(*window).tolist()
    [[5]]
    >>> [part.tolist() for part in frequent.report(*window)]
    [[0, 1], [7], [9]]
    """

    def __init__(self, k: int) -> None:
        assert k >= 1, "at least one value per slice and group must be kept"
        self.k = k
        self._listed = BagSynopsis()
        self._shares = BagSynopsis()  # the share as the count of the only value, 0: its total in a window is delta

    @property
    def first(self) -> int:
        return self._listed.first

    @property
    def after(self) -> int:
        return self._listed.after

    @property
    def bytes_held(self) -> int:
        """Bytes of state."""
        return self._listed.bytes_held + self._shares.bytes_held

    def insert(self, runs: list[Run]) -> None:
        """Appends new slices, oldest first, as complete runs. Keeps the k most frequent values of each group."""
        listed, shares = [], []
        for run in runs:
            groups, values, counts, share_groups, share_counts = _truncated(run.groups, run.values, run.counts, self.k)
            listed.append(Run(groups, values, counts))
            shares.append(Run(share_groups, np.zeros_like(share_groups), share_counts))
        self._listed.insert(listed)
        self._shares.insert(shares)

    def evict(self, before: int) -> None:
        """Forgets the slices numbered below `before`."""
        self._listed.evict(before)
        self._shares.evict(before)

    def threshold(self, starts: Ints, ends: Ints, groups: Ints) -> Ints:
        """Delta of each answer and group (answers x groups)."""
        return self._shares.totals(starts, ends, groups)

    def report(self, starts: Ints, ends: Ints, groups: Ints, order: Ints | None = None) -> tuple[Ints, Ints, Ints]:
        """The values with counts above delta, most frequent first, in the same form as `BagSynopsis.top`.

        A count is the sum over the lists: a lower bound of the true count, too low by at most delta.
        """
        return self._listed.above(starts, ends, groups, self.threshold(starts, ends, groups), order)

    def counters(self, starts: Ints, ends: Ints, groups: Ints) -> tuple[Ints, Ints, Ints]:
        """All values that are on some list, with their sums over the lists, in the same form as `report`."""
        return self._listed.above(starts, ends, groups, np.zeros((len(starts), len(groups)), np.int64))

    def regroup(self, renamed: Ints) -> None:
        """Renumbers groups: `renamed` has the new number of each old one, -1 for a dropped group."""
        self._listed.regroup(renamed)
        self._shares.regroup(renamed)

    def recode(self, renamed: Ints) -> None:
        """Renumbers values: `renamed` has the new code of each old one."""
        self._listed.recode(renamed)

    def held(self) -> tuple[list[Run], list[Run]]:
        """The lists and the shares of all slices held. A share is the count of the value 0."""
        return self._listed.held(), self._shares.held()

    def snapshot(self) -> dict[str, Any]:
        """All state, as plain arrays."""
        return {"k": self.k, "listed": self._listed.snapshot(), "shares": self._shares.snapshot()}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Replaces the state by that of a snapshot."""
        self.k = int(snapshot["k"])
        self._listed.restore(snapshot["listed"])
        self._shares.restore(snapshot["shares"])


@compiled_loop
def _truncated(groups: Ints, values: Ints, counts: Ints, k: int) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """The k most frequent values of each group, sorted by value, and the k-th counts of groups that have k values."""
    length = values.shape[0]
    kept_groups, kept_values = np.empty(length, np.int64), np.empty(length, np.int64)
    kept_counts = np.empty(length, np.int64)
    share_groups, share_counts = np.empty(length, np.int64), np.empty(length, np.int64)
    at, shares, begin = 0, 0, 0
    while begin < length:
        end = begin
        while end < length and groups[end] == groups[begin]:
            end += 1
        least, ties = 0, 0  # the k-th count, and how many values with this count belong to the k
        if end - begin >= k:
            best = np.sort(counts[begin:end])
            least = best[end - begin - k]
            for i in range(end - begin - k, end - begin):
                ties += best[i] == least
            share_groups[shares], share_counts[shares] = groups[begin], least
            shares += 1
        for i in range(begin, end):
            tied = counts[i] == least and ties > 0
            if counts[i] > least or tied:
                kept_groups[at], kept_values[at], kept_counts[at] = groups[i], values[i], counts[i]
                at += 1
            ties -= tied
        begin = end
    return (
        kept_groups[:at].copy(), kept_values[:at].copy(), kept_counts[:at].copy(),
        share_groups[:shares].copy(), share_counts[:shares].copy(),
    )  # fmt: skip
