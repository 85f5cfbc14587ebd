"""Snapshots of an engine: as bytes for the caller, and into its folder when one is asked for or due."""

from __future__ import annotations

from panewise.engine.books.books import Books
from panewise.engine.calls.flusher import Flusher
from panewise.engine.recovery.engine_snapshot import snapshot_of


class Checkpoints:
    """The snapshots of one engine."""

    def __init__(self, books: Books, flusher: Flusher) -> None:
        self._books = books
        self._flusher = flusher

    def snapshot(self) -> bytes:
        """The state of the engine after all pending rows."""
        with self._books.turns:
            self._flusher.flush_all()
            return snapshot_of(self._books)

    def changed(self) -> None:
        """Inside a turn: a change is complete, and logged. Writes a snapshot into the folder if one is due."""
        self._books.changed(self.snapshot)

    def write(self) -> None:
        """Writes all rows of archives into their files, and a snapshot, which replaces the log, into the folder."""
        with self._books.turns:
            self._flusher.flush_all()
            with self._books.turns.change:
                self._books.archives.settle()
            if self._books.log is not None:
                self._books.log.checkpoint(self.snapshot)
