"""The results of every query, numbered from 0 in the order in which they were produced, for readers that come and go.

Whoever produces results hands them over with the number of the first (`append`); that they are taken when it returns,
and on the disk where the log has a path, is what lets the producer forget them. Rows whose number is known are skipped,
so that a producer that does not know whether it was heard may say it again: every row is there once.

A query's results are a `Series` (result_series.py), held as far as `keep_rows` and `keep_bytes` allow. `begin` makes
it, with the columns that it will have, `forget` ends it. Who creates and drops queries keeps to one order, so that a
name never shows rows of another query of that name, wherever the process dies:

    CREATE QUERY q    1. the query exists    2. `begin(q, its columns)`
    DROP QUERY q      1. the query ends      2. `forget(q)`     3. only then may a query of that name be created
    start             `retain` with the queries that there are, then `begin` for each: what step 2 was still owed

As a second line of defence rows that come again are compared with those held. Where they differ they are of another
history (another query of the name, or one that a loss of power set back): that is another series, and readers are told.

Memory holds `keep_total` bytes of all queries together. What is more leaves it, the oldest rows of whichever query has
most there: where the log has a path they are mapped from its files from then on, and read when somebody asks for them;
without a path they are given up, and counted. The disk holds at most about twice what is held (result_segments.py).
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
CHUNKS_AT_ONCE = 256  # that go to the disk before a new file may begin
DROPPED = "the query was dropped"
REPLACED = "the query was created anew"
CLOSED = "the server ends"


class ResultLog:
    """Safe for threads. Without a path it lives and dies with the process.

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
        """Not `limited`, it holds everything until `limit` is called: when readers have said what they want."""
        self._keep_rows = keep_rows
        self._keep_bytes = keep_bytes
        self._memory = MemoryLimit(keep_total)
        self._limited = limited
        self._chunk_rows = max(1, min(CHUNK_ROWS, keep_rows // 8))
        self._by_name: dict[str, Series] = {}  # by the name in lower case
        self._writing = threading.Lock()  # one change at a time; readers do not need it
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
        """Of all queries that have results or may have."""
        return [series.name for series in list(self._by_name.values())]

    def series(self, query: str) -> Series:
        """The results of the query that has this name now; CatalogError where there is none. Never waits."""
        found = self._by_name.get(query.lower())
        if found is None:
            raise CatalogError(f"there is no query '{query}'", hint=did_you_mean(query, self.names()), missing=True)
        return found

    def bounds(self, query: str) -> tuple[int, int]:
        """The first number held, and the next."""
        return self.series(query).bounds()

    def read(self, query: str, start: int, most: int) -> tuple[int, pa.Table]:
        """Up to `most` rows from a number on; Gone where it is not held any more."""
        return self.series(query).read(start, most)

    def after_window(self, query: str, window_end_us: int) -> int:
        """The number of the first row of a later window (or instant); Gone where such rows are not held any more."""
        return self.series(query).after_window(window_end_us)

    def wait(self, query: str, start: int, timeout: float) -> bool:
        """Whether there is a row of that number, or an end, within so many seconds. Tasks use `Series.listen`."""
        return self.series(query).wait(start, timeout)

    @property
    def bytes_cut(self) -> int:
        """Of a torn end, when the log was opened."""
        return 0 if self._segments is None else self._segments.bytes_cut

    @property
    def bytes_in_memory(self) -> int:
        """Of rows of all queries that are not mapped from files."""
        return sum(series.bytes_in_memory for series in list(self._by_name.values()))

    @property
    def bytes_on_disk(self) -> int:
        segments = self._segments
        if segments is None:
            return 0
        return sum(file.bytes for file in [*segments.older, *([segments.newest] if segments.newest else [])])

    def stats(self) -> dict[str, int]:
        """What is held of all queries, and how many rows were given up because that was too much for the memory."""
        return {
            "bytes": sum(series.bytes for series in list(self._by_name.values())),
            "bytes_in_memory": self.bytes_in_memory,
            "bytes_on_disk": self.bytes_on_disk,
            "rows_given_up": self._memory.rows_given_up,
        }

    # -- changing ------------------------------------------------------------------------------------------------

    def begin(self, query: str, schema: pa.Schema, *, id: str | None = None) -> Series:
        """The series of a query with these columns, made where there is none; in place of one with other columns.

        Where the query has been running without this log its numbers are taken from the first rows that come. `id` is
        that of the series where its rows are kept elsewhere, and have the same numbers in every process.
        """
        with self._writing:
            return self._begin(query, plain_schema(schema), 0, id)

    def append(self, query: str, table: pa.Table, first: int) -> None:
        """Takes rows, the first of which has this number; on the disk when it returns, where there is one."""
        self.append_all([(query, table, first)])

    def append_all(self, parts: Iterable[tuple[str, pa.Table, int]]) -> None:
        """The same for several queries, each named once; the disk is waited for once, and readers see all or none."""
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
        """From now on the limits hold, but for what series are `wanted_from`."""
        with self._writing:
            self._limited = True
            self._limit_memory()

    def forget(self, query: str) -> None:
        """Ends the series: readers get what they have not read yet and then Ended. Nothing where there is none."""
        with self._writing:
            self._check_open()
            series = self._by_name.get(query.lower())
            if series is not None:
                self._write({"end": series.id})
                del self._by_name[query.lower()]
                series.end(DROPPED)

    def retain(self, queries: Iterable[str]) -> None:
        """Forgets all others; for a start, when the queries are known that there are."""
        there = {query.lower() for query in queries}
        for name in self.names():
            if name.lower() not in there:
                self.forget(name)

    def close(self) -> None:
        """Ends all readers; what was taken stays on the disk."""
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
        """Whether rows that came again are not those that are held; what is not held any more is believed."""
        held_from = max(series.bounds()[0], first)
        if held_from >= known:
            return False
        _, held = series.read(held_from, known - held_from)
        # As JSON, because not a number equals itself there.
        return json_rows(held) != json_rows(rows.slice(held_from - first, known - held_from))

    def _new(self, query: str, table: pa.Table, first: int) -> list[tuple[Series, int, pa.Buffer]]:
        """What of these rows is not known yet, as bodies of records with their series and first numbers.

        A body is read back later: the batch of a producer may be a small part of large buffers. Each is one chunk, so
        that its memory goes with it.
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
        """Where it fails, some may be in the file; they were not taken, and come again under the same numbers."""
        if self._segments is None or not pieces:
            return
        if self._segments.full:
            self._begin_file(self._segments)  # before and not between them: a file that is left is not synced again
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
        # What cannot be tidied now is tidied when the next file begins.
        with suppress(OSError, DurabilityError):
            self._tidy(segments)

    def _tidy(self, segments: ResultSegments) -> None:
        """Removes files of which nothing is held, and those of which little is, when that has been written again."""
        by_id = {series.id: series for series in self._by_name.values()}
        in_memory_from = {id: series.in_memory_from for id, series in by_id.items()}
        mapped: dict[Hashable, list[tuple[Series, Chunk]]] = {}
        for id, series in by_id.items():
            for chunk in series.chunks():
                if chunk.file is not None and chunk.first < in_memory_from[id]:
                    mapped.setdefault(chunk.file, []).append((series, chunk))
        moved, chunks = [], []
        for file in list(segments.older):
            # Of rows in memory the files have the only lasting copy; rows before them are where they are mapped from.
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
        """Writes chunks to the newest file, from where they are read from now on; brings that file to the disk."""
        places = [segments.append_again(series.id, chunk.first, chunk.batch) for series, chunk in chunks]
        segments.sync()
        for (series, chunk), (file, start, size) in zip(chunks, places, strict=True):
            body = file.body_at(start, size)
            assert body is not None, "it was written to be mapped"
            series.mapped(chunk, from_body(body, series.schema), file)

    def _limit_memory(self) -> None:
        """Rows leave the memory where all queries together have more there than they may."""
        all_series = self._by_name.values()
        excess = self._memory.excess(all_series)
        if excess <= 0:
            return
        if self._segments is None:
            if self._limited:
                self._memory.give_up(all_series, excess)
            return
        # Some more than needed, so that the disk is not waited for each time. What it does not take stays in memory.
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
    """Names and types only: results of one query may come with other metadata, or dictionaries, from time to time."""
    return pa.schema(
        [
            pa.field(column.name, column.type.value_type if pa.types.is_dictionary(column.type) else column.type)
            for column in schema
        ]
    )
