"""A WebSocket with live results: of one query, or of several to which the client subscribes.

The client may send these JSON objects:

    {"type": "pause"}, {"type": "resume"}                 with "query" on a connection for several queries
    {"type": "subscribe", "query", "start"?, "after_window"?, "series"?}      only on such a connection
    {"type": "unsubscribe", "query"}                                          only on such a connection

Any other message is answered with {"type": "error", "error": {...}}. After MISTAKES_MOST of them the connection is
closed, so that a client that does not know the protocol does not keep the server busy.

    1000   the query was dropped                1008   too many mistakes
    1001   the server ends                      1009   a message of the client was too long
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, suppress
from typing import Any

import orjson
from starlette.websockets import WebSocket, WebSocketDisconnect

from panewise.errors import PanewiseError
from panewise.serve.http.gate.limits import Limits
from panewise.serve.http.live.live_place import place_of
from panewise.serve.http.live.live_reader import LiveReader, Message
from panewise.serve.http.live.live_subscribers import Stalled, Subscriber, Subscribers
from panewise.serve.http.results.result_log import ResultLog
from panewise.serve.http.service.error_answers import Problem, body_of, problem_body

MISTAKES_MOST = 10
MESSAGE_CHARACTERS_MOST = 65_536
NORMAL, GOING_AWAY, POLICY, TOO_LONG = 1000, 1001, 1008, 1009


class _Close(Exception):
    """Ends the connection with a code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class LiveSocket:
    """An accepted connection. It lasts until the client leaves, the server ends, or its only query ends."""

    def __init__(self, socket: WebSocket, results: ResultLog, subscribers: Subscribers, limits: Limits) -> None:
        self._socket = socket
        self._results = results
        self._subscribers = subscribers
        self._limits = limits
        self._running: dict[str, tuple[Subscriber, asyncio.Task[None]]] = {}  # key: the query's name in lower case
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._mistakes = 0

    async def serve_one(self, reader: LiveReader) -> None:
        """Sends the results of one query until the connection ends."""
        await self._serve(self._start(reader))

    async def serve_many(self) -> None:
        """Sends the results of the queries to which the client subscribes, until the connection ends."""
        await self._serve(None)

    async def _serve(self, only: Subscriber | None) -> None:
        listening = asyncio.get_running_loop().create_task(self._listen(only))
        try:
            with self._subscribers.connection(self._finish):
                await asyncio.wait({listening, self._over}, return_when=asyncio.FIRST_COMPLETED)
                if listening.done():
                    listening.result()
                self._over.result()
                await self._socket.close(GOING_AWAY if self._subscribers.closing else NORMAL)
        except _Close as close:
            with suppress(WebSocketDisconnect, RuntimeError):
                await self._socket.close(close.code, close.reason)
        except (WebSocketDisconnect, Stalled):
            pass  # the connection is gone
        finally:
            if not self._over.cancel():
                self._over.exception()  # mark as retrieved, also if the client left first
            tasks = [listening, *(task for _, task in self._running.values())]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _finish(self, problem: BaseException | None = None) -> None:
        """Ends the connection, with an exception if there is a problem."""
        if not self._over.done():
            if problem is None:
                self._over.set_result(None)
            else:
                self._over.set_exception(problem)

    # -- messages of the client ----------------------------------------------------------------------------------

    async def _listen(self, only: Subscriber | None) -> None:
        while True:
            received = await self._socket.receive()
            if received["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(received.get("code", NORMAL))
            text = received.get("text") or received.get("bytes") or b""
            if len(text) > MESSAGE_CHARACTERS_MOST:
                raise _Close(TOO_LONG, f"a message has at most {MESSAGE_CHARACTERS_MOST:,} characters")
            asked = _parsed(text)
            try:
                answer = self._answer(asked, only)
            except Problem as problem:
                answer = _error(asked, problem_body(problem))
            except PanewiseError as error:
                answer = _error(asked, body_of(error))
            if answer is not None:
                await self._socket.send_text(orjson.dumps(answer).decode())
            if answer is not None and answer["type"] == "error":
                self._mistakes += 1
                if self._mistakes >= MISTAKES_MOST:
                    raise _Close(POLICY, "too many messages were refused")

    def _answer(self, asked: Any, only: Subscriber | None) -> dict[str, Any] | None:
        kind = asked.get("type") if isinstance(asked, dict) else None
        if kind in ("pause", "resume"):
            subscriber = only or self._subscriber(asked)
            subscriber.paused = kind == "pause"
            subscriber.wake()
            return None
        if kind == "subscribe" and only is None:
            self._subscribe(asked)
            return None
        if kind == "unsubscribe" and only is None:
            subscriber = self._subscriber(asked)
            _, task = self._running.pop(subscriber.reader.series.name.lower())
            task.cancel()
            return {"type": "unsubscribed", "query": subscriber.reader.series.name}
        known = "pause or resume" if only is not None else "subscribe, unsubscribe, pause or resume"
        raise Problem(400, "a message is not understood", hint=f'send a JSON object with "type": {known}')

    def _subscriber(self, asked: dict[str, Any]) -> Subscriber:
        name = asked.get("query")
        found = self._running.get(name.lower()) if isinstance(name, str) else None
        if found is None:
            raise Problem(404, f"there is no subscription to the query {name!r}"[:300])
        return found[0]

    def _subscribe(self, asked: dict[str, Any]) -> None:
        name = asked.get("query")
        if not isinstance(name, str):
            raise Problem(400, 'the field "query" must be the name of a query')
        if name.lower() in self._running:
            raise Problem(409, f"there is already a subscription to '{name}'")
        series = self._results.series(name)
        reader = LiveReader(series, place_of(asked, series), self._subscribers.blocks)
        counted = self._limits.subscriber()
        with ExitStack() as stack:
            stack.enter_context(counted)
            self._start(reader, stack.pop_all())

    def _start(self, reader: LiveReader, counted: ExitStack | None = None) -> Subscriber:
        """Starts a subscriber. `counted` is released at its end; None for the only subscriber of the connection."""
        subscriber = Subscriber(reader, self._send)
        task = self._subscribers.start(subscriber)
        key = reader.series.name.lower()
        self._running[key] = subscriber, task

        def ended(task: asyncio.Task[None]) -> None:
            if self._running.get(key) == (subscriber, task):
                del self._running[key]
            if counted is not None:
                counted.close()
            if not task.cancelled() and (counted is None or task.exception() is not None):
                self._finish(task.exception())

        task.add_done_callback(ended)
        return subscriber

    async def _send(self, message: Message) -> None:
        await self._socket.send_text(message.text)


def _parsed(text: str | bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _error(asked: Any, error: dict[str, Any]) -> dict[str, Any]:
    named = {"query": asked["query"]} if isinstance(asked, dict) and isinstance(asked.get("query"), str) else {}
    return {"type": "error", **named, "error": error}
