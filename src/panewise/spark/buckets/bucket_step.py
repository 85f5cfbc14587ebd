"""What a bucket does in a micro-batch: restores its state, takes packets, answers, and writes what has changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from panewise.errors import PanewiseError
from panewise.spark.buckets.bucket import Bucket
from panewise.spark.buckets.bucket_head import Head, Store
from panewise.spark.buckets.bucket_state import KeptBucket, committed, opened
from panewise.spark.program.program import METER
from panewise.spark.program.version import Version
from panewise.spark.tasks.packing import ANSWER, COUNTED, FAILED, OVERFLOWS, RESULT, STATE, Packet, ipc_bytes
from panewise.spark.tasks.worker import BatchTask

KEPT_BYTES_MAX = 1 << 30  # per worker
Output = tuple[str, str, int, int, bytes]


def bucket_outputs(task: BatchTask, key: int, payloads: list[bytes], store: Store) -> list[Output]:
    """Feeds the packets of a micro-batch to a bucket, writes its state and returns its outputs."""
    packets = [Packet.unpacked(payload) for payload in payloads]
    if packets[0].fragment == METER:
        return _counted(packets)
    if any(packet.gone for packet in packets):
        task.kept.pop(("bucket", key), None)
        store.clear()
        return []
    kept: KeptBucket | None = task.kept.pop(("bucket", key), None)
    bucket, head = opened(store, task.program, packets[0].fragment, task.version, task.marks, kept)
    failed = task.marks.failed
    if bucket.fragment.is_folded and 0 <= bucket.version < task.version.number:
        # Before the version changes, so that its new queries find the same in every bucket: only one saw the failure.
        _fail(bucket, task.program.version(bucket.version), failed)
    bucket.become(task.version, task.marks)
    _fail(bucket, task.version, failed)
    bucket.see(task.tables)
    bucket.limit(packets)
    bucket.take([packet for packet in packets if packet.ask is None])
    outputs = _results(bucket, task, key)
    outputs += [(FAILED, n, key, 0, r.encode()) for n, r in bucket.failed_of(task.version).items() if n not in failed]
    outputs += [(OVERFLOWS, name, key, count, b"") for name, count in bucket.take_overflows(task.version).items()]
    for packet in packets:
        if packet.ask is not None:
            outputs.append(_answer(bucket, packet.ask, key))
    keep(task, key, committed(store, bucket, head, payloads, task.batch))
    outputs.append(_state(bucket, head, packets[0], key))
    return outputs


def _fail(bucket: Bucket, version: Version, failed: Mapping[str, str]) -> None:
    for query in version.queries.values() if failed else ():
        if query.log_name in failed:
            bucket.fail(query.name, failed[query.log_name])


def keep(task: BatchTask, key: int, kept: KeptBucket) -> None:
    """Keeps a bucket for the next micro-batch; drops the oldest ones if all together exceed KEPT_BYTES_MAX."""
    task.kept["bucket", key] = kept
    sizes = {name: held.size for name, held in task.kept.items() if isinstance(held, KeptBucket)}
    while sum(sizes.values()) > KEPT_BYTES_MAX and len(sizes) > 1:
        oldest = next(iter(sizes))
        del task.kept[oldest], sizes[oldest]


def _counted(packets: list[Packet]) -> list[Output]:
    """Passes the counts of the tasks on to the driver unchanged."""
    outputs: list[Output] = []
    for packet in packets:
        if packet.aside is not None:
            assert packet.batch is not None
            outputs.append((packet.aside, packet.stream, 0, packet.batch.num_rows, ipc_bytes(packet.batch)))
        else:
            outputs.append((COUNTED, packet.stream, 0, 0, packet.packed()))
    return outputs


def _results(bucket: Bucket, task: BatchTask, key: int) -> list[Output]:
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
