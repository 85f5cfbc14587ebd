"""A scheduler whose decisions are recorded as a history.

It has the methods of a scheduler, forwards every request, and records what the caller will have done before its next
request. Isolation is judged from this history alone (`levels.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

from panewise.schedule.isolation.histories import History, HistoryBuilder, OperationKind
from panewise.schedule.isolation.schedulers import Moved, Scheduler, Step
from panewise.schedule.isolation.transactions import WindowRead


class RecordedScheduler:
    """
    >>> from panewise.schedule.isolation.latest_window_scheduler import LatestWindowScheduler
    >>> recorded = RecordedScheduler(LatestWindowScheduler(sub_windows=2))
    >>> recorded.begin(WindowRead("Q", length=2))
    >>> _ = recorded.next_step("Q"), recorded.move(), recorded.next_step("Q"), recorded.commit("Q")
    >>> str(recorded.history())
    'rQ[1] w2[0] c2 rQ[0] cQ'
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self._builder = HistoryBuilder(scheduler.sub_windows, scheduler.last_move + 1)

    @property
    def sub_windows(self) -> int:
        return self.scheduler.sub_windows

    @property
    def last_move(self) -> int:
        return self.scheduler.last_move

    def history(self) -> History:
        return self._builder.history()

    def begin(self, read: WindowRead) -> None:
        self.scheduler.begin(read)
        self._builder.begin(read.name, read.length)

    def runnable(self) -> tuple[str, ...]:
        return self.scheduler.runnable()

    def choose(self) -> str | None:
        return self.scheduler.choose()

    def next_step(self, name: str) -> Step | None:
        step = self.scheduler.next_step(name)
        if step is not None:
            self._builder.add(OperationKind.UNDO if step.undo else OperationKind.READ, name, step.sub_window)
        return step

    def move(
        self, inserted_into: frozenset[int] = frozenset(), lengths: Mapping[str, int] | None = None
    ) -> Moved | None:
        moved = self.scheduler.move(inserted_into, lengths)
        if moved is None:
            return None
        if lengths is not None and self.scheduler.follows_moves:
            for name, length in lengths.items():
                self._builder.begin(name, length)
        number = moved.move.number
        self._builder.add(OperationKind.WRITE, number, moved.sub_window)
        for sub_window in sorted(moved.move.inserted_into):
            self._builder.add(OperationKind.INSERT, number, sub_window)
        for name in moved.aborted:
            self._builder.add(OperationKind.ABORT, name)
        for name, sub_window in moved.forwarded:
            self._builder.add(OperationKind.FORWARD, name, sub_window)
        self._builder.add(OperationKind.COMMIT, number)
        return moved

    def commit(self, name: str) -> int:
        reflected = self.scheduler.commit(name)
        self._builder.add(OperationKind.COMMIT, name)
        return reflected

    def abort(self, name: str) -> None:
        self.scheduler.abort(name)
        self._builder.add(OperationKind.ABORT, name)
