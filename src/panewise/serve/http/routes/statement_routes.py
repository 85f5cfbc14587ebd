"""POST /v1/statements runs CQL; GET /v1/catalog lists all definitions.

Several statements in one text run one after the other, each all or nothing; if one is refused, the error tells how many
were executed before it. Statements that only read need the scope read, all others write.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from fastapi import APIRouter, Request, Response

from panewise.language.bind.binder import parse
from panewise.serve.http.gate.access import Caller, check_scope
from panewise.serve.http.gate.connector_rules import only_reads, selects
from panewise.serve.http.gate.guard import caller_of
from panewise.serve.http.routes.openapi import answer, body, refusals
from panewise.serve.http.routes.serving import Serving, serving_of
from panewise.serve.http.service.bodies import JSON, check_media_type, json_object, text_field
from panewise.serve.http.service.responses import described, json_response, table_body, table_response, wants_arrow

router = APIRouter(prefix="/v1", tags=["statements"])
_PLURALS = {"stream": "streams", "table": "tables", "query": "queries", "sink": "sinks", "archive": "archives"}


@router.post(
    "/statements",
    summary="Run statements",
    description="Runs one or more statements of CQL; answers with the table of the last one that has one. SHOW, "
    "EXPLAIN and SELECT need the scope read, all others write. Several statements run one after the other; if one is "
    "refused, `error.executed` is the number of statements executed before it.",
    responses={
        200: answer("Table", "Rows; empty if no statement returns a table.", arrow=True),
        **refusals(404, 408, 409, 410, 413, 415),
    },
    openapi_extra=body("Statements", {"text": "CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE)"}),
    response_class=Response,
)
async def statements(request: Request) -> Response:
    serving = serving_of(request)
    check_media_type(request.headers.get("content-type"), JSON)
    async with serving.limits.body(request) as content:
        text = text_field(json_object(content), "text", known=("text",))
    serving.limits.check_statement(text)
    arrow = wants_arrow(request)
    reads = await serving.work(_reads, caller_of(request.scope), text)
    run = serving.read if reads else serving.work
    return table_response(await run(_run, serving, text, arrow), arrow)


def _reads(caller: Caller, text: str) -> bool:
    """Whether a text contains a one-time query; Problem 403 if it changes something and the caller may only read."""
    statements = parse(text)
    check_scope(caller, not all(map(only_reads, statements)))
    return any(map(selects, statements))


def _run(serving: Serving, text: str, arrow: bool) -> bytes:
    table: pa.Table | None = serving.backend.execute(text)
    if table is not None:
        serving.limits.check_rows(table.num_rows, "narrow it with WHERE, or group it")
    return table_body(table, arrow)


@router.get(
    "/catalog",
    summary="List everything that is defined",
    responses={200: answer("Catalog", "Streams, tables, queries and sinks."), **refusals()},
    response_class=Response,
)
async def catalog(request: Request) -> Response:
    serving = serving_of(request)
    found: dict[str, list[dict[str, Any]]] = {plural: [] for plural in _PLURALS.values()}
    for definition in await serving.work(serving.backend.catalog):
        found[_PLURALS[definition.kind]].append(described(definition))
    return json_response(found)
