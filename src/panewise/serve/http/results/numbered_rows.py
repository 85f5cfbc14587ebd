"""Rows with consecutive numbers: appended at the end, read anywhere by number, evicted at the old end.

    numbers   first ............................................. next
    chunks    [ up to CHUNK_ROWS ][ up to CHUNK_ROWS ][ 512 ][ 64 ][ 3 ]
              in a file           in memory

A chunk has at most CHUNK_ROWS rows and, unless it is a single row, CHUNK_BYTES bytes. It is an Arrow record batch, in
memory or mapped from a file. The system reads pages of a mapped chunk when its rows are read, and frees them when it
needs the memory. Chunks move to files oldest first.

Small chunks at the end are merged like the digits of a counter: a new chunk is joined with the one before it if that
one is at most twice as long. So a row is copied a logarithmic number of times, and a million appends of one row make
some hundreds of chunks instead of a million objects. A number is found by binary search.

Whole chunks are evicted: at least `keep_rows` rows stay, unless they have more than `keep_bytes`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from panewise.arrays import INT64_MIN

CHUNK_ROWS = 4_096
CHUNK_BYTES = 1 << 20
# Columns with the instant of a result: of periodic queries, and of continuous ones.
TIME_COLUMNS = ("window_end", "instant")


@dataclass(frozen=True)
class Chunk:
    """Rows from number `first` on. `file` is the file that they are mapped from; None: they are in memory."""

    first: int
    batch: pa.RecordBatch
    file: Hashable | None = None
    known_latest_us: int | None = None

    @property
    def next(self) -> int:
        return self.first + int(self.batch.num_rows)

    @cached_property
    def bytes(self) -> int:
        return int(self.batch.nbytes)

    @cached_property
    def latest_us(self) -> int:
        """The greatest instant of its rows."""
        if self.known_latest_us is not None:
            return self.known_latest_us
        latest = pc.max(instants(self.batch)).as_py()
        return INT64_MIN if latest is None else latest


class NumberedRows:
    """See the module. Not safe for threads."""

    def __init__(self, schema: pa.Schema, first: int, chunk_rows: int = CHUNK_ROWS) -> None:
        self.schema = schema
        self.first = first  # the first number held
        self.next = first  # the number that the next row gets
        self.bytes = 0
        self.bytes_in_memory = 0
        self.given_up_until_us: int | None = None  # the greatest instant of rows that are no longer held
        self._chunks: list[Chunk] = []
        self._chunk_rows = chunk_rows

    def append(self, batch: pa.RecordBatch, file: Hashable | None = None) -> None:
        """Appends rows; `file` is the file that they are mapped from."""
        for part in cut(batch, self._chunk_rows):
            self._append(part, file)

    def _append(self, batch: pa.RecordBatch, file: Hashable | None) -> None:
        chunks, rows, size = self._chunks, batch.num_rows, batch.nbytes
        joined = [batch]
        while file is None and chunks and chunks[-1].file is None:
            last = chunks[-1].batch.num_rows
            size += chunks[-1].bytes
            if last > 2 * rows or last + rows > self._chunk_rows or size > CHUNK_BYTES:
                break
            self._count(chunks[-1], -1)
            joined.insert(0, chunks.pop().batch)
            rows += last
        self.next += batch.num_rows
        whole = joined[0] if len(joined) == 1 else pa.concat_batches(joined)
        chunks.append(Chunk(self.next - rows, whole, file))
        self._count(chunks[-1], 1)

    def _count(self, chunk: Chunk, sign: int) -> None:
        self.bytes += sign * chunk.bytes
        self.bytes_in_memory += 0 if chunk.file is not None else sign * chunk.bytes

    def mapped(self, chunk: Chunk, batch: pa.RecordBatch, file: Hashable) -> None:
        """Replaces a chunk by the same rows mapped from a file; does nothing if the chunk is no longer held."""
        for index, held in enumerate(self._chunks):
            if held is chunk:
                latest = chunk.latest_us if time_column(self.schema) is not None else None
                self._count(chunk, -1)
                self._chunks[index] = Chunk(chunk.first, batch, file, latest)
                self._count(self._chunks[index], 1)

    def chunks(self) -> list[Chunk]:
        """All chunks, oldest first."""
        return list(self._chunks)

    @property
    def in_memory_from(self) -> int:
        """The number of the first row in memory; all before it are in files."""
        return next((chunk.first for chunk in self._chunks if chunk.file is None), self.next)

    def forget_before(self, number: int) -> None:
        """Drops the oldest chunks in memory that end at or before `number`: their rows are held elsewhere."""
        while self._chunks and self._chunks[0].file is None and self._chunks[0].next <= number:
            self._count(self._chunks[0], -1)
            self.first = self._chunks.pop(0).next

    def give_up_oldest(self, wanted_from: int | None = None) -> int:
        """Evicts the oldest chunk, unless it is the only one or has wanted rows; returns the number of rows."""
        if len(self._chunks) < 2 or (wanted_from is not None and self._chunks[0].next > wanted_from):
            return 0
        rows = self._chunks[0].batch.num_rows
        self._give_up_oldest()
        return int(rows)

    def skip_to(self, number: int) -> None:
        """Continues at `number`: numbers before it will never have rows, and all earlier rows are evicted."""
        while self._chunks:
            self._give_up_oldest()
        self.first = self.next = number

    def miss_before(self, batch: pa.RecordBatch) -> None:
        """Records that rows before `batch` are missing; some may have the same instant as its first row."""
        if time_column(self.schema) is not None and batch.num_rows:
            instant = instants(batch)[0].as_py()
            self._gave_up_until(INT64_MIN if instant is None else instant)

    def limit(self, keep_rows: int, keep_bytes: int, wanted_from: int | None = None) -> None:
        """Evicts the oldest chunks beyond the limits; the newest chunk and rows from `wanted_from` on always stay."""
        chunks = self._chunks
        while len(chunks) > 1 and (self.next - chunks[0].next >= keep_rows or self.bytes > keep_bytes):
            if wanted_from is not None and chunks[0].next > wanted_from:
                return
            self._give_up_oldest()

    def _give_up_oldest(self) -> None:
        chunk = self._chunks.pop(0)
        self.first = chunk.next
        self._count(chunk, -1)
        if time_column(self.schema) is not None:
            self._gave_up_until(chunk.latest_us)

    def _gave_up_until(self, instant_us: int) -> None:
        before = self.given_up_until_us
        self.given_up_until_us = instant_us if before is None else max(before, instant_us)

    def read(self, start: int, most: int) -> pa.Table:
        """Up to `most` rows from `start` on, which must be held or the next number; without a copy."""
        assert self.first <= start <= self.next
        parts, index = [], bisect_right(self._chunks, start, key=lambda chunk: chunk.first) - 1
        while most > 0 and 0 <= index < len(self._chunks):
            chunk = self._chunks[index]
            part = chunk.batch.slice(start - chunk.first, most)
            if part.num_rows:
                parts.append(part)
            start, most, index = start + part.num_rows, most - part.num_rows, index + 1
        return pa.Table.from_batches(parts, self.schema)

    def after(self, instant_us: int) -> int:
        """The number of the first held row with a later instant; `next` if there is none."""
        for chunk in self._chunks:
            if chunk.latest_us > instant_us:
                later = pc.greater(instants(chunk.batch), instant_us)
                return chunk.first + int(pc.index(later, True).as_py())
        return self.next


def cut(batch: pa.RecordBatch, most_rows: int) -> Iterator[pa.RecordBatch]:
    """Splits a batch into parts that fit into a chunk; they share its memory."""
    for offset in range(0, batch.num_rows, most_rows):
        yield from _halved(batch.slice(offset, most_rows))


def _halved(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.num_rows == 1 or batch.nbytes <= CHUNK_BYTES:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _halved(batch.slice(0, half))
    yield from _halved(batch.slice(half))


def time_column(schema: pa.Schema) -> str | None:
    """The name of the column with the instant of a result; None if there is none."""
    return next(
        (name for name in TIME_COLUMNS if name in schema.names and pa.types.is_timestamp(schema.field(name).type)), None
    )


def instants(batch: pa.RecordBatch) -> pa.Array:
    """The instants of rows as int64 microseconds."""
    name = time_column(batch.schema)
    assert name is not None
    return batch.column(name).cast(pa.timestamp("us", tz=batch.schema.field(name).type.tz)).cast(pa.int64())
