"""Bounded queues in front of streams: pushers wait while they are full, a thread of each takes what waits.

    CREATE STREAM s (...) WITH (queue = 1000000)

A push to such a stream judges its rows, and sheds where the stream says so, in the pusher's own thread; it returns when
they wait in the queue, before they are processed. The stream's thread (`queue_thread`) processes them under the
engine's lock. So does everybody else who takes that lock to read: they find every row that was pushed before their
call, as in an engine without queues. Only the time of the work differs, never an answer.

                 the queue's lock                      the engine's lock
    pushers  --> judge, shed --> [ rows that wait ] --> admit, process --> queries
                    wait while it is full                its thread, or any reader

Invariant: a push enters only while fewer than `capacity` rows wait, so never more wait than the capacity and one push.
A push that has waited `timeout` seconds raises OverloadError, and nothing of it was taken. Who holds the engine's lock
may take a queue's, never the other way round. Pushes with a sequence, and all in an engine with a path, go around the
queue, behind what waits in it: they are acknowledged when they are taken. Cost: an uncontended lock a push.

Interrupts. A push waits whole or not at all, because one step puts it in; what is counted beside it is counted anew
where an interrupt came between.
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
    """The rows of one stream that wait, judged by its judge."""

    def __init__(self, judge: RowJudge, capacity: int) -> None:
        self._judge = judge
        self.capacity = capacity
        self.rows = 0
        self.rows_most = 0  # that have ever waited
        self.blocked_s = 0.0  # how long pushers have waited, all together
        self.problem: Exception | None = None  # what a subscriber raised in the thread; the next push raises it
        self._extent = Extent()
        self._waiting: deque[Judged | list[list[Any]]] = deque()  # the last may be rows pushed one by one
        self._counted = True  # whether `rows` and the extent follow from what waits
        self._lock = threading.Lock()  # taken by `with`, which interrupts do not tear
        self._changed = threading.Condition(self._lock)
        self._closed = False

    def put(self, data: Any, timeout: float | None = None) -> None:
        """Rows for the stream; waits for room, at most `timeout` seconds."""
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
        """A single row waits to be judged with others; False where something may be wrong with it."""
        time = row[self._judge.intake.time_index]
        extent, limit = self._come_to(), self._judge.limit
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
        """Rows pushed one by one are judged, in their place among the batches."""
        rows = self._waiting[-1] if self._waiting else None
        if isinstance(rows, list):
            judged = self._judged([self._judge.intake.batch_of(rows)])
            self._counted = False
            self._waiting[-1] = judged
            self._extent, self.rows = judged.extent, self.rows - len(rows) + judged.taken
            self._counted = True

    def _count(self) -> None:
        """`rows` and the extent follow from what waits, also after an interrupt."""
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
        return self._judge.judged(batches, self._come_to(), min(self.rows / self.capacity, 1.0))

    def _take(self, judged: Judged) -> None:
        self._counted = False
        self._waiting.append(judged)
        self._extent = judged.extent
        self.rows += judged.taken
        self._counted = True

    def _come_to(self) -> Extent:
        """Of all that has come."""
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
        """What waits, for the stream to admit: whole pushes until there are `most` rows where that is given.

        The caller is inside the engine, and processes what it gets before others get in.
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

    def close(self) -> None:
        """Nothing comes in any more; pushers that wait are told, the thread ends."""
        with self._lock:
            self._closed = True
            self._changed.notify_all()

    def forked(self) -> None:
        """This is a child process, without the queue's thread, which may have held the lock: nothing comes in."""
        self._lock = threading.Lock()
        self._changed, self._closed = threading.Condition(self._lock), True

    def wait(self) -> bool:
        """Until something waits; False where nothing ever will."""
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
