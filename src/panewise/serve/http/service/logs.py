"""The log on standard error: one line for each request and each event of the server, as text or as JSON.

A request's line has the method, the path, the status, the milliseconds and the name of the token. Parameters are left
out, because a token may be among them; neither tokens nor rows are ever logged.
"""

from __future__ import annotations

import logging
import sys
import traceback
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import orjson

LOGGER = logging.getLogger("panewise.serve")


class JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _moment(record.created),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["trace"] = "".join(traceback.format_exception(*record.exc_info))
        return orjson.dumps(line, default=str).decode()


class TextLines(logging.Formatter):
    """A record as one line of text."""

    def format(self, record: logging.LogRecord) -> str:
        fields = getattr(record, "fields", {})
        told = "".join(f" {name}={_quoted(value)}" for name, value in fields.items())
        line = f"{_moment(record.created)} {record.levelname.lower():7} {record.getMessage()}{told}"
        return line + "\n" + "".join(traceback.format_exception(*record.exc_info)).rstrip() if record.exc_info else line


def _moment(created: float) -> str:
    return f"{_second(int(created))}.{int(created % 1 * 1e3):03}Z"


@lru_cache(maxsize=4)
def _second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _quoted(value: object) -> str:
    """A value for a line of text; quoted if needed, so that a caller's text cannot begin a new line."""
    text = str(value)
    return text if text.isprintable() and " " not in text else orjson.dumps(text).decode()


def configure(form: str) -> None:
    """Sends our lines and uvicorn's warnings to standard error, in the form 'text' or 'json'."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    for name in ("panewise.serve", "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = ([handler] if name != "uvicorn.error" else []), name == "uvicorn.error"
        logger.setLevel(logging.INFO if name == "panewise.serve" else logging.WARNING)


def event(message: str, **fields: Any) -> None:
    """Logs an event of the server."""
    LOGGER.info(message, extra={"fields": fields})


def request(method: str, path: str, status: int, milliseconds: float, token: str) -> None:
    """Logs a request that has ended."""
    if LOGGER.isEnabledFor(logging.INFO):
        shown = {"method": method, "path": path, "status": status, "ms": round(milliseconds, 2), "token": token}
        LOGGER.info("request", extra={"fields": shown})


def remark(warning: Warning) -> None:
    """Logs a warning about the data, such as late rows."""
    LOGGER.warning(type(warning).__name__, extra={"fields": {"remark": str(warning)}})


def mistake(path: str) -> None:
    """Logs the exception that is being handled, which is an internal error, with its traceback."""
    LOGGER.error("internal error", extra={"fields": {"path": path}}, exc_info=True)
