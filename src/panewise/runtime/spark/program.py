"""The program: which definitions hold in which micro-batch, and which fragments answer them.

Definitions change by *changes*: lists of statements, kept in the pipeline's `catalog/` folder, each with the first
micro-batch that it governs. Driver and workers read the same changes and come to the same program; a replayed
micro-batch is governed by what governed it first. Binding costs a millisecond or two per statement, once per process.

A fragment is a set of queries over one stream that run under one partitioning. Periodic time windows with equal
selection and grouping are one *tree* fragment: its partials are folded before the shuffle and spread over buckets by
group. All other queries need their rows in order and whole: they share *row* fragments of one bucket each, several per
stream so that cores share the work; a query that they read is computed beside them.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from panewise import aggregates
from panewise.aggregates.functions import AggregateFunction
from panewise.catalog import Catalog, Options, QueryDefinition, SinkDefinition, StreamDefinition
from panewise.language import statements as s
from panewise.language.binder import bind_one, parse
from panewise.language.expressions import Expression
from panewise.language.statements import Emit as Emission
from panewise.plan.blocks import Block, block_of
from panewise.plan.nodes import Emit, Scan
from panewise.runtime.definitions import definition_of
from panewise.runtime.spark.folder import Folder
from panewise.runtime.spark.keys import bucket_keys
from panewise.runtime.technique_option import chosen_technique
from panewise.schema import Schema
from panewise.temporal import TimeWindow


@dataclass(frozen=True)
class Change:
    """Statements that take hold together, with micro-batch `from_batch`."""

    version: int
    from_batch: int
    statements: tuple[str, ...]

    @property
    def file(self) -> str:
        return f"catalog/{self.version:06d}.json"


@dataclass(frozen=True)
class PlannedQuery:
    """A query that runs; `created` is the version that created it."""

    definition: QueryDefinition
    query: s.Query
    plan: Emit
    created: int
    fragment: int
    suspended: bool = False

    @property
    def name(self) -> str:
        return self.definition.name.lower()

    @property
    def log_name(self) -> str:
        """Its name in the log and in marks: a query that is dropped and made anew is another one there."""
        return log_name(self.definition.name, self.created)

    @cached_property
    def block(self) -> Block:
        return block_of(self.plan)


@dataclass(frozen=True)
class PlannedSink:
    """A sink, and the version that created it."""

    definition: SinkDefinition
    created: int

    @property
    def log_name(self) -> str:
        return log_name(self.definition.name, self.created)


@dataclass(frozen=True)
class Fragment:
    """`tree`: partials are folded before the shuffle and spread over `buckets`; otherwise rows go to one bucket."""

    number: int
    stream: str
    tree: bool
    buckets: int
    where: Expression | None = None
    keys: tuple[Expression, ...] = ()
    technique: str | None = None
    shard: int = 0
    alone: str = ""  # the only query of a fragment, where queries share nothing


@dataclass(frozen=True)
class Version:
    """All that holds from one micro-batch on, in the order of creation; queries and sinks by name.

    Streams are known by name and creation: one that is dropped and made anew has other rows and another time.
    """

    number: int
    from_batch: int
    streams: dict[str, StreamDefinition]
    queries: dict[str, PlannedQuery]
    sinks: dict[str, PlannedSink]

    def stream_key(self, name: str) -> str:
        """By what a stream's rows, marks and fragments are known."""
        return next(key for key, stream in self.streams.items() if stream.name.lower() == name.lower())

    def hosted(self, fragment: Fragment) -> dict[str, PlannedQuery]:
        """The queries that a fragment's buckets compute: its own and those that they read, in order of creation."""
        own = {name for name, query in self.queries.items() if query.fragment == fragment.number}
        needed = set(own)
        if not fragment.tree:
            for name in reversed(self.queries):
                if name in needed:
                    needed |= {i.lower() for i in self.queries[name].definition.inputs if i.lower() in self.queries}
        return {name: query for name, query in self.queries.items() if name in needed}

    @cached_property
    def fragment_numbers(self) -> frozenset[int]:
        return frozenset(query.fragment for query in self.queries.values())


# Number 0 is no fragment: its only bucket passes on what the tasks have counted.
METER = 0


@dataclass
class Program:
    """The versions so far, the fragments by number, and the streams' options as they are now."""

    partitions: int
    aggregates: Mapping[str, AggregateFunction] = field(default_factory=dict)
    sharing: str = "weave"
    versions: list[Version] = field(default_factory=list)
    fragments: dict[int, Fragment] = field(default_factory=dict)
    catalog: Catalog = field(default_factory=Catalog)
    _numbers: dict[Any, int] = field(default_factory=dict)
    _stream_keys: dict[str, str] = field(default_factory=dict)  # by name

    def apply(self, change: Change) -> None:
        """One more version."""
        last = self.versions[-1] if self.versions else Version(-1, 0, {}, {}, {})
        streams, queries, sinks = dict(last.streams), dict(last.queries), dict(last.sinks)
        for text in change.statements:
            for parsed in parse(text):
                statement = bind_one(parsed, self.catalog, self.find_aggregate, self._aggregate_names)
                self._run(statement, change.version, streams, queries, sinks)
        self.versions.append(Version(change.version, change.from_batch, streams, queries, sinks))

    def _run(
        self,
        statement: s.Statement,
        version: int,
        streams: dict[str, StreamDefinition],
        queries: dict[str, PlannedQuery],
        sinks: dict[str, PlannedSink],
    ) -> None:
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
                elif isinstance(definition, SinkDefinition):
                    sinks[key] = PlannedSink(definition, version)
                elif isinstance(definition, QueryDefinition):
                    assert plan is not None and isinstance(statement, s.CreateQuery)
                    fragment = self._fragment_of(definition, plan, queries)
                    queries[key] = PlannedQuery(definition, statement.query, plan, version, fragment)
            case s.Drop():
                if statement.if_exists and self.catalog.find(statement.name) is None:
                    return
                self.catalog.drop(statement.name, statement.kind)
                key = statement.name.lower()
                if statement.kind == "stream":
                    del streams[self._stream_keys.pop(key)]
                queries.pop(key, None)
                sinks.pop(key, None)
            case s.SuspendQuery() | s.ResumeQuery():
                key = statement.name.lower()
                queries[key] = replace(queries[key], suspended=isinstance(statement, s.SuspendQuery))
            case s.AlterStream():
                key = self._stream_keys[statement.name.lower()]
                options = dict(streams[key].options) | dict(statement.options)
                streams[key] = replace(streams[key], options=tuple(options.items()))
                self.catalog.change(statement.name, options=tuple(options.items()))

    def find_aggregate(self, name: str) -> AggregateFunction | None:
        return aggregates.find(name) or self.aggregates.get(name.upper())

    def _aggregate_names(self) -> list[str]:
        return [*aggregates.names(), *self.aggregates]

    # -- fragments -----------------------------------------------------------------------------------------------

    def _fragment_of(self, query: QueryDefinition, plan: Emit, queries: dict[str, PlannedQuery]) -> int:
        stream = self._stream_of(plan, queries)
        block = block_of(plan)
        if is_tree(block):
            assert block.aggregate is not None
            keys = block.aggregate.keys
            buckets = self.partitions if keys else 1
            technique = chosen_technique(query.options)
            alone = query.name.lower() if self.sharing == "none" else ""
            return self._numbered(Fragment(0, stream, True, buckets, block.where, keys, technique, alone=alone))
        for scan in plan.walk():
            if isinstance(scan, Scan) and scan.name.lower() in queries:
                source = self.fragments[queries[scan.name.lower()].fragment]
                if not source.tree:
                    return source.number  # where the query that it reads is computed already
        shard = zlib.crc32(query.name.lower().encode()) % self.partitions
        return self._numbered(Fragment(0, stream, False, 1, shard=shard))

    def _stream_of(self, plan: Emit, queries: dict[str, PlannedQuery]) -> str:
        """The stream that a query's rows come from in the end."""
        scan = next(node for node in plan.walk() if isinstance(node, Scan))
        key = scan.name.lower()
        return self._stream_of(queries[key].plan, queries) if key in queries else self._stream_keys[key]

    def _numbered(self, fragment: Fragment) -> int:
        number = self._numbers.setdefault(fragment, len(self._numbers) + 1)
        self.fragments[number] = replace(fragment, number=number)
        return number

    def keys_of(self, fragment: Fragment) -> tuple[int, ...]:
        return bucket_keys(fragment.number, fragment.buckets, self.partitions)

    # -- what holds when -----------------------------------------------------------------------------------------

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
        return [self.fragments[n] for n in numbers if self.fragments[n].stream == stream]

    def gone(self, batch: int) -> list[Fragment]:
        """Fragments that have lost their last query with the versions that begin in a micro-batch."""
        before = self.at(batch - 1).fragment_numbers if batch > 0 else frozenset()
        return [self.fragments[number] for number in sorted(before - self.at(batch).fragment_numbers)]

    def columns_needed(self, version: Version, stream: str) -> Schema:
        """The columns of a stream that its queries read, with the event time; all of them where rows travel whole."""
        definition = version.streams[stream]
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


def log_name(name: str, created: int) -> str:
    """A name in logs and marks, with the version that created what it names."""
    return f"{name.lower()}@{created}"


def is_tree(block: Block) -> bool:
    """Whether partials of the query's slices, folded anywhere and merged by group, are all that it needs."""
    return (
        isinstance(block.source, Scan)
        and block.source.kind == "stream"
        and block.aggregate is not None
        and isinstance(block.window, TimeWindow)
        and block.window.slide_us is not None
        and block.window.range_us is not None
        and block.emission is Emission.RSTREAM
        and not block.restore
    )


def read_changes(folder: Folder) -> list[Change]:
    """All changes, in order."""
    found = []
    for number in folder.numbers("catalog"):
        data = folder.read_json(f"catalog/{number:06d}.json")
        found.append(Change(data["version"], data["from_batch"], tuple(data["statements"])))
    return found


def read_program(
    folder: Folder, partitions: int, aggregates: Mapping[str, AggregateFunction], sharing: str = "weave"
) -> Program:
    """The program of all changes so far."""
    program = Program(partitions, aggregates, sharing)
    for change in read_changes(folder):
        program.apply(change)
    return program


def write_change(folder: Folder, change: Change) -> None:
    folder.write_json(
        change.file,
        {"version": change.version, "from_batch": change.from_batch, "statements": list(change.statements)},
    )
