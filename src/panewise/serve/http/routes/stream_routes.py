"""Routes of streams: push rows, advance (punctuations), and a producer's last sequence number.

A push is all or nothing. It is answered after the engine has taken it and, with a data folder, logged it. With a
producer and a sequence number it may be sent again without counting a row twice.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from fastapi import APIRouter, Request, Response

from panewise.serve.http.routes.openapi import answer, body, parameter, refusals
from panewise.serve.http.routes.query_routes import instant_of
from panewise.serve.http.routes.serving import Serving, serving_of
from panewise.serve.http.service.backend import Pushed
from panewise.serve.http.service.bodies import (
    ARROW_STREAM,
    JSON,
    NDJSON,
    arrow_table,
    check_media_type,
    json_object,
    ndjson_rows,
)
from panewise.serve.http.service.error_answers import Problem
from panewise.serve.http.service.responses import json_response

router = APIRouter(prefix="/v1/streams", tags=["streams"])
PRODUCER_CHARS = 200
SEQUENCE_MAX = (1 << 63) - 1
_BINARY = {"schema": {"type": "string", "format": "binary"}}


@router.post(
    "/{name}/rows",
    summary="Push rows",
    description="Newline-delimited JSON, one object a line, or an Arrow IPC stream. All rows are taken or none. With "
    "`Panewise-Producer` and `Panewise-Sequence` (1, 2, 3, ...) the same push may be sent again: a number that was "
    "taken before is acknowledged and its rows are ignored; a number that skips others is refused. `late` is the "
    "number of late rows of the stream so far, with advice; it is present only if there are some and the stream does "
    "not declare what to do with them. `bad` is the same for bad rows that were set aside.",
    responses={
        200: answer("Pushed", "The rows are taken.", {"rows": 2, "repeated": False}),
        **refusals(404, 408, 409, 413, 415),
    },
    openapi_extra={
        "parameters": [
            parameter("Panewise-Producer", "The name of the producer.", {"type": "string"}, "header"),
            parameter("Panewise-Sequence", "The number of the push.", {"type": "integer", "minimum": 1}, "header"),
        ],
        "requestBody": {
            "required": True,
            "content": {
                NDJSON: {
                    "schema": {"type": "string"},
                    "example": '{"ts": "2026-01-31T12:00:00Z", "symbol": "ALFA", "price": 7.5}\n',
                },
                ARROW_STREAM: _BINARY,
            },
        },
    },
    response_class=Response,
)
async def push(name: str, request: Request) -> Response:
    serving = serving_of(request)
    kind = check_media_type(request.headers.get("content-type"), NDJSON, ARROW_STREAM)
    producer, sequence = _stamp(request)
    async with serving.limits.body(request) as content:
        pushed = await serving.work(_push, serving, name, kind, content, producer, sequence)
    remarks = {"late": pushed.late, "bad": pushed.bad}
    said = {kind: remark._asdict() for kind, remark in remarks.items() if remark is not None}
    return json_response({"rows": pushed.rows, "repeated": pushed.repeated, **said})


def _push(serving: Serving, name: str, kind: str, content: bytes, producer: str | None, sequence: int | None) -> Pushed:
    data: pa.Table | list[dict[str, Any]]
    columns = serving.backend.columns(name)
    if kind == NDJSON:
        data = ndjson_rows(content, columns)
    else:
        data = arrow_table(content, serving.settings.max_body_bytes, columns)
    timeout = serving.settings.push_timeout_s
    return serving.backend.push(name, data, producer=producer, sequence=sequence, timeout=timeout)


def _stamp(request: Request) -> tuple[str | None, int | None]:
    producer, number = request.headers.get("panewise-producer"), request.headers.get("panewise-sequence")
    if producer is None and number is None:
        return None, None
    if producer is None or number is None:
        raise Problem(400, "a push must have both Panewise-Producer and Panewise-Sequence, or neither")
    if not producer or len(producer) > PRODUCER_CHARS or not producer.isprintable():
        raise Problem(400, f"the name of a producer must have 1 to {PRODUCER_CHARS} printable characters")
    if not (number.isascii() and number.isdigit()) or len(number) > 19 or not 1 <= int(number) <= SEQUENCE_MAX:
        raise Problem(400, "Panewise-Sequence must be a whole number from 1 on")
    return producer, int(number)


@router.post(
    "/{name}/advance",
    status_code=204,
    summary="Advance a stream",
    description="A punctuation: no row before this instant will come. Windows that end by then are reported.",
    responses={204: {"description": "Taken."}, **refusals(404, 408, 409, 413, 415)},
    openapi_extra=body("Advance", {"until": "2026-01-31T12:01:00Z"}),
    response_class=Response,
)
async def advance(name: str, request: Request) -> Response:
    serving = serving_of(request)
    check_media_type(request.headers.get("content-type"), JSON)
    async with serving.limits.body(request) as content:
        found = json_object(content)
    unknown = next((field for field in found if field != "until"), None)
    if unknown is not None:
        raise Problem(400, f"there is no field '{unknown[:100]}'", hint="there is until")
    if "until" not in found:
        raise Problem(400, "the field 'until' is missing")
    await serving.work(serving.backend.advance, name, instant_of(found["until"], "until"))
    return Response(status_code=204)


@router.get(
    "/{name}/producers/{producer}",
    summary="The last sequence number of a producer",
    responses={
        200: answer("Sequence", "The number of its last push that was taken; 0 if there is none."),
        **refusals(404),
    },
    response_class=Response,
)
async def producer(name: str, producer: str, request: Request) -> Response:
    serving = serving_of(request)
    return json_response({"sequence": await serving.work(serving.backend.last_sequence, name, producer)})
