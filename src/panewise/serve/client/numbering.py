"""Sequence numbers of pushes, so that a push may be sent again: 1, 2, 3, ... of one producer on one stream.

The server takes each number once and refuses a number that skips others. Pushes of one producer to one stream are
therefore sent one after the other: the lock is held during a push. A refused push does not use up its number. If the
outcome of a push is not known, the server is asked for its last number before the next push.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from panewise.errors import DataError, PanewiseError, ServerError

T = TypeVar("T")


class Numbering:
    """The numbers of one producer on one stream; `asked` asks the server for the last number that was taken."""

    def __init__(self, asked: Callable[[], int], *, last: int | None = None) -> None:
        self._asked = asked
        self._last = last  # None: not known, ask the server
        self._lock = threading.Lock()

    def push(self, send: Callable[[int], T]) -> T:
        """Calls `send` with the next number; returns its result."""
        with self._lock:
            was_told = self._last is None
            number = (self._asked() if self._last is None else self._last) + 1
            try:
                with self._counted(number):
                    return send(number)
            except DataError:
                # Either a row is bad, or the stream was created again and counts from 1: then the number was wrong.
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
            raise  # the outcome is not known: ask the server before the next push
        except PanewiseError:
            self._last = before  # the push was refused
            raise
        self._last = number
