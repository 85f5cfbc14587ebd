"""Live results for a callback: `client.subscribe(query, callback)`.

A separate thread calls the callback with one batch after the other. When the callback returns, `next` becomes the
number of the row after that batch. A program that stores `next` together with the callback's effects can continue in
another process without gaps or repetitions. A callback that raises ends the subscription, because its batch can neither
be skipped nor delivered twice; the exception is logged, stored as `error`, and raised by `wait`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Self

import pyarrow as pa

from panewise.serve.client.live import Live

LOGGER = logging.getLogger("panewise.client")


class Subscription:
    """A running subscription. Calling the object ends it, as with the return value of `Engine.subscribe`."""

    def __init__(self, live: Live, callback: Callable[[pa.RecordBatch], None]) -> None:
        self.query = live.query
        self.next = live.next
        self.error: Exception | None = None
        self._live = live
        self._callback = callback
        self._thread = threading.Thread(target=self._run, name=f"panewise live {live.query}", daemon=True)
        self._thread.start()

    @property
    def series(self) -> str | None:
        """Identifies the results that `next` belongs to."""
        return self._live.series

    @property
    def ended(self) -> str | None:
        """The reason why there will be no more results, such as a dropped query; None while it runs."""
        return self._live.ended

    def wait(self, timeout: float | None = None) -> bool:
        """Waits at most `timeout` seconds for its end; returns whether it has ended, or raises the callback's error."""
        self._thread.join(timeout)
        if self.error is not None:
            raise self.error
        return not self._thread.is_alive()

    def close(self) -> None:
        """Ends it, and waits for a running callback. A callback may close its own subscription."""
        self._live.close()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    __call__ = close

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        try:
            for batch in self._live:
                self._callback(batch)
                self.next = self._live.next
        except Exception as problem:  # `wait` raises it
            self.error = problem
            LOGGER.error("the subscription to '%s' has ended", self.query, exc_info=problem)
        finally:
            self._live.close()
