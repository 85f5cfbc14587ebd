"""The gate in front of all routes: checks each request, and counts and logs it when it ends.

It is a plain ASGI application, because FastAPI's own middleware costs several times as much per request. It checks, in
this order, the host and the origin (without tokens), the token, the rate, the scope, and the length of the body. GET
and HEAD need the scope read, everything else needs write, except POST /v1/statements, whose handler decides by the
statements. So a new route is protected unless it is listed here.

A header that is checked here may occur only once in a request: of two, a proxy in front might have checked the other.
Answers forbid caching and guessing of their type, unless they set these headers themselves, as the dashboard's files
do.
"""

from __future__ import annotations

import re
from time import perf_counter
from typing import Any
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from panewise.serve.http.gate.access import NOBODY, Access, Caller, check_origin, check_scope
from panewise.serve.http.gate.limits import Limits
from panewise.serve.http.gate.quick_lookups import ROUTE_KEY
from panewise.serve.http.service import logs
from panewise.serve.http.service.error_answers import Problem, problem_body, response_of
from panewise.serve.http.service.metrics import RequestCounts

OPEN_PATHS = frozenset({"/", "/healthz", "/readyz", "/v1/openapi.json", "/favicon.ico"})
OPEN_PREFIX = "/dashboard/"
# This path needs no token, but answers in more detail with one. A token that is sent is checked.
MORE_WITH_TOKEN = "/readyz"
JUDGED_BY_HANDLER = frozenset({"/v1/statements"})
CALLER = "panewise.caller"
NO_SNIFFING = b"x-content-type-options", b"nosniff"
NO_STORE = b"cache-control", b"no-store"
_ONCE = frozenset({b"authorization", b"host", b"origin", b"content-length"})
# The paths of live_routes.py: one query by WebSocket or GET, several queries by WebSocket.
_LIVE = re.compile(r"/v1/queries/[^/]+/live")
_LIVE_SOCKETS = re.compile(r"/v1/(queries/[^/]+/)?live")


def caller_of(scope: Scope) -> Caller:
    """The caller of a request; for handlers behind the guard."""
    caller: Caller = scope[CALLER]
    return caller


class Guard:
    """See the module."""

    def __init__(self, app: ASGIApp, access: Access, limits: Limits, counts: RequestCounts) -> None:
        self._app = app
        self._access = access
        self._limits = limits
        self._counts = counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        started, told = perf_counter(), _Told(send)
        scope[CALLER] = NOBODY
        try:
            self._admit(scope)
            await self._app(scope, receive, told)
        except Problem as problem:
            if not told.status:
                await _refuse(problem, scope, receive, told)
        except Exception:  # noqa: BLE001 - an internal error: logged in full, answered without details
            logs.mistake(scope["path"])
            if not told.status:
                await _refuse(Problem(500, "internal error; see the server's log"), scope, receive, told)
        finally:
            seconds = perf_counter() - started
            method = scope.get("method", "WEBSOCKET")
            self._counts.ended(method, _route(scope), told.status, seconds)
            logs.request(method, scope["path"], told.status, seconds * 1e3, caller_of(scope).name)

    def _admit(self, scope: Scope) -> None:
        path: str = scope["path"]
        address = (scope.get("client") or ("unknown",))[0]
        try:
            told = _told_once(scope)
        except Problem:
            self._limits.take_stranger(address)
            raise
        authorization = told.get(b"authorization")
        if self._access.open:
            check_origin(told.get(b"host"), told.get(b"origin"))
        is_open = path in OPEN_PATHS or path.startswith(OPEN_PREFIX)
        if is_open and (path != MORE_WITH_TOKEN or authorization is None):
            self._limits.take_request(address)
            return
        try:
            in_address = None if self._access.open else _token_in_address(scope)
            if authorization is not None and in_address is not None:
                raise Problem(400, "the request has a token in its header and one in its address", hint="send one")
            caller = self._access.caller(authorization, in_address, address)
        except Problem:
            self._limits.take_stranger(address)
            raise
        scope[CALLER] = caller
        self._limits.take_request(caller.name)
        reads = scope["type"] == "websocket" or scope["method"] in ("GET", "HEAD") or path in JUDGED_BY_HANDLER
        check_scope(caller, not reads)
        self._limits.check_length(told.get(b"content-length"))


def _told_once(scope: Scope) -> dict[bytes, bytes]:
    """The headers that the guard checks; Problem 400 if one of them occurs twice."""
    found: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in _ONCE:
            if name in found:
                raise Problem(400, f"the request has the header '{name.decode().title()}' twice", hint="send one")
            found[name] = value
    return found


def _token_in_address(scope: Scope) -> str | None:
    """The token in the address of a live connection, or None; Problem 400 if there are two."""
    if b"token=" not in scope["query_string"] or not _is_live(scope):
        return None
    shown = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
    if len(shown) > 1:
        raise Problem(400, "the address has the parameter 'token' twice", hint="send one")
    return shown[0] if shown else None


def _is_live(scope: Scope) -> bool:
    if scope["type"] == "websocket":
        return _LIVE_SOCKETS.fullmatch(scope["path"]) is not None
    return scope["method"] == "GET" and _LIVE.fullmatch(scope["path"]) is not None


def _route(scope: Scope) -> str:
    """The path as the route declares it, so that names in paths do not create more and more metrics."""
    return scope.get(ROUTE_KEY) or getattr(scope.get("route"), "path", None) or "other"


async def _refuse(problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
    response = response_of(problem.status_code, problem_body(problem), problem.headers)
    if scope["type"] == "http":
        await response(scope, receive, send)
    elif "websocket.http.response" in scope.get("extensions", {}):
        await send(
            {"type": "websocket.http.response.start", "status": response.status_code, "headers": response.raw_headers}
        )
        await send({"type": "websocket.http.response.body", "body": response.body})
    else:
        await send({"type": "websocket.close", "code": 1008})


class _Told:
    """Forwards messages, remembers the status, and adds the headers against caching and guessing of types."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    async def __call__(self, message: Message) -> None:
        kind: Any = message["type"]
        if kind in ("http.response.start", "websocket.http.response.start"):
            self.status = message["status"]
            said = {name for name, _ in message["headers"]}
            message["headers"] = [
                *message["headers"],
                *(header for header in (NO_SNIFFING, NO_STORE) if header[0] not in said),
            ]
        elif kind == "websocket.accept":
            self.status = 101
        await self._send(message)
