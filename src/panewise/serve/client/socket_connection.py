"""A WebSocket to the live results of one query: implements `live.Connection`.

A handshake that is refused with 429 or 503 raises Lost, because it may succeed later. Any other refusal is the caller's
mistake and raises the same exception as a request.
"""

from __future__ import annotations

from contextlib import ExitStack

import httpx
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from panewise.errors import ServerError
from panewise.serve.client.live import Lost
from panewise.serve.client.problems import problem_of
from panewise.serve.client.transport import CONNECT_TIMEOUT_S, Transport, is_busy, path_of, retry_after_s, unreachable

CLOSE_TIMEOUT_S = 1.0
PING_EVERY_S = 20.0  # a server that vanishes without closing the connection is noticed after twice this time
MESSAGES_AHEAD = 4  # messages buffered for a slow reader; then the connection stops receiving


class SocketConnection:
    """One WebSocket, opened by the constructor."""

    def __init__(self, transport: Transport, query: str, start: int | None, series: str | None) -> None:
        url = _socket_url(transport.url, query, start, series)
        self._stack = ExitStack()
        try:
            self._socket: ClientConnection = self._stack.enter_context(
                connect(
                    str(url),
                    additional_headers=transport.headers,
                    compression=None,
                    proxy=None if transport.is_loopback else True,
                    open_timeout=CONNECT_TIMEOUT_S,
                    close_timeout=CLOSE_TIMEOUT_S,
                    ping_interval=PING_EVERY_S,
                    ping_timeout=PING_EVERY_S,
                    max_size=None,
                    max_queue=MESSAGES_AHEAD,
                )
            )
        except InvalidStatus as refused:
            answer = refused.response
            asked = f"the WebSocket {url}"
            problem = problem_of(answer.status_code, bytes(answer.body or b""), None, asked)
            if is_busy(answer.status_code, answer.headers):
                raise Lost(problem, retry_after_s(answer.headers)) from None
            raise problem from None
        except (OSError, EOFError, TimeoutError, InvalidHandshake, ConnectionClosed) as problem:
            raise Lost(unreachable(transport.url, problem)) from None

    def receive(self) -> str | bytes:
        try:
            return self._socket.recv()
        except (ConnectionClosed, OSError, EOFError) as problem:
            raise Lost(ServerError(f"the connection broke: {problem}")) from None

    def close(self) -> None:
        try:
            self._stack.close()
        except (ConnectionClosed, OSError, EOFError):
            return  # the connection was already broken


def _socket_url(base: httpx.URL, query: str, start: int | None, series: str | None) -> httpx.URL:
    scheme = "wss" if base.scheme == "https" else "ws"
    address = f"{base.copy_with(scheme=scheme)}".rstrip("/")
    url = httpx.URL(f"{address}/{path_of('v1', 'queries', query, 'live')}")
    asked = {"start": start, "series": series}
    return url.copy_merge_params({name: str(value) for name, value in asked.items() if value is not None})
