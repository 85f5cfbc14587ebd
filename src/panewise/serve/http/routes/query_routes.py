"""Routes of registered queries: list, show, create, suspend, resume, drop, explain, look up.

All of them run in worker threads. Most lookups do not reach this module: quick_lookups.py answers them.
"""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import APIRouter, Request, Response

from panewise.errors import BindError, CatalogError, QueryError, Span, did_you_mean
from panewise.language.bind.binder import parse
from panewise.language.sql_text import name_to_sql
from panewise.serve.http.gate.connector_rules import adds_query
from panewise.serve.http.routes.openapi import answer, body, parameter, refusals
from panewise.serve.http.routes.serving import Serving, serving_of
from panewise.serve.http.service.backend import Backend, Definition
from panewise.serve.http.service.bodies import JSON, check_media_type, json_object, text_field
from panewise.serve.http.service.error_answers import Problem
from panewise.serve.http.service.responses import (
    LookupBodies,
    arrow_bytes,
    described,
    json_response,
    lookup_headers,
    table_response,
    wants_arrow,
)
from panewise.temporal import INSTANT_MAX, INSTANT_MIN, instant_us

router = APIRouter(prefix="/v1", tags=["queries"])
_INSTANT = {"type": "string", "example": "2026-01-31T12:00:00Z"}
_NUMBER = {"type": "integer", "minimum": 0}


@router.get(
    "/queries",
    summary="List queries",
    responses={200: answer({"type": "object"}, "All queries; `stats` has the figures of each."), **refusals()},
    response_class=Response,
)
async def queries(request: Request) -> Response:
    serving = serving_of(request)
    return json_response({"queries": await serving.work(_listed, serving.backend)})


def _listed(backend: Backend) -> list[dict[str, Any]]:
    stats = backend.stats().get("queries", {})
    found = [definition for definition in backend.catalog() if definition.kind == "query"]
    return [described(definition) | {"stats": stats.get(definition.name, {})} for definition in found]


@router.get(
    "/queries/{name}",
    summary="Show a query",
    responses={200: answer("Query", "The query."), **refusals(404)},
    response_class=Response,
)
async def query(name: str, request: Request) -> Response:
    serving = serving_of(request)
    return json_response(await serving.work(_shown, serving.backend, name))


def _shown(backend: Backend, name: str) -> dict[str, Any]:
    found = query_of(backend, name)
    return described(found) | {"stats": backend.stats().get("queries", {}).get(found.name, {})}


def query_of(backend: Backend, name: str) -> Definition:
    """The query of this name, ignoring case; CatalogError, which becomes 404, if there is none."""
    found = [definition for definition in backend.catalog() if definition.kind == "query"]
    for definition in found:
        if definition.name.lower() == name.lower():
            return definition
    raise CatalogError(f"there is no query '{name}'", hint=did_you_mean(name, [d.name for d in found]), missing=True)


@router.post(
    "/queries",
    status_code=201,
    summary="Create a query",
    description="The same as `CREATE QUERY name AS select`. Positions in errors refer to `select`.",
    responses={201: answer("Query", "The query."), **refusals(404, 408, 409, 413, 415)},
    openapi_extra=body(
        "NewQuery",
        {
            "name": "busy",
            "select": "SELECT symbol, COUNT(*) AS n FROM trades [RANGE 1 MINUTE SLIDE 10 SECONDS] GROUP BY symbol",
        },
    ),
    response_class=Response,
)
async def create(request: Request) -> Response:
    serving = serving_of(request)
    check_media_type(request.headers.get("content-type"), JSON)
    async with serving.limits.body(request) as content:
        found = json_object(content)
    known = ("name", "select", "options")
    name, select = text_field(found, "name", known=known), text_field(found, "select", known=known)
    serving.limits.check_statement(name + select)
    return json_response(await serving.work(_create, serving.backend, name, select, found.get("options")), 201)


def _create(backend: Backend, name: str, select: str, options: Any) -> dict[str, Any]:
    if not name.strip():
        raise Problem(400, "the name of a query must not be empty")
    taken = next((d for d in backend.catalog() if d.name.lower() == name.lower()), None)
    if taken is not None:
        raise CatalogError(f"there is already a {taken.kind} '{taken.name}'", hint="choose another name, or drop it")
    before = f"CREATE QUERY {name_to_sql(name)}{_with(options)} AS "
    text = before + select
    try:
        parsed = parse(text)
        if len(parsed) != 1 or not adds_query(parsed[0]):
            raise BindError("'select' must be one SELECT", hint="send several statements to /v1/statements")
        backend.execute(text)
    except QueryError as error:
        raise _moved(error, select, len(before)) from None
    return _shown(backend, name)


def _moved(error: QueryError, select: str, by: int) -> QueryError:
    """The error with its position moved from the CREATE QUERY statement into the SELECT that was sent."""
    if error.span is not None:
        start = max(0, error.span.start - by)
        error.text, error.span = select, Span(start, max(start + 1, error.span.end - by))
    return error


def _with(options: Any) -> str:
    if options is None or options == {}:
        return ""
    if not isinstance(options, dict):
        raise Problem(400, "the field 'options' is not a JSON object")
    return f" WITH ({', '.join(f'{name_to_sql(name)} = {_literal(name, value)}' for name, value in options.items())})"


def _literal(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str) and "\x00" not in value:
        return "'" + value.replace("'", "''") + "'"
    raise Problem(400, f"the option '{name[:100]}' is not a string, number or boolean")


@router.post(
    "/queries/{name}/suspend",
    summary="Suspend a query",
    description="The query keeps its state up to date and reports nothing until it is resumed.",
    responses={200: answer("Query", "The query."), **refusals(404, 409)},
    response_class=Response,
)
async def suspend(name: str, request: Request) -> Response:
    serving = serving_of(request)
    return json_response(await serving.work(_changed, serving.backend, name, "SUSPEND"))


@router.post(
    "/queries/{name}/resume",
    summary="Resume a query",
    responses={200: answer("Query", "The query."), **refusals(404, 409)},
    response_class=Response,
)
async def resume(name: str, request: Request) -> Response:
    serving = serving_of(request)
    return json_response(await serving.work(_changed, serving.backend, name, "RESUME"))


def _changed(backend: Backend, name: str, word: str) -> dict[str, Any]:
    found = query_of(backend, name)
    backend.execute(f"{word} QUERY {name_to_sql(found.name)}")
    return _shown(backend, name)


@router.delete(
    "/queries/{name}",
    status_code=204,
    summary="Drop a query",
    description="Drops its results too. A query that others read cannot be dropped.",
    responses={204: {"description": "The query is dropped."}, **refusals(404, 409)},
    response_class=Response,
)
async def drop(name: str, request: Request) -> Response:
    serving = serving_of(request)
    await serving.work(_drop, serving.backend, name)
    return Response(status_code=204)


def _drop(backend: Backend, name: str) -> None:
    backend.execute(f"DROP QUERY {name_to_sql(query_of(backend, name).name)}")


@router.get(
    "/queries/{name}/explain",
    summary="Explain how a query is answered",
    responses={200: answer("Explanation", "As text and as data."), **refusals(404)},
    response_class=Response,
)
async def explain(name: str, request: Request) -> Response:
    serving = serving_of(request)
    text, plan = await serving.work(serving.backend.explain, name)
    return json_response({"text": text, "plan": plan})


@router.get(
    "/explain",
    summary="Explain how everything is answered",
    responses={200: answer("Explanation", "As text and as data."), **refusals()},
    response_class=Response,
)
async def explain_all(request: Request) -> Response:
    serving = serving_of(request)
    text, plan = await serving.work(serving.backend.explain, None)
    return json_response({"text": text, "plan": plan})


@router.get(
    "/queries/{name}/lookup",
    summary="Look up the answer of a query",
    description="The answer now, at an instant, or of one group.",
    responses={
        200: answer("Lookup", "The answer, the query's watermark, and the answer's age.", arrow=True),
        **refusals(404, 409, 410, 413),
    },
    openapi_extra={
        "parameters": [
            parameter("at", "An instant: a string in UTC, or microseconds since 1970.", _INSTANT),
            parameter(
                "key",
                "One group: a JSON value, a list in the order of GROUP BY, or an object with a field for each column.",
                {"type": "string"},
            ),
        ]
    },
    response_class=Response,
)
async def lookup(name: str, request: Request) -> Response:
    serving, bodies = serving_of(request), request.app.state.lookup_bodies
    arrow = wants_arrow(request)
    at, key = _at(request.query_params.get("at")), _key(request.query_params.get("key"))
    return await serving.work(_lookup, serving, name, at, key, arrow, bodies)


def _lookup(serving: Serving, name: str, at: int | None, key: Any, arrow: bool, bodies: LookupBodies) -> Response:
    found = serving.backend.lookup(name, at, key)
    serving.limits.check_rows(found.table.num_rows, "ask for one group with key=")
    if arrow:
        return table_response(arrow_bytes(found.table), True, lookup_headers(found))
    return table_response(bodies.body(found), False)


def _at(text: str | None) -> int | None:
    return None if text is None else instant_of(text, "at")


def instant_of(value: Any, name: str) -> int:
    """The instant in microseconds, from a string or a number; Problem 400 if it is not valid."""
    if isinstance(value, str):
        stripped = value.strip()
        if stripped.lstrip("-").isascii() and stripped.lstrip("-").isdigit() and len(stripped) < 25:
            value = int(stripped)
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise Problem(
            400, f"'{name}' is not a valid instant", hint="write 2026-01-31T12:00:00Z, or microseconds since 1970"
        )
    instant = instant_us(value)
    if not INSTANT_MIN <= instant <= INSTANT_MAX:
        raise Problem(400, f"'{name}' lies outside the years 1 to 9999")
    return instant


def _key(text: str | None) -> Any:
    """The key as a JSON value; a text that is not JSON is the key itself, so `key=ALFA` needs no quotes."""
    if text is None:
        return None
    try:
        key = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    if isinstance(key, list):
        return tuple(key)
    return key
