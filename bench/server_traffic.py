"""Cheap traffic for a server, in one event loop: lookups at a rate, a producer that pushes, subscribers that check.

The generator shares the machine with the server that it loads, so requests are bytes made once, answers are read as far
as their length, and only a sample of them is kept for judging.

Lookups are offered at their rate whether the server keeps up or not, and an answer's latency counts from the moment at
which the lookup was due: a server that stops for a second is charged for all lookups of that second.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from websockets.asyncio.client import connect
from websockets.exceptions import InvalidHandshake, WebSocketException

TICK_S = 0.002
SAMPLE_EVERY = 101  # not a multiple of the number of queries, so that all of them are sampled
RETRY_S = 0.05
Row = list[Any]
Done = Callable[[int, bytes], None]


class HttpConnection(asyncio.Protocol):
    """One connection that is kept alive, one request on it at a time; 0 is the status of a lost one."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._wanted = -1  # bytes of the whole answer, once they are known
        self._status = 0
        self._done: Done | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def request(self, request: bytes, done: Done) -> None:
        assert self._done is None and self._transport is not None
        if self._transport.is_closing():  # lost while nothing was asked
            done(0, b"")
            return
        self._done, self._wanted = done, -1
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._wanted < 0:
            end = self._received.find(b"\r\n\r\n")
            if end < 0:
                return
            self._status = int(self._received[9:12])
            head = bytes(self._received[:end]).lower()
            _, _, after = head.partition(b"\r\ncontent-length:")
            self._wanted = end + 4 + int(after.partition(b"\r\n")[0] or 0)
        if len(self._received) >= self._wanted:
            body = bytes(self._received[self._received.find(b"\r\n\r\n") + 4 : self._wanted])
            del self._received[: self._wanted]
            self._finish(self._status, body)

    def connection_lost(self, _: Exception | None) -> None:
        self._finish(0, b"")

    def _finish(self, status: int, body: bytes) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(status, body)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def opened(port: int) -> HttpConnection:
    return (await asyncio.get_running_loop().create_connection(HttpConnection, "127.0.0.1", port))[1]


def request_bytes(method: str, path: str, port: int, body: bytes = b"", **headers: str) -> bytes:
    """An HTTP request; header names are given with underscores."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{port}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if body or method == "POST":
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


class Lookups:
    """A bounded pool of connections on which lookups go out at a rate, over the queries in turn."""

    def __init__(self, port: int, queries: list[str], per_s: float, connections: int) -> None:
        self.latencies_s: list[float] = []
        self.sample: list[tuple[str, dict[str, Any]]] = []
        self.refused: dict[int, int] = {}  # by status
        self._requests = [(name, request_bytes("GET", f"/v1/queries/{name}/lookup", port)) for name in queries]
        self._port = port
        self._per_s = per_s
        self._count = connections
        self._free: list[HttpConnection] = []
        self._waiting: deque[float] = deque()  # when those were due that found no free connection
        self._sent = 0

    async def run(self, seconds: float) -> None:
        """Offers lookups for so long, and waits until the last is answered."""
        connections = [await opened(self._port) for _ in range(self._count)]
        self._free = list(connections)
        begun, offered, total = time.perf_counter(), 0, int(self._per_s * seconds)
        while offered < total:
            await asyncio.sleep(TICK_S)
            due = min(int((time.perf_counter() - begun) * self._per_s), total)
            for number in range(offered, due):
                self._offer(begun + (number + 1) / self._per_s)
            offered = due
        while len(self._free) < len(connections):
            await asyncio.sleep(TICK_S)
        for connection in connections:
            connection.close()

    def _offer(self, due: float) -> None:
        if self._free:
            self._send(self._free.pop(0), due)  # in turn: the server closes a connection on which nothing comes
        else:
            self._waiting.append(due)

    def _send(self, connection: HttpConnection, due: float) -> None:
        name, request = self._requests[self._sent % len(self._requests)]
        is_sampled = self._sent % SAMPLE_EVERY == 0
        self._sent += 1

        def done(status: int, body: bytes) -> None:
            if status == 200:
                self.latencies_s.append(time.perf_counter() - due)
                if is_sampled:
                    self.sample.append((name, json.loads(body)))
            else:
                self.refused[status] = self.refused.get(status, 0) + 1
            if self._waiting and status:
                self._send(connection, self._waiting.popleft())
            else:
                self._free.append(connection)

        connection.request(request, done)


class Producer:
    """Pushes under numbers, one after the other, each until it is acknowledged, across deaths of the server."""

    def __init__(self, port: int) -> None:
        self.acknowledged = 0
        self.tries = 0
        self._port = port
        self._connection: HttpConnection | None = None

    async def push(self, stream: str, body: bytes) -> None:
        number = self.acknowledged + 1
        request = request_bytes(
            "POST", f"/v1/streams/{stream}/rows", self._port, body, Content_Type="application/vnd.apache.arrow.stream",
            Panewise_Producer="load", Panewise_Sequence=str(number),
        )  # fmt: skip
        await self.until_done(request)
        self.acknowledged = number

    async def until_done(self, request: bytes) -> None:
        """Sends a request that may be repeated, until it succeeds."""
        while True:
            self.tries += 1
            status, body = await self._sent(request)
            if status in (200, 204):
                return
            if status not in (0, 429, 503):
                raise RuntimeError(f"the server answered {status}: {body.decode(errors='replace')}")
            await asyncio.sleep(RETRY_S)

    async def _sent(self, request: bytes) -> tuple[int, bytes]:
        try:
            if self._connection is None:
                self._connection = await opened(self._port)
        except OSError:
            return 0, b""
        answer: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()
        self._connection.request(request, lambda status, body: answer.set_result((status, body)))
        status, body = await answer
        if not status:
            self._connection = None
        return status, body


class Subscriber:
    """Live results of one query over a WebSocket, every row compared with what others saw under its number.

    `rows` is shared by all subscribers of the query. It goes on by number after a loss of the connection.
    """

    def __init__(self, port: int, query: str, rows: dict[int, Row]) -> None:
        self.next = 0
        self.messages = 0
        self.connections = 0
        self.wrong: list[str] = []
        self._url = f"ws://127.0.0.1:{port}/v1/queries/{query}/live"
        self._rows = rows

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            with contextlib.suppress(OSError, EOFError, TimeoutError, InvalidHandshake, WebSocketException):
                async with connect(
                    f"{self._url}?start={self.next}", compression=None, max_size=None, ping_interval=None, proxy=None,
                    close_timeout=1,
                ) as socket:  # fmt: skip
                    self.connections += 1
                    async for message in socket:
                        self._take(json.loads(message))
            await asyncio.sleep(RETRY_S)

    def _take(self, message: dict[str, Any]) -> None:
        self.messages += 1
        if message["type"] == "rows":
            if message["first"] != self.next:
                self.wrong.append(f"row {message['first']} where {self.next} was next")
            for number, row in enumerate(message["rows"], message["first"]):
                if self._rows.setdefault(number, row) != row:
                    self.wrong.append(f"row {number} is {row}, and another subscriber got {self._rows[number]}")
            self.next = message["first"] + len(message["rows"])
        elif message["type"] not in ("hello", "heartbeat"):
            self.wrong.append(f"an unexpected message: {message}")
