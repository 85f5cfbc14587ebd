"""A file system that fails, tears, kills or loses power at its n-th operation."""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from panewise.state.durable_files import FileSystem

# What happens at the n-th operation: the process dies before, in the middle of or after it, the power goes after it, or
# the operation fails, with nothing or half of it done.
KILLS = ("before", "torn", "after", "power")
FAILURES = ("error", "torn error")


class Killed(BaseException):
    """The process is dead: nothing that it does from now on reaches a file."""


class FaultyFiles(FileSystem):
    """Counts operations; `at` None: nothing ever happens. `removed` is a folder for removed files, until the removal
    itself is on the disk; otherwise they stay beside the others, under another name. `at_death`: what the end of the
    process does."""

    def __init__(self, at: int | None = None, how: str = "before", removed: Path | None = None) -> None:
        self.count = 0
        self._at = at
        self._how = how
        self._dead = False
        self._paths: dict[int, Path] = {}
        self._synced: dict[Path, int] = {}
        # What a loss of power undoes, last first: names that the folder's disk does not know of yet.
        self._unsynced_names: list[tuple[Path, Callable[[], Any]]] = []
        self._removed = removed
        self._removed_count = 0
        self.at_death: Callable[[], None] = lambda: None

    def _operation(self, do: Callable[[], Any], half: Callable[[], Any] = lambda: None, opens: bool = False) -> Any:
        if self._dead:
            raise Killed
        self.count += 1
        if self.count != self._at:
            return do()
        if self._how in FAILURES:
            if self._how == "torn error":
                half()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self._how == "torn":
            half()
        elif self._how != "before":
            done = do()
            if opens and done is not None:
                os.close(done)  # as the end of a process does, locks included
        self._dead = True
        if self._how == "power":
            self._lose_power()
        self.at_death()
        raise Killed

    def _lose_power(self) -> None:
        for path, size in self._synced.items():
            if path.exists() and path.stat().st_size > size:
                os.truncate(path, size)
        for _, undo in reversed(self._unsynced_names):
            undo()
        for folder in {path.parent for path in self._synced}:
            self._another_boot(folder / "LOCK")

    @staticmethod
    def _another_boot(lock: Path) -> None:
        """A note in the lock file says in which boot of the machine it was written."""
        if lock.exists() and lock.stat().st_size:
            data = bytearray(lock.read_bytes())
            boot = slice(24, 32)
            data[boot] = b"\0" * 8
            data[32:36] = zlib.crc32(data[:32]).to_bytes(4, "little")
            lock.write_bytes(data)

    # -- the operations ------------------------------------------------------------------------------------------

    def lock(self, path: Path) -> int | None:
        return self._operation(lambda: FileSystem.lock(self, path), opens=True)

    def create(self, path: Path) -> int:
        def do() -> int:
            descriptor = FileSystem.create(self, path)
            self._paths[descriptor], self._synced[path] = path, 0
            self._unsynced_names.append((path.parent, lambda: path.unlink(missing_ok=True)))
            return descriptor

        return int(self._operation(do, opens=True))

    def reopen(self, path: Path) -> int:
        def do() -> int:
            descriptor = FileSystem.reopen(self, path)
            self._paths[descriptor] = path
            # What another process wrote may not be on the disk, but this one did not promise it.
            self._synced[path] = path.stat().st_size
            return descriptor

        return int(self._operation(do, opens=True))

    def write(self, descriptor: int, parts: Sequence[memoryview]) -> int:
        def half() -> None:
            data = b"".join(parts)
            os.write(descriptor, data[: len(data) // 2])

        return int(self._operation(lambda: FileSystem.write(self, descriptor, parts), half))

    def note(self, descriptor: int, data: bytes, at: int) -> None:
        self._operation(lambda: FileSystem.note(self, descriptor, data, at))

    def cut(self, descriptor: int, size: int) -> None:
        self._operation(lambda: FileSystem.cut(self, descriptor, size))

    def sync(self, descriptor: int) -> None:
        def do() -> None:
            # Only a model: the disk is not asked, or a thousand starts would take minutes.
            self._synced[self._paths[descriptor]] = os.fstat(descriptor).st_size

        self._operation(do)

    def rename(self, path: Path, name: Path) -> None:
        def do() -> None:
            FileSystem.rename(self, path, name)
            self._synced[name] = self._synced.pop(path)
            for descriptor, known in self._paths.items():
                if known == path:  # it may still be written to
                    self._paths[descriptor] = name
            self._unsynced_names.append((name.parent, lambda: name.rename(path)))

        self._operation(do)

    def remove(self, path: Path) -> None:
        def do() -> None:
            if path.exists():
                self._removed_count += 1
                kept = (self._removed or path.parent) / f"removed-{self._removed_count}-{path.name}"
                path.rename(kept)
                self._unsynced_names.append((path.parent, lambda: kept.rename(path)))

        self._operation(do)

    def sync_folder(self, folder: Path) -> None:
        def do() -> None:
            self._unsynced_names = [(own, undo) for own, undo in self._unsynced_names if own != folder]

        self._operation(do)
