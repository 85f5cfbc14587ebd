"""The handle of a running pipeline: what to ask it, tell it and change in it while Spark works.

A change stops the Spark query at once, writes the change with the first micro-batch that it governs, and starts the
query again from the same checkpoint. A micro-batch that was under way is replayed under the definitions that governed
it, so nobody else loses or repeats anything.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from panewise.catalog import QueryDefinition, SinkDefinition, StreamDefinition
from panewise.errors import CatalogError, ConnectorError, DataError, NotHeldError
from panewise.runtime.intake import WINDOWS_CLOSED_MAX, Intake
from panewise.runtime.spark.batch_writer import HALT_SECONDS, BatchWriter, Halt, VersionSinks, last_stats
from panewise.runtime.spark.feeding import Feeder, IdleWatch
from panewise.runtime.spark.folder import Folder
from panewise.runtime.spark.inbox import Inbox
from panewise.runtime.spark.marks import INT64_MIN, Marks, last_marks
from panewise.runtime.spark.packing import ANSWER, BAD, LATE, RESULT
from panewise.runtime.spark.plan import output_frame
from panewise.runtime.spark.program import Change, PlannedQuery, Program, Version, is_tree, read_changes, write_change
from panewise.runtime.spark.reconcile import reconciled
from panewise.runtime.spark.reference import Reference
from panewise.runtime.spark.result_log import read_entries
from panewise.runtime.spark.session import STATE_SETTINGS, default_partitions, settings
from panewise.runtime.spark.shipping import ship
from panewise.runtime.spark.sinks import SinkTarget, sink_kinds, sink_target
from panewise.runtime.spark.sources import INBOX, connector_of
from panewise.temporal import INSTANT_MAX, INSTANT_MIN, TimeWindow, format_instant, instant_us

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from panewise.runtime.spark.pipeline import SparkPipeline

TELL_SECONDS = 0.1
FOLDERS = ("catalog", "inbox", "marks", "stats", "results")


class Handle:
    """One run of a pipeline, over any number of restarts of its Spark query."""

    def __init__(self, pipeline: SparkPipeline, folder: Folder, trigger: str | None, available_now: bool) -> None:
        self._pipeline = pipeline
        self._folder = folder
        self._trigger = trigger
        self._available_now = available_now
        self._query: StreamingQuery | None = None
        self._fetched: dict[tuple[str, str], int] = {}  # by kind and name, the last micro-batch that was fetched
        self._lock = threading.RLock()
        self._halt_asked = Halt()
        self._run = uuid.uuid4().hex
        self._helpers: list[Feeder | IdleWatch] = []

    # -- starting and changing -----------------------------------------------------------------------------------

    def begin(self, replace: bool) -> None:
        """Reads what the checkpoint holds, or makes it, and starts the Spark query."""
        pipeline = self._pipeline
        self._folder.make(*FOLDERS)
        identity = self._folder.read_json("pipeline.json")
        if identity is None:
            partitions = pipeline.partitions or default_partitions(pipeline.spark)
            identity = {"id": uuid.uuid4().hex, "partitions": partitions, "named": not pipeline._frames}
            self._folder.write_json("pipeline.json", identity)
        self._identity: dict[str, Any] = identity
        pipeline.partitions = identity["partitions"]
        self._program = Program(identity["partitions"], pipeline._books._aggregates)
        for change in read_changes(self._folder):
            self._program.apply(change)
        self._inbox = Inbox(self._folder)
        statements = reconciled(pipeline._books, self._program, replace)
        self._check_frames()
        ship(pipeline.spark)
        written = self._write_change(statements) if statements or not self._program.versions else None
        try:
            self._start_helpers()
            self._launch()
        except Exception:
            self._stop_helpers()
            if written is not None:
                self._folder.remove(written.file)  # nothing has run under it
            raise

    def _check_frames(self) -> None:
        for stream in self._pipeline._books.catalog.of_kind("stream"):
            assert isinstance(stream, StreamDefinition)
            if connector_of(stream) == "dataframe" and stream.name.lower() not in self._pipeline._frames:
                raise ConnectorError(
                    f"stream '{stream.name}' of this checkpoint was a DataFrame", hint="give it again with add_stream"
                )

    def _write_change(self, statements: list[str]) -> Change:
        number = len(self._program.versions)
        change = Change(number, self._next_batch(), tuple(statements))
        self._program.apply(change)
        write_change(self._folder, change)
        if number:
            self._inbox.post_control({"wake": number})
        return change

    def _next_batch(self) -> int:
        """The first micro-batch whose offsets Spark has not written yet."""
        return max(self._folder.numbers("spark/offsets"), default=-1) + 1

    def change(self, statements: list[str]) -> None:
        """The definitions have changed; goes on with them from the next micro-batch boundary."""
        with self._lock:
            if not self.active:
                self._write_change(statements)  # for a later start
                return
            self._stop_helpers()
            self._halt()
            self._write_change(statements)
            self._start_helpers()
            self._launch()

    def _first_version(self) -> int:
        """The version of the next micro-batch, which is an older one where it was under way and is to be replayed."""
        logged, done = self._folder.numbers("spark/offsets"), self._folder.numbers("spark/commits")
        pending = bool(logged) and logged[-1] > max(done, default=-1)
        return self._program.at(logged[-1] if pending else self._next_batch()).number

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

    def stream_keys(self) -> dict[str, str]:
        """By the names of streams, what their marks are kept under."""
        return {stream.name.lower(): key for key, stream in self._program.versions[-1].streams.items()}

    def check_new_sink(self, sink: SinkDefinition) -> None:
        """What a sink finds at its place is looked at before everything is stopped for it."""
        version = self._program.versions[-1]
        if sink.source.lower() in version.queries:
            target = self._target(sink, version)
            for kind, targets in sink_kinds([target], self._identity["id"], _print_plainly):
                kind.prepare(targets, self._next_batch())

    def _launch(self) -> None:
        pipeline = self._pipeline
        reference = Reference(
            # Workers forget what they knew of earlier runs, whose aggregates or folder may have been others.
            f"{self._identity['id']}/{self._run}",
            self._folder,
            self._identity["partitions"],
            len(self._program.versions),
            dict(pipeline._books._aggregates),
        )
        wanted = STATE_SETTINGS | {
            "spark.sql.shuffle.partitions": str(self._identity["partitions"]),
            "spark.sql.streaming.queryEvolution.enableSourceEvolution": str(self._identity["named"]).lower(),
        }
        self._halt_asked = Halt()
        first = self._first_version()
        writer = self._writer(first)
        with settings(pipeline.spark, wanted):
            frame = output_frame(
                pipeline.spark, reference, self._program, pipeline._frames, self._identity["named"], first
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
            self._query = stream.start()

    def _writer(self, first: int) -> BatchWriter:
        program = self._program
        queries = {query.log_name: query for v in program.versions for query in v.queries.values()}
        sinks = [self._version_sinks(version) for version in program.versions[first:]]
        for kind, targets in sinks[-1].kinds:
            kind.check(targets)
        self._prepare(program.versions[-1], sinks[-1])
        return BatchWriter(
            self._folder,
            [(v.number, v.from_batch) for v in program.versions],
            {name: query.definition.timestamp for name, query in queries.items()},
            sinks,
            self._pipeline.retention_us / 1e6,
            self._halt_asked,
        )

    def _version_sinks(self, version: Version) -> VersionSinks:
        kinds = sink_kinds(
            [self._target(sink.definition, version) for sink in version.sinks.values()],
            self._identity["id"],
            self._pipeline.print_table or _print_plainly,
        )
        log_names = {name: query.log_name for name, query in version.queries.items()}
        return VersionSinks(version.from_batch, kinds, log_names)

    def _prepare(self, version: Version, sinks: VersionSinks) -> None:
        """Sinks that are new say what becomes of results of an earlier run at their place."""
        prepared = set(self._folder.read_json("sinks.json") or [])
        names = {sink.definition.name: sink.log_name for sink in version.sinks.values()}
        for kind, targets in sinks.kinds:
            fresh = [target for target in targets if names[target.name] not in prepared]
            if fresh:
                kind.prepare(fresh, version.from_batch)
        self._folder.write_json("sinks.json", sorted(names.values()))

    def _target(self, sink: SinkDefinition, version: Version) -> SinkTarget:
        query = version.queries[sink.source.lower()]
        return sink_target(sink, query.query, query.definition.schema.to_arrow())

    def _start_helpers(self) -> None:
        """Threads that post letters: rows of generators, punctuations of idle streams."""
        for key, stream in self._program.versions[-1].streams.items():
            if connector_of(stream) == "generator":
                self._helpers.append(Feeder(key, stream, self._folder, self._inbox, wait=not self._available_now))
            idle = dict(self._program.options(key)).get("idle")
            if idle is not None:
                self._helpers.append(IdleWatch(key, stream, str(idle), self))
        for helper in self._helpers:
            helper.start()

    def _stop_helpers(self) -> None:
        for helper in self._helpers:
            helper.stop()
        self._helpers = []

    # -- ending --------------------------------------------------------------------------------------------------

    @property
    def active(self) -> bool:
        return self._query is not None and bool(self._query.isActive)

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
                if ended and self._query is query:
                    if (error := self._error()) is not None:
                        raise error
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
            self._stop_helpers()
            self._halt()

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

    def _key(self, stream: str) -> str:
        return self._program.versions[-1].stream_key(stream)

    # -- telling it ----------------------------------------------------------------------------------------------

    def push(self, stream: StreamDefinition, data: Any) -> None:
        if connector_of(stream) not in (None, "memory"):
            raise DataError(f"stream '{stream.name}' is read from its connector, not pushed to")
        intake = Intake(stream)
        batches = [batch for batch in intake.batches(data) if batch.num_rows]
        key = self._key(stream.name)
        options = dict(self._program.options(key))
        if options.get("on_bad_row") != "skip":
            marks = self.marks().of(key)
            reach = self._pipeline._books._streams[stream.name.lower()].reach
            taken = 0
            for batch in batches:
                intake.accepted(batch, False, taken, marks.reached, reach)
                taken += batch.num_rows
        if batches:
            self._inbox.post_rows(key, batches)

    def advance(self, stream: str, until: Any) -> None:
        """A punctuation: no row before this instant (microseconds, a datetime or a text) will come."""
        definition = self._pipeline._books.catalog.get(stream, "stream")
        moment = instant_us(until)
        if not INSTANT_MIN <= moment <= INSTANT_MAX + 1:
            raise DataError(f"{moment} is not an instant of the years 1 to 9999")
        reached = self.marks().of(self._key(definition.name)).reached
        reach = self._pipeline._books._streams[definition.name.lower()].reach
        if reached is not None and moment - reached > reach:
            raise DataError(
                f"advancing '{definition.name}' to {format_instant(moment)} would close more than "
                f"{WINDOWS_CLOSED_MAX:,} windows of a query"
            )
        self._inbox.post_control({"advance": {"stream": self._key(definition.name), "until": moment}})

    def flush(self, streams: list[str] | None = None) -> None:
        """Advances streams, all unless some are named, past their last row, until every window with rows has closed."""
        if self.active:
            self.process_all()
        marks = self.marks()
        books = self._pipeline._books
        wanted = [name.lower() for name in streams] if streams is not None else list(books._streams)
        for name in wanted:
            newest = marks.of(self._key(name)).greatest
            if newest is not None:
                last = min(books._last_end(books._streams[name], newest), INSTANT_MAX + 1)
                self._inbox.post_control({"advance": {"stream": self._key(name), "until": last}})
        if self._available_now and not self.active and wanted:
            self._launch()
            self.wait()
        elif self.active:
            self.process_all()

    def process_all(self) -> None:
        """Waits until all that was there when this was called has been processed."""
        query = self._query
        if query is not None:
            query.processAllAvailable()

    # -- asking it -----------------------------------------------------------------------------------------------

    def marks(self) -> Marks:
        """How far the streams have come."""
        return last_marks(self._folder)

    def status(self) -> dict[str, Any]:
        """Whether it runs, what Spark is doing, and why it has ended."""
        query, error = self._query, self._error()
        state = "RUNNING" if self.active else ("FAILED" if error is not None else "STOPPED")
        message = "" if query is None else str(query.status["message"])
        return {"state": state, "message": message if error is None else str(error), "batch": self.marks().batch}

    def progress(self) -> list[dict[str, Any]]:
        """Spark's own progress events of the last micro-batches."""
        if self._query is None:
            return []
        return [json.loads(event.json) for event in self._query.recentProgress]

    def metrics(self) -> dict[str, Any]:
        """A few figures: micro-batches, rows, rows a second, seconds of the last trigger, bytes of state."""
        events = self.progress()
        marks, stats = self.marks(), last_stats(self._folder)
        last = events[-1] if events else {}
        live = self._program.versions[-1].fragment_numbers
        buckets = [bucket for bucket in stats["buckets"].values() if bucket["fragment"] in live]
        return {
            "batches": marks.batch + 1,
            "rows": sum(stream.rows for stream in marks.streams.values()),
            "results": sum(stats["queries"].values()),
            "trigger_seconds": last.get("durationMs", {}).get("triggerExecution", 0) / 1000,
            "state_bytes": sum(bucket["stored_bytes"] for bucket in buckets),
            "written_bytes": sum(bucket["written_bytes"] for bucket in buckets),
        }

    def failed(self) -> dict[str, str]:
        """The queries that have failed, with the reason of each."""
        failed = self.marks().failed
        queries = self._program.versions[-1].queries
        return {name: failed[query.log_name] for name, query in queries.items() if query.log_name in failed}

    def stats(self) -> dict[str, Any]:
        """Rows, late rows, slices and bytes of state, per stream, query and tree, as `pw.Engine.stats` says them."""
        marks, stats = self.marks(), last_stats(self._folder)
        version = self._program.versions[-1]
        streams = {}
        for key, stream in version.streams.items():
            of_stream = marks.of(key)
            watermark = of_stream.watermark(stream.delay_us)
            streams[stream.name] = {
                "rows": of_stream.rows,
                "late_rows": of_stream.late_rows,
                "bad_rows": of_stream.bad_rows,
                "watermark": None if watermark == INT64_MIN else format_instant(watermark),
            }
        queries = {}
        for query in version.queries.values():
            reason = marks.failed.get(query.log_name)
            status = "FAILED" if reason is not None else ("SUSPENDED" if query.suspended else "RUNNING")
            queries[query.definition.name] = {
                "status": status,
                "reason": reason or "",
                "results": stats["queries"].get(query.log_name, 0),
            }
        return {"streams": streams, "queries": queries, "trees": self._tree_stats(version, stats)}

    def _tree_stats(self, version: Version, stats: dict[str, Any]) -> list[dict[str, Any]]:
        found = []
        for number in sorted(version.fragment_numbers):
            buckets = [bucket for bucket in stats["buckets"].values() if bucket["fragment"] == number]
            fragment = self._program.fragments[number]
            summed = ("groups", "slices", "open_slices", "bytes", "stored_bytes", "written_bytes", "pages")
            found.append(
                {
                    "source": version.streams[fragment.stream].name,
                    "queries": sorted(q.definition.name for q in version.queries.values() if q.fragment == number),
                    "buckets": len(buckets),
                    **{name: sum(bucket[name] for bucket in buckets) for name in summed},
                }
            )
        return found

    def fetch(self, query: str) -> pa.Table:
        """What the query has delivered since the last call."""
        definition = self._pipeline._books.catalog.get(query, "query")
        assert isinstance(definition, QueryDefinition)
        tables = self._fetch(RESULT, self._program.versions[-1].queries[definition.name.lower()].log_name)
        return pa.concat_tables([definition.schema.to_arrow().empty_table(), *tables])

    def late_rows(self, stream: str) -> pa.Table:
        """The late rows since the last call, where the stream says late = 'keep'."""
        definition = self._pipeline._books.catalog.get(stream, "stream")
        empty = definition.schema.to_arrow().empty_table()  # type: ignore[union-attr]
        return pa.concat_tables([empty, *self._fetch(LATE, self._key(definition.name))], promote_options="default")

    def bad_rows(self, stream: str) -> pa.Table:
        """The rows set aside since the last call, where the stream says on_bad_row = 'skip'."""
        definition = self._pipeline._books.catalog.get(stream, "stream")
        empty = pa.table({"row": pa.array([], pa.string()), "reason": pa.array([], pa.string())})
        return pa.concat_tables([empty, *self._fetch(BAD, self._key(definition.name))])

    def _fetch(self, kind: str, name: str) -> list[pa.Table]:
        # Only what is marked is complete, the sinks included.
        done = self.marks().batch
        last = self._fetched.get((kind, name), -1)
        batches = [batch for batch in self._folder.numbers("results") if last < batch <= done]
        self._fetched[kind, name] = max(done, last)
        found = (read_entries(self._folder, batch, kind, name) or [] for batch in batches)
        return [entry.table for entries in found for entry in entries]

    def lookup(self, query: str, at: Any = None, key: Any = None) -> pa.Table:
        """The answer now or then; `key` picks one group. The log answers for periodic queries, without waiting."""
        definition = self._pipeline._books.catalog.get(query, "query")
        planned = self._program.versions[-1].queries[definition.name.lower()]
        reason = self.marks().failed.get(planned.log_name)
        if reason is not None:
            raise NotHeldError(f"query '{query}' has failed: {reason}")
        moment = None if at is None else instant_us(at)
        table = self._reported(planned, moment) if is_tree(planned.block) else self._asked(planned, moment)
        books = self._pipeline._books
        return table if key is None else books._of_key(books._query(query), table, key)

    def _reported(self, query: PlannedQuery, at: int | None) -> pa.Table:
        """The report at an instant, from the log."""
        name, window = query.definition.name, query.block.window
        empty = query.definition.schema.to_arrow().empty_table()
        assert isinstance(window, TimeWindow) and window.slide_us is not None
        key = self._program.fragments[query.fragment].stream
        stream = self._program.versions[-1].streams[key]
        marks = self.marks()
        watermark = marks.of(key).watermark(stream.delay_us)
        if watermark == INT64_MIN:
            return empty
        moment = watermark if at is None else at
        if moment > watermark:
            raise NotHeldError(
                f"'{name}' has no report at {format_instant(moment)} yet",
                hint=f"it has come to {format_instant(watermark)}",
            )
        report = moment - (moment - window.align_us) % window.slide_us
        for batch in reversed([n for n in self._folder.numbers("results") if n <= marks.batch]):
            for entry in read_entries(self._folder, batch, RESULT, query.log_name) or []:
                ends = entry.table.column("window_end").cast(pa.int64())
                if pc.min(ends).as_py() <= report:
                    return entry.table.filter(pc.equal(ends, report))
        reached, _ = marks.at(query.created, key)
        if at is not None and reached is not None and report <= reached:
            raise NotHeldError(f"the report of '{name}' at {format_instant(report)} is not in the log")
        return empty

    def _asked(self, query: PlannedQuery, at: int | None) -> pa.Table:
        """The answer of a query that keeps its state in one bucket: a letter goes there, the log brings it back."""
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
