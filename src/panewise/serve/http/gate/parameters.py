"""Checks the parameters in the address of a request: only those that the route declares, each once.

An unknown parameter is refused, because the request would mean something else without it. Addresses outside /v1/ are
not checked: monitors and browsers add parameters of their own.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from starlette.requests import HTTPConnection

from panewise.errors import did_you_mean
from panewise.serve.http.service.error_answers import Problem

TOKEN = "token"  # read by the guard, on live connections
LIVE = ("start", "after_window", "series", TOKEN)


async def declared_parameters(connection: HTTPConnection) -> None:
    """A FastAPI dependency: refuses parameters that the route does not declare in the OpenAPI document.

    WebSocket routes are not in that document; they call `check_parameters` themselves.
    """
    route = connection.scope["route"]
    if connection.scope["type"] != "http" or not route.path.startswith("/v1/"):
        return
    declared: list[dict[str, Any]] = (route.openapi_extra or {}).get("parameters", [])
    known = [parameter["name"] for parameter in declared if parameter["in"] == "query"]
    if route.path.endswith("/live"):
        known.append(TOKEN)
    check_parameters(connection, known)


def check_parameters(connection: HTTPConnection, known: Collection[str]) -> None:
    """Problem 400 for a parameter that is not known or occurs twice."""
    seen: set[str] = set()
    for name, _ in connection.query_params.multi_items():
        if name not in known:
            hint = did_you_mean(name, known) if known else "this address takes none"
            if name == TOKEN:
                hint = (
                    "send the header 'Authorization: Bearer TOKEN'; only live connections take a token in the address"
                )
            raise Problem(400, f"there is no parameter '{name[:100]}'", hint=hint)
        if name in seen:
            raise Problem(400, f"the address has the parameter '{name}' twice", hint="send one")
        seen.add(name)
