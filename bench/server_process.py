"""`panewise serve` as a process of its own, to be loaded, killed and started again on the same folder and port."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

READY_TIMEOUT_S = 300.0
STOP_TIMEOUT_S = 300.0


class ServerProcess:
    """One server on loopback; a context manager that leaves no process behind.

    What it prints goes to a file beside its data, and `said()` reads it: a full pipe would stop the server.
    """

    def __init__(self, path: Path, *options: str, port: int | None = None) -> None:
        self.path = path
        self.port = free_port() if port is None else port
        self.url = f"http://127.0.0.1:{self.port}"
        self.kills = 0
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._output = Path(tempfile.mkstemp(prefix="panewise-serve-", suffix=".log")[1])

    def start(self) -> Self:
        """Starts it and returns when it is ready."""
        command = [sys.executable, "-c", "from panewise.serve.cli.cli import main; main()", "serve"]
        options = ["--port", str(self.port), "--path", str(self.path), *self._options]
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                [*command, *options], stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=os.environ
            )
        give_up = time.monotonic() + READY_TIMEOUT_S
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > give_up:
                self.kill()
                raise RuntimeError(f"the server did not start:\n{self.said()}")
            time.sleep(0.02)
        return self

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """kill -9: nothing is said, nothing is finished."""
        self._end(signal.SIGKILL)
        self.kills += 1

    def stop(self) -> int:
        """Asks it to end, and gives its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, how: int) -> int:
        assert self._process is not None
        process, self._process = self._process, None
        process.send_signal(how)
        try:
            return process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise RuntimeError(f"the server did not end:\n{self.said()}") from None

    def said(self) -> str:
        """The end of what it printed."""
        return self._output.read_text(errors="replace")[-4000:]

    def cpu_s(self) -> float:
        """Processor seconds of all its threads so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_most(self) -> int:
        """The most bytes of memory that it has had at once."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: Any) -> None:
        try:
            if self._process is not None:
                self._end(signal.SIGKILL)
        finally:
            self._output.unlink(missing_ok=True)


def free_port() -> int:
    """A port of loopback that nobody has now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
