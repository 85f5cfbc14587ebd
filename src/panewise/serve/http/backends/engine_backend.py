"""The backend over an embedded engine, which runs in this process; durable if the server has a data folder.

The data folder holds `engine` (log and snapshots), `results` (numbered results of all queries) and `files` (the files
that connectors of callers may name). A call is acknowledged after the engine has logged it. Logged calls survive the
death of the process; what a loss of power may lose depends on the engine's `sync` (docs/durability.md).

Results move from the engine to the result log with `hand_over_all`: at least once, with the same numbers, and the log
skips known numbers. So every result is stored exactly once, wherever the process dies. A thread moves them after each
call that may have produced some, and regularly for those that other threads produce.
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

MOVE_SECONDS = 0.1  # how often results are moved that no call announces: those of queues and clocks
PACE_SECONDS_MOST = 0.05
UNREAD = "a source is no longer read"


class EngineBackend:
    """See the module. A given `engine` must not be used by anybody else.

    With `limited=False` all results are kept until `results.limit()` is called.
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
        self.unread: dict[str, str] = {}  # stream -> why its source is no longer read
        self.before_close: list[Callable[[], None]] = []  # called first by `close`; stop threads that push rows
        self._changing = threading.Lock()  # serializes changes of definitions, so that limits hold
        self._moving = threading.Lock()
        self._changed = threading.Event()
        # Tokens of the last call that may have produced results, and of the last one whose results were moved.
        self._produced = self._taken_up_to = object()
        self._closed = threading.Event()
        self._failed: Unready | None = None
        # The process may have died between dropping a query and forgetting its results.
        self.results.retain(self._queries())
        for query in self.engine.catalog.of_kind("query"):
            self._begin(query)
        self._move()
        self._mover = threading.Thread(target=self._move_on, name="panewise results", daemon=True)
        self._mover.start()

    # -- statements ----------------------------------------------------------------------------------------------

    def execute(self, text: str) -> pa.Table | None:
        """Runs statements of a caller, one after the other; `connector_rules` restricts them."""
        statements = parse(text)
        result = None
        for number, parsed in enumerate(statements):
            try:
                table = self._execute_one(parsed)
            except PanewiseError as error:
                error.executed = number  # type: ignore[attr-defined]  # statements executed before this one
                raise
            result = table if table is not None else result
        return result

    def _execute_one(self, parsed: ParsedStatement) -> pa.Table | None:
        check_run(parsed)  # first, because following the other check's hint would lead to this refusal
        check_connectors(parsed, self._settings.path)
        if only_reads(parsed):
            return self.engine.execute_parsed(parsed)  # without the lock, because it may take long
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
            with suppress(PanewiseError, OSError):  # a full disk must not prevent the drop
                self._move()  # subscribers get all results up to the end
        elif isinstance(node, nodes.CreateQueryNode) and self.engine.catalog.find(node.this.name) is None:
            self.results.forget(node.this.name)  # an earlier DROP QUERY may have failed to, on a full disk
        table = self.engine.execute_parsed(parsed)
        if isinstance(dropped, QueryDefinition):
            self.results.forget(dropped.name)
        elif isinstance(node, nodes.CreateQueryNode):
            self._begin(self.engine.catalog.get(node.this.name, "query"))
        self._moved()
        return table

    def _begin(self, query: CatalogDefinition) -> None:
        """Creates the query's series, so that clients can subscribe before there are results."""
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
            # Use the name as it was created: the engine caches an answer for each spelling.
            table = self.engine.lookup(name, at, key)
        except NotHeldError as error:
            if at is None and key is not None:  # the key is wrong
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
        if self.engine.turns.broken:  # first, because it is also the cause of `_failed`
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
        """Whether the folder was opened with definitions only, without running them."""
        return self.engine.durability is not None and self.engine.durability.suspended is not None

    # -- results on their way ------------------------------------------------------------------------------------

    def _moved(self) -> None:
        """Call when results may have been produced: wakes the thread that moves them."""
        self._produced = object()
        self._changed.set()

    def settle(self) -> None:
        if self._taken_up_to is not self._produced:
            with suppress(PanewiseError, OSError):  # the thread logs the problem; earlier results can still be read
                self._move()

    def take_results(self) -> None:
        """Moves all results that the engine has produced by now into `results`."""
        self._move()

    def _move_on(self) -> None:
        while not self._closed.is_set():
            self._changed.wait(MOVE_SECONDS)
            begun = monotonic()
            try:
                self._move()
                self._failed = None
                # Syncing results stops the engine, so spend at most a third of the time on it.
                self._closed.wait(min(2 * (monotonic() - begun), PACE_SECONDS_MOST))
            except (PanewiseError, OSError) as error:  # such as a full disk; results stay in the engine
                self._failed = Unready("results cannot be kept", f"results cannot be kept: {error}")
                logs.LOGGER.warning(self._failed.detail)
                self._closed.wait(1.0)
            except Exception:  # noqa: BLE001 - an internal error must not end this thread: subscribers depend on it
                reason = "results cannot be kept: internal error; see the server's log"
                self._failed = Unready(reason, reason)
                logs.mistake("results")
                self._closed.wait(1.0)

    def _move(self) -> None:
        with self._moving:
            self._changed.clear()
            produced = self._produced
            if not self._suspended:  # a suspended engine has no results
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
        except EngineBroken as error:  # the engine's log has everything that was acknowledged
            logs.LOGGER.error("%s", error)
        finally:
            self.results.close()
            self.engine.close()


def data_folder(path: Path) -> Path:
    """The resolved data folder; creates it if it is missing, accessible to this user only."""
    try:
        PrivateFiles().make_folder(path)
        return path.resolve()
    except OSError as error:
        raise PanewiseError(f"the data folder '{path}' cannot be created: {error.strerror}") from None
