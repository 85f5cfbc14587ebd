"""Encodes tables for callers: as JSON, or as Arrow IPC if the request asks for it."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import orjson
import pyarrow as pa
from fastapi import Request, Response

from panewise.serve.http.results.row_json import json_columns, json_rows
from panewise.serve.http.service.backend import Definition, Lookup
from panewise.serve.http.service.bodies import ARROW_STREAM, JSON
from panewise.temporal import EPOCH, INSTANT_MAX, INSTANT_MIN

BODIES_KEPT = 512


def json_response(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A response with plain data as JSON."""
    body = orjson.dumps(data, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY, default=str)
    return Response(body, status, dict(headers or {}), JSON)


def wants_arrow(request: Request) -> bool:
    """Whether the caller asks for Arrow IPC."""
    return ARROW_STREAM in request.headers.get("accept", "")


def arrow_bytes(table: pa.Table) -> bytes:
    """A table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def table_body(table: pa.Table | None, arrow: bool) -> bytes:
    """The body for a table; None becomes a table without columns. May take long."""
    table = pa.table({}) if table is None else table
    if arrow:
        return arrow_bytes(table)
    return b'{"columns":' + orjson.dumps(json_columns(table.schema)) + b',"rows":' + json_rows(table) + b"}"


def table_response(body: bytes, arrow: bool, headers: Mapping[str, str] | None = None) -> Response:
    return Response(body, 200, dict(headers or {}), ARROW_STREAM if arrow else JSON)


class LookupBodies:
    """Caches the JSON of answers, so that an unchanged answer is not encoded again. Safe for threads."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, tuple[weakref.ref[pa.Table], int | None, bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def body(self, lookup: Lookup) -> bytes:
        key, known = id(lookup.table), self._known.get(id(lookup.table))
        # Compare the object too: after a table is freed, another one may get its `id`.
        if known is not None and known[0]() is lookup.table and known[1] == lookup.watermark_us:
            begun = known[2]
        else:
            begun = self._begun(lookup)
            with self._lock:
                self._known[key] = weakref.ref(lookup.table), lookup.watermark_us, begun
                while len(self._known) > BODIES_KEPT:
                    self._known.popitem(last=False)
        return begun + (b"0.0}" if not lookup.age_s else orjson.dumps(round(lookup.age_s, 3)) + b"}")

    def _begun(self, lookup: Lookup) -> bytes:
        """The JSON up to the age, which changes with each answer."""
        table = lookup.table
        mark = b"null" if lookup.watermark_us is None else orjson.dumps(instant_text(lookup.watermark_us))
        columns = orjson.dumps(json_columns(table.schema))
        return b'{"columns":' + columns + b',"rows":' + json_rows(table) + b',"watermark":' + mark + b',"age_seconds":'


def lookup_headers(lookup: Lookup) -> dict[str, str]:
    """The watermark and age of an answer as headers, because an Arrow body has no place for them."""
    mark = {} if lookup.watermark_us is None else {"Panewise-Watermark": instant_text(lookup.watermark_us)}
    return {**mark, "Panewise-Age-Seconds": f"{lookup.age_s:.3f}"}


def instant_text(instant: int) -> str:
    """An instant in the form that rows have.

    >>> instant_text(1_500_000)
    '1970-01-01T00:00:01.500000Z'
    """
    moment = EPOCH + timedelta(microseconds=min(max(instant, INSTANT_MIN), INSTANT_MAX))
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def described(definition: Definition) -> dict[str, Any]:
    """A definition as JSON."""
    columns = [{"name": name, "type": type} for name, type in definition.columns]
    shown: dict[str, Any] = {
        "name": definition.name, "kind": definition.kind, "statement": definition.statement, "columns": columns,
    }  # fmt: skip
    if definition.kind == "query":
        shown |= {"status": definition.status, "reason": definition.reason, "inputs": list(definition.inputs)}
        shown["answers"] = definition.answers
    elif definition.kind == "stream":
        shown |= {"timestamp": definition.timestamp, "pushable": definition.pushable}
    elif definition.inputs:
        shown |= {"inputs": list(definition.inputs)}
    return shown
