"""All settings of the server, with their defaults."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from panewise.errors import PanewiseError

MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Token:
    """A secret that a caller sends. `scope` is 'read' or 'write', which includes reading; `name` appears in the log."""

    scope: str
    secret: str
    name: str


@dataclass(frozen=True)
class Settings:
    """The settings of one server. `path` is the data folder; without one, all state is lost with the process."""

    host: str = "127.0.0.1"
    port: int = 8461
    tokens: tuple[Token, ...] = ()
    token_file: Path | None = None  # the file from which `tokens` were read
    path: Path | None = None
    log: str = "text"  # or json
    max_body_bytes: int = 64 * MEBIBYTE
    max_statement_chars: int = 100_000
    max_result_rows: int = 100_000  # of one statement, lookup or page
    max_queries: int = 10_000
    max_definitions: int = 20_000
    max_subscribers: int = 1_000
    requests_per_second: int = 20_000  # per token, or per address if there are no tokens; 0: no limit
    keep_rows: int = 1_000_000  # result rows kept for each query
    keep_bytes: int = 256 * MEBIBYTE  # bytes of results kept for each query
    keep_total: int = 512 * MEBIBYTE  # bytes of all queries' results in memory
    read_rows: int = 10_000_000  # rows that a one-time query may produce
    read_bytes: int = 1024 * MEBIBYTE  # bytes that a one-time query may need
    read_seconds: float = 30.0  # time that a one-time query may take
    max_reads: int = 2  # one-time queries that run at the same time; others wait
    push_timeout_s: float = 10.0  # how long a push waits for room in the queue of its stream
    worker_threads: int = 8
    shutdown_s: float = 30.0  # how long requests may take to finish when the server ends

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def check(self) -> None:
        """Raises PanewiseError if the settings are unsafe or invalid."""
        if not self.tokens and not self.is_loopback:
            raise PanewiseError(
                f"without tokens everybody who reaches '{self.host}' could read and change everything",
                hint="give --token-file, or leave --host out to serve this machine only",
            )
        if self.log not in ("text", "json"):
            raise PanewiseError(f"there is no log format '{self.log}'", hint="write text or json")
        if not 0 <= self.port <= 65_535:
            raise PanewiseError(f"there is no port {self.port}", hint="0 picks a free one")
        for name in (
            "max_body_bytes",
            "max_statement_chars",
            "max_result_rows",
            "max_queries",
            "max_definitions",
            "max_subscribers",
            "keep_rows",
            "keep_bytes",
            "keep_total",
            "read_rows",
            "read_bytes",
            "max_reads",
            "worker_threads",
        ):
            if getattr(self, name) < 1:
                raise PanewiseError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not self.read_seconds > 0:
            raise PanewiseError(f"read_seconds must be greater than 0, not {self.read_seconds:g}")
        if self.requests_per_second < 0:
            raise PanewiseError("requests_per_second must be 0 (no limit) or more")
