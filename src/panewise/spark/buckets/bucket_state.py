"""The state of a bucket in Spark's state store, and how a bucket comes back from it.

Two layouts. Trees keep *pages* (`tree_pages.py`): the partials that micro-batches brought. Everything else keeps a
*journal* (`row_journal.py`): what came in, as long as it is needed, or since the last snapshot.

A micro-batch thus writes in proportion to what it brought. A worker that has kept a bucket from an earlier micro-batch
catches up with the pages since; the head's `recent` lists the commits that are known to be true, so that a bucket that
took part in an attempt which failed is recognised and thrown away. Definitions that have changed since do not matter
where the bucket's own `FragmentPlan` is equal in all versions: it is then brought to the version by its number alone.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from panewise.spark.buckets.bucket import Bucket
from panewise.spark.buckets.bucket_head import Head, Store
from panewise.spark.buckets.row_journal import RowJournal
from panewise.spark.buckets.tree_pages import TreePages
from panewise.spark.program.program import Program
from panewise.spark.program.version import Version
from panewise.spark.tasks.batch_progress import Marks

RECENT = 16


@dataclass
class KeptBucket:
    """A bucket in a worker, and the commit that it is the state of."""

    bucket: Bucket
    batch: int
    token: str
    size: int


def opened(
    store: Store, program: Program, fragment_number: int, version: Version, marks: Marks, kept: KeptBucket | None
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
        return Bucket(program, fragment, version), head
    layout = TreePages if fragment.tree else RowJournal
    if kept is not None and not ((kept.batch, kept.token) in head.recent and kept.bucket.go_on_in(program)):
        kept = None
    if kept is not None and (kept.batch == head.batch or layout.catch_up(kept.bucket, kept.batch, head, store, marks)):
        return kept.bucket, head
    bucket = Bucket(program, fragment, program.version(head.version))
    layout.build(bucket, head, store, marks)
    return bucket, head


def _was_gone(program: Program, fragment: int, since: int, until: int) -> bool:
    """Whether a fragment had no queries in one of the versions after `since`."""
    return any(fragment not in version.fragment_numbers for version in program.between(since, until))


def committed(store: Store, bucket: Bucket, head: Head, packets: list[bytes], batch: int) -> KeptBucket:
    """Writes what the micro-batch has changed."""
    layout = TreePages if bucket.fragment.tree else RowJournal
    head.version = bucket.version
    token = uuid.uuid4().hex[:16]
    head.recent = [*head.recent[-(RECENT - 1) :], (batch, token)]
    layout.write(bucket, head, store, packets, batch)
    data = head.packed()
    store.set_head(data)
    head.written += len(data)
    return KeptBucket(bucket, batch, token, bucket.bytes_held)
