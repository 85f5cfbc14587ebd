"""The results of all queries on disk: one log in several files, each removed when none of its rows is held any more.

    LOCK               held by the process that has the folder open
    results-N          records from number N on, each with its length and checksum (engine/durability/durable_log.py)

    record    fields                                        body
    series    [{id, name, start, given_up_until_us}, ...]   their schemas, concatenated; the first record of each file
    begin     {id, name, start}                             its schema; ends a series of the same name
    end       id                                            -
    rows      id, first, perhaps again                      an Arrow record batch

All queries share the log, so that ten thousand of them write to one file. A file begins with the list of all series, so
the newest file alone defines them, and any older file may be removed. Rows are identified by series and number, not by
position, so they may be written again: if less than half of an old file is still held, that part is appended to the
newest file, and the old one is removed. The disk holds at most about twice what is held, plus one file.

Rows that leave the memory of the process are appended `again`, one record per chunk. The record's body is aligned in
the file, and rows are read through a mapping of the file. A mapping stays valid after its file is removed.

A record is on disk when `append` returns. A crash during `append` leaves a torn record at the end, which was never
acknowledged; it is cut off, with a DurabilityWarning, when the folder is opened.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from panewise.engine.durability.durable_log import RECORD_HEAD, LogRecord, Segment, Tail, read_segment
from panewise.errors import DurabilityError, DurabilityWarning
from panewise.state.durable_files import FileSystem
from panewise.state.forked import let_go_in_children

SEGMENT_BYTES = 64 << 20  # a file of this size is full
ALIGNED = 64  # bytes; the alignment of batches that are mapped from a file
_NAME = re.compile(r"results-(\d{12})(\.unfinished)?")


@dataclass
class SegmentPart:
    """The rows of one series in one file: numbers from `first` to `next`, perhaps with holes."""

    first: int
    next: int
    bytes: int


@dataclass(eq=False)
class SegmentFile:
    """A file and its contents, by the id of the series."""

    path: Path
    bytes: int = 0
    parts: dict[str, SegmentPart] = field(default_factory=dict)
    _mapped: pa.Buffer | None = None

    def body_at(self, start: int, size: int) -> pa.Buffer | None:
        """Bytes of the file, mapped; None if they are not aligned as Arrow needs it."""
        if start % ALIGNED or not size:
            return None
        if self._mapped is None or self._mapped.size < start + size:
            with pa.memory_map(str(self.path)) as mapped:
                self._mapped = mapped.read_buffer()
        return self._mapped.slice(start, size)

    def add(self, id: str, first: int, rows: int, size: int) -> None:
        part = self.parts.setdefault(id, SegmentPart(first, first, 0))
        part.first, part.next = min(part.first, first), max(part.next, first + rows)
        part.bytes += size


class ResultSegments:
    """Opened with `open`, read once with `records`, then appended to."""

    def __init__(self, path: Path, files: FileSystem, lock: int, segment_bytes: int) -> None:
        self.path = path
        self.segment_bytes = segment_bytes
        self.bytes_cut = 0  # the bytes of a torn end that were cut off when the folder was opened
        self.older: list[SegmentFile] = []
        self.newest: SegmentFile | None = None
        self._files = files
        self._lock = lock
        self._end: Segment | None = None
        self._next_number = 0
        self._name_on_disk = True  # whether the folder was synced after the newest file got its name
        let_go_in_children(self)

    @classmethod
    def open(cls, path: Path, files: FileSystem, segment_bytes: int = SEGMENT_BYTES) -> ResultSegments:
        """Takes the lock; DurabilityError if another process has it or the folder cannot be written."""
        try:
            files.make_folder(path)
            lock = files.lock(path / "LOCK")
        except OSError as problem:
            raise DurabilityError(f"the folder '{path}' cannot be used: {problem.strerror or problem}") from problem
        if lock is None:
            raise DurabilityError(f"the results in '{path}' are in use by another server")
        return cls(path, files, lock, segment_bytes)

    def close(self) -> None:
        """Closes the files and releases the lock."""
        self._let_go()
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    def forked(self) -> None:
        """Called in a child process after a fork: closes everything, so that only the parent appends."""
        self.close()

    # -- opening -------------------------------------------------------------------------------------------------

    def records(self) -> Iterator[tuple[SegmentFile, LogRecord]]:
        """All records in the order in which they were appended, each with its file."""
        for path in self._segment_paths():
            file = SegmentFile(path)
            for item in read_segment(path):
                if isinstance(item, LogRecord):
                    yield file, item
                else:
                    self._read_to(file, item)

    def _segment_paths(self) -> list[Path]:
        found = []
        for path in sorted(self.path.iterdir()):
            match = _NAME.fullmatch(path.name)
            if match is not None and match[2]:
                self._files.remove(path)
            elif match is not None:
                found.append(path)
        return found

    def _read_to(self, file: SegmentFile, tail: Tail) -> None:
        if tail.more_records:
            raise DurabilityError(
                f"'{file.path}' is damaged at byte {tail.valid_bytes:,} of {tail.bytes:,}: {tail.problem}, and whole "
                "records follow",
                hint="restore the file from a copy; to give up the records that follow, cut it: "
                f"truncate -s {tail.valid_bytes} '{file.path}'",
            )
        if tail.problem:
            os.close(Segment.reopen(self._files, file.path, tail).descriptor)
            self.bytes_cut += tail.bytes - tail.valid_bytes
            whose = (
                "belong to results that were not taken yet" if tail.incomplete else "may have been seen by subscribers"
            )
            warnings.warn(
                f"the end of '{file.path}' was torn and has been cut off: {tail.bytes - tail.valid_bytes:,} bytes "
                f"({tail.problem}); they {whose}",
                DurabilityWarning,
                stacklevel=2,
            )
        file.bytes = tail.valid_bytes
        self._next_number = max(self._next_number, tail.next_number)
        self.older.append(file)

    # -- appending -----------------------------------------------------------------------------------------------

    @property
    def full(self) -> bool:
        """Whether `begin_file` must be called before the next record."""
        return self._end is None or bool(self._end.broken) or self._end.size >= self.segment_bytes

    def begin_file(self, fields: dict[str, Any], body: bytes | memoryview) -> None:
        """Begins a new file with its first record; if that fails, raises DurabilityError and changes nothing."""
        number = self._next_number
        path = self.path / f"results-{number:012d}"
        unfinished = path.with_name(path.name + ".unfinished")
        fresh: Segment | None = None
        try:
            fresh = Segment.create(self._files, unfinished, number)
            fresh.append(fields, body, sync=True)
            self._files.rename(unfinished, path)
        except (OSError, DurabilityError) as problem:
            if fresh is not None:
                os.close(fresh.descriptor)
            with contextlib.suppress(OSError):
                self._files.remove(unfinished)
            raise _unwritable(path, problem) from problem
        # After the rename every process sees this file as the newest, so it must be the newest here too.
        fresh.path = path
        self._let_go()
        if self.newest is not None:
            self.older.append(self.newest)
        self._end, self.newest, self._next_number = fresh, SegmentFile(path, fresh.size), fresh.next_number
        self._name_on_disk = False

    def append(self, fields: dict[str, Any], body: bytes | memoryview = b"", sync: bool = True) -> int:
        """Appends a record, syncs it if `sync`, and returns its size; if that fails, DurabilityError and no record."""
        assert self._end is not None and self.newest is not None
        before = self._end.size
        self._bring_name_to_disk()
        self._end.append(fields, body, sync=sync)
        self._next_number = self._end.next_number
        self.newest.bytes = self._end.size
        return self._end.size - before

    def append_again(self, id: str, first: int, batch: pa.RecordBatch) -> tuple[SegmentFile, int, int]:
        """Appends rows again, aligned for mapping; returns the file, offset and size of the body. Call `sync` later."""
        assert self._end is not None and self.newest is not None
        fields = {"rows": id, "first": first, "again": ""}
        head = self._end.size + RECORD_HEAD + len(json.dumps(fields, separators=(",", ":")))
        fields["again"] = "-" * (ALIGNED + -head % ALIGNED)
        body = to_body(batch)
        size = self.append(fields, memoryview(body), sync=False)
        self.newest.add(id, first, batch.num_rows, size)
        return self.newest, self._end.size - body.size, body.size

    def _bring_name_to_disk(self) -> None:
        if not self._name_on_disk:
            try:
                self._files.sync_folder(self.path)
            except OSError as problem:
                raise _unwritable(self.path, problem) from problem
            self._name_on_disk = True

    def sync(self) -> None:
        """Syncs records that were appended with `sync=False`; raises OSError."""
        assert self._end is not None
        self._files.sync(self._end.descriptor)

    def is_small(self, file: SegmentFile) -> bool:
        """Whether to merge it into the newest file: every restart begins a new file, which may stay small."""
        return 8 * file.bytes < self.segment_bytes

    def remove(self, file: SegmentFile) -> None:
        """Removes an older file without held rows; raises OSError or DurabilityError."""
        self._bring_name_to_disk()
        self._files.remove(file.path)
        self.older.remove(file)

    def _let_go(self) -> None:
        if self._end is not None:
            os.close(self._end.descriptor)
            self._end = None


def _unwritable(path: Path, problem: OSError | DurabilityError) -> DurabilityError:
    if isinstance(problem, DurabilityError):
        return problem
    return DurabilityError(f"'{path}' cannot be written: {problem.strerror or problem}; nothing was taken")


def to_body(batch: pa.RecordBatch) -> pa.Buffer:
    """The bytes of a batch without its schema; buffers are cut to its rows."""
    return batch.serialize()


def from_body(body: pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
    """The batch of a body, without a copy."""
    return pa.ipc.read_record_batch(body, schema)
