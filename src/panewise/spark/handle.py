"""The handle of a running pipeline: what to ask it, tell it and change in it while Spark works.

A change halts the Spark query at a micro-batch boundary, is written down with the first micro-batch that it governs,
and the query starts again from the same checkpoint. A micro-batch that was under way is replayed under the definitions
that governed it, so other queries lose and repeat nothing.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from panewise.catalog import SinkDefinition, StreamDefinition
from panewise.engine.ingest.journal import Stamp
from panewise.engine.reads.one_group import of_key
from panewise.errors import CatalogError, ConnectorError, NotHeldError
from panewise.spark.archives.archive_lookups import archived_report
from panewise.spark.archives.archive_target import read_archive_starts
from panewise.spark.delivery.batch_writer import Notice
from panewise.spark.driver.checked_inbox import CheckedInbox
from panewise.spark.driver.feeding import Feeder, IdleWatch
from panewise.spark.driver.query_launcher import QueryLauncher
from panewise.spark.driver.supervised_query import SupervisedQuery
from panewise.spark.environment.folder import FOLDERS, Folder
from panewise.spark.environment.shipping import ship
from panewise.spark.folder_reader import FolderReader
from panewise.spark.ingest.inbox import Inbox
from panewise.spark.ingest.stream_sources import INBOX, connector_of
from panewise.spark.program.changes import Change, ChangeStatement
from panewise.spark.program.identity import CheckpointIdentity, DefinedPipeline, identity_of
from panewise.spark.program.known_programs import add_change, read_program
from panewise.spark.program.reconcile import reconciled
from panewise.spark.program.version import PlannedQuery
from panewise.spark.results.batch_log import read_entries
from panewise.spark.tables.table_books import TableBooks
from panewise.spark.tasks.batch_progress import next_batch
from panewise.spark.tasks.packing import ANSWER
from panewise.temporal import instant_us


class Handle(FolderReader):
    """One run of a pipeline, over any number of restarts of its Spark query."""

    def __init__(self, pipeline: DefinedPipeline, folder: Folder, trigger: str | None, available_now: bool) -> None:
        self._identity = identity_of(pipeline, folder)
        folder.make(*FOLDERS)
        fixed = self._identity.partitions, pipeline.books.user_aggregates, self._identity.sharing
        program = read_program(folder, *fixed, pipeline.queries_made)
        super().__init__(folder, pipeline.books.catalog, program)
        self._pipeline = pipeline
        self._available_now = available_now
        self._inbox = Inbox(folder)
        self._checked_inbox = CheckedInbox(self._inbox, folder, pipeline.books, program)
        self._tables = TableBooks(folder, pipeline.books, program)
        self._launcher = QueryLauncher(pipeline, folder, self._identity, program, trigger, available_now)
        self._query = SupervisedQuery(folder, self._launcher.start)
        self._threads: list[Feeder | IdleWatch] = []

    @property
    def identity(self) -> CheckpointIdentity:
        return self._identity

    @property
    def id(self) -> str:
        """The id of the checkpoint."""
        return self._identity.id

    @property
    def tables(self) -> TableBooks:
        return self._tables

    @property
    def delivered(self) -> Notice:
        """Notified after each micro-batch that this process has delivered."""
        return self._launcher.delivered

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
            self._start_threads()
            self._query.start()
        except Exception:
            self.stop_threads()
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

    def _write_change(self, statements: list[ChangeStatement]) -> Change:
        number, texts = self.program.next_version, tuple(statement.text for statement in statements)
        bound = [statement.bound for statement in statements]
        change = add_change(self._folder, self.program, Change(number, next_batch(self._folder), texts), bound)
        self._tables.log()
        if number:
            self.wake()
        return change

    def wake(self) -> None:
        """Causes a micro-batch even if no rows come."""
        self._checked_inbox.wake()

    def change(self, statements: list[ChangeStatement]) -> None:
        """Call when definitions have changed. They hold from the next micro-batch boundary, or from a later start."""
        with self._query.lock:
            if not self.active:
                self._write_change(statements)
                return
            self.stop_threads()
            self._query.halt()
            self._write_change(statements)
            self._start_threads()
            self._query.start()

    def change_tables(self) -> None:
        """Call when rows of tables have changed. The next micro-batch sees it, and nothing is stopped for it."""
        with self._query.lock:
            if self._tables.log():
                self.wake()

    def check_new_stream(self, stream: StreamDefinition) -> None:
        if not self._identity.named_sources and connector_of(stream) not in INBOX:
            raise CatalogError(
                f"stream '{stream.name}' cannot be added while the pipeline runs: it reads a DataFrame, so that "
                "Spark knows its sources by their order",
                hint="create all streams before start, or use connectors for all of them",
            )

    def prepare_new_sink(self, sink: SinkDefinition) -> None:
        """Prepares a sink before the query is halted for it, so that an error at its place stops nothing."""
        self._launcher.prepare_new_sink(sink)

    def _start_threads(self) -> None:
        """Starts the threads that post rows of generators and punctuations of idle streams."""
        for key, stream in self.program.newest.streams.items():
            if connector_of(stream) == "generator":
                self._threads.append(Feeder(key, stream, self._folder, self._inbox, wait=not self._available_now))
            idle = dict(self.program.options(key)).get("idle")
            if idle is not None:
                self._threads.append(IdleWatch(key, stream, str(idle), self))
        for thread in self._threads:
            thread.start()

    def stop_threads(self) -> None:
        """Ends the threads that post; call it also for a run whose Spark query has ended by itself."""
        for thread in self._threads:
            thread.stop()
        self._threads = []

    # -- ending --------------------------------------------------------------------------------------------------

    @property
    def active(self) -> bool:
        return self._query.active

    @property
    def busy(self) -> bool:
        """Whether a micro-batch is under way. (A trigger also counts as active while it only looks for new data.)"""
        return self._query.busy

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for the end; False if it has not come within `timeout` seconds. Raises the error that ended the run."""
        return self._query.wait(timeout, at_end=self._settle_archives)

    def stop(self) -> None:
        """Ends the run; a later start goes on from here."""
        with self._query.lock:
            self.stop_threads()
            self._query.halt()
            self._settle_archives()

    def _settle_archives(self) -> None:
        self._launcher.settle_archives()

    # -- telling it ----------------------------------------------------------------------------------------------

    def push(self, stream: StreamDefinition, data: Any, stamp: Stamp | None = None) -> bool:
        """Posts rows. With a stamp (a producer and a number) returns False if that number was taken before."""
        return self._checked_inbox.push(stream, data, stamp)

    def last_sequence(self, stream: str, producer: str) -> int:
        """The number of the last push of a producer that was taken; 0 where there was none."""
        return self._checked_inbox.last_sequence(self._stream(stream), producer)

    def advance(self, stream: str, until: Any) -> None:
        """Posts a punctuation: no row before `until` (microseconds, a datetime or a text) will come."""
        self._checked_inbox.advance(self._stream(stream), instant_us(until))

    def flush(self, streams: list[str] | None = None) -> None:
        """Advances these streams, or all, past their last row, until every window with rows has closed."""
        if self.active:
            self.process_all()
        advanced = [name.lower() for name in streams] if streams is not None else list(self._pipeline.books.streams)
        self._checked_inbox.advance_past_rows(advanced)
        if self._available_now and not self.active and advanced:
            self._query.start()
            self.wait()
        elif self.active:
            self.process_all()

    def process_all(self) -> None:
        """Waits until all that was there when this was called has been processed."""
        self._query.process_all()

    def _stream(self, name: str) -> StreamDefinition:
        definition = self._catalog.get(name, "stream")
        assert isinstance(definition, StreamDefinition)
        return definition

    # -- asking it -----------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Whether it runs, what Spark is doing, and why it has ended."""
        active, error = self.active, self._query.error
        state = "RUNNING" if active else ("FAILED" if error is not None else "STOPPED")
        message = self._query.message if error is None else str(error)
        return {"state": state, "message": message, "batch": self.marks().batch}

    def progress(self) -> list[dict[str, Any]]:
        """Spark's own progress events of the last micro-batches."""
        return self._query.progress()

    def metrics(self) -> dict[str, Any]:
        """A few figures: micro-batches, rows, results, bytes of state held and last written, seconds of a trigger."""
        events = self.progress()
        last = events[-1] if events else {}
        return super().metrics() | {"trigger_seconds": last.get("durationMs", {}).get("triggerExecution", 0) / 1000}

    def lookup(self, query: str, at: Any = None, key: Any = None) -> pa.Table:
        """The answer of a query now or at an instant; `key` picks one group.

        For a periodic query it comes from the log, without waiting; for others from the buckets, in a micro-batch. An
        answer that neither holds any more is read from an archive of the query, where there is one.
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
        moment, watermark = at, self.watermark_of(query, self.marks())
        if at is None and query.is_folded:  # the answer of any other query may differ from its last report
            moment = watermark
        if moment is None or watermark is None or moment > watermark:
            return None
        return archived_report(self.version, query, moment, read_archive_starts(self._folder))

    def _asked(self, query: PlannedQuery, at: int | None) -> pa.Table:
        """The answer of a query that is not folded: a message asks its buckets, and the log has what they answer."""
        if not self.active:
            raise NotHeldError(f"'{query.definition.name}' answers lookups only while the pipeline runs")
        before = self.marks().batch
        number = self._checked_inbox.ask(query.name, at)
        self.process_all()
        for batch in [n for n in self._folder.numbers("results") if n > before]:
            for entry in read_entries(self._folder, batch, ANSWER, number) or []:
                if entry.table.column_names == ["refused"]:
                    raise NotHeldError(entry.table.column(0)[0].as_py())
                return entry.table
        raise NotHeldError(f"'{query.definition.name}' has not answered")
