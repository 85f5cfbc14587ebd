"""Requests that survive a restart of the server: they are retried, with growing waits, until a total time is up.

If no connection was made, or the server is busy (503, or 429 with a Retry-After), the server has done nothing, and
every request is retried. If the connection broke or the answer did not come in time, the server may have acted: only a
`repeatable` request is retried, that is, everything but statements that change something. A push is repeatable because
it carries its producer and its number.

Several threads may use one instance; it holds a pool of connections that are kept alive.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from panewise.errors import PanewiseError, ServerError
from panewise.serve.client.backoff import Backoff
from panewise.serve.client.problems import problem_of

CONNECT_TIMEOUT_S = 5.0
CONNECTIONS_MAX = 32
RETRY_AFTER_MAX_S = 3600.0


class Transport:
    """The connections of one client to one server."""

    def __init__(
        self, url: str, token: str | None, timeout_s: float, *, transport: httpx.BaseTransport | None = None
    ) -> None:
        self.url = checked_url(url)
        self.timeout_s = timeout_s
        self.headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.is_loopback = _is_loopback(self.url.host)
        self._http = httpx.Client(
            base_url=self.url,
            headers=self.headers,
            limits=httpx.Limits(max_connections=CONNECTIONS_MAX, max_keepalive_connections=CONNECTIONS_MAX),
            # Use the environment's proxy for other machines only.
            trust_env=not self.is_loopback,
            transport=transport,
        )

    def request(
        self,
        method: str,
        path: str,
        *,
        repeatable: bool = True,
        statement: str | None = None,
        timeout_s: float | None = None,
        wait_s: float | None = None,
        headers: Mapping[str, str] | None = None,
        **content: Any,
    ) -> httpx.Response:
        """Sends a request and returns its successful answer; raises the engine's exceptions otherwise.

        `statement` is the text that an error may point into. `timeout_s` limits the whole call; `wait_s`, if given,
        how long to wait for a server that does not listen. `content` goes to httpx: params, json, content.
        """
        timeout_s = self.timeout_s if timeout_s is None else timeout_s
        backoff = Backoff(timeout_s)
        missing = Backoff(timeout_s if wait_s is None else wait_s)
        while True:
            asked = f"{method} {self.url}/{path}"
            try:
                # Leave at least 0.1 s for a last try that begins just before the deadline.
                limits = httpx.Timeout(max(backoff.left_s, 0.1), connect=min(CONNECT_TIMEOUT_S, max(timeout_s, 0.1)))
                answer = self._http.request(method, path, headers=headers, timeout=limits, **content)
            except (httpx.ConnectError, httpx.ConnectTimeout) as problem:
                if not missing.wait():
                    raise unreachable(self.url, problem) from None
                continue
            except httpx.TransportError as problem:
                if not repeatable or not backoff.wait():
                    raise _interrupted(asked, problem, repeatable, timeout_s) from None
                continue
            except RuntimeError as problem:  # httpx on a closed client
                raise ServerError("this client is closed", hint="connect again") from problem
            if answer.is_success:
                return answer
            found = problem_of(answer.status_code, answer.content, statement, asked)
            # Some statements of the text may have been executed before one was refused.
            is_whole = repeatable or b'"executed"' not in answer.content
            if not is_whole or not is_busy(answer.status_code, answer.headers):
                raise found
            if not backoff.wait(retry_after_s(answer.headers)):
                raise found

    def close(self) -> None:
        self._http.close()


def checked_url(url: Any) -> httpx.URL:
    """The address of a server, without a trailing slash; ServerError if it is not one."""
    hint = "write it as http://127.0.0.1:8461"
    if not isinstance(url, str):
        raise ServerError(f"{url!r} is not the address of a server: it must be a string", hint=hint)
    try:
        parsed = httpx.URL(url.rstrip("/"))
    except httpx.InvalidURL as problem:
        raise ServerError(f"{url!r} is not the address of a server: {problem}", hint=hint) from None
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.query or parsed.fragment:
        raise ServerError(f"'{url}' is not the address of a server", hint=hint)
    return parsed


def path_of(*parts: str) -> str:
    """A path below the address of the server; names may hold any character.

    >>> path_of("v1", "queries", "a/b", "lookup")
    'v1/queries/a%2Fb/lookup'
    """
    return "/".join(quote(part, safe="") for part in parts)


def is_busy(status: int, headers: Mapping[str, str]) -> bool:
    """Whether a retry may succeed. A 429 without Retry-After is a limit that does not pass with time."""
    return status == 503 or (status == 429 and "retry-after" in headers)


def retry_after_s(headers: Mapping[str, str]) -> float:
    """The seconds of a Retry-After header; 0 for a date, which our server never sends."""
    try:
        return min(max(float(headers.get("retry-after", 0.0)), 0.0), RETRY_AFTER_MAX_S)
    except ValueError:
        return 0.0


def unreachable(url: object, problem: Exception) -> ServerError:
    """The error for an address where nothing listens, or that cannot be reached."""
    return ServerError(
        f"there is no server at {url}: {str(problem) or type(problem).__name__}",
        hint="start one with `panewise serve`; it prints its address",
    )


def _interrupted(asked: str, problem: Exception, repeatable: bool, timeout_s: float) -> PanewiseError:
    if isinstance(problem, httpx.TimeoutException):
        said = f"{asked} was not answered within {timeout_s:g} seconds"
    else:
        said = f"the connection broke during {asked}: {str(problem) or type(problem).__name__}"
    return ServerError(said, hint=None if repeatable else "it may have been executed: check before you repeat it")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
