"""Numbers for pushes, so that a push may be sent again: 1, 2, 3, ... of one producer on one stream.

The server takes a number once and refuses one that skips others, so pushes of one producer to one stream go one after
the other: the lock is held while a push is on its way. A push that is refused does not use up its number. Where it is
not known whether a push was taken, or another has counted on, the server is asked before the next one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from panewise.errors import DataError, PanewiseError, ServerError

T = TypeVar("T")


class Numbering:
    """The numbers of one producer on one stream; `asked` asks the server for the last that was taken."""

    def __init__(self, asked: Callable[[], int], *, last: int | None = None) -> None:
        self._asked = asked
        self._last = last  # None: the server knows
        self._lock = threading.Lock()

    def push(self, send: Callable[[int], T]) -> T:
        """Sends a push under the next number; returns what was told."""
        with self._lock:
            was_told = self._last is None
            number = (self._asked() if self._last is None else self._last) + 1
            try:
                with self._counted(number):
                    return send(number)
            except DataError:
                # A bad row, or the stream was dropped and created again and counts from 1: then the number was wrong.
                if was_told or (found := self._asked() + 1) >= number:
                    raise
                with self._counted(found):
                    return send(found)

    @contextmanager
    def _counted(self, number: int) -> Iterator[None]:
        before, self._last = self._last, None
        try:
            yield
        except ServerError:
            raise  # the outcome is not known: the server is asked next time
        except PanewiseError:
            self._last = before  # it was refused
            raise
        self._last = number
