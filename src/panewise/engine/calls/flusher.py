"""Processes pending rows: those that were pushed and that no query has seen yet.

A caller that reads processes all of them. A writer does so too, but in portions while other threads read: answers are
published after each portion, and whoever waits for a turn gets one. After each step listeners are looked for.
"""

from __future__ import annotations

from panewise.engine.books.books import Books
from panewise.engine.consumers.report_schedule import ReportSchedule
from panewise.engine.ingest.stream import Stream
from panewise.engine.reads.published_answers import PublishedAnswers
from panewise.engine.statements.listeners import Listeners

TURN_ROWS = 65_536  # Rows per turn while nobody reads: enough for speed, and few enough to make room in a queue soon.


class Flusher:
    """Processes the pending rows of one engine. All methods are called inside a turn."""

    def __init__(self, books: Books, answers: PublishedAnswers, listeners: Listeners, schedule: ReportSchedule) -> None:
        self._books = books
        self._answers = answers
        self._listeners = listeners
        self._schedule = schedule

    def flush_all(self) -> None:
        """Processes the pending rows of all streams."""
        if self._books.flush():
            self._answers.moved()
        self._listeners.note()

    def flush(self, stream: Stream) -> None:
        """Processes the pending rows of a stream: at once, or portion by portion while other threads read."""
        left = stream.waiting_now()["waiting_rows"] if self._answers.wanted else 0
        if not left:
            stream.flush()
            self._answers.moved()
        while left > 0 and stream.waiting:
            left -= max(stream.flush(stream.portion_rows), 1)
            self._listeners.note()
            if self._answers.commit():
                self._books.turns.give_way()

    def flush_portion(self, stream: Stream) -> bool:
        """Processes a portion of what is pending for a stream with a queue. Returns whether part of a push is left."""
        self._answers.change()
        stream.flush(stream.portion_rows if self._answers.wanted else TURN_ROWS, self._schedule)
        self._answers.commit()
        self._listeners.note()
        return stream.waiting_rows > 0
