"""Frequent items (algorithm 6): the values over a threshold, from the k most frequent values of each slice.

Of each slice and group the k most frequent values are kept with their exact counts, and the k-th count is the slice's
share of delta: nothing that the slice left out occurs in it more often. Over a window,

    counted(v)  the sum of the counts kept of v:    counted(v) <= true(v) <= counted(v) + delta
    delta       the sum of the shares:              a value on no list occurs at most delta times
    reported    v where counted(v) > delta          so true(v) > delta: there is never a false report

A value over delta may go unreported, when it stands on too few lists; it occurs at most 2 delta times. A slice with
fewer than k values leaves out nothing and adds 0. Windows are reported before they are full, too. Slices may hold any
number of rows, so windows may be by count or by time.

The lists are runs, kept in a `BagSynopsis` of their own, and so are the shares; windows of any range, historical ones
too, are sums over O(log slices) intervals. Insert O(distinct values of the slice), answer O(distinct values listed);
space O(k log slices) a slice and group, where the paper's queue, which answers one window, takes O(k).

Source: Golab 2006, section 6.2. Values need equality only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from panewise.arrays import Ints
from panewise.loops import compiled_loop
from panewise.synopses.values.bags import BagSynopsis
from panewise.synopses.values.runs import Run


class FrequentSynopsis:
    """Of each slice and group the k most frequent values with their counts.

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
        assert k >= 1, "at least one counter a slice"
        self.k = k
        self._listed = BagSynopsis()
        self._shares = BagSynopsis()  # of one value, 0: its total in a window is delta

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
        """Appends new slices, oldest first: whole runs, of which the k most frequent values of each group are kept."""
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
        """The values counted above delta, most frequent first: (offsets, values, counts) as `BagSynopsis.top` gives.

        A count is what the lists hold of the value: a lower bound that falls short by at most delta.
        """
        return self._listed.above(starts, ends, groups, self.threshold(starts, ends, groups), order)

    def counters(self, starts: Ints, ends: Ints, groups: Ints) -> tuple[Ints, Ints, Ints]:
        """All values on some list, with what the lists hold of them, in the form of `report`."""
        return self._listed.above(starts, ends, groups, np.zeros((len(starts), len(groups)), np.int64))

    def regroup(self, renamed: Ints) -> None:
        """Gives groups other numbers: the new one of each old one, -1 for those that are gone."""
        self._listed.regroup(renamed)
        self._shares.regroup(renamed)

    def recode(self, renamed: Ints) -> None:
        """Gives values other codes: the new one of each old one."""
        self._listed.recode(renamed)

    def held(self) -> tuple[list[Run], list[Run]]:
        """The lists and the shares of all slices held; the value of a share is 0 and its count the share."""
        return self._listed.held(), self._shares.held()

    def snapshot(self) -> dict[str, Any]:
        """All state, as plain arrays."""
        return {"k": self.k, "listed": self._listed.snapshot(), "shares": self._shares.snapshot()}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """The state of a snapshot, in place of its own."""
        self.k = int(snapshot["k"])
        self._listed.restore(snapshot["listed"])
        self._shares.restore(snapshot["shares"])


@compiled_loop
def _truncated(groups: Ints, values: Ints, counts: Ints, k: int) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """The k most frequent values of each group, still sorted by value, and the k-th counts of groups with so many."""
    length = values.shape[0]
    kept_groups, kept_values = np.empty(length, np.int64), np.empty(length, np.int64)
    kept_counts = np.empty(length, np.int64)
    share_groups, share_counts = np.empty(length, np.int64), np.empty(length, np.int64)
    at, shares, begin = 0, 0, 0
    while begin < length:
        end = begin
        while end < length and groups[end] == groups[begin]:
            end += 1
        least, ties = 0, 0  # the k-th count, and how many of its equals are among the k
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
