"""WS: moves never wait, and a read sees the window as of its first step. Golab 2006, section 7.5.1.

The thesis says: "Similar to algorithm 8, but only enforces window-serializability". Answers reflect no concurrent move,
so this is algorithm 8 in reverse. A read scans the sub-windows that are replaced soonest first. It is aborted when a
sub-window of its state is replaced before it was scanned. A shorter read has more time, because sub-windows that have
left its window exist until they are replaced.

A move of a WEAK result inserts into sub-windows that stay. A read that would see only a part of these rows is aborted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from panewise.schedule.isolation.read_orders import ReadOrder, bit_of, oldest_first
from panewise.schedule.isolation.schedulers import Moved, Running, Scheduler, Step
from panewise.schedule.isolation.transactions import WindowMove, WindowRead


@dataclass(slots=True)
class SnapshotRead(Running):
    state: int = 0
    """The sub-windows of the state that is read, without those replaced since; 0 before the first step."""
    as_of: int = -1
    """The last move of that state; -1 before the first step."""


class WindowScheduler(Scheduler):
    """
    >>> scheduler = WindowScheduler(sub_windows=2)
    >>> scheduler.begin(WindowRead("Q", length=2))
    >>> scheduler.next_step("Q").sub_window, scheduler.move().aborted, scheduler.next_step("Q").sub_window
    (0, (), 1)
    >>> scheduler.commit("Q"), scheduler.last_move
    (1, 2)
    """

    follows_moves = False

    def __init__(self, sub_windows: int, last_move: int | None = None, order: ReadOrder = oldest_first) -> None:
        super().__init__(sub_windows, last_move)
        self._order = order

    def next_step(self, name: str) -> Step | None:
        running = self._snapshot(self._found(name))
        if running.as_of < 0:
            running.state = self._window(running.read.length)
            running.as_of = self.last_move
        unread = self._unread(running)
        return self._scan(running, self._order(unread, self.sub_windows, self.last_move)) if unread else None

    def move(
        self, inserted_into: frozenset[int] = frozenset(), lengths: Mapping[str, int] | None = None
    ) -> Moved | None:
        changed = 1  # the bit of the oldest sub-window, which is replaced
        for sub_window in inserted_into:
            changed |= 1 << bit_of(sub_window, self.sub_windows, self.last_move)
        aborted = tuple(name for name, running in self._running.items() if self._state(running) & changed)
        for name in aborted:
            del self._running[name]
        self._advance(lengths)
        for running in self._running.values():
            self._snapshot(running).state >>= 1
        move = WindowMove(self.last_move, inserted_into)
        return Moved(move, move.sub_window(self.sub_windows), aborted)

    def _started(self, read: WindowRead) -> Running:
        return SnapshotRead(read)

    def _state(self, running: Running) -> int:
        """The sub-windows that a started read must still scan."""
        return self._snapshot(running).state & ~running.seen

    def _unread(self, running: Running) -> int:
        started = self._snapshot(running).as_of >= 0
        return self._state(running) if started else self._window(running.read.length)

    def _reflected(self, running: Running) -> int:
        return self._snapshot(running).as_of

    @staticmethod
    def _snapshot(running: Running) -> SnapshotRead:
        assert isinstance(running, SnapshotRead)
        return running
