"""Three routes that read results by number: live by WebSocket, live by server-sent events, and pages.

Rows of a query are numbered from 0, and the log holds the newest (result_log.py). Reading begins at a number (`start`),
after a window (`after_window`) or, live, with new rows. A client that comes back with the number of its next row, and
the series from `hello`, misses nothing and gets nothing twice. See docs/live.md.

A refusal is sent before the connection is accepted, with the same status and body as for any other request: 400, 401,
403, 404, 429, 503.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pyarrow as pa
from fastapi import APIRouter, Request, Response, WebSocket
from starlette.applications import Starlette
from starlette.responses import Response as PlainResponse
from starlette.types import Receive, Scope, Send

from panewise.errors import PanewiseError
from panewise.serve.http.gate.parameters import LIVE, TOKEN, check_parameters
from panewise.serve.http.live.live_place import number_of, place_of, place_of_event
from panewise.serve.http.live.live_reader import LiveReader, Message, ReaderPlace
from panewise.serve.http.live.live_sockets import LiveSocket
from panewise.serve.http.live.live_subscribers import Stalled, Subscriber, Subscribers
from panewise.serve.http.results.result_series import Gone, Series
from panewise.serve.http.results.row_json import json_columns, json_rows
from panewise.serve.http.routes.openapi import answer, parameter, refusals
from panewise.serve.http.routes.serving import Serving, serving_of
from panewise.serve.http.service.error_answers import Problem, body_of, problem_body, response_of, status_of
from panewise.serve.http.service.responses import arrow_bytes, table_response, wants_arrow

router = APIRouter(prefix="/v1", tags=["queries"])
PAGE_ROWS = 1_000
AT_ONCE_BYTES = 128 << 10  # the event loop writes pages of up to this size itself; the size is that of Arrow
_NUMBER = {"type": "integer", "minimum": 0}
_INSTANT = {"type": "string", "example": "2026-01-31T12:00:00Z"}
_PLACE = [
    parameter("start", "The number of the first row.", _NUMBER),
    parameter("after_window", "Instead of `start`: begin with windows that end after this instant.", _INSTANT),
    parameter("series", "The series that the number belongs to, from an earlier answer.", {"type": "string"}),
]

_PAGE = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "series": {"type": "string", "description": "It changes if the query is dropped and created again."},
        "columns": {"type": "array", "items": {"type": "object"}},
        "rows": {"type": "array", "items": {"type": "array", "items": {}}},
        "first": _NUMBER,
        "next": _NUMBER,
        "held_from": _NUMBER,
        "end": _NUMBER,
    },
    "required": ["query", "series", "columns", "rows", "first", "next", "held_from", "end"],
}


def subscribers_of(app: Starlette) -> Subscribers:
    """The live connections of an application."""
    found: Subscribers | None = getattr(app.state, "subscribers", None)
    if found is None:
        found = app.state.subscribers = Subscribers()
    return found


async def end_live(app: Starlette, seconds: float) -> None:
    """Call before the server ends: sends subscribers their remaining rows and `end`; closes WebSockets with 1001."""
    await subscribers_of(app).close(seconds)


# -- WebSockets --------------------------------------------------------------------------------------------------


@router.websocket("/queries/{name}/live")
async def socket_of_query(socket: WebSocket, name: str) -> None:
    async with _admitted(socket) as (serving, subscribers):
        check_parameters(socket, LIVE)
        series = serving.backend.results.series(name)
        place = await _settled(serving, place_of(socket.query_params, series))
        reader = LiveReader(series, place, subscribers.blocks)
        await socket.accept()
        await LiveSocket(socket, serving.backend.results, subscribers, serving.limits).serve_one(reader)


@router.websocket("/live")
async def socket_of_many(socket: WebSocket) -> None:
    async with _admitted(socket) as (serving, subscribers):
        check_parameters(socket, (TOKEN,))
        await socket.accept()
        await LiveSocket(socket, serving.backend.results, subscribers, serving.limits).serve_many()


async def _settled(serving: Serving, place: ReaderPlace) -> ReaderPlace:
    """The position, after results of acknowledged pushes were moved to the log: `from now on` must not include them."""
    if place.start is None:
        await serving.work(serving.backend.settle)
    return place


@asynccontextmanager
async def _admitted(socket: WebSocket) -> AsyncIterator[tuple[Serving, Subscribers]]:
    """Counts the connection. An error that is raised before it is accepted refuses it."""
    serving, subscribers = serving_of(socket), subscribers_of(socket.app)
    try:
        with serving.limits.subscriber():
            _check_open(subscribers)
            yield serving, subscribers
    except Problem as problem:
        await _refuse(socket, response_of(problem.status_code, problem_body(problem), problem.headers))
    except PanewiseError as error:
        await _refuse(socket, response_of(status_of(error), body_of(error)))


def _check_open(subscribers: Subscribers) -> None:
    if subscribers.closing:
        raise Problem(503, "the server ends", headers={"Retry-After": "1"})


async def _refuse(socket: WebSocket, response: Response) -> None:
    if "websocket.http.response" in socket.scope.get("extensions", {}):
        await socket.send_denial_response(response)
    else:
        await socket.close(1008)


# -- server-sent events ------------------------------------------------------------------------------------------


@router.get(
    "/queries/{name}/live",
    summary="Follow the results of a query",
    description="Server-sent events `hello`, `rows`, `gap` and `end`. The id of an event is the number of the next row "
    "and its series; with `Last-Event-ID` it goes on from there. The same path is a WebSocket.",
    responses={
        200: {
            "description": "Events, until the query is dropped.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        **refusals(404),
    },
    openapi_extra={
        "parameters": [*_PLACE, parameter("Last-Event-ID", "The id of the last event.", {"type": "string"}, "header")]
    },
    response_class=Response,
)
async def events(name: str, request: Request) -> Response:
    serving, subscribers = serving_of(request), subscribers_of(request.app)
    _check_open(subscribers)
    series = serving.backend.results.series(name)
    last = request.headers.get("last-event-id")
    place = await _settled(serving, place_of_event(last) if last else place_of(request.query_params, series))
    return EventStream(serving, subscribers, series, place)


class EventStream(PlainResponse):
    """A response that ends with the query, the server or the connection."""

    media_type = "text/event-stream"

    def __init__(self, serving: Serving, subscribers: Subscribers, series: Series, place: ReaderPlace) -> None:
        # Proxies must neither cache nor buffer the events.
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._reader = LiveReader(series, place, subscribers.blocks)
        self._subscribers = subscribers
        self._limits = serving.limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with self._limits.subscriber():
                await self._stream(receive, send)
        except Problem as problem:
            await response_of(problem.status_code, problem_body(problem), problem.headers)(scope, receive, send)

    async def _stream(self, receive: Receive, send: Send) -> None:
        async def sends(body: bytes, more: bool = True) -> None:
            await send({"type": "http.response.body", "body": body, "more_body": more})

        async def gone() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        sender = gone_task = None
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await sends(b"retry: 1000\n\n")
            subscriber = Subscriber(self._reader, lambda message: sends(_event(message, self._reader.series)))
            sender = self._subscribers.start(subscriber)
            gone_task = asyncio.get_running_loop().create_task(gone())
            with self._subscribers.connection(lambda: None):
                await asyncio.wait({sender, gone_task}, return_when=asyncio.FIRST_COMPLETED)
                if sender.done() and not sender.cancelled():
                    sender.result()
                    await sends(b"", more=False)
        except (OSError, Stalled):
            pass  # the connection is gone
        finally:
            tasks = [task for task in (sender, gone_task) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _event(message: Message, series: Series) -> bytes:
    if message.kind == "heartbeat":
        return b": heartbeat\n\n"
    return f"id: {message.next}:{series.id}\nevent: {message.kind}\ndata: {message.text}\n\n".encode()


# -- pages -------------------------------------------------------------------------------------------------------


@router.get(
    "/queries/{name}/results",
    summary="Read results of a query by number",
    description="One page. `next` is the `start` of the next page, `end` is the number of rows produced so far.",
    responses={200: answer(_PAGE, "The rows.", arrow=True), **refusals(404, 410)},
    openapi_extra={"parameters": [*_PLACE, parameter("limit", "Maximal rows.", {"type": "integer", "minimum": 1})]},
    response_class=Response,
)
async def page(name: str, request: Request) -> Response:
    serving = serving_of(request)
    series = serving.backend.results.series(name)
    asked = request.query_params
    place = place_of(asked, series)
    limit = min(number_of(asked.get("limit", PAGE_ROWS), "limit"), serving.settings.max_result_rows)
    if not limit:
        raise Problem(400, "'limit' must be at least 1")
    await serving.work(serving.backend.settle)
    held_from, _ = series.bounds()
    if place.series is not None and place.series != series.id:
        raise Gone(f"query '{series.name}' was created again: its rows belong to another series", held_from)
    if place.after_window_us is not None:
        start = await serving.work(series.after_window, place.after_window_us)
    else:
        start = held_from if place.start is None else place.start
    arrow = wants_arrow(request)
    _, table = series.read(start, limit)
    held_from, end = series.bounds()
    if table.nbytes <= AT_ONCE_BYTES:
        return _page(series, start, table, held_from, end, arrow)
    return await serving.work(_page, series, start, table, held_from, end, arrow)


def _page(series: Series, first: int, table: pa.Table, held_from: int, end: int, arrow: bool) -> Response:
    numbers = {
        "query": series.name,
        "series": series.id,
        "first": first,
        "next": first + table.num_rows,
        "held_from": held_from,
        "end": end,
    }
    if arrow:
        return table_response(arrow_bytes(table), True, _page_headers(numbers))
    return table_response(_page_body(table, numbers), False)


def _page_body(table: pa.Table, numbers: dict[str, Any]) -> bytes:
    head = orjson.dumps(numbers | {"columns": json_columns(table.schema)})
    return head[:-1] + b',"rows":' + json_rows(table) + b"}"


def _page_headers(numbers: dict[str, Any]) -> dict[str, str]:
    """The numbers of a page as headers, because an Arrow body has no place for them."""
    shown = ("series", "first", "next", "held_from", "end")
    return {f"Panewise-{name.title().replace('_', '-')}": str(numbers[name]) for name in shown}
