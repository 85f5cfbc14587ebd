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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

from panewise.aggregates import registry
from panewise.aggregates.functions import AggregateFunction
from panewise.catalog import (
    ArchiveDefinition,
    Catalog,
    Definition,
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
from panewise.optimize.planner import LogicalQuery, Planner
from panewise.plan.decided import Decided, decided_on
from panewise.plan.nodes import Emit, Scan
from panewise.plan.physical import FamilyQuery, FamilyShape, PhysicalPlan, Spread, Way
from panewise.runtime.definitions import Created
from panewise.runtime.interpreter import Definer, Defining, interpret
from panewise.runtime.spark.changes import Change, Place, read_changes
from panewise.runtime.spark.folder import Folder
from panewise.runtime.spark.keys import bucket_keys
from panewise.runtime.spark.version import (
    Fragment,
    PlannedArchive,
    PlannedQuery,
    PlannedSink,
    PlannedTree,
    Version,
    log_name,
)
from panewise.schema import Schema

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

    def apply(self, change: Change, bound: Sequence[s.Statement | None] = ()) -> Change:
        """One more version. The change with the places of its queries, as it is to be written down.

        `bound`: its statements, as far as they have been bound already.
        """
        draft = _Draft(self, change)
        for number, text in enumerate(change.statements):
            known = bound[number] if bound else None
            for statement in [known] if known is not None else self._bound(text):
                assert isinstance(statement, Defining), "rows of tables have files of their own"
                interpret(statement, self.catalog, self.find_aggregate, draft)
        self._plant(change, draft.queries)
        self.versions.append(draft.version())
        made = {name: query for name, query in draft.queries.items() if query.created == change.version}
        return replace(change, places={name: self._place_of(query) for name, query in made.items()})

    def _bound(self, text: str) -> Iterator[s.Statement]:
        for parsed in parse(text):
            yield bind_one(parsed, self.catalog, self.find_aggregate, self._aggregate_names)

    def place(self, query: QueryDefinition, plan: Emit, statement: s.CreateQuery, draft: _Draft) -> PlannedQuery:
        """A new query in its fragment; it gets its tree when the version is complete."""
        key, change = query.name.lower(), draft.change
        stored = None if change.places is None else change.places.get(key)
        decided = None if stored is None else Decided.of_dict(stored.decided)
        # Rates are not known where all processes plan alike: what is not decided is assumed.
        node = Planner(self.sharing).node(PhysicalPlan(), LogicalQuery(key, plan, query.options), decided)
        fragment = self._fragment_of(query, plan, node.spread, draft.queries)
        number = self._numbered(fragment, key, stored)
        return PlannedQuery(query, statement.query, plan, node, change.version, number)

    def know_stream(self, name: str, key: str | None) -> str:
        """A stream of this name has this key from now on, or is gone (None). The key that it has or had."""
        if key is None:
            return self._stream_keys.pop(name)
        return self._stream_keys.setdefault(name, key)

    def stream_key(self, name: str) -> str:
        return self._stream_keys[name]

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
        selection = self.trees[query.tree].selection if query.tree else 0
        return Place(query.fragment, query.tree, selection, decided_on(query.node).to_dict())

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

    def versions_from(self, number: int) -> list[Version]:
        return [version for version in self.versions if version.number >= number]

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


class _Draft(Definer):
    """A version while the statements of its change are run."""

    def __init__(self, program: Program, change: Change) -> None:
        last = program.newest if program.versions else Version(-1, 0, {}, {}, {})
        self.change = change
        self._program = program
        self._streams, self.queries, self._sinks = dict(last.streams), dict(last.queries), dict(last.sinks)
        self._tables, self._archives = dict(last.tables), dict(last.archives)

    def version(self) -> Version:
        number, from_batch = self.change.version, self.change.from_batch
        return Version(number, from_batch, self._streams, self.queries, self._sinks, self._tables, self._archives)

    def made(self, definition: Definition, plan: Emit | None, statement: Created) -> None:
        name, version = definition.name.lower(), self.change.version
        match definition:
            case StreamDefinition():
                self._streams[self._program.know_stream(name, log_name(name, version))] = definition
            case TableDefinition():
                self._tables[log_name(name, version)] = definition
            case SinkDefinition():
                self._sinks[name] = PlannedSink(definition, version)
            case ArchiveDefinition():
                self._archives[name] = PlannedArchive(definition, version)
            case QueryDefinition():
                assert plan is not None and isinstance(statement, s.CreateQuery)
                self.queries[name] = self._program.place(definition, plan, statement, self)

    def dropped(self, definition: Definition) -> None:
        name = definition.name.lower()
        match definition:
            case StreamDefinition():
                del self._streams[self._program.know_stream(name, None)]
            case TableDefinition():
                del self._tables[next(key for key, table in self._tables.items() if table.name.lower() == name)]
            case SinkDefinition():
                del self._sinks[name]
            case ArchiveDefinition():
                del self._archives[name]
            case QueryDefinition():
                del self.queries[name]

    def set_suspended(self, query: str, suspended: bool) -> None:
        query = query.lower()
        before = self.queries[query]
        resumed = self.change.version if before.suspended and not suspended else before.resumed
        self.queries[query] = replace(before, suspended=suspended, resumed=resumed)

    def altered(self, definition: Definition, options: Options) -> None:
        name = definition.name.lower()
        if isinstance(definition, StreamDefinition):
            self._streams[self._program.stream_key(name)] = definition
        elif isinstance(definition, ArchiveDefinition):
            self._archives[name] = replace(self._archives[name], definition=definition)


def _planned_otherwise(query: str) -> SnapshotError:
    return SnapshotError(
        f"the checkpoint has the state of query '{query}' in a place where this panewise would not put it",
        hint="go on with the panewise that wrote it, or drop the query there and create it anew here",
    )


def read_program(
    folder: Folder, partitions: int, aggregates: Mapping[str, AggregateFunction], sharing: str = "weave"
) -> Program:
    """The program of all changes so far."""
    program = Program(partitions, aggregates, sharing)
    for change in read_changes(folder):
        program.apply(change)
    return program
