"""When the log is brought to the disk: with every record, about once a second, or when the system likes.

All three survive the death of the process, for what was written is the system's. They differ in what a loss of power
may take: with every record nothing, else what came in the last second or so, or what the system had not written yet
(often half a minute). What was brought to the disk stays.

`batch` has a thread of its own, so that a push waits for the disk only where the disk is slower than the pushes. What
the thread cannot bring to the disk breaks the log: the next change is refused, and says so.
"""

from __future__ import annotations

import os
import threading

from panewise.engine.durability.durable_folder import DurableFolder
from panewise.engine.durability.durable_log import Segment
from panewise.errors import PlanError, did_you_mean
from panewise.state.durable_files import FileSystem

SYNCS = ("batch", "always", "never")
INTERVAL_SECONDS = 1.0


def check_sync(sync: str) -> None:
    """Refuses what is none of them."""
    if sync not in SYNCS:
        raise PlanError(f"there is no sync '{sync}'", hint=did_you_mean(sync, SYNCS))


class BackgroundSync:
    """Syncs the log of a folder about once a second, if there is anything new in it."""

    def __init__(self, folder: DurableFolder, files: FileSystem, interval_seconds: float = INTERVAL_SECONDS) -> None:
        self._folder = folder
        self._files = files
        self._interval_seconds = interval_seconds
        self._done: tuple[Segment, int] | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="panewise log", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Returns when the thread has ended."""
        self._stopped.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_seconds):
            self.sync_now()

    def sync_now(self) -> None:
        """Everything that had been appended when this was called is on the disk when it returns, or the log broken."""
        with self._folder.switching:
            # A descriptor of our own: the folder may begin another log, and close this one, at any time.
            segment, cuts = self._folder.end, self._folder.note.cuts
            written = segment.size
            if self._done == (segment, written):
                return
            descriptor = os.dup(segment.descriptor)
        try:
            self._files.sync(descriptor)
            self._folder.note.brought_to_disk(written, cuts)
        except OSError as problem:
            segment.broken = f"what was written could not be brought to the disk: {problem.strerror or problem}"
        finally:
            os.close(descriptor)
        self._done = segment, written
