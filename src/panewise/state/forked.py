"""What holds files, and what a forked child process has to let go of.

A child has copies of everything: of an engine's log and its lock too. What it wrote there would stand between the
records of its parent, and as long as it lives it would hold the lock of a parent that has died. So whatever holds such
files registers with `let_go_in_children`, and is told in every child, before anything else runs there. The threads of
the parent do not exist in a child, and locks may be held by them for ever: whoever is told waits for nobody.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class HoldsFiles(Protocol):
    """Something that only the process that opened it may use."""

    def forked(self) -> None:
        """This is a child of the process that opened it: descriptors are closed, and every use is refused.

        It may have been closed before.
        """


_HOLDERS: weakref.WeakSet[HoldsFiles] = weakref.WeakSet()


def let_go_in_children(holder: HoldsFiles) -> None:
    """Its `forked` is called in every child process."""
    _HOLDERS.add(holder)


def _tell() -> None:
    for holder in list(_HOLDERS):
        holder.forked()
    _HOLDERS.clear()


os.register_at_fork(after_in_child=_tell)
