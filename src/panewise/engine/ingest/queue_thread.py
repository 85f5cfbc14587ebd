"""The thread of a stream's queue: it processes the queued rows, under the lock of the stream's host.

The thread has only a weak reference to the host. So an engine that is not referenced any more is collected, and its
threads end.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable

from panewise.engine.ingest.input_queue import InputQueue
from panewise.engine.ingest.stream import Stream
from panewise.errors import EngineBroken

Process = Callable[[Stream], bool]
"""Processes a portion of a stream's queued rows; returns whether a part of a push is left."""


def declare_queue(stream: Stream, process: Process) -> None:
    """Gives a stream the queue that its options ask for, or changes the capacity of its queue."""
    rows = dict(stream.definition.options).get("queue")
    if not isinstance(rows, int):
        return
    if stream.queue is not None:
        stream.queue.resize(rows)
        return
    stream.queue = InputQueue(stream.judge, rows)
    serve(stream, stream.queue, process)


def serve(stream: Stream, queue: InputQueue, process: Process) -> threading.Thread:
    """Starts the thread of a queue; it ends with the queue, or with the object whose method `process` is."""
    weakly = weakref.WeakMethod(process)
    weakref.finalize(process.__self__, queue.close)  # type: ignore[attr-defined] # every method has it
    thread = threading.Thread(
        target=_work, args=(stream, queue, weakly), name=f"panewise queue of {stream.name}", daemon=True
    )
    thread.start()
    return thread


def _work(stream: Stream, queue: InputQueue, process_of: Callable[[], Process | None]) -> None:
    while queue.wait():
        process = process_of()
        if process is None:
            return
        try:
            while process(stream):
                pass
        except EngineBroken:
            queue.close()
            return
        except Exception as problem:  # noqa: BLE001 - a subscriber's error, which the next push raises
            queue.fail_next(problem)
        del process
        time.sleep(0)  # Threads that wait for the engine's lock get it.
