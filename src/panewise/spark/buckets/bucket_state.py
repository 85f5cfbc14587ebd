"""The state of a bucket in Spark's state store: how it is written, and how the bucket is restored from it.

There are two layouts. Folded fragments keep *pages* (`family_pages.py`) of the partials that micro-batches brought. Row
fragments keep a *journal* (`row_journal.py`) of the rows that they still need, or of all since the last snapshot. So a
micro-batch writes in proportion to what it brought.

A worker may have kept a bucket from an earlier micro-batch; it then reads only the pages since. The head's `recent`
lists the last successful commits: a bucket of another commit belongs to a failed attempt and is thrown away. A kept
bucket survives changes of definitions if its `FragmentPlan` is equal in all versions in between; only its version
number changes.
"""

from __future__ import annotations

from dataclasses import dataclass

from panewise.spark.buckets.bucket import Bucket
from panewise.spark.buckets.bucket_head import Head, Store
from panewise.spark.buckets.family_pages import FamilyPages
from panewise.spark.buckets.row_journal import RowJournal
from panewise.spark.program.program import Program
from panewise.spark.program.version import Version
from panewise.spark.tasks.batch_progress import Marks


@dataclass
class KeptBucket:
    """A bucket that a worker has kept, and the commit after which it had this state."""

    bucket: Bucket
    batch: int
    token: str
    size: int


def opened(
    store: Store, program: Program, fragment_number: int, version: Version, marks: Marks, kept: KeptBucket | None
) -> tuple[Bucket, Head]:
    """The bucket in the state of the store: the kept one, brought up to date, or one that is built anew."""
    fragment = program.fragments[fragment_number]
    data = store.head()
    head = Head(-1, []) if data is None else Head.unpacked(data)
    if head.version >= 0 and _was_gone(program, fragment_number, head.version, version.number):
        # The driver died before it could tell the bucket. The rows of the time without queries are missing here.
        store.clear()
        head = Head(-1, [])
    if head.version < 0:
        return Bucket(program, fragment, version), head
    layout = FamilyPages if fragment.is_folded else RowJournal
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
    """Writes what the micro-batch has changed, as a new commit."""
    layout = FamilyPages if bucket.fragment.is_folded else RowJournal
    token = head.begin_commit(bucket.version, batch)
    layout.write(bucket, head, store, packets, batch)
    head.commit(store)
    return KeptBucket(bucket, batch, token, bucket.bytes_held)
