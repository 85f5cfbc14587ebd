"""Bounded queues in front of streams: pushers wait while a queue is full, and a thread processes the queued rows.

    CREATE STREAM s (...) WITH (queue = 1000000)

A push to such a stream judges its rows, and sheds some if the stream says so, in the pusher's thread. It returns when
the rows are queued, before they are processed. The stream's thread (`queue_thread.py`) processes them under the
engine's lock. Every reader that takes that lock also processes them first. So it sees all rows that were pushed before
its call, as in an engine without queues: a queue changes when work is done, never an answer.

                 the queue's lock                      the engine's lock
    pushers  --> judge, shed --> [ queued rows ] -----> admit, process --> queries
                    wait while it is full                its thread, or any reader

Invariant: a push enters only while fewer than `capacity` rows are queued, so at most the capacity and one push are. A
push that has waited `timeout` seconds raises OverloadError, and none of its rows are taken. A thread with the engine's
lock may take a queue's lock, never the other way round. Pushes with a sequence, and all pushes to an engine with a
path, do not use the queue, because they are acknowledged when they are taken; the queued rows are taken before them.
Cost: an uncontended lock a push.

Interrupts. One step puts a push into the queue, so it is queued whole or not at all. Counts beside it are made again if
an interrupt came between.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

import pyarrow as pa

from panewise.engine.ingest.pending_rows import Judged
from panewise.engine.ingest.row_judge import RowJudge
from panewise.engine.ingest.window_limit import Extent
from panewise.errors import CatalogError, DataError, OverloadError
from panewise.temporal import INSTANT_MAX, INSTANT_MIN


class InputQueue:
    """The queued rows of one stream, judged by its judge."""

    def __init__(self, judge: RowJudge, capacity: int) -> None:
        self._judge = judge
        self.capacity = capacity
        self.rows = 0
        self.rows_most = 0  # The greatest number of rows that were ever queued.
        self.blocked_s = 0.0  # How long pushers have waited, in all.
        self.problem: Exception | None = None  # A subscriber's error in the thread; the next push raises it.
        self._extent = Extent()
        self._waiting: deque[Judged | list[list[Any]]] = deque()  # The last entry may be rows pushed one by one.
        self._counted = True  # Whether `rows` and the extent agree with the queued rows.
        self._lock = threading.Lock()  # Taken by `with`, which interrupts do not tear.
        self._changed = threading.Condition(self._lock)
        self._closed = False

    def put(self, data: Any, timeout: float | None = None) -> None:
        """Queues rows; waits for room, at most `timeout` seconds."""
        if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int | float)):
            raise DataError(f"a timeout is a number of seconds, not a {type(timeout).__name__}")
        if type(data) is list and len(data) == 1:
            data = data[0]
        row = self._judge.intake.plain_row(data) if type(data) is dict else None
        batches = None if row is not None else self._judge.intake.batches(data)
        with self._lock:
            self._count()
            if self._closed or self.rows >= self.capacity:
                self._wait_for_room(timeout)
            if self.problem is not None:
                problem, self.problem = self.problem, None
                raise problem
            if row is None or not self._put_row(row):
                self._seal()
                self._take(self._judged(self._judge.intake.batches(data) if batches is None else batches))
            self.rows_most = max(self.rows, self.rows_most)
            self._changed.notify_all()

    def _put_row(self, row: list[Any]) -> bool:
        """Queues a single row, which is judged later with others; False if it may be bad."""
        time = row[self._judge.intake.time_index]
        extent, limit = self._extent_queued(), self._judge.limit
        if not INSTANT_MIN <= time <= INSTANT_MAX or time > limit.rows_until(extent):
            return False
        self._counted = False
        if self._waiting and isinstance(self._waiting[-1], list):
            self._waiting[-1].append(row)
        else:
            self._waiting.append([row])
        self._extent = limit.with_row(time, extent)
        self.rows += 1
        self._counted = True
        return True

    def _seal(self) -> None:
        """Judges the rows pushed one by one, in their place among the batches."""
        rows = self._waiting[-1] if self._waiting else None
        if isinstance(rows, list):
            judged = self._judged([self._judge.intake.batch_of(rows)])
            self._counted = False
            self._waiting[-1] = judged
            self._extent, self.rows = judged.extent, self.rows - len(rows) + judged.taken
            self._counted = True

    def _count(self) -> None:
        """Makes `rows` and the extent agree with the queued rows after an interrupt."""
        if self._counted:
            return
        extent, count, at = self._judge.extent, 0, self._judge.intake.time_index
        for waiting in self._waiting:
            if isinstance(waiting, Judged):
                extent, count = extent.put_together(waiting.extent), count + waiting.taken
                continue
            for row in waiting:
                extent, count = self._judge.limit.with_row(row[at], extent), count + 1
        self._extent, self.rows = extent, count
        self._counted = True

    def _judged(self, batches: list[pa.RecordBatch]) -> Judged:
        return self._judge.judged(batches, self._extent_queued(), min(self.rows / self.capacity, 1.0))

    def _take(self, judged: Judged) -> None:
        self._counted = False
        self._waiting.append(judged)
        self._extent = judged.extent
        self.rows += judged.taken
        self._counted = True

    def _extent_queued(self) -> Extent:
        """The extent of all rows that have come, queued or not."""
        return self._extent.put_together(self._judge.extent)

    def _wait_for_room(self, timeout: float | None) -> None:
        clock = self._judge.monitor.clock
        since = clock()
        patience = None if timeout is None or not timeout < threading.TIMEOUT_MAX else max(timeout, 0)
        room = self._changed.wait_for(lambda: self._closed or self.rows < self.capacity, patience)
        self.blocked_s += clock() - since
        if self._closed:
            raise CatalogError(f"there is no stream '{self._judge.name}' any more")
        if not room:
            raise OverloadError(
                f"stream '{self._judge.name}' is overloaded: its queue has been full for {timeout} seconds",
                hint="nothing of this push was taken: push it again, or give the stream shedding",
            )

    def taken_out(self, most: int | None = None) -> list[Judged]:
        """Takes out queued pushes for the stream to admit: all, or whole pushes until there are `most` rows.

        The caller is inside the engine, and processes the rows before other threads enter.
        """
        taken_out: list[Judged] = []
        count = 0
        with self._lock:
            self._count()
            self._seal()
            while self._waiting and (most is None or count < most):
                judged = self._waiting.popleft()
                assert isinstance(judged, Judged), "sealed"
                taken_out.append(judged)
                count += judged.taken
            self.rows -= count
            self._changed.notify_all()
        return taken_out

    def resize(self, capacity: int) -> None:
        """Changes the capacity; queued rows stay."""
        self.capacity = capacity

    def fail_next(self, problem: Exception) -> None:
        """A subscriber raised this while queued rows were processed; the next push raises it."""
        self.problem = problem

    def close(self) -> None:
        """No row is queued any more. Waiting pushers raise an error, and the thread ends."""
        with self._lock:
            self._closed = True
            self._changed.notify_all()

    def forked(self) -> None:
        """Called in a child process, where the queue's thread does not exist and may have held the lock: closes."""
        self._lock = threading.Lock()
        self._changed, self._closed = threading.Condition(self._lock), True

    def wait(self) -> bool:
        """Waits until rows are queued; returns False if the queue is closed."""
        with self._lock:
            self._changed.wait_for(lambda: self._closed or self.waiting)
            return not self._closed

    @property
    def waiting(self) -> bool:
        return bool(self._waiting)

    @property
    def bytes_held(self) -> int:
        with self._lock:
            judged = [waiting for waiting in self._waiting if isinstance(waiting, Judged)]
            return sum(batch.nbytes for push in judged for batch in push.batches)

    def stats(self) -> dict[str, Any]:
        with self._lock:
            return {"capacity": self.capacity, "rows_most": self.rows_most, "blocked_seconds": self.blocked_s}
