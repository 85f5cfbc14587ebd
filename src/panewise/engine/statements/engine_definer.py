"""Creates, drops and alters the definitions of an engine: streams, tables, queries, sinks and archives.

What can refuse a statement comes first. What CREATE has begun is undone whatever is raised.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import pyarrow as pa

from panewise.catalog import (
    ArchiveDefinition,
    Definition,
    Options,
    QueryDefinition,
    SinkDefinition,
    StreamDefinition,
    TableDefinition,
)
from panewise.connectors.by_name import check_sink, check_source
from panewise.connectors.tables import check_options, no_rows, read_table, table_connector
from panewise.engine.books.books import Books
from panewise.engine.books.definitions import Created, definition_of
from panewise.engine.books.engine_archives import Migration, last_cut
from panewise.engine.books.interpreter import Definer, Defining, interpret
from panewise.engine.durability.found_outside import NOTHING_YET, FoundOutside
from panewise.engine.hosting.query_registry import QueryRegistry
from panewise.engine.ingest.queue_thread import Process, declare_queue
from panewise.engine.ingest.stream import Stream
from panewise.engine.run.driver import Driver
from panewise.engine.statements.listeners import Listeners
from panewise.engine.statements.query_plans import QueryPlans
from panewise.engine.tables.change_feed import ChangeFeed, check_changes
from panewise.engine.tables.changed_table import ChangedTable
from panewise.engine.tables.table import Table
from panewise.errors import CatalogError
from panewise.language import statements as s
from panewise.optimize.refusals import HostKind, check_host
from panewise.plan.nodes import Emit

ReadTable = Callable[[TableDefinition], pa.RecordBatch]


class EngineDefiner(Definer):
    """The definitions of one engine. The interpreter calls it while a statement runs."""

    def __init__(self, books: Books, plans: QueryPlans, driver: Driver, listeners: Listeners, process: Process) -> None:
        """`process`: a method of the engine, which processes what is pending in the queue of a stream."""
        self._books = books
        self._plans = plans
        self._driver = driver
        self._listeners = listeners
        self._process = process
        self._read_table: ReadTable = read_table
        self._found = NOTHING_YET  # What the running statement has found outside the engine.
        self._feeds: dict[str, ChangeFeed] = {}  # by lower-case name of the table that a stream changes

    def read_tables_by(self, read_table: ReadTable) -> None:
        """Tables with a connector get their rows from this function when they are created."""
        self._read_table = read_table

    @contextmanager
    def reading_no_tables(self) -> Iterator[None]:
        """Until the end of the block tables with a connector are empty when they are created."""
        self._read_table, outer = no_rows, self._read_table
        try:
            yield
        finally:
            self._read_table = outer

    def look_outside(self, statement: s.Statement) -> FoundOutside:
        """What a statement depends on beside the log, found before it is logged: files, and the planner's decisions."""
        if isinstance(statement, s.CreateQuery) and self._books.catalog.find(statement.name) is None:
            return FoundOutside(decided=self._plans.decisions(statement))
        if isinstance(statement, s.CreateArchive):
            return FoundOutside(archive_cut=last_cut(str(dict(statement.options)["path"])))
        if not isinstance(statement, s.CreateTable) or self._books.catalog.find(statement.name) is not None:
            return NOTHING_YET  # such a table is refused, or there is nothing to do
        definition, _ = definition_of(statement, self._books.find_aggregate)
        assert isinstance(definition, TableDefinition)
        check_options(definition)
        return FoundOutside(self._read_table(definition) if table_connector(definition) is not None else None)

    def define(self, statement: Defining, found: FoundOutside) -> Migration | None:
        """Runs a statement that defines. Returns what is to be finished outside all turns, if anything."""
        check_host(statement, HostKind.EMBEDDED)
        books, self._found = self._books, found
        made = self._plans.known(statement.text)
        known = None if made is None else (made.definition, made.plan)
        accepted = books.hosting.accepted_before
        unfinished: Migration | None = interpret(statement, books.catalog, books.find_aggregate, self, accepted, known)
        return unfinished

    # -- called by the interpreter -------------------------------------------------------------------------------------

    def made(self, definition: Definition, plan: Emit | None, statement: Created) -> None:
        key, found = definition.name.lower(), self._found
        with ExitStack() as undo:  # if anything is raised
            match definition:
                case StreamDefinition():
                    if not self._repeats:
                        check_source(definition)
                    self._create_stream(key, definition, undo)
                case TableDefinition():
                    self._create_table(key, definition, found.rows, undo)
                case ArchiveDefinition():
                    self._check_runs(definition.source)
                    self._books.archives.create(definition, found.archive_cut)
                case SinkDefinition():
                    if not self._repeats:
                        check_sink(definition)
                case QueryDefinition():
                    assert plan is not None
                    for source in definition.inputs:
                        self._check_runs(source)
                    assert isinstance(statement, s.CreateQuery)
                    self._create_query(statement, definition, plan, undo)
            undo.pop_all()
        if not self._repeats:
            self._driver.created(definition)

    def dropped(self, definition: Definition) -> None:
        if not self._books.replaying:
            self._driver.dropped(definition)
        key = definition.name.lower()
        match definition:
            case QueryDefinition():
                self._drop_query(key)
                self._listeners.forget(key)
                self._limit_streams()
            case StreamDefinition():
                stream = self._books.streams.pop(key)
                if stream.queue is not None:
                    stream.queue.close()
            case TableDefinition():
                del self._books.tables[key]
                self._end_feed(key)
            case ArchiveDefinition():
                self._books.archives.drop(key)

    def set_suspended(self, query: str, suspended: bool) -> None:
        hosted = self._books.hosting.queries[query.lower()]
        if hosted.status == "FAILED" and self._books.replaying:
            return  # The query had not failed when the statement was logged.
        self._check_runs(query)
        if suspended:
            hosted.suspend()
        else:
            hosted.resume()

    def altered(self, definition: Definition, options: Options) -> Migration | None:
        if isinstance(definition, ArchiveDefinition):
            return self._books.archives.alter(definition)
        stream = self._books.streams[definition.name.lower()]
        stream.configure(dict(options))
        declare_queue(stream, self._process)
        return None

    # -- parts of a definition ---------------------------------------------------------------------------------------

    @property
    def _repeats(self) -> bool:
        """Whether the statement comes from a snapshot or a log."""
        return self._books.replaying or self._books.hosting.accepted_before

    def _create_stream(self, key: str, definition: StreamDefinition, undo: ExitStack) -> None:
        stream = Stream(definition)
        stream.journal = self._books.log
        stream.change = self._books.turns.change
        undo.callback(self._books.streams.pop, key, None)
        self._books.streams[key] = stream
        declare_queue(stream, self._process)

    def _create_table(
        self, key: str, definition: TableDefinition, rows: pa.RecordBatch | None, undo: ExitStack
    ) -> None:
        """`rows`: the rows that it begins with; None if they have not been read yet."""
        check_options(definition)
        table = self._new_table(definition)
        if table_connector(definition) is not None:
            table.become(self._read_table(definition) if rows is None else rows)
        undo.callback(self._books.tables.pop, key, None)
        self._books.tables[key] = table
        if isinstance(table, ChangedTable) and definition.changes is not None:
            feed = self._feeds[key] = ChangeFeed(table, self._books.stream(definition.changes))
            undo.callback(self._end_feed, key)
            feed.begin()

    def _end_feed(self, key: str) -> None:
        feed = self._feeds.pop(key, None)
        if feed is not None:
            feed.end()

    def _create_query(self, statement: s.CreateQuery, definition: QueryDefinition, plan: Emit, undo: ExitStack) -> None:
        hosting = self._books.hosting
        wanted = self._plans.with_query(statement, definition, plan, self._found.decided)
        hosting.change(wanted.difference(hosting.plan))
        undo.callback(self._drop_query, definition.name.lower())
        self._limit_streams()

    def _drop_query(self, key: str) -> None:
        hosting = self._books.hosting
        hosting.change(self._plans.without_query(key).difference(hosting.plan))

    def _new_table(self, definition: TableDefinition) -> Table:
        check_changes(definition, self._books.catalog)
        if definition.changes is None:
            return Table(definition)
        return ChangedTable(definition, self._books.stream(definition.changes))

    def _limit_streams(self) -> None:
        """Tells each stream its shortest slide, which limits how many windows one row may close."""
        slides = self._books.hosting.graph.slides()
        # Streams hold the registry weakly: the thread of a queue has its stream, and must not keep the engine alive.
        hosting = weakref.ref(self._books.hosting)
        for stream in self._books.streams.values():
            stream.set_slide(slides.get(id(stream)), partial(_begun_beside, hosting, stream))

    def _check_runs(self, name: str) -> None:
        query = self._books.hosting.queries.get(name.lower())
        if query is not None and query.status == "FAILED" and not self._books.replaying:
            raise CatalogError(f"query '{name}' has failed: {query.reason}", hint="drop it and create it anew")


def _begun_beside(hosting_of: Callable[[], QueryRegistry | None], stream: Stream) -> int | None:
    hosting = hosting_of()
    return None if hosting is None else hosting.graph.begun_beside(stream)
