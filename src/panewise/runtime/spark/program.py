"""The program: which definitions hold in which micro-batch, and which fragments answer them.

Definitions change by *changes*: lists of statements, each with the first micro-batch that it governs. Driver and
workers read the same changes and come to the same program; a replayed micro-batch is governed by what governed it
first. Binding costs a millisecond or two per statement, once per process.

A fragment is a set of queries over one stream that run under one partitioning. Periodic time windows that group by the
same expressions, in whatever order, are one *tree* fragment: partials are folded before the shuffle and spread over
buckets by group. Those with equal selection, order of keys and technique are a tree in it; a fragment has as many trees
as its queries need, and they share its buckets, packets and state:

    fragment: stream, {keys} -- tree: WHERE v > 1, GROUP BY a, b -- queries with any windows and aggregates
                             \\- tree: WHERE v > 2, GROUP BY b, a -- queries ...

All other queries need their rows in order and whole, in *row* fragments. Queries that join, negate or remove duplicates
by a key (`plan/partitioning.py`) share one whose rows are exchanged by that key over all buckets, where they read the
same streams by the same keys. The others share fragments of one bucket each, several per stream so that cores share the
work; a query that they read is computed beside them.

Which fragment, tree and selection a query has is decided once, by the driver, which writes these numbers down with the
change (`changes.py`); everybody else reads them. Fragments keep their numbers for good. A tree has its number for as
long as it has queries: one that loses all of them and gets others is another tree, with another number, so that nobody
takes old partials for its own.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter

from panewise.aggregates import registry
from panewise.aggregates.functions import AggregateFunction
from panewise.catalog import (
    ArchiveDefinition,
    Catalog,
    Options,
    QueryDefinition,
    SinkDefinition,
    StreamDefinition,
    TableDefinition,
)
from panewise.errors import SnapshotError
from panewise.language import statements as s
from panewise.language.binder import bind_one, parse
from panewise.language.expressions import Expression
from panewise.optimize.physical import physical
from panewise.plan.blocks import Block
from panewise.plan.nodes import Emit, Scan
from panewise.plan.physical import FamilyQuery, FamilyShape, PhysicalQuery, Spread, Way
from panewise.runtime.definitions import definition_of
from panewise.runtime.spark.changes import Change, Place, read_changes
from panewise.runtime.spark.folder import Folder
from panewise.runtime.spark.keys import bucket_keys
from panewise.schema import Schema


@dataclass(frozen=True)
class PlannedQuery:
    """A query that runs; `created` is the version that created it, `resumed` the last one that resumed it."""

    definition: QueryDefinition
    query: s.Query
    plan: Emit
    node: PhysicalQuery
    created: int
    fragment: int
    tree: int = 0  # the number of its tree; 0 where its fragment has none
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
    """`tree`: partials are folded before the shuffle and spread over `buckets`; otherwise rows go there whole.

    `keys`: what a tree fragment is partitioned by, in one order for all its trees. `others`: further streams whose rows
    go to the buckets, where queries read several. `exchanged_by`: for each of `streams` what says to which bucket its
    rows go; empty where there is one bucket.
    """

    number: int
    stream: str
    tree: bool
    buckets: int
    keys: tuple[Expression, ...] = ()
    shard: int = 0
    others: tuple[str, ...] = ()
    exchanged_by: tuple[tuple[Expression, ...], ...] = ()

    @property
    def streams(self) -> tuple[str, ...]:
        return self.stream, *self.others


@dataclass(frozen=True)
class PlannedTree:
    """A tree of a fragment, by its number. `selection` is equal for trees with equal WHERE."""

    number: int
    fragment: int
    shape: FamilyShape
    selection: int
    key_columns: tuple[str, ...]  # of its partials, in the order of the fragment's keys


@dataclass(frozen=True)
class Version:
    """All that holds from one micro-batch on, in the order of creation; queries, sinks and archives by name.

    Streams are known by name and creation: one that is dropped and made anew has other rows and another time. So are
    tables; which rows they have is no matter of versions (`tables.py`).
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
        if not fragment.tree:
            for name in reversed(self.queries):
                if name in needed:
                    needed |= {i.lower() for i in self.queries[name].definition.inputs if i.lower() in self.queries}
        return {name: query for name, query in self.queries.items() if name in needed}

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
    def tree_numbers(self) -> dict[int, list[int]]:
        """By fragment, in ascending order."""
        found: dict[int, set[int]] = {}
        for query in self.queries.values():
            if query.tree:
                found.setdefault(query.fragment, set()).add(query.tree)
        return {fragment: sorted(numbers) for fragment, numbers in found.items()}


# Number 0 is no fragment: its only bucket passes on what the tasks have counted.
METER = 0


@dataclass
class Program:
    """The versions so far, the fragments and trees by number, and the streams' options as they are now."""

    partitions: int
    aggregates: Mapping[str, AggregateFunction] = field(default_factory=dict)
    sharing: str = "weave"
    versions: list[Version] = field(default_factory=list)
    fragments: dict[int, Fragment] = field(default_factory=dict)
    trees: dict[int, PlannedTree] = field(default_factory=dict)
    catalog: Catalog = field(default_factory=Catalog)
    _numbers: dict[Fragment, int] = field(default_factory=dict)
    _newest: dict[tuple[int, FamilyShape], int] = field(default_factory=dict)  # trees, of each shape the last one
    _selections: dict[Expression | None, int] = field(default_factory=dict)
    _stream_keys: dict[str, str] = field(default_factory=dict)  # by name

    def apply(self, change: Change) -> Change:
        """One more version. The change with the places of its queries, as it is to be written down."""
        last = self.newest if self.versions else Version(-1, 0, {}, {}, {})
        streams, queries, sinks = dict(last.streams), dict(last.queries), dict(last.sinks)
        tables, archives = dict(last.tables), dict(last.archives)
        for text in change.statements:
            for parsed in parse(text):
                statement = bind_one(parsed, self.catalog, self.find_aggregate, self._aggregate_names)
                self._run(statement, change, streams, queries, sinks, tables)
                self._run_archives(statement, change.version, archives)
        self._plant(change, queries)
        self.versions.append(Version(change.version, change.from_batch, streams, queries, sinks, tables, archives))
        made = {name: query for name, query in queries.items() if query.created == change.version}
        return replace(change, places={name: self._place_of(query) for name, query in made.items()})

    def _run(
        self,
        statement: s.Statement,
        change: Change,
        streams: dict[str, StreamDefinition],
        queries: dict[str, PlannedQuery],
        sinks: dict[str, PlannedSink],
        tables: dict[str, TableDefinition],
    ) -> None:
        version = change.version
        match statement:
            case s.CreateStream() | s.CreateTable() | s.CreateQuery() | s.CreateSink():
                if statement.if_not_exists and self.catalog.find(statement.name) is not None:
                    return
                definition, plan = definition_of(statement, self.find_aggregate)
                self.catalog.add(definition)
                key = definition.name.lower()
                if isinstance(definition, StreamDefinition):
                    streams[log_name(key, version)] = definition
                    self._stream_keys[key] = log_name(key, version)
                elif isinstance(definition, TableDefinition):
                    tables[log_name(key, version)] = definition
                elif isinstance(definition, SinkDefinition):
                    sinks[key] = PlannedSink(definition, version)
                elif isinstance(definition, QueryDefinition):
                    assert plan is not None and isinstance(statement, s.CreateQuery)
                    node = physical(plan, definition.options, key if self.sharing == "none" else "")
                    place = None if change.places is None else change.places.get(key)
                    fragment = self._fragment_of(definition, plan, node.spread, queries)
                    number = self._numbered(fragment, key, place)
                    queries[key] = PlannedQuery(definition, statement.query, plan, node, version, number)
            case s.Drop():
                if statement.if_exists and self.catalog.find(statement.name) is None:
                    return
                self.catalog.drop(statement.name, statement.kind)
                key = statement.name.lower()
                if statement.kind == "stream":
                    del streams[self._stream_keys.pop(key)]
                elif statement.kind == "table":
                    del tables[next(known for known, table in tables.items() if table.name.lower() == key)]
                queries.pop(key, None)
                sinks.pop(key, None)
            case s.SuspendQuery() | s.ResumeQuery():
                key = statement.name.lower()
                suspended, before = isinstance(statement, s.SuspendQuery), queries[key]
                resumed = version if before.suspended and not suspended else before.resumed
                queries[key] = replace(before, suspended=suspended, resumed=resumed)
            case s.AlterStream():
                key = self._stream_keys[statement.name.lower()]
                options = dict(streams[key].options) | dict(statement.options)
                streams[key] = replace(streams[key], options=tuple(options.items()))
                self.catalog.change(statement.name, options=tuple(options.items()))

    def _run_archives(self, statement: s.Statement, version: int, archives: dict[str, PlannedArchive]) -> None:
        match statement:
            case s.CreateArchive():
                if statement.if_not_exists and self.catalog.find(statement.name) is not None:
                    return
                definition, _ = definition_of(statement, self.find_aggregate)
                assert isinstance(definition, ArchiveDefinition)
                self.catalog.add(definition)
                archives[definition.name.lower()] = PlannedArchive(definition, version)
            case s.Drop(kind="archive"):
                archives.pop(statement.name.lower(), None)
            case s.AlterArchive():
                known = archives[statement.name.lower()]
                options = tuple((dict(known.definition.options) | dict(statement.options)).items())
                self.catalog.change(statement.name, options=options)
                archives[statement.name.lower()] = replace(known, definition=replace(known.definition, options=options))

    def find_aggregate(self, name: str) -> AggregateFunction | None:
        return registry.find(name) or self.aggregates.get(name.upper())

    def _aggregate_names(self) -> list[str]:
        return [*registry.names(), *self.aggregates]

    # -- fragments and trees -------------------------------------------------------------------------------------

    def _fragment_of(
        self, query: QueryDefinition, plan: Emit, spread: Spread, queries: dict[str, PlannedQuery]
    ) -> Fragment:
        """Without a number."""
        stream, *others = self._streams_of(plan, queries)
        if spread.way is Way.FOLDED:
            buckets = self.partitions if spread.keys else 1
            return Fragment(0, stream, True, buckets, spread.keys)
        for scan in plan.walk():
            if isinstance(scan, Scan) and scan.name.lower() in queries:
                source = self.fragments[queries[scan.name.lower()].fragment]
                if not source.tree and not source.exchanged_by and {stream, *others} <= set(source.streams):
                    return replace(source, number=0)  # where the query that it reads is computed already
        if spread.way is Way.EXCHANGED:
            by = tuple(spread.exchanged_by[self._name_of(key)] for key in (stream, *others))
            return Fragment(0, stream, False, self.partitions, others=tuple(others), exchanged_by=by)
        shard = zlib.crc32(query.name.lower().encode()) % self.partitions
        return Fragment(0, stream, False, 1, shard=shard, others=tuple(others))

    def _streams_of(self, plan: Emit, queries: dict[str, PlannedQuery]) -> list[str]:
        """The streams that a query's rows come from in the end, each once."""
        found: dict[str, None] = {}
        for node in plan.walk():
            if isinstance(node, Scan) and node.kind != "table":
                key = node.name.lower()
                roots = self._streams_of(queries[key].plan, queries) if key in queries else [self._stream_keys[key]]
                found.update(dict.fromkeys(roots))
        return sorted(found)

    def _name_of(self, stream: str) -> str:
        """The name of a stream that there is now, in lower case."""
        return next(name for name, key in self._stream_keys.items() if key == stream)

    def _numbered(self, fragment: Fragment, query: str, place: Place | None) -> int:
        """The number of a fragment: the one that was written down, else the one that it has, else a new one."""
        number = (
            place.fragment if place is not None else self._numbers.get(fragment, max(self.fragments, default=0) + 1)
        )
        known = self.fragments.setdefault(number, replace(fragment, number=number))
        if known != replace(fragment, number=number) or self._numbers.setdefault(fragment, number) != number:
            raise _planned_otherwise(query)
        return number

    def _plant(self, change: Change, queries: dict[str, PlannedQuery]) -> None:
        """The queries of a version that is complete get their trees: one that goes on, or a new one."""
        going_on = {query.tree for query in queries.values() if query.created < change.version}
        for name, query in queries.items():
            if query.created == change.version and self.fragments[query.fragment].tree:
                assert isinstance(query.node, FamilyQuery)
                shape = query.node.shape
                stored = None if change.places is None else change.places.get(name)
                number = self._newest.get((query.fragment, shape))
                if stored is not None:
                    number = stored.tree
                    if number not in self.trees:
                        self._new_tree(number, query.fragment, shape, stored.selection)
                    if (self.trees[number].fragment, self.trees[number].shape) != (query.fragment, shape):
                        raise _planned_otherwise(name)
                elif number is None or number not in going_on:
                    number = max(self.trees, default=0) + 1
                    selection = self._selections.get(shape.where, max(self._selections.values(), default=-1) + 1)
                    self._new_tree(number, query.fragment, shape, selection)
                going_on.add(number)
                queries[name] = replace(query, tree=number)

    def _place_of(self, query: PlannedQuery) -> Place:
        return Place(query.fragment, query.tree, self.trees[query.tree].selection if query.tree else 0)

    def _new_tree(self, number: int, fragment: int, shape: FamilyShape, selection: int) -> None:
        self._selections.setdefault(shape.where, selection)
        columns = tuple(f"key_{shape.keys.index(key)}" for key in self.fragments[fragment].keys)
        self.trees[number] = PlannedTree(number, fragment, shape, selection, columns)
        self._newest[fragment, shape] = number

    def trees_in(self, version: Version, fragment: Fragment) -> list[PlannedTree]:
        """The trees of a fragment, in the order of their numbers."""
        return [self.trees[number] for number in version.tree_numbers.get(fragment.number, ())]

    def keys_of(self, fragment: Fragment) -> tuple[int, ...]:
        return bucket_keys(fragment.number, fragment.buckets, self.partitions)

    # -- what holds when -----------------------------------------------------------------------------------------

    @property
    def newest(self) -> Version:
        return self.versions[-1]

    def version(self, number: int) -> Version:
        found = self.versions[bisect_left(self.versions, number, key=attrgetter("number"))]
        assert found.number == number, number
        return found

    def between(self, after: int, upto: int) -> list[Version]:
        """The versions behind one number, up to another one."""
        return [version for version in self.versions if after < version.number <= upto]

    @property
    def next_version(self) -> int:
        """The number of the next change."""
        return self.newest.number + 1 if self.versions else 0

    def at(self, batch: int) -> Version:
        """The version that governs a micro-batch."""
        return max((v for v in self.versions if v.from_batch <= batch), key=lambda v: v.number)

    def beginning(self, batch: int) -> list[int]:
        """The versions that hold in a micro-batch."""
        return [version.number for version in self.versions if version.from_batch <= batch]

    def options(self, stream: str) -> Options:
        """A stream's options as they are now: a bad row must not block a restart once ALTER STREAM has allowed it."""
        for version in reversed(self.versions):
            if stream in version.streams:
                return version.streams[stream].options
        return ()

    def fragments_over(self, version: Version, stream: str) -> list[Fragment]:
        numbers = sorted(version.fragment_numbers)
        return [self.fragments[n] for n in numbers if stream in self.fragments[n].streams]

    def gone(self, batch: int) -> list[Fragment]:
        """Fragments that have lost their last query with the versions that begin in a micro-batch."""
        before = self.at(batch - 1).fragment_numbers if batch > 0 else frozenset()
        return [self.fragments[number] for number in sorted(before - self.at(batch).fragment_numbers)]

    def columns_needed(self, version: Version, stream: str) -> Schema:
        """The columns of a stream that queries read, with the event time; all where rows go whole, or are archived."""
        definition = version.streams[stream]
        if stream in version.archived_streams:
            return definition.schema
        needed = {definition.timestamp}
        for fragment in self.fragments_over(version, stream):
            if not fragment.tree:
                return definition.schema
            for query in version.hosted(fragment).values():
                block = query.block
                assert block.aggregate is not None
                read = [*block.aggregate.keys, *(a for call in block.aggregate.aggregates for a in call.arguments)]
                if block.where is not None:
                    read.append(block.where)
                needed |= {column.name for expression in read for column in expression.columns()}
        return Schema(tuple(column for column in definition.schema if column.name in needed))


def _planned_otherwise(query: str) -> SnapshotError:
    return SnapshotError(
        f"the checkpoint has the state of query '{query}' in a place where this panewise would not put it",
        hint="go on with the panewise that wrote it, or drop the query there and create it anew here",
    )


def log_name(name: str, created: int) -> str:
    """A name in logs and marks, with the version that created what it names."""
    return f"{name.lower()}@{created}"


def read_program(
    folder: Folder, partitions: int, aggregates: Mapping[str, AggregateFunction], sharing: str = "weave"
) -> Program:
    """The program of all changes so far."""
    program = Program(partitions, aggregates, sharing)
    for change in read_changes(folder):
        program.apply(change)
    return program
