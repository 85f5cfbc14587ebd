"""Counts answers that do not fit their type when they are lowered, so that a caller can attribute them to its query.

    with Overflows() as found:
        ...                     # answers are lowered
    found.count                 # how many of them are NULL because they do not fit

Only answers of the same thread are counted. Nested blocks also count for the enclosing ones, unless they are `apart`.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self


class Overflows:
    """Counts the overflows inside its `with` block."""

    __slots__ = ("_around", "apart", "count")

    def __init__(self, apart: bool = False) -> None:
        """`apart`: do not add to enclosing blocks, because answers lowered inside have been counted there before."""
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
    """Reports that `count` answers do not fit their type and are NULL."""
    counting: Overflows | None = getattr(_thread, "counting", None)
    if counting is not None:
        counting.count += count
