"""The state of a bucket of a row fragment: a journal of packets, whose oldest pages are dropped when unneeded.

A micro-batch appends one page with its packets. If all inputs are windows of time (`plan/row_reach.py`), rows leave
them in the order in which they came (the WEAKEST pattern: a queue), and a page is dropped when its last row has left. A
row is written once, or not at all if it has left already. A bucket is built anew from the remaining pages.

    page    3         4         5         6                    the bucket has reached W
            ..... ]   ....... ]     ...... ]    ...... ]       3 is dropped: its last row matters until before W
                  ^until            W ->

Small pages are merged level by level, so that the head stays small and each row is written a few times at most. A
bucket with other inputs, or one that holds far less than it reads, is written as a *snapshot* whenever its journal has
outgrown it.

A bucket that is built from the remaining pages has the same relations at W, and so gives the same results from then on.
Its results before W are thrown away. The head has what the pages no longer tell: how far the streams have come, and how
far they had come when a version changed the queries (`since`, by version). No page is dropped while a query has windows
that are not whole yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from panewise.arrays import INT64_MIN
from panewise.plan.row_reach import reach_of
from panewise.spark.buckets.bucket import Bucket
from panewise.spark.buckets.bucket_head import Head, Page, PagePart, Store
from panewise.spark.tables.table_log import CHANGE
from panewise.spark.tasks.batch_progress import Marks
from panewise.spark.tasks.packing import Packet
from panewise.state.snapshot_format import dumped, loaded

JOURNAL_LEAST = 256 * 1024  # bytes; a smaller journal is never replaced by a snapshot
PAGES_PER_LEVEL = 12
MERGED_MOST = 1 << 20  # bytes of a merged page
APART = -1  # level of pages that are not merged
JOURNAL_TO_STATE = 4  # a journal that is this many times larger than the bucket's state is replaced by a snapshot


class RowJournal:
    """The layout of row fragments. `bucket_state.py` calls it."""

    @staticmethod
    def catch_up(bucket: Bucket, since: int, head: Head, store: Store, marks: Marks) -> bool:
        """Brings a bucket from the end of micro-batch `since` to the head; False if the pages no longer allow it."""
        if head.body["versions_changed_at"] > since or head.body["gone_until"] > since:
            return False
        later = [page for page in _in_order(head.pages) if page.last_batch > since]
        if any(page.first_batch <= since for page in later) or not bucket.goes_on_until(head.version):
            return False
        bucket.become(bucket.program.version(head.version), marks)
        for page in later:
            for entry in loaded(store.page(page.number)):
                _take(bucket, entry)
        return True

    @staticmethod
    def build(bucket: Bucket, head: Head, store: Store, marks: Marks) -> None:
        """Brings a new bucket to the head."""
        pages = _in_order(head.pages)
        if head.snapshot_page is not None:
            bucket.restore(loaded(store.page(head.snapshot_page)), marks)
            pages = [page for page in pages if page.number != head.snapshot_page]
        elif head.body["from_version"] >= 0:
            bucket.become(bucket.program.version(head.body["from_version"]), marks)
        for page in pages:
            for entry in loaded(store.page(page.number)):
                _become(bucket, entry["version"], head, marks)
                _take(bucket, entry)
        _become(bucket, head.version, head, marks)
        _set_progress(bucket, head.body["progress"])
        for query in bucket.hosting.queries.values():
            query.read()
            query.forget_overflows()  # they were reported when the rows came

    @staticmethod
    def write(bucket: Bucket, head: Head, store: Store, packets: list[bytes], batch: int) -> None:
        moved = _note_progress(bucket, head, batch)
        reach = head.body["reach"]
        # A suspended change log must later tell what it did not show, also of rows that have left by then.
        withholds = any(query.withholds for query in bucket.hosting.queries.values())
        if reach is not None and not withholds and _all_begun(bucket):
            _drop_passed(bucket, head, store)
            if 2 * moved > max(reach.values()):
                packets = _still_needed(packets, bucket, reach)
        entry = {
            "version": bucket.version,
            "packets": _packets_batch(packets),
            "tables": {key: CHANGE.to_dict(change) for key, change in bucket.table_changes.items()},
            "failed": bucket.limited,
        }
        data = dumped([entry])
        if _outgrown(bucket, head, len(data)):
            old = list(head.pages)
            page = head.add_page(store, dumped(bucket.snapshot()), 0, (0, batch), _reached(bucket))
            head.snapshot_page, head.body["since"] = page.number, {}
            head.drop(store, old)
            return
        head.add_page(store, data, 0, (batch, batch), _reached(bucket))
        if reach is not None:
            _merge_levels(head, store, max(reach.values()) // 4)


# -- what comes back -------------------------------------------------------------------------------------------------


def _in_order(pages: Iterable[Page]) -> list[Page]:
    return sorted(pages, key=lambda page: page.first_batch)


def _take(bucket: Bucket, entry: dict[str, Any]) -> None:
    bucket.change_tables({key: CHANGE.of_dict(change) for key, change in entry["tables"].items()})
    for name, reason in entry.get("failed", {}).items():
        bucket.fail(name, reason)
    bucket.take([Packet.unpacked(packet) for packet in entry["packets"].column(0).to_pylist()])
    for query in bucket.hosting.queries.values():
        query.read()
        query.forget_overflows()  # they were reported when the rows came


def _become(bucket: Bucket, version: int, head: Head, marks: Marks) -> None:
    """Adds and removes queries as a version did, at the watermarks that the streams had then."""
    if version <= bucket.version:
        return
    for key, watermark in head.body["since"].get(str(version), {}).items():
        channel = bucket.inflows[key].channel
        channel.flow(channel.empty_rows(), watermark)
    bucket.become(bucket.program.version(version), marks)


def _set_progress(bucket: Bucket, progress: dict[str, list[int]]) -> None:
    """Restores the progress of the streams, which the remaining pages tell only in part."""
    for key, (greatest, floor, arrived, rows_seen) in progress.items():
        inflow = bucket.inflows[key]
        inflow.resume(greatest, floor, arrived, rows_seen)
        inflow.flow()


# -- what is noted in the head ---------------------------------------------------------------------------------------


def _note_progress(bucket: Bucket, head: Head, batch: int) -> int:
    """Notes in the head how far the streams have come and, if this micro-batch changed the queries, had come before.

    Returns by how much the watermark of the bucket has moved.
    """
    body = head.body
    before = min(body["watermarks"].values()) if "watermarks" in body else INT64_MIN
    known = body.get("version", -1)
    if known >= 0 and not bucket.program.concerns(bucket.fragment, known, bucket.version):
        body["version"] = bucket.version
    elif known != bucket.version:
        since = body.get("since", {})
        if "watermarks" in body:
            since = {**since, str(bucket.version): body["watermarks"]}
        body = {
            "from_version": body.get("from_version", -1),
            "gone_until": body.get("gone_until", -1),
            "version": bucket.version,
            "versions_changed_at": batch,
            "since": since,
            "reach": _reach(bucket),
        }
    body["watermarks"] = {key: inflow.channel.watermark for key, inflow in bucket.inflows.items()}
    body["progress"] = {
        key: [inflow.progress.greatest, inflow.progress.floor, inflow.arrived, inflow.channel.rows_seen]
        for key, inflow in bucket.inflows.items()
    }
    head.body = body
    return _watermark_of(bucket) - before


def _reach(bucket: Bucket) -> dict[str, int] | None:
    """By stream, how long a row matters to any query; None if that is unknown for one of them."""
    version = bucket.program.version(bucket.version)
    found = dict.fromkeys(bucket.inflows, 0)
    for query in version.hosted(bucket.fragment).values():
        own = reach_of(query.plan)
        if own is None:
            return None
        for name, reach in own.items():
            key = version.stream_key(name)
            found[key] = max(found[key], reach)
    return found


def _reached(bucket: Bucket) -> list[PagePart]:
    """For each stream that has had rows, by its position, the greatest time that a row of the page can have."""
    greatest = [inflow.progress.greatest for inflow in bucket.inflows.values()]
    return [PagePart(place, 0, time, 0) for place, time in enumerate(greatest) if time != INT64_MIN]


# -- going and merging -----------------------------------------------------------------------------------------------


def _watermark_of(bucket: Bucket) -> int:
    """The watermark of the bucket: the least of its streams."""
    return min(inflow.channel.watermark for inflow in bucket.inflows.values())


def _all_begun(bucket: Bucket) -> bool:
    """Whether all queries have begun, so that their windows are whole."""
    consumers, watermark = bucket.hosting.consumers.values(), _watermark_of(bucket)
    return all(consumer.begins is not None and consumer.begins <= watermark for consumer in consumers)


def _drop_passed(bucket: Bucket, head: Head, store: Store) -> None:
    """Drops the oldest pages whose rows have all left the windows."""
    watermark = _watermark_of(bucket)
    reach = list(head.body["reach"].values())
    for page in _in_order(head.pages):
        if any(part.until + reach[part.owner] >= watermark for part in page.parts):
            return
        head.drop(store, [page])
        head.body["gone_until"] = page.last_batch
        head.body["from_version"] = bucket.version
        head.body["since"] = {}


def _still_needed(packets: list[bytes], bucket: Bucket, reach: dict[str, int]) -> list[bytes]:
    """The packets without the rows that have left all windows already."""
    watermark, found = _watermark_of(bucket), []
    for data in packets:
        packet = Packet.unpacked(data)
        if packet.batch is not None:
            times = packet.batch.column(bucket.inflows[packet.stream].channel.timestamp).view(pa.int64())
            batch = packet.batch.filter(pc.greater_equal(times, watermark - reach[packet.stream]))
            packet.batch = batch if batch.num_rows else None
        found.append(packet.packed())
    return found


def _outgrown(bucket: Bucket, head: Head, coming: int) -> bool:
    """Whether a snapshot should replace the journal."""
    snapshot = next((page.size for page in head.pages if page.number == head.snapshot_page), 0)
    most = snapshot if head.body["reach"] is None else JOURNAL_TO_STATE * bucket.bytes_held
    return head.bytes_stored - snapshot + coming > max(JOURNAL_LEAST, most)


def _merge_levels(head: Head, store: Store, span_most: int) -> None:
    """Merges the oldest pages of a level into one of the next, once there are PAGES_PER_LEVEL.

    Does not merge pages if the result would be too large, or would keep its oldest rows for too long.
    """
    level = 0
    while True:
        own = [page for page in _in_order(head.pages) if page.level == level and page.number != head.snapshot_page]
        run = own[:PAGES_PER_LEVEL]
        if len(run) < PAGES_PER_LEVEL:
            return
        if sum(page.size for page in run) > MERGED_MOST or _span(run) > span_most:
            run[0].level = APART
            return
        entries = _collapsed(entry for page in run for entry in loaded(store.page(page.number)))
        head.drop(store, run)
        head.add_page(store, dumped(entries), level + 1, (run[0].first_batch, run[-1].last_batch), run[-1].parts)
        level += 1


def _span(run: list[Page]) -> int:
    """How much longer a merged page would keep its oldest rows than the pages that it is made of."""
    since = {part.owner: part.until for part in run[0].parts}
    return max((part.until - since.get(part.owner, part.until) for part in run[-1].parts), default=0)


def _collapsed(entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merges neighbouring entries of one version. The watermark then moves in larger steps, with the same results."""
    together: list[tuple[dict[str, Any], list[bytes]]] = []
    for entry in entries:
        packets = entry["packets"].column(0).to_pylist()
        last = together[-1][0] if together else None
        alone = entry["tables"] or entry.get("failed") or (last is not None and (last["tables"] or last.get("failed")))
        if last is not None and last["version"] == entry["version"] and not alone:
            together[-1][1].extend(packets)
        else:
            together.append((entry, packets))
    return [{**entry, "packets": _packed(map(Packet.unpacked, packets))} for entry, packets in together]


def _packed(packets: Iterable[Packet]) -> pa.RecordBatch:
    """One packet for each stream."""
    by_stream: dict[str, list[Packet]] = {}
    for packet in packets:
        if packet.ask is None:
            by_stream.setdefault(packet.stream, []).append(packet)
    return _packets_batch([_one_packet(own).packed() for own in by_stream.values()])


def _one_packet(packets: list[Packet]) -> Packet:
    batches = [packet.batch for packet in packets if packet.batch is not None]
    rows = pa.Table.from_batches(batches).combine_chunks().to_batches() if batches else []
    return replace(
        packets[0],
        greatest=max((packet.greatest for packet in packets if packet.greatest is not None), default=None),
        oldest=min((packet.oldest for packet in packets if packet.oldest is not None), default=None),
        floor=max((packet.floor for packet in packets if packet.floor is not None), default=None),
        rows=sum(packet.rows for packet in packets),
        batch=rows[0] if rows else None,
    )


def _packets_batch(packets: list[bytes]) -> pa.RecordBatch:
    return pa.record_batch({"packet": pa.array(packets, pa.binary())})
