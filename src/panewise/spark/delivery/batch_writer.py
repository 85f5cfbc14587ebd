"""The foreachBatch: writes the output of a micro-batch to the result log, sinks, archives and marks.

A micro-batch may be handed over again after a fault at any point, so every step is idempotent. If the log has a file of
the micro-batch, the file's content is its result, and all later steps are repeated from it. Sinks and archives
recognise a batch id that they have written. The marks are written last; the next micro-batch is judged by them.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panewise.spark.archives.archive_staging import StagedFile, write_list
from panewise.spark.archives.archive_writer import ArchiveWriter
from panewise.spark.delivery.batch_targets import BatchTargets, batch_targets
from panewise.spark.ingest.inbox import remove_messages
from panewise.spark.program.known_programs import versions_of
from panewise.spark.program.reference import Reference
from panewise.spark.results.batch_log import LogEntry, forget_older, read_entries, write_entries
from panewise.spark.results.batch_stats import stats_file
from panewise.spark.tables.table_pins import TablePins
from panewise.spark.tasks.batch_clock import note_clock
from panewise.spark.tasks.batch_progress import KEPT, Marks, read_marks, write_marks
from panewise.spark.tasks.packing import (
    ANSWER,
    BAD,
    COUNTED,
    FAILED,
    LATE,
    OVERFLOWS,
    RESULT,
    STATE,
    Packet,
    table_of,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from panewise.spark.sinks.sink_kind import PrintTable

HALT_SECONDS = 60.0  # time that a micro-batch has to end when the pipeline is told to stop
Output = tuple[str, str, int, int, bytes]


class Halted(Exception):
    """The pipeline was told to stop. This micro-batch has not begun; the next start runs it."""

    def __init__(self) -> None:
        # Spark takes an error with this text for an interruption by its own stop, and does not log it.
        super().__init__(
            "py4j.protocol.Py4JJavaError: An error occurred while calling stop: java.lang.InterruptedException"
        )


class Halt:
    """Asks the writer to end the query at a micro-batch boundary: the order is `asked`, `held`, `told`.

    The writer holds the next micro-batch (`held`) until Spark has been told to stop (`told`). A pickled copy is not
    connected to the original: a writer on a Connect server cannot be asked.
    """

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.held = threading.Event()
        self.told = threading.Event()

    def __reduce__(self) -> tuple[type[Halt], tuple[()]]:
        return Halt, ()


class Notice:
    """An event for those who wait for micro-batches in this process. A pickled copy is not connected to it."""

    def __init__(self) -> None:
        self.given = threading.Event()

    def __reduce__(self) -> tuple[type[Notice], tuple[()]]:
        return Notice, ()


@dataclass
class BatchWriter:
    """Picklable, because with Spark Connect it runs on the server, where it reads the definitions by its reference.

    `first` is the version of the next micro-batch.
    """

    reference: Reference
    first: int
    checkpoint_id: str
    retention_seconds: float
    print_table: PrintTable
    halt: Halt = field(default_factory=Halt)
    delivered: Notice = field(default_factory=Notice)  # set when a micro-batch has been marked

    def __post_init__(self) -> None:
        self.folder = self.reference.folder
        self.tables = TablePins(self.reference)
        self.archives = ArchiveWriter(self.reference, self.retention_seconds)

    def __reduce__(self) -> tuple[type[BatchWriter], tuple[Any, ...]]:
        given = self.reference, self.first, self.checkpoint_id, self.retention_seconds, self.print_table
        return BatchWriter, (*given, self.halt, self.delivered)

    @cached_property
    def targets(self) -> BatchTargets:
        return batch_targets(versions_of(self.reference), self.first, self.checkpoint_id, self.print_table)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        if self.halt.asked.is_set():
            self.halt.held.set()
            self.halt.told.wait(HALT_SECONDS)
            raise Halted
        note_clock(self.folder, batch)
        self.tables.pin(batch, frame.sparkSession)  # before the frame is evaluated
        entries = read_entries(self.folder, batch)
        outputs = _outputs(frame.toArrow())
        if entries is None:
            entries = self._entries(outputs)
            if entries:
                write_entries(self.folder, batch, entries)
        tables = {entry.name: entry.table for entry in entries if entry.kind == RESULT}
        self._feed_sinks(batch, tables, frame.sparkSession)
        packets = [Packet.unpacked(payload) for kind, _, _, _, payload in outputs if kind == COUNTED]
        marks = self._counted(batch, outputs, packets)
        write_list(self.folder, batch, _staged(packets))
        self.archives.write(batch, marks)
        self._mark(marks, outputs, tables)
        self.delivered.given.set()

    def _feed_sinks(self, batch: int, tables: dict[str, pa.Table], spark: SparkSession | None) -> None:
        sinks = self.targets.sinks_of(batch)
        if sinks is None:
            return
        for kind, targets in sinks.kinds:
            read = [(target, sinks.log_names[target.query.lower()]) for target in targets]
            written = [(target, tables[name]) for target, name in read if name in tables]
            if written:
                kind.write(batch, written, spark)

    def _entries(self, outputs: list[Output]) -> list[LogEntry]:
        """One entry for each query and stream: the parts of its buckets, in order of time."""
        parts: dict[tuple[str, str], list[pa.Table]] = {}
        refused: dict[str, bytes] = {}
        for kind, name, _, rows, payload in outputs:
            if kind == ANSWER and rows < 0:
                refused.setdefault(name, payload)
            elif kind in (RESULT, LATE, BAD, ANSWER):
                parts.setdefault((kind, name), []).append(table_of(payload))
        for name in refused:
            parts.pop((ANSWER, name), None)  # the answers of the other buckets are incomplete
        entries = []
        for (kind, name), tables in sorted(parts.items(), key=lambda item: item[0]):
            table = pa.concat_tables(tables)
            if kind == RESULT and len(tables) > 1:
                table = in_time_order(table, self.targets.time_columns[name])
            entries.append(LogEntry(kind, name, table))
        for name, reason in refused.items():
            entries.append(LogEntry(ANSWER, name, pa.table({"refused": pa.array([reason.decode()], pa.string())})))
        return entries

    def _counted(self, batch: int, outputs: list[Output], packets: list[Packet]) -> Marks:
        """The marks after this micro-batch: how far the streams have come, and which queries have failed."""
        marks = read_marks(self.folder, batch - 1)
        marks.go_on(batch, [version for version, first in self.targets.beginnings if first <= batch])
        for packet in packets:
            marks.count(packet)
        for kind, name, _, _, payload in outputs:
            if kind == FAILED:
                marks.fail(name, payload.decode())
        return marks

    def _mark(self, marks: Marks, outputs: list[Output], tables: dict[str, pa.Table]) -> None:
        batch = marks.batch
        stats = self.folder.read_json(stats_file(batch - 1)) or {"queries": {}, "buckets": {}}
        overflows = stats.setdefault("overflows", {})
        for kind, name, _, rows, payload in outputs:
            if kind == STATE:
                stats["buckets"][name] = json.loads(payload)
            elif kind == OVERFLOWS:
                overflows[name] = overflows.get(name, 0) + rows
        for name, table in tables.items():
            stats["queries"][name] = stats["queries"].get(name, 0) + table.num_rows
        stats["batch"] = batch
        self.folder.write_json(stats_file(batch), stats)
        self.folder.remove(stats_file(batch - KEPT))
        write_marks(self.folder, marks)
        self._forget(batch)

    def _forget(self, batch: int) -> None:
        """Every 100 micro-batches, removes messages that no replay can need, and log files older than the retention."""
        if batch % 100 or not batch:
            return
        remove_messages(self.folder, read_marks(self.folder, batch - 2).message)
        forget_older(self.folder, time.time() - self.retention_seconds, read_marks(self.folder, batch))


def in_time_order(table: pa.Table, column: str) -> pa.Table:
    """The rows in order of time; rows of one instant keep their order."""
    import numpy as np

    times = np.asarray(table.column(column).combine_chunks().view(pa.int64()))
    if len(times) < 2 or bool((times[1:] >= times[:-1]).all()):
        return table
    return table.take(pa.array(np.argsort(times, kind="stable")))


def _outputs(table: pa.Table) -> list[Output]:
    columns = [table.column(name).to_pylist() for name in ("kind", "name", "ordinal", "rows", "payload")]
    return sorted(zip(*columns, strict=True), key=lambda row: (row[0], row[1], row[2]))


def _staged(packets: list[Packet]) -> dict[str, list[StagedFile]]:
    """The files in which tasks have staged rows of archived streams, by stream."""
    found: dict[str, list[StagedFile]] = {}
    for packet in packets:
        if packet.staged:
            found.setdefault(packet.stream, []).extend(StagedFile(*file) for file in packet.staged)
    return found
