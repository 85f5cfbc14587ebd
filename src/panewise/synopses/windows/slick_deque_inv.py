"""SlickDeque (Inv): subtract-on-evict with one running answer per range, shared by all sliding windows of that range.

Invariant: for every number of slices that a window had of late there is a running value of its own, at the last
position of that length that was asked for. A window of n slices continues the running value of n, whoever asked for it
before: windows that differ in slide, or in the phase of their slides, do not each keep one. Windows by time have
different numbers of slices at different instants, and a running value for each.

    length   3 -> value of [4, 7)       asked for [5, 8): take slice 4 away, add slice 7
             5 -> value of [2, 7)

Insert O(1); an answer 2 operations per slice moved. A length that is new starts from the answer before it, which in the
order of ends is near: 1,000 ranges that end together cost the slices that they differ by. Running values whose slices
have all gone are given up. For states that can be taken away exactly (integers); any window, a historical one too, by
rows or by time. Space: a state per length besides the slices. Source: Shein, Chrysanthis, Labrinidis 2018; Shein and
Chrysanthis 2020, section 2.2.
"""

from __future__ import annotations

import numpy as np

from panewise.aggregates.states import StateKind
from panewise.arrays import Floats, Ints
from panewise.synopses.windows.subtract_on_evict import SubtractOnEvict


class SlickDequeInv(SubtractOnEvict):
    """Running values by number of slices instead of by window."""

    def __init__(self, kind: StateKind, width: int) -> None:
        self._lengths: Ints = np.empty(0, np.int64)  # of each running value; -1 where it is free
        super().__init__(kind, width)

    @property
    def bytes_held(self) -> int:
        return super().bytes_held + self._by_length.nbytes + self._lengths.nbytes

    def drop_window(self, window: int) -> None:
        """Nothing is kept per sliding window; a range that is not asked for goes with its slices."""

    def _renew(self) -> None:
        self._pointers = np.zeros((self.POINTERS, 1), np.int64)
        super()._renew()
        self._by_length = np.full(self._room + 1, -1, np.int64)
        self._lengths = np.full(self._pointers.shape[1], -1, np.int64)

    def _evicted(self) -> None:
        super()._evicted()
        ended = np.flatnonzero((self._pointers[1] == 0) & (self._lengths >= 0))
        if len(ended):
            self._by_length[self._lengths[ended]] = -1
            self._lengths[ended] = -1
            self._compact()

    def _compact(self) -> None:
        """Windows that grow leave running values of all their lengths behind; few remain in use."""
        kept = np.flatnonzero(self._lengths >= 0)
        if len(self._lengths) > 4 * len(kept) + 16:
            self._lengths, self._pointers = self._lengths[kept], np.ascontiguousarray(self._pointers[:, kept])
            running = self._running.reshape(self.kind.int_fields, -1, self.width)[:, kept]
            self._running = np.ascontiguousarray(running).reshape(self.kind.int_fields, -1)
            self._by_length[self._lengths] = np.arange(len(kept))

    def answer(
        self, starts: Ints, ends: Ints, ranks: Ints, groups: int | None = None, windows: Ints | None = None
    ) -> tuple[Ints, Floats]:
        return super().answer(starts, ends, ranks, groups)

    def _make_room(self, starts: Ints, ends: Ints, windows: Ints) -> None:
        """Running values for the lengths that have none."""
        lengths = np.unique(ends - starts)
        missing = lengths[self._by_length[lengths] < 0]
        in_use = len(self._lengths) - np.count_nonzero(self._lengths < 0)
        super()._make_room(starts, ends, np.array([in_use + len(missing) - 1]))
        grown = np.full(self._pointers.shape[1], -1, np.int64)
        grown[: len(self._lengths)] = self._lengths
        numbers = np.flatnonzero(grown < 0)[: len(missing)]
        grown[numbers], self._by_length[missing], self._lengths = missing, numbers, grown
