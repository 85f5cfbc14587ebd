"""The thread of a stream's queue: it has what waits there processed, under the lock of whoever hosts the stream.

The thread holds its host weakly, so an engine that nobody holds any more ends, and its threads with it.
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
"""Processes a portion of what waits for a stream; returns whether a part of a push is left."""


def declare_queue(stream: Stream, process: Process) -> None:
    """Gives a stream the queue that its options ask for, or the one it has another capacity."""
    rows = dict(stream.definition.options).get("queue")
    if not isinstance(rows, int):
        return
    if stream.queue is not None:
        stream.queue.capacity = rows
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
        except Exception as problem:  # noqa: BLE001 - a subscriber's, which the next pusher hears of
            queue.problem = problem
        del process
        time.sleep(0)  # readers that wait for the engine's lock come between
