"""Threads of the driver that post messages: rows of generators, and punctuations of idle streams."""

from __future__ import annotations

import threading
import time
from typing import Any, Protocol

from panewise.catalog import StreamDefinition
from panewise.connectors.by_name import SOURCES
from panewise.spark.environment.folder import Folder
from panewise.spark.ingest.inbox import Inbox, read_message
from panewise.spark.tasks.batch_progress import Marks, last_marks
from panewise.temporal import duration_us

AHEAD_ROWS = 2_000_000  # rows that a generator may be ahead of the pipeline before it waits


class Feeder:
    """Posts a generator's batches; a later run goes on after the last one that was posted.

    With `wait`, a thread posts them and waits for the pipeline; otherwise all are posted at once, before the run
    starts.
    """

    def __init__(self, key: str, stream: StreamDefinition, folder: Folder, inbox: Inbox, wait: bool) -> None:
        self._key = key
        self._stream = stream
        self._folder = folder
        self._inbox = inbox
        self._halted = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"feeding {stream.name}", daemon=True)
        if not wait:
            self._run()

    def start(self) -> None:
        if not self._thread.ident and not self._halted.is_set():
            self._thread.start()

    def stop(self) -> None:
        self._halted.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        name = self._key
        marks = last_marks(self._folder)
        waiting = [file for file in self._folder.names("inbox") if int(file.partition(".")[0]) > marks.message]
        posted = marks.of(name).rows + sum(
            sum(batch.num_rows for batch in message.content)
            for file in waiting
            if file.endswith(".rows") and (message := read_message(self._folder, file)).stream == name
        )
        done = 0
        for batch in SOURCES["generator"](self._stream).batches():
            done += len(batch)
            if done <= posted:
                continue
            while done - last_marks(self._folder).of(name).rows > AHEAD_ROWS and self._thread.ident:
                if self._halted.wait(0.05):
                    return
            if self._halted.is_set() and self._thread.ident:
                return
            self._inbox.post_rows(name, [batch])
        self._halted.set()


class Watched(Protocol):
    """What an `IdleWatch` needs of a run."""

    @property
    def active(self) -> bool: ...

    @property
    def busy(self) -> bool: ...

    def marks(self) -> Marks: ...

    def advance(self, stream: str, until: Any) -> None: ...


class IdleWatch:
    """Advances a stream past its last row when no row has come for `idle`, so that its windows close."""

    def __init__(self, key: str, stream: StreamDefinition, idle: str, handle: Watched) -> None:
        self._key = key
        self._stream = stream
        self._seconds = duration_us(idle) / 1e6
        self._handle = handle
        self._halted = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"idle watch {stream.name}", daemon=True)

    def start(self) -> None:
        if not self._thread.ident:
            self._thread.start()

    def stop(self) -> None:
        self._halted.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        seen, since = -1, time.monotonic()
        closed: int | None = None
        while not self._halted.wait(min(1.0, self._seconds / 4)):
            # A stream is not idle during a micro-batch, whose rows are not counted yet, or after the end of the run.
            looking = self._handle.active and not self._handle.busy
            marks = self._handle.marks().of(self._key)
            if not looking or marks.rows != seen:
                seen, since = marks.rows, time.monotonic()
            elif time.monotonic() - since >= self._seconds and marks.greatest is not None:
                if marks.watermark(self._stream.delay_us) <= marks.greatest != closed:
                    self._handle.advance(self._stream.name, marks.greatest + 1)
                    closed = marks.greatest
                since = time.monotonic()
