"""The right to write an archive: only one object in one process has it, if the storage has locks. Readers need none.

It ends with `give_back`, with the process, and when this object is garbage collected, so that an archive that was not
closed does not stay locked. A forked child does not have the right, and does not end that of its parent. If the folder
was removed, and perhaps made again, the lock is on a file that is gone, and the right is `lost`.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable

from panewise.archive.storage import Storage, lock
from panewise.errors import ArchiveError


class WritingRight:
    """The right to write, for use by one thread at a time."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._process = os.getpid()
        self._unlock: Callable[[], None] | None = None
        self._lock_file: tuple[int, int] | None = None

    @property
    def is_of_parent(self) -> bool:
        """Whether this process is a forked child of the process that made this object."""
        return self._process != os.getpid()

    @property
    def held(self) -> bool:
        return self._unlock is not None

    @property
    def lost(self) -> bool:
        return self.held and self._storage.lock_file() != self._lock_file

    def check_process(self) -> None:
        """ArchiveError in a forked child."""
        if self.is_of_parent:
            raise ArchiveError(
                f"the archive '{self._storage.where}' was opened by process {self._process}, and this is process "
                f"{os.getpid()}, which was forked from it: it can only be read here",
                hint="an archive has one writer: update it in that process, or open it after the fork",
            )

    def take(self) -> None:
        """Takes the right. ArchiveError if another has it."""
        assert not self.held
        self._unlock = weakref.finalize(self, lock(self._storage))
        self._lock_file = self._storage.lock_file()

    def give_back(self) -> None:
        """Releases the right, if it is held."""
        unlock, self._unlock = self._unlock, None
        if unlock is not None:
            unlock()
