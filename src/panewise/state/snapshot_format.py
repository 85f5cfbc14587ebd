"""Snapshots as bytes: nested dicts and lists of plain values, NumPy arrays and Arrow batches, in one Arrow IPC stream.

The tree is JSON in the metadata of the first batch, with a number in place of every array; the arrays follow as columns
and batches. Nothing is ever executed when a snapshot is read. Layout:

    magic, version, length and checksum of the rest, then [JSON length, JSON, IPC stream of each batch]
"""

from __future__ import annotations

import io
import json
import struct
import zlib
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.errors import SnapshotError

MAGIC = b"PANEWISE"
VERSION = 1
_HEADER = struct.Struct("<8sIQI")


def dumped(tree: Any) -> bytes:
    """The tree as bytes.

    >>> loaded(dumped({"a": [1, None], "b": np.arange(3)}))
    {'a': [1, None], 'b': array([0, 1, 2])}
    """
    batches: list[pa.RecordBatch] = []
    text = json.dumps(_encoded(tree, batches)).encode()
    body = io.BytesIO()
    body.write(struct.pack("<Q", len(text)))
    body.write(text)
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        data = sink.getvalue()
        body.write(struct.pack("<Q", data.size))
        body.write(data)
    content = body.getvalue()
    return _HEADER.pack(MAGIC, VERSION, len(content), zlib.crc32(content)) + content


def loaded(data: bytes) -> Any:
    """The tree of some bytes; SnapshotError where they are damaged or foreign."""
    if not isinstance(data, bytes):
        raise SnapshotError(f"a snapshot is bytes, not a {type(data).__name__}")
    if len(data) < _HEADER.size or not data.startswith(MAGIC):
        raise SnapshotError("this is not a snapshot of panewise")
    _, version, length, checksum = _HEADER.unpack_from(data)
    if version != VERSION:
        raise SnapshotError(f"the snapshot has version {version}; this panewise reads version {VERSION}")
    content = data[_HEADER.size :]
    if len(content) != length or zlib.crc32(content) != checksum:
        raise SnapshotError("the snapshot is damaged: its length or checksum is wrong")
    (size,) = struct.unpack_from("<Q", content)
    tree = json.loads(content[8 : 8 + size])
    position, batches = 8 + size, []
    while position < len(content):
        (size,) = struct.unpack_from("<Q", content, position)
        with pa.ipc.open_stream(content[position + 8 : position + 8 + size]) as reader:
            batches.append(reader.read_all())
        position += 8 + size
    return _decoded(tree, batches)


def _encoded(value: Any, batches: list[pa.RecordBatch]) -> Any:
    match value:
        case np.ndarray():
            batches.append(pa.record_batch({"values": pa.array(value.reshape(-1))}))
            return {"@array": len(batches) - 1, "shape": list(value.shape), "type": str(value.dtype)}
        case pa.RecordBatch():
            batches.append(value)
            return {"@batch": len(batches) - 1}
        case pa.Table():
            combined = value.combine_chunks().to_batches()
            batches.append(combined[0] if combined else pa.RecordBatch.from_pylist([], value.schema))
            return {"@table": len(batches) - 1}
        case dict():
            return {"@dict": [[key, _encoded(item, batches)] for key, item in value.items()]}
        case list() | tuple():
            return [_encoded(item, batches) for item in value]
        case bool() | None | str() | float():
            return value
        case int() | np.integer():
            return int(value)
        case _:
            raise AssertionError(f"a snapshot cannot hold {type(value).__name__}")


def _decoded(value: Any, batches: list[pa.Table]) -> Any:
    if isinstance(value, list):
        return [_decoded(item, batches) for item in value]
    if not isinstance(value, dict):
        return value
    if "@array" in value:
        column = batches[value["@array"]].column(0).combine_chunks()
        flat = column.to_numpy(zero_copy_only=False).astype(value["type"])
        return flat.reshape(value["shape"])
    if "@batch" in value or "@table" in value:
        table = batches[value["@table" if "@table" in value else "@batch"]]
        if "@table" in value:
            return table
        parts = table.combine_chunks().to_batches()
        return parts[0] if parts else pa.RecordBatch.from_pylist([], table.schema)
    return {key: _decoded(item, batches) for key, item in value["@dict"]}
