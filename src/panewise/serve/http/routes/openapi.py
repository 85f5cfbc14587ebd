"""Parts of the OpenAPI document: the responses of routes, and the schemas of bodies.

For speed, and so that all errors have one form, bodies are read and written without FastAPI's models. Their schemas are
therefore written here; tests send requests that this document allows (tests/serve/http/test_openapi.py).
"""

from __future__ import annotations

from typing import Any

from panewise import __version__

TITLE = "panewise"
DESCRIPTION = """Many sliding-window queries over streams, answered together.

**Access.** Send `Authorization: Bearer TOKEN`. A token has the scope `read` or `write`; `write` includes `read`. A
server that was started without tokens listens on this machine only and needs none.

**Answers** are JSON, or Arrow IPC if `Accept` has `application/vnd.apache.arrow.stream`. In JSON, instants are strings
in UTC with microseconds, `2026-01-31T12:00:00.000000Z`; DECIMAL values, `NaN` and the infinities are strings too.

**Errors** have one form: `{"error": {"type", "message", "hint", "at", "text"}}`. A refused request has changed nothing.
"""
TAGS = [
    {"name": "statements", "description": "CQL: create streams and queries, ask one-time queries."},
    {"name": "queries", "description": "Registered queries, their answers and their results."},
    {"name": "streams", "description": "Rows and punctuations for streams."},
    {"name": "operations", "description": "Health, figures, and what queries share."},
]
VERSION = __version__

_ERROR = {"$ref": "#/components/schemas/Error"}
_WORDS = {
    400: "The statement, the data or a parameter is wrong.",
    401: "The token is missing or not known.",
    403: "The token may only read, or the request comes from a foreign web page.",
    404: "Nothing has that name.",
    408: "The body was not received in time.",
    409: "It already exists, is still in use, or has failed.",
    410: "It is not held any more, or not yet.",
    413: "The body, the statement or the answer is too large.",
    415: "The body has another media type.",
    429: "Too many requests per second, or another limit is reached. `Retry-After` says when to retry.",
    503: "Not ready, or a queue is full. `Retry-After` says when to retry.",
}


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The error responses of a route; every route has 400, 401, 403, 429 and 503."""
    return {
        status: {"description": _WORDS[status], "content": {"application/json": {"schema": _ERROR}}}
        for status in sorted({400, 401, 403, 429, 503, *statuses})
    }


def answer(
    schema: dict[str, Any] | str, description: str, example: Any = None, *, arrow: bool = False
) -> dict[str, Any]:
    """A successful response of a route; `schema` may be the name of one in SCHEMAS."""
    shape = {"$ref": f"#/components/schemas/{schema}"} if isinstance(schema, str) else schema
    content: dict[str, Any] = {"application/json": {"schema": shape}}
    if example is not None:
        content["application/json"]["example"] = example
    if arrow:
        content["application/vnd.apache.arrow.stream"] = {"schema": {"type": "string", "format": "binary"}}
    return {"description": description, "content": content}


def body(schema: str, example: Any) -> dict[str, Any]:
    """A JSON body of a request."""
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}, "example": example}}
    return {"requestBody": {"required": True, "content": content}}


def parameter(name: str, description: str, schema: dict[str, Any], place: str = "query") -> dict[str, Any]:
    """The description of a parameter, which the handler reads itself."""
    return {"name": name, "in": place, "required": place == "path", "description": description, "schema": schema}


_TEXT = {"type": "string"}
_COLUMNS = {
    "type": "array",
    "items": {"type": "object", "properties": {"name": _TEXT, "type": _TEXT}, "required": ["name", "type"]},
}
_ROWS = {"type": "array", "items": {"type": "array", "items": {}}, "description": "Cells in the order of the columns."}
_NUMBER = {"type": "integer", "minimum": 0}
_PLACE = {
    "type": "object",
    "properties": {"line": _NUMBER, "column": _NUMBER, "length": _NUMBER},
    "required": ["line", "column", "length"],
}


def _object(required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required.split()}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


_DEFINITION = {
    "name": _TEXT,
    "kind": {"type": "string", "enum": ["stream", "table", "query", "sink", "archive"]},
    "statement": _TEXT | {"description": "The statement that creates it."},
    "columns": _COLUMNS,
}
_QUERY = _DEFINITION | {
    "status": {"type": "string", "enum": ["RUNNING", "SUSPENDED", "FAILED"]},
    "reason": _TEXT | {"description": "Why it failed."},
    "inputs": {"type": "array", "items": _TEXT},
    "answers": {
        "type": "string",
        "enum": ["", "reports", "changes", "lookup"],
        "description": "The form of results: whole reports, changes, or none (only lookups).",
    },
}
SCHEMAS: dict[str, Any] = {
    "Error": _object(
        "error",
        error=_object(
            "type message hint at text",
            type=_TEXT,
            message=_TEXT,
            hint=_or_null(_TEXT),
            at=_or_null(_PLACE | {"description": "The position in the statement, counted from 1."}),
            text=_TEXT | {"description": "The message for people, with the position underlined."},
            executed=_NUMBER | {"description": "The number of statements executed before the wrong one."},
        ),
    ),
    "Statements": _object("text", text=_TEXT | {"description": "One or more statements of CQL."})
    | {"additionalProperties": False},
    "NewQuery": _object(
        "name select",
        name=_TEXT | {"minLength": 1},
        select=_TEXT | {"description": "A SELECT over windows."},
        options={"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
    )
    | {"additionalProperties": False},
    "Advance": _object(
        "until",
        until={"anyOf": [_TEXT, {"type": "integer"}], "description": "An instant: a string in UTC, or microseconds."},
    )
    | {"additionalProperties": False},
    "Table": _object("columns rows", columns=_COLUMNS, rows=_ROWS),
    "Lookup": _object(
        "columns rows watermark age_seconds",
        columns=_COLUMNS,
        rows=_ROWS,
        watermark=_or_null(_TEXT | {"description": "The query's watermark at the time of the answer."}),
        age_seconds={"type": "number", "minimum": 0, "description": "The age of the answer."},
    ),
    "Definition": _object("name kind statement columns", **_DEFINITION),
    "Query": _object("name kind statement columns status reason inputs answers", **_QUERY, stats={"type": "object"}),
    "Catalog": _object(
        "streams tables queries sinks archives",
        **{
            kind: {"type": "array", "items": {"$ref": f"#/components/schemas/{shape}"}}
            for kind, shape in (
                ("streams", "Definition"),
                ("tables", "Definition"),
                ("queries", "Query"),
                ("sinks", "Definition"),
                ("archives", "Definition"),
            )
        },
    ),
    "Explanation": _object("text plan", text=_TEXT, plan={"type": "object"}),
    "Pushed": _object(
        "rows repeated",
        rows=_NUMBER,
        repeated={"type": "boolean", "description": "The number was taken before."},
        late=_object("rows remark", rows=_NUMBER, remark=_TEXT),
        bad=_object("rows remark", rows=_NUMBER, remark=_TEXT),
    ),
    "Sequence": _object("sequence", sequence=_NUMBER),
    "Status": _object("status", status=_TEXT),
    "Object": {"type": "object"},
}


def completed(document: dict[str, Any]) -> dict[str, Any]:
    """Adds the schemas and the authentication scheme to FastAPI's document, and returns it."""
    components = document.setdefault("components", {})
    components.setdefault("schemas", {}).update(SCHEMAS)
    components["schemas"].pop("HTTPValidationError", None)
    components["schemas"].pop("ValidationError", None)
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, methods in document["paths"].items():
        for operation in methods.values():
            operation["responses"].pop("422", None)
            if path not in ("/healthz", "/readyz"):
                operation["security"] = [{"token": []}]
    return document
