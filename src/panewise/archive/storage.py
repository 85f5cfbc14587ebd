"""The file operations of archives: in a folder on a local disk or below a prefix of an object store.

What each kind guarantees:

    kind                      written file            published manifest                    one writer
    local folder              on the disk (fsync)     rename, then fsync of the folder      a lock held by the process
    s3, gcs, abfs, mock       when the write ends     one small object, written whole       a check of the version
    any other of Arrow        when the write ends     a rename, as good as the system's     a check of the version

Arrow's file systems have no conditional write. Two writers of one archive on an object store are therefore *detected*
and not prevented (the later one finds a version that it did not write): give an archive there one writer. The leftovers
of an interrupted update there are removed once another update has made its version.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from panewise.errors import ArchiveError
from panewise.state.durable_files import FileSystem, write_all

WHOLE_OBJECTS = ("s3", "gcs", "abfs", "mock")  # An interrupted write leaves nothing that can be read.
UNFINISHED = ".unfinished"
LOCK = "LOCK"


class VanishedFile(ArchiveError):
    """A file of a version is gone: it was removed with its version, or from outside."""


class Storage:
    """A folder of any of Arrow's file systems."""

    exclusive = False  # whether `lock` excludes other writers

    def __init__(self, filesystem: Any, root: str) -> None:
        self.filesystem = filesystem
        self.root = root.rstrip("/")

    @property
    def where(self) -> str:
        """The name of the folder, for messages and as its identity within this process."""
        return f"{self.filesystem.type_name}:{self.root}"

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def names(self, folder: str) -> dict[str, int]:
        """The files of a folder, each with its size; empty if there is no such folder."""
        found = self.entries(folder).items()
        return {name: info.size for name, info in found if info.type == pafs.FileType.File}

    def entries(self, folder: str) -> dict[str, Any]:
        """All entries of a folder, of any kind; "" is the archive's own folder. Empty if there is no such folder."""
        selector = pafs.FileSelector(self.path(folder).rstrip("/"), allow_not_found=True)
        before = f"{folder}/" if folder else ""
        return {f"{before}{info.base_name}": info for info in self.filesystem.get_file_info(selector)}

    def is_link(self, name: str) -> bool:
        """Whether a name is a symbolic link."""
        return False

    def above(self) -> Iterator[Storage]:
        """The folders that this one lies in, the nearest first."""
        folder = self.root.rpartition("/")[0]
        while folder:
            yield Storage(self.filesystem, folder)
            folder = folder.rpartition("/")[0]

    def read(self, name: str) -> bytes:
        with self.filesystem.open_input_file(self.path(name)) as file:
            return bytes(file.read())

    def read_end(self, name: str, size: int) -> tuple[int, bytes]:
        """The size of a file, and its last `size` bytes."""
        with self.filesystem.open_input_file(self.path(name)) as file:
            whole = file.size()
            return whole, bytes(file.read_at(min(size, whole), max(0, whole - size)))

    def make_folder(self, folder: str) -> None:
        self.filesystem.create_dir(self.path(folder), recursive=True)

    def write(self, name: str, data: pa.Buffer) -> None:
        """Writes a new file. It need not survive a loss of power before `settle`."""
        with self.filesystem.open_output_stream(self.path(name), compression=None) as file:
            file.write(data)

    def settle(self, folder: str) -> None:
        """Returns when all new names in a folder are durable."""

    def publish(self, name: str, data: pa.Buffer) -> None:
        """Writes a small file atomically."""
        if self.filesystem.type_name in WHOLE_OBJECTS:
            self.write(name, data)
        else:
            self.write(name + UNFINISHED, data)
            self.filesystem.move(self.path(name + UNFINISHED), self.path(name))

    def remove(self, name: str) -> None:
        """Removes a file, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            self.filesystem.delete_file(self.path(name))

    def lock(self) -> Callable[[], None] | None:
        """Takes the writer's lock, if this storage has locks. Returns how to release it; None if another has it."""
        return lambda: None

    def lock_file(self) -> tuple[int, int] | None:
        """The identity of the lock file. It changes if the folder is removed and made again."""
        return None


class LocalStorage(Storage):
    """A folder on this machine; every change is synced before a later change that relies on it."""

    exclusive = True

    def __init__(self, root: Path, files: FileSystem | None = None) -> None:
        # Every folder has one name, whatever path leads to it, because pins are found by this name.
        super().__init__(pafs.LocalFileSystem(), _resolved(root))
        self._files = files if files is not None else FileSystem()

    @property
    def where(self) -> str:
        return self.root

    def is_link(self, name: str) -> bool:
        return Path(self.path(name)).is_symlink()

    def above(self) -> Iterator[Storage]:
        for folder in Path(self.root).parents:
            yield LocalStorage(folder, self._files)

    def make_folder(self, folder: str) -> None:
        self._files.make_folder(Path(self.path(folder)))

    def write(self, name: str, data: pa.Buffer) -> None:
        descriptor = self._files.create(Path(self.path(name)))
        try:
            write_all(self._files, descriptor, [memoryview(data)])
            self._files.sync(descriptor)
        finally:
            os.close(descriptor)

    def settle(self, folder: str) -> None:
        self._files.sync_folder(Path(self.path(folder)))

    def publish(self, name: str, data: pa.Buffer) -> None:
        self.write(name + UNFINISHED, data)
        self._files.rename(Path(self.path(name + UNFINISHED)), Path(self.path(name)))
        self._files.sync_folder(Path(self.path(name)).parent)

    def remove(self, name: str) -> None:
        self._files.remove(Path(self.path(name)))

    def lock(self) -> Callable[[], None] | None:
        descriptor = self._files.lock(Path(self.path(LOCK)))
        return None if descriptor is None else lambda: os.close(descriptor)

    def lock_file(self) -> tuple[int, int] | None:
        try:
            found = Path(self.path(LOCK)).stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino


def _check_written_out(path: str) -> None:
    """Refuses `~`, which only a shell expands, unless a folder has this name."""
    if path.startswith("~") and not Path(path).exists():
        raise ArchiveError(
            f"'{path}' begins with '~', which is not expanded here",
            hint=f"write the path of the home folder in full, or './{path}' if the name begins with '~'",
        )


def _resolved(path: Path) -> str:
    """The path without links. ArchiveError if links form a cycle; other errors show in later operations."""
    resolved = os.path.realpath(path)
    try:
        Path(resolved).stat()
    except OSError as problem:
        if problem.errno == errno.ELOOP:
            raise ArchiveError(
                f"'{path}' cannot be used: a symbolic link in it leads back to itself",
                hint="name a folder without that link in its path",
            ) from problem
    return resolved


def storage_at(where: str | Path, filesystem: Any = None) -> Storage:
    """A local path, a URI of Arrow (`s3://bucket/prefix`, `gs://...`, `file:///...`), or a path of a file system."""
    if not str(where).strip():  # An empty path would be the current folder of the process.
        raise ArchiveError("an archive needs a folder of its own", hint="a path, or a URI such as s3://bucket/folder")
    if filesystem is None and isinstance(where, str) and "://" in where:
        try:
            filesystem, where = pafs.FileSystem.from_uri(where)
        except (pa.ArrowException, OSError, ValueError) as problem:
            raise ArchiveError(
                f"'{where}' cannot be used: {problem}", hint="a path, or a URI such as s3://bucket/folder"
            ) from problem
    if filesystem is None or isinstance(filesystem, pafs.LocalFileSystem):
        if isinstance(where, str):
            _check_written_out(where)
        storage: Storage = LocalStorage(Path(where))
    else:
        storage = Storage(filesystem, str(where))
    if not storage.root.strip("/"):  # the root of the file system
        raise ArchiveError("an archive needs a folder of its own", hint="a path, or a URI such as s3://bucket/folder")
    return storage


def lock(storage: Storage) -> Callable[[], None]:
    """Takes the writer's lock. Returns how to release it; ArchiveError if another has it."""
    with explained("take the lock", storage.where):
        unlock = storage.lock()
    if unlock is None:
        raise ArchiveError(
            f"the archive '{storage.where}' is being written by another process, or twice by this one",
            hint="an archive has one writer: close the other engine, drop the archive there, or name another path",
        )
    return unlock


@contextlib.contextmanager
def locked(storage: Storage) -> Iterator[None]:
    unlock = lock(storage)
    try:
        yield
    finally:
        unlock()


@contextlib.contextmanager
def explained(doing: str, where: str) -> Iterator[None]:
    """Turns errors of the system and of Arrow into an ArchiveError with the operation, the place and a hint."""
    try:
        yield
    except FileNotFoundError as problem:
        raise VanishedFile(
            f"cannot {doing} of the archive '{where}': {problem}",
            hint="if there is a newer version, open the archive again; otherwise the file was removed from outside",
        ) from problem
    except pa.ArrowException as problem:
        # The file is not a Parquet file, or has damaged pages.
        raise ArchiveError(f"cannot {doing} of the archive '{where}': {problem}", hint=_DAMAGED) from problem
    except OSError as problem:
        known = problem.errno is not None
        told = (problem.strerror or str(problem)) if known else str(problem)
        raise ArchiveError(
            f"cannot {doing} of the archive '{where}': {told}",
            hint=_HINTS.get(problem.errno or 0, "nothing committed is lost") if known else _DAMAGED,
        ) from problem


@contextlib.contextmanager
def making(where: str) -> Iterator[None]:
    """Turns errors while an archive is made into an ArchiveError."""
    try:
        yield
    except (OSError, pa.ArrowException) as problem:
        number = problem.errno if isinstance(problem, OSError) else None
        told = getattr(problem, "strerror", None) or str(problem)
        if number in (errno.EEXIST, errno.ENOTDIR):
            name = getattr(problem, "filename", None)
            told = f"'{name}' is a file" if name else "that, or a part of it, is a file"
        elif number == errno.ENOENT:
            told = "the system does not allow new folders there"
        raise ArchiveError(
            f"no archive can be made in '{where}': {told}",
            hint="name a folder that can be made and written, or an existing empty one",
        ) from problem


_DAMAGED = "a file is damaged or foreign: `verify()` says which, and `open(..., version=...)` reads an older version"
_READ_ONLY = "the archive can be read; to write to it, make the folder writable"
_HINTS = {
    errno.ENOSPC: "the disk is full; the last committed version is whole: make room and repeat the update",
    errno.EROFS: _READ_ONLY,
    errno.EACCES: _READ_ONLY,
    errno.EPERM: _READ_ONLY,
    errno.ENAMETOOLONG: "name a shorter path",
    errno.ENOTDIR: "a part of the path is a file: name a folder",
}
