"""The right to write an archive: of one object in one process, where a lock is possible; readers need none.

It ends with `give_back`, with the process, and with this object: whoever forgets to close an archive must not keep
others from it for as long as the process lives. A forked child has none, and does not end that of its parent. Where
the folder was removed and perhaps made anew, what is held is a lock on a file that is gone, and the right is `lost`.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable

from panewise.archive.storage import Storage, lock
from panewise.errors import ArchiveError


class WritingRight:
    """Used by one thread at a time."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._process = os.getpid()
        self._unlock: Callable[[], None] | None = None
        self._lock_file: tuple[int, int] | None = None

    @property
    def is_of_parent(self) -> bool:
        """Whether this is a forked child of the process that made it."""
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
        """ArchiveError where another has it."""
        assert not self.held
        self._unlock = weakref.finalize(self, lock(self._storage))
        self._lock_file = self._storage.lock_file()

    def give_back(self) -> None:
        """It may have been given back before."""
        unlock, self._unlock = self._unlock, None
        if unlock is not None:
            unlock()
