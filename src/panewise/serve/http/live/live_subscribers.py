"""All live connections of one server: their shared blocks, their heartbeats, and their end.

A subscriber is a task that sends the messages of its reader one after the other, and sleeps when there are none. It is
woken by new rows (one callback of the event loop for all subscribers of a query), by a shared heartbeat clock, and by
the end of the server. Sending waits for the connection: this is the back-pressure; meanwhile only the position is held.
A connection that accepts nothing for STALLED_SECONDS is closed; its client may reconnect.

`close` ends all subscribers: each gets its remaining rows, then `end`. Those that are too slow are disconnected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from panewise.serve.http.live.live_reader import Blocks, LiveReader, Message
from panewise.serve.http.results.result_log import CLOSED

HEARTBEAT_SECONDS = 15.0
STALLED_SECONDS = 60.0
GOODBYE_SECONDS = 2.0


class Stalled(Exception):
    """A connection has accepted nothing for STALLED_SECONDS."""


class Subscriber:
    """One reader and its connection. `send` waits until the connection accepts the message."""

    def __init__(self, reader: LiveReader, send: Callable[[Message], Awaitable[None]]) -> None:
        self.reader = reader
        self.paused = False
        self.closing = False
        self.beat = False  # a heartbeat is due
        self._send = send
        self._woken = asyncio.Event()

    def wake(self) -> None:
        self._woken.set()

    async def run(self) -> None:
        """Sends messages until `end` has been sent; raises Stalled if the connection accepts nothing."""
        stop = self.reader.series.listen(self.wake)
        try:
            while not self.reader.ended:
                self._woken.clear()
                message = self._message()
                if message is None:
                    await self._woken.wait()
                    continue
                self.beat = False
                async with asyncio.timeout(STALLED_SECONDS):
                    await self._send(message)
                # If `send` never waits, let other tasks run.
                await asyncio.sleep(0)
        except TimeoutError:
            raise Stalled from None
        finally:
            stop()

    def _message(self) -> Message | None:
        ended = self.reader.series.ended
        if self.paused and ended is not None:
            return self.reader.end(ended)
        message = None if self.paused else self.reader.message()
        if message is None and self.closing:
            return self.reader.end(CLOSED)
        if message is None and self.beat:
            return self.reader.heartbeat()
        return message


class Subscribers:
    """The live connections of one event loop."""

    def __init__(self) -> None:
        self.blocks = Blocks()
        self.closing = False
        self._running: dict[asyncio.Task[None], Subscriber] = {}
        self._clock: asyncio.Task[None] | None = None
        self._connections: dict[asyncio.Task[Any], Callable[[], None]] = {}

    @contextmanager
    def connection(self, finish: Callable[[], None]) -> Iterator[None]:
        """Registers the current task as a connection; `close` calls `finish` when all subscribers have ended."""
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = finish
        try:
            yield
        finally:
            del self._connections[task]

    def start(self, subscriber: Subscriber) -> asyncio.Task[None]:
        """Runs a subscriber in a new task, which is returned."""
        task = asyncio.get_running_loop().create_task(subscriber.run())
        self._running[task] = subscriber
        task.add_done_callback(lambda ended: self._running.pop(ended, None) and None)
        subscriber.closing = self.closing
        if self._clock is None:
            self._clock = asyncio.get_running_loop().create_task(self._beat())
        return task

    async def close(self, seconds: float) -> None:
        """Sends all subscribers their remaining rows and the end; cancels those that need longer than `seconds`."""
        self.closing = True
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
        for subscriber in self._running.values():
            subscriber.closing = True
            subscriber.wake()
        if self._running:
            _, late = await asyncio.wait(set(self._running), timeout=seconds)
            for task in late:
                task.cancel()
        connections = dict(self._connections)
        for finish in connections.values():
            finish()
        if connections:
            await asyncio.wait(set(connections), timeout=GOODBYE_SECONDS)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            for subscriber in list(self._running.values()):
                subscriber.beat = True
                subscriber.wake()
