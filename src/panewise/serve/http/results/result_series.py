"""The results of one query from its creation to its end: numbered rows, for any number of readers in threads and tasks.

A series has a unique id. DROP QUERY and CREATE QUERY of the same name make a new series, so a reader that comes back
with a number of the old one can be told. The columns of a series never change.

Readers have no queues. Each reads by number at its own pace, and asks to be woken when there are new rows. Appending
schedules one callback for each event loop, which wakes all its tasks, however many tasks and appends there are. So
appending never waits for readers, and costs the same for one and for a thousand.

A reader may keep a series after its end and read the remaining rows; then `read` raises Ended.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Hashable

import pyarrow as pa

from panewise.errors import CatalogError, NotHeldError
from panewise.serve.http.results.numbered_rows import Chunk, NumberedRows, time_column


class Gone(NotHeldError):
    """The requested rows are no longer held; those from `first_held` on are."""

    def __init__(self, message: str, first_held: int) -> None:
        super().__init__(message, hint=f"the first row held is {first_held}")
        self.first_held = first_held


class Ended(CatalogError):
    """The series has ended: the query was dropped or created again, or the server ends. `reason` says which."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"the results of query '{name}' have ended: {reason}")
        self.reason = reason


class Series:
    """Any thread may read it; only its ResultLog changes it."""

    def __init__(self, name: str, id: str, rows: NumberedRows, start: int) -> None:
        self.name = name
        self.id = id
        self.schema = rows.schema
        self.start = start  # the number of its first row; not 0 if earlier ones were lost
        # Returns the number from which on rows stay regardless of limits; set by a reader that must not miss any.
        self.wanted_from: Callable[[], int | None] = _nothing
        self._rows = rows
        self._changed = threading.Condition()
        self._signals: dict[asyncio.AbstractEventLoop, _LoopSignal] = {}
        self._ended: str | None = None

    # -- reading -------------------------------------------------------------------------------------------------

    @property
    def next(self) -> int:
        """The number of the next row. Never waits."""
        return self._rows.next

    @property
    def ended(self) -> str | None:
        """The reason why there will be no more rows; None before the end."""
        return self._ended

    @property
    def bytes(self) -> int:
        return self._rows.bytes

    @property
    def bytes_in_memory(self) -> int:
        """The bytes of rows that are not mapped from files."""
        return self._rows.bytes_in_memory

    def bounds(self) -> tuple[int, int]:
        """The number of the first row held, and of the next row to come."""
        with self._changed:
            return self._rows.first, self._rows.next

    def read(self, start: int, most: int) -> tuple[int, pa.Table]:
        """`start` and up to `most` rows from there on, perhaps none yet; raises Gone, NotHeldError or Ended."""
        with self._changed:
            if start < self._rows.first:
                raise Gone(f"row {start} of query '{self.name}' is no longer held", self._rows.first)
            if start > self._rows.next:
                raise NotHeldError(
                    f"query '{self.name}' has no row {start}", hint=f"the next row will be {self._rows.next}"
                )
            if start == self._rows.next and self._ended is not None:
                raise Ended(self.name, self._ended)
            return start, self._rows.read(start, most)

    def after_window(self, window_end_us: int) -> int:
        """The number of the first row of a later window (or instant); raises Gone if such rows are no longer held."""
        if time_column(self.schema) is None:
            raise NotHeldError(f"the results of query '{self.name}' have no column window_end or instant")
        with self._changed:
            given_up = self._rows.given_up_until_us
            if given_up is not None and given_up > window_end_us:
                raise Gone(f"rows of query '{self.name}' after that window are no longer held", self._rows.first)
            return self._rows.after(window_end_us)

    def wait(self, start: int, timeout: float) -> bool:
        """For threads: waits up to `timeout` seconds for row `start` or the end; returns whether it came."""
        with self._changed:
            return self._changed.wait_for(lambda: self._rows.next > start or self._ended is not None, timeout)

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """For tasks: calls `wake` in the task's loop after rows or the end have come; returns a function that stops it.

        Read once after this call and after each wake-up, so that no row is missed.
        """
        loop = asyncio.get_running_loop()
        with self._changed:
            signal = self._signals.setdefault(loop, _LoopSignal(loop))
        signal.listeners[wake] = None

        def stop() -> None:
            signal.listeners.pop(wake, None)

        return stop

    # -- methods for the ResultLog -------------------------------------------------------------------------------

    def take(self, batch: pa.RecordBatch, first: int, keep_rows: int, keep_bytes: int) -> None:
        """Appends rows from number `first` on, which is not below `next`, applies the limits, and wakes all readers."""
        with self._changed:
            if first > self._rows.next:
                self._rows.skip_to(first)
                self._rows.miss_before(batch)
            self._rows.append(batch)
            self._rows.limit(keep_rows, keep_bytes, self.wanted_from())
        self._wake()

    def give_up_oldest(self) -> int:
        """Evicts the oldest chunk, unless it is the only one or has wanted rows; returns the number of rows."""
        with self._changed:
            return self._rows.give_up_oldest(self.wanted_from())

    def chunks(self) -> list[Chunk]:
        """The held chunks, oldest first."""
        with self._changed:
            return self._rows.chunks()

    def mapped(self, chunk: Chunk, batch: pa.RecordBatch, file: Hashable) -> None:
        """Replaces a chunk by the same rows mapped from a file."""
        with self._changed:
            self._rows.mapped(chunk, batch, file)

    @property
    def in_memory_from(self) -> int:
        """The number of the first row in memory; all before it are in files."""
        with self._changed:
            return self._rows.in_memory_from

    def end(self, reason: str) -> None:
        """Ends the series and wakes all readers; no more rows will come."""
        with self._changed:
            self._ended = self._ended or reason
        self._wake()

    @property
    def given_up_until_us(self) -> int | None:
        return self._rows.given_up_until_us

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
            signals = list(self._signals.values())
        for signal in signals:
            if not signal.notify():
                with self._changed:
                    self._signals.pop(signal.loop, None)


def _nothing() -> None:
    """The default of `wanted_from`: no row is wanted."""


class _LoopSignal:
    """Wakes all listeners of one event loop; one callback serves all appends before it runs."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.listeners: dict[Callable[[], None], None] = {}  # an ordered set; only the loop changes it
        self._scheduled = False

    def notify(self) -> bool:
        """Call from any thread after the series has changed; returns False if the loop is closed."""
        # A race between two threads schedules two callbacks, which is harmless.
        if self._scheduled or not self.listeners:
            return True
        self._scheduled = True
        try:
            self.loop.call_soon_threadsafe(self._fire)
        except RuntimeError:
            return False
        return True

    def _fire(self) -> None:
        self._scheduled = False
        for wake in list(self.listeners):
            wake()
