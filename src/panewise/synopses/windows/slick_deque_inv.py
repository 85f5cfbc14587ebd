"""SlickDeque (Inv): subtract-on-evict with one running answer per range, shared by all sliding windows of that range.

Invariant: for every length in slices that a window had recently there is one running value, at the last position of
that length that was asked for. A window of n slices continues the running value of length n, whichever window asked for
it before. So windows that differ only in their slide, or in the phase of their slides, share a value. Windows by time
have different lengths at different instants, and a running value for each length.

    length   3 -> value of [4, 7)       asked for [5, 8): subtract slice 4, add slice 7
             5 -> value of [2, 7)

Insert O(1); an answer costs 2 operations per slice moved. A new length starts from the answer before it, which is near
if answers come in the order of their ends: 1,000 ranges that end together cost only the slices by which they differ.
Running values whose slices were all evicted are dropped. For states that can be subtracted exactly (integers); any
window, also historical, by rows or by time. Space: a state per length besides the slices. Source: Shein, Chrysanthis,
Labrinidis 2018; Shein and Chrysanthis 2020, section 2.2.
"""

from __future__ import annotations

import numpy as np

from panewise.aggregates.states import StateKind
from panewise.arrays import Floats, Ints
from panewise.synopses.windows.subtract_on_evict import SubtractOnEvict


class SlickDequeInv(SubtractOnEvict):
    """Running values by length in slices instead of by window."""

    def __init__(self, kind: StateKind, width: int) -> None:
        self._lengths: Ints = np.empty(0, np.int64)  # length of each running value; -1: the value is free
        super().__init__(kind, width)

    @property
    def bytes_held(self) -> int:
        return super().bytes_held + self._by_length.nbytes + self._lengths.nbytes

    def drop_window(self, window: int) -> None:
        """Nothing is kept per sliding window. The value of a length no longer asked for is dropped with its slices."""

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
        """Removes free running values if they are many: growing windows leave behind a value of each length."""
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
        """Makes running values for the lengths that have none."""
        lengths = np.unique(ends - starts)
        missing = lengths[self._by_length[lengths] < 0]
        in_use = len(self._lengths) - np.count_nonzero(self._lengths < 0)
        super()._make_room(starts, ends, np.array([in_use + len(missing) - 1]))
        grown = np.full(self._pointers.shape[1], -1, np.int64)
        grown[: len(self._lengths)] = self._lengths
        numbers = np.flatnonzero(grown < 0)[: len(missing)]
        grown[numbers], self._by_length[missing], self._lengths = missing, numbers, grown
