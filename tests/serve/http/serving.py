"""Servers for tests: in a thread of this process, or as the command `panewise serve` in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pyarrow as pa

from panewise.serve.http.backends.engine_backend import EngineBackend
from panewise.serve.http.server import Server, address_of, listen
from panewise.serve.http.service.settings import Settings, Token
from tests.places import SOURCES as SOURCE
from tests.waiting import PATIENCE_S, until

READ, WRITE = "a-token-that-reads", "a-token-that-writes"
TOKENS = (Token("read", READ, "reader"), Token("write", WRITE, "writer"))
NDJSON = {"Content-Type": "application/x-ndjson"}
ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}
BUSY = "SELECT k, SUM(v) AS total FROM t [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k"


@contextmanager
def served(**settings: Any) -> Iterator[tuple[httpx.Client, EngineBackend]]:
    """A server in a thread, with a client that has the token to write where there are tokens."""
    chosen = Settings(port=0, **settings)
    backend = EngineBackend(chosen)
    listening = listen(chosen)
    server = Server(chosen, backend)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    headers = {"Authorization": f"Bearer {WRITE}"} if chosen.tokens else {}
    try:
        with httpx.Client(base_url=address_of(chosen, listening), headers=headers, timeout=PATIENCE_S) as client:
            yield client, backend
    finally:
        server.stop()
        thread.join(PATIENCE_S)
        backend.close()
        assert not thread.is_alive()


@dataclass
class Process:
    """`panewise serve` in a process of its own."""

    process: subprocess.Popen[str]
    client: httpx.Client

    def kill(self) -> None:
        """As `kill -9` does."""
        self.process.kill()
        self.process.wait(PATIENCE_S)
        self.client.close()

    def end(self) -> int:
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE_S)
        self.client.close()
        return code


@contextmanager
def process(*arguments: str, environment: dict[str, str] | None = None) -> Iterator[Process]:
    """Started, and killed at the end where it has not ended by itself."""
    command = [sys.executable, "-m", "panewise.serve.cli.cli", "serve", "--port", "0", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), **(environment or {})}
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert started.stdout is not None
        address = started.stdout.readline().strip()
        if not address:
            raise AssertionError(started.communicate()[1])
        yield Process(started, httpx.Client(base_url=address, timeout=PATIENCE_S))
    finally:
        if started.poll() is None:
            started.kill()
        started.communicate()


def refusal(*arguments: str) -> str:
    """What `panewise serve` says when it does not start."""
    command = [sys.executable, "-m", "panewise.serve.cli.cli", "serve", "--port", "0", *arguments]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, env={**os.environ, "PYTHONPATH": str(SOURCE)}
    )
    assert ended.returncode == 1, ended
    return " ".join(ended.stderr.split())


def define(client: httpx.Client, *statements: str) -> None:
    """The stream `t` (ts, k, v), and more."""
    for text in ("CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT)", *statements):
        answer = client.post("/v1/statements", json={"text": text})
        assert answer.status_code == 200, answer.text


def rows(*values: tuple[int, str, int]) -> str:
    """Rows of `t` as newline-delimited JSON: second, k, v."""
    return "".join(f'{{"ts": {second * 1_000_000}, "k": "{k}", "v": {v}}}\n' for second, k, v in values)


def ipc(table: pa.Table, compression: str | None = None) -> bytes:
    """A table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def all_results(client: httpx.Client, query: str, count: int) -> list[list[Any]]:
    """All results of a query when there are so many of them."""
    found: list[list[Any]] = []

    def are_there() -> bool:
        found[:] = client.get(f"/v1/queries/{query}/results", params={"start": 0, "limit": 100_000}).json()["rows"]
        return len(found) >= count

    until(are_there, lambda: found)
    return found


def state_of(client: httpx.Client) -> tuple[Any, Any]:
    """What a refused request must leave as it was: everything defined, and how many rows and results there are."""
    stats = client.get("/v1/stats").json()
    counts = {
        "streams": {n: (s["rows"], s["late_rows"], s["bad_rows"], s["watermark"]) for n, s in stats["streams"].items()},
        "queries": {n: (q["status"], q["results"]) for n, q in stats["queries"].items()},
        "tables": stats["tables"],
    }
    return client.get("/v1/catalog").json(), counts
