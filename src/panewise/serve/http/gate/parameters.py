"""The parameters in the address of a request: those that the route declares, each once.

A parameter that nobody reads is a mistake of the caller, whose request would mean something else without it. So it is
refused. Addresses that do not begin with /v1/ are not looked at: monitors and browsers add their own.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from starlette.requests import HTTPConnection

from panewise.errors import did_you_mean
from panewise.serve.http.service.error_answers import Problem

TOKEN = "token"  # The guard reads it, on live connections.
LIVE = ("start", "after_window", "series", TOKEN)


async def declared_parameters(connection: HTTPConnection) -> None:
    """A dependency of routes: refuses parameters that the route's part of the OpenAPI document does not have.

    A WebSocket has no part in that document, and looks at its parameters itself.
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
    """400 for a parameter that is not known, or stands there twice."""
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
            raise Problem(400, f"the parameter '{name}' stands twice in the address", hint="send one")
        seen.add(name)
