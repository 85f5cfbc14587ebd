"""Packed rows: what travels between the stages, and out of them.

From stage 1 to stage 2: `key, ordinal, payload`. The key is a bucket's; ordinals put the payloads of a micro-batch in
one order, the same in every replay; a payload is a `Packet`. Out of stage 2: `kind, name, ordinal, rows, payload`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

PACKED_TYPE = "key long, ordinal long, payload binary"
PACKED = pa.schema([("key", pa.int64()), ("ordinal", pa.int64()), ("payload", pa.binary())])
OUTPUT_TYPE = "kind string, name string, ordinal long, rows long, payload binary"
OUTPUT = ("kind", "name", "ordinal", "rows", "payload")

# Kinds of output.
RESULT, COUNTED, LATE, BAD, FAILED, STATE, ANSWER = "result", "counted", "late", "bad", "failed", "state", "answer"


@dataclass
class Packet:
    """What one task of stage 1 tells one bucket, with the rows or partials themselves behind it.

    `greatest`, the greatest timestamp that the task has seen, and `floor`, a punctuation, move the watermark.
    """

    fragment: int
    bucket: int
    stream: str
    greatest: int | None = None
    floor: int | None = None
    rows: int = 0  # that the task has read and not found late or bad
    late_rows: int = 0
    bad_rows: int = 0
    notes: dict[str, int] | None = None  # by ungrouped query, its first report
    failed: dict[str, str] | None = None  # by query, why
    letter: int | None = None  # the number of a letter that was read
    gone: bool = False  # the fragment has no queries any more
    ask: dict[str, Any] | None = None  # a lookup
    aside: str | None = None  # LATE or BAD, where the batch holds rows that were set aside
    batch: pa.RecordBatch | None = None

    def packed(self) -> bytes:
        text = json.dumps({name: value for name, value in vars(self).items() if name != "batch"}).encode()
        if self.batch is None:
            return b"\0" + text
        return b"\1" + len(text).to_bytes(4, "little") + text + ipc_bytes(self.batch)

    @staticmethod
    def unpacked(data: bytes) -> Packet:
        if data[:1] == b"\0":
            return Packet(**json.loads(data[1:]))
        size = int.from_bytes(data[1:5], "little")
        packet = Packet(**json.loads(data[5 : 5 + size]))
        packet.batch = next(iter(batches_of(pa.py_buffer(data).slice(5 + size))))
        return packet


def ipc_bytes(data: pa.RecordBatch | pa.Table) -> bytes:
    """A batch or table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, data.schema) as writer:
        writer.write(data)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def batches_of(data: bytes | pa.Buffer) -> list[pa.RecordBatch]:
    with pa.ipc.open_stream(data) as reader:
        return list(reader)


def table_of(data: bytes | pa.Buffer) -> pa.Table:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()
