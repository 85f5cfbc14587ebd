"""The folder of a durable engine: snapshots, the log after each of them, and a lock.

    LOCK          held by the one process that has the folder open
    snapshot-N    the engine's state at the beginning of log-N; there is none before the first
    log-N         what came after it, in records

The newest whole snapshot and the logs from its number on are the state: each log continues the one before. A new
snapshot is written beside what there is and gets its name last:

    1. the log in use is brought to the disk, log-N+1 is made, empty
    2. snapshot-N+1.unfinished is written and brought to the disk
    3. it becomes snapshot-N+1            <- before this a restart begins with N, after it with N+1
    4. the folder is brought to the disk; what is older than N+1 is removed

So a crash between any two operations leaves a folder that reads as one of the two, with every record that was
acknowledged. Logs at the end without a record are what such a crash left, and are removed.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

from panewise.errors import DurabilityError, DurabilityWarning, SnapshotError
from panewise.runtime.durable_log import SEGMENT_HEAD, Record, Segment, Tail, read_head, read_segment
from panewise.state.durable_files import FileSystem, write_all
from panewise.state.snapshot_format import loaded

_NAME = re.compile(r"(snapshot|log)-(\d{8})(\.unfinished)?")


class DurableFolder:
    """Opened with `open`; then `newest_snapshot`, `records` to their end, and `end` is there to append to."""

    def __init__(self, path: Path, files: FileSystem, lock: int) -> None:
        self.path = path
        self.end: Segment
        self.number = 0  # of the log in use
        self.bytes_cut = 0  # of a torn end, when the folder was opened
        self.earlier_bytes = 0  # in logs since the snapshot, before the one in use
        self.switching = threading.Lock()  # held while `end` becomes another one
        self._files = files
        self._lock = lock

    @classmethod
    def open(cls, path: Path, files: FileSystem) -> DurableFolder:
        """Takes the lock; DurabilityError where another engine has it or the folder cannot be written."""
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
        """Lets the files and the lock go. A second time does nothing, or goes on where the first was interrupted."""
        if hasattr(self, "end"):
            self.end.close()
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    # -- opening -------------------------------------------------------------------------------------------------

    def newest_snapshot(self) -> bytes | None:
        """The newest that is whole; `number` is its. DurabilityError where there are only damaged ones."""
        damaged: list[Path] = []
        for number in sorted(self._numbers("snapshot"), reverse=True):
            path = self._path("snapshot", number)
            data = path.read_bytes()
            try:
                loaded(data)
            except SnapshotError:
                damaged.append(path)
                continue
            self.number = number
            if damaged:
                warnings.warn(f"'{damaged[0]}' is damaged; '{path}' is used", DurabilityWarning, stacklevel=5)
            return data
        if damaged:
            raise DurabilityError(f"'{damaged[0]}' is damaged: its length or checksum is wrong")
        return None

    def records(self) -> Iterator[Record]:
        """All records since the snapshot; when they have been read the log is ready to be continued."""
        base = self.number
        numbers = self._segments(base)
        expected: int | None = None
        tail: Tail | None = None
        for number in numbers:
            path = self._path("log", number)
            if tail is not None:
                self.earlier_bytes += tail.bytes
            with path.open("rb") as file:
                _, first = read_head(file, path)
            if expected is not None and first != expected:
                raise DurabilityError(f"'{path}' begins with record {first}, and {expected} should come next")
            for item in read_segment(path):
                if isinstance(item, Record):
                    yield item
                else:
                    tail = item
            assert tail is not None
            if tail.problem and (tail.more_records or number != numbers[-1]):
                raise _damaged(path, tail)
            expected = tail.next_number
        self._continue(numbers[-1] if numbers else base, tail)
        self._remove_older(base)

    def _segments(self, base: int) -> list[int]:
        """The numbers of the logs from a snapshot on, without those at the end that nothing was written to."""
        numbers = sorted(number for number in self._numbers("log") if number >= base)
        while len(numbers) > 1 and self._path("log", numbers[-1]).stat().st_size <= SEGMENT_HEAD:
            self._files.remove(self._path("log", numbers.pop()))
        if numbers == [base] and _unfinished_head(self._path("log", base)):
            self._files.remove(self._path("log", numbers.pop()))
        missing = set(range(base, base + len(numbers))) - set(numbers)
        if missing:
            raise DurabilityError(f"'{self._path('log', min(missing))}' is missing, and there are logs after it")
        return numbers

    def _continue(self, number: int, tail: Tail | None) -> None:
        path = self._path("log", number)
        self.number = number
        if tail is None:
            self.end = Segment.create(self._files, path, 0)
            self._files.sync_folder(self.path)
            return
        self.end = Segment.reopen(self._files, path, tail)
        if tail.problem:
            self.bytes_cut = tail.bytes - tail.valid_bytes
            warnings.warn(
                f"the end of '{path}' was torn and has been cut off: {self.bytes_cut:,} bytes from byte "
                f"{tail.valid_bytes:,} on ({tail.problem}); they belong to a call that never returned",
                DurabilityWarning,
                stacklevel=6,
            )

    # -- a new snapshot ------------------------------------------------------------------------------------------

    def begin_anew(self, snapshot: bytes) -> None:
        """The snapshot takes the place of everything before it; DurabilityError, and all is as it was, otherwise."""
        old, number = self.end, self.number + 1
        files, path = self._files, self._path("snapshot", number)
        unfinished = path.with_name(path.name + ".unfinished")
        fresh: Segment | None = None
        try:
            if not old.broken:
                files.sync(old.descriptor)
            fresh = Segment.create(files, self._path("log", number), old.next_number)
            self._write(unfinished, snapshot)
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
            old.close()
        try:
            files.sync_folder(self.path)
            self._remove_older(number)
        except OSError as problem:
            raise DurabilityError(
                f"what is older than '{path}' was not removed: {problem.strerror or problem}", hint="it does no harm"
            ) from problem

    def _write(self, path: Path, data: bytes) -> None:
        descriptor = self._files.create(path)
        try:
            write_all(self._files, descriptor, [data])
            self._files.sync(descriptor)
        finally:
            os.close(descriptor)

    def _remove_older(self, number: int) -> None:
        for file in sorted(self.path.iterdir()):
            match = _NAME.fullmatch(file.name)
            if match is not None and (int(match[2]) < number or match[3]):
                self._files.remove(file)

    def _numbers(self, kind: str) -> list[int]:
        matches = [_NAME.fullmatch(file.name) for file in self.path.iterdir()]
        return [int(match[2]) for match in matches if match is not None and match[1] == kind and not match[3]]

    def _path(self, kind: str, number: int) -> Path:
        return self.path / f"{kind}-{number:08d}"


def _unfinished_head(path: Path) -> bool:
    """Whether a log was made and not even its head was written to the end."""
    if path.stat().st_size > SEGMENT_HEAD:
        return False
    try:
        with path.open("rb") as file:
            read_head(file, path)
    except DurabilityError:
        return True
    return False


def _damaged(path: Path, tail: Tail) -> DurabilityError:
    return DurabilityError(
        f"'{path}' is damaged at byte {tail.valid_bytes:,} of {tail.bytes:,}: {tail.problem}, and whole records follow",
        hint="bring the file back from a copy; to give up what follows, cut it: "
        f"truncate -s {tail.valid_bytes} '{path}'",
    )
