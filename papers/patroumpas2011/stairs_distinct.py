"""Duplicate elimination on the stairs: the distinct values of many windows from one log of latest appearances.

Every window keeps the latest appearance of a value, and only what lies before the start of the next shorter window:

      slice        3    4    5    6    7    8              end
      window 1   |---core 1---|                            its values: those of both cores, each once
      window 0                |------core 0-------|
      log          a    b    c    a    d    c
                   ^ phantom: 'a' has appeared again since, nearer to the end

A value that appears again is written down again, at the end of the log; its older appearance no longer counts, but
stays where it is, a phantom. An appearance that expires from a window without a substitute goes over to the next stair:
the boundary between them moves past it. Phantoms are removed when somebody meets them: a report closes the gaps of what
it enumerates, and a full log is closed up as a whole. So nothing above is looked at when a row arrives.

Because appearances carry their slice there is no grain to match: all windows are one chain, whatever their slides, and
a stair is moved when its window is asked for, which is what the buffers of the structure are for. Invariants: the log
ascends by slice; an appearance counts where `newest` of its value points to it; `live` counts these by stair.

Cost: a row O(1), amortised; `count` one step per value that has expired since and per stair; `distinct` in addition one
step per value and per phantom that has come since the last report. Space: at most twice the distinct values of the
longest window, and two numbers per code. It answers suffix windows of many ranges, by rows or by time in slices, and
no historical ones. Values need equality only. Source: Patroumpas and Sellis 2011, section 4.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from panewise.arrays import Ints
from panewise.loops import compiled_loop

LEAST_ROOM = 256


@compiled_loop
def _append(
    after: int, slices: Ints, codes: Ints, log_slices: Ints, log_codes: Ints, tail: int, newest: Ints, stairs: Ints,
    live: Ints,
) -> int:  # fmt: skip
    """Rows enter the lowest stair; where the log ends then."""
    for i in range(codes.shape[0]):
        code, number = codes[i], after + slices[i]
        place = newest[code]
        if place >= 0:
            if log_slices[place] == number:
                continue
            live[stairs[code]] -= 1
        log_slices[tail], log_codes[tail] = number, code
        newest[code], stairs[code] = tail, 0
        live[0] += 1
        tail += 1
    return tail


@compiled_loop
def _advance(
    top: int, after: int, ranges: Ints, bounds: Ints, log_slices: Ints, log_codes: Ints, tail: int, newest: Ints,
    stairs: Ints, live: Ints,
) -> None:  # fmt: skip
    """The stairs up to `top` begin where their windows do now; what expires goes over to the next, or out."""
    for stair in range(top + 1):
        start = after - ranges[stair]
        limit = bounds[stair - 1] if stair > 0 else tail
        place = bounds[stair]
        while place < limit and log_slices[place] < start:
            code = log_codes[place]
            if newest[code] == place:
                live[stair] -= 1
                stairs[code] = stair + 1
                if stair + 1 < ranges.shape[0]:
                    live[stair + 1] += 1
                else:
                    newest[code] = -1
            place += 1
        bounds[stair] = place


@compiled_loop
def _close_up(
    begin: int, into: int, log_slices: Ints, log_codes: Ints, tail: int, newest: Ints, bounds: Ints, below: int
) -> int:
    """Moves what counts of the log from `begin` on to `into`, without gaps; where the log ends then.

    The bounds of the stairs numbered under `below`, which all lie from `begin` on, move along.
    """
    place, stair = into, below - 1
    for position in range(begin, tail):
        while stair >= 0 and bounds[stair] <= position:
            bounds[stair] = place
            stair -= 1
        code = log_codes[position]
        if newest[code] == position:
            log_slices[place], log_codes[place] = log_slices[position], code
            newest[code] = place
            place += 1
    while stair >= 0:
        bounds[stair] = place
        stair -= 1
    return place


class StairsDistinct:
    """The distinct values of windows that end at the newest slice; values are codes from 0 on.

    >>> windows = StairsDistinct([2, 4])
    >>> windows.insert(np.array([0, 1, 2, 3, 4]), np.array([7, 8, 7, 9, 9]), 5)
    >>> [windows.distinct(0).tolist(), windows.distinct(1).tolist()]
    [[9], [8, 7, 9]]
    """

    def __init__(self, ranges: list[int]) -> None:
        self.first = 0
        self.after = 0
        self._windows = dict(enumerate(ranges))
        self._tail = 0
        self._log_slices: Ints = np.empty(LEAST_ROOM, np.int64)
        self._log_codes: Ints = np.empty(LEAST_ROOM, np.int64)
        self._newest: Ints = np.full(0, -1, np.int64)
        self._stairs: Ints = np.zeros(0, np.int64)
        self._build()

    @property
    def bytes_held(self) -> int:
        own = (self._log_slices, self._log_codes, self._newest, self._stairs, self._ranges, self._bounds, self._live)
        return sum(array.nbytes for array in own)

    def insert(self, slices: Ints, codes: Ints, count: int) -> None:
        """`count` new slices; row i has the value `codes[i]` in slice `slices[i]` of these, which ascend."""
        most = int(codes.max(initial=-1)) + 1
        if most > len(self._newest):
            grown = max(most, 2 * len(self._newest))
            self._newest = np.concatenate([self._newest, np.full(grown - len(self._newest), -1)])
            self._stairs = np.concatenate([self._stairs, np.zeros(grown - len(self._stairs), np.int64)])
        if self._tail + len(codes) > len(self._log_codes):
            self._make_room(len(codes))
        if len(self._live):  # without a window nothing is kept
            self._tail = _append(
                self.after, slices, codes, self._log_slices, self._log_codes, self._tail, self._newest, self._stairs,
                self._live,
            )  # fmt: skip
        self.after += count

    def _make_room(self, rows: int) -> None:
        """Closes up the whole log, and doubles it where it would be more than half full."""
        stairs = len(self._ranges)
        if stairs:
            self._move(stairs - 1)
            begin = int(self._bounds[-1])
            self._tail = _close_up(
                begin, 0, self._log_slices, self._log_codes, self._tail, self._newest, self._bounds, stairs
            )
        room = len(self._log_codes)
        while room < 2 * self._tail + rows:
            room *= 2
        if room > len(self._log_codes):
            for name in ("_log_slices", "_log_codes"):
                grown = np.empty(room, np.int64)
                grown[: self._tail] = getattr(self, name)[: self._tail]
                setattr(self, name, grown)

    def _move(self, stair: int) -> None:
        _advance(
            stair, self.after, self._ranges, self._bounds, self._log_slices, self._log_codes, self._tail, self._newest,
            self._stairs, self._live,
        )  # fmt: skip

    def count(self, window: int) -> int:
        """How many distinct values a window has now."""
        stair = self._stair(window)
        self._move(stair)
        return int(self._live[: stair + 1].sum())

    def distinct(self, window: int) -> Ints:
        """The distinct values of a window now, in the order of their latest appearances."""
        stair = self._stair(window)
        self._move(stair)
        begin = int(self._bounds[stair])
        self._tail = _close_up(
            begin, begin, self._log_slices, self._log_codes, self._tail, self._newest, self._bounds, stair
        )
        return self._log_codes[begin : self._tail].copy()

    def evict(self, before: int) -> None:
        """Forgets the slices numbered below `before`, though windows may reach there."""
        self.first = min(max(self.first, before), self.after)
        self._build()

    def add_window(self, window: int, range_slices: int) -> None:
        """A window from now on; what no window held any more is not seen by it."""
        self._windows[window] = range_slices
        self._build()

    def drop_window(self, window: int) -> None:
        """What it alone added goes over to the next longer window."""
        del self._windows[window]
        self._build()

    def _stair(self, window: int) -> int:
        return int(np.searchsorted(self._ranges, self._windows[window]))

    def _build(self) -> None:
        """The stairs of the windows there are, from the log."""
        self._ranges = np.unique(np.array(list(self._windows.values()), np.int64))
        counts = self._newest[self._log_codes[: self._tail]] == np.arange(self._tail)
        longest = int(self._ranges.max(initial=0))
        counts &= self._log_slices[: self._tail] >= max(self.first, self.after - longest)
        slices, codes = self._log_slices[: self._tail][counts], self._log_codes[: self._tail][counts]
        self._tail = len(codes)
        self._log_slices[: self._tail], self._log_codes[: self._tail] = slices, codes
        self._newest[:] = -1
        self._newest[codes] = np.arange(self._tail)
        self._bounds = np.searchsorted(slices, self.after - self._ranges).astype(np.int64)
        # A value is on the stair of the shortest window that reaches back to it.
        self._stairs[codes] = np.searchsorted(self._ranges, self.after - slices)
        self._live = np.bincount(self._stairs[codes], minlength=len(self._ranges)).astype(np.int64)

    def snapshot(self) -> dict[str, Any]:
        self._build()
        return {
            "first": self.first,
            "after": self.after,
            "windows": np.array(list(self._windows.items()), np.int64).reshape(-1, 2),
            "slices": self._log_slices[: self._tail].copy(),
            "codes": self._log_codes[: self._tail].copy(),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.first, self.after = snapshot["first"], snapshot["after"]
        self._windows = {int(window): int(range_slices) for window, range_slices in snapshot["windows"]}
        slices, codes = snapshot["slices"], snapshot["codes"]
        self._tail = len(codes)
        room = max(LEAST_ROOM, 1 << (2 * self._tail).bit_length())
        self._log_slices, self._log_codes = np.empty(room, np.int64), np.empty(room, np.int64)
        self._log_slices[: self._tail], self._log_codes[: self._tail] = slices, codes
        known = int(codes.max(initial=-1)) + 1
        self._newest, self._stairs = np.full(known, -1, np.int64), np.zeros(known, np.int64)
        self._newest[codes] = np.arange(self._tail)
        self._build()
