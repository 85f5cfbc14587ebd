"""A segment of the log: a file of framed records. A record is whole or not there.

    segment   magic, version, salt, number of the first record, checksum
    record    magic, checksum | number, length, length of fields | fields (JSON) | body (bytes)
              ------ 8 ------   ------------- 20 --------------

The checksum (CRC-32, begun with the segment's salt) covers everything after it. Numbers count through all segments. A
record is valid if its checksum holds and its number is the next. `read_segment` yields the valid records. Then it says
where the first invalid byte lies, whether a valid record follows, and whether it is the beginning of an incomplete
record, as a crash during a write leaves it. Everything else is damage. `durable_note.py` says which bytes were
acknowledged.

A record costs one `writev` and, for the body, one pass of the checksum and a copy into the page cache. If a write fails
or is interrupted, the file is cut. If even that fails, the segment is broken and takes no more records.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from panewise.engine.durability.durable_note import LengthNote
from panewise.errors import DurabilityError
from panewise.state.durable_files import FileSystem, write_all

VERSION = 1
_SEGMENT_MAGIC = b"PANELOG\n"
_RECORD_MAGIC = b"\xf1PwR"
_SEGMENT = struct.Struct("<8sIIQ")
_CHECKSUM = struct.Struct("<I")
_FRAME = struct.Struct("<4sI")
_COUNTS = struct.Struct("<QQI")
SEGMENT_HEAD = _SEGMENT.size + _CHECKSUM.size
RECORD_HEAD = _FRAME.size + _COUNTS.size
_INCOMPLETE = "a record was begun and not finished"
Body = bytes | memoryview
# `json.dumps` would make an encoder for every record.
_encode = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True)
class LogRecord:
    """A record: `fields` say what happened, and the body holds batches, if there are any."""

    number: int
    fields: dict[str, Any]
    body: pa.Buffer
    body_at: int  # Where the body begins in the file.


@dataclass(frozen=True)
class Tail:
    """The end of a segment: how many bytes are valid, how many there are, and what is wrong with the others."""

    last_at: int  # Where the last valid record begins.
    valid_bytes: int
    bytes: int
    next_number: int
    problem: str = ""
    more_records: bool = False  # Valid records follow the invalid bytes.
    incomplete: bool = False  # A record was begun and not finished.


class Segment:
    """A segment to which records are appended."""

    def __init__(self, files: FileSystem, path: Path, descriptor: int, salt: int, number: int, size: int) -> None:
        self.path = path
        self.next_number = number
        self.size = size
        self.broken = ""  # Why no record can be appended any more.
        self.descriptor = descriptor
        self.salt = salt
        self.note: LengthNote | None = None  # How much was acknowledged.
        self._process = os.getpid()
        self._files = files
        self._last_size = size  # The size before the last record.

    @classmethod
    def create(cls, files: FileSystem, path: Path, number: int) -> Segment:
        """Makes a segment that begins with the record of this number. It is on the disk then, except for its name."""
        salt = int.from_bytes(os.urandom(4), "little")
        head = _SEGMENT.pack(_SEGMENT_MAGIC, VERSION, salt, number)
        descriptor = files.create(path)
        try:
            write_all(files, descriptor, [head + _CHECKSUM.pack(zlib.crc32(head))])
            files.sync(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(files, path, descriptor, salt, number, SEGMENT_HEAD)

    @classmethod
    def reopen(cls, files: FileSystem, path: Path, tail: Tail) -> Segment:
        """Opens a segment that was read; cuts off invalid bytes, and brings the rest to the disk."""
        with path.open("rb") as file:
            salt, _ = read_head(file, path)
        descriptor = files.reopen(path)
        try:
            if tail.bytes > tail.valid_bytes:
                files.cut(descriptor, tail.valid_bytes)
            files.sync(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        segment = cls(files, path, descriptor, salt, tail.next_number, tail.valid_bytes)
        segment._last_size = tail.last_at
        return segment

    @property
    def bytes_of_records(self) -> int:
        return self.size - SEGMENT_HEAD

    def append(self, fields: dict[str, Any], body: Body = b"", sync: bool = False) -> None:
        """Hands one record to the system, and brings it to the disk if `sync`. If that fails, raises DurabilityError
        and leaves no record."""
        if self._process != os.getpid():
            raise DurabilityError(
                f"the log '{self.path}' was opened by process {self._process}, and this is another one, forked from it",
                hint="only the process that opened it may write to it",
            )
        if self.broken:
            raise DurabilityError(
                f"the log '{self.path}' takes no more records: {self.broken}",
                hint="checkpoint() begins a new log with a snapshot; closing and opening the engine reads this one",
            )
        text = _encode(fields).encode()
        length = len(text) + (body.nbytes if isinstance(body, memoryview) else len(body))
        counts = _COUNTS.pack(self.next_number, length, len(text))
        checksum = zlib.crc32(body, zlib.crc32(text, zlib.crc32(counts, self.salt)))
        before = self._last_size, self.size, self.next_number
        try:
            write_all(self._files, self.descriptor, [_FRAME.pack(_RECORD_MAGIC, checksum) + counts + text, body])
            if sync:
                self._files.sync(self.descriptor)
            self._last_size, self.size, self.next_number = before[1], before[1] + RECORD_HEAD + length, before[2] + 1
            if self.note is not None:
                self.note.acknowledge(self.size, sync)
        except OSError as problem:
            self._cut(before[1])
            raise DurabilityError(
                f"'{self.path}' cannot be written: {problem.strerror or problem}; nothing was taken"
            ) from problem
        except BaseException:  # An interrupt: the record, whether whole or in part, must not stay.
            if self._noted_cut(before[1]):
                self._cut(before[1])
            self._last_size, self.size, self.next_number = before
            raise

    def noted_in(self, note: LengthNote) -> None:
        """Acknowledgements are noted there from now on."""
        self.note = note

    def stop(self, reason: str) -> None:
        """No record can be appended any more, for this reason."""
        self.broken = reason

    def close(self) -> None:
        """Closes the file; further calls do nothing."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def take_back(self) -> None:
        """Removes the last record, which was just appended or read."""
        if not self.broken and self._last_size < self.size:
            if not self._noted_cut(self._last_size):
                return  # The record stays. It fails again when it is replayed, and is removed then.
            self._cut(self._last_size)
            self.size = self._last_size
            self.next_number -= 1

    def _noted_cut(self, size: int) -> bool:
        try:
            if self.note is not None:
                self.note.take_back(size)
        except OSError as problem:
            self.broken = f"the removal of a record could not be noted: {problem.strerror or problem}"
        return not self.broken

    def _cut(self, size: int) -> None:
        try:
            self._files.cut(self.descriptor, size)
        except OSError as problem:
            self.broken = f"a partly written record could not be cut off: {problem.strerror or problem}"


def is_unfinished(path: Path) -> bool:
    """Whether a segment has no record; even its head may be incomplete."""
    if path.stat().st_size > SEGMENT_HEAD:
        return False
    begun = path.read_bytes()[: len(_SEGMENT_MAGIC)]
    # After a loss of power, a file may have its length but not its bytes.
    return _SEGMENT_MAGIC.startswith(begun) or not any(begun)


def read_head(file: IO[bytes], path: Path) -> tuple[int, int]:
    """The salt and the number of the first record; DurabilityError if the file is no segment."""
    head = file.read(SEGMENT_HEAD)
    if len(head) < SEGMENT_HEAD or not head.startswith(_SEGMENT_MAGIC):
        raise DurabilityError(f"'{path}' is not a log of panewise, or its head is damaged")
    _, version, salt, first = _SEGMENT.unpack_from(head)
    if version != VERSION:
        raise DurabilityError(f"'{path}' has version {version}; this panewise reads version {VERSION}")
    if _CHECKSUM.unpack_from(head, _SEGMENT.size)[0] != zlib.crc32(head[: _SEGMENT.size]):
        raise DurabilityError(f"the head of '{path}' is damaged")
    return salt, first


def read_segment(path: Path) -> Iterator[LogRecord | Tail]:
    """All valid records from the beginning, then a Tail."""
    size = path.stat().st_size
    with path.open("rb") as file:
        salt, number = read_head(file, path)
        last, at = SEGMENT_HEAD, SEGMENT_HEAD
        while at < size:
            record, problem = _read_record(file, salt, number, size - at)
            if record is None:
                after = _record_after(path, at, salt, number)
                yield Tail(last, at, size, number, problem, after, problem == _INCOMPLETE)
                return
            yield record
            last, at, number = at, file.tell(), number + 1
        yield Tail(last, at, size, number)


def _read_record(file: IO[bytes], salt: int, number: int, left: int) -> tuple[LogRecord | None, str]:
    head = file.read(RECORD_HEAD)
    if len(head) < RECORD_HEAD:
        return None, _INCOMPLETE
    magic, checksum = _FRAME.unpack_from(head)
    found, length, text_length = _COUNTS.unpack_from(head, _FRAME.size)
    if magic != _RECORD_MAGIC or found != number or text_length > length:
        return None, "these bytes are not a record"
    if length > left - RECORD_HEAD:
        return None, _INCOMPLETE
    text = file.read(text_length)
    # Arrow reads the body in place, and compiled loops want it aligned.
    body = pa.allocate_buffer(length - text_length)
    file.readinto(memoryview(body))  # type: ignore[attr-defined]
    if checksum != zlib.crc32(body, zlib.crc32(text, zlib.crc32(head[_FRAME.size :], salt))):
        return None, "the checksum of a record is wrong"
    return LogRecord(number, json.loads(text), body, file.tell() - body.size), ""


def _record_after(path: Path, at: int, salt: int, number: int) -> bool:
    """Whether a valid record with a greater number follows a place where there is none."""
    with path.open("rb") as file:
        file.seek(at)
        data = file.read()
    place = data.find(_RECORD_MAGIC, 1)
    while 0 <= place <= len(data) - RECORD_HEAD:
        (checksum,) = _CHECKSUM.unpack_from(data, place + 4)
        found, length, _ = _COUNTS.unpack_from(data, place + _FRAME.size)
        end = place + RECORD_HEAD + length
        plausible = found > number and end <= len(data)
        if plausible and checksum == zlib.crc32(memoryview(data)[place + _FRAME.size : end], salt):
            return True
        place = data.find(_RECORD_MAGIC, place + 1)
    return False
