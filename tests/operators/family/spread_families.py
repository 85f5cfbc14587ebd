"""One tree, and the same queries spread over trees that fold and trees that merge, driven by one script.

        rows --+--> one tree ----------------------------------------------> reports
               +--> task 0: fold --+--> bucket 0: merge, advance --+
               +--> task 1: fold --+--> bucket 1: merge, advance --+-------> the same reports

Queries are CQL text over one stream; windows are drawn apart, as cadences. A bucket also has a shadow that catches up
without answering, and may be made anew from pages and an outline at any moment.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates import builtin as registry
from panewise.aggregates.aggregate_functions import AggregateFunction
from panewise.aggregates.user import user_aggregate
from panewise.arrays import INT64_MIN
from panewise.catalog import Catalog, StreamDefinition
from panewise.language.bind.binder import bind_one, parse
from panewise.operators.due_reports import EmptyReports
from panewise.operators.family.family import Family
from panewise.operators.row_batch import Rows
from panewise.plan.aggregation import Aggregation, aggregation_of
from panewise.plan.blocks import Block, block_of
from panewise.plan.build import build
from panewise.schema import BIGINT
from panewise.slicing.pairs import Cadence
from panewise.state.key_hash import split_by_bucket
from panewise.state.snapshot_format import dumped, loaded
from panewise.temporal import TimeWindow
from tests.engine.random_scripts import EPOCH, Script

TASKS = 3
NOTHING = np.empty(0, np.int64)


@cache
def user_aggregates() -> dict[str, AggregateFunction]:
    """One that depends on the order of rows, one of integers, one of two arguments."""
    made = [
        user_aggregate(
            "NEWEST", lift=lambda x: (x,), combine=lambda a, b: (b[0],), lower=lambda a: a[0], identity=(math.nan,)
        ),
        user_aggregate(
            "PARITY",
            lift=lambda x: (x,),
            combine=lambda a, b: (a[0] ^ b[0],),
            lower=lambda a: a[0],
            identity=(0,),
            returns=BIGINT,
        ),
        user_aggregate(
            "LARGEST_PRODUCT",
            lift=lambda x, y: (x * y,),
            combine=lambda a, b: (max(a[0], b[0]),),
            lower=lambda a: a[0],
            identity=(-math.inf,),
            arguments=2,
        ),
    ]
    return {function.name: function for function in made}


def find(name: str) -> AggregateFunction | None:
    return registry.find(name) or user_aggregates().get(name.upper())


@cache
def catalog() -> Catalog:
    made = Catalog()
    [parsed] = parse(Script(0, (), 0).stream)
    statement: Any = bind_one(parsed, made)
    made.add(StreamDefinition(statement.name, statement.schema, statement.timestamp, 0, ()))
    return made


@cache
def block(text: str) -> Block:
    """What a SELECT over the stream of random scripts means, whatever its window."""
    [parsed] = parse(f"CREATE QUERY q AS {text}")
    statement: Any = bind_one(parsed, catalog(), find, lambda: [*registry.names(), *user_aggregates()])
    return block_of(build(statement.query, find))


def aggregation(text: str, cadence: Cadence | None = None) -> Aggregation:
    """What it aggregates; the sub-windows of FREQUENT are those of the cadence."""
    meant = block(text)
    if cadence is not None:
        window = TimeWindow(cadence.range, cadence.slide, cadence.offset, cadence.align)
        meant = replace(meant, window=window)
    return aggregation_of(meant)


def rows_of(rows: list[dict[str, Any]], arrived: int) -> Rows:
    schema = catalog().get("t", "stream").schema.to_arrow()
    batch = pa.RecordBatch.from_pylist(rows, schema)
    times = [(row["ts"] - EPOCH) // timedelta(microseconds=1) for row in rows]
    return Rows(batch, np.array(times, np.int64), arrived)


@dataclass
class Bucket:
    """A merging tree, its shadow and the pages that it was fed."""

    tree: Family
    shadow: Family
    pages: list[tuple[pa.RecordBatch, int]] = field(default_factory=list)

    def prune(self) -> None:
        """Pages and rows of pages that the tree says nobody needs."""
        needed = self.tree.needed_from
        starts = [np.asarray(page.column("slice_start")) for page, _ in self.pages]
        self.pages = [
            (page.take(np.flatnonzero(start >= needed)), base)
            for (page, base), start in zip(self.pages, starts, strict=True)
            if (start >= needed).any()
        ]


class Spread:
    """A script's tree and the trees that are to say the same."""

    def __init__(self, keys: tuple[Any, ...], where: Any, buckets: int) -> None:
        self.keys, self.where = keys, where
        self.one = Family(keys, where)
        self.tasks = [Family(keys, where, folds_only=task > 0) for task in range(TASKS)]
        self.buckets = [Bucket(self.new(), self.new()) for _ in range(buckets if keys else 1)]
        self.texts: dict[str, tuple[str, Cadence]] = {}
        self.reached: int | None = None  # the greatest point of all rows so far
        self.watermark = INT64_MIN
        self.arrived = 0

    def new(self) -> Family:
        return Family(self.keys, self.where)

    @property
    def trees(self) -> list[Family]:
        return [self.one, *self.tasks, *(tree for bucket in self.buckets for tree in (bucket.tree, bucket.shadow))]

    # -- members -----------------------------------------------------------------------------------------------------

    def cut(self, ahead: int) -> int:
        """A point that no row has reached."""
        return INT64_MIN if self.reached is None else max(self.reached + 1, self.watermark) + ahead

    def add(self, name: str, text: str, cadence: Cadence, ahead: int) -> None:
        cut = self.cut(ahead)
        self.texts[name] = text, cadence
        for tree in self.trees:
            tree.add(name, aggregation(text, cadence), cadence, cut)

    def remove(self, choice: int, ahead: int) -> None:
        if len(self.texts) > 1:
            name = list(self.texts)[choice % len(self.texts)]
            cut = self.cut(ahead)
            del self.texts[name]
            for tree in self.trees:
                tree.remove(name, cut)

    # -- rows --------------------------------------------------------------------------------------------------------

    def step(self, rows: list[dict[str, Any]], shares: list[int], watermark: int) -> None:
        """A micro-batch: every tree takes its part, and all reports agree."""
        self.watermark = max(self.watermark, watermark)
        whole = rows_of(rows, self.arrived)
        if len(whole):
            self.reached = max(whole.latest, whole.latest if self.reached is None else self.reached)
        expected = self.one.process(whole, whole.times, self.watermark)
        begin = 0
        for task, share in zip(self.tasks, [*shares, len(rows)], strict=True):
            part = rows[begin : begin + share]
            begin += len(part)
            # In two pieces, as a worker reads a partition; numbered from 0.
            for piece, first in ((part[: len(part) // 2], 0), (part[len(part) // 2 :], len(part) // 2)):
                task.fold(rows_of(piece, first))
            self.exchange(task, self.arrived)
            self.arrived += len(part)
        found: dict[str, list[Any]] = {}
        for bucket in self.buckets:
            empty = rows_of([], 0)
            for name, pieces in bucket.tree.process(empty, NOTHING, self.watermark).items():
                found.setdefault(name, []).extend(pieces)
            bucket.shadow.forward(self.watermark)
            assert marks(bucket.shadow) == marks(bucket.tree), (marks(bucket.shadow), marks(bucket.tree))
            bucket.prune()
        self.agree(expected, found)
        for tree in self.trees:
            failures = tree.take_failures()
            assert not failures, failures

    def exchange(self, task: Family, base: int) -> None:
        notes = task.take_notes()
        assert not (notes and self.keys)
        partials = task.take_partials()
        parts: list[pa.RecordBatch | None] = [None] * len(self.buckets)
        if partials is not None:
            parts = split_by_bucket(partials, [f"key_{i}" for i in range(len(self.keys))], len(self.buckets))
        for bucket, part in zip(self.buckets, parts, strict=True):
            for tree in (bucket.tree, bucket.shadow):
                tree.note(notes)
            if part is not None:
                sent = loaded(dumped({"part": part}))["part"]
                bucket.pages.append((sent, base))
                for tree in (bucket.tree, bucket.shadow):
                    tree.merge(sent, base)

    # -- faults ------------------------------------------------------------------------------------------------------

    def rebuild(self, choice: int) -> None:
        bucket = self.buckets[choice % len(self.buckets)]
        bucket.tree = self.rebuilt(bucket)
        for name, member in bucket.tree.members.items():
            assert member.begun == self.one.members[name].begun or self.keys

    def rebuilt(self, bucket: Bucket) -> Family:
        tree = self.new()
        for name, (text, cadence) in self.texts.items():
            tree.add(name, aggregation(text, cadence), cadence, INT64_MIN)
        tree.rebuild(loaded(dumped(bucket.tree.outline())), bucket.pages)
        return tree

    def shadow(self, choice: int) -> None:
        """The tree that never answered takes over, and one made anew becomes its shadow."""
        bucket = self.buckets[choice % len(self.buckets)]
        outline = loaded(dumped(bucket.tree.outline()))
        fresh = self.rebuilt(bucket)
        bucket.shadow.adopt(outline)
        bucket.tree, bucket.shadow = bucket.shadow, fresh

    def fewer_pages(self, choice: int) -> None:
        """The pages become one."""
        bucket = self.buckets[choice % len(self.buckets)]
        scratch = bucket.tree.like()
        for page, base in bucket.pages:
            scratch.merge(page, base)
        merged = scratch.take_partials()
        bucket.pages = [] if merged is None else [(merged, 0)]

    def new_tasks(self) -> None:
        """Workers that have seen nothing so far, with the edges and marks of the others."""
        outline = self.tasks[0].outline()
        self.tasks = [self.new() for _ in self.tasks]
        for tree in self.tasks:
            for name, (text, cadence) in self.texts.items():
                tree.add(name, aggregation(text, cadence), cadence, INT64_MIN)
            tree.adopt(outline)

    # -- what came out -----------------------------------------------------------------------------------------------

    def agree(self, expected: dict[str, list[Any]], found: dict[str, list[Any]]) -> None:
        for name, (text, _) in self.texts.items():
            group = len(self.keys)
            ours = self.reports(name, found.get(name, []), group)
            theirs = self.reports(name, expected.get(name, []), group)
            assert ours.keys() == theirs.keys(), (text, self.texts[name])
            for key, values in theirs.items():
                assert all(map(same, ours[key], values)), (text, key, ours[key], values)

    def reports(self, name: str, pieces: list[Any], group: int) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        """The answers of reports by end and group."""
        result: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        for piece in pieces:
            batch = piece
            if isinstance(piece, EmptyReports):
                ends = piece.first + piece.slide * np.arange(piece.count, dtype=np.int64)
                batch = self.one.empty_batch(self.one.members[name], ends)
                if batch is None:
                    continue
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                key = tuple("NaN" if value != value else value for value in row[: 2 + group])
                assert key not in result, "a report comes once"
                result[key] = row[2 + group :]
        return result


def marks(tree: Family) -> list[Any]:
    members = [(name, member.reported, member.begun) for name, member in tree.members.items()]
    return [tree.watermark, tree.needed_from, tree.edges, members]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9) or (a != a and b != b)
    return bool(a == b)
