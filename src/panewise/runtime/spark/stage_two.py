"""Stage 2, behind the shuffle: one stateful operator hosts the buckets of every fragment.

Per micro-batch a bucket gets the packets of all tasks, brings its state back, merges, lets the watermark move, answers
what has come due, and writes what changed. The key is the bucket's, the payload is packed, so Spark's plan and the
state's schema stay the same whatever queries come and go.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from panewise.errors import PanewiseError
from panewise.runtime.spark.bucket import Bucket
from panewise.runtime.spark.bucket_state import Head, Kept, committed, opened
from panewise.runtime.spark.packing import ANSWER, BAD, COUNTED, FAILED, LATE, OUTPUT, RESULT, STATE, Packet, ipc_bytes
from panewise.runtime.spark.program import METER
from panewise.runtime.spark.worker import Reference, Task, task_of

Output = tuple[str, str, int, int, bytes]


class FragmentProcessor(StatefulProcessor):
    """What Spark calls per bucket and micro-batch."""

    def __init__(self, reference: Reference) -> None:
        self._reference = reference

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._head = handle.getValueState("head", "data binary")
        self._pages = handle.getMapState("pages", "number long", "data binary")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Spark's names."""
        received: list[tuple[int, bytes]] = []
        for frame in rows:
            received.extend(zip(frame["ordinal"].tolist(), frame["payload"].tolist(), strict=True))
        received.sort(key=lambda pair: pair[0])
        payloads = [bytes(payload) for _, payload in received]
        task = task_of(self._reference)
        outputs = bucket_outputs(task, int(key[0]), payloads, _SparkStore(self._head, self._pages))
        if outputs:
            yield pd.DataFrame(dict(zip(OUTPUT, zip(*outputs, strict=True), strict=True)))

    def close(self) -> None:
        pass


class _SparkStore:
    """See `bucket_state.Store`. Every call is a message to the JVM of 0.1 to 0.3 ms: few large pages."""

    def __init__(self, head: Any, pages: Any) -> None:
        self._head = head
        self._pages = pages

    def head(self) -> bytes | None:
        value = self._head.get()
        return None if value is None else bytes(value[0])

    def set_head(self, data: bytes) -> None:
        self._head.update((data,))

    def page(self, number: int) -> bytes:
        return bytes(self._pages.getValue((number,))[0])

    def set_page(self, number: int, data: bytes) -> None:
        self._pages.updateValue((number,), (data,))

    def drop_page(self, number: int) -> None:
        self._pages.removeKey((number,))

    def clear(self) -> None:
        self._head.clear()
        self._pages.clear()


def bucket_outputs(task: Task, key: int, payloads: list[bytes], store: Any) -> list[Output]:
    """What a bucket says to the packets of a micro-batch; its state is written."""
    packets = [Packet.unpacked(payload) for payload in payloads]
    if packets[0].fragment == METER:
        return _counted(packets)
    if any(packet.gone for packet in packets):
        task.kept.pop(("bucket", key), None)
        store.clear()
        return []
    kept: Kept | None = task.kept.pop(("bucket", key), None)
    bucket, head = opened(store, task.program, packets[0].fragment, task.version, task.marks, kept)
    bucket.become(task.version, task.marks)
    failed = task.marks.failed
    for query in task.version.queries.values():
        if query.log_name in failed:
            bucket.fail(query.name, failed[query.log_name])
    bucket.take([packet for packet in packets if packet.ask is None])
    outputs = _results(bucket, task, key)
    outputs += [(FAILED, n, key, 0, r.encode()) for n, r in bucket.failed_of(task.version).items() if n not in failed]
    for packet in packets:
        if packet.ask is not None:
            outputs.append(_answer(bucket, packet.ask, key))
    task.kept["bucket", key] = committed(store, bucket, head, payloads, task.batch)
    outputs.append(_state(bucket, head, packets[0], key))
    return outputs


def _counted(packets: list[Packet]) -> list[Output]:
    """What tasks have counted goes to the driver as it is."""
    outputs: list[Output] = []
    for packet in packets:
        if packet.batch is not None:
            kind = LATE if packet.bucket == 1 else BAD
            outputs.append((kind, packet.stream, 0, packet.batch.num_rows, ipc_bytes(packet.batch)))
        else:
            outputs.append((COUNTED, packet.stream, 0, 0, packet.packed()))
    return outputs


def _results(bucket: Bucket, task: Task, key: int) -> list[Output]:
    found = bucket.results(task.version)
    return [(RESULT, name, key, table.num_rows, ipc_bytes(table)) for name, table in found.items()]


def _answer(bucket: Bucket, ask: dict[str, Any], key: int) -> Output:
    try:
        table = bucket.lookup(ask["query"].lower(), ask["at"])
    except PanewiseError as problem:
        return ANSWER, ask["id"], key, -1, problem.message.encode()
    return ANSWER, ask["id"], key, table.num_rows, ipc_bytes(table)


def _state(bucket: Bucket, head: Head, packet: Packet, key: int) -> Output:
    stats = bucket.stats() | {
        "fragment": packet.fragment,
        "bucket": packet.bucket,
        "stored_bytes": head.bytes_stored,
        "written_bytes": head.written,
        "pages": len(head.pages),
    }
    return STATE, str(key), key, 0, json.dumps(stats).encode()
