"""When the log is brought to the disk: with every record, about once a second, or when the system does it.

In all three ways, records survive the death of the process, because the system has them. They differ in what a loss of
power may take: nothing (`always`), about the last second (`batch`), or what the system has not written yet, often half
a minute (`never`).

`batch` has a thread of its own, so a push waits for the disk only if the disk is slower than the pushes. If the thread
cannot bring records to the disk, the log is broken: the next change is refused with the reason.
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
    """PlanError for any other text."""
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
        """Brings all records that were appended before the call to the disk; if that fails, the log is broken."""
        with self._folder.switching:
            # A descriptor of its own, because the folder may close this log at any time and begin another.
            segment, cuts = self._folder.end, self._folder.note.cuts
            written = segment.size
            if self._done == (segment, written):
                return
            descriptor = os.dup(segment.descriptor)
        try:
            self._files.sync(descriptor)
            self._folder.note.brought_to_disk(written, cuts)
        except OSError as problem:
            segment.stop(f"records could not be brought to the disk: {problem.strerror or problem}")
        finally:
            os.close(descriptor)
        self._done = segment, written
