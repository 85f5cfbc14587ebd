"""Turns a server's refusal into the exception that the engine would have raised.

The body of a refusal is `{"error": {"type", "message", "hint", "at": {"line", "column", "length"}, "text"}}`. If the
type names a class of `panewise.errors`, the exception has that class, the message, the hint and, if the statement is
known, the position in it, so that it prints underlined as in the engine. Everything else becomes a ServerError.
"""

from __future__ import annotations

import json
from typing import Any

import panewise.errors
from panewise.errors import NotHeldError, PanewiseError, QueryError, ServerError, Span

TOKEN_HINT = "give a token of the server with the right scope: connect(url, token)"


def problem_of(status: int, body: bytes, statement: str | None, asked: str) -> PanewiseError:
    """The exception for an answer; `asked` names the request, for answers that are not a panewise server's."""
    try:
        told = json.loads(body)["error"]
        kind, message = str(told["type"]), str(told["message"])
    except (ValueError, KeyError, TypeError):
        return _strange(status, body, asked)
    hint = told.get("hint")
    named = getattr(panewise.errors, kind, None)
    if not (isinstance(named, type) and issubclass(named, PanewiseError)) or issubclass(named, ServerError):
        if status == 410:
            return NotHeldError(message, hint=hint)
        if hint is None and status in (401, 403):
            hint = TOKEN_HINT
        return ServerError(message, hint=hint, status=status)
    if not issubclass(named, QueryError):
        return named(message, hint=hint)
    return _located(named, message, hint, told, statement)


def _strange(status: int, body: bytes, asked: str) -> ServerError:
    """The exception for an answer of a proxy, or of another program on that port."""
    if status in (401, 403):
        return ServerError(f"{asked} was refused ({status})", hint=TOKEN_HINT, status=status)
    shown = " ".join(body[:200].decode("utf-8", "replace").split())
    return ServerError(
        f"{asked} was answered with {status}" + (f": {shown}" if shown else ""),
        hint="is this the address of a panewise server?" if 400 <= status < 500 else None,
        status=status,
    )


def _located(
    named: type[QueryError], message: str, hint: str | None, told: dict[str, Any], statement: str | None
) -> QueryError:
    """The error with its position if it then prints as on the server; otherwise with the server's text as a note."""
    place, rendered = told.get("at"), told.get("text")
    if place is not None and statement is not None:
        lines = statement.split("\n")
        start = sum(len(line) + 1 for line in lines[: place["line"] - 1]) + place["column"] - 1
        found = named(message, text=statement, span=Span(start, start + place["length"]), hint=hint)
        if rendered is None or str(found) == rendered:
            return found
    bare = named(message, hint=hint)
    if rendered is not None and rendered != str(bare):
        bare.add_note(rendered)
    return bare
