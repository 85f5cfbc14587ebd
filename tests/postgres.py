"""A real PostgreSQL server for tests: a cluster of its own on a free loopback port, gone afterwards.

As root its programs run as the user `postgres`, since they refuse root.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.free_port import free_port
from tests.waiting import PATIENCE_S, until

TOOL = Path(__file__).parent.parent / "tools" / "ensure_postgres.sh"
PASSWORD = "pane/wise:7"  # with characters that a URL must escape


class PostgresServer:
    """`url` for clients; `stop` and `start` keep the data, `kill` is the server's crash, `close` removes everything."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        # Not pytest's folder: the user `postgres` may not enter that of root.
        self._folder = Path(tempfile.mkdtemp(prefix="panewise-postgres-"))
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        if os.getuid() == 0:
            shutil.chown(self._folder, "postgres", "postgres")
        secret = self._folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        data = str(self._folder / "data")
        options = ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "--username=panewise"]
        made = self._as_server("initdb", "-D", data, f"--pwfile={secret}", *options)
        subprocess.run(made, check=True, capture_output=True)
        self.start()

    @property
    def url(self) -> str:
        """Without the password, which is PASSWORD."""
        return f"postgresql://panewise@127.0.0.1:{self.port}/postgres"

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.url, password=PASSWORD, autocommit=True)

    def start(self) -> None:
        settings = ["fsync=off", "listen_addresses=127.0.0.1", f"unix_socket_directories={self._folder}"]
        switches = [part for setting in settings for part in ("-c", setting)]
        command = self._as_server("postgres", "-D", str(self._folder / "data"), "-p", str(self.port), *switches)
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        until(lambda: self._answers() or self._ended(), (self._folder / "log").read_text)
        assert not self._ended(), (self._folder / "log").read_text()

    def _answers(self) -> bool:
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def _ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def stop(self) -> None:
        self._signal(signal.SIGINT)  # PostgreSQL's fast shutdown

    def kill(self) -> None:
        self._signal(signal.SIGQUIT)  # its immediate one: no checkpoint, the next start recovers from the log

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _signal(self, number: int) -> None:
        if self._process is None or self._ended():
            return
        # Its own process, by the number that it wrote itself: `runuser` stands before it as root.
        postmaster = int((self._folder / "data" / "postmaster.pid").read_text().splitlines()[0])
        os.kill(postmaster, number)
        self._process.wait(timeout=PATIENCE_S)
        self._process = None

    def _as_server(self, program: str, *arguments: str) -> list[str]:
        command = [str(self._programs / program), *arguments]
        return ["runuser", "-u", "postgres", "--", *command] if os.getuid() == 0 else command


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for all tests of a run; each test takes tables of its own."""
    found = subprocess.run(["sh", str(TOOL)], capture_output=True, text=True)
    if found.returncode:
        pytest.skip(f"PostgreSQL cannot be started: {found.stderr.strip().splitlines()[0]}")
    server = PostgresServer(Path(found.stdout.strip()))
    yield server
    server.close()
