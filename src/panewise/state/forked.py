"""Releases files in forked child processes.

A child has copies of everything, including the descriptors of an engine's log and lock. If it wrote to the log, its
records would mix with those of its parent. If the parent died, the child would still hold the lock. Therefore objects
with such files register with `let_go_in_children`, and are called in every child before anything else runs there. The
parent's threads do not exist in a child, so a lock that one of them holds is never released: `forked` must not wait for
locks.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class HoldsFiles(Protocol):
    """An object that only the process that opened it may use."""

    def forked(self) -> None:
        """Called in a child of the process that opened it: closes descriptors and refuses every further use.

        The object may be closed already.
        """


_HOLDERS: weakref.WeakSet[HoldsFiles] = weakref.WeakSet()


def let_go_in_children(holder: HoldsFiles) -> None:
    """From now on `holder.forked` is called in every child process."""
    _HOLDERS.add(holder)


def _tell() -> None:
    for holder in list(_HOLDERS):
        holder.forked()
    _HOLDERS.clear()


os.register_at_fork(after_in_child=_tell)
