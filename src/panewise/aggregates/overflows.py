"""Answers that leave their type, counted where they are lowered, for whoever wants to know of which query they are.

    with Overflows() as found:
        ...                     # answers are lowered
    found.count                 # how many of them are NULL because they do not fit

Of this thread alone. Nested ones count for those around them too, unless they are `apart`.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self


class Overflows:
    """Those inside its `with`."""

    __slots__ = ("_around", "apart", "count")

    def __init__(self, apart: bool = False) -> None:
        """`apart`: what is lowered inside was counted before, together with others."""
        self.count = 0
        self.apart = apart
        self._around: Overflows | None = None

    def __enter__(self) -> Self:
        self._around = getattr(_thread, "counting", None)
        _thread.counting = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        _thread.counting = self._around
        if self._around is not None and not self.apart:
            self._around.count += self.count


_thread = threading.local()


def note_overflows(count: int) -> None:
    """So many answers do not fit their type, and are NULL."""
    counting: Overflows | None = getattr(_thread, "counting", None)
    if counting is not None:
        counting.count += count
