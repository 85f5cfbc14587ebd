"""Bodies of requests as data: JSON, newline-delimited JSON and Arrow IPC, none of which is trusted.

What does not parse is refused with what was wrong; nothing has been changed by then. Of Arrow IPC everything is
checked before it is used, because a wrong offset in a buffer would otherwise be read as an address: the types, the
sizes that compressed buffers claim before they are unpacked (`arrow_message_sizes`), the lengths behind dictionaries,
and last the content of all buffers. Cost: one pass over the bytes.
"""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from panewise.errors import DataError
from panewise.schema import from_arrow
from panewise.serve.http.arrow_message_sizes import unpacked_bytes
from panewise.serve.http.errors import Problem

JSON = "application/json"
NDJSON = "application/x-ndjson"
ARROW_STREAM = "application/vnd.apache.arrow.stream"
ROWS_MAX = 10_000_000  # of one push


def media_type(header: str | None) -> str:
    """The media type without its parameters, in lower case."""
    return (header or "").partition(";")[0].strip().lower()


def check_media_type(header: str | None, *expected: str) -> str:
    """Which of the expected ones it is; 415 otherwise."""
    found = media_type(header)
    if found not in expected:
        raise Problem(415, f"the body is {found or 'of no type'}", hint=f"send {' or '.join(expected)}")
    return found


def json_object(body: bytes) -> dict[str, Any]:
    """A JSON object; 400 for anything else."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Problem(400, f"the body is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise Problem(400, "the body is JSON, but no object in braces")
    return found


def text_field(found: dict[str, Any], name: str, *, known: tuple[str, ...]) -> str:
    """A text of a JSON object that has only the known fields."""
    for field in found:
        if field not in known:
            raise Problem(400, f"there is no field '{field[:100]}'", hint=f"there is {', '.join(known)}")
    value = found.get(name)
    if not isinstance(value, str):
        raise Problem(400, f"the field '{name}' is missing or no text")
    if "\x00" in value:
        raise Problem(400, f"the field '{name}' holds a NUL character")
    return value


def ndjson_rows(body: bytes) -> list[dict[str, Any]]:
    """One row a line."""
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(body.split(b"\n"), 1):
        if not line or line.isspace():
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise DataError(f"line {number} is no JSON: {error}") from None
        if not isinstance(row, dict):
            raise DataError(f"line {number} is no object in braces but a {type(row).__name__}")
        nested = next((name for name, value in row.items() if isinstance(value, dict | list)), None)
        if nested is not None:
            raise DataError(f"line {number} holds a list or an object in '{nested[:100]}', and a cell holds one value")
        rows.append(row)
    return rows


def arrow_table(body: bytes, bytes_max: int) -> pa.Table:
    """The table of an Arrow IPC stream."""
    try:
        if unpacked_bytes(body) > bytes_max:
            raise Problem(413, f"unpacked, the body has more than {bytes_max:,} bytes", hint="send it in several parts")
        with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
            _check_types(reader.schema)
            batches, rows = [], 0
            for batch in reader:
                rows += batch.num_rows
                if rows > ROWS_MAX:
                    raise Problem(413, f"more than {ROWS_MAX:,} rows in one push", hint="send them in several parts")
                batches.append(batch)
        table = pa.Table.from_batches(batches, reader.schema)
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError, KeyError) as error:
        raise DataError(f"the body is no Arrow IPC stream: {_first_line(error)}") from None
    _check_decoded(table, bytes_max)
    return table


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def _check_types(schema: pa.Schema) -> None:
    for field in schema:
        if from_arrow(field.type) is None or pa.types.is_string_view(field.type):
            raise DataError(
                f"column '{field.name[:100]}' is {str(field.type)[:100]}, which no column of a stream takes",
                hint="send booleans, integers, floats, decimals, strings, dates or timestamps",
            )
    if len(set(schema.names)) != len(schema.names):
        raise DataError("two columns have the same name")


def _check_decoded(table: pa.Table, bytes_max: int) -> None:
    """A dictionary of one long text and many small numbers is small here and huge when it is looked up."""
    size = 0
    for column in table.columns:
        if not pa.types.is_dictionary(column.type):
            continue
        for chunk in column.chunks:
            if pa.types.is_string(chunk.dictionary.type) or pa.types.is_large_string(chunk.dictionary.type):
                lengths = pc.cast(pc.binary_length(chunk.dictionary), pa.int64())
                size += pc.sum(lengths.take(chunk.indices)).as_py() or 0
    if size > bytes_max:
        raise Problem(413, f"decoded, the texts have more than {bytes_max:,} bytes", hint="send them in several parts")
