"""One line for each request and for what happens to the server, as text or as JSON, on standard error.

A line has the method, the path without its parameters, the status, the milliseconds and the name of the token: never a
token, which may stand among the parameters, and never a row.
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
    """The same for people."""

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
    """What a caller chose cannot begin a line of its own."""
    text = str(value)
    return text if text.isprintable() and " " not in text else orjson.dumps(text).decode()


def configure(form: str) -> None:
    """Lines go to standard error in the form 'text' or 'json'; uvicorn's own too, but for its line a request."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    for name in ("panewise.serve", "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = ([handler] if name != "uvicorn.error" else []), name == "uvicorn.error"
        logger.setLevel(logging.INFO if name == "panewise.serve" else logging.WARNING)


def event(message: str, **fields: Any) -> None:
    """Something happened to the server."""
    LOGGER.info(message, extra={"fields": fields})


def request(method: str, path: str, status: int, milliseconds: float, token: str) -> None:
    """A request has ended."""
    if LOGGER.isEnabledFor(logging.INFO):
        shown = {"method": method, "path": path, "status": status, "ms": round(milliseconds, 2), "token": token}
        LOGGER.info("request", extra={"fields": shown})


def remark(warning: Warning) -> None:
    """Something that the owner of the data should know."""
    LOGGER.warning(type(warning).__name__, extra={"fields": {"remark": str(warning)}})


def mistake(path: str) -> None:
    """An exception that nobody expected is being handled."""
    LOGGER.error("a mistake of the server", extra={"fields": {"path": path}}, exc_info=True)
