"""The results of all queries, numbered from 0 in the order in which they were produced, for any number of readers.

A producer passes results with the number of the first row (`append`). When `append` returns, the rows are stored, on
disk if the log has a path, and the producer may forget them. Rows whose numbers are known are skipped, so a producer
may repeat an append if it does not know its outcome: every row is stored once.

The results of a query are a `Series` (result_series.py), which keeps rows within `keep_rows` and `keep_bytes`. `begin`
creates it with its columns, `forget` ends it. Callers that create and drop queries follow this order, so that a name
never shows rows of an earlier query of that name, wherever the process dies:

    CREATE QUERY q    1. the query exists    2. `begin(q, its columns)`
    DROP QUERY q      1. the query ends      2. `forget(q)`     3. only then may a query of that name be created
    start             `retain` with the existing queries, then `begin` for each: completes an interrupted step 2

As a second safeguard, rows that come again are compared with the held ones. If they differ, they belong to another
history (another query of that name, or one set back by a loss of power): a new series begins, and readers are told.

All queries together hold `keep_total` bytes in memory. Beyond that, the oldest rows of the query with the most bytes
leave the memory: if the log has a path, they are mapped from its files; without a path they are lost, and counted. The
disk holds at most about twice what is held (result_segments.py).
"""

from __future__ import annotations

import sys
import threading
import uuid
from collections.abc import Hashable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from panewise.errors import CatalogError, DurabilityError, did_you_mean
from panewise.serve.http.results.memory_limit import MemoryLimit
from panewise.serve.http.results.numbered_rows import CHUNK_ROWS, Chunk, NumberedRows, cut
from panewise.serve.http.results.result_loading import Loading
from panewise.serve.http.results.result_segments import SEGMENT_BYTES, ResultSegments, SegmentPart, from_body, to_body
from panewise.serve.http.results.result_series import Ended, Gone, Series
from panewise.serve.http.results.row_json import json_rows
from panewise.state.durable_files import FileSystem, PrivateFiles

__all__ = ["Ended", "Gone", "ResultLog", "Series"]

KEEP_TOTAL = 512 << 20
CHUNKS_AT_ONCE = 256  # chunks written before a new file may begin
DROPPED = "the query was dropped"
REPLACED = "the query was created anew"
CLOSED = "the server ends"


class ResultLog:
    """Safe for threads. Without a path, results are lost with the process.

    >>> log = ResultLog(None, keep_rows=1_000, keep_bytes=1 << 20)
    >>> log.append("turnover", pa.table({"total": [3, 11]}), first=0)
    >>> log.append("turnover", pa.table({"total": [11, 14]}), first=1)
    >>> log.bounds("turnover"), log.read("turnover", 1, most=10)[1]["total"].to_pylist()
    ((0, 3), [11, 14])
    """

    def __init__(
        self,
        path: Path | None,
        *,
        keep_rows: int,
        keep_bytes: int,
        keep_total: int = KEEP_TOTAL,
        files: FileSystem | None = None,
        segment_bytes: int = SEGMENT_BYTES,
        limited: bool = True,
    ) -> None:
        """With `limited=False` all rows are kept until `limit` is called: readers can set `wanted_from` first."""
        self._keep_rows = keep_rows
        self._keep_bytes = keep_bytes
        self._memory = MemoryLimit(keep_total)
        self._limited = limited
        self._chunk_rows = max(1, min(CHUNK_ROWS, keep_rows // 8))
        self._by_name: dict[str, Series] = {}  # key: the query's name in lower case
        self._writing = threading.Lock()  # serializes changes; readers do not take it
        self._closed = False
        self._segments: ResultSegments | None = None
        if path is not None:
            self._segments = ResultSegments.open(path, files or PrivateFiles(), segment_bytes)
            try:
                self._load(self._segments)
            except BaseException:
                self._segments.close()
                raise

    # -- reading -------------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """The names of all queries that have a series."""
        return [series.name for series in list(self._by_name.values())]

    def series(self, query: str) -> Series:
        """The series of the query that has this name now; CatalogError if there is none. Never waits."""
        found = self._by_name.get(query.lower())
        if found is None:
            raise CatalogError(f"there is no query '{query}'", hint=did_you_mean(query, self.names()), missing=True)
        return found

    def bounds(self, query: str) -> tuple[int, int]:
        """The number of the first row held, and of the next row to come."""
        return self.series(query).bounds()

    def read(self, query: str, start: int, most: int) -> tuple[int, pa.Table]:
        """Up to `most` rows from number `start` on; raises Gone if it is no longer held."""
        return self.series(query).read(start, most)

    def after_window(self, query: str, window_end_us: int) -> int:
        """The number of the first row of a later window (or instant); raises Gone if such rows are no longer held."""
        return self.series(query).after_window(window_end_us)

    def wait(self, query: str, start: int, timeout: float) -> bool:
        """Waits up to `timeout` seconds for row `start` or the end; returns whether it came. For threads, not tasks."""
        return self.series(query).wait(start, timeout)

    @property
    def bytes_cut(self) -> int:
        """The bytes of a torn end that were cut off when the log was opened."""
        return 0 if self._segments is None else self._segments.bytes_cut

    @property
    def bytes_in_memory(self) -> int:
        """The bytes of all queries' rows that are not mapped from files."""
        return sum(series.bytes_in_memory for series in list(self._by_name.values()))

    @property
    def bytes_on_disk(self) -> int:
        segments = self._segments
        if segments is None:
            return 0
        return sum(file.bytes for file in [*segments.older, *([segments.newest] if segments.newest else [])])

    def stats(self) -> dict[str, int]:
        """Bytes held, in memory and on disk, and the number of rows that were lost to the memory limit."""
        return {
            "bytes": sum(series.bytes for series in list(self._by_name.values())),
            "bytes_in_memory": self.bytes_in_memory,
            "bytes_on_disk": self.bytes_on_disk,
            "rows_given_up": self._memory.rows_given_up,
        }

    # -- changing ------------------------------------------------------------------------------------------------

    def begin(self, query: str, schema: pa.Schema, *, id: str | None = None) -> Series:
        """The series of a query with these columns; creates it if there is none, or replaces one with other columns.

        If the query has already produced rows, its numbers begin with those of the first rows that come. Pass `id` if
        the rows are stored elsewhere and have the same numbers in every process.
        """
        with self._writing:
            return self._begin(query, plain_schema(schema), 0, id)

    def append(self, query: str, table: pa.Table, first: int) -> None:
        """Stores rows, of which the first has number `first`; they are on disk when it returns, if there is a path."""
        self.append_all([(query, table, first)])

    def append_all(self, parts: Iterable[tuple[str, pa.Table, int]]) -> None:
        """Stores rows of several queries, each named once, with one sync; readers see all of them or none."""
        with self._writing:
            self._check_open()
            taken = [piece for query, table, first in parts for piece in self._new(query, table, first)]
            self._write_rows(taken)
            for series, first, body in taken:
                series.take(from_body(body, series.schema), first, *self._limits)
            self._limit_memory()

    @property
    def _limits(self) -> tuple[int, int]:
        return (self._keep_rows, self._keep_bytes) if self._limited else (sys.maxsize, sys.maxsize)

    def limit(self) -> None:
        """Applies the limits from now on, except to rows from a series' `wanted_from` on."""
        with self._writing:
            self._limited = True
            self._limit_memory()

    def forget(self, query: str) -> None:
        """Ends the series: readers get their remaining rows, then Ended. Does nothing if there is no series."""
        with self._writing:
            self._check_open()
            series = self._by_name.get(query.lower())
            if series is not None:
                self._write({"end": series.id})
                del self._by_name[query.lower()]
                series.end(DROPPED)

    def retain(self, queries: Iterable[str]) -> None:
        """Forgets the series of all other queries; call at a start, when the existing queries are known."""
        there = {query.lower() for query in queries}
        for name in self.names():
            if name.lower() not in there:
                self.forget(name)

    def close(self) -> None:
        """Ends all readers; stored rows stay on disk."""
        with self._writing:
            if self._closed:
                return
            self._closed = True
            for series in self._by_name.values():
                series.end(CLOSED)
            if self._segments is not None:
                self._segments.close()

    # -- inside `_writing` ---------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise DurabilityError("the results are closed")

    def _begin(self, query: str, schema: pa.Schema, start: int, id: str | None = None) -> Series:
        self._check_open()
        series = self._by_name.get(query.lower())
        return series if series is not None and series.schema == schema else self._make(query, schema, start, id)

    def _make(self, query: str, schema: pa.Schema, start: int, id: str | None = None) -> Series:
        series = Series(query, id or uuid.uuid4().hex, NumberedRows(schema, start, self._chunk_rows), start)
        self._write({"begin": _described(series)}, memoryview(schema.serialize()))
        before = self._by_name.get(query.lower())
        self._by_name[query.lower()] = series
        if before is not None:
            before.end(REPLACED)
        return series

    def _differs(self, series: Series, rows: pa.Table, first: int, known: int) -> bool:
        """Whether rows that came again differ from the held ones; rows that are no longer held are not compared."""
        held_from = max(series.bounds()[0], first)
        if held_from >= known:
            return False
        _, held = series.read(held_from, known - held_from)
        # Compare as JSON, in which NaN equals itself.
        return json_rows(held) != json_rows(rows.slice(held_from - first, known - held_from))

    def _new(self, query: str, table: pa.Table, first: int) -> list[tuple[Series, int, pa.Buffer]]:
        """The rows that are not known yet, as bodies of records with their series and first numbers.

        Batches are decoded from these bodies later, because a producer's batch may be a small part of large buffers.
        Each body is one chunk, so that evicting the chunk frees its memory.
        """
        schema = plain_schema(table.schema)
        series = self._begin(query, schema, first)
        rows = table.cast(schema)
        known = min(series.next, first + rows.num_rows)
        if known > first and self._differs(series, rows, first, known):
            series = self._make(query, schema, first)
        new = max(0, series.next - first)
        pieces = []
        for batch in rows.slice(new).combine_chunks().to_batches():
            for part in cut(batch, CHUNK_ROWS):
                pieces.append((series, first + new, to_body(part)))
                new += part.num_rows
        return pieces

    def _write_rows(self, pieces: list[tuple[Series, int, pa.Buffer]]) -> None:
        """Writes rows and syncs once. After a failure some may be in the file; they come again, numbered alike."""
        if self._segments is None or not pieces:
            return
        if self._segments.full:
            self._begin_file(self._segments)  # never between the pieces: an older file is not synced again
        assert self._segments.newest is not None
        sizes = [
            self._segments.append({"rows": series.id, "first": first}, memoryview(body), sync=number == len(pieces))
            for number, (series, first, body) in enumerate(pieces, 1)
        ]
        for (series, first, body), size in zip(pieces, sizes, strict=True):
            self._segments.newest.add(series.id, first, from_body(body, series.schema).num_rows, size)

    def _write(self, fields: dict[str, Any], body: bytes | memoryview = b"") -> int:
        if self._segments is None:
            return 0
        if self._segments.full:
            self._begin_file(self._segments)
        return self._segments.append(fields, body)

    def _begin_file(self, segments: ResultSegments) -> None:
        all_series = list(self._by_name.values())
        schemas = [series.schema.serialize() for series in all_series]
        described = [
            _described(series) | {"bytes": schema.size} for series, schema in zip(all_series, schemas, strict=True)
        ]
        segments.begin_file({"series": described}, b"".join(memoryview(schema) for schema in schemas))
        # If this fails, it is tried again when the next file begins.
        with suppress(OSError, DurabilityError):
            self._tidy(segments)

    def _tidy(self, segments: ResultSegments) -> None:
        """Removes files without held rows; removes files with few of them after writing those to the newest file."""
        by_id = {series.id: series for series in self._by_name.values()}
        in_memory_from = {id: series.in_memory_from for id, series in by_id.items()}
        mapped: dict[Hashable, list[tuple[Series, Chunk]]] = {}
        for id, series in by_id.items():
            for chunk in series.chunks():
                if chunk.file is not None and chunk.first < in_memory_from[id]:
                    mapped.setdefault(chunk.file, []).append((series, chunk))
        moved, chunks = [], []
        for file in list(segments.older):
            # A file is needed for rows in memory, as their durable copy, and for the chunks that are mapped from it.
            held = {
                by_id[id]: part for id, part in file.parts.items() if id in by_id and part.next > in_memory_from[id]
            }
            of_file = mapped.get(file, [])
            size = sum(part.bytes for part in held.values()) + sum(chunk.bytes for _, chunk in of_file)
            if not held and not of_file:
                segments.remove(file)
            elif segments.is_small(file) or 2 * size < file.bytes:
                for series, part in held.items():
                    self._write_again(segments, series, part, in_memory_from[series.id])
                chunks += of_file
                moved.append(file)
        if moved:
            self._map_again(segments, chunks)
        for file in moved:
            segments.remove(file)

    def _write_again(self, segments: ResultSegments, series: Series, part: SegmentPart, in_memory_from: int) -> None:
        assert segments.newest is not None
        first = max(part.first, in_memory_from, series.bounds()[0])
        for batch in series.read(first, part.next - first)[1].to_batches():
            size = segments.append({"rows": series.id, "first": first}, memoryview(to_body(batch)), sync=False)
            segments.newest.add(series.id, first, batch.num_rows, size)
            first += batch.num_rows

    def _map_again(self, segments: ResultSegments, chunks: list[tuple[Series, Chunk]]) -> None:
        """Writes chunks to the newest file, syncs it, and maps them from there."""
        places = [segments.append_again(series.id, chunk.first, chunk.batch) for series, chunk in chunks]
        segments.sync()
        for (series, chunk), (file, start, size) in zip(chunks, places, strict=True):
            body = file.body_at(start, size)
            assert body is not None, "append_again aligns bodies so that they can be mapped"
            series.mapped(chunk, from_body(body, series.schema), file)

    def _limit_memory(self) -> None:
        """Moves rows to files, or evicts them without a path, if all queries together exceed the memory limit."""
        all_series = self._by_name.values()
        excess = self._memory.excess(all_series)
        if excess <= 0:
            return
        if self._segments is None:
            if self._limited:
                self._memory.give_up(all_series, excess)
            return
        # Move more than needed, so that not every append syncs. If the disk fails, rows stay in memory.
        with suppress(OSError, DurabilityError):
            leaving = self._memory.oldest(all_series, excess + self._memory.bytes_most // 4)
            for start in range(0, len(leaving), CHUNKS_AT_ONCE):
                if self._segments.full:
                    self._begin_file(self._segments)
                self._map_again(self._segments, leaving[start : start + CHUNKS_AT_ONCE])

    # -- opening -------------------------------------------------------------------------------------------------

    def _load(self, segments: ResultSegments) -> None:
        loading = Loading(self._chunk_rows)
        for file, record in segments.records():
            loading.read(file, record)
        for described in loading.series.values():
            rows = loading.merged(described)
            rows.limit(*self._limits)
            self._by_name[described["name"].lower()] = Series(
                described["name"], described["id"], rows, described["start"]
            )
        self._limit_memory()


def _described(series: Series) -> dict[str, Any]:
    return {
        "id": series.id,
        "name": series.name,
        "start": series.start,
        "given_up_until_us": series.given_up_until_us,
    }


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema without metadata and dictionaries, which may vary between results of one query."""
    return pa.schema(
        [
            pa.field(column.name, column.type.value_type if pa.types.is_dictionary(column.type) else column.type)
            for column in schema
        ]
    )
