"""What callers tell a run: rows, punctuations, lookups and wake-ups, posted as messages for the next micro-batches.

Invariant: what is posted can be processed. Rows and punctuations are first judged by the marks and the clock
(`stream_limits.py`); bad ones raise here and post nothing. Where a stream says `on_bad_row = 'skip'`, rows are posted
unjudged, and the tasks set the bad ones aside.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from typing import Any

from panewise.catalog import StreamDefinition
from panewise.engine.engine import Engine
from panewise.engine.ingest.intake import Intake
from panewise.engine.ingest.journal import Stamp
from panewise.engine.ingest.window_limit import Extent, WindowLimit
from panewise.errors import DataError
from panewise.spark.environment.folder import Folder
from panewise.spark.ingest.inbox import Inbox
from panewise.spark.ingest.stream_sources import connector_of
from panewise.spark.program.program import Program
from panewise.spark.tasks.batch_progress import last_marks
from panewise.spark.tasks.stream_limits import extent_of, limit_of
from panewise.temporal import INSTANT_MAX


class CheckedInbox:
    """The inbox of a run, over the streams of its books and program."""

    def __init__(self, inbox: Inbox, folder: Folder, books: Engine, program: Program) -> None:
        self._inbox = inbox
        self._folder = folder
        self._books = books
        self._program = program

    def push(self, stream: StreamDefinition, data: Any, stamp: Stamp | None = None) -> bool:
        """Posts rows. With a stamp (a producer and a number) returns False if that number was taken before."""
        if connector_of(stream) not in (None, "memory"):
            raise DataError(f"stream '{stream.name}' is read from its connector, not pushed to")
        key = self._key(stream.name)
        if stamp is not None and self._inbox.is_repeated(key, stamp):
            return False
        intake = Intake(stream)
        limit, extent = self._limit(key)
        intake.comes_after(extent)
        batches = [batch for batch in intake.batches(data) if batch.num_rows]
        if dict(self._program.options(key)).get("on_bad_row") != "skip":
            taken = 0
            for batch in batches:
                extent = intake.accepted(batch, False, taken, limit, extent)[-1]
                taken += batch.num_rows
        return bool(batches or stamp) and self._inbox.post_rows(key, batches, stamp)

    def last_sequence(self, stream: StreamDefinition, producer: str) -> int:
        """The number of the last push of a producer that was taken; 0 where there was none."""
        return self._inbox.last_sequence(self._key(stream.name), producer)

    def advance(self, stream: StreamDefinition, until: int) -> None:
        """Posts a punctuation: no row before `until` will come."""
        key = self._key(stream.name)
        limit, extent = self._limit(key)
        limit.check_clock(stream.name, until)
        self._books.streams[stream.name.lower()].check_advance(until, limit, extent)
        self._post_advance(key, until)

    def advance_past_rows(self, streams: Iterable[str]) -> None:
        """Posts punctuations that close every window with rows; none of them if one is refused."""
        marks = last_marks(self._folder)
        ends: dict[str, int] = {}
        for name in streams:
            key, stream = self._key(name), self._books.streams[name]
            newest = marks.of(key).greatest
            if newest is not None:
                ends[key] = min(self._books.hosting.graph.last_end(stream, newest), INSTANT_MAX + 1)
                stream.check_advance(ends[key], *self._limit(key))
        for key, end in ends.items():
            self._post_advance(key, end)

    def wake(self) -> None:
        """Causes a micro-batch even if no rows come."""
        self._inbox.post_control({"wake": self._program.newest.number})

    def ask(self, query: str, at: int | None) -> str:
        """Posts a lookup; returns the number under which the log will have its answer."""
        number = uuid.uuid4().hex
        self._inbox.post_control({"ask": {"id": number, "query": query, "at": at}})
        return number

    def _post_advance(self, key: str, until: int) -> None:
        self._inbox.post_control({"advance": {"stream": key, "until": until}})

    def _key(self, stream: str) -> str:
        return self._program.newest.stream_key(stream)

    def _limit(self, stream: str) -> tuple[WindowLimit, Extent]:
        """What rows and punctuations of a stream may close, and how far it has come."""
        marks = last_marks(self._folder)
        limit = limit_of(self._program, self._program.newest, marks, stream, now=time.time_ns() // 1000)
        return limit, extent_of(marks, stream)
