"""A server with the demonstration's trade stream flowing at a steady pace, and a Chromium to look at it.

Tests of the dashboard and `tools/screenshots.py` share it. The server listens on loopback, on a free port.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from panewise.catalog import StreamDefinition
from panewise.connectors.by_name import open_source
from panewise.serve.http.backends.engine_backend import EngineBackend
from panewise.serve.http.background_server import ServerBeside
from panewise.serve.http.service.settings import Settings, Token

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PUSHES_PER_SECOND = 10
STREAM = """
CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, size BIGINT,
                      WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS)
  WITH (connector = 'generator', rows = 1000000000, rate = 5000, symbols = 20, seed = 7, disorder = '2 seconds');
"""


def chromium_path() -> str | None:
    return next((path for name in CHROMIUM_NAMES if (path := shutil.which(name))), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """The system's Chromium, without a window."""
    from playwright.sync_api import sync_playwright

    path = chromium_path()
    assert path is not None, "no Chromium: sh tools/ensure_chromium.sh"
    # Chromium's sandbox does not start as root, which is what tests in containers are.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


class DashboardHost:
    """A server in threads of this process. Rows come from the stream's generator, `rows_per_second` of the wall clock,
    after `rows_before` that come as fast as the engine takes them."""

    def __init__(
        self,
        statements: str = STREAM,
        *,
        rows_per_second: int = 0,
        rows_before: int = 0,
        tokens: tuple[Token, ...] = (),
        port: int = 0,
    ) -> None:
        self.settings = Settings(port=port, tokens=tokens)
        self.backend = EngineBackend(self.settings)
        self.backend.engine.execute(statements)
        self._rows_per_second = rows_per_second
        self._rows_before = rows_before
        self._ending = threading.Event()

    def __enter__(self) -> Self:
        self._server = ServerBeside(self.settings, self.backend)
        self.address = self._server.address
        self._pumping = threading.Thread(target=self._pump, name="pump")
        self._pumping.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._pumping.join()
        self._server.close()

    def _pump(self) -> None:
        if not self._rows_per_second:
            return
        step = max(1, self._rows_per_second // PUSHES_PER_SECOND)
        rows, paced_since = 0, None
        for part in self._parts(step):
            if rows >= self._rows_before:
                paced_since = paced_since or time.monotonic()
                due = paced_since + (rows - self._rows_before) / self._rows_per_second
                if self._ending.wait(max(0.0, due - time.monotonic())):
                    return
            if self._ending.is_set():
                return
            self.backend.push("trades", part, producer=None, sequence=None, timeout=None)
            rows += part.num_rows

    def _parts(self, step: int) -> Iterator[pa.Table]:
        stream = self.backend.engine.catalog.get("trades", "stream")
        assert isinstance(stream, StreamDefinition)
        source = open_source(stream)
        assert source is not None
        for batch in source.batches():
            assert isinstance(batch, pa.RecordBatch)
            for first in range(0, batch.num_rows, step):
                yield pa.Table.from_batches([batch.slice(first, step)])
