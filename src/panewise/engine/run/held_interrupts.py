"""Ctrl-C during a run or in the shell: held while the engine is at work, so that it ends between two batches.

The first signal is noted, and KeyboardInterrupt raised when the batch is whole. A second one does not wait: the engine
is then broken, if it was in the middle of a change, and says so.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Holds the first SIGINT until the end of the block. Other threads than the main one get none."""
    before = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if before is not signal.default_int_handler:  # somebody else takes care of it, or it is ignored
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
