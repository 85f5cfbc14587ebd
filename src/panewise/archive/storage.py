"""The file operations that an archive stands on: a folder on a local disk or below a prefix of an object store.

What each kind promises:

    kind                      written file            published manifest                    one writer
    local folder              on the disk (fsync)     rename, then fsync of the folder      a lock held by the process
    s3, gcs, abfs, mock       when the write ends     one small object: there or not there  a check of the version
    any other of Arrow        when the write ends     a rename, as good as the system's     a check of the version

Arrow's file systems have no conditional write. Two writers of one archive on an object store are therefore *found* (the
later one meets a version that it did not write, before or after its own) and not prevented: give an archive there one
writer. What an update that did not end has left there is removed once its version has been made by another one.
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

WHOLE_OBJECTS = ("s3", "gcs", "abfs", "mock")  # a write that does not end leaves nothing that can be read
UNFINISHED = ".unfinished"
LOCK = "LOCK"


class VanishedFile(ArchiveError):
    """A file of a version is gone: it was removed with its version, or by somebody else."""


class Storage:
    """A folder of any of Arrow's file systems."""

    exclusive = False  # whether `lock` keeps other writers away

    def __init__(self, filesystem: Any, root: str) -> None:
        self.filesystem = filesystem
        self.root = root.rstrip("/")

    @property
    def where(self) -> str:
        """For messages, and as the name of the folder within this process."""
        return f"{self.filesystem.type_name}:{self.root}"

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def names(self, folder: str) -> dict[str, int]:
        """The files of a folder, each with its size; empty where there is no such folder."""
        found = self.entries(folder).items()
        return {name: info.size for name, info in found if info.type == pafs.FileType.File}

    def entries(self, folder: str) -> dict[str, Any]:
        """What lies directly in a folder, of any kind; "" is the archive's own. Empty where there is no such folder."""
        selector = pafs.FileSelector(self.path(folder).rstrip("/"), allow_not_found=True)
        before = f"{folder}/" if folder else ""
        return {f"{before}{info.base_name}": info for info in self.filesystem.get_file_info(selector)}

    def is_link(self, name: str) -> bool:
        """Whether a name stands for a place elsewhere."""
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
        """The size of a file and as many of its last bytes."""
        with self.filesystem.open_input_file(self.path(name)) as file:
            whole = file.size()
            return whole, bytes(file.read_at(min(size, whole), max(0, whole - size)))

    def make_folder(self, folder: str) -> None:
        self.filesystem.create_dir(self.path(folder), recursive=True)

    def write(self, name: str, data: pa.Buffer) -> None:
        """A new file; it need not survive a loss of power before `settle`."""
        with self.filesystem.open_output_stream(self.path(name), compression=None) as file:
            file.write(data)

    def settle(self, folder: str) -> None:
        """Returns when the names that were made in a folder are there to stay."""

    def publish(self, name: str, data: pa.Buffer) -> None:
        """A small file that is there as a whole or not at all."""
        if self.filesystem.type_name in WHOLE_OBJECTS:
            self.write(name, data)
        else:
            self.write(name + UNFINISHED, data)
            self.filesystem.move(self.path(name + UNFINISHED), self.path(name))

    def remove(self, name: str) -> None:
        """A file that is gone already is no error."""
        with contextlib.suppress(FileNotFoundError):
            self.filesystem.delete_file(self.path(name))

    def lock(self) -> Callable[[], None] | None:
        """Takes the right to write where there is such a thing: how to give it back, or None where another has it."""
        return lambda: None

    def lock_file(self) -> tuple[int, int] | None:
        """Which file a lock is taken on: another one where the folder was removed and made anew."""
        return None


class LocalStorage(Storage):
    """A folder on this machine; every change is brought to the disk before the next one that needs it."""

    exclusive = True

    def __init__(self, root: Path, files: FileSystem | None = None) -> None:
        # One name for a folder, by whichever way it was reached: the snapshots of a process are known by it.
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
    """`~` is the shell's, which has not seen this path; a folder that is there and called so is no mistake."""
    if path.startswith("~") and not Path(path).exists():
        raise ArchiveError(
            f"'{path}' begins with '~', which stands for no folder here",
            hint=f"write the path of the home folder in full, or './{path}' where its name begins so",
        )


def _resolved(path: Path) -> str:
    """Without links; whatever else is wrong with it, the operation that fails says."""
    resolved = os.path.realpath(path)
    try:
        Path(resolved).stat()
    except OSError as problem:
        if problem.errno == errno.ELOOP:
            raise ArchiveError(
                f"'{path}' cannot be used: a symbolic link in it leads back to itself",
                hint="name a folder that is reached without that link",
            ) from problem
    return resolved


def storage_at(where: str | Path, filesystem: Any = None) -> Storage:
    """A local path, a URI of Arrow (`s3://bucket/prefix`, `gs://...`, `file:///...`), or a path of a file system."""
    if not str(where).strip():  # it would be the folder that the process happens to be in
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
    if not storage.root.strip("/"):  # the root of everything, which is nobody's own
        raise ArchiveError("an archive needs a folder of its own", hint="a path, or a URI such as s3://bucket/folder")
    return storage


def lock(storage: Storage) -> Callable[[], None]:
    """Takes the right to write: how to give it back, or ArchiveError where another has it."""
    with explained("take the lock", storage.where):
        unlock = storage.lock()
    if unlock is None:
        raise ArchiveError(
            f"the archive '{storage.where}' is being written by another process, or twice by this one",
            hint="an archive has one writer: close the other engine, or drop the archive there, or name another path",
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
    """What a system or Arrow says, as an ArchiveError that says what was done, where, and what helps."""
    try:
        yield
    except FileNotFoundError as problem:
        raise VanishedFile(
            f"cannot {doing} of the archive '{where}': {problem}",
            hint="with its version, if there is a newer one: open the archive again; or somebody else removed it",
        ) from problem
    except pa.ArrowException as problem:
        # A file that is no Parquet file, or one with damaged pages.
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
    """Of an archive that is not there yet: why it cannot be made, as an ArchiveError."""
    try:
        yield
    except (OSError, pa.ArrowException) as problem:
        number = problem.errno if isinstance(problem, OSError) else None
        told = getattr(problem, "strerror", None) or str(problem)
        if number in (errno.EEXIST, errno.ENOTDIR):
            name = getattr(problem, "filename", None)
            told = f"'{name}' is a file" if name else "that, or a part of it, is a file"
        elif number == errno.ENOENT:
            told = "the system makes no folders there"
        raise ArchiveError(
            f"no archive can be made in '{where}': {told}",
            hint="name a folder that can be made and written, or one that is there and empty",
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
