"""A real server over a log of results that the test fills, and what a subscriber does; for tests of live results."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import SimpleNamespace
from typing import Any

import uvicorn
from websockets.asyncio.client import ClientConnection, connect

from panewise.serve.http.app import make_app
from panewise.serve.http.live.live_routes import end_live
from panewise.serve.http.results.result_log import ResultLog
from panewise.serve.http.service.settings import Settings
from tests.waiting import PATIENCE_S

LARGE: dict[str, Any] = {"keep_rows": 1_000_000, "keep_bytes": 1 << 30}


class LiveServer:
    """uvicorn in a thread, until `stop`."""

    def __init__(self, log: ResultLog, **settings: Any) -> None:
        self.log = log
        backend: Any = SimpleNamespace(
            kind="embedded", results=log, stats=dict, ready=lambda: None, settle=lambda: None
        )
        self.app = make_app(backend, Settings(**settings))
        config = uvicorn.Config(
            self.app, port=0, log_level="warning", lifespan="off", ws_ping_interval=None, timeout_graceful_shutdown=5
        )
        self._server = uvicorn.Server(config)
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._started.wait(PATIENCE_S)

    def _run(self) -> None:
        async def main() -> None:
            self.loop = asyncio.get_running_loop()
            serving = asyncio.create_task(self._server.serve())
            while not self._server.started:
                await asyncio.sleep(0.005)
            self.port = self._server.servers[0].sockets[0].getsockname()[1]
            self._started.set()
            await serving

        asyncio.run(main())

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def subscribers(self) -> int:
        return int(self.app.state.serving.limits.subscribers)

    @property
    def paused(self) -> int:
        """How many of the subscribers are paused."""
        return sum(subscriber.paused for subscriber in list(self.app.state.subscribers._running.values()))

    def end_live(self, seconds: float = PATIENCE_S) -> None:
        """What the server does before it stops."""
        asyncio.run_coroutine_threadsafe(end_live(self.app, seconds), self.loop).result(2 * PATIENCE_S)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    @asynccontextmanager
    async def socket(self, path: str, **options: Any) -> AsyncIterator[ClientConnection]:
        options = {"compression": None, "proxy": None, "ping_interval": None, "close_timeout": 1} | options
        options.setdefault("open_timeout", PATIENCE_S)
        async with connect(f"ws://{self.address}/v1/{path}", **options) as socket:
            yield socket


@contextmanager
def live_server(log: ResultLog | None = None, **settings: Any) -> Iterator[LiveServer]:
    server = LiveServer(log or ResultLog(None, **LARGE), **settings)
    try:
        yield server
    finally:
        server.end_live(10.0)  # who never reads is cut off
        server.stop()
        server.log.close()


async def receive(socket: ClientConnection, seconds: float = PATIENCE_S) -> dict[str, Any]:
    """The next message that says something."""
    async with asyncio.timeout(seconds):
        while True:
            message: dict[str, Any] = json.loads(await socket.recv())
            if message["type"] != "heartbeat":
                return message


async def values(socket: ClientConnection, start: int, end: int) -> list[int]:
    """The last cells of the rows from one number to another, each of which must come once and in order."""
    found: list[int] = []
    while start < end:
        message = await receive(socket)
        assert message["type"] == "rows" and message["first"] == start, message
        assert message["next"] == start + len(message["rows"])
        found += [row[-1] for row in message["rows"]]
        start = message["next"]
    assert start == end
    return found
