"""The Spark query of a run: started, watched, halted and started again.

Invariant: at most one Spark query of the run is active. A halt ends it at a micro-batch boundary. If none comes within
`HALT_SECONDS`, Spark is stopped inside a micro-batch, which the next start replays. If Spark gave up on a Python
process that was slow to connect, nothing of the micro-batch has run, and the query is started again.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from panewise.spark.delivery.batch_writer import HALT_SECONDS, Halt
from panewise.spark.environment.folder import Folder
from panewise.spark.environment.session import START_TRIES, came_too_late
from panewise.spark.tasks.batch_progress import next_batch

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

TELL_SECONDS = 0.1  # between `StreamingQuery.stop` and the end of the micro-batch that the writer holds
WAIT_SECONDS = 0.5  # between two looks at the query, because a change may have replaced it


class SupervisedQuery:
    """`start` starts a Spark query, which ends when the halt that it is given is asked for."""

    def __init__(self, folder: Folder, start: Callable[[Halt], StreamingQuery]) -> None:
        self._folder = folder
        self._start = start
        self._query: StreamingQuery | None = None
        self._halt = Halt()
        self._too_late: list[int] = []  # micro-batches before which a Python process connected too late
        self.lock = threading.RLock()  # held while the query is being replaced or ended

    def start(self) -> None:
        self._halt = Halt()
        self._query = self._start(self._halt)

    @property
    def active(self) -> bool:
        """Whether the query runs. Restarts it first if a Python process connected too late."""
        return self._query is not None and (bool(self._query.isActive) or self._restarted())

    @property
    def busy(self) -> bool:
        """Whether a micro-batch is under way. (A trigger also counts as active while it only looks for new data.)"""
        query = self._query
        return query is not None and bool(query.isActive and query.status["isDataAvailable"])

    @property
    def error(self) -> Exception | None:
        """The error that ended the query; None while it runs and after a halt."""
        if self._query is None or self._halt.asked.is_set():
            return None
        return self._query.exception()

    @property
    def message(self) -> str:
        """Spark's message on what the query is doing."""
        return "" if self._query is None else str(self._query.status["message"])

    def progress(self) -> list[dict[str, Any]]:
        """Spark's progress events of the last micro-batches."""
        if self._query is None:
            return []
        return [json.loads(event.json) for event in self._query.recentProgress]

    def halt(self) -> None:
        """Ends the query at a micro-batch boundary, or where it is if no boundary comes within HALT_SECONDS."""
        query, halt = self._query, self._halt
        if query is None:
            return
        halt.asked.set()
        until = time.monotonic() + HALT_SECONDS
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < until:
            if halt.held.wait(0.01):
                break
        # The held micro-batch must not fail before Spark is stopping, or Spark would log an error.
        threading.Timer(TELL_SECONDS, halt.told.set).start()
        query.stop()
        halt.told.set()

    def wait(self, timeout: float | None, at_end: Callable[[], None]) -> bool:
        """Waits until the query has ended; False if it has not within `timeout` seconds.

        Raises the error that ended the query. Otherwise calls `at_end`, with the lock held.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            query = self._query
            if query is None:
                return True
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            step = WAIT_SECONDS if left is None else min(WAIT_SECONDS, left)
            time.sleep(step if query.isActive else 0)
            ended = not query.isActive
            with self.lock:
                if ended and self._query is query and not self._restarted():
                    if (error := self.error) is not None:
                        raise error
                    at_end()
                    return True
            if left is not None and left <= 0:
                return False

    def process_all(self) -> None:
        """Waits until all that was there when this was called has been processed."""
        from pyspark.errors import StreamingQueryException

        while (query := self._query) is not None:
            try:
                query.processAllAvailable()
                return
            except StreamingQueryException:
                with self.lock:
                    if self._query is query and not self._restarted():
                        raise

    def _restarted(self) -> bool:
        """Starts the query again if a Python process connected too late; returns whether it did."""
        if not self.lock.acquire(blocking=False):
            return False  # another thread ends or replaces it
        try:
            error = None if self._query is None or self._query.isActive else self.error
            batch = next_batch(self._folder)
            if error is None or not came_too_late(error) or self._too_late.count(batch) >= START_TRIES:
                return False
            self._too_late.append(batch)
            self.start()
            return True
        finally:
            self.lock.release()
