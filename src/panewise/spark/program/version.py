"""A version of the definitions, which holds from one micro-batch on, and how its queries are planned.

All of it is frozen, and equal by value. `program.py` makes it. A `FragmentPlan` is all that the buckets of a fragment
are made from. If it is equal in two versions, or in the programs of two processes, a bucket goes on unchanged.
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
    """A query and its plan; `created` is the version that created it, `resumed` the last one that resumed it."""

    definition: QueryDefinition
    query: s.Query
    plan: Emit
    node: PhysicalQuery
    created: int
    fragment: int
    placement: Placement
    family: int = 0  # number of its family; 0 in a row fragment
    suspended: bool = False
    resumed: int | None = None

    @property
    def name(self) -> str:
        return self.definition.name.lower()

    @property
    def log_name(self) -> str:
        """The name in the log and in marks. A query that is dropped and created anew gets another one."""
        return log_name(self.definition.name, self.created)

    @property
    def block(self) -> Block:
        return self.node.block

    @property
    def is_folded(self) -> bool:
        """Whether the query needs only partials of slices, which can be folded anywhere and merged by group."""
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
    """The queries of one placement, under a number that stays.

    In a folded fragment, partials are folded before the shuffle and spread over the buckets; otherwise rows go there
    whole.
    """

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
        """The first stream, which is the only one of a folded fragment."""
        return self.placement.streams[0]

    @property
    def buckets(self) -> int:
        return self.placement.buckets

    @property
    def keys(self) -> tuple[Expression, ...]:
        """What a folded fragment is partitioned by, in one order for all its families."""
        return self.placement.keys

    @property
    def exchanged_by(self) -> tuple[tuple[Expression, ...], ...]:
        """For each of `streams` the expressions by which its rows are spread; empty if there is one bucket."""
        return self.placement.exchanged_by


@dataclass(frozen=True)
class PlannedFamily:
    """A family of a fragment, under its number. Families with equal WHERE have equal `selection`."""

    number: int
    fragment: int
    shape: FamilyShape
    selection: int
    key_columns: tuple[str, ...]  # columns of its partials, in the order of the fragment's keys


@dataclass(frozen=True)
class FragmentPlan:
    """All that the buckets of a fragment are made from in one version: their queries, with those that they read, the
    families, and the streams and tables below them.

    Stream options, which ALTER may change, are left out: only tasks and the driver use them.
    """

    fragment: Fragment
    queries: Mapping[str, PlannedQuery]
    families: tuple[PlannedFamily, ...]
    streams: Mapping[str, StreamDefinition]
    tables: Mapping[str, TableDefinition]


@dataclass(frozen=True)
class Version:
    """All definitions that hold from one micro-batch on, in the order of creation; queries, sinks, archives by name.

    The key of a stream or table is its name with the version that created it: one that is dropped and created anew has
    other rows and another time. The rows of tables have versions of their own (`table_log.py`).
    """

    number: int
    from_batch: int
    streams: dict[str, StreamDefinition]
    queries: dict[str, PlannedQuery]
    sinks: dict[str, PlannedSink]
    tables: dict[str, TableDefinition] = field(default_factory=dict)
    archives: dict[str, PlannedArchive] = field(default_factory=dict)

    def stream_key(self, name: str) -> str:
        """The key under which a stream's rows, marks and fragments are kept."""
        return next(key for key, stream in self.streams.items() if stream.name.lower() == name.lower())

    @cached_property
    def archived_streams(self) -> frozenset[str]:
        """The keys of the streams whose rows are archived."""
        sources = {archive.definition.source.lower() for archive in self.archives.values()}
        return frozenset(key for key, stream in self.streams.items() if stream.name.lower() in sources)

    def table_key(self, name: str) -> str:
        """The key under which a table's rows are kept."""
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
        """The streams and tables below the queries that a fragment's buckets compute, by their keys."""
        streams = {key: replace(self.streams[key], options=()) for key in fragment.streams if key in self.streams}
        queries = self.hosted(fragment).values() if self.tables else ()
        tables = {key: self.tables[key] for query in queries for key in self.tables_of(query)}
        return streams, tables

    def tables_of(self, query: PlannedQuery) -> list[str]:
        """The keys of the tables that a query and the queries below it read, each once."""
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
        """The numbers of the families of each fragment, in ascending order."""
        found: dict[int, set[int]] = {}
        for query in self.queries.values():
            if query.family:
                found.setdefault(query.fragment, set()).add(query.family)
        return {fragment: sorted(numbers) for fragment, numbers in found.items()}


def log_name(name: str, created: int) -> str:
    """A name in logs and marks: that of a definition, with the version that created it."""
    return f"{name.lower()}@{created}"
