"""The file operations on a local disk that durability and archives use, each behind one method.

Every change of a file or folder goes through `FileSystem`, so that a test can make any single operation fail, tear or
kill the process, and check what a restart finds. Nothing is buffered here: once `write` returns, the data survives the
death of this process; once `sync` returns, it survives a loss of power.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

# fdatasync is enough, because only data and size matter; not every system has it.
_sync_data = getattr(os, "fdatasync", os.fsync)


class FileSystem:
    """Thin wrappers of system calls; every method raises OSError if the call fails."""

    # Permissions of new files and folders, before the process's umask.
    folder_mode = 0o777
    file_mode = 0o644

    def make_folder(self, folder: Path) -> None:
        if not folder.is_dir():
            self.make_folder(folder.parent)  # every new name must be synced, not only the last
            folder.mkdir(self.folder_mode, exist_ok=True)
            self.sync_folder(folder.parent)

    def lock(self, path: Path) -> int | None:
        """Locks a file until the returned descriptor is closed or the process ends. None if another holds the lock."""
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
        """Creates an empty file to append to, and replaces any file of this name."""
        return os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, self.file_mode)

    def reopen(self, path: Path) -> int:
        """Opens an existing file to append to."""
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def write(self, descriptor: int, parts: Sequence[memoryview]) -> int:
        """Appends. Returns the number of bytes written, which may be fewer than given."""
        return os.writev(descriptor, parts)

    def note(self, descriptor: int, data: bytes, at: int) -> None:
        """Overwrites a few bytes at an offset."""
        os.pwrite(descriptor, data, at)

    def cut(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        """Returns when all written data is on the disk."""
        _sync_data(descriptor)

    def rename(self, path: Path, name: Path) -> None:
        """Renames a file atomically, and replaces any file of the new name."""
        path.replace(name)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def sync_folder(self, folder: Path) -> None:
        """Returns when all changes of names in the folder are on the disk."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class PrivateFiles(FileSystem):
    """Makes files that only the user of this process can read: logs, snapshots and results hold everybody's rows."""

    folder_mode = 0o700
    file_mode = 0o600


def write_all(files: FileSystem, descriptor: int, parts: Sequence[bytes | memoryview]) -> None:
    """Appends all parts, in as many writes as needed."""
    rest = [view for part in parts if (view := memoryview(part).cast("B")).nbytes]
    while rest:
        taken = files.write(descriptor, rest)
        while rest and taken >= rest[0].nbytes:
            taken -= rest.pop(0).nbytes
        if rest and taken:
            rest[0] = rest[0][taken:]
