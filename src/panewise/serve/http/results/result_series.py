"""The results of one query from its creation to its end: numbered rows, for any number of readers in threads and tasks.

A series has an id that no other has had, in any process: DROP QUERY and CREATE QUERY of the same name make another one,
and a reader that comes back with a number of the old one can be told so. Its columns never change.

Readers have no queue. Each reads by number at its own pace and asks to be woken when there is more than it has seen.
Appending wakes all tasks of an event loop by one callback in that loop, however many there are and however often rows
come before it runs; so appending never waits for a reader, and costs the same for one and for a thousand.

A reader may hold a series after its end and read what it still had; then `read` raises Ended.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Hashable

import pyarrow as pa

from panewise.errors import CatalogError, NotHeldError
from panewise.serve.http.results.numbered_rows import Chunk, NumberedRows, time_column


class Gone(NotHeldError):
    """Rows of this number are not held any more; those from `first_held` on are."""

    def __init__(self, message: str, first_held: int) -> None:
        super().__init__(message, hint=f"the first row held is {first_held}")
        self.first_held = first_held


class Ended(CatalogError):
    """The query was dropped, or the server ends; `reason` says which."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"the results of query '{name}' have ended: {reason}")
        self.reason = reason


class Series:
    """Read by anyone; changed only by the ResultLog that it belongs to."""

    def __init__(self, name: str, id: str, rows: NumberedRows, start: int) -> None:
        self.name = name
        self.id = id
        self.schema = rows.schema
        self.start = start  # the number of its first row, which is not 0 where earlier ones were lost
        # Says from which number on rows stay, whatever the limits; for readers of this process that must not miss any.
        self.wanted_from: Callable[[], int | None] = _nothing
        self._rows = rows
        self._changed = threading.Condition()
        self._signals: dict[asyncio.AbstractEventLoop, _LoopSignal] = {}
        self._ended: str | None = None

    # -- reading -------------------------------------------------------------------------------------------------

    @property
    def next(self) -> int:
        """The number that the next row will have. Never waits."""
        return self._rows.next

    @property
    def ended(self) -> str | None:
        """Why there will be no more rows."""
        return self._ended

    @property
    def bytes(self) -> int:
        return self._rows.bytes

    @property
    def bytes_in_memory(self) -> int:
        """Of rows that are not mapped from files."""
        return self._rows.bytes_in_memory

    def bounds(self) -> tuple[int, int]:
        """The first number held, and the next."""
        with self._changed:
            return self._rows.first, self._rows.next

    def read(self, start: int, most: int) -> tuple[int, pa.Table]:
        """Up to `most` rows from a number on, none where there are none yet; Gone, and Ended at the end of a series."""
        with self._changed:
            if start < self._rows.first:
                raise Gone(f"row {start} of query '{self.name}' is not held any more", self._rows.first)
            if start > self._rows.next:
                raise NotHeldError(
                    f"query '{self.name}' has no row {start}", hint=f"the next will be {self._rows.next}"
                )
            if start == self._rows.next and self._ended is not None:
                raise Ended(self.name, self._ended)
            return start, self._rows.read(start, most)

    def after_window(self, window_end_us: int) -> int:
        """The number of the first row of a later window (or instant); Gone where such rows are not held any more."""
        if time_column(self.schema) is None:
            raise NotHeldError(f"the results of query '{self.name}' have no column window_end or instant")
        with self._changed:
            given_up = self._rows.given_up_until_us
            if given_up is not None and given_up > window_end_us:
                raise Gone(f"rows of query '{self.name}' after that window are not held any more", self._rows.first)
            return self._rows.after(window_end_us)

    def wait(self, start: int, timeout: float) -> bool:
        """In a thread: whether there is a row of that number, or an end, within so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self._rows.next > start or self._ended is not None, timeout)

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """In a task: `wake` is called in its loop soon after rows or the end have come; returns what ends that.

        Look for rows after this call, and again after each wake-up: no row goes unnoticed.
        """
        loop = asyncio.get_running_loop()
        with self._changed:
            signal = self._signals.setdefault(loop, _LoopSignal(loop))
        signal.listeners[wake] = None

        def stop() -> None:
            signal.listeners.pop(wake, None)

        return stop

    # -- what the log does ---------------------------------------------------------------------------------------

    def take(self, batch: pa.RecordBatch, first: int, keep_rows: int, keep_bytes: int) -> None:
        """Rows from a number on that is not below `next`, and wakes everybody."""
        with self._changed:
            if first > self._rows.next:
                self._rows.skip_to(first)
                self._rows.miss_before(batch)
            self._rows.append(batch)
            self._rows.limit(keep_rows, keep_bytes, self.wanted_from())
        self._wake()

    def give_up_oldest(self) -> int:
        """Gives up the oldest chunk of rows, unless it is the newest one or wanted; returns how many rows."""
        with self._changed:
            return self._rows.give_up_oldest(self.wanted_from())

    def chunks(self) -> list[Chunk]:
        """What is held, oldest first."""
        with self._changed:
            return self._rows.chunks()

    def mapped(self, chunk: Chunk, batch: pa.RecordBatch, file: Hashable) -> None:
        """The rows of a chunk are in a file from now on."""
        with self._changed:
            self._rows.mapped(chunk, batch, file)

    @property
    def in_memory_from(self) -> int:
        """The number of the first row in memory; all before it are in files."""
        with self._changed:
            return self._rows.in_memory_from

    def end(self, reason: str) -> None:
        """No more rows will come."""
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
    """No row is wanted."""


class _LoopSignal:
    """Wakes all listeners of a loop, by one callback for all that happened before it runs."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.listeners: dict[Callable[[], None], None] = {}  # in the order in which they came; the loop's own
        self._scheduled = False

    def notify(self) -> bool:
        """From any thread, after what there is to see was changed; False where the loop is closed."""
        # Two threads that both find it unscheduled make two callbacks, which does no harm.
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
