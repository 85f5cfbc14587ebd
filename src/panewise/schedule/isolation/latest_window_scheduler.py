"""LWS and TTU: moves never wait, and a read sees the window as of its commit. Golab 2006, algorithms 7 and 8.

A read has a bit for each sub-window that it has scanned. Move j takes copy j - k out of the window of a read of
length k. If that bit is set, the read has seen rows that have left, and is aborted. (The bit is that of sub-window
(j + n - k) mod n, as line 5 of algorithm 7 says; the proof below it has the sign wrong.) Otherwise the read must scan
the new sub-window instead of the one that left. What is left to scan is recomputed from the youngest k, so no
transaction is rewritten (footnote 3). If sub-windows have unequal durations, k can change with the move (`lengths`): a
read is aborted if it has scanned a sub-window that is not among the youngest k any more.

An order (`read_orders.py`) decides which sub-window is scanned next. `by_sub_window` makes this the plain LWS of the
experiments. `youngest_first` makes it algorithm 8, TTU: the sub-window that is replaced next is scanned last, and a
read is aborted only if every order of scans would abort it (theorem 7.4).

Two variants:

- `on_conflict=RESCAN` (end of section 7.4.2): a read is not aborted, but gets a step that takes the old copy out of its
  answer again. Old copies are kept until then; `kept_copies` is the cost in space. TTU makes the fewest such steps.
- Moves of WEAK results (section 7.4.3) also insert rows into sub-windows that stay. A read that has scanned such a
  sub-window is given these rows (`Moved.forwarded`). Such a result is always read whole: it is partitioned by
  expiration, so its youngest sub-windows are not a shorter window.
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
    """Copies that the read has scanned and that have left its window since."""


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
                raise PanewiseError(f"'{name}' reads {length} sub-windows of a WEAK result, which must be read whole")
            after = length if lengths is None else lengths.get(name, length)
            # The scanned sub-windows of the window before the move that are not in the window after it.
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
        """Old copies that some read must still undo, and that must not be dropped."""
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
