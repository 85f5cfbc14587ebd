"""The program: which definitions hold in which micro-batch, and which fragments answer them.

A *change* is a list of statements with the first micro-batch that it governs. Driver and workers read the same changes
and so build the same program. A replayed micro-batch is governed by the version that governed it the first time.
Binding costs a millisecond or two per statement, once per process (`made_queries.py`, `known_programs.py`).

A fragment is the queries of one placement, which the planner chooses from their nodes (`optimize/placing.py`). Queries
over periodic time windows that group by the same expressions, in any order, are in one *folded* fragment: partials are
folded before the shuffle and spread over buckets by group. Its queries with equal selection, order of keys and
technique are a family. The families of a fragment share its buckets, packets and state:

    fragment: stream, {keys} -- family: WHERE v > 1, GROUP BY a, b -- queries with any windows and aggregates
                             \\- family: WHERE v > 2, GROUP BY b, a -- queries ...

All other queries need whole rows, in order, and are in *row* fragments. Queries that join, negate or remove duplicates
by a key (`plan/partitioning.py`), and read the same streams by the same keys, share a fragment whose rows are exchanged
by that key over all buckets. The others share fragments of one bucket each, several per stream, so that cores share the
work. Queries of one core or one family are in the same fragment, and the queries that they read are computed there too.

The driver decides once which fragment, family and selection a query has, and writes these numbers down with the change
(`changes.py`); all other processes read them. A fragment keeps its number for good. A family keeps its number as long
as it has queries. If it has lost all of them, later queries of its shape get another number, so that they never take
old partials for their own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, pairwise
from operator import attrgetter

from panewise.aggregates import builtin as registry
from panewise.aggregates.aggregate_functions import AggregateFunction
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
from panewise.engine.books.definitions import Created
from panewise.engine.books.interpreter import Definer, Defining, interpret
from panewise.engine.books.made_queries import MadeQueries
from panewise.errors import SnapshotError
from panewise.language import statements as s
from panewise.language.bind.binder import bind_one, parse
from panewise.language.expressions import Expression
from panewise.optimize.placing import Placing
from panewise.optimize.planner import LogicalQuery, Planner
from panewise.plan.decided import Decided, decided_on
from panewise.plan.nodes import Emit
from panewise.plan.physical_plan import FamilyQuery, FamilyShape, PhysicalPlan, PhysicalQuery, Way
from panewise.plan.placement import Placement
from panewise.schema import Schema
from panewise.spark.program.bucket_keys import bucket_keys
from panewise.spark.program.changes import Change, StoredPlace
from panewise.spark.program.version import (
    Fragment,
    FragmentPlan,
    PlannedArchive,
    PlannedFamily,
    PlannedQuery,
    PlannedSink,
    Version,
    log_name,
)

METER = 0  # not a fragment: its only bucket passes the counts of the tasks on to the driver


@dataclass
class Program:
    """The versions so far, and the fragments and families by number.

    `made` has the queries that this process has already bound and planned, for this program or another.
    """

    partitions: int
    aggregates: Mapping[str, AggregateFunction] = field(default_factory=dict)
    sharing: str = "weave"
    versions: list[Version] = field(default_factory=list)
    fragments: dict[int, Fragment] = field(default_factory=dict)
    families: dict[int, PlannedFamily] = field(default_factory=dict)
    catalog: Catalog = field(default_factory=Catalog)
    made: MadeQueries = field(default_factory=MadeQueries)
    _numbers: dict[Placement, int] = field(default_factory=dict)  # numbers of fragments
    # By fragment and shape: the number of the last family.
    _newest: dict[tuple[int, FamilyShape], int] = field(default_factory=dict)
    _selections: dict[Expression | None, int] = field(default_factory=dict)
    _stream_keys: dict[str, str] = field(default_factory=dict)  # by name

    def copy(self) -> Program:
        """An independent copy, which shares `made` with this program."""
        catalog = Catalog()
        catalog.restore(self.catalog.copy())
        return replace(
            self,
            versions=list(self.versions),
            fragments=dict(self.fragments),
            families=dict(self.families),
            catalog=catalog,
            _numbers=dict(self._numbers),
            _newest=dict(self._newest),
            _selections=dict(self._selections),
            _stream_keys=dict(self._stream_keys),
        )

    def apply(self, change: Change, bound: Sequence[s.Statement | None] = ()) -> Change:
        """Adds a version. Returns the change with the places of its queries, which is what must be written down.

        `bound` has the bound statement for each text, or None for those that are not bound yet.
        """
        draft = _Draft(self, change)
        for number, text in enumerate(change.statements):
            self._define(text, bound[number] if bound else None, draft)
        self._plant(change, draft.queries)
        self.versions.append(draft.version())
        made = {name: query for name, query in draft.queries.items() if query.created == change.version}
        return replace(change, places={name: self._place_of(query) for name, query in made.items()})

    def _define(self, text: str, bound: s.Statement | None, draft: _Draft) -> None:
        made = self.made.find(text, self.catalog)
        known = None if made is None else (made.definition, made.plan)
        if made is not None:
            bound = made.statement
        for statement in [bound] if bound is not None else self._bound(text):
            assert isinstance(statement, Defining), "rows of tables have files of their own"
            interpret(statement, self.catalog, self.find_aggregate, draft, made=known)
            self.made.note_text(text, statement)

    def _bound(self, text: str) -> Iterator[s.Statement]:
        for parsed in parse(text):
            yield bind_one(parsed, self.catalog, self.find_aggregate, self._aggregate_names)

    def place(self, query: QueryDefinition, plan: Emit, statement: s.CreateQuery, draft: _Draft) -> PlannedQuery:
        """Places a new query in a fragment. It gets its family when the version is complete."""
        key, change = query.name.lower(), draft.change
        stored = None if change.places is None else change.places.get(key)
        node = self._node(query, plan, statement, None if stored is None else Decided.of_dict(stored.decided))
        placement = draft.placing.placement(key, plan, node, change.places_by_name)
        fragment = self._fragment(placement, key, stored)
        placed = fragment.number, fragment.placement
        return PlannedQuery(query, statement.query, plan, node, change.version, *placed)

    def _node(
        self, query: QueryDefinition, plan: Emit, statement: s.CreateQuery, decided: Decided | None
    ) -> PhysicalQuery:
        node = self.made.node_of(plan, query, self.sharing)
        if node is None or (decided is not None and decided_on(node) != decided):
            # Without measured rates, because all processes must plan alike.
            wanted = LogicalQuery(query.name.lower(), plan, query.options)
            node = Planner(self.sharing).node(PhysicalPlan(), wanted, decided)
            self.made.note(statement, query, plan, node, self.sharing, self.catalog)
        return node

    def know_stream(self, name: str, key: str | None) -> str:
        """Gives a stream its key, or forgets it (`key` is None). Returns the key that the stream has or had."""
        if key is None:
            return self._stream_keys.pop(name)
        return self._stream_keys.setdefault(name, key)

    @property
    def stream_keys(self) -> Mapping[str, str]:
        """The keys of the streams, by lower-case name."""
        return self._stream_keys

    def find_aggregate(self, name: str) -> AggregateFunction | None:
        return registry.find(name) or self.aggregates.get(name.upper())

    def _aggregate_names(self) -> list[str]:
        return [*registry.names(), *self.aggregates]

    # -- fragments and families ----------------------------------------------------------------------------------

    def _fragment(self, placement: Placement, query: str, stored: StoredPlace | None) -> Fragment:
        """The fragment of a placement: the one that was written down, else an existing one, else a new one."""
        if stored is None:
            number = self._numbers.setdefault(placement, max(self.fragments, default=0) + 1)
            return self.fragments.setdefault(number, Fragment(number, placement))
        if stored.fragment not in self.fragments:
            if placement in self._numbers and placement.way is Way.TOGETHER:
                # The panewise that wrote it down had it in a fragment of its own.
                shards = map(placement.in_shard, count())
                placement = next(shard for shard in shards if shard not in self._numbers)
            self.fragments[stored.fragment] = Fragment(stored.fragment, placement)
            self._numbers.setdefault(placement, stored.fragment)
        found = self.fragments[stored.fragment]
        if not found.placement.spreads_as(placement) or self._numbers[found.placement] != found.number:
            raise _planned_otherwise(query)
        return found

    def _plant(self, change: Change, queries: dict[str, PlannedQuery]) -> None:
        """Gives the new queries of a complete version their families: existing ones that have queries, or new ones."""
        going_on = {query.family for query in queries.values() if query.created < change.version}
        for name, query in queries.items():
            if query.created == change.version and self.fragments[query.fragment].is_folded:
                assert isinstance(query.node, FamilyQuery)
                shape = query.node.shape
                stored = None if change.places is None else change.places.get(name)
                number = self._newest.get((query.fragment, shape))
                if stored is not None:
                    number = stored.family
                    if number not in self.families:
                        self._new_family(number, query.fragment, shape, stored.selection)
                    if (self.families[number].fragment, self.families[number].shape) != (query.fragment, shape):
                        raise _planned_otherwise(name)
                elif number is None or number not in going_on:
                    number = max(self.families, default=0) + 1
                    selection = self._selections.get(shape.where, max(self._selections.values(), default=-1) + 1)
                    self._new_family(number, query.fragment, shape, selection)
                going_on.add(number)
                queries[name] = replace(query, family=number)

    def _place_of(self, query: PlannedQuery) -> StoredPlace:
        selection = self.families[query.family].selection if query.family else 0
        return StoredPlace(query.fragment, query.family, selection, decided_on(query.node).to_dict())

    def _new_family(self, number: int, fragment: int, shape: FamilyShape, selection: int) -> None:
        self._selections.setdefault(shape.where, selection)
        columns = tuple(f"key_{shape.keys.index(key)}" for key in self.fragments[fragment].keys)
        self.families[number] = PlannedFamily(number, fragment, shape, selection, columns)
        self._newest[fragment, shape] = number

    def families_in(self, version: Version, fragment: Fragment) -> list[PlannedFamily]:
        """The families of a fragment, in the order of their numbers."""
        return [self.families[number] for number in version.family_numbers.get(fragment.number, ())]

    def keys_of(self, fragment: Fragment) -> tuple[int, ...]:
        return bucket_keys(fragment.number, fragment.buckets, self.partitions)

    def plan_of(self, fragment: Fragment, version: Version) -> FragmentPlan:
        """What the buckets of a fragment are made of in a version."""
        families = tuple(self.families_in(version, fragment))
        return FragmentPlan(fragment, version.hosted(fragment), families, *version.defined_below(fragment))

    def concerns(self, fragment: Fragment, after: int, upto: int) -> bool:
        """Whether a version after `after`, up to and with `upto`, changes the plan of a fragment's buckets."""
        versions = [self.version(after), *self.between(after, upto)]
        plans = (self.plan_of(fragment, version) for version in versions)
        return any(before != behind for before, behind in pairwise(plans))

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
        """The versions after `after`, up to and with `upto`."""
        return [version for version in self.versions if after < version.number <= upto]

    @property
    def next_version(self) -> int:
        """The number of the next change."""
        return self.newest.number + 1 if self.versions else 0

    def at(self, batch: int) -> Version:
        """The version that governs a micro-batch."""
        return max((v for v in self.versions if v.from_batch <= batch), key=lambda v: v.number)

    def beginning(self, batch: int) -> list[int]:
        """The versions that have begun by a micro-batch."""
        return [version.number for version in self.versions if version.from_batch <= batch]

    def options(self, stream: str) -> Options:
        """A stream's newest options, for replays too: after ALTER STREAM a bad row must no longer block a replay."""
        for version in reversed(self.versions):
            if stream in version.streams:
                return version.streams[stream].options
        return ()

    def fragments_over(self, version: Version, stream: str) -> list[Fragment]:
        numbers = sorted(version.fragment_numbers)
        return [self.fragments[n] for n in numbers if stream in self.fragments[n].streams]

    def gone(self, batch: int) -> list[Fragment]:
        """Fragments that lose their last query with the versions that begin in a micro-batch."""
        before = self.at(batch - 1).fragment_numbers if batch > 0 else frozenset()
        return [self.fragments[number] for number in sorted(before - self.at(batch).fragment_numbers)]

    def columns_needed(self, version: Version, stream: str) -> Schema:
        """The event time and the columns that queries read; all columns if rows go whole or are archived."""
        definition = version.streams[stream]
        if stream in version.archived_streams:
            return definition.schema
        needed = {definition.timestamp}
        for fragment in self.fragments_over(version, stream):
            if not fragment.is_folded:
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
    """The next version, while the statements of its change are run."""

    def __init__(self, program: Program, change: Change) -> None:
        last = program.newest if program.versions else Version(-1, 0, {}, {}, {})
        self.change = change
        self._program = program
        self._streams, self.queries, self._sinks = dict(last.streams), dict(last.queries), dict(last.sinks)
        self._tables, self._archives = dict(last.tables), dict(last.archives)
        self.placing = Placing(program.partitions, program.stream_keys, self.queries)

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
                self._program.made.forget(definition)

    def set_suspended(self, query: str, suspended: bool) -> None:
        query = query.lower()
        before = self.queries[query]
        resumed = self.change.version if before.suspended and not suspended else before.resumed
        self.queries[query] = replace(before, suspended=suspended, resumed=resumed)

    def altered(self, definition: Definition, options: Options) -> None:
        name = definition.name.lower()
        if isinstance(definition, StreamDefinition):
            self._streams[self._program.stream_keys[name]] = definition
        elif isinstance(definition, ArchiveDefinition):
            self._archives[name] = replace(self._archives[name], definition=definition)


def _planned_otherwise(query: str) -> SnapshotError:
    return SnapshotError(
        f"the checkpoint has the state of query '{query}' in a place that this version of panewise would not choose",
        hint="go on with the version that wrote it, or drop the query there and create it anew here",
    )
