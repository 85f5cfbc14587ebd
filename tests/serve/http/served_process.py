"""A server as a process of its own, and a few requests to it, for tests that stop it or kill it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.places import ROOT
from tests.waiting import PATIENCE_S, until


class Served:
    """A command that serves; `address` is known when it has said it."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.log = folder / "served.log"
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            "COLUMNS": "200",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYTHONUNBUFFERED": "1",
        }
        with self.log.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "panewise.serve.cli.cli", *arguments],
                stdout=subprocess.PIPE, stderr=errors, text=True, env=environment, start_new_session=True,
            )  # fmt: skip
        self.address = self._address()
        self.client = httpx.Client(base_url=self.address, timeout=PATIENCE_S)

    def _address(self) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("http://"):
                return line.strip()
        raise AssertionError(f"it has ended before it served: {self.log.read_text()[-2_000:]}")

    def get(self, path: str, **parameters: Any) -> Any:
        answer = self.client.get(f"/v1/{path}", params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def execute(self, text: str) -> httpx.Response:
        return self.client.post("/v1/statements", json={"text": text})

    def push(self, stream: str, rows: list[dict[str, Any]], number: int | None = None) -> httpx.Response:
        headers = {"Content-Type": "application/x-ndjson"}
        if number is not None:
            headers |= {"Panewise-Producer": "test", "Panewise-Sequence": str(number)}
        body = "".join(json.dumps(row) + "\n" for row in rows)
        return self.client.post(f"/v1/streams/{stream}/rows", content=body, headers=headers)

    def wait_until_ready(self) -> None:
        until(lambda: self.client.get("/readyz").status_code == 200)

    def rows(self, query: str, count: int, start: int = 0) -> list[list[Any]]:
        """So many rows from a number on, when they are there."""
        until(lambda: self.get(f"queries/{query}/results", start=start)["next"] >= start + count)
        page = self.get(f"queries/{query}/results", start=start, limit=count)
        assert page["first"] == start
        rows: list[list[Any]] = page["rows"]
        return rows

    def end(self, signal_number: int) -> tuple[int, str]:
        """The exit code, and what it printed since it served."""
        self.process.send_signal(signal_number)
        printed, _ = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, printed


@contextmanager
def served(folder: Path, *arguments: str) -> Iterator[Served]:
    server = Served(folder, *arguments)
    try:
        yield server
    finally:
        server.client.close()
        if server.process.poll() is None:
            server.process.kill()
            server.process.communicate()
