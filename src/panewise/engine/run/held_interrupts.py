"""Ctrl-C during a run or in the shell is held while the engine works, so that the run ends between two batches.

The first signal is noted, and KeyboardInterrupt is raised when the batch is processed. A second one does not wait: if
the engine is in the middle of a change, it is broken then, and says so.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Holds the first SIGINT until the end of the block. Only the main thread gets any."""
    before = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if before is not signal.default_int_handler:  # the signal has another handler, or is ignored
        yield
        return
    noted = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal noted
        if noted:
            signal.default_int_handler(number, frame)
        noted = True

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if noted:
        raise KeyboardInterrupt
