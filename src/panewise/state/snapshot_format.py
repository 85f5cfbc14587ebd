"""Snapshots as bytes: nested dicts and lists of plain values, NumPy arrays and Arrow batches.

The tree is JSON, which refers to the arrays and batches behind it. Arrays of numbers follow one after the other as they
are in memory; an array is compressed if that halves it, like a ring that is mostly empty. Batches follow as Arrow IPC
streams. Reading a snapshot never executes code. Layout:

    magic, version, length and checksum of the rest, then the JSON (compressed), all arrays, and the
    batches, each after its length

Version 1, which is still read, had an IPC stream for every array.
"""

from __future__ import annotations

import io
import json
import struct
import zlib
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.errors import SnapshotError

MAGIC = b"PANEWISE"
VERSION = 2
VERSIONS_READ = (1, 2)
CODEC = "lz4_raw"
SMALL_BYTES = 256  # Arrays of no more bytes than this are not worth compressing.
_HEADER = struct.Struct("<8sIQI")


def dumped(tree: Any) -> bytes:
    """The tree as bytes.

    >>> loaded(dumped({"a": [1, None], "b": np.arange(3)}))
    {'a': [1, None], 'b': array([0, 1, 2])}
    """
    written = _Written()
    text = json.dumps(written.encoded(tree)).encode()
    body = io.BytesIO()
    packed = struct.pack("<Q", len(text)) + pa.compress(text, codec=CODEC, asbytes=True)
    for part in (packed, b"".join(written.arrays)):
        body.write(struct.pack("<Q", len(part)))
        body.write(part)
    for batch in written.batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        data = sink.getvalue()
        body.write(struct.pack("<Q", data.size))
        body.write(data)
    content = body.getvalue()
    return _HEADER.pack(MAGIC, VERSION, len(content), zlib.crc32(content)) + content


def loaded(data: bytes) -> Any:
    """The tree that `dumped` wrote; SnapshotError if the bytes are damaged or foreign."""
    if not isinstance(data, bytes):
        raise SnapshotError(f"a snapshot is bytes, not a {type(data).__name__}")
    if len(data) < _HEADER.size or not data.startswith(MAGIC):
        raise SnapshotError("this is not a snapshot of panewise")
    _, version, length, checksum = _HEADER.unpack_from(data)
    if version not in VERSIONS_READ:
        raise SnapshotError(
            f"the snapshot has version {version}; this panewise reads versions {VERSIONS_READ[0]} to {VERSION}"
        )
    content = data[_HEADER.size :]
    if len(content) != length or zlib.crc32(content) != checksum:
        raise SnapshotError("the snapshot is damaged: its length or checksum is wrong")
    text, position = _part(content, 0)
    arrays = memoryview(b"")
    if version > 1:
        (plain,) = struct.unpack_from("<Q", text)
        text = pa.decompress(text[8:], decompressed_size=plain, codec=CODEC, asbytes=True)
        arrays, position = _part(content, position)
    batches = []
    while position < len(content):
        part, position = _part(content, position)
        with pa.ipc.open_stream(part) as reader:
            batches.append(reader.read_all())
    return _decoded(json.loads(bytes(text)), arrays, batches)


def _part(content: bytes, position: int) -> tuple[memoryview, int]:
    """The part that begins at a position, and where the next one begins."""
    (size,) = struct.unpack_from("<Q", content, position)
    end = position + 8 + size
    return memoryview(content)[position + 8 : end], end


class _Written:
    """The arrays and batches that follow the JSON."""

    def __init__(self) -> None:
        self.arrays: list[bytes] = []
        self.batches: list[pa.RecordBatch] = []
        self._length = 0

    def encoded(self, value: Any) -> Any:
        match value:
            case np.ndarray() if value.dtype.kind in "biuf":
                return self._array(value)
            case np.ndarray():
                self.batches.append(pa.record_batch({"values": pa.array(value.reshape(-1))}))
                return {"@array": len(self.batches) - 1, "shape": list(value.shape), "type": str(value.dtype)}
            case pa.RecordBatch():
                self.batches.append(value)
                return {"@batch": len(self.batches) - 1}
            case pa.Table():
                combined = value.combine_chunks().to_batches()
                self.batches.append(combined[0] if combined else pa.RecordBatch.from_pylist([], value.schema))
                return {"@table": len(self.batches) - 1}
            case dict():
                return {"@dict": [[key, self.encoded(item)] for key, item in value.items()]}
            case list() | tuple():
                return [self.encoded(item) for item in value]
            case bool() | None | str() | float():
                return value
            case int() | np.integer():
                return int(value)
            case _:
                raise AssertionError(f"a snapshot cannot hold {type(value).__name__}")

    def _array(self, value: NDArray[Any]) -> dict[str, Any]:
        data, plain = value.tobytes(), value.nbytes
        if plain > SMALL_BYTES:
            less = pa.compress(data, codec=CODEC, asbytes=True)
            data = less if len(less) < plain // 2 else data
        at = self._length
        self.arrays.append(data)
        self._length += len(data)
        return {"@numbers": [at, len(data), plain], "shape": list(value.shape), "type": str(value.dtype)}


def _decoded(value: Any, arrays: memoryview, batches: list[pa.Table]) -> Any:
    if isinstance(value, list):
        return [_decoded(item, arrays, batches) for item in value]
    if not isinstance(value, dict):
        return value
    if "@numbers" in value:
        return _numbers(value, arrays)
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
    return {key: _decoded(item, arrays, batches) for key, item in value["@dict"]}


def _numbers(value: dict[str, Any], arrays: memoryview) -> NDArray[Any]:
    at, size, plain = value["@numbers"]
    data = arrays[at : at + size]
    if size != plain:
        data = pa.decompress(data, decompressed_size=plain, codec=CODEC, asbytes=True)
    # A copy, because restored arrays will be changed.
    return np.frombuffer(data, value["type"]).reshape(value["shape"]).copy()
