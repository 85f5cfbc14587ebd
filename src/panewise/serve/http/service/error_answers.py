"""Turns errors into answers: one form of JSON for all, and a status.

    {"error": {"type": "BindError", "message": "...", "hint": "...", "at": {"line": 1, "column": 8, "length": 3},
               "text": "the message with the place underlined"}}

If the error is of a class of `panewise.errors`, `type` is its name, so that a client raises the same. 4xx is a mistake
of the caller, 503 means that a later retry may help, and 500 is never intended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from panewise.errors import (
    CatalogError,
    DurabilityError,
    EngineBroken,
    NotHeldError,
    OverloadError,
    PanewiseError,
    QueryError,
    QueryFailed,
    ReadLimitError,
    SnapshotError,
)

RETRY_AFTER_S = 1
NAMES = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    408: "RequestTimeout",
    409: "Conflict",
    410: "Gone",
    413: "TooLarge",
    415: "UnsupportedMediaType",
    429: "TooManyRequests",
    500: "InternalError",
    503: "Unavailable",
}


class Problem(HTTPException):
    """A refusal by the server itself. It is an HTTPException, so that FastAPI's handlers pass it on."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        hint: str | None = None,
        type: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message, dict(headers) if headers else None)
        self.message = message
        self.hint = hint
        self.type = type or NAMES.get(status, "Error")


def status_of(error: PanewiseError) -> int:
    """The HTTP status for an error of the engine."""
    match error:
        case CatalogError():
            return 404 if error.missing else 409
        case QueryFailed():
            return 409
        case NotHeldError():
            return 410
        case ReadLimitError():
            return 413
        case OverloadError() | DurabilityError() | EngineBroken() | SnapshotError():
            return 503
    return 400


def body_of(error: PanewiseError) -> dict[str, Any]:
    """The content of "error" for an error of the engine."""
    at = None
    if isinstance(error, QueryError) and error.span is not None and error.line is not None:
        at = {"line": error.line, "column": error.column, "length": max(1, error.span.end - error.span.start)}
    named = {"type": type(error).__name__, "message": error.message, "hint": error.hint, "at": at, "text": str(error)}
    executed = getattr(error, "executed", None)
    return named if not executed else {**named, "executed": executed}


def response_of(status: int, error: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    """The response for an error."""
    body = orjson.dumps({"error": error}, option=orjson.OPT_NON_STR_KEYS, default=str)
    return Response(body, status, headers=dict(headers or {}), media_type="application/json")


def problem_body(problem: Problem) -> dict[str, Any]:
    """The content of "error" for a refusal by the server."""
    text = problem.message if problem.hint is None else f"{problem.message}\nhint: {problem.hint}"
    return {"type": problem.type, "message": problem.message, "hint": problem.hint, "at": None, "text": text}


def panewise_error(_: Request, error: Exception) -> Response:
    """FastAPI's handler for errors of the engine."""
    assert isinstance(error, PanewiseError)
    status = status_of(error)
    headers = {"Retry-After": str(RETRY_AFTER_S)} if status == 503 else None
    return response_of(status, body_of(error), headers)


def http_error(request: Request, error: Exception) -> Response:
    """FastAPI's handler for refusals by the server or by the framework (no such path, no such method)."""
    assert isinstance(error, HTTPException)
    if not isinstance(error, Problem):
        message = {
            404: f"there is nothing at '{request.url.path}'",
            405: f"'{request.url.path}' does not take {request.method}",
        }.get(error.status_code, str(error.detail))
        hint = "GET /v1/openapi.json lists all paths" if error.status_code in (404, 405) else None
        error = Problem(error.status_code, message, hint=hint, headers=error.headers)
    return response_of(error.status_code, problem_body(error), error.headers)


def invalid_request(_: Request, error: Exception) -> Response:
    """FastAPI's handler for parameters that do not fit their declarations."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"][1:]) or "the request"
    problem = Problem(400, f"{first['loc'][0]} parameter '{place}': {first['msg']}")
    return response_of(400, problem_body(problem))
