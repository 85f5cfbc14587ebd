"""Runs statements inside a turn of the engine, each of them all or nothing.

A statement is logged before it runs. If it is refused, the catalog is restored. Everything else is changed last, when
nothing can refuse the statement any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa

from panewise.connectors.tables import check_changeable
from panewise.engine.books.books import Books
from panewise.engine.books.engine_archives import Migration
from panewise.engine.books.interpreter import Defining
from panewise.engine.books.made_queries import MadeQueries
from panewise.engine.durability.found_outside import NOTHING_YET, FoundOutside
from panewise.engine.ingest.queue_thread import Process
from panewise.engine.reads.archive_reads import ArchiveExplanation, explained_table
from panewise.engine.reads.window_reads import Read, WindowReads
from panewise.engine.run.driver import Driver
from panewise.engine.statements.engine_definer import EngineDefiner, ReadTable
from panewise.engine.statements.engine_report import shown
from panewise.engine.statements.explaining import explain_all, explain_once, explain_plan, explain_query
from panewise.engine.statements.listeners import Listeners
from panewise.engine.statements.query_plans import QueryPlans
from panewise.errors import QueryError, Span, raise_interrupt_behind
from panewise.language import statements as s
from panewise.language.bind.binder import ParsedStatement, bind_one, parse
from panewise.language.parse.tokens import tokens_of
from panewise.optimize.refusals import check_once, check_query
from panewise.plan.build import build
from panewise.plan.decided import Decided
from panewise.plan.nodes import Scan
from panewise.plan.scale_sampled import scale_sampled

Unfinished = Read | ArchiveExplanation | Migration


class StatementRunner:
    """Runs the bound statements of one engine."""

    def __init__(
        self, books: Books, reads: WindowReads, driver: Driver, listeners: Listeners, process: Process
    ) -> None:
        """`process`: a method of the engine, which processes what is pending in the queue of a stream."""
        self._books = books
        self._reads = reads
        self._plans = QueryPlans(books)
        self._definer = EngineDefiner(books, self._plans, driver, listeners, process)

    def read_tables_by(self, read_table: ReadTable) -> None:
        """Tables with a connector get their rows from this function when they are created."""
        self._definer.read_tables_by(read_table)

    def share_queries(self, made: MadeQueries) -> None:
        """Others in this process run the same statements: what is bound and planned here is noted, and used by all."""
        self._plans.share(made)

    @contextmanager
    def restoring(self, decided: Mapping[str, Decided]) -> Iterator[None]:
        """Until the end of the block the statements of a snapshot run: queries are planned as they were `decided`, by
        name, and tables stay empty."""
        with self._plans.decided(decided), self._definer.reading_no_tables():
            yield

    def bound(self, parsed: ParsedStatement) -> s.Statement:
        """The statement with every name resolved and every type known."""
        made = self._plans.known(parsed.text[parsed.span.start : parsed.span.end])
        if made is not None:
            return made.statement
        books = self._books
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
            found = self._definer.look_outside(statement)
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
                result.finish()

    def execute_again(self, text: str, found: FoundOutside = NOTHING_YET) -> None:
        """Runs the statements of a snapshot or a log. `found`: what they found outside when they first ran."""
        for parsed in parse(text):
            self.execute_parsed(parsed, found)

    def _run(self, statement: s.Statement, found: FoundOutside) -> pa.Table | Unfinished | None:
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
                return None
            case _:
                assert isinstance(statement, Defining), statement
                return self._definer.define(statement, found)

    def _explain_statement(self, statement: s.Explain) -> pa.Table | ArchiveExplanation:
        if statement.query is not None:
            plan = build(statement.query, self._books.find_aggregate)
            archived = any(isinstance(node, Scan) and node.kind == "archive" for node in plan.walk())
            if archived:
                check_once(plan)
                explanation = explain_once(plan)
                return ArchiveExplanation(plan, explanation, self._books.archives.__getitem__)
            check_query(plan)
            explanation = explain_plan(plan, self._plans.planner(plan), self._books.hosting)
        elif statement.name is not None:
            hosted = self._books.query(statement.name)
            explanation = explain_query(hosted, self._books.hosting)
        else:
            explanation = explain_all(self._books.streams, self._books.hosting)
        return explained_table(explanation)


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
