"""The backend over a running Spark pipeline: answers from deliveries of micro-batches, with their age.

One thread follows the pipeline. After each committed micro-batch it takes the new numbered results into `results`, and
the last reports into `SparkAnswers`. The writer of the micro-batch wakes it; if that runs on another machine, the
thread polls every POLL_SECONDS. Results are numbered by the pipeline's own log (`Deliveries`), and series ids derive
from its checkpoint, so a subscriber can continue after any restart.

The pipeline owns all state and outlives the server; nothing is stored here. Acknowledged calls are in its checkpoint: a
statement as a change, a push as a message, which a later micro-batch will read.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from panewise.catalog import Definition as CatalogDefinition
from panewise.catalog import QueryDefinition, SinkDefinition, StreamDefinition
from panewise.engine.books.definitions import shown_statement_of
from panewise.engine.reads.answer_form import answer_form
from panewise.engine.reads.one_group import of_key
from panewise.errors import CatalogError, NotHeldError, PanewiseError, QueryFailed
from panewise.language.bind.binder import parse
from panewise.serve.http.backends.spark_answers import SparkAnswers
from panewise.serve.http.gate.connector_rules import adds_definition, adds_query, check_connectors
from panewise.serve.http.results.result_log import ResultLog
from panewise.serve.http.service import logs
from panewise.serve.http.service.backend import Definition, Lookup, Pushed, Unready
from panewise.serve.http.service.error_answers import Problem
from panewise.serve.http.service.settings import Settings
from panewise.spark.environment.spark_problems import reason_of
from panewise.spark.handle import Handle
from panewise.spark.ingest.stream_sources import connector_of
from panewise.spark.pipeline import SparkPipeline
from panewise.spark.program.version import PlannedQuery
from panewise.spark.results.deliveries import Deliveries, Delivery

POLL_SECONDS = 0.5


class SparkBackend:
    """See the module. `ended` is called once if the pipeline fails."""

    kind = "spark"

    def __init__(
        self,
        pipeline: SparkPipeline,
        handle: Handle,
        settings: Settings,
        ended: Callable[[], None] | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.handle = handle
        self.failed = ""  # why the pipeline has failed; empty if it has not
        self._settings = settings
        self._ended = ended
        self._closed = threading.Event()
        self._changing = threading.Lock()  # serializes changes of definitions and lookups that ask Spark
        self._following = threading.Lock()
        self._log_names: dict[str, str] = {}  # name in lower case -> name in the log, of the queries in `results`
        self._deliveries = Deliveries(handle.folder)
        self._answers = SparkAnswers(handle)
        self.results = ResultLog(
            None, keep_rows=settings.keep_rows, keep_bytes=settings.keep_bytes, keep_total=settings.keep_total
        )
        self._batch_before = handle.marks().batch
        self._load()
        handle.wake()  # requests a micro-batch even without data: `ready` waits for the first one
        self._follower = threading.Thread(target=self._follow, name="panewise results", daemon=True)
        self._follower.start()

    # -- following the pipeline ----------------------------------------------------------------------------------

    def _load(self) -> None:
        marks = self.handle.marks()
        self._match_queries()
        names = set(self._log_names.values())
        found = self._deliveries.earlier(marks, names, self._settings.keep_rows, self._settings.keep_bytes)
        shown = {log: name for name, log in self._log_names.items()}
        for delivery in found:
            self.results.append(shown[delivery.name], delivery.table, delivery.first)
        if marks.batch >= 0:
            never = {name for name in names if not self._deliveries.total(name)}
            self._answers.refresh(marks, found, self._deliveries.at or time.time(), never)

    def _match_queries(self) -> None:
        """Begins and ends series so that `results` has the existing queries; a query created again gets a new one."""
        queries = dict(self.handle.version.queries)
        for name in [n for n, log in self._log_names.items() if n not in queries or queries[n].log_name != log]:
            self.results.forget(name)
            del self._log_names[name]
        for name, query in queries.items():
            if name not in self._log_names:
                series = hashlib.sha256(f"{self.handle.id}/{query.log_name}".encode()).hexdigest()[:32]
                self.results.begin(query.definition.name, query.definition.schema.to_arrow(), id=series)
                self._log_names[name] = query.log_name

    def _catch_up(self) -> None:
        """Takes what micro-batches have delivered since the last call."""
        with self._following:
            marks = self.handle.marks()
            if marks.batch <= self._deliveries.batch:
                self._match_queries()
                return
            found = self._deliveries.since_then(marks)
            # First the queries known so far, so that one that was dropped meanwhile still gets its last rows.
            before = self._take(found, set())
            self._match_queries()
            self._take(found, before)
            shown = set(self._log_names.values())
            never = {name for name in shown if not self._deliveries.total(name)}
            self._answers.refresh(marks, found, self._deliveries.at or time.time(), never)

    def _take(self, found: list[Delivery], taken: set[str]) -> set[str]:
        """Appends deliveries of queries in `results` that are not in `taken`; returns the names of all its queries."""
        shown = {log: name for name, log in self._log_names.items()}
        for delivery in found:
            if delivery.name in shown and delivery.name not in taken:
                self.results.append(shown[delivery.name], delivery.table, delivery.first)
        return set(shown)

    def _follow(self) -> None:
        notice = self.handle.delivered.given
        while not self._closed.is_set():
            if notice.wait(POLL_SECONDS):
                notice.clear()
            try:
                self._catch_up()
                self._watch()
            except Exception as problem:  # noqa: BLE001 - such as a file system that is unavailable for a while
                logs.LOGGER.warning("results of the pipeline cannot be read: %s", problem)
                self._closed.wait(POLL_SECONDS)

    def _watch(self) -> None:
        """Notices that the Spark query has failed."""
        if self.failed or self._changing.locked():
            return  # a change of definitions also stops the Spark query, and starts it again
        status = self.handle.status()
        if status["state"] == "FAILED" and not self._changing.locked():
            self.failed = reason_of(Exception(status["message"]))
            logs.LOGGER.error("the pipeline has failed: %s", self.failed)
            if self._ended is not None:
                self._ended()

    # -- statements ----------------------------------------------------------------------------------------------

    def execute(self, text: str) -> pa.Table | None:
        """Runs statements of a caller, all as one change of the pipeline, at a micro-batch boundary."""
        statements = parse(text)
        for parsed in statements:
            check_connectors(parsed, self._settings.path)
        with self._changing:
            self._check_running()
            definitions = list(self.pipeline.books.catalog)
            queries = sum(isinstance(definition, QueryDefinition) for definition in definitions)
            self._check_room("definitions", len(definitions) + sum(map(adds_definition, statements)))
            self._check_room("queries", queries + sum(map(adds_query, statements)))
            try:
                table = self.pipeline.execute(text)
            except PanewiseError as error:
                if getattr(error, "refused_by_spark", False):
                    raise Problem(409, error.message, hint=error.hint, type=type(error).__name__) from None
                raise
            except Exception as problem:  # noqa: BLE001 - Spark may raise anything
                status = 409 if self.handle.active else 503
                raise Problem(status, f"Spark refuses: {reason_of(problem)}") from None
            finally:
                self._catch_up()
            return table

    def _check_room(self, what: str, wanted: int) -> None:
        most = getattr(self._settings, f"max_{what}")
        if wanted > most:
            raise Problem(429, f"there would be {wanted:,} {what}, and {most:,} are allowed", hint="drop some")

    def _check_running(self) -> None:
        if not self.handle.active:
            raise Problem(503, f"the pipeline is not running: {self.failed or 'it has ended'}")

    # -- what there is -------------------------------------------------------------------------------------------

    def catalog(self) -> list[Definition]:
        failed = self.handle.failed()
        return [self._described(definition, failed) for definition in list(self.pipeline.books.catalog)]

    def _described(self, definition: CatalogDefinition, failed: dict[str, str]) -> Definition:
        statement = shown_statement_of(definition)
        if isinstance(definition, SinkDefinition):
            return Definition(definition.name, definition.kind, statement, (), inputs=(definition.source,))
        columns = tuple((column.name, str(column.type)) for column in definition.schema)
        common = definition.name, definition.kind, statement, columns
        if isinstance(definition, StreamDefinition):
            pushable = connector_of(definition) in (None, "memory")
            return Definition(*common, timestamp=definition.timestamp, pushable=pushable)
        if isinstance(definition, QueryDefinition):
            key = definition.name.lower()
            query = self.handle.version.queries.get(key)
            status = "FAILED" if key in failed else "SUSPENDED" if query is not None and query.suspended else "RUNNING"
            form = "" if query is None else answer_form(query.plan, definition.options)
            told = status, failed.get(key, ""), definition.timestamp, definition.inputs
            return Definition(*common, *told, answers=form)
        return Definition(*common)

    def stats(self) -> dict[str, Any]:
        """Figures in the engine's form, as far as Spark has them; `spark` has the state and metrics of the pipeline."""
        stats, status = self.handle.stats(), self.handle.status()
        age_s = max(0.0, time.time() - self._deliveries.at) if self._deliveries.at is not None else None
        told = {"state": status["state"], "message": self.failed or status["message"], "age_seconds": age_s}
        return stats | {"spark": self.handle.metrics() | told}

    def explain(self, query: str | None) -> tuple[str, dict[str, Any]]:
        if query is not None:
            self._planned(query)
        return self.pipeline.explain(query), self.pipeline.explanation(query).to_dict()

    def weave(self) -> dict[str, Any]:
        return self.pipeline.sharing_report().to_dict()

    def weave_svg(self) -> str:
        from panewise.serve.drawing.weave_graph import svg

        return svg(self.pipeline.sharing_report())

    # -- answers -------------------------------------------------------------------------------------------------

    def lookup_at_once(self, query: str) -> Lookup | None:
        planned = self.handle.version.queries.get(query.lower())
        found = None if planned is None else self._answers.found(planned, self._deliveries.batch)
        return None if found is None else found.lookup()

    def lookup(self, query: str, at: int | None, key: Any) -> Lookup:
        planned = self._planned(query)
        reason = self.handle.marks().failed.get(planned.log_name)
        if reason is not None:
            raise QueryFailed(f"query '{query}' has failed: {reason}", hint="drop it and create it anew")
        if at is not None:
            return self._lookup_at(planned, at, key)
        found = self._answers.found(planned, self._deliveries.batch)
        if found is not None:
            return found.lookup(self._group(planned, found.table, key))
        if planned.is_folded:  # the last report is older than what `_load` reads
            table = self.handle.lookup(query)
            age_s = max(0.0, time.time() - (self._deliveries.at or time.time()))
            watermark = self.handle.watermark_of(planned, self.handle.marks())
            return Lookup(self._group(planned, table, key), watermark, age_s)
        with self._changing:
            self._check_running()
            found = self._answers.asked(planned)
        return found.lookup(self._group(planned, found.table, key))

    def _lookup_at(self, planned: PlannedQuery, at: int, key: Any) -> Lookup:
        if planned.is_folded:
            table = self.handle.lookup(planned.name, at)
            age_s = max(0.0, time.time() - (self._deliveries.at or time.time()))
        else:
            with self._changing:
                self._check_running()
                table, age_s = self.handle.lookup(planned.name, at), 0.0
        watermark = self.handle.watermark_of(planned, self.handle.marks())
        return Lookup(self._group(planned, table, key), watermark, age_s)

    def _planned(self, query: str) -> PlannedQuery:
        name = self.pipeline.books.catalog.get(query, "query").name
        planned = self.handle.version.queries.get(name.lower())
        if planned is None:  # another thread is creating it
            raise CatalogError(f"there is no query '{query}' yet", missing=True)
        return planned

    def _group(self, planned: PlannedQuery, table: pa.Table, key: Any) -> pa.Table:
        if key is None:
            return table
        try:
            return of_key(planned.definition.name, planned.block, table, key)
        except NotHeldError as error:
            raise Problem(400, error.message, hint=error.hint, type="NotHeldError") from None

    # -- rows ----------------------------------------------------------------------------------------------------

    def columns(self, stream: str) -> tuple[str, ...]:
        definition = self.pipeline.books.catalog.get(stream, "stream")
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
        definition = self.pipeline.books.catalog.get(stream, "stream")
        assert isinstance(definition, StreamDefinition)
        connector = connector_of(definition)
        if connector not in (None, "memory"):
            raise Problem(
                409,
                f"stream '{definition.name}' is read by Spark from its connector '{connector}', and takes no pushes",
                hint="create a stream without a connector to push rows to it",
            )
        self._check_running()
        taken = self.pipeline.push(stream, data, producer=producer, sequence=sequence)
        repeated = producer is not None and not taken
        return Pushed(0 if repeated else len(data), repeated, self.handle.lateness(stream), self.handle.badness(stream))

    def advance(self, stream: str, until: int) -> None:
        self._check_running()
        self.handle.advance(stream, until)

    def last_sequence(self, stream: str, producer: str) -> int:
        return self.handle.last_sequence(stream, producer)

    def settle(self) -> None:
        """Takes what micro-batches have delivered so far; pending pushes are read by a later micro-batch."""
        self._catch_up()

    # -- readiness and end ---------------------------------------------------------------------------------------

    def ready(self) -> Unready | None:
        if self._closed.is_set():
            return Unready("the server is ending", "the server is ending")
        if self.failed:
            return Unready("the pipeline has failed", f"the pipeline has failed: {self.failed}")
        if self._deliveries.batch <= self._batch_before:
            reason = "the pipeline has not committed a micro-batch yet"
            return Unready(reason, reason)
        return None

    def close(self) -> None:
        if self._closed.is_set():
            return
        self._closed.set()
        try:
            self.handle.stop()
        finally:
            self.handle.delivered.given.set()
            self._follower.join()
            self._catch_up()
            self.results.close()
