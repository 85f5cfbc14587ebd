"""The state that the routes of one server share, and its pools of worker threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from starlette.requests import HTTPConnection

from panewise.serve.http.gate.limits import Limits
from panewise.serve.http.service.backend import Backend
from panewise.serve.http.service.settings import Settings

T = TypeVar("T")


@dataclass
class Serving:
    """The shared state of one server; stored in `app.state.serving`."""

    backend: Backend
    settings: Settings
    limits: Limits
    workers: anyio.CapacityLimiter = field(init=False)
    readers: anyio.CapacityLimiter = field(init=False)

    def __post_init__(self) -> None:
        self.workers = anyio.CapacityLimiter(self.settings.worker_threads)
        self.readers = anyio.CapacityLimiter(self.settings.max_reads)

    async def work(self, call: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """Runs a call that may block in a worker thread, without blocking the event loop."""
        return await anyio.to_thread.run_sync(partial(call, *arguments, **options), limiter=self.workers)

    async def read(self, call: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """Runs a one-time query, which may take long, in a thread of another pool than that of pushes and lookups."""
        return await anyio.to_thread.run_sync(partial(call, *arguments, **options), limiter=self.readers)


def serving_of(connection: HTTPConnection) -> Serving:
    """The server that a request or a WebSocket belongs to."""
    serving: Serving = connection.app.state.serving
    return serving
