"""Serial: a read locks the window; moves and other reads wait until it ends. Golab 2006, sections 7.1 and 7.5.1.

Earlier stream systems work this way; it is the baseline. There are no aborts, but a move is delayed by a long read, and
a one-time query cannot suspend a periodic one.
"""

from __future__ import annotations

from collections.abc import Mapping

from panewise.errors import PanewiseError
from panewise.schedule.isolation.read_orders import youngest_first
from panewise.schedule.isolation.schedulers import Moved, Running, Scheduler, Step
from panewise.schedule.isolation.transactions import WindowMove


class SerialScheduler(Scheduler):
    """
    >>> from panewise.schedule.isolation.transactions import WindowRead
    >>> scheduler = SerialScheduler(sub_windows=2)
    >>> scheduler.begin(WindowRead("Q", length=1))
    >>> scheduler.next_step("Q"), scheduler.move()
    (Step(sub_window=1, copy=1, undo=False), None)
    >>> scheduler.commit("Q"), scheduler.move().sub_window
    (1, 0)
    """

    def runnable(self) -> tuple[str, ...]:
        chosen = self.choose()
        return () if chosen is None else (chosen,)

    def choose(self) -> str | None:
        for name, running in self._running.items():
            if running.seen:
                return name
        return super().choose()

    def next_step(self, name: str) -> Step | None:
        running = self._found(name)
        if name != self.choose():
            raise PanewiseError(f"'{name}' must wait until '{self.choose()}' has ended")
        unread = self._unread(running)
        return self._scan(running, youngest_first(unread, self.sub_windows, self.last_move)) if unread else None

    def move(
        self, inserted_into: frozenset[int] = frozenset(), lengths: Mapping[str, int] | None = None
    ) -> Moved | None:
        if any(running.seen for running in self._running.values()):
            return None
        self._advance(lengths)
        move = WindowMove(self.last_move, inserted_into)
        return Moved(move, move.sub_window(self.sub_windows))

    def _unread(self, running: Running) -> int:
        return self._window(running.read.length) & ~running.seen

    def _reflected(self, running: Running) -> int:
        return self.last_move
