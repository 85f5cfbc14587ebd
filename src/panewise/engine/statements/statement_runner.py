"""Runs statements inside a turn of the engine, each of them all or nothing.

The statement is logged before it runs. If it is refused, the catalog is restored. Everything else is changed last, when
nothing can refuse the statement any more; what CREATE has begun is undone whatever is raised.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
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
from panewise.connectors.tables import check_changeable, check_options, no_rows, read_table, table_connector
from panewise.engine.books.books import Books
from panewise.engine.books.definitions import Created, definition_of
from panewise.engine.books.engine_archives import Migration, last_cut
from panewise.engine.books.interpreter import Definer, Defining, interpret
from panewise.engine.books.made_queries import MadeQueries
from panewise.engine.books.measured_statistics import measured
from panewise.engine.durability.found_outside import NOTHING_YET, FoundOutside
from panewise.engine.hosting.query_registry import QueryRegistry
from panewise.engine.ingest.queue_thread import Process, declare_queue
from panewise.engine.ingest.stream import Stream
from panewise.engine.reads.archive_reads import ArchiveExplanation, explained_table
from panewise.engine.reads.window_reads import Read, WindowReads
from panewise.engine.run.driver import Driver
from panewise.engine.statements.engine_report import shown
from panewise.engine.statements.explaining import explain_all, explain_once, explain_plan, explain_query
from panewise.engine.statements.listeners import Listeners
from panewise.engine.tables.change_feed import ChangeFeed, check_changes
from panewise.engine.tables.changed_table import ChangedTable
from panewise.engine.tables.table import Table
from panewise.errors import CatalogError, QueryError, Span, raise_interrupt_behind
from panewise.language import statements as s
from panewise.language.bind.binder import ParsedStatement, bind_one, parse
from panewise.language.parse.tokens import tokens_of
from panewise.optimize.planner import LogicalQuery, Planner
from panewise.optimize.refusals import HostKind, check_host, check_once, check_query
from panewise.plan.build import build
from panewise.plan.decided import NOTHING_DECIDED, Decided, decided_on
from panewise.plan.nodes import Emit, Scan
from panewise.plan.physical_plan import Difference, PhysicalPlan, Planned
from panewise.plan.scale_sampled import scale_sampled

ReadTable = Callable[[TableDefinition], pa.RecordBatch]
Unfinished = Read | ArchiveExplanation | Migration


class StatementRunner(Definer):
    """Runs the bound statements of one engine."""

    def __init__(
        self, books: Books, reads: WindowReads, driver: Driver, listeners: Listeners, process: Process
    ) -> None:
        """`process`: a method of the engine, which processes what waits in the queue of a stream."""
        self._books = books
        self._reads = reads
        self._driver = driver
        self._listeners = listeners
        self._process = process
        self._read_table: ReadTable = read_table
        self._queries_made: MadeQueries | None = None
        self._decided: Mapping[str, Decided] | None = None  # by query, while a snapshot is restored
        self._found = NOTHING_YET  # What the running statement has found outside the engine.
        self._feeds: dict[str, ChangeFeed] = {}  # by lower-case name of the table that a stream changes

    def read_tables_by(self, read_table: ReadTable) -> None:
        """Tables with a connector get their rows from this function when they are created."""
        self._read_table = read_table

    def share_queries(self, made: MadeQueries) -> None:
        """Others in this process run the same statements: what is bound and planned here is noted, and used by all."""
        self._queries_made = made

    @contextmanager
    def restoring(self, decided: Mapping[str, Decided]) -> Iterator[None]:
        """Until the end of the block the statements of a snapshot run: queries are planned as they were `decided`, by
        name, and tables stay empty."""
        read_table, self._read_table, self._decided = self._read_table, no_rows, decided
        try:
            yield
        finally:
            self._read_table, self._decided = read_table, None

    def bound(self, parsed: ParsedStatement) -> s.Statement:
        """The statement with every name resolved and every type known."""
        books = self._books
        if self._queries_made is not None:
            made = self._queries_made.find(parsed.text[parsed.span.start : parsed.span.end], books.catalog)
            if made is not None:
                return made.statement
        return bind_one(parsed, books.catalog, books.find_aggregate, books.aggregate_names)

    def execute(self, statement: s.Statement, found: FoundOutside = NOTHING_YET) -> pa.Table | Unfinished | None:
        """Runs a statement. The caller has processed all pending rows.

        `found`: what a logged statement found outside the engine when it first ran. Returns the table of SHOW, EXPLAIN
        and SELECT, or work that is to be finished outside all turns.
        """
        if isinstance(statement, s.Show | s.Explain):
            return self._run(statement, found)
        books, log, written = self._books, self._books.log, False
        if log is not None and log.suspended is None:
            found = self._looked_outside(statement)
        before = books.catalog.copy()
        with books.turns.change as change:
            try:
                written = log is not None and log.begin_statement(statement, found)
                return self._run(scale_sampled(statement, books.catalog), found)
            except Exception as problem:  # after an interrupt the engine is broken
                raise_interrupt_behind(problem)
                books.catalog.restore(before)
                if written and log is not None:
                    log.undo_statement()
                change.undone()
                raise

    def execute_parsed(self, parsed: ParsedStatement, found: FoundOutside = NOTHING_YET) -> None:
        """Processes pending rows, and runs a statement to its end. Nobody else may use the engine meanwhile."""
        self._books.flush()
        statement = self.bound(parsed)
        with located(parsed):
            result = self.execute(statement, found)
            if isinstance(result, Unfinished):
                result.finished()

    def execute_again(self, text: str, found: FoundOutside = NOTHING_YET) -> None:
        """Runs the statements of a snapshot or a log. `found`: what they found outside when they first ran."""
        for parsed in parse(text):
            self.execute_parsed(parsed, found)

    def _looked_outside(self, statement: s.Statement) -> FoundOutside:
        """What a statement depends on beside the log, found before it is logged: files, and the planner's decisions."""
        if isinstance(statement, s.CreateQuery) and self._books.catalog.find(statement.name) is None:
            return FoundOutside(decided=self._decisions(statement))
        if isinstance(statement, s.CreateArchive):
            return FoundOutside(archive_cut=last_cut(str(dict(statement.options)["path"])))
        if not isinstance(statement, s.CreateTable) or self._books.catalog.find(statement.name) is not None:
            return NOTHING_YET  # such a table is refused, or there is nothing to do
        definition, _ = definition_of(statement, self._books.find_aggregate)
        assert isinstance(definition, TableDefinition)
        check_options(definition)
        return FoundOutside(self._read_table(definition) if table_connector(definition) is not None else None)

    def _decisions(self, statement: s.CreateQuery) -> Decided:
        """What the planner decides on a query that is going to be created."""
        books = self._books
        sampled = scale_sampled(statement, books.catalog)
        assert isinstance(sampled, s.CreateQuery)
        definition, plan = definition_of(sampled, books.find_aggregate)
        assert plan is not None
        query = LogicalQuery(definition.name.lower(), plan, definition.options)
        return decided_on(self._planner(plan).node(books.hosting.plan, query))

    def _planner(self, plan: Emit) -> Planner:
        return Planner(self._books.hosting.sharing, measured(plan, self._books))

    def _run(self, statement: s.Statement, found: FoundOutside) -> pa.Table | Unfinished | None:
        books = self._books
        match statement:
            case s.Show():
                return shown(self._books.catalog, self._books.hosting, self._books.archives, statement.kind)
            case s.Explain():
                return self._explain_statement(statement)
            case s.SelectOnce():
                return self._reads.begin(build(statement.query, self._books.find_aggregate))
            case s.Insert() | s.Update() | s.Delete():
                table = self._books.table(statement.table)
                check_changeable(table.definition)
                table.run(statement)
            case _:
                assert isinstance(statement, Defining), statement
                check_host(statement, HostKind.EMBEDDED)
                self._found = found
                made = None if self._queries_made is None else self._queries_made.find(statement.text, books.catalog)
                known = None if made is None else (made.definition, made.plan)
                accepted = books.hosting.accepted_before
                unfinished: Migration | None = interpret(
                    statement, books.catalog, books.find_aggregate, self, accepted, known
                )
                return unfinished
        return None

    # -- definitions ---------------------------------------------------------------------------------------------

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
        wanted = self._wanted(statement, definition, plan)
        hosting.change(wanted.difference(hosting.plan))
        undo.callback(self._drop_query, definition.name.lower())
        self._limit_streams()

    def _wanted(self, statement: s.CreateQuery, definition: QueryDefinition, plan: Emit) -> PhysicalPlan:
        """The plan of all that runs, with a new query."""
        hosting, decided = self._books.hosting, self._found.decided
        key = definition.name.lower()
        if self._decided is not None:
            decided = self._decided.get(key, NOTHING_DECIDED)
        query, made = LogicalQuery(key, plan, definition.options), self._queries_made
        if made is None:
            return self._planner(plan).planned(hosting.plan, query, decided)
        # Others that run the statement plan without measurements, so that all processes agree.
        node = made.node_of(plan, definition, hosting.sharing)
        if node is None:
            node = Planner(hosting.sharing).node(PhysicalPlan(), query, decided)
            made.note(statement, definition, plan, node, hosting.sharing, self._books.catalog)
        return hosting.plan.changed(Difference(coming={key: Planned(node)}))

    def _drop_query(self, key: str) -> None:
        hosting = self._books.hosting
        hosting.change(Planner(hosting.sharing).without(hosting.plan, key).difference(hosting.plan))

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

    def _check_runs(self, name: str) -> None:
        query = self._books.hosting.queries.get(name.lower())
        if query is not None and query.status == "FAILED" and not self._books.replaying:
            raise CatalogError(f"query '{name}' has failed: {query.reason}", hint="drop it and create it anew")

    def _explain_statement(self, statement: s.Explain) -> pa.Table | ArchiveExplanation:
        if statement.query is not None:
            plan = build(statement.query, self._books.find_aggregate)
            archived = any(isinstance(node, Scan) and node.kind == "archive" for node in plan.walk())
            if archived:
                check_once(plan)
                explanation = explain_once(plan)
                return ArchiveExplanation(plan, explanation, self._books.archives.__getitem__)
            check_query(plan)
            explanation = explain_plan(plan, self._planner(plan), self._books.hosting)
        elif statement.name is not None:
            hosted = self._books.query(statement.name)
            explanation = explain_query(hosted, self._books.hosting)
        else:
            explanation = explain_all(self._books.streams, self._books.hosting)
        return explained_table(explanation)


def _begun_beside(hosting_of: Callable[[], QueryRegistry | None], stream: Stream) -> int | None:
    hosting = hosting_of()
    return None if hosting is None else hosting.graph.begun_beside(stream)


def word_in(parsed: ParsedStatement, word: str) -> Span:
    """Where a word stands in a statement; the whole statement if the word is not there."""
    for token in tokens_of(parsed.text):
        if parsed.span.start <= token.start < parsed.span.end and token.text.lower() == word.lower():
            return Span(token.start, token.end + 1)
    return parsed.span


@contextmanager
def located(parsed: ParsedStatement) -> Iterator[None]:
    """Adds the place in the text to a problem with a statement."""
    try:
        yield
    except QueryError as problem:
        if problem.span is None:
            problem.span = parsed.span if problem.about is None else word_in(parsed, problem.about)
        problem.located(parsed.text)
        raise
