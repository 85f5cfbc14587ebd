"""Stage 1, in the Python workers before the shuffle: rows become partials, per slice and group, for each family.

A task reads its part of a micro-batch once and judges every row once: bad, late or good. It folds good rows into every
family of the stream and sends one packet to each bucket; a packet without partials or rows tells how far the stream has
come. To row fragments rows go whole, in the order in which they came, each to the bucket of its key. A worker keeps the
families from task to task: their table of groups, but no row. If the stream is archived, good rows are also staged in
files, whose names go to the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.columns import flags
from panewise.catalog import StreamDefinition
from panewise.engine.ingest.intake import Intake, shown_row
from panewise.engine.ingest.window_limit import Extent
from panewise.errors import DataError
from panewise.language.expressions import Expression
from panewise.operators.row_batch import Rows
from panewise.operators.shared_fold.shared_fold import SharedFold
from panewise.plan.expressions.evaluate import compiled
from panewise.spark.archives.archive_staging import TaskStaging
from panewise.spark.buckets.bucket import Bucket
from panewise.spark.ingest.inbox import InboxMessage, read_message
from panewise.spark.ingest.row_decoders import Place, RowDecoder, Wanted
from panewise.spark.program.bucket_keys import bucket_keys
from panewise.spark.program.program import METER, Program
from panewise.spark.program.reference import Reference
from panewise.spark.program.version import Fragment, PlannedFamily
from panewise.spark.tasks.packing import BAD, LATE, PACKED, Packet
from panewise.spark.tasks.stream_limits import extent_of, limit_of
from panewise.spark.tasks.worker import BatchTask, task_of
from panewise.state.key_hash import split_by_bucket, split_by_keys

Stage = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
ORDINALS_PER_SOURCE = 1 << 32
INBOX_SOURCE = 0
KEPT = "__panewise_keeps_"
ASIDE_MAX = 10_000  # late or bad rows that a task hands on for people to see; all are counted


def fold_stage(reference: Reference, stream: str, source: int, decoder: RowDecoder) -> Stage:
    """The function that Spark maps over the batches of one stream."""

    def fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first = next(iter(batches), None)
        if first is None:
            return
        task = task_of(reference)
        if stream not in task.version.streams:
            return  # the stream was dropped; the next start removes its source
        reader = StreamTask(task, stream)
        for piece in decoder.pieces(first, reader.wanted):
            reader.take(piece)
        for batch in batches:
            for piece in decoder.pieces(batch, reader.wanted):
                reader.take(piece)
        yield from packed_rows(reader.packets(), source * ORDINALS_PER_SOURCE + task.partition)

    return fold


def path_stage(reference: Reference, files: Mapping[int, tuple[str, RowDecoder]]) -> Stage:
    """The function that Spark maps over `source, path`: names of files of streams, and messages of the inbox.

    There is one function for all sources, so that a source without news costs no task. `files` has the stream and the
    decoder of each source.
    """

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task: BatchTask | None = None
        readers: dict[int, StreamTask] = {}
        extents: dict[str, Extent] = {}
        for batch in batches:
            task = task or task_of(reference)
            sources, paths = (column.to_pylist() for column in batch.columns)
            for path in sorted(path for source, path in zip(sources, paths, strict=True) if source == INBOX_SOURCE):
                message = read_message(reference.folder, path.rpartition("/")[2])
                yield from packed_rows(_message_packets(task, message, extents), message.number)
            for source in dict.fromkeys(sources):
                stream, decoder = files.get(source, ("", None))
                if decoder is None or stream not in task.version.streams:
                    continue  # the inbox, or a dropped stream, whose source the next start removes
                reader = readers.setdefault(source, StreamTask(task, stream))
                own = batch.filter(pa.array([other == source for other in sources])).select(["path"])
                for piece in decoder.pieces(own, reader.wanted):
                    reader.take(piece)
        for source, reader in readers.items():
            assert task is not None
            yield from packed_rows(reader.packets(), source * ORDINALS_PER_SOURCE + task.partition)

    return read


def _message_packets(
    task: BatchTask, message: InboxMessage, extents: dict[str, Extent]
) -> Iterator[tuple[int, Packet]]:
    """`extents` is how far the messages before this one have brought each stream; it is updated."""
    yield program_key(task.program, METER), Packet(METER, 0, "", message=message.number)
    if message.stream is None:
        yield from _control_packets(task, message.content)
    elif message.stream in task.version.streams:
        # One task for each message: its number, and not the partition that Spark chose, gives the order.
        reader = StreamTask(task, message.stream, extents.get(message.stream))
        for batch in message.content:
            reader.take(batch)
        extents[message.stream] = reader.extent
        yield from reader.packets()


def _control_packets(task: BatchTask, row: dict[str, Any]) -> Iterator[tuple[int, Packet]]:
    program, version = task.program, task.version
    if "advance" in row:
        stream, until = row["advance"]["stream"], row["advance"]["until"]
        if stream not in version.streams:
            return
        yield program_key(program, METER), Packet(METER, 0, stream, floor=until)
        for fragment in program.fragments_over(version, stream):
            for bucket, key in enumerate(program.keys_of(fragment)):
                yield key, Packet(fragment.number, bucket, stream, floor=until)
    elif "ask" in row:
        query = version.queries.get(row["ask"]["query"].lower())
        if query is not None:
            fragment = program.fragments[query.fragment]
            for bucket, key in enumerate(program.keys_of(fragment)):
                yield key, Packet(fragment.number, bucket, fragment.stream, ask=row["ask"])
    elif "wake" in row:
        for stream in version.streams:
            for fragment in program.fragments_over(version, stream):
                for bucket, key in enumerate(program.keys_of(fragment)):
                    yield key, Packet(fragment.number, bucket, stream)
        for fragment in program.gone(task.batch):
            for bucket, key in enumerate(program.keys_of(fragment)):
                yield key, Packet(fragment.number, bucket, fragment.stream, gone=True)


def packed_rows(packets: Any, ordinal: int) -> Iterator[pa.RecordBatch]:
    keys, payloads = [], []
    for key, packet in packets:
        keys.append(key)
        payloads.append(packet.packed())
    if keys:
        ordinals = pa.array([ordinal] * len(keys), pa.int64())
        yield pa.RecordBatch.from_arrays(
            [pa.array(keys, pa.int64()), ordinals, pa.array(payloads, pa.binary())], schema=PACKED
        )


def program_key(program: Program, number: int) -> int:
    return bucket_keys(number, 1, program.partitions)[0]


class StreamTask:
    """One task's part of one stream's micro-batch."""

    def __init__(self, task: BatchTask, stream: str, extent: Extent | None = None) -> None:
        self._task = task
        self._stream = stream
        program, version = task.program, task.version
        options = program.options(stream)
        definition = replace(version.streams[stream], options=options)
        needed = replace(definition, schema=program.columns_needed(version, stream))
        self.wanted = Wanted(definition, needed, Place())
        self._skip = dict(options).get("on_bad_row") == "skip"
        self._keep_late = dict(options).get("late") == "keep"
        marks = task.marks.of(stream)
        self._watermark = marks.watermark(definition.delay_us)
        # How far the stream has come, in the view of this task.
        self.extent = extent_of(task.marks, stream).put_together(extent or Extent())
        self._limit = limit_of(program, version, task.marks, stream, task.clock())
        self._intakes: dict[tuple[str, ...], Intake] = {}
        self._fragments = program.fragments_over(version, stream)
        self._buckets = [(f, _folding(task, f)) for f in self._fragments if f.is_folded]
        # The families of all fragments, because rows may be folded once for several of them.
        self._families = [family for _, bucket in self._buckets for family in bucket.families.values()]
        # Made for this task alone: rows left in it by a failed task would be counted again.
        self._shared = SharedFold() if program.sharing != "none" else None
        planned = (family for fragment, _ in self._buckets for family in program.families_in(version, fragment))
        self._selections = {
            kept_column(family): family.shape.where for family in planned if family.shape.where is not None
        }
        self._whole = [f for f in self._fragments if not f.is_folded]
        self._batches: list[pa.RecordBatch] = []  # for row fragments
        self._staging = TaskStaging(task.folder, task.batch) if stream in version.archived_streams else None
        self._counts = Packet(METER, 0, stream)
        self._read = 0
        self._late: list[pa.RecordBatch] = []
        self._bad: list[tuple[str, str]] = []

    def take(self, piece: pa.RecordBatch | list[dict[str, Any]]) -> None:
        """Takes rows as the source gave them."""
        before = self._read
        try:
            self._take_all(piece)
        except DataError as error:
            place = self.wanted.place
            if not place.file:
                raise
            if error.row is not None:
                error.row -= before  # the row's number in the task becomes its number in the piece
            raise error.of_file(place.file, place.rows_before) from error

    def _take_all(self, piece: pa.RecordBatch | list[dict[str, Any]]) -> None:
        batches = [piece] if isinstance(piece, pa.RecordBatch) else self._intake(self.wanted.whole).batches(piece)
        for batch in batches:
            if batch.num_rows:
                self._take(batch)

    def _intake(self, definition: StreamDefinition) -> Intake:
        names = definition.schema.names
        if names not in self._intakes:
            self._intakes[names] = Intake(definition)
        return self._intakes[names]

    def _take(self, batch: pa.RecordBatch) -> None:
        selected = [name for name in batch.schema.names if name.startswith(KEPT)]
        plain = batch.drop_columns(selected) if selected else batch
        has_all = len(plain.schema.names) >= len(self.wanted.whole.schema)
        intake = self._intake(self.wanted.whole if has_all else self.wanted.needed)
        judged = intake.accepted(plain, self._skip, self._read, self._limit, self.extent)
        good, times, bad, self.extent = judged
        # Spark has evaluated these WHERE clauses already; usable only if no row was removed.
        known = [name for name in selected if name in self._selections and not bad]
        masks = {self._selections[name]: flags(batch.column(name)) for name in known}
        self._read += batch.num_rows
        self._counts.bad_rows += len(bad)
        self._bad.extend((str(shown_row(row)), reason) for row, reason in bad[: ASIDE_MAX - len(self._bad)])
        rows = Rows(good, times, self._counts.rows)
        late = times < self._watermark
        if late.any():
            self._counts.late_rows += int(late.sum())
            if (newest := self._task.marks.of(self._stream).greatest) is not None:
                self._counts.late_behind = max(self._counts.late_behind, newest - int(times.min()))
            if self._keep_late and sum(part.num_rows for part in self._late) < ASIDE_MAX:
                self._late.append(_plain(good, intake.arrow).filter(pa.array(late)))
            masks = {where: mask[~late] for where, mask in masks.items()}
            rows = rows.take(~late)
            rows = Rows(rows.batch, rows.times, self._counts.rows)
        if not len(rows):
            return
        self._counts.rows += len(rows)
        counted = Extent(self._counts.greatest, self._counts.oldest).put_together(
            Extent(rows.latest, int(rows.times.min()))
        )
        self._counts.greatest, self._counts.oldest = counted.newest, counted.oldest
        self._fold(rows, masks)
        if self._whole:
            self._batches.append(_plain(rows.batch, intake.arrow))
        if self._staging is not None:
            self._staging.take(_plain(rows.batch, intake.arrow), rows.times)

    def _fold(self, rows: Rows, masks: Mapping[Expression, NDArray[np.bool_]]) -> None:
        """Folds rows into all families; `masks` has the rows that some WHERE clauses keep."""
        if self._shared is not None:
            self._shared.fold(rows, self._families, masks)
            return
        for family in self._families:
            family.fold(rows, None if family.where is None else masks.get(family.where))

    def packets(self) -> Iterator[tuple[int, Packet]]:
        """The packets for each bucket, with their keys; the meter gets the counts."""
        program, counts = self._task.program, self._counts
        if self._shared is not None:
            self._shared.settle()
        if self._staging is not None:
            counts.staged = [file.to_list() for file in self._staging.files()] or None
        yield program_key(program, METER), counts
        for kind, rows in ((LATE, self._late_table()), (BAD, self._bad_table())):
            if rows is not None:
                yield program_key(program, METER), Packet(METER, 0, self._stream, aside=kind, batch=rows)
        for fragment, bucket in self._buckets:
            yield from self._family_packets(fragment, bucket)
        if self._whole:
            tables = pa.Table.from_batches(self._batches).combine_chunks().to_batches() if self._batches else []
            for fragment in self._whole:
                yield from self._row_packets(fragment, tables[0] if tables else None)

    def _row_packets(self, fragment: Fragment, rows: pa.RecordBatch | None) -> Iterator[tuple[int, Packet]]:
        """One packet for each bucket, also for those without rows: they must learn how far the stream has come."""
        parts: list[pa.RecordBatch | None] = [rows] * fragment.buckets
        if rows is not None and fragment.exchanged_by:
            by = fragment.exchanged_by[fragment.streams.index(self._stream)]
            parts = split_by_keys(rows, [compiled(expression)(rows) for expression in by], fragment.buckets)
        for number, (key, part) in enumerate(zip(self._task.program.keys_of(fragment), parts, strict=True)):
            packet = self._packet(fragment, number)
            packet.batch = part
            yield key, packet

    def _family_packets(self, fragment: Fragment, bucket: Bucket) -> Iterator[tuple[int, Packet]]:
        """One packet for each bucket, with its part of the partials of every family."""
        failed = bucket.take_failures()
        notes: dict[str, int] = {}
        parts: list[dict[int, pa.RecordBatch]] = [{} for _ in range(fragment.buckets)]
        for number, family in bucket.families.items():
            if not fragment.keys:
                notes |= family.take_notes()
            partials = family.take_partials()
            if partials is None:
                continue
            columns = self._task.program.families[number].key_columns
            for own, part in zip(parts, split_by_bucket(partials, columns, fragment.buckets), strict=True):
                if part is not None:
                    own[number] = part
        for number, (key, own) in enumerate(zip(self._task.program.keys_of(fragment), parts, strict=True)):
            packet = self._packet(fragment, number)
            packet.parts, packet.notes, packet.failed = own, notes or None, failed or None
            yield key, packet

    def _packet(self, fragment: Fragment, bucket: int) -> Packet:
        counts = self._counts
        return Packet(fragment.number, bucket, self._stream, counts.greatest, counts.oldest, rows=counts.rows)

    def _late_table(self) -> pa.RecordBatch | None:
        if not self._late:
            return None
        return pa.Table.from_batches(self._late).combine_chunks().to_batches()[0]

    def _bad_table(self) -> pa.RecordBatch | None:
        if not self._bad:
            return None
        rows, reasons = zip(*self._bad, strict=True)
        return pa.record_batch({"row": pa.array(rows, pa.string()), "reason": pa.array(reasons, pa.string())})


def kept_column(family: PlannedFamily) -> str:
    """The column in which Spark says which rows the WHERE of a family keeps; one for all families with equal WHERE."""
    return f"{KEPT}{family.selection}"


def _folding(task: BatchTask, fragment: Fragment) -> Bucket:
    """The worker's own families of a fragment, brought to the task's version."""
    key = ("folding", fragment.number)
    kept: Bucket | None = task.kept.get(key)
    if kept is None or kept.version > task.version.number or not kept.go_on_in(task.program):
        kept = Bucket(task.program, fragment, task.version, folds_only=True)
        task.kept[key] = kept
    kept.become(task.version, task.marks)
    return kept


def _plain(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch without dictionaries, so that batches can be concatenated."""
    return batch if batch.schema.equals(schema) else batch.cast(schema)
