"""What holds from one micro-batch on: a version of the definitions, and how its queries are planned.

All of it is frozen, and equal by value. `program.py` makes it. What the buckets of one fragment are made of is a
`FragmentPlan`: a bucket goes on untouched from one version to the next, or in another process, where the two are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from panewise.catalog import (
    ArchiveDefinition,
    QueryDefinition,
    SinkDefinition,
    StreamDefinition,
    TableDefinition,
)
from panewise.language import statements as s
from panewise.language.expressions import Expression
from panewise.plan.blocks import Block
from panewise.plan.nodes import Emit, Scan
from panewise.plan.physical_plan import FamilyShape, PhysicalQuery, Way
from panewise.plan.placement import Placement


@dataclass(frozen=True)
class PlannedQuery:
    """A query that runs; `created` is the version that created it, `resumed` the last one that resumed it."""

    definition: QueryDefinition
    query: s.Query
    plan: Emit
    node: PhysicalQuery
    created: int
    fragment: int
    placement: Placement
    family: int = 0  # the number of its family; 0 where its fragment has none
    suspended: bool = False
    resumed: int | None = None

    @property
    def name(self) -> str:
        return self.definition.name.lower()

    @property
    def log_name(self) -> str:
        """Its name in the log and in marks: a query that is dropped and made anew is another one there."""
        return log_name(self.definition.name, self.created)

    @property
    def block(self) -> Block:
        return self.node.block

    @property
    def is_folded(self) -> bool:
        """Whether partials of its slices, folded anywhere and merged by group, are all that it needs."""
        return self.node.spread.way is Way.FOLDED


@dataclass(frozen=True)
class PlannedSink:
    """A sink, and the version that created it."""

    definition: SinkDefinition
    created: int

    @property
    def log_name(self) -> str:
        return log_name(self.definition.name, self.created)


@dataclass(frozen=True)
class PlannedArchive:
    """An archive of a query's results or a stream's rows, and the version that created it."""

    definition: ArchiveDefinition
    created: int

    @property
    def log_name(self) -> str:
        return log_name(self.definition.name, self.created)


@dataclass(frozen=True)
class Fragment:
    """The queries of one placement, by a number that stays. `tree`: partials are folded before the shuffle and spread
    over the buckets; otherwise rows go there whole."""

    number: int
    placement: Placement

    @property
    def is_folded(self) -> bool:
        return self.placement.way is Way.FOLDED

    @property
    def streams(self) -> tuple[str, ...]:
        return self.placement.streams

    @property
    def stream(self) -> str:
        """The first one, which is the only one of trees."""
        return self.placement.streams[0]

    @property
    def buckets(self) -> int:
        return self.placement.buckets

    @property
    def keys(self) -> tuple[Expression, ...]:
        """What a tree fragment is partitioned by, in one order for all its trees."""
        return self.placement.keys

    @property
    def exchanged_by(self) -> tuple[tuple[Expression, ...], ...]:
        """For each of `streams` what says to which bucket its rows go; empty where there is one bucket."""
        return self.placement.exchanged_by


@dataclass(frozen=True)
class PlannedFamily:
    """A tree of a fragment, by its number. `selection` is equal for trees with equal WHERE."""

    number: int
    fragment: int
    shape: FamilyShape
    selection: int
    key_columns: tuple[str, ...]  # of its partials, in the order of the fragment's keys


@dataclass(frozen=True)
class FragmentPlan:
    """What the buckets of a fragment are made of in one version, and nothing else: the queries that they host, with
    those that these read, the trees, and what is defined below them. What ALTER may change of a stream is not among
    it, because tasks and the driver alone go by that."""

    fragment: Fragment
    queries: Mapping[str, PlannedQuery]
    families: tuple[PlannedFamily, ...]
    streams: Mapping[str, StreamDefinition]
    tables: Mapping[str, TableDefinition]


@dataclass(frozen=True)
class Version:
    """All that holds from one micro-batch on, in the order of creation; queries, sinks and archives by name.

    Streams are known by name and creation: one that is dropped and made anew has other rows and another time. So are
    tables; which rows they have is no matter of versions (`table_log.py`).
    """

    number: int
    from_batch: int
    streams: dict[str, StreamDefinition]
    queries: dict[str, PlannedQuery]
    sinks: dict[str, PlannedSink]
    tables: dict[str, TableDefinition] = field(default_factory=dict)
    archives: dict[str, PlannedArchive] = field(default_factory=dict)

    def stream_key(self, name: str) -> str:
        """By what a stream's rows, marks and fragments are known."""
        return next(key for key, stream in self.streams.items() if stream.name.lower() == name.lower())

    @cached_property
    def archived_streams(self) -> frozenset[str]:
        """The streams whose rows are archived, by what they are known."""
        sources = {archive.definition.source.lower() for archive in self.archives.values()}
        return frozenset(key for key, stream in self.streams.items() if stream.name.lower() in sources)

    def table_key(self, name: str) -> str:
        """By what a table's rows are known."""
        return next(key for key, table in self.tables.items() if table.name.lower() == name.lower())

    def hosted(self, fragment: Fragment) -> dict[str, PlannedQuery]:
        """The queries that a fragment's buckets compute: its own and those that they read, in order of creation."""
        own = {name for name, query in self.queries.items() if query.fragment == fragment.number}
        needed = set(own)
        if not fragment.is_folded:
            for name in reversed(self.queries):
                if name in needed:
                    needed |= {i.lower() for i in self.queries[name].definition.inputs if i.lower() in self.queries}
        return {name: query for name, query in self.queries.items() if name in needed}

    def defined_below(self, fragment: Fragment) -> tuple[dict[str, StreamDefinition], dict[str, TableDefinition]]:
        """The streams and tables below the queries that a fragment's buckets compute, by what their rows are known."""
        streams = {key: replace(self.streams[key], options=()) for key in fragment.streams if key in self.streams}
        queries = self.hosted(fragment).values() if self.tables else ()
        tables = {key: self.tables[key] for query in queries for key in self.tables_of(query)}
        return streams, tables

    def tables_of(self, query: PlannedQuery) -> list[str]:
        """The tables that a query and the queries below it read, each once: by what their rows are known."""
        found: dict[str, None] = {}
        for node in query.plan.walk():
            if isinstance(node, Scan) and node.kind == "table":
                found[self.table_key(node.name)] = None
            elif isinstance(node, Scan) and node.name.lower() in self.queries:
                found.update(dict.fromkeys(self.tables_of(self.queries[node.name.lower()])))
        return list(found)

    @cached_property
    def fragment_numbers(self) -> frozenset[int]:
        return frozenset(query.fragment for query in self.queries.values())

    @cached_property
    def family_numbers(self) -> dict[int, list[int]]:
        """By fragment, in ascending order."""
        found: dict[int, set[int]] = {}
        for query in self.queries.values():
            if query.family:
                found.setdefault(query.fragment, set()).add(query.family)
        return {fragment: sorted(numbers) for fragment, numbers in found.items()}


def log_name(name: str, created: int) -> str:
    """A name in logs and marks, with the version that created what it names."""
    return f"{name.lower()}@{created}"
