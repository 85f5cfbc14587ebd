"""The state of a bucket in Spark's state store, and how a bucket comes back from it.

Two layouts. A tree keeps *pages*: the partials that a micro-batch brought, appended at the young end, dropped at the
old end when no report to come needs their slices. Beside them stands an outline of the tree, a few hundred bytes. Small
pages are merged level by level, so that their number stays logarithmic and each partial is written a few times at most.
Everything else keeps a *journal*: what came in, and now and then, when the journal has outgrown it, a snapshot.

A micro-batch thus writes in proportion to what it brought. A worker that has kept a bucket from an earlier micro-batch
catches up with the pages since; `recent` lists the commits that are known to be true, so that a bucket that took part
in an attempt which failed is recognised and thrown away.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panewise.runtime.spark.bucket import Bucket
from panewise.runtime.spark.marks import Marks
from panewise.runtime.spark.packing import Packet
from panewise.runtime.spark.program import Program, Version
from panewise.slicing.open_slices import INT64_MIN
from panewise.state.snapshot_format import dumped, loaded

RECENT = 16
PAGES_PER_LEVEL = 12
JOURNAL_LEAST = 256 * 1024
PAGE_MOST = 4 << 20  # bytes: the JVM holds a page several times over while it takes it
APART = -1  # the level of pages that are too large to be merged


class Store(Protocol):
    """The state store, for one bucket: a head and numbered pages."""

    def head(self) -> bytes | None: ...
    def set_head(self, data: bytes) -> None: ...
    def page(self, number: int) -> bytes: ...
    def set_page(self, number: int, data: bytes) -> None: ...
    def drop_page(self, number: int) -> None: ...
    def clear(self) -> None: ...


@dataclass
class Page:
    """Where a page came from and until when it is needed: `until` is the greatest end of its slices."""

    number: int
    level: int
    first_batch: int
    last_batch: int
    since: int
    until: int
    size: int

    def to_list(self) -> list[int]:
        return [self.number, self.level, self.first_batch, self.last_batch, self.since, self.until, self.size]


@dataclass
class Head:
    """What the store knows of a bucket besides its pages."""

    version: int
    recent: list[tuple[int, str]]  # (micro-batch, token) of the last commits
    pages: list[Page] = field(default_factory=list)
    next_page: int = 0
    snapshot_page: int | None = None
    body: dict[str, Any] = field(default_factory=dict)
    written: int = 0  # bytes that the last micro-batch wrote

    @property
    def batch(self) -> int:
        return self.recent[-1][0]

    @property
    def bytes_stored(self) -> int:
        return sum(page.size for page in self.pages)

    def packed(self) -> bytes:
        return dumped(vars(self) | {"pages": [page.to_list() for page in self.pages], "written": 0})

    @staticmethod
    def unpacked(data: bytes) -> Head:
        fields = loaded(data)
        fields["pages"] = [Page(*page) for page in fields["pages"]]
        fields["recent"] = [(batch, token) for batch, token in fields["recent"]]
        return Head(**fields)

    def add_page(self, store: Store, data: bytes, level: int, batches: tuple[int, int], span: tuple[int, int]) -> Page:
        page = Page(self.next_page, level, *batches, *span, len(data))
        store.set_page(page.number, data)
        self.pages.append(page)
        self.next_page += 1
        self.written += len(data)
        return page

    def drop(self, store: Store, pages: list[Page]) -> None:
        for page in pages:
            store.drop_page(page.number)
            self.pages.remove(page)


@dataclass
class Kept:
    """A bucket in a worker, and the commit that it is the state of."""

    bucket: Bucket
    batch: int
    token: str
    size: int


def opened(
    store: Store, program: Program, fragment_number: int, version: Version, marks: Marks, kept: Kept | None
) -> tuple[Bucket, Head]:
    """The bucket as the store has it: the kept one, brought up to date, or one that is built anew."""
    fragment = program.fragments[fragment_number]
    data = store.head()
    head = Head(-1, []) if data is None else Head.unpacked(data)
    if head.version >= 0 and _was_gone(program, fragment_number, head.version, version.number):
        # Nobody has told the bucket, because the driver died before it could; the rows of that time are not here.
        store.clear()
        head = Head(-1, [])
    if head.version < 0:
        stream = version.streams[fragment.stream]
        return Bucket(program, fragment, stream), head
    layout = _Pages if fragment.tree else _Journal
    known = kept is not None and kept.bucket.program is program and (kept.batch, kept.token) in head.recent
    if known and kept is not None and (kept.batch == head.batch or layout.catch_up(kept, head, store)):
        return kept.bucket, head
    stream = program.versions[head.version].streams[fragment.stream]
    bucket = Bucket(program, fragment, stream)
    layout.build(bucket, head, store, marks)
    return bucket, head


def _was_gone(program: Program, fragment: int, since: int, until: int) -> bool:
    """Whether a fragment had no queries in one of the versions after `since`."""
    return any(fragment not in program.versions[n].fragment_numbers for n in range(since + 1, until + 1))


def committed(store: Store, bucket: Bucket, head: Head, packets: list[bytes], batch: int) -> Kept:
    """Writes what the micro-batch has changed."""
    layout = _Pages if bucket.fragment.tree else _Journal
    head.version = bucket.version
    token = uuid.uuid4().hex[:16]
    head.recent = [*head.recent[-(RECENT - 1) :], (batch, token)]
    layout.write(bucket, head, store, packets, batch)
    data = head.packed()
    store.set_head(data)
    head.written += len(data)
    return Kept(bucket, batch, token, bucket.bytes_held)


class _Pages:
    """Trees: pages of partials."""

    @staticmethod
    def catch_up(kept: Kept, head: Head, store: Store) -> bool:
        bucket = kept.bucket
        tree = bucket.tree
        if tree is None or head.version != bucket.version or head.body.get("failed") != bucket.failures:
            return False
        if head.body["outline"] is None or any(p.first_batch <= kept.batch < p.last_batch for p in head.pages):
            return False
        for page in head.pages:
            if page.first_batch > kept.batch:
                for partials, base in _partials_of(store.page(page.number)):
                    tree.merge(partials, base)
        tree.forward(head.body["watermark"])
        tree.adopt(head.body["outline"])
        _set_progress(bucket, head)
        return True

    @staticmethod
    def build(bucket: Bucket, head: Head, store: Store, marks: Marks) -> None:
        bucket.become(bucket.program.versions[head.version], marks)
        for name, reason in head.body["failed"].items():
            bucket.fail(name, reason)
        tree = bucket.tree
        _set_progress(bucket, head)
        if tree is not None and head.body["outline"] is not None:
            pages = [part for page in head.pages for part in _partials_of(store.page(page.number))]
            tree.rebuild(head.body["outline"], pages)
        for query in bucket.hosting.queries.values():
            query.read()

    @staticmethod
    def write(bucket: Bucket, head: Head, store: Store, packets: list[bytes], batch: int) -> None:
        tree = bucket.tree
        progress = bucket.progress
        head.body = {
            "outline": None if tree is None else tree.outline(),
            "watermark": bucket.channel.watermark,
            "greatest": progress.greatest,
            "floor": progress.floor,
            "arrived": bucket.arrived,
            "rows_seen": bucket.channel.rows_seen,
            "begun_at": bucket.channel.begun_at,
            "failed": bucket.failures,
        }
        needed = INT64_MIN if tree is None else tree.needed_from
        head.drop(store, [page for page in head.pages if page.until <= needed or tree is None])
        parts = [(_still_needed(partials, needed), base) for partials, base in bucket.merged]
        parts = [(partials, base) for partials, base in parts if partials.num_rows]
        if not parts or tree is None:
            return
        _add_page(head, store, parts, 0, (batch, batch))
        _merge_levels(bucket, head, store, needed)


class _Journal:
    """Everything else: what came in since the last snapshot."""

    @staticmethod
    def catch_up(kept: Kept, head: Head, store: Store) -> bool:
        later = [page for page in head.pages if page.last_batch > kept.batch]
        if head.snapshot_page is not None and any(page.number == head.snapshot_page for page in later):
            return False
        return False if head.body["versions_changed_at"] > kept.batch else _Journal._replay(kept.bucket, later, store)

    @staticmethod
    def _replay(bucket: Bucket, pages: list[Page], store: Store, marks: Marks | None = None) -> bool:
        for page in pages:
            entry = loaded(store.page(page.number))
            if marks is not None:
                bucket.become(bucket.program.versions[entry["version"]], marks)
            packets = entry["packets"].column(0).to_pylist()
            bucket.take([Packet.unpacked(packet) for packet in packets])
            for query in bucket.hosting.queries.values():
                query.read()
        return True

    @staticmethod
    def build(bucket: Bucket, head: Head, store: Store, marks: Marks) -> None:
        pages = list(head.pages)
        if head.snapshot_page is not None:
            bucket.restore(loaded(store.page(head.snapshot_page)), marks)
            pages = [page for page in pages if page.number != head.snapshot_page]
        _Journal._replay(bucket, pages, store, marks)
        bucket.become(bucket.program.versions[head.version], marks)
        for query in bucket.hosting.queries.values():
            query.read()

    @staticmethod
    def write(bucket: Bucket, head: Head, store: Store, packets: list[bytes], batch: int) -> None:
        if head.body.get("version") != bucket.version:
            head.body = {"version": bucket.version, "versions_changed_at": batch}
        entry = {"version": bucket.version, "packets": pa.record_batch({"packet": pa.array(packets, pa.binary())})}
        data = dumped(entry)
        snapshot = next((page for page in head.pages if page.number == head.snapshot_page), None)
        journal = head.bytes_stored - (snapshot.size if snapshot else 0) + len(data)
        if journal > max(JOURNAL_LEAST, snapshot.size if snapshot else 0):
            old = list(head.pages)
            page = head.add_page(store, dumped(bucket.snapshot()), 0, (0, batch), (0, 0))
            head.snapshot_page = page.number
            head.drop(store, old)
            return
        head.add_page(store, data, 0, (batch, batch), (0, 0))


def _set_progress(bucket: Bucket, head: Head) -> None:
    bucket.progress.greatest, bucket.progress.floor = head.body["greatest"], head.body["floor"]
    bucket.arrived = head.body["arrived"]
    channel = bucket.channel
    channel.watermark, channel.rows_seen = head.body["watermark"], head.body["rows_seen"]
    channel.begun_at = head.body["begun_at"]
    for query in bucket.hosting.queries.values():
        query.watermark = max(query.watermark, channel.watermark)


def _still_needed(partials: pa.RecordBatch, needed: int) -> pa.RecordBatch:
    if needed == INT64_MIN:
        return partials
    return partials.filter(pc.greater(partials.column("slice_end"), needed))


def _partials_of(data: bytes) -> list[tuple[pa.RecordBatch, int]]:
    return [(partials, base) for partials, base in loaded(data)]


def _add_page(
    head: Head, store: Store, parts: list[tuple[pa.RecordBatch, int]], level: int, batches: tuple[int, int]
) -> None:
    if sum(partials.nbytes for partials, _ in parts) > PAGE_MOST:
        level, pages = APART, [[(piece, base)] for partials, base in parts for piece in _pieces(partials)]
    else:
        pages = [parts]
    for page in pages:
        since = min(pc.min(partials.column("slice_start")).as_py() for partials, _ in page)
        until = max(pc.max(partials.column("slice_end")).as_py() for partials, _ in page)
        head.add_page(store, dumped([list(part) for part in page]), level, batches, (since, until))


def _pieces(partials: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Partials in runs of rows of bounded size, each with dictionaries of its own values alone."""
    rows = max(1, partials.num_rows * PAGE_MOST // max(1, partials.nbytes))
    for begin in range(0, partials.num_rows, rows):
        cut = partials.slice(begin, rows)
        columns = [_own_dictionary(column) if pa.types.is_dictionary(column.type) else column for column in cut.columns]
        yield pa.RecordBatch.from_arrays(columns, names=partials.schema.names)


def _own_dictionary(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """Columns that shared their indices share them still: what is done depends on the indices alone."""
    present = column.indices.is_valid().to_numpy(zero_copy_only=False)
    numbers = column.indices.fill_null(0).to_numpy(zero_copy_only=False)
    live, places = np.unique(numbers[present], return_inverse=True)
    indices = np.zeros(len(numbers), np.int32)
    indices[present] = places.reshape(-1)
    return pa.DictionaryArray.from_arrays(pa.array(indices, mask=~present), column.dictionary.take(pa.array(live)))


def _merge_levels(bucket: Bucket, head: Head, store: Store, needed: int) -> None:
    """Many small pages become one, unless it would span so much time that it would outlive its slices for long."""
    tree = bucket.tree
    assert tree is not None
    reach = max((m.cadence.range or 0) + m.cadence.offset for m in tree.members.values()) if tree.members else 0
    level = 0
    while len(run := [page for page in head.pages if page.level == level]) >= PAGES_PER_LEVEL:
        if max(p.until for p in run) - min(max(p.since, needed) for p in run) > max(reach // 4, 1):
            return
        scratch = tree.like()
        for page in run:
            for partials, base in _partials_of(store.page(page.number)):
                kept = _still_needed(partials, needed)
                if kept.num_rows:
                    scratch.merge(kept, base)
        merged = scratch.take_partials()
        batches = min(p.first_batch for p in run), max(p.last_batch for p in run)
        head.drop(store, run)
        if merged is not None:
            _add_page(head, store, [(merged, 0)], level + 1, batches)
        level += 1
