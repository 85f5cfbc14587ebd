"""What statements do to an engine: definitions come and go, streams are altered, tables change, SELECT answers once.

The engine has parsed and bound the statement and holds its turn; it takes back a catalog that a refused statement has
changed. Everything else that a statement changes, it changes last, when nothing can refuse it any more, and what CREATE
has begun is undone whatever is raised.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from panewise.catalog import ArchiveDefinition, QueryDefinition, StreamDefinition, TableDefinition
from panewise.connectors.tables import check_changeable, check_options, table_connector
from panewise.errors import CatalogError
from panewise.language import statements as s
from panewise.plan.build import build
from panewise.plan.nodes import Emit, Scan
from panewise.plan.supported import check_supported
from panewise.runtime.archive_reads import ArchiveExplanation, explained_table
from panewise.runtime.archives import Migration
from panewise.runtime.change_feed import ChangeFeed, check_changes
from panewise.runtime.changed_table import ChangedTable
from panewise.runtime.definitions import Created, definition_of
from panewise.runtime.engine_report import shown
from panewise.runtime.explaining import explain_query
from panewise.runtime.hosting import Hosting
from panewise.runtime.queue_thread import declare_queue
from panewise.runtime.refresh_option import is_at_most, slide_at_most, with_slide
from panewise.runtime.stream import Stream
from panewise.runtime.table import Table
from panewise.runtime.window_reads import Read

if TYPE_CHECKING:
    from panewise.runtime.engine import Engine


Unfinished = Read | ArchiveExplanation | Migration


class StatementRunner:
    """Runs the bound statements of one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.slides_at_most: dict[str, int] = {}  # what queries got that are refreshed "at_most"
        self.slides_given: dict[str, int] = {}  # and what they had got when a snapshot was taken
        self._feeds: dict[str, ChangeFeed] = {}  # of tables that streams change, by lower-case name

    def run(self, statement: s.Statement) -> pa.Table | Unfinished | None:
        """Returns the table of SHOW, EXPLAIN and SELECT, or what is to be finished outside all turns."""
        match statement:
            case s.CreateStream() | s.CreateTable() | s.CreateQuery() | s.CreateSink() | s.CreateArchive():
                self._create(statement)
            case s.Drop():
                self._drop(statement)
            case s.SuspendQuery():
                self._set_status(statement.name, "SUSPENDED")
            case s.ResumeQuery():
                self._set_status(statement.name, "RUNNING")
            case s.AlterStream():
                self._alter_stream(statement)
            case s.AlterArchive():
                return self._alter_archive(statement)
            case s.Show():
                return shown(self._engine.catalog, self._engine.hosting, self._engine.archives, statement.kind)
            case s.Explain():
                return self._explain_statement(statement)
            case s.SelectOnce():
                return self._engine.reads.begin(build(statement.query, self._engine.find_aggregate))
            case s.Insert() | s.Update() | s.Delete():
                table = self._engine.table(statement.table)
                check_changeable(table.definition)
                table.run(statement)
            case _:
                raise AssertionError(statement)
        return None

    def _create(self, statement: Created) -> None:
        if statement.if_not_exists and self._engine.catalog.find(statement.name) is not None:
            return
        if isinstance(statement, s.CreateSink):
            self._engine.catalog.get(statement.source, "query")
        if isinstance(statement, s.CreateArchive):
            self._check_runs(statement.source)
        before = self._engine.hosting.taken_before
        definition, plan = definition_of(statement, self._engine.find_aggregate, before)
        self._engine.catalog.add(definition)
        key = definition.name.lower()
        with ExitStack() as undo:  # whatever is raised from here on
            if isinstance(definition, StreamDefinition):
                self._create_stream(key, definition, undo)
            elif isinstance(definition, TableDefinition):
                self._create_table(key, definition, undo)
            elif isinstance(definition, ArchiveDefinition):
                self._engine.archives.create(definition)
            elif plan is not None:
                for source in definition.inputs if isinstance(definition, QueryDefinition) else ():
                    self._check_runs(source)
                self._create_query(key, plan, statement.options, undo)
            undo.pop_all()
        if not (self._engine.replaying or self._engine.hosting.taken_before):
            self._engine.driver.created(definition)

    def _create_stream(self, key: str, definition: StreamDefinition, undo: ExitStack) -> None:
        stream = Stream(definition)
        stream.journal = self._engine.durability
        stream.change = self._engine.turns.change
        undo.callback(self._engine.streams.pop, key, None)
        self._engine.streams[key] = stream
        declare_queue(stream, self._engine.process)

    def _create_table(self, key: str, definition: TableDefinition, undo: ExitStack) -> None:
        check_options(definition)
        table = self._new_table(definition)
        if table_connector(definition) is not None:
            table.become(self._engine.read_table(definition))
        undo.callback(self._engine.tables.pop, key, None)
        self._engine.tables[key] = table
        if isinstance(table, ChangedTable) and definition.changes is not None:
            feed = self._feeds[key] = ChangeFeed(table, self._engine.stream(definition.changes))
            undo.callback(self._end_feed, key)
            feed.begin()

    def _end_feed(self, key: str) -> None:
        feed = self._feeds.pop(key, None)
        if feed is not None:
            feed.end()

    def _create_query(self, key: str, plan: Emit, options: s.Options, undo: ExitStack) -> None:
        at_most = self._slide_at_most(key, plan) if is_at_most(options) else None
        self._engine.hosting.host(key, plan if at_most is None else with_slide(plan, at_most), options)
        undo.callback(self._engine.hosting.drop, key)
        if at_most is not None:
            undo.callback(self.slides_at_most.pop, key, None)
            self.slides_at_most[key] = at_most
        self._limit_streams()

    def _slide_at_most(self, key: str, plan: Emit) -> int:
        others = [query.block for query in self._engine.hosting.queries.values()]
        return self.slides_given.get(key) or slide_at_most(plan, others)

    def _new_table(self, definition: TableDefinition) -> Table:
        check_changes(definition, self._engine.catalog)
        if definition.changes is None:
            return Table(definition)
        return ChangedTable(definition, self._engine.stream(definition.changes))

    def _limit_streams(self) -> None:
        """A row may not close more than so many windows: the shortest slide over each stream says how far that is."""
        slides = self._engine.hosting.slides()
        # Weakly: the thread of a queue has its stream, and must not keep the engine.
        hosting = weakref.ref(self._engine.hosting)
        for stream in self._engine.streams.values():
            stream.set_slide(slides.get(id(stream)), partial(_begun_beside, hosting, stream))

    def _drop(self, statement: s.Drop) -> None:
        if statement.if_exists and self._engine.catalog.find(statement.name) is None:
            return
        dropped = self._engine.catalog.drop(statement.name, statement.kind)
        if not self._engine.replaying:
            self._engine.driver.dropped(dropped)
        key = statement.name.lower()
        if statement.kind == "query":
            self._engine.hosting.drop(key)
            self.slides_at_most.pop(key, None)
            self._engine.forget_listeners(key)
            self._limit_streams()
        elif statement.kind == "stream":
            stream = self._engine.streams.pop(key)
            if stream.queue is not None:
                stream.queue.close()
        elif statement.kind == "table":
            del self._engine.tables[key]
            self._end_feed(key)
        elif statement.kind == "archive":
            self._engine.archives.drop(key)

    def _set_status(self, name: str, status: str) -> None:
        self._engine.catalog.get(name, "query")
        query = self._engine.hosting.queries[name.lower()]
        if query.status == "FAILED" and self._engine.replaying:
            return  # it had not when the statement was logged
        self._check_runs(name)
        query.status = status

    def _check_runs(self, name: str) -> None:
        query = self._engine.hosting.queries.get(name.lower())
        if query is not None and query.status == "FAILED" and not self._engine.replaying:
            raise CatalogError(f"query '{name}' has failed: {query.reason}", hint="drop it and create it anew")

    def _alter_stream(self, statement: s.AlterStream) -> None:
        definition = self._engine.catalog.get(statement.name, "stream")
        options = dict(definition.options) | dict(statement.options)
        self._engine.catalog.change(statement.name, options=tuple(options.items()))
        stream = self._engine.streams[statement.name.lower()]
        stream.configure(dict(statement.options))
        declare_queue(stream, self._engine.process)

    def _alter_archive(self, statement: s.AlterArchive) -> Migration | None:
        definition = self._engine.catalog.get(statement.name, "archive")
        options = dict(definition.options) | dict(statement.options)
        self._engine.catalog.change(statement.name, options=tuple(options.items()))
        altered = self._engine.catalog.get(statement.name, "archive")
        assert isinstance(altered, ArchiveDefinition)
        return self._engine.archives.alter(altered)

    def _explain_statement(self, statement: s.Explain) -> pa.Table | ArchiveExplanation:
        if statement.query is not None:
            plan = build(statement.query, self._engine.find_aggregate)
            archived = any(isinstance(node, Scan) and node.kind == "archive" for node in plan.walk())
            check_supported(plan, once=archived)
            explanation = explain_query(plan, None)
            if archived:
                return ArchiveExplanation(plan, explanation, self._engine.archives)
        elif statement.name is not None:
            self._engine.catalog.get(statement.name, "query")
            explanation = self._engine.explain(statement.name)
        else:
            explanation = self._engine.explain()
        return explained_table(explanation)


def _begun_beside(hosting_of: Callable[[], Hosting | None], stream: Stream) -> int | None:
    hosting = hosting_of()
    return None if hosting is None else hosting.begun_beside(stream)
