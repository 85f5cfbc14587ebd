"""Limits the size of a request's head and the time to receive it, before the caller is known.

httptools, which parses requests for uvicorn, accepts a head of any size and waits for it without a limit, so an
unknown caller could fill the memory or hold connections for ever. Without httptools, uvicorn uses h11, which limits the
size itself.
"""

from __future__ import annotations

import asyncio
from typing import Any

HEAD_BYTES_MAX = 65_536
HEAD_SECONDS = 30.0


def http_protocol() -> Any:
    """The `http` setting for uvicorn: a protocol class with the limits, or `h11` if httptools is not installed."""
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:
        return "h11"

    class LimitedHeads(HttpToolsProtocol):
        """The httptools protocol with the limits. Bytes are counted from the end of the previous request."""

        _head_bytes = 0
        _in_head = True
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._deadline = self.loop.call_later(HEAD_SECONDS, self._too_slow)

        def connection_lost(self, exc: Exception | None) -> None:
            self._cancel()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self._in_head:
                self._head_bytes += len(data)
            super().data_received(data)
            # Once the head is complete, the bytes received with its end may belong to the body.
            if self._in_head and self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
                self.send_400_response("The head of the request is too large.")

        def on_message_begin(self) -> None:
            super().on_message_begin()
            if not self._in_head:
                self._in_head, self._head_bytes = True, 0
                self._deadline = self.loop.call_later(HEAD_SECONDS, self._too_slow)

        def on_headers_complete(self) -> None:
            self._in_head = False
            self._cancel()
            super().on_headers_complete()

        def _cancel(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def _too_slow(self) -> None:
            self.transport.close()

    return LimitedHeads
