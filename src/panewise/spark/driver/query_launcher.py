"""Starts the Spark query of a run on its checkpoint.

Every start uses what the first one has fixed (`CheckpointIdentity`) and the newest program. It begins with the next
micro-batch, or repeats the one that was under way, under the version that governed it. Sinks that are new to the
checkpoint are prepared before the query starts.
"""

from __future__ import annotations

import sys
import uuid
from typing import TYPE_CHECKING

import pyarrow as pa

from panewise.catalog import SinkDefinition
from panewise.errors import CatalogError
from panewise.spark.archives.archive_writer import ArchiveWriter
from panewise.spark.delivery.batch_targets import VersionSinks, target_of, version_sinks
from panewise.spark.delivery.batch_writer import BatchWriter, Halt, Notice
from panewise.spark.delivery.prepared_sinks import read_prepared, write_prepared
from panewise.spark.environment.folder import Folder
from panewise.spark.environment.session import STATE_SETTINGS, is_connect, settings, started
from panewise.spark.program.identity import CheckpointIdentity, DefinedPipeline
from panewise.spark.program.known_programs import hold
from panewise.spark.program.program import Program
from panewise.spark.program.reference import Reference
from panewise.spark.program.version import Version
from panewise.spark.sinks import sink_kinds
from panewise.spark.stages.streaming_query import output_frame
from panewise.spark.tasks.batch_progress import last_marks, next_batch

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class QueryLauncher:
    """Starts the Spark queries of one run of a pipeline. Their writers notify `delivered`."""

    def __init__(
        self,
        pipeline: DefinedPipeline,
        folder: Folder,
        identity: CheckpointIdentity,
        program: Program,
        trigger: str | None,
        available_now: bool,
    ) -> None:
        self._pipeline = pipeline
        self._folder = folder
        self._identity = identity
        self._program = program
        self._trigger = trigger
        self._available_now = available_now
        self._run = uuid.uuid4().hex
        self.delivered = Notice()

    def start(self, halt: Halt) -> StreamingQuery:
        """Starts the query with the newest program; `halt` ends it at a micro-batch boundary."""
        spark, identity = self._pipeline.spark, self._identity
        reference, first = self._reference(), self._first_version()
        writer = self._writer(reference, first, halt)
        wanted = STATE_SETTINGS | {
            "spark.sql.shuffle.partitions": str(identity.partitions),
            "spark.sql.streaming.queryEvolution.enableSourceEvolution": str(identity.named_sources).lower(),
        }
        with settings(spark, wanted):
            frame = output_frame(spark, reference, self._program, self._pipeline.frames, identity.named_sources, first)
            stream = self._triggered(frame.writeStream.queryName(self._pipeline.name).outputMode("append"))
            stream = stream.foreachBatch(writer).option("checkpointLocation", self._folder.path("spark"))
            if any(query.name == self._pipeline.name for query in spark.streams.active):
                raise CatalogError(
                    f"a pipeline or query named '{self._pipeline.name}' runs in this session already",
                    hint="stop it, or give this one another name: SparkPipeline(name=...)",
                )
            return started(stream)

    def _triggered(self, stream: DataStreamWriter) -> DataStreamWriter:
        if self._available_now:
            return stream.trigger(availableNow=True)
        return stream if self._trigger is None else stream.trigger(processingTime=self._trigger)

    def _first_version(self) -> int:
        """The version of the next micro-batch: an older one where it was under way and is to be replayed."""
        logged, done = self._folder.numbers("spark/offsets"), self._folder.numbers("spark/commits")
        pending = bool(logged) and logged[-1] > max(done, default=-1)
        return self._program.at(logged[-1] if pending else next_batch(self._folder)).number

    def _reference(self) -> Reference:
        """What workers and the writer of results are told of the program as it is now."""
        reference = Reference(
            # The run is part of the name: workers must forget earlier runs, whose aggregates or folder may differ.
            f"{self._identity.id}/{self._run}",
            self._folder,
            self._identity.partitions,
            self._program.next_version,
            dict(self._pipeline.books.user_aggregates),
            self._identity.sharing,
        )
        hold(reference, self._program)
        return reference

    def _writer(self, reference: Reference, first: int, halt: Halt) -> BatchWriter:
        print_table = self._pipeline.print_table or _print_plainly
        sinks = version_sinks(self._program.newest, self._identity.id, print_table)
        for kind, targets in sinks.kinds:
            kind.check(targets)
        self._prepare(self._program.newest, sinks)
        writer = BatchWriter(
            reference, first, self._identity.id, self._retention_seconds, print_table, halt, self.delivered
        )
        if not is_connect(self._pipeline.spark):
            writer.archives.prepare()  # raises before anything runs
        return writer

    def _prepare(self, version: Version, sinks: VersionSinks) -> None:
        """Lets sinks that are new to the checkpoint deal with what an earlier run left at their place."""
        prepared = read_prepared(self._folder)
        names = {sink.definition.name: sink.log_name for sink in version.sinks.values()}
        for kind, targets in sinks.kinds:
            fresh = [target for target in targets if names[target.name] not in prepared]
            if fresh:
                kind.prepare(fresh, version.from_batch)
        write_prepared(self._folder, names.values())

    def prepare_new_sink(self, sink: SinkDefinition) -> None:
        """Prepares a sink before the query is halted for it, so that an error at its place stops nothing."""
        version = self._program.newest
        if sink.source.lower() in version.queries:
            target = target_of(sink, version)
            for kind, targets in sink_kinds([target], self._identity.id, _print_plainly):
                kind.prepare(targets, next_batch(self._folder))

    def settle_archives(self) -> None:
        """Writes to archives what waits for the end of its slot; call when no query runs.

        Does nothing through Spark Connect, where the server has the files.
        """
        if self._program.newest.archives and not is_connect(self._pipeline.spark):
            ArchiveWriter(self._reference(), self._retention_seconds).settle(last_marks(self._folder))

    @property
    def _retention_seconds(self) -> float:
        return self._pipeline.retention_us / 1e6


def _print_plainly(title: str, table: pa.Table, rows: int) -> None:
    sys.stdout.write(f"{title}\n{table.slice(max(0, table.num_rows - rows)).to_pandas().to_string(index=False)}\n")
