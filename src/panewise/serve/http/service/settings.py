"""Everything that can be set about the server, with what holds where nothing is said."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from panewise.errors import PanewiseError

MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Token:
    """A secret that a caller shows. `scope` is 'read' or 'write', which includes reading; `name` stands in the log."""

    scope: str
    secret: str
    name: str


@dataclass(frozen=True)
class Settings:
    """The settings of one server. `path` is the data folder; without one nothing outlives the process.

    A limit of 0 requests a second means that there is none.
    """

    host: str = "127.0.0.1"
    port: int = 8461
    tokens: tuple[Token, ...] = ()
    token_file: Path | None = None  # where tokens were read from
    path: Path | None = None
    log: str = "text"  # or json
    max_body_bytes: int = 64 * MEBIBYTE
    max_statement_chars: int = 100_000
    max_result_rows: int = 100_000  # of one statement, lookup or page
    max_queries: int = 10_000
    max_definitions: int = 20_000
    max_subscribers: int = 1_000
    requests_per_second: int = 20_000  # by token, or by address where there are no tokens
    keep_rows: int = 1_000_000  # results held, by query
    keep_bytes: int = 256 * MEBIBYTE
    keep_total: int = 512 * MEBIBYTE  # results in memory, of all queries
    read_rows: int = 10_000_000  # that a one-time query makes
    read_bytes: int = 1024 * MEBIBYTE  # that it needs
    read_seconds: float = 30.0  # that it takes
    max_reads: int = 2  # one-time queries that run at the same time; others wait
    push_timeout_s: float = 10.0  # how long a push waits for room in the queue of its stream
    worker_threads: int = 8
    shutdown_s: float = 30.0  # how long requests may take to finish when the server ends

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def check(self) -> None:
        """Refuses what would be unsafe or senseless."""
        if not self.tokens and not self.is_loopback:
            raise PanewiseError(
                f"without tokens everybody who reaches '{self.host}' could read and change everything",
                hint="give --token-file, or leave --host out to serve this machine only",
            )
        if self.log not in ("text", "json"):
            raise PanewiseError(f"there is no log '{self.log}'", hint="it is text or json")
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
                raise PanewiseError(f"{name} is at least 1, not {getattr(self, name)}")
        if not self.read_seconds > 0:
            raise PanewiseError(f"read_seconds is greater than 0, not {self.read_seconds:g}")
        if self.requests_per_second < 0:
            raise PanewiseError("requests_per_second is at least 0, which means no limit")
