"""A local storage that fails, tears, kills or loses power at its n-th operation, for tests of archives."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from panewise.archive.storage import LocalStorage

# What happens at the n-th operation: the process dies before, in the middle of or after it, the power goes after it, or
# the operation fails, with nothing or half of it done.
KILLS = ("before", "torn", "after", "power")
FAILURES = ("error", "torn error")


class Killed(BaseException):
    """The process is dead: nothing that it does from now on reaches a file."""


class FaultyStorage(LocalStorage):
    """Counts operations; `at` None: nothing ever happens."""

    def __init__(self, root: Path, at: int | None = None, how: str = "before") -> None:
        super().__init__(root)
        self.count = 0
        self._at = at
        self._how = how
        self._dead = False
        self._unlock: Callable[[], None] | None = None
        self._synced: dict[Path, int] = {}
        # What a loss of power undoes, last first: names that the folder's disk does not know of yet.
        self._unsynced: list[tuple[Path, Callable[[], Any]]] = []
        self._removed = root.parent / f"{root.name}-removed"
        self._removed.mkdir(exist_ok=True)

    def _operation(self, do: Callable[[], Any], half: Callable[[], Any] = lambda: None) -> Any:
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
            do()
        self._dead = True
        if self._how == "power":
            self._lose_power()
        if self._unlock is not None:
            self._unlock()  # as the end of a process does
        raise Killed

    def _lose_power(self) -> None:
        for path, size in self._synced.items():
            if path.exists() and path.stat().st_size > size:
                os.truncate(path, size)
        for _, undo in reversed(self._unsynced):
            with contextlib.suppress(FileNotFoundError):
                undo()

    # -- the operations ------------------------------------------------------------------------------------------

    def lock(self) -> Callable[[], None] | None:
        if self._dead:
            raise Killed
        unlock = super().lock()
        self._unlock = None if unlock is None else _once(unlock)
        return self._unlock

    def _create(self, path: Path) -> int:
        def do() -> int:
            self._synced[path] = 0
            self._unsynced.append((path.parent, lambda: path.unlink(missing_ok=True)))
            return LocalStorage._create(self, path)

        return int(self._operation(do))

    def _write(self, path: Path, descriptor: int, data: memoryview) -> None:
        self._operation(
            lambda: LocalStorage._write(self, path, descriptor, data),
            lambda: os.write(descriptor, data[: data.nbytes // 2]),
        )

    def _sync(self, path: Path, descriptor: int) -> None:
        def do() -> None:
            self._synced[path] = os.fstat(descriptor).st_size

        self._operation(do)

    def _rename(self, path: Path, name: Path) -> None:
        def do() -> None:
            LocalStorage._rename(self, path, name)
            self._synced[name] = self._synced.pop(path)
            self._unsynced.append((name.parent, lambda: name.rename(path)))

        self._operation(do)

    def _remove(self, path: Path) -> None:
        def do() -> None:
            if path.exists():
                kept = self._removed / path.name
                path.rename(kept)
                self._unsynced.append((path.parent, lambda: kept.rename(path)))

        self._operation(do)

    def _sync_folder(self, folder: Path) -> None:
        def do() -> None:
            self._unsynced = [(own, undo) for own, undo in self._unsynced if own != folder]

        self._operation(do)


def _once(unlock: Callable[[], None]) -> Callable[[], None]:
    left = [unlock]
    return lambda: left.pop()() if left else None
