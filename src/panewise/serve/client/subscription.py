"""Live results for a function of the caller: `client.subscribe(query, callback)`.

A thread of its own calls back with one batch after the other. `next` is the number of the row behind the last batch
that the function has taken, that is, for which it has returned: who keeps that number, with what the function did, goes
on from there in another process without a gap or a repetition. A function that raises ends its subscription, because
the batch can neither be left out nor be delivered twice; the exception is `error`, is logged, and `wait` raises it.
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
    """A running subscription. Calling it ends it, as with what `Engine.subscribe` returns."""

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
        """Why there will be no more results: the query was dropped, or it was closed; None while it runs."""
        return self._live.ended

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it has ended, at most so many seconds, and says whether it has; raises what ended it."""
        self._thread.join(timeout)
        if self.error is not None:
            raise self.error
        return not self._thread.is_alive()

    def close(self) -> None:
        """Ends it, and waits for a callback that is running. A callback may close its own subscription."""
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
        except Exception as problem:  # whatever the caller's function raises is the caller's to see
            self.error = problem
            LOGGER.error("the subscription to '%s' has ended", self.query, exc_info=problem)
        finally:
            self._live.close()
