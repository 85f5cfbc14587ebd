"""Computes how many bytes an Arrow IPC stream will have after decompression, without decompressing it.

A compressed buffer begins with its uncompressed length (Arrow's columnar format, "Serialization and IPC"). Arrow trusts
this number, and a few kilobytes may claim a terabyte. So the numbers are read first. The messages' heads tell where;
they are flatbuffers:

    Message        1 header type, 2 header, ...          (numbers of fields)
    RecordBatch    0 length, 1 nodes, 2 buffers, 3 compression
    DictionaryBatch  0 id, 1 RecordBatch

Every offset is checked against the bounds of its message; an invalid one raises ValueError. Cost: a few microseconds
per message.
"""

from __future__ import annotations

import struct

import pyarrow as pa

_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3
_BUFFER = struct.Struct("<qq")
_BUFFERS_MAX = 1_000_000


def unpacked_bytes(stream: bytes) -> int:
    """The sum over all messages; an uncompressed message counts with its own size.

    >>> table = pa.table({"v": pa.array([7] * 10_000)})
    >>> sink = pa.BufferOutputStream()
    >>> with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
    ...     writer.write_table(table)
    >>> packed = sink.getvalue().to_pybytes()
    >>> len(packed) < 10_000, unpacked_bytes(packed) >= 80_000
    (True, True)
    """
    total = 0
    reader = pa.ipc.MessageReader.open_stream(pa.py_buffer(stream))
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return total
        total += _of_message(memoryview(message.metadata), message.body)


def _of_message(metadata: memoryview, body: pa.Buffer | None) -> int:
    packed = 0 if body is None else body.size
    message = _Table.root(metadata)
    header = message.table(2)
    if header is None:
        return packed
    kind = message.byte(1)
    if kind == _DICTIONARY_BATCH:
        header = header.table(1)
    elif kind != _RECORD_BATCH:
        return packed
    if header is None or header.field(3) is None or body is None:
        return packed
    data, total = memoryview(body), 0
    for offset, length in header.pairs(2):
        if length <= 0:
            continue
        if offset < 0 or length < 8 or offset + length > len(data):
            raise ValueError("a buffer lies outside its message")
        (claimed,) = struct.unpack_from("<q", data, offset)
        if claimed < -1:
            raise ValueError("a buffer has a negative length")
        total += length if claimed == -1 else claimed
    return max(packed, total)


class _Table:
    """A table of a flatbuffer. Fields have numbers and are found through its table of offsets."""

    def __init__(self, data: memoryview, place: int) -> None:
        self._data = data
        self._place = place
        offsets = place - self._read("<i", place)
        self._offsets = offsets
        self._size = self._read("<H", offsets)

    @classmethod
    def root(cls, data: memoryview) -> _Table:
        if len(data) < 4:
            raise ValueError("a message has no head")
        return cls(data, struct.unpack_from("<I", data)[0])

    def _read(self, form: str, place: int) -> int:
        if place < 0 or place + struct.calcsize(form) > len(self._data):
            raise ValueError("a message refers to something outside it")
        value: int = struct.unpack_from(form, self._data, place)[0]
        return value

    def field(self, number: int) -> int | None:
        """The position of a field; None if it is missing."""
        entry = 4 + 2 * number
        if entry + 2 > self._size:
            return None
        offset = self._read("<H", self._offsets + entry)
        return self._place + offset if offset else None

    def byte(self, number: int) -> int:
        place = self.field(number)
        return 0 if place is None else self._read("<B", place)

    def table(self, number: int) -> _Table | None:
        place = self.field(number)
        return None if place is None else _Table(self._data, place + self._read("<I", place))

    def pairs(self, number: int) -> list[tuple[int, int]]:
        """A field that is a vector of pairs of numbers."""
        place = self.field(number)
        if place is None:
            return []
        begin = place + self._read("<I", place)
        count = self._read("<I", begin)
        if count > _BUFFERS_MAX or begin + 4 + count * _BUFFER.size > len(self._data):
            raise ValueError("a vector is longer than its message")
        return [_BUFFER.unpack_from(self._data, begin + 4 + i * _BUFFER.size) for i in range(count)]
