"""Rows and punctuations of callers on their way into streams, and the late and bad rows that streams keep.

Rows reach a stream in the order of pushes, those of its queue included. A numbered push is taken once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from panewise.engine.books.books import Books
from panewise.engine.calls.checkpoints import Checkpoints
from panewise.engine.calls.flusher import Flusher
from panewise.engine.ingest.journal import is_repeated
from panewise.engine.ingest.late_remarks import nothing_kept
from panewise.engine.ingest.stream import Stream
from panewise.engine.reads.published_answers import PublishedAnswers
from panewise.engine.statements.listeners import Listeners
from panewise.errors import DataError
from panewise.temporal import INSTANT_MAX, instant_us


class StreamCalls:
    """Calls that concern the streams of one engine."""

    def __init__(
        self,
        books: Books,
        flusher: Flusher,
        answers: PublishedAnswers,
        listeners: Listeners,
        checkpoints: Checkpoints,
    ) -> None:
        self._books = books
        self._turns = books.turns
        self._streams = books.streams
        self._flusher = flusher
        self._answers = answers
        self._listeners = listeners
        self._checkpoints = checkpoints
        self._prompt = False  # Whether a push makes the reports that it completes though nobody has subscribed.

    def report_promptly(self) -> None:
        """From now on a push makes the reports that it completes."""
        self._prompt = True

    def push(self, stream: str, data: Any, timeout: float | None, producer: str | None, sequence: int | None) -> None:
        """Puts rows into a stream, or into its queue."""
        self._turns.check()
        self._books.check_open()
        queue = self._named(stream).queue
        if queue is not None and self._books.log is None and producer is None:
            queue.put(data, timeout)  # outside all turns: it may have to wait for whoever is inside
            self._answers.queued()
            return
        with self._turns:
            self._answers.change()
            target = self._named(stream)
            stamp = None
            if producer is not None or sequence is not None:
                if is_repeated(target.name, target.producers, producer, sequence):
                    return
                assert producer is not None and sequence is not None
                stamp = producer, sequence
            if queue is not None and queue.waiting:
                target.flush()  # rows in the queue came before
            due = target.push(data, stamp) or ((self._listeners.present or self._prompt) and target.completes())
            if due or (self._answers.wanted and target.waiting_rows >= target.portion_rows):
                self._flusher.flush(target)
                self._listeners.note()
            self._checkpoints.changed()

    def last_sequence(self, stream: str, producer: str) -> int:
        """The number of the last push of a producer that was taken; 0 if there was none."""
        with self._turns:
            self._books.check_state()
            return self._books.stream(stream).producers.get(producer, 0) if isinstance(producer, str) else 0

    def process(self, stream: Stream) -> bool:
        """Processes a portion of what is pending for a stream; returns whether part of a push is left."""
        with self._turns:
            return self._flusher.flush_portion(stream)

    def advance(self, stream: str, until: Any) -> None:
        """Moves the watermark of a stream to an instant."""
        with self._turns:
            self._books.check_open()
            self._answers.change()
            target, instant = self._books.stream(stream), instant_us(until)
            target.judge.limit.check_clock(target.name, instant)
            target.advance(instant)
            self._listeners.note()
            self._checkpoints.changed()

    def close_windows(self, streams: Sequence[str] | None) -> None:
        """Advances streams, or all, until every window with rows has closed. Checks all before it advances one."""
        if streams is not None and not isinstance(streams, list | tuple):
            raise DataError(f"streams are named in a list, not in a {type(streams).__name__}")
        with self._turns:
            self._books.check_open()
            self._books.check_state()
            self._answers.change()
            self._flusher.flush_all()
            wanted = self._streams.values() if streams is None else list(map(self._books.stream, streams))
            ended = [stream for stream in wanted if stream.newest is not None]
            for stream in ended:
                stream.check_advance(self._last_end(stream), stream.judge.limit, stream.judge.extent)
            for stream in ended:
                stream.advance(self._last_end(stream))
            self._listeners.note()
            self._checkpoints.changed()

    def late_rows(self, stream: str) -> pa.Table:
        """The late rows that a stream has kept since the last call. Warns if the stream keeps none."""
        with self._turns:
            self._books.check_state()
            self._flusher.flush_all()
            asked = self._books.stream(stream)
            if not asked.late.can_be_fetched:
                self._listeners.remark(nothing_kept(asked.definition, asked.late.count))
            return asked.late_rows()

    def bad_rows(self, stream: str) -> pa.Table:
        """The bad rows that a stream has set aside since the last call."""
        with self._turns:
            self._books.check_state()
            self._flusher.flush_all()
            return self._books.stream(stream).bad_rows()

    def _last_end(self, stream: Stream) -> int:
        assert stream.newest is not None
        return min(self._books.hosting.graph.last_end(stream, stream.newest), INSTANT_MAX + 1)

    def _named(self, name: str) -> Stream:
        """The stream of a name; fastest for a name in lower case."""
        found = self._streams.get(name) if type(name) is str else None
        return found or self._books.stream(name)
