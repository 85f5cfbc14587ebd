"""The state of a bucket of a folded fragment: pages of partials, and an outline of each family.

A micro-batch appends one page with its partials of all families. The head holds an outline of each family, a few
hundred bytes. Small pages are merged level by level, so that their number stays logarithmic and each partial is written
a few times at most.

    page 7, level 1: [family 1: partials | family 4: partials]    page 8, level 0: [family 1 | family 1 | family 5]

A part of a page is *dead* when its family is gone, or when no later report of the family needs its slices. A page whose
parts are all dead is dropped. A page that is dead for half of its bytes or more is written again without the dead
parts. So the state is at most about twice what families need, whatever their ranges, and no more bytes are rewritten
than are dropped.

Invariant: the pages have every partial of the slices that begin at a family's `needed_from` or later. The number of a
family is never used again (`program.py`), so no family finds partials of another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panewise.arrays import INT64_MIN
from panewise.operators.family.family import Family
from panewise.spark.buckets.bucket import Bucket, FamilyPart
from panewise.spark.buckets.bucket_head import Head, Page, PagePart, Store
from panewise.spark.tasks.batch_progress import Marks
from panewise.state.snapshot_format import dumped, loaded

PAGES_PER_LEVEL = 12
PAGE_MOST = 4 << 20  # bytes; the JVM holds several copies of a page while it stores it
APART = -1  # level of pages that are too large to be merged


class FamilyPages:
    """The layout of folded fragments. `bucket_state.py` calls it."""

    @staticmethod
    def catch_up(bucket: Bucket, since: int, head: Head, store: Store, marks: Marks) -> bool:
        """Brings a bucket from the end of micro-batch `since` to the head; False if the pages no longer allow it."""
        families, outlines = bucket.families, head.body["outlines"]
        if head.body["failed"] != bucket.failures or families.keys() != outlines.keys():
            return False
        if any(page.first_batch <= since < page.last_batch for page in head.pages):
            return False
        if not bucket.goes_on_until(head.version):
            return False
        bucket.become(bucket.program.version(head.version), marks)
        for part in _read(store, (page for page in head.pages if page.first_batch > since)):
            if part.family in families:
                families[part.family].merge(part.partials, part.base)
        for number, family in families.items():
            family.forward(head.body["watermark"])
            family.adopt(outlines[number])
        _set_progress(bucket, head)
        return True

    @staticmethod
    def build(bucket: Bucket, head: Head, store: Store, marks: Marks) -> None:
        """Brings a new bucket to the head."""
        bucket.become(bucket.program.version(head.version), marks)
        for name, reason in head.body["failed"].items():
            bucket.fail(name, reason)
        _set_progress(bucket, head)
        merged: dict[int, list[tuple[pa.RecordBatch, int]]] = {number: [] for number in bucket.families}
        for part in _read(store, head.pages):
            if part.family in merged:
                merged[part.family].append((part.partials, part.base))
        for number, family in bucket.families.items():
            family.rebuild(head.body["outlines"][number], merged[number])
        for query in bucket.hosting.queries.values():
            query.read()

    @staticmethod
    def write(bucket: Bucket, head: Head, store: Store, packets: list[bytes], batch: int) -> None:
        families, main = bucket.families, bucket.main
        progress = main.progress
        head.body = {
            "outlines": {number: family.outline() for number, family in families.items()},
            "watermark": main.channel.watermark,
            "greatest": progress.greatest,
            "floor": progress.floor,
            "arrived": main.arrived,
            "rows_seen": main.channel.rows_seen,
            "failed": bucket.failures,
        }
        needed = {number: family.needed_from for number, family in families.items()}
        _clear_away(head, store, needed)
        _add_page(head, store, _still_needed(bucket.merged, needed), 0, (batch, batch))
        _merge_levels(families, head, store, needed)


def _set_progress(bucket: Bucket, head: Head) -> None:
    body = head.body
    bucket.main.resume(body["greatest"], body["floor"], body["arrived"], body["rows_seen"])
    bucket.main.channel.stand_at(body["watermark"])
    for query in bucket.hosting.queries.values():
        query.go_on_at(body["watermark"])


# -- pages -----------------------------------------------------------------------------------------------------------


def _read(store: Store, pages: Iterable[Page]) -> Iterator[FamilyPart]:
    """The parts of pages, in the order in which they arrived."""
    for page in sorted(pages, key=lambda page: page.first_batch):
        for family, partials, base in loaded(store.page(page.number)):
            yield FamilyPart(family, partials, base)


def _still_needed(parts: Iterable[FamilyPart], needed: Mapping[int, int]) -> list[FamilyPart]:
    """Keeps of each part the slices that begin at its family's `needed_from` or later.

    Older slices may cross a cut that is forgotten by now, and would overlap the slices after it.
    """
    found = []
    for part in parts:
        if part.family not in needed:
            continue
        if needed[part.family] != INT64_MIN:
            starts = part.partials.column("slice_start")
            part = replace(part, partials=part.partials.filter(pc.greater_equal(starts, needed[part.family])))
        if part.partials.num_rows:
            found.append(part)
    return found


def _add_page(head: Head, store: Store, parts: list[FamilyPart], level: int, batches: tuple[int, int]) -> None:
    """Adds one page, or several if it would exceed PAGE_MOST; no page if there are no parts."""
    pages = [parts] if parts else []
    if sum(part.partials.nbytes for part in parts) > PAGE_MOST:
        level, pages = APART, [[replace(part, partials=piece)] for part in parts for piece in _pieces(part.partials)]
    for page in pages:
        head.add_page(store, _dumped(page), level, batches, _parts_of(page))


def _dumped(parts: list[FamilyPart]) -> bytes:
    return dumped([[part.family, part.partials, part.base] for part in parts])


def _parts_of(parts: list[FamilyPart]) -> list[PagePart]:
    by_family: dict[int, list[pa.RecordBatch]] = {}
    for part in parts:
        by_family.setdefault(part.family, []).append(part.partials)
    return [
        PagePart(
            family,
            min(pc.min(partials.column("slice_start")).as_py() for partials in found),
            max(pc.max(partials.column("slice_end")).as_py() for partials in found),
            sum(partials.nbytes for partials in found),
        )
        for family, found in by_family.items()
    ]


def _pieces(partials: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cuts partials into runs of rows of bounded size; the dictionaries of each hold only its own values."""
    rows = max(1, partials.num_rows * PAGE_MOST // max(1, partials.nbytes))
    for begin in range(0, partials.num_rows, rows):
        cut = partials.slice(begin, rows)
        columns = [_own_dictionary(column) if pa.types.is_dictionary(column.type) else column for column in cut.columns]
        yield pa.RecordBatch.from_arrays(columns, names=partials.schema.names)


def _own_dictionary(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """A column with only the values in use. Columns with equal indices keep equal indices: nothing else decides."""
    present = column.indices.is_valid().to_numpy(zero_copy_only=False)
    numbers = column.indices.fill_null(0).to_numpy(zero_copy_only=False)
    live, places = np.unique(numbers[present], return_inverse=True)
    indices = np.zeros(len(numbers), np.int32)
    indices[present] = places.reshape(-1)
    return pa.DictionaryArray.from_arrays(pa.array(indices, mask=~present), column.dictionary.take(pa.array(live)))


# -- going and merging -----------------------------------------------------------------------------------------------


def _live(page: Page, needed: Mapping[int, int]) -> list[PagePart]:
    return [part for part in page.parts if part.owner in needed and part.until > needed[part.owner]]


def _clear_away(head: Head, store: Store, needed: Mapping[int, int]) -> None:
    """Drops pages whose parts are all dead; rewrites pages of which half or more is dead."""
    for page in list(head.pages):
        live = _live(page, needed)
        if not live:
            head.drop(store, [page])
        elif len(live) < len(page.parts) and 2 * _size(live) <= _size(page.parts):
            kept = _still_needed(_read(store, [page]), needed)
            head.write_page(store, page, _dumped(kept), _parts_of(kept))


def _size(parts: list[PagePart]) -> int:
    return sum(part.size for part in parts)


def _merge_levels(families: Mapping[int, Family], head: Head, store: Store, needed: Mapping[int, int]) -> None:
    """Merges the oldest pages of a level into one of the next level, once there are PAGES_PER_LEVEL."""
    level = 0
    while level <= max((page.level for page in head.pages), default=APART):
        found = sorted((page for page in head.pages if page.level == level), key=lambda page: page.first_batch)
        run = found[:PAGES_PER_LEVEL]
        if len(run) == PAGES_PER_LEVEL and _may_merge(run, families, needed):
            parts = _merged(families, _still_needed(_read(store, run), needed))
            batches = min(page.first_batch for page in run), max(page.last_batch for page in run)
            head.drop(store, run)
            _add_page(head, store, parts, level + 1, batches)
        level += 1


def _may_merge(run: list[Page], families: Mapping[int, Family], needed: Mapping[int, int]) -> bool:
    """False if the page would span more than a quarter of a family's reach, and so keep dead slices for long."""
    spans: dict[int, tuple[int, int]] = {}
    for part in (part for page in run for part in _live(page, needed)):
        since, until = spans.get(part.owner, (part.until, part.until))
        spans[part.owner] = min(since, max(part.since, needed[part.owner])), max(until, part.until)
    return all(until - since <= max(families[family].reach // 4, 1) for family, (since, until) in spans.items())


def _merged(families: Mapping[int, Family], parts: list[FamilyPart]) -> list[FamilyPart]:
    """Merges the parts of each family into one."""
    by_family: dict[int, list[FamilyPart]] = {}
    for part in parts:
        by_family.setdefault(part.family, []).append(part)
    found = []
    for number, own in by_family.items():
        if len(own) == 1:
            found.append(own[0])
            continue
        scratch = families[number].like()
        for part in own:
            scratch.merge(part.partials, part.base)
        merged = scratch.take_partials()
        assert merged is not None
        found.append(FamilyPart(number, merged, 0))
    return found
