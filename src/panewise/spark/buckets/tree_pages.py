"""The state of a bucket of trees: pages of the partials that it was fed, and an outline of each tree.

A micro-batch appends one page with what it brought for all trees; beside the pages, in the head, stands an outline of
each tree, a few hundred bytes. Small pages are merged level by level, so that their number stays logarithmic and each
partial is written a few times at most.

    page 7, level 1: [tree 1: partials | tree 4: partials]    page 8, level 0: [tree 1 | tree 1 | tree 5]

A part of a page is *dead* when no report of its tree needs its slices any more, or when the tree is gone. A page whose
parts are all dead is dropped; one that is dead for half or more is written again without them. So state is at most
about twice what trees need, whatever their ranges, and every byte that is written again pays for one that goes.

Invariant: of the slices that begin at a tree's `needed_from` or later, every partial is there. A number is one tree's
for good (`program.py`), so no tree ever finds partials of another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panewise.arrays import INT64_MIN
from panewise.operators.family.family import Family
from panewise.spark.buckets.bucket import Bucket, TreePart
from panewise.spark.buckets.bucket_head import Head, Page, PagePart, Store
from panewise.spark.tasks.batch_progress import Marks
from panewise.state.snapshot_format import dumped, loaded

PAGES_PER_LEVEL = 12
PAGE_MOST = 4 << 20  # bytes: the JVM holds a page several times over while it takes it
APART = -1  # the level of pages that are too large to be merged


class TreePages:
    """The layout, as `bucket_state.py` asks for it."""

    @staticmethod
    def catch_up(bucket: Bucket, since: int, head: Head, store: Store, marks: Marks) -> bool:
        """A bucket as it was after micro-batch `since` becomes the one of the head, if the pages still say how."""
        trees, outlines = bucket.trees, head.body["outlines"]
        if head.body["failed"] != bucket.failures or trees.keys() != outlines.keys():
            return False
        if any(page.first_batch <= since < page.last_batch for page in head.pages):
            return False
        if not bucket.goes_on_until(head.version):
            return False
        bucket.become(bucket.program.version(head.version), marks)
        for part in _read(store, (page for page in head.pages if page.first_batch > since)):
            if part.tree in trees:
                trees[part.tree].merge(part.partials, part.base)
        for number, tree in trees.items():
            tree.forward(head.body["watermark"])
            tree.adopt(outlines[number])
        _set_progress(bucket, head)
        return True

    @staticmethod
    def build(bucket: Bucket, head: Head, store: Store, marks: Marks) -> None:
        """A fresh bucket becomes the one of the head."""
        bucket.become(bucket.program.version(head.version), marks)
        for name, reason in head.body["failed"].items():
            bucket.fail(name, reason)
        _set_progress(bucket, head)
        merged: dict[int, list[tuple[pa.RecordBatch, int]]] = {number: [] for number in bucket.trees}
        for part in _read(store, head.pages):
            if part.tree in merged:
                merged[part.tree].append((part.partials, part.base))
        for number, tree in bucket.trees.items():
            tree.rebuild(head.body["outlines"][number], merged[number])
        for query in bucket.hosting.queries.values():
            query.read()

    @staticmethod
    def write(bucket: Bucket, head: Head, store: Store, packets: list[bytes], batch: int) -> None:
        trees, main = bucket.trees, bucket.main
        progress = main.progress
        head.body = {
            "outlines": {number: tree.outline() for number, tree in trees.items()},
            "watermark": main.channel.watermark,
            "greatest": progress.greatest,
            "floor": progress.floor,
            "arrived": main.arrived,
            "rows_seen": main.channel.rows_seen,
            "failed": bucket.failures,
        }
        needed = {number: tree.needed_from for number, tree in trees.items()}
        _clear_away(head, store, needed)
        _add_page(head, store, _still_needed(bucket.merged, needed), 0, (batch, batch))
        _merge_levels(trees, head, store, needed)


def _set_progress(bucket: Bucket, head: Head) -> None:
    main = bucket.main
    main.progress.greatest, main.progress.floor = head.body["greatest"], head.body["floor"]
    main.arrived = head.body["arrived"]
    channel = main.channel
    channel.watermark, channel.rows_seen = head.body["watermark"], head.body["rows_seen"]
    for query in bucket.hosting.queries.values():
        query.go_on_at(channel.watermark)


# -- pages -----------------------------------------------------------------------------------------------------------


def _read(store: Store, pages: Iterable[Page]) -> Iterator[TreePart]:
    """What pages hold, in the order in which it came."""
    for page in sorted(pages, key=lambda page: page.first_batch):
        for tree, partials, base in loaded(store.page(page.number)):
            yield TreePart(tree, partials, base)


def _still_needed(parts: Iterable[TreePart], needed: Mapping[int, int]) -> list[TreePart]:
    """What trees need: of each part the slices that begin at its tree's `needed_from` or later.

    Older ones may reach over a cut that is forgotten by now, and would not fit beside those after it.
    """
    found = []
    for part in parts:
        if part.tree not in needed:
            continue
        if needed[part.tree] != INT64_MIN:
            starts = part.partials.column("slice_start")
            part = replace(part, partials=part.partials.filter(pc.greater_equal(starts, needed[part.tree])))
        if part.partials.num_rows:
            found.append(part)
    return found


def _add_page(head: Head, store: Store, parts: list[TreePart], level: int, batches: tuple[int, int]) -> None:
    """One page more, or several where it would be too large; none where there is nothing."""
    pages = [parts] if parts else []
    if sum(part.partials.nbytes for part in parts) > PAGE_MOST:
        level, pages = APART, [[replace(part, partials=piece)] for part in parts for piece in _pieces(part.partials)]
    for page in pages:
        head.add_page(store, _dumped(page), level, batches, _parts_of(page))


def _dumped(parts: list[TreePart]) -> bytes:
    return dumped([[part.tree, part.partials, part.base] for part in parts])


def _parts_of(parts: list[TreePart]) -> list[PagePart]:
    by_tree: dict[int, list[pa.RecordBatch]] = {}
    for part in parts:
        by_tree.setdefault(part.tree, []).append(part.partials)
    return [
        PagePart(
            tree,
            min(pc.min(partials.column("slice_start")).as_py() for partials in found),
            max(pc.max(partials.column("slice_end")).as_py() for partials in found),
            sum(partials.nbytes for partials in found),
        )
        for tree, found in by_tree.items()
    ]


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


# -- going and merging -----------------------------------------------------------------------------------------------


def _live(page: Page, needed: Mapping[int, int]) -> list[PagePart]:
    return [part for part in page.parts if part.tree in needed and part.until > needed[part.tree]]


def _clear_away(head: Head, store: Store, needed: Mapping[int, int]) -> None:
    """Pages that nobody needs go; those that hold little else are written again without it."""
    for page in list(head.pages):
        live = _live(page, needed)
        if not live:
            head.drop(store, [page])
        elif len(live) < len(page.parts) and 2 * _size(live) <= _size(page.parts):
            kept = _still_needed(_read(store, [page]), needed)
            head.write_page(store, page, _dumped(kept), _parts_of(kept))


def _size(parts: list[PagePart]) -> int:
    return sum(part.size for part in parts)


def _merge_levels(trees: Mapping[int, Family], head: Head, store: Store, needed: Mapping[int, int]) -> None:
    """The oldest pages of a level, once there are many, become one of the next."""
    level = 0
    while level <= max((page.level for page in head.pages), default=APART):
        found = sorted((page for page in head.pages if page.level == level), key=lambda page: page.first_batch)
        run = found[:PAGES_PER_LEVEL]
        if len(run) == PAGES_PER_LEVEL and _may_merge(run, trees, needed):
            parts = _merged(trees, _still_needed(_read(store, run), needed))
            batches = min(page.first_batch for page in run), max(page.last_batch for page in run)
            head.drop(store, run)
            _add_page(head, store, parts, level + 1, batches)
        level += 1


def _may_merge(run: list[Page], trees: Mapping[int, Family], needed: Mapping[int, int]) -> bool:
    """Not where a page would span so much of a tree's time that it would outlive the tree's slices for long."""
    spans: dict[int, tuple[int, int]] = {}
    for part in (part for page in run for part in _live(page, needed)):
        since, until = spans.get(part.tree, (part.until, part.until))
        spans[part.tree] = min(since, max(part.since, needed[part.tree])), max(until, part.until)
    return all(until - since <= max(trees[tree].reach // 4, 1) for tree, (since, until) in spans.items())


def _merged(trees: Mapping[int, Family], parts: list[TreePart]) -> list[TreePart]:
    """Each tree's parts as one."""
    by_tree: dict[int, list[TreePart]] = {}
    for part in parts:
        by_tree.setdefault(part.tree, []).append(part)
    found = []
    for number, own in by_tree.items():
        if len(own) == 1:
            found.append(own[0])
            continue
        scratch = trees[number].like()
        for part in own:
            scratch.merge(part.partials, part.base)
        merged = scratch.take_partials()
        assert merged is not None
        found.append(TreePart(number, merged, 0))
    return found
