"""The handle of a running pipeline: what to ask it, tell it and change in it while Spark works.

A change stops the Spark query at a micro-batch boundary, writes the change with the first micro-batch that it governs,
and starts the query again from the same checkpoint. Where no boundary comes soon, the micro-batch that was under way is
replayed under the definitions that governed it, so nobody else loses or repeats anything.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panewise.catalog import SinkDefinition, StreamDefinition
from panewise.engine.ingest.intake import Intake
from panewise.engine.ingest.journal import Stamp
from panewise.engine.ingest.window_limit import Extent, WindowLimit
from panewise.engine.reads.one_group import of_key
from panewise.errors import CatalogError, ConnectorError, DataError, NotHeldError
from panewise.spark.archives.archive_lookups import archived_report
from panewise.spark.archives.archive_target import read_begun
from panewise.spark.archives.archive_writer import ArchiveWriter
from panewise.spark.delivery.batch_targets import VersionSinks, target_of, version_sinks
from panewise.spark.delivery.batch_writer import HALT_SECONDS, BatchWriter, Halt, Notice
from panewise.spark.delivery.prepared_sinks import read_prepared, write_prepared
from panewise.spark.environment.folder import FOLDERS, Folder
from panewise.spark.environment.session import START_TRIES, STATE_SETTINGS, came_too_late, is_connect, settings, started
from panewise.spark.environment.shipping import ship
from panewise.spark.feeding import Feeder, IdleWatch
from panewise.spark.folder_reader import FolderReader
from panewise.spark.ingest.inbox import Inbox
from panewise.spark.ingest.stream_sources import INBOX, connector_of
from panewise.spark.program.changes import Change, Changing
from panewise.spark.program.identity import Defined, identity_of
from panewise.spark.program.known_programs import add_change, hold, read_program
from panewise.spark.program.reconcile import reconciled
from panewise.spark.program.reference import Reference
from panewise.spark.program.version import PlannedQuery, Version
from panewise.spark.results.batch_log import read_entries
from panewise.spark.sinks import sink_kinds
from panewise.spark.stages.streaming_query import output_frame
from panewise.spark.tables.table_books import TableBooks
from panewise.spark.tasks.packing import ANSWER
from panewise.spark.tasks.stream_limits import extent_of, limit_of
from panewise.temporal import INSTANT_MAX, instant_us

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


TELL_SECONDS = 0.1


class Handle(FolderReader):
    """One run of a pipeline, over any number of restarts of its Spark query."""

    def __init__(self, pipeline: Defined, folder: Folder, trigger: str | None, available_now: bool) -> None:
        self._identity = identity_of(pipeline, folder)
        folder.make(*FOLDERS)
        pipeline.partitions, pipeline.sharing = self._identity["partitions"], self._identity["sharing"]
        program = read_program(
            folder, pipeline.partitions, pipeline.books.user_aggregates, pipeline.sharing, pipeline.queries_made
        )
        super().__init__(folder, pipeline.books.catalog, program)
        self._pipeline = pipeline
        self._inbox = Inbox(folder)
        self._tables = TableBooks(folder, pipeline.books, program)
        self._trigger = trigger
        self._available_now = available_now
        self._query: StreamingQuery | None = None
        self._lock = threading.RLock()
        self._halt_asked = Halt()
        self.delivered = Notice()
        self._run = uuid.uuid4().hex
        self._helpers: list[Feeder | IdleWatch] = []
        self._too_late: list[int] = []  # micro-batches before which a Python process of Spark came too late

    # -- starting and changing -----------------------------------------------------------------------------------

    def begin(self, replace: bool) -> None:
        """Brings the checkpoint's definitions to those of the pipeline, and starts the Spark query."""
        statements = reconciled(self._pipeline.books, self.program, replace)
        self._tables.begin(replace)
        self._check_frames()
        ship(self._pipeline.spark)
        written = self._write_change(statements) if statements or not self.program.versions else None
        if self._tables.log():
            self.wake()
        try:
            self._start_helpers()
            self._launch()
        except Exception:
            self.stop_helpers()
            if written is not None:
                self._folder.remove(written.file)  # nothing has run under it
            raise

    def _check_frames(self) -> None:
        for stream in self._catalog.of_kind("stream"):
            assert isinstance(stream, StreamDefinition)
            if connector_of(stream) == "dataframe" and stream.name.lower() not in self._pipeline.frames:
                raise ConnectorError(
                    f"stream '{stream.name}' of this checkpoint was a DataFrame", hint="give it again with add_stream"
                )

    def _write_change(self, statements: list[Changing]) -> Change:
        number, texts = self.program.next_version, tuple(statement.text for statement in statements)
        bound = [statement.bound for statement in statements]
        change = add_change(self._folder, self.program, Change(number, self._next_batch(), texts), bound)
        self._tables.log()
        if number:
            self.wake()
        return change

    def wake(self) -> None:
        """Has a micro-batch come also where there are no rows."""
        self._inbox.post_control({"wake": self.program.newest.number})

    def _next_batch(self) -> int:
        """The first micro-batch whose offsets Spark has not written yet."""
        return max(self._folder.numbers("spark/offsets"), default=-1) + 1

    def change(self, statements: list[Changing]) -> None:
        """The definitions have changed; goes on with them from the next micro-batch boundary."""
        with self._lock:
            if not self.active:
                self._write_change(statements)  # for a later start
                return
            self.stop_helpers()
            self._halt()
            self._write_change(statements)
            self._start_helpers()
            self._launch()

    def change_tables(self) -> None:
        """The rows of tables have changed; the next micro-batch sees it, and nothing is stopped for it."""
        with self._lock:
            if self._tables.log():
                self.wake()

    @property
    def id(self) -> str:
        """That of the checkpoint."""
        return str(self._identity["id"])

    @property
    def tables(self) -> TableBooks:
        return self._tables

    def _first_version(self) -> int:
        """The version of the next micro-batch, which is an older one where it was under way and is to be replayed."""
        logged, done = self._folder.numbers("spark/offsets"), self._folder.numbers("spark/commits")
        pending = bool(logged) and logged[-1] > max(done, default=-1)
        return self.program.at(logged[-1] if pending else self._next_batch()).number

    @property
    def fixed_sources(self) -> bool:
        """Whether Spark knows the sources by their order alone, so that none can be added."""
        return not self._identity["named"]

    def check_new_stream(self, stream: StreamDefinition) -> None:
        if self.fixed_sources and connector_of(stream) not in INBOX:
            raise CatalogError(
                f"stream '{stream.name}' cannot be added while the pipeline runs: it reads a DataFrame, so that "
                "Spark knows its sources by their order",
                hint="create all streams before start, or use connectors for all of them",
            )

    def check_new_sink(self, sink: SinkDefinition) -> None:
        """What a sink finds at its place is looked at before everything is stopped for it."""
        version = self.program.newest
        if sink.source.lower() in version.queries:
            target = target_of(sink, version)
            for kind, targets in sink_kinds([target], self._identity["id"], _print_plainly):
                kind.prepare(targets, self._next_batch())

    def _launch(self) -> None:
        pipeline, reference = self._pipeline, self._reference()
        wanted = STATE_SETTINGS | {
            "spark.sql.shuffle.partitions": str(self._identity["partitions"]),
            "spark.sql.streaming.queryEvolution.enableSourceEvolution": str(self._identity["named"]).lower(),
        }
        self._halt_asked = Halt()
        first = self._first_version()
        writer = self._writer(reference, first)
        with settings(pipeline.spark, wanted):
            frame = output_frame(
                pipeline.spark, reference, self.program, pipeline.frames, self._identity["named"], first
            )
            stream = frame.writeStream.queryName(pipeline.name).outputMode("append").foreachBatch(writer)
            stream = stream.option("checkpointLocation", self._folder.path("spark"))
            if self._available_now:
                stream = stream.trigger(availableNow=True)
            elif self._trigger is not None:
                stream = stream.trigger(processingTime=self._trigger)
            if any(query.name == pipeline.name for query in pipeline.spark.streams.active):
                raise CatalogError(
                    f"a pipeline or query named '{pipeline.name}' runs in this session already",
                    hint="stop it, or give this one another name: SparkPipeline(name=...)",
                )
            self._query = started(stream)

    def _reference(self) -> Reference:
        """What workers, and whoever writes results, are told of the program as it is now."""
        reference = Reference(
            # Workers forget what they knew of earlier runs, whose aggregates or folder may have been others.
            f"{self._identity['id']}/{self._run}",
            self._folder,
            self._identity["partitions"],
            self.program.next_version,
            dict(self._pipeline.books.user_aggregates),
            self._identity["sharing"],
        )
        hold(reference, self.program)
        return reference

    def _writer(self, reference: Reference, first: int) -> BatchWriter:
        print_table = self._pipeline.print_table or _print_plainly
        sinks = version_sinks(self.program.newest, self._identity["id"], print_table)
        for kind, targets in sinks.kinds:
            kind.check(targets)
        self._prepare(self.program.newest, sinks)
        told = first, self._identity["id"], self._retention_seconds, print_table
        writer = BatchWriter(reference, *told, self._halt_asked, self.delivered)
        if not is_connect(self._pipeline.spark):
            writer.archives.prepare()  # where something is wrong it is said before anything runs
        return writer

    @property
    def _retention_seconds(self) -> float:
        return self._pipeline.retention_us / 1e6

    def _prepare(self, version: Version, sinks: VersionSinks) -> None:
        """Sinks that are new say what becomes of results of an earlier run at their place."""
        prepared = read_prepared(self._folder)
        names = {sink.definition.name: sink.log_name for sink in version.sinks.values()}
        for kind, targets in sinks.kinds:
            fresh = [target for target in targets if names[target.name] not in prepared]
            if fresh:
                kind.prepare(fresh, version.from_batch)
        write_prepared(self._folder, names.values())

    def _start_helpers(self) -> None:
        """Threads that post letters: rows of generators, punctuations of idle streams."""
        for key, stream in self.program.newest.streams.items():
            if connector_of(stream) == "generator":
                self._helpers.append(Feeder(key, stream, self._folder, self._inbox, wait=not self._available_now))
            idle = dict(self.program.options(key)).get("idle")
            if idle is not None:
                self._helpers.append(IdleWatch(key, stream, str(idle), self))
        for helper in self._helpers:
            helper.start()

    def stop_helpers(self) -> None:
        """Ends them; also those of a run that has ended by itself."""
        for helper in self._helpers:
            helper.stop()
        self._helpers = []

    def _go_on(self) -> bool:
        """Whether the Spark query had ended because a Python process came too late, and was started again."""
        if not self._lock.acquire(blocking=False):
            return False  # somebody ends or changes it
        try:
            error = None if self._query is None or self._query.isActive else self._error()
            batch = self._next_batch()
            if error is None or not came_too_late(error) or self._too_late.count(batch) >= START_TRIES:
                return False
            self._too_late.append(batch)
            self._launch()
            return True
        finally:
            self._lock.release()

    # -- ending --------------------------------------------------------------------------------------------------

    @property
    def active(self) -> bool:
        return self._query is not None and (bool(self._query.isActive) or self._go_on())

    @property
    def busy(self) -> bool:
        """Whether a micro-batch is under way. (A trigger also counts as active while it only looks for new data.)"""
        query = self._query
        return query is not None and bool(query.isActive and query.status["isDataAvailable"])

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for the end; True where it has come. Raises what has ended the Spark query, if that was an error."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            query = self._query
            if query is None:
                return True
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            # In slices: a change replaces the query that is waited for.
            step = 0.5 if left is None else min(0.5, left)
            time.sleep(step if query.isActive else 0)
            ended = not query.isActive
            with self._lock:
                if ended and self._query is query and not self._go_on():
                    if (error := self._error()) is not None:
                        raise error
                    self._settle_archives()
                    return True
            if left is not None and left <= 0:
                return False

    def _error(self) -> Exception | None:
        """What has ended the Spark query, if that was not us."""
        if self._query is None or self._halt_asked.asked.is_set():
            return None
        return self._query.exception()

    def stop(self) -> None:
        """Ends the run; a later start goes on from here."""
        with self._lock:
            self.stop_helpers()
            self._halt()
            self._settle_archives()

    def _settle_archives(self) -> None:
        """What waits for its slot to be over is archived now; through Spark Connect the files are the server's."""
        if self.program.newest.archives and not is_connect(self._pipeline.spark):
            ArchiveWriter(self._reference(), self._retention_seconds).settle(self.marks())

    def _halt(self) -> None:
        """Stops the Spark query at a micro-batch boundary, or, where none comes soon, where it is."""
        query = self._query
        if query is None:
            return
        halt = self._halt_asked
        halt.asked.set()
        until = time.monotonic() + HALT_SECONDS
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < until:
            if halt.held.wait(0.01):
                break
        # Spark has to know that it stops before the micro-batch that is held fails.
        threading.Timer(TELL_SECONDS, halt.told.set).start()
        query.stop()
        halt.told.set()

    # -- telling it ----------------------------------------------------------------------------------------------

    def push(self, stream: StreamDefinition, data: Any, stamp: Stamp | None = None) -> bool:
        """Posts rows; with a stamp, a producer and a number, False where a push of that number was taken before."""
        if connector_of(stream) not in (None, "memory"):
            raise DataError(f"stream '{stream.name}' is read from its connector, not pushed to")
        key = self._key(stream.name)
        if stamp is not None and self._inbox.is_repeated(key, stamp):
            return False
        intake = Intake(stream)
        limit, extent = self._limit(key)
        intake.comes_after(extent)
        batches = [batch for batch in intake.batches(data) if batch.num_rows]
        options = dict(self.program.options(key))
        if options.get("on_bad_row") != "skip":
            taken = 0
            for batch in batches:
                extent = intake.accepted(batch, False, taken, limit, extent)[-1]
                taken += batch.num_rows
        return bool(batches or stamp) and self._inbox.post_rows(key, batches, stamp)

    def last_sequence(self, stream: str, producer: str) -> int:
        """The number of the last push of a producer that was taken; 0 where there was none."""
        return self._inbox.last_sequence(self._key(self._catalog.get(stream, "stream").name), producer)

    def advance(self, stream: str, until: Any) -> None:
        """A punctuation: no row before this instant (microseconds, a datetime or a text) will come."""
        definition = self._catalog.get(stream, "stream")
        key, moment = self._key(definition.name), instant_us(until)
        limit, extent = self._limit(key)
        limit.check_clock(definition.name, moment)
        self._pipeline.books.streams[definition.name.lower()].check_advance(moment, limit, extent)
        self._inbox.post_control({"advance": {"stream": key, "until": moment}})

    def _limit(self, stream: str) -> tuple[WindowLimit, Extent]:
        """What rows and punctuations of a stream may close, and how far it has come."""
        marks = self.marks()
        limit = limit_of(self.program, self.program.newest, marks, stream, now=time.time_ns() // 1000)
        return limit, extent_of(marks, stream)

    def flush(self, streams: list[str] | None = None) -> None:
        """Advances streams, all unless some are named, past their last row, until every window with rows has closed."""
        if self.active:
            self.process_all()
        marks = self.marks()
        books = self._pipeline.books
        wanted = [name.lower() for name in streams] if streams is not None else list(books.streams)
        ends: dict[str, int] = {}
        for name in wanted:
            newest = marks.of(self._key(name)).greatest
            if newest is not None:
                ends[name] = min(books.hosting.graph.last_end(books.streams[name], newest), INSTANT_MAX + 1)
                books.streams[name].check_advance(ends[name], *self._limit(self._key(name)))
        for name, last in ends.items():
            self._inbox.post_control({"advance": {"stream": self._key(name), "until": last}})
        if self._available_now and not self.active and wanted:
            self._launch()
            self.wait()
        elif self.active:
            self.process_all()

    def process_all(self) -> None:
        """Waits until all that was there when this was called has been processed."""
        from pyspark.errors import StreamingQueryException

        while (query := self._query) is not None:
            try:
                query.processAllAvailable()
                return
            except StreamingQueryException:
                with self._lock:
                    if self._query is query and not self._go_on():
                        raise

    # -- asking it -----------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Whether it runs, what Spark is doing, and why it has ended."""
        active = self.active
        query, error = self._query, self._error()
        state = "RUNNING" if active else ("FAILED" if error is not None else "STOPPED")
        message = "" if query is None else str(query.status["message"])
        return {"state": state, "message": message if error is None else str(error), "batch": self.marks().batch}

    def progress(self) -> list[dict[str, Any]]:
        """Spark's own progress events of the last micro-batches."""
        if self._query is None:
            return []
        return [json.loads(event.json) for event in self._query.recentProgress]

    def metrics(self) -> dict[str, Any]:
        """A few figures: micro-batches, rows, results, bytes of state held and last written, seconds of a trigger."""
        events = self.progress()
        last = events[-1] if events else {}
        return super().metrics() | {"trigger_seconds": last.get("durationMs", {}).get("triggerExecution", 0) / 1000}

    def lookup(self, query: str, at: Any = None, key: Any = None) -> pa.Table:
        """The answer now or then; `key` picks one group. The log answers for periodic queries, without waiting.

        What nobody holds any more comes from an archive of the query, where one has it.
        """
        definition = self._catalog.get(query, "query")
        planned = self.program.newest.queries[definition.name.lower()]
        reason = self.marks().failed.get(planned.log_name)
        if reason is not None:
            raise NotHeldError(f"query '{query}' has failed: {reason}")
        moment = None if at is None else instant_us(at)
        try:
            table = self._reported(planned, moment) if planned.is_folded else self._asked(planned, moment)
        except NotHeldError:
            archived = self._archived(planned, moment)
            if archived is None:
                raise
            table = archived
        return table if key is None else of_key(planned.name, planned.block, table, key)

    def _archived(self, query: PlannedQuery, at: int | None) -> pa.Table | None:
        moment, come_to = at, self.come_to(query, self.marks())
        if at is None and query.is_folded:  # others may say something else now than in their last report
            moment = come_to
        if moment is None or come_to is None or moment > come_to:
            return None
        return archived_report(self.version, query, moment, read_begun(self._folder))

    def _asked(self, query: PlannedQuery, at: int | None) -> pa.Table:
        """The answer of a query that is not in a tree: a letter goes to its buckets, the log brings it back."""
        if not self.active:
            raise NotHeldError(f"'{query.definition.name}' answers lookups only while the pipeline runs")
        number = uuid.uuid4().hex
        before = self.marks().batch
        self._inbox.post_control({"ask": {"id": number, "query": query.name, "at": at}})
        self.process_all()
        for batch in [n for n in self._folder.numbers("results") if n > before]:
            for entry in read_entries(self._folder, batch, ANSWER, number) or []:
                if entry.table.column_names == ["refused"]:
                    raise NotHeldError(entry.table.column(0)[0].as_py())
                return entry.table
        raise NotHeldError(f"'{query.definition.name}' has not answered")


def _print_plainly(title: str, table: pa.Table, rows: int) -> None:
    import sys

    sys.stdout.write(f"{title}\n{table.slice(max(0, table.num_rows - rows)).to_pandas().to_string(index=False)}\n")
