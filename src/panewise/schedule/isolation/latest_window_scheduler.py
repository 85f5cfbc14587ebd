"""LWS and TTU: moves are done at once, and a read sees the window as of its commit. Golab 2006, algorithms 7 and 8.

A read has a bit per sub-window that it has scanned. Move j takes copy j - k out of the window of a read of length k; if
that bit is set, the read has seen what is no longer there, and is aborted (the bit is that of sub-window
(j + n - k) mod n, as line 5 of algorithm 7 says; the proof below it has the sign wrong). Otherwise the read now has the
new sub-window to scan instead of the one that left, whatever its length: what is left to scan is recomputed from the
youngest k, so no transaction has to be rewritten (footnote 3). Where sub-windows last unequally long, k is another one
after the move (`lengths`): a read is aborted if any sub-window that it has scanned is not among the youngest k then.

What is scanned next is an order (`read_orders.py`). With `by_sub_window` this is the plain LWS of the experiments. With
`youngest_first` it is algorithm 8, TTU: what is about to be replaced is scanned last, and a read is aborted only where
every order of its scans would have it aborted (theorem 7.4).

Two variants:

- `on_conflict=RESCAN` (end of section 7.4.2): old copies are kept as long as a running read has to take them out of its
  answer again. Instead of aborting, the read gets a step that undoes the old copy. No aborts; `kept_copies` says the
  price in space, and TTU makes the fewest such steps.
- Moves of WEAK results (section 7.4.3) insert rows into sub-windows that stay. A read that has scanned one of them is
  passed these rows (`Moved.forwarded`), and finds the others where it scans. Such a result is read whole: it is
  partitioned by expiration, so its youngest sub-windows are no shorter window.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from panewise.errors import PanewiseError
from panewise.schedule.isolation.read_orders import ReadOrder, bit_of, copy_of, youngest_first
from panewise.schedule.isolation.schedulers import Moved, Running, Scheduler, Step
from panewise.schedule.isolation.transactions import WindowMove, WindowRead


class OnConflict(Enum):
    ABORT = auto()
    RESCAN = auto()


@dataclass(slots=True)
class LatestRead(Running):
    to_undo: list[int] = field(default_factory=list)
    """Copies that were scanned and have left the window since."""


class LatestWindowScheduler(Scheduler):
    """
    >>> scheduler = LatestWindowScheduler(sub_windows=2)
    >>> scheduler.begin(WindowRead("Q", length=2))
    >>> scheduler.next_step("Q").sub_window, scheduler.move().aborted, scheduler.next_step("Q").sub_window
    (1, (), 0)
    >>> scheduler.commit("Q") == scheduler.last_move == 2
    True
    """

    def __init__(
        self,
        sub_windows: int,
        last_move: int | None = None,
        order: ReadOrder = youngest_first,
        on_conflict: OnConflict = OnConflict.ABORT,
    ) -> None:
        super().__init__(sub_windows, last_move)
        self._order = order
        self._on_conflict = on_conflict

    def next_step(self, name: str) -> Step | None:
        running = self._latest(self._found(name))
        if running.to_undo:
            copy = running.to_undo.pop(0)
            return Step(copy % self.sub_windows, copy, undo=True)
        unread = self._unread(running)
        return self._scan(running, self._order(unread, self.sub_windows, self.last_move)) if unread else None

    def move(
        self, inserted_into: frozenset[int] = frozenset(), lengths: Mapping[str, int] | None = None
    ) -> Moved | None:
        aborted: list[str] = []
        for name, running in self._running.items():
            length = running.read.length
            if inserted_into and length < self.sub_windows:
                raise PanewiseError(f"'{name}' reads {length} sub-windows of a WEAK result, which is read whole")
            after = length if lengths is None else lengths.get(name, length)
            # Of the window as it was, the sub-windows that are not in the window as it becomes.
            gone = running.seen & self._window(length) & ~(self._window(after) << 1)
            if not gone:
                continue
            if self._on_conflict is OnConflict.ABORT:
                aborted.append(name)
            else:
                self._latest(running).to_undo.extend(self._copies(gone))
        for name in aborted:
            del self._running[name]
        self._advance(lengths)
        move = WindowMove(self.last_move, inserted_into)
        forwarded = tuple(self._forwarded(inserted_into)) if inserted_into else ()
        return Moved(move, move.sub_window(self.sub_windows), tuple(aborted), forwarded)

    def is_complete(self, name: str) -> bool:
        return super().is_complete(name) and not self._latest(self._found(name)).to_undo

    def kept_copies(self) -> set[int]:
        """Old copies that somebody still has to undo, and that may not be dropped."""
        return {copy for running in self._running.values() for copy in self._latest(running).to_undo}

    def _copies(self, bits: int) -> list[int]:
        return [copy_of(i, self.sub_windows, self.last_move) for i in range(bits.bit_length()) if bits >> i & 1]

    def _forwarded(self, inserted_into: frozenset[int]) -> list[tuple[str, int]]:
        return [
            (name, sub_window)
            for name, running in self._running.items()
            for sub_window in sorted(inserted_into)
            if running.seen >> bit_of(sub_window, self.sub_windows, self.last_move) & 1
        ]

    def _started(self, read: WindowRead) -> Running:
        return LatestRead(read)

    def _unread(self, running: Running) -> int:
        return self._window(running.read.length) & ~running.seen

    def _reflected(self, running: Running) -> int:
        return self.last_move

    @staticmethod
    def _latest(running: Running) -> LatestRead:
        assert isinstance(running, LatestRead)
        return running
