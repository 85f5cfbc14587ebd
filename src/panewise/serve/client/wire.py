"""Encodes and decodes data: Arrow IPC streams both ways, NDJSON for rows given as dicts, JSON rows of live results.

Rows given as dicts are sent as NDJSON and not as Arrow, because the types of the stream, which the server knows, decide
what a value means: a number in a TIMESTAMP column counts microseconds. Also, a bad value then affects its own row only.
Each function costs one pass over the data.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from panewise.connectors.python_values import table_of_frame, unfit
from panewise.errors import DataError, ServerError
from panewise.schema import TYPE_NAMES, DataType

ARROW = "application/vnd.apache.arrow.stream"
NDJSON = "application/x-ndjson"
JSON = "application/json"

_TYPE = re.compile(r"([A-Z]+)(?:\((\d+), ?(\d+)\))?")


def packed(stream: str, data: Any) -> tuple[bytes, str]:
    """The body of a push request for this data, and its media type."""
    if isinstance(data, dict):
        data = [data]
    if isinstance(data, list):
        return _packed_rows(stream, data), NDJSON
    try:
        table = _table_of(data)
    except unfit() as problem:
        raise _refused(stream, data, f": {problem}") from None
    if table is None:
        raise _refused(stream, data)
    table = _portable(table)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    body: bytes = sink.getvalue().to_pybytes()
    return body, ARROW


def _refused(stream: str, data: Any, why: str = "") -> DataError:
    return DataError(
        f"stream '{stream}' cannot take a {type(data).__name__}{why}",
        hint="push an Arrow batch or table, a pandas or polars frame, a dict or a list of dicts",
    )


def _table_of(data: Any) -> pa.Table | None:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if hasattr(data, "to_arrow"):  # polars and other Arrow libraries
        return _table_of(data.to_arrow())
    if type(data).__module__.startswith("pandas") and hasattr(data, "columns"):
        return table_of_frame(data)
    return pa.table(data) if hasattr(data, "__arrow_c_stream__") else None


def _portable(table: pa.Table) -> pa.Table:
    """The table with ordinary strings instead of columns of Arrow's null type and of string views."""
    for index, field in enumerate(table.schema):
        if pa.types.is_null(field.type) or pa.types.is_string_view(field.type):
            table = table.set_column(index, field.name, table.column(index).cast(pa.string()))
    return table


def _packed_rows(stream: str, rows: list[Any]) -> bytes:
    lines = []
    for position, row in enumerate(rows):
        if not isinstance(row, dict):
            raise DataError(f"row {position} pushed to '{stream}' is a {type(row).__name__}, not a dict")
        lines.append(json.dumps({str(name): json_value(value) for name, value in row.items()}))
    return ("\n".join(lines) + "\n").encode()


def json_value(value: Any) -> Any:
    """A value for JSON: instants, dates, decimals, NaN and infinities become strings."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, datetime.date | datetime.datetime):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if hasattr(value, "item"):  # a scalar of NumPy
        return json_value(value.item())
    return str(value)  # the server refuses an unsuitable value and shows it in its message


def json_key(key: Any) -> Any:
    """The key of a group for JSON, in each form that the engine takes."""
    if isinstance(key, dict):
        return {name: json_value(value) for name, value in key.items()}
    if isinstance(key, list | tuple):
        return [json_value(value) for value in key]
    return json_value(key)


def unpacked(body: bytes) -> pa.Table:
    """The table in the body of an answer, with the metadata of its schema."""
    try:
        with pa.ipc.open_stream(body) as reader:
            return reader.read_all()
    except pa.ArrowInvalid as problem:
        raise ServerError(f"the server sent a table that cannot be read: {problem}") from None


def schema_of(columns: Sequence[dict[str, str]]) -> pa.Schema:
    """The Arrow schema of columns that are given by names and CQL types.

    >>> schema_of([{"name": "price", "type": "DECIMAL(10, 2)"}])
    price: decimal128(10, 2)
    """
    fields = []
    for column in columns:
        match = _TYPE.fullmatch(column["type"])
        if match is None or match[1] not in TYPE_NAMES:
            raise ServerError(f"the server has a type that this client does not know: {column['type']}")
        type_ = DataType(match[1], int(match[2] or 0), int(match[3] or 0))
        fields.append((column["name"], type_.to_arrow()))
    return pa.schema(fields)


def batch_of(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows of JSON cells as an Arrow batch."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [_array(list(cells), field.type) for cells, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(cells: list[Any], type_: pa.DataType) -> pa.Array:
    types = pa.types
    if types.is_timestamp(type_) or types.is_date(type_) or types.is_decimal(type_):
        return pa.array(cells, pa.string()).cast(type_)
    if types.is_floating(type_):
        # `float` accepts the strings "NaN", "Infinity" and "-Infinity".
        return pa.array([float(cell) if isinstance(cell, str) else cell for cell in cells], type_)
    return pa.array(cells, type_)
