"""The file operations on a local disk that durability and archives stand on, each behind one method.

Everything that changes a file or a folder goes through `FileSystem`, so that a test can fail, tear or kill every single
operation and look at what a restart makes of it. Nothing is buffered here: what `write` has returned from is the
operating system's, and survives the death of this process; what `sync` has returned from survives a loss of power.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

# Data and size are what matters; not every system has the cheaper call.
_sync_data = getattr(os, "fdatasync", os.fsync)


class FileSystem:
    """Thin names for system calls; every method raises OSError where the system refuses."""

    # Who may use what is made; the umask of the process takes some of that away.
    folder_mode = 0o777
    file_mode = 0o644

    def make_folder(self, folder: Path) -> None:
        if not folder.is_dir():
            self.make_folder(folder.parent)  # each new name has to be on the disk, not only the last
            folder.mkdir(self.folder_mode, exist_ok=True)
            self.sync_folder(folder.parent)

    def lock(self, path: Path) -> int | None:
        """A lock on a file, held until the descriptor is closed or the process ends; None where another holds it."""
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, self.file_mode)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def create(self, path: Path) -> int:
        """A new, empty file to append to, in place of any other of the name."""
        return os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, self.file_mode)

    def reopen(self, path: Path) -> int:
        """A file to append to."""
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def write(self, descriptor: int, parts: Sequence[memoryview]) -> int:
        """Appends; returns how many bytes were taken, which may be fewer."""
        return os.writev(descriptor, parts)

    def note(self, descriptor: int, data: bytes, at: int) -> None:
        """A few bytes in place of others."""
        os.pwrite(descriptor, data, at)

    def cut(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        """Returns when what was written is on the disk."""
        _sync_data(descriptor)

    def rename(self, path: Path, name: Path) -> None:
        """Atomic; a file of that name is replaced."""
        path.replace(name)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def sync_folder(self, folder: Path) -> None:
        """Returns when names that were made, changed or removed are on the disk."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class PrivateFiles(FileSystem):
    """What it makes is for the user alone whose process this is: logs, snapshots and results hold everybody's rows."""

    folder_mode = 0o700
    file_mode = 0o600


def write_all(files: FileSystem, descriptor: int, parts: Sequence[bytes | memoryview]) -> None:
    """Appends all of it, in as many writes as the system takes."""
    rest = [view for part in parts if (view := memoryview(part).cast("B")).nbytes]
    while rest:
        taken = files.write(descriptor, rest)
        while rest and taken >= rest[0].nbytes:
            taken -= rest.pop(0).nbytes
        if rest and taken:
            rest[0] = rest[0][taken:]
