"""The backend over an embedded engine: everything in this process, durable where the server has a data folder.

The data folder holds `engine` (its log and snapshots), `results` (numbered results, by query) and `files` (what
connectors of callers may name). A call is acknowledged when the engine has logged it, and what is logged survives the
death of the process; a loss of power takes what the engine's `sync` says (docs/durability.md).

Results move from the engine to the log of results with `hand_over`: at least once, under the same numbers, and the log
skips numbers that it knows. So every result is there exactly once, wherever the process dies. They move after each
call that may have produced some, and in a loop for those that other threads produce.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow as pa

from panewise.catalog import ArchiveDefinition, QueryDefinition, SinkDefinition, StreamDefinition
from panewise.catalog import Definition as CatalogDefinition
from panewise.engine.books.definitions import shown_statement_of
from panewise.engine.durability.suspended_folder import REASON
from panewise.engine.engine import Engine
from panewise.engine.reads.answer_form import answer_form
from panewise.engine.reads.published_answers import watermark_us
from panewise.errors import EngineBroken, NotHeldError, PanewiseError, QueryFailed
from panewise.language.bind.binder import ParsedStatement, parse
from panewise.language.parse import syntax as nodes
from panewise.operators.read_budget import ReadLimits
from panewise.serve.http.gate.connector_rules import (
    FILES,
    adds_definition,
    adds_query,
    check_connectors,
    check_run,
    only_reads,
)
from panewise.serve.http.results.result_log import ResultLog
from panewise.serve.http.service import logs
from panewise.serve.http.service.backend import Definition, Lookup, Pushed, Unready
from panewise.serve.http.service.error_answers import Problem
from panewise.serve.http.service.settings import Settings
from panewise.state.durable_files import PrivateFiles

MOVE_SECONDS = 0.1  # where no call says that it may have produced results: of queues, and of clocks that ran on
PACE_SECONDS_MOST = 0.05
UNREAD = "a source is read no further"


class EngineBackend:
    """See the module. `engine` may be given for tests and for programs that have one; it must be nobody else's.

    Where results are not `limited`, all are held until `results.limit()` is called.
    """

    kind = "embedded"

    def __init__(self, settings: Settings, engine: Engine | None = None, *, limited: bool = True) -> None:
        self._settings = settings
        path = settings.path
        if path is not None:
            PrivateFiles().make_folder(path / FILES)
        self.engine = engine if engine is not None else Engine(None if path is None else path / "engine")
        self.engine.reads.limit(ReadLimits(settings.read_rows, settings.read_bytes, settings.read_seconds))
        self.engine.listeners.tell_by(logs.remark)  # who pushes is told in the answer
        self.engine.driver.expect()  # its file is run; what callers create is read at the next start
        # Lookups then find what is published, where otherwise they would wait for whoever makes the reports.
        self.engine.report_promptly()
        results = None if path is None else path / "results"
        self.results = ResultLog(
            results,
            keep_rows=settings.keep_rows,
            keep_bytes=settings.keep_bytes,
            keep_total=settings.keep_total,
            limited=limited,
        )
        self.unread: dict[str, str] = {}  # why sources of its file are read no further, by stream
        self.before_close: list[Callable[[], None]] = []  # ends what still brings rows
        self._changing = threading.Lock()  # one at a time changes what there is, so that limits hold
        self._moving = threading.Lock()
        self._changed = threading.Event()
        self._produced = self._taken_up_to = object()  # the last call that may have produced results; that taken last
        self._closed = threading.Event()
        self._failed: Unready | None = None
        # Results of queries that were dropped when the process died before they could be forgotten.
        self.results.retain(self._queries())
        for query in self.engine.catalog.of_kind("query"):
            self._begin(query)
        self._move()
        self._mover = threading.Thread(target=self._move_on, name="panewise results", daemon=True)
        self._mover.start()

    # -- statements ----------------------------------------------------------------------------------------------

    def execute(self, text: str) -> pa.Table | None:
        """Runs statements of a caller, one after the other; see `connector_rules` for what they may not do."""
        statements = parse(text)
        result = None
        for number, parsed in enumerate(statements):
            try:
                table = self._execute_one(parsed)
            except PanewiseError as error:
                error.executed = number  # type: ignore[attr-defined]  # those before it have happened
                raise
            result = table if table is not None else result
        return result

    def _execute_one(self, parsed: ParsedStatement) -> pa.Table | None:
        check_run(parsed)  # first: the hint of the other one would lead to this refusal
        check_connectors(parsed, self._settings.path)
        if only_reads(parsed):
            return self.engine.execute_parsed(parsed)  # it may take long, and nobody is to wait for it
        with self._changing:
            if adds_definition(parsed):
                self._check_room(parsed)
            return self._run(parsed)

    def _run(self, parsed: ParsedStatement) -> pa.Table | None:
        node = parsed.node
        dropped = None
        if isinstance(node, nodes.DropDefinition):
            dropped = self.engine.catalog.find(node.this.name)
        if isinstance(dropped, QueryDefinition):
            with suppress(PanewiseError, OSError):  # a full disk must not hinder it
                self._move()  # who reads along gets all results up to the end
        elif isinstance(node, nodes.CreateQueryNode) and self.engine.catalog.find(node.this.name) is None:
            self.results.forget(node.this.name)  # what a DROP QUERY could not, because the disk was full
        table = self.engine.execute_parsed(parsed)
        if isinstance(dropped, QueryDefinition):
            self.results.forget(dropped.name)
        elif isinstance(node, nodes.CreateQueryNode):
            self._begin(self.engine.catalog.get(node.this.name, "query"))
        self._moved()
        return table

    def _begin(self, query: CatalogDefinition) -> None:
        """Results have a place from the beginning, so that who subscribes before there are any finds it."""
        assert isinstance(query, QueryDefinition)
        self.results.begin(query.name, query.schema.to_arrow())

    def _queries(self) -> set[str]:
        return {definition.name for definition in self.engine.catalog.of_kind("query")}

    def _check_room(self, parsed: ParsedStatement) -> None:
        definitions = list(self.engine.catalog)
        if len(definitions) >= self._settings.max_definitions:
            raise Problem(429, f"there are {len(definitions):,} definitions, and no more are allowed", hint="drop some")
        queries = sum(isinstance(definition, QueryDefinition) for definition in definitions)
        if adds_query(parsed) and queries >= self._settings.max_queries:
            raise Problem(429, f"there are {queries:,} queries, and no more are allowed", hint="drop some")

    # -- what there is -------------------------------------------------------------------------------------------

    def catalog(self) -> list[Definition]:
        hosted = self.engine.hosting.queries
        found = []
        for definition in list(self.engine.catalog):
            columns: tuple[tuple[str, str], ...] = ()
            if not isinstance(definition, SinkDefinition):
                columns = tuple((column.name, str(column.type)) for column in definition.schema)
            common = definition.name, definition.kind, shown_statement_of(definition), columns
            if isinstance(definition, QueryDefinition):
                query = hosted.get(definition.name.lower())
                reason = "" if query is None else self.engine.hosting.shown_reason(query.name)
                status = "" if query is None else query.status
                form = "" if query is None else answer_form(query.plan, definition.options)
                told = status, reason, definition.timestamp, definition.inputs
                found.append(Definition(*common, *told, answers=form))
            elif isinstance(definition, StreamDefinition):
                found.append(Definition(*common, timestamp=definition.timestamp))
            elif isinstance(definition, SinkDefinition | ArchiveDefinition):
                found.append(Definition(*common, inputs=(definition.source,)))
            else:
                found.append(Definition(*common))
        return found

    def stats(self) -> dict[str, Any]:
        return {**self.engine.stats(), "results": self.results.stats()}

    def explain(self, query: str | None) -> tuple[str, dict[str, Any]]:
        explanation = self.engine.explain(query)
        return str(explanation), explanation.to_dict()

    def weave(self) -> dict[str, Any]:
        return self.engine.sharing_report().to_dict()

    def weave_svg(self) -> str:
        from panewise.serve.drawing.weave_graph import svg

        return svg(self.engine.sharing_report())

    # -- rows and answers ----------------------------------------------------------------------------------------

    def lookup_at_once(self, query: str) -> Lookup | None:
        table = self.engine.lookup_now(query)
        return None if table is None else Lookup(table, watermark_us(table), 0.0)

    def lookup(self, query: str, at: int | None, key: Any) -> Lookup:
        name = self.engine.catalog.get(query, "query").name
        hosted = self.engine.hosting.queries.get(name.lower())  # None while another thread creates or drops it
        if hosted is not None and hosted.status == "FAILED":
            raise QueryFailed(f"query '{name}' has failed: {hosted.reason}", hint="drop it and create it anew")
        try:
            # By the name as it was created: the engine keeps an answer for each spelling that is asked for.
            table = self.engine.lookup(name, at, key)
        except NotHeldError as error:
            if at is None and key is not None:  # what is wrong is the key
                raise Problem(400, error.message, hint=error.hint, type="NotHeldError") from None
            raise
        return Lookup(table, watermark_us(table), 0.0)

    def columns(self, stream: str) -> tuple[str, ...]:
        definition = self.engine.catalog.get(stream, "stream")
        assert isinstance(definition, StreamDefinition)
        return definition.schema.names

    def push(
        self,
        stream: str,
        data: pa.Table | list[dict[str, Any]],
        *,
        producer: str | None,
        sequence: int | None,
        timeout: float | None,
    ) -> Pushed:
        repeated = bool(producer and sequence and 1 <= sequence <= self.engine.last_sequence(stream, producer))
        self.engine.push(stream, data, timeout=timeout, producer=producer, sequence=sequence)
        self._moved()
        return Pushed(0 if repeated else len(data), repeated, self.engine.lateness(stream), self.engine.badness(stream))

    def advance(self, stream: str, until: int) -> None:
        self.engine.advance(stream, until)
        self._moved()

    def last_sequence(self, stream: str, producer: str) -> int:
        return self.engine.last_sequence(stream, producer)

    def ready(self) -> Unready | None:
        if self._closed.is_set():
            return Unready("the server is ending", "the server is ending")
        if self.engine.turns.broken:  # before what follows from it: results cannot be kept either
            refusal = self.engine.turns.refusal()
            return Unready(refusal.message, str(refusal))
        if self._failed is not None:
            return self._failed
        if self._suspended:
            return Unready(REASON, REASON)
        problems = list(self.unread.values())
        if problems:
            return Unready(UNREAD, "\n".join(f"{UNREAD}: {problem}" for problem in problems))
        durability = self.engine.durability
        broken = "" if durability is None else durability.folder.end.broken
        return Unready("the data folder cannot be written any more", broken) if broken else None

    @property
    def _suspended(self) -> bool:
        """Whether the folder was opened with its definitions alone."""
        return self.engine.durability is not None and self.engine.durability.suspended is not None

    # -- results on their way ------------------------------------------------------------------------------------

    def _moved(self) -> None:
        """Something may have produced results: the loop takes them within milliseconds."""
        self._produced = object()
        self._changed.set()

    def settle(self) -> None:
        if self._taken_up_to is not self._produced:
            with suppress(PanewiseError, OSError):  # the loop says so, and what is there can be read
                self._move()

    def take_results(self) -> None:
        """`results` holds all that the engine has produced when this returns, by whoever's rows."""
        self._move()

    def _move_on(self) -> None:
        while not self._closed.is_set():
            self._changed.wait(MOVE_SECONDS)
            begun = monotonic()
            try:
                self._move()
                self._failed = None
                # Bringing results to the disk stops the engine: it takes a third of the time at most.
                self._closed.wait(min(2 * (monotonic() - begun), PACE_SECONDS_MOST))
            except (PanewiseError, OSError) as error:  # a full disk: results wait in the engine
                self._failed = Unready("results cannot be kept", f"results cannot be kept: {error}")
                logs.LOGGER.warning(self._failed.detail)
                self._closed.wait(1.0)
            except Exception:  # noqa: BLE001 - a mistake of ours: subscribers would wait for ever without this loop
                reason = "results cannot be kept: the server has made a mistake; its log says which"
                self._failed = Unready(reason, reason)
                logs.mistake("results")
                self._closed.wait(1.0)

    def _move(self) -> None:
        with self._moving:
            self._changed.clear()
            produced = self._produced
            if not self._suspended:  # else there is nothing to hand over
                self.engine.hand_over_all(self.results.append_all)
            self._taken_up_to = produced

    def close(self) -> None:
        if self._closed.is_set():
            return
        for end in self.before_close:
            end()
        self._closed.set()
        self._changed.set()
        self._mover.join()
        try:
            self._move()
        except EngineBroken as error:  # what was acknowledged is in its log
            logs.LOGGER.error("%s", error)
        finally:
            self.results.close()
            self.engine.close()


def data_folder(path: Path) -> Path:
    """The data folder, made where it is not there: for the user alone whose process this is."""
    try:
        PrivateFiles().make_folder(path)
        return path.resolve()
    except OSError as error:
        raise PanewiseError(f"the data folder '{path}' cannot be made: {error.strerror}") from None
