"""Answers lookups of published answers, by far the most frequent request, without FastAPI.

It handles `GET /v1/queries/{name}/lookup` without parameters, as JSON, if the backend has the answer at once. Routing
and a request object would cost several times as much as the answer; here it costs a few dictionary accesses and, for a
new answer, its JSON. Everything else goes to the application, whose lookup route (query_routes.py) gives the same
answers.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from panewise.serve.http.service.backend import Backend
from panewise.serve.http.service.bodies import ARROW_STREAM
from panewise.serve.http.service.responses import LookupBodies

AT_ONCE_CELLS = 5_000  # the event loop writes the JSON of up to this many cells itself: less than a millisecond
ROUTE = "/v1/queries/{name}/lookup"
ROUTE_KEY = "panewise.route"
_BEFORE, _AFTER = "/v1/queries/", "/lookup"
_ARROW = ARROW_STREAM.encode()


class QuickLookups:
    """See the module."""

    def __init__(self, app: ASGIApp, backend: Backend, bodies: LookupBodies) -> None:
        self._app = app
        self._backend = backend
        self._bodies = bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = self._body(scope) if scope["type"] == "http" and scope["method"] == "GET" else None
        if body is None:
            await self._app(scope, receive, send)
            return
        scope[ROUTE_KEY] = ROUTE
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _body(self, scope: Scope) -> bytes | None:
        path: str = scope["path"]
        if scope["query_string"] or not (path.startswith(_BEFORE) and path.endswith(_AFTER)):
            return None
        name = path[len(_BEFORE) : -len(_AFTER)]
        if "/" in name or any(key == b"accept" and _ARROW in value for key, value in scope["headers"]):
            return None
        found = self._backend.lookup_at_once(name)
        if found is None or found.table.num_rows * found.table.num_columns > AT_ONCE_CELLS:
            return None
        return self._bodies.body(found)
