"""Decodes bodies of requests: JSON, newline-delimited JSON and Arrow IPC, none of which is trusted.

A body that does not parse is refused with the reason, before anything has changed. Arrow IPC is checked completely
before it is used, because Arrow would follow a wrong offset to any address: the types, the sizes that compressed
buffers claim (`arrow_message_sizes`), the contents of all buffers, and the decoded sizes of dictionaries. Cost: one
pass over the bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from panewise.connectors.conform import is_mixed, references_of
from panewise.errors import DataError
from panewise.schema import from_arrow
from panewise.serve.http.service.arrow_message_sizes import unpacked_bytes
from panewise.serve.http.service.error_answers import Problem

JSON = "application/json"
NDJSON = "application/x-ndjson"
ARROW_STREAM = "application/vnd.apache.arrow.stream"
ROWS_MAX = 10_000_000  # of one push
NESTED_SHOWN = 200  # characters shown of a list or an object in a cell


def media_type(header: str | None) -> str:
    """The media type without its parameters, in lower case."""
    return (header or "").partition(";")[0].strip().lower()


def check_media_type(header: str | None, *expected: str) -> str:
    """The media type, if it is one of the expected; Problem 415 otherwise."""
    found = media_type(header)
    if found not in expected:
        raise Problem(
            415,
            f"the body has the media type {found}" if found else "the body has no media type",
            hint=f"send {' or '.join(expected)}",
        )
    return found


def json_object(body: bytes) -> dict[str, Any]:
    """The body as a JSON object; Problem 400 for anything else."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Problem(400, f"the body is not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise Problem(400, "the body is JSON, but not an object")
    return found


def text_field(found: dict[str, Any], name: str, *, known: tuple[str, ...]) -> str:
    """A string field of a JSON object; Problem 400 if it is missing, or if the object has fields that are not known."""
    for field in found:
        if field not in known:
            raise Problem(400, f"there is no field '{field[:100]}'", hint=f"there is {', '.join(known)}")
    value = found.get(name)
    if not isinstance(value, str):
        raise Problem(400, f"the field '{name}' is missing or not a string")
    if "\x00" in value:
        raise Problem(400, f"the field '{name}' contains a NUL character")
    return value


def ndjson_rows(body: bytes, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """The rows of a body, one per line. If the stream's `columns` are given, contents of other fields are ignored."""
    known = None if columns is None else {column.lower() for column in columns}
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(body.split(b"\n"), 1):
        if not line or line.isspace():
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise DataError(f"line {number} is not valid JSON: {error}") from None
        if not isinstance(row, dict):
            raise DataError(f"line {number} is not a JSON object but a {type(row).__name__}")
        for name in [name for name, value in row.items() if isinstance(value, dict | list)]:
            if known is not None and name.lower() not in known:
                row[name] = None
            else:
                # Replace nested values of any depth by a flat list. It fits no column; the text is shown to the user.
                row[name] = [orjson.dumps(row[name])[:NESTED_SHOWN].decode(errors="replace")]
        rows.append(row)
    return rows


def arrow_table(body: bytes, bytes_max: int, columns: Sequence[str] | None = None) -> pa.Table:
    """The table of an Arrow IPC stream. If the stream's `columns` are given, other columns are not read."""
    try:
        if unpacked_bytes(body) > bytes_max:
            raise Problem(
                413, f"decompressed, the body has more than {bytes_max:,} bytes", hint="send it in several parts"
            )
        with pa.ipc.open_stream(pa.py_buffer(body), options=_wanted(body, columns)) as reader:
            _check_types(reader.schema)
            batches, rows = [], 0
            for batch in reader:
                rows += batch.num_rows
                if rows > ROWS_MAX:
                    raise Problem(413, f"the push has more than {ROWS_MAX:,} rows", hint="send them in several parts")
                batches.append(batch)
        table = pa.Table.from_batches(batches, reader.schema)
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError, KeyError) as error:
        raise DataError(f"the body is not a valid Arrow IPC stream: {_first_line(error)}") from None
    _check_decoded(table, bytes_max)
    return table


def _wanted(body: bytes, columns: Sequence[str] | None) -> pa.ipc.IpcReadOptions:
    """Options to read only the stream's columns. Without `columns`, all are read, and refused by name later."""
    with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
        names = reader.schema.names
    known = {column.lower() for column in columns or names}
    return pa.ipc.IpcReadOptions(included_fields=[i for i, name in enumerate(names) if name.lower() in known])


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def _check_types(schema: pa.Schema) -> None:
    for field in schema:
        if not (_is_known(field.type) or _is_mixed(field.type)):
            raise DataError(
                f"column '{field.name[:100]}' has the type {str(field.type)[:100]}, which fits no column of a stream",
                hint="send booleans, integers, floats, decimals, strings, dates or timestamps",
            )
    if len(set(schema.names)) != len(schema.names):
        raise DataError("two columns have the same name")


def _is_known(type_: pa.DataType) -> bool:
    """Whether values of the type can be converted to a type of CQL."""
    known = from_arrow(type_) is not None or pa.types.is_uint64(type_)  # the engine judges each large value
    return pa.types.is_decimal(type_) or (known and not pa.types.is_string_view(type_))


def _is_mixed(type_: pa.DataType) -> bool:
    """Whether the type is a union of several simple types."""
    if not is_mixed(type_):
        return False
    kinds = [type_.field(i).type for i in range(type_.num_fields)]
    plain = (kind for kind in kinds if pa.types.is_binary(kind) or _is_known(kind))
    return sum(not pa.types.is_dictionary(kind) for kind in plain) == len(kinds)


def _check_decoded(table: pa.Table, bytes_max: int) -> None:
    """Problem 413 if dictionaries and unions, in which many rows refer to one long text, become too large decoded."""
    size = 0
    for column in table.columns:
        for chunk in column.chunks:
            if pa.types.is_dictionary(column.type):
                size += _bytes_referred_to(chunk.dictionary, chunk.indices)
            elif is_mixed(column.type):
                size += sum(_bytes_referred_to(child, offsets) for child, offsets, _ in references_of(chunk))
    if size > bytes_max:
        raise Problem(
            413, f"decoded, the strings have more than {bytes_max:,} bytes", hint="send them in several parts"
        )


def _bytes_referred_to(values: pa.Array, places: pa.Array) -> int:
    types = pa.types
    if not (types.is_string(values.type) or types.is_large_string(values.type) or types.is_binary(values.type)):
        return 0
    lengths = pc.cast(pc.binary_length(values), pa.int64())
    return pc.sum(lengths.take(places)).as_py() or 0
