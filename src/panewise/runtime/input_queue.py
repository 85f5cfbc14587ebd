"""Bounded queues in front of streams: pushers wait while they are full, a thread of each takes what waits.

    CREATE STREAM s (...) WITH (queue = 1000000)

A push to such a stream judges its rows, and sheds where the stream says so, in the pusher's own thread; it returns when
they wait in the queue, before they are processed. The stream's thread processes them under the engine's lock. So does
everybody else who takes that lock to read: they find every row that was pushed before their call, as in an engine
without queues. Only the time of the work differs, never an answer.

                 the queue's lock                      the engine's lock
    pushers  --> judge, shed --> [ rows that wait ] --> admit, process --> queries
                    wait while it is full                its thread, or any reader

Invariant: a push enters only while fewer than `capacity` rows wait, so never more wait than the capacity and one push. A push that has waited `timeout` seconds raises OverloadError, and nothing of it was taken. Who holds the
engine's lock may take a queue's, never the other way round. Cost: two uncontended locks a push.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from panewise.errors import CatalogError, OverloadError
from panewise.runtime.stream import Judged, Stream

if TYPE_CHECKING:
    from panewise.runtime.engine import Engine


class InputQueue:
    """The rows of one stream that wait."""

    def __init__(self, stream: Stream, capacity: int) -> None:
        self.stream = stream
        self.capacity = capacity
        self.rows = 0
        self.rows_most = 0  # that have ever waited
        self.blocked_s = 0.0  # how long pushers have waited, all together
        self.problem: Exception | None = None  # what a subscriber raised in the thread; the next push raises it
        self._newest: int | None = None
        self._waiting: deque[Judged] = deque()
        self._changed = threading.Condition(threading.Lock())
        self._closed = False

    def put(self, data: Any, timeout: float | None = None) -> None:
        """Rows for the stream; waits for room, at most `timeout` seconds."""
        batches = self.stream.intake.batches(data)
        with self._changed:
            self._wait_for_room(timeout)
            if self.problem is not None:
                problem, self.problem = self.problem, None
                raise problem
            newest = self.stream.newest if self._newest is None else self._newest
            judged = self.stream.judged(batches, newest, self.rows / self.capacity)
            self._newest = judged.newest
            self._waiting.append(judged)
            self.rows += judged.taken
            self.rows_most = max(self.rows, self.rows_most)
            self._changed.notify_all()

    def _wait_for_room(self, timeout: float | None) -> None:
        clock = self.stream.monitor.clock
        since = clock()
        room = self._changed.wait_for(lambda: self._closed or self.rows < self.capacity, timeout)
        self.blocked_s += clock() - since
        if self._closed:
            raise CatalogError(f"there is no stream '{self.stream.name}' any more")
        if not room:
            raise OverloadError(
                f"stream '{self.stream.name}' is overloaded: {self.rows} rows have waited for {timeout} seconds",
                hint="nothing of this push was taken: push it again, or give the stream shedding",
            )

    def admit(self) -> None:
        """What waits goes on to the stream; the caller holds the engine's lock and processes it before it lets go."""
        with self._changed:
            waiting, self._waiting, self.rows = self._waiting, deque(), 0
            self._changed.notify_all()
        for judged in waiting:
            self.stream.admit(judged)

    def close(self) -> None:
        """Nothing comes in any more; pushers that wait are told, the thread ends."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def wait(self) -> bool:
        """Until something waits; False where nothing ever will."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or bool(self._waiting))
            return not self._closed

    @property
    def waiting(self) -> bool:
        return bool(self._waiting)

    def stats(self) -> dict[str, Any]:
        with self._changed:
            return {"capacity": self.capacity, "rows_most": self.rows_most, "blocked_seconds": self.blocked_s}


def serve(queue: InputQueue, engine: Engine) -> threading.Thread:
    """Starts the thread of a queue; it ends with the queue, or with the engine."""
    weakref.finalize(engine, queue.close)
    thread = threading.Thread(
        target=_work, args=(queue, weakref.ref(engine)), name=f"panewise queue of {queue.stream.name}", daemon=True
    )
    thread.start()
    return thread


def _work(queue: InputQueue, engine_of: Callable[[], Engine | None]) -> None:
    while queue.wait():
        engine = engine_of()
        if engine is None:
            return
        try:
            engine.process(queue.stream)
        except Exception as problem:  # noqa: BLE001 - a subscriber's, which the next pusher hears of
            queue.problem = problem
        del engine
        time.sleep(0)  # readers that wait for the engine's lock come between
