"""Limits of what callers may use: requests per second, bytes of a body, bytes of all bodies, subscribers.

Only the event loop uses this module, so no locks are needed. A refusal costs a few microseconds; where waiting helps,
it says when to retry.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from time import monotonic

from starlette.requests import ClientDisconnect, Request

from panewise.serve.http.service.error_answers import Problem
from panewise.serve.http.service.settings import Settings

BODY_SECONDS = 60.0  # time to receive a whole body
BODIES_AT_ONCE = 8  # bodies of the maximal size that may be held at the same time
CALLERS_HELD = 10_000
STRANGERS_A_SECOND = 1_000


class TokenBuckets:
    """A rate limit for each caller: a bucket holds one second's requests and fills at that rate.

    >>> buckets = TokenBuckets(2)
    >>> [buckets.wait_s("a", now) for now in (0.0, 0.0, 0.0, 0.5)]
    [0.0, 0.0, 0.5, 0.0]
    """

    def __init__(self, per_second: int) -> None:
        self._per_second = float(per_second)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # caller -> content and time of the update

    def wait_s(self, caller: str, now: float) -> float:
        """Takes one request from the bucket and returns 0; or returns the seconds until there is one."""
        if not self._per_second:
            return 0.0
        held, since = self._buckets.get(caller, (self._per_second, now))
        held = min(self._per_second, held + (now - since) * self._per_second)
        taken = held >= 1.0
        self._buckets[caller] = (held - 1.0 if taken else held), now
        self._buckets.move_to_end(caller)
        if len(self._buckets) > CALLERS_HELD:
            self._buckets.popitem(last=False)
        return 0.0 if taken else (1.0 - held) / self._per_second


class Limits:
    """The limits of one server, and how much of them is in use."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._rates = TokenBuckets(settings.requests_per_second)
        self._strangers = TokenBuckets(min(settings.requests_per_second or STRANGERS_A_SECOND, STRANGERS_A_SECOND))
        self.body_bytes_held = 0
        self.subscribers = 0

    def take_request(self, caller: str) -> None:
        """Counts a request; Problem 429 if the caller sends too many."""
        self._take(self._rates, caller)

    def take_stranger(self, address: str) -> None:
        """Counts a request without a valid token, with a lower rate, so that guessing tokens is slow."""
        self._take(self._strangers, address)

    def _take(self, buckets: TokenBuckets, caller: str) -> None:
        wait = buckets.wait_s(caller, monotonic())
        if wait:
            raise Problem(
                429,
                f"more than {self.settings.requests_per_second:,} requests a second",
                headers={"Retry-After": str(math.ceil(wait))},
            )

    def check_length(self, length: bytes | None) -> None:
        """Problem 413 if the declared length is too large; called before the body is read."""
        if length is not None and length.isdigit() and int(length[:20]) > self.settings.max_body_bytes:
            raise self._too_large()

    @asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[bytes]:
        """The whole body. Its bytes count as held while it is read and used."""
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for chunk in request.stream():
                    size += len(chunk)
                    self.body_bytes_held += len(chunk)
                    if size > self.settings.max_body_bytes:
                        raise self._too_large()
                    if self.body_bytes_held > BODIES_AT_ONCE * self.settings.max_body_bytes:
                        raise Problem(503, "too many bodies at once", headers={"Retry-After": "1"})
                    chunks.append(chunk)
            whole = b"".join(chunks)
            chunks.clear()
            yield whole
        except TimeoutError:
            raise Problem(408, f"the body was not received within {BODY_SECONDS:.0f} s", headers=_CLOSE) from None
        except ClientDisconnect:
            raise Problem(400, "the body is incomplete", headers=_CLOSE) from None
        finally:
            self.body_bytes_held -= size

    def _too_large(self) -> Problem:
        most = self.settings.max_body_bytes
        return Problem(413, f"the body has more than {most:,} bytes", hint="send it in several parts", headers=_CLOSE)

    def check_statement(self, text: str) -> None:
        """Problem 413 if a statement is too long to be parsed."""
        most = self.settings.max_statement_chars
        if len(text) > most:
            raise Problem(
                413, f"the text has {len(text):,} characters, and {most:,} are allowed", hint="send it in parts"
            )

    def check_rows(self, rows: int, hint: str) -> None:
        """Problem 413 if an answer has too many rows."""
        most = self.settings.max_result_rows
        if rows > most:
            raise Problem(413, f"the answer has {rows:,} rows, and at most {most:,} are sent", hint=hint)

    @contextmanager
    def subscriber(self) -> Iterator[None]:
        """Counts a live connection while the block runs; Problem 429 if there are too many."""
        if self.subscribers >= self.settings.max_subscribers:
            raise Problem(
                429,
                f"there are {self.subscribers:,} subscribers, and no more are allowed",
                headers={"Retry-After": "5"},
            )
        self.subscribers += 1
        try:
            yield
        finally:
            self.subscribers -= 1


_CLOSE = {"Connection": "close"}
