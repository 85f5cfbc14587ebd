"""The folder of a durable engine: snapshots, the log after each of them, and a lock.

    LOCK          held by the one process that has the folder open; how much of the log was acknowledged
    snapshot-N    the engine's state at the beginning of log-N, and which log that is; there is no snapshot-0
    log-N         the records after it
    GIVE-UP       made by the user: go on without lost records

The state is the newest whole snapshot and the logs from its number on, each of which continues the one before. A new
snapshot is written beside the old files, and gets its name last:

    1. the log in use is brought to the disk; log-N+1 is made without records, and brought to the disk with its name
    2. snapshot-N+1.unfinished is written and brought to the disk
    3. it is renamed to snapshot-N+1      <- before this a restart begins with N, after it with N+1
    4. the folder is brought to the disk; older files are removed

So after a crash between any two operations, the folder reads as one of the two states, with every acknowledged record.
The last logs may have no record after such a crash; they are removed.

If a log is missing, emptied, shortened, damaged or exchanged, acknowledged records are lost. Then the folder is not
opened, unless there is a file GIVE-UP: everything after the last good record is set aside, in a file with the name of
its log and `.given-up`, and the engine goes on from there, with a snapshot. Then GIVE-UP is removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import re
import struct
import threading
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path

from panewise.engine.durability.durable_log import LogRecord, Segment, Tail, is_unfinished, read_head, read_segment
from panewise.engine.durability.durable_note import LengthNote, Noted
from panewise.errors import DurabilityError, DurabilityWarning, SnapshotError
from panewise.state.durable_files import FileSystem, write_all
from panewise.state.snapshot_format import loaded

GIVE_UP = "GIVE-UP"
ENGINE = "engine"  # The engine's folder in the data folder of a server or of a run with --path.
_LINK_MAGIC = b"PANELINK"
_LINK = struct.Struct("<8sIQ")
_CHECKSUM = struct.Struct("<I")
_NAME = re.compile(r"(snapshot|log)-(\d{8})(\.unfinished)?")


def folder_of(path: str | os.PathLike[str]) -> Path:
    """The path of a folder; DurabilityError for other values, and for an empty text, which would be the working
    folder."""
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else ""
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise DurabilityError(
            f"an engine's folder is a path, not {path!r}", hint="leave it out for an engine in memory"
        )
    return Path(text)


def holds_engine(path: Path) -> bool:
    """Whether an engine has written there; False if the folder cannot be read, which is reported when it is opened."""
    try:
        return any(_NAME.fullmatch(file.name) for file in path.iterdir())
    except OSError:
        return False


def check_not_around(path: Path) -> None:
    """DurabilityError for the data folder of a server or of a run, whose engine has a folder of its own inside."""
    inner = path / ENGINE
    if holds_engine(inner) and not holds_engine(path):
        raise DurabilityError(
            f"there is no engine in '{path}', but there is one in '{inner}'",
            hint=f"to open that: Engine('{inner}'), or panewise serve --path {path}",
        )


class DurableFolder:
    """A folder in use. Call `open`, then `newest_snapshot`, then read all `records`; then records are appended to
    `end`."""

    def __init__(self, path: Path, files: FileSystem, lock: int) -> None:
        self.path = path
        self.end: Segment
        self.number = 0  # The number of the log in use.
        self.bytes_cut = 0  # Bytes of a torn end that were cut off when the folder was opened.
        self.earlier_bytes = 0  # Bytes of the logs since the snapshot, without the one in use.
        self.switching = threading.Lock()  # Held while another log becomes `end`.
        self.note = LengthNote(files, lock)
        self.process = os.getpid()  # The process that opened it.
        self._files = files
        self._lock = lock
        self._snapshot: Path | None = None
        self._link: tuple[int, int] | None = None  # The salt of the log after the snapshot, and its first record.
        self.given_up = False  # Whether records were given up, and a snapshot has to be written.

    @classmethod
    def open(cls, path: Path, files: FileSystem) -> DurableFolder:
        """Takes the lock; DurabilityError if another engine has it or the folder cannot be written."""
        try:
            files.make_folder(path)
            lock = files.lock(path / "LOCK")
        except OSError as problem:
            raise DurabilityError(f"the folder '{path}' cannot be used: {problem.strerror or problem}") from problem
        if lock is None:
            raise DurabilityError(
                f"the folder '{path}' is open in another engine, of this process or another one",
                hint="a folder has one engine at a time; close() ends its use",
            )
        try:
            return cls(path, files, lock)
        except BaseException:
            os.close(lock)
            raise

    def release(self) -> None:
        """Releases the files and the lock. Further calls do nothing, or finish a call that was interrupted."""
        # A child that was just forked shares the open file, and so the lock, until it closes the file.
        if self._lock >= 0:
            fcntl.flock(self._lock, fcntl.LOCK_UN)
        self.close_files()

    def close_files(self) -> None:
        """Closes the files of this process. In a forked child, the parent keeps the lock."""
        if hasattr(self, "end"):
            self.end.close()
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    # -- opening -------------------------------------------------------------------------------------------------

    def newest_snapshot(self) -> bytes | None:
        """The newest whole snapshot, whose number becomes `number`; None if there is no snapshot. DurabilityError if
        none of them is whole."""
        unread: list[str] = []
        for number in sorted(self._numbers("snapshot"), reverse=True):
            path = self._path("snapshot", number)
            data, link = _without_link(path.read_bytes())
            try:
                loaded(data)
            except SnapshotError as problem:
                unread.append(f"'{path}' cannot be read: {problem.message}")
                continue
            self.number, self._snapshot, self._link = number, path, link
            if unread:
                warnings.warn(f"{unread[0]}; '{path}' is used", DurabilityWarning, stacklevel=5)
            return data
        if unread:
            raise DurabilityError(
                unread[0],
                hint=f"restore the file from a copy; the log cannot be read without it, so {GIVE_UP} does not help",
            )
        return None

    def records(self) -> Iterator[LogRecord]:
        """All records since the snapshot. After the last one, records can be appended to the log."""
        base, noted = self.number, self.note.read()
        numbers = self._segments(base, noted)
        expected = self._link[1] if self._link is not None else None
        tail: Tail | None = None
        for number in numbers:
            wrong = self._wrong_beginning(number, expected, noted)
            if wrong:
                self._lose(number, f"{wrong}: acknowledged calls {self._since} that were recorded there are lost")
                break
            if tail is not None:
                self.earlier_bytes += tail.bytes
            for item in read_segment(self._path("log", number)):
                if isinstance(item, LogRecord):
                    yield item
                else:
                    tail = item
            assert tail is not None
            self.number, expected = number, tail.next_number
            wrong = self._wrong_end(number, tail, number == numbers[-1], noted)
            if wrong:
                self._lose(number, wrong, tail)
                break
        self._continue(tail, expected or 0)
        self._remove_older(base)

    def _segments(self, base: int, noted: Noted | None) -> list[int]:
        """The numbers of the logs that must exist from a snapshot on. Logs that a crash has left are removed."""
        found = sorted(number for number in self._numbers("log") if number >= base)
        in_use = -1 if noted is None else noted.number
        while found and found[-1] > max(base, in_use) and is_unfinished(self._path("log", found[-1])):
            self._files.remove(self._path("log", found.pop()))
        if self._snapshot is None and in_use < 0 and found == [0] and _unfinished_head(self._path("log", 0)):
            self._files.remove(self._path("log", found.pop()))
        last = max([in_use, *found, base if self._snapshot is not None else -1])
        return list(range(base, last + 1))

    def _wrong_beginning(self, number: int, expected: int | None, noted: Noted | None) -> str:
        """What is wrong with a log as a whole; empty if it is the one that continues here."""
        path = self._path("log", number)
        if not path.exists():
            if self._snapshot is None and noted is not None and noted.number > number:
                return f"'{self._path('snapshot', noted.number)}' is missing, which the log continues"
            return f"'{path}' is missing"
        if not path.stat().st_size:
            return f"'{path}' is empty"
        try:
            with path.open("rb") as file:
                salt, first = read_head(file, path)
        except DurabilityError as problem:
            return problem.message
        if self._link is not None and self._snapshot == self._path("snapshot", number) and salt != self._link[0]:
            return f"'{path}' is not the log that continues '{self._snapshot.name}', but another one"
        if noted is not None and noted.number == number and salt != noted.salt:
            return f"'{path}' is not the log that was written last in this folder, but another one"
        if expected is not None and first != expected:
            return f"'{path}' begins with record {first}, and {expected} should come next"
        return ""

    def _wrong_end(self, number: int, tail: Tail, last: bool, noted: Noted | None) -> str:
        """Which acknowledged records are lost; empty if none are, and invalid bytes at the end may be cut off."""
        path = self._path("log", number)
        place = f"'{path}' is damaged at byte {tail.valid_bytes:,} of {tail.bytes:,}: {tail.problem}"
        known = noted if noted is not None and noted.number == number else None
        if tail.problem and (tail.more_records or not last):
            return f"{place}, and whole records follow"
        if known is not None and tail.valid_bytes < known.promised:
            lost = f"{known.promised - tail.valid_bytes:,} bytes of records that were acknowledged are lost"
            short = f"'{path}' has {tail.bytes:,} bytes, and had {known.promised:,}"
            return f"{place}; {lost}" if tail.problem else f"{short}: {lost}"
        exact = known is not None and known.exact
        if tail.problem and not (tail.incomplete or exact) and (known is None or known.always):
            return f"{place}. It is complete, so the call that wrote it may have been acknowledged"
        if tail.problem or (known is not None and tail.valid_bytes < known.acknowledged):
            self._warn_of_cut(number, tail, known)
        return ""

    def _warn_of_cut(self, number: int, tail: Tail, known: Noted | None) -> None:
        self.bytes_cut = tail.bytes - tail.valid_bytes
        if known is not None and known.exact:
            whose = "they belong to a call that never returned"
        elif known is not None and known.acknowledged > tail.valid_bytes:
            whose = (
                f"the machine has stopped since, and {known.acknowledged - tail.valid_bytes:,} acknowledged bytes had "
                "not been brought to the disk"
            )
        else:
            whose = "a write that was interrupted leaves such an end; whether its call returned is not known"
        warnings.warn(
            f"the end of '{self._path('log', number)}' was torn and has been cut off: {self.bytes_cut:,} bytes from "
            f"byte {tail.valid_bytes:,} on ({tail.problem or 'the rest is missing'}); {whose}",
            DurabilityWarning,
            stacklevel=7,
        )

    @property
    def _since(self) -> str:
        return "from the beginning on" if self._snapshot is None else f"after '{self._snapshot.name}'"

    def _lose(self, number: int, what: str, tail: Tail | None = None) -> None:
        """Raises DurabilityError, or, if the user gives records up, sets aside all that follows the last good one."""
        give_up = self.path / GIVE_UP
        if not give_up.exists():
            raise DurabilityError(
                what, hint=f"restore the file from a copy; to go on without what was lost: touch '{give_up}'"
            )
        for later in [n for n in self._numbers("log") if n >= number + (tail is not None)]:
            self._files.rename(self._path("log", later), self._aside(later))
        if tail is not None and tail.bytes > tail.valid_bytes:
            self._write(self._aside(number), [self._path("log", number).read_bytes()[tail.valid_bytes :]])
        self._files.sync_folder(self.path)
        self.given_up = True
        warnings.warn(f"given up: {what}", DurabilityWarning, stacklevel=6)

    def forget_give_up(self) -> None:
        """Removes a GIVE-UP that was not needed, so that it does not give up records that are lost later."""
        give_up = self.path / GIVE_UP
        if not self.given_up and give_up.exists():
            self._files.remove(give_up)
            warnings.warn(f"nothing was lost, and '{give_up}' has been removed", DurabilityWarning, stacklevel=4)

    def _aside(self, number: int) -> Path:
        """A free name for the bytes of a log that are set aside."""
        names = (f"log-{number:08d}.given-up{count or ''}" for count in itertools.count())
        return next(path for path in (self.path / name for name in names) if not path.exists())

    def _continue(self, tail: Tail | None, next_number: int) -> None:
        path = self._path("log", self.number)
        if tail is None:
            self.end = Segment.create(self._files, path, next_number)
            self._files.sync_folder(self.path)
        else:
            self.end = Segment.reopen(self._files, path, tail)
        self.end.noted_in(self.note)
        self.note.begin(self.number, self.end.salt, self.end.size)

    # -- a new snapshot ------------------------------------------------------------------------------------------

    def begin_anew(self, snapshot: bytes) -> None:
        """Replaces all earlier files by a snapshot. If it cannot be written, raises DurabilityError and changes
        nothing."""
        old, number = self.end, self.number + 1
        files, path = self._files, self._path("snapshot", number)
        unfinished = path.with_name(path.name + ".unfinished")
        fresh: Segment | None = None
        try:
            if not old.broken:
                files.sync(old.descriptor)
            fresh = Segment.create(files, self._path("log", number), old.next_number)
            files.sync_folder(self.path)
            self._write(unfinished, [snapshot, _link(fresh)])
            files.rename(unfinished, path)
        except OSError as problem:
            if fresh is not None:
                fresh.close()
            for leftover in (self._path("log", number), unfinished):
                with contextlib.suppress(OSError):
                    files.remove(leftover)
            raise DurabilityError(f"'{path}' cannot be written: {problem.strerror or problem}") from problem
        with self.switching:
            self.end, self.number, self.earlier_bytes = fresh, number, 0
            fresh.noted_in(self.note)
            self.note.begin(number, fresh.salt, fresh.size)
            old.close()
        try:
            files.sync_folder(self.path)
            self._remove_older(number)
            if self.given_up:
                files.remove(self.path / GIVE_UP)
                self.given_up = False
        except OSError as problem:
            raise DurabilityError(
                f"files older than '{path}' were not removed: {problem.strerror or problem}", hint="they do no harm"
            ) from problem

    def _write(self, path: Path, parts: list[bytes]) -> None:
        descriptor = self._files.create(path)
        try:
            write_all(self._files, descriptor, parts)
            self._files.sync(descriptor)
        finally:
            os.close(descriptor)

    def _remove_older(self, number: int) -> None:
        for file in sorted(self.path.iterdir()):
            match = _NAME.fullmatch(file.name)
            if match is not None and (int(match[2]) < number or (match[3] and int(match[2]) <= number + 1)):
                self._files.remove(file)

    def _numbers(self, kind: str) -> list[int]:
        matches = [_NAME.fullmatch(file.name) for file in self.path.iterdir()]
        return [int(match[2]) for match in matches if match is not None and match[1] == kind and not match[3]]

    def _path(self, kind: str, number: int) -> Path:
        return self.path / f"{kind}-{number:08d}"


def _unfinished_head(path: Path) -> bool:
    """Whether even the head of a log is incomplete."""
    if not is_unfinished(path):
        return False
    try:
        with path.open("rb") as file:
            read_head(file, path)
    except DurabilityError:
        return True
    return False


def _link(log: Segment) -> bytes:
    """The last bytes of a snapshot: which log continues it, and with which record."""
    fields = _LINK.pack(_LINK_MAGIC, log.salt, log.next_number)
    return fields + _CHECKSUM.pack(zlib.crc32(fields))


def _without_link(data: bytes) -> tuple[bytes, tuple[int, int] | None]:
    """The snapshot itself, and the salt and the first record of its log, if it names one."""
    at = len(data) - _LINK.size - _CHECKSUM.size
    fields = data[at : -_CHECKSUM.size] if at > 0 else b""
    if not fields.startswith(_LINK_MAGIC) or data[-_CHECKSUM.size :] != _CHECKSUM.pack(zlib.crc32(fields)):
        return data, None  # Snapshots of an earlier panewise name no log.
    _, salt, first = _LINK.unpack(fields)
    return data[:at], (salt, first)
