"""Packed rows: what travels between the stages, and out of them.

From stage 1 to stage 2: `key, ordinal, payload`. The key is a bucket's. Ordinals give the payloads of a micro-batch an
order that is the same in every replay. A payload is a `Packet`. Out of stage 2: `kind, name, ordinal, rows, payload`.

A packet is written as its header in JSON, followed by Arrow streams: its batch, and the partials of each family.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from panewise.state.records import Record

PACKED_TYPE = "key long, ordinal long, payload binary"
PACKED = pa.schema([("key", pa.int64()), ("ordinal", pa.int64()), ("payload", pa.binary())])
OUTPUT_TYPE = "kind string, name string, ordinal long, rows long, payload binary"
OUTPUT = ("kind", "name", "ordinal", "rows", "payload")

WHOLE = 0  # in place of a family's number: the Arrow stream of a packet's batch

# Kinds of output.
RESULT, COUNTED, LATE, BAD, FAILED, STATE, ANSWER = "result", "counted", "late", "bad", "failed", "state", "answer"
OVERFLOWS = "overflows"


@dataclass
class Packet:
    """What one task of stage 1 tells one bucket, with its rows or partials.

    `greatest`, the greatest timestamp that the task has seen, and `floor`, a punctuation, move the watermark.
    """

    fragment: int
    bucket: int
    stream: str
    greatest: int | None = None
    oldest: int | None = None  # least timestamp that the task has seen
    floor: int | None = None
    rows: int = 0  # good rows that the task has read
    late_rows: int = 0
    late_behind: int = 0  # microseconds from the latest row to the newest one of earlier micro-batches
    bad_rows: int = 0
    notes: dict[str, int] | None = None  # first report of each query without groups
    failed: dict[str, str] | None = None  # reason of each query that has failed in the task
    message: int | None = None  # number of a message that was read
    gone: bool = False  # the fragment has no queries any more
    ask: dict[str, Any] | None = None  # a lookup
    aside: str | None = None  # LATE or BAD, if the batch holds rows that were set aside
    staged: list[list[Any]] | None = None  # files with the rows of an archived stream
    batch: pa.RecordBatch | None = None
    parts: dict[int, pa.RecordBatch] = field(default_factory=dict)  # partials by family

    def packed(self) -> bytes:
        whole = [] if self.batch is None else [(WHOLE, ipc_bytes(self.batch))]
        streams = [*whole, *((family, ipc_bytes(part)) for family, part in self.parts.items())]
        text = json.dumps(
            PACKET.to_dict(self) | {"streams": [(family, len(data)) for family, data in streams]}
        ).encode()
        return b"".join([len(text).to_bytes(4, "little"), text, *(data for _, data in streams)])

    @staticmethod
    def unpacked(data: bytes) -> Packet:
        at = 4 + int.from_bytes(data[:4], "little")
        header = json.loads(data[4:at])
        packet = PACKET.of_dict(header)
        for family, size in header["streams"]:
            batch = next(iter(batches_of(pa.py_buffer(data).slice(at, size))))
            if family == WHOLE:
                packet.batch = batch
            else:
                packet.parts[family] = batch
            at += size
        return packet


# The names stay: the journals of buckets keep packets.
PACKET = Record(
    Packet,
    "fragment bucket stream greatest oldest floor rows late_rows late_behind bad_rows notes failed letter=message gone "
    "ask aside staged",
    unwritten="batch parts",
)


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
