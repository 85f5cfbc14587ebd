"""Turns: one thread at a time is inside the engine, and who waits gets in, in the order in which they came.

Python's own locks let a thread that leaves and comes back at once overtake all that wait: a loop of pushes would starve
every reader. Here whoever finds the engine taken, or others waiting, stands in line; the thread inside may give way
between two steps of long work, and goes on when those before it in the line have been in.

    inside     push ... give way .              . push goes on
    line              lookup     | lookup | stats |

A turn is re-entrant. What must not be done inside, because it runs code of others that may take locks of its own, is
noted as `outstanding` and done by `afterwards`, in the same thread, when its outermost turn has ended.

Cost: some 0.3 microseconds a turn where nobody waits; a line costs a switch of threads for each that stands in it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from threading import get_ident
from time import monotonic
from types import TracebackType


class Turns:
    """A fair, re-entrant lock for `with`. `writers`: the threads that are changing something, inside or giving way."""

    def __init__(self, afterwards: Callable[[], list[Exception]]) -> None:
        """`afterwards` does what is outstanding, and returns what was raised by those that it called."""
        self._lock = threading.Lock()
        self._line: deque[threading.Lock] = deque()  # one for each that waits, released when it is the first
        self._line_lock = threading.Lock()
        self._depth = 0
        self._afterwards = afterwards
        self.owner = 0  # the thread that is inside
        self.writers: set[int] = set()
        self.left = 0.0  # when the last of them left
        self.outstanding = False

    def __enter__(self) -> None:
        me = get_ident()
        if self.owner != me:  # only this thread can make them equal
            if self._line or not self._lock.acquire(blocking=False):
                self._stand_in_line()
            self.owner = me
        self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth:
            return
        if self.writers:
            self.writers.discard(self.owner)
            self.left = monotonic()
        outstanding, self.outstanding = self.outstanding, False
        self.owner = 0
        self._lock.release()
        if outstanding:
            raised = self._afterwards()
            if raised and kind is None:
                raise raised[0]

    @property
    def waited_for(self) -> bool:
        """Whether others stand in line."""
        return bool(self._line)

    @property
    def free(self) -> bool:
        """Whether whoever came now would get in at once."""
        return self.owner == 0 and not self._line

    @property
    def nested(self) -> bool:
        """Of the thread inside: whether it is inside more than once."""
        return self._depth > 1

    def give_way(self) -> None:
        """Lets those in who wait. The caller must have left everything in order; nested turns do not give way."""
        if not self._line or self._depth != 1:
            return
        me, outstanding = self.owner, self.outstanding
        self.owner, self._depth, self.outstanding = 0, 0, False
        self._lock.release()
        self._stand_in_line()
        self.owner, self._depth, self.outstanding = me, 1, outstanding

    def _stand_in_line(self) -> None:
        turn = threading.Lock()
        turn.acquire()
        with self._line_lock:
            self._line.append(turn)
            first = self._line[0] is turn
        try:
            if not first:
                turn.acquire()
            self._lock.acquire()
        finally:  # also where an interrupt ends the waiting: those behind must not wait for somebody who is gone
            with self._line_lock:
                first = self._line[0] is turn
                self._line.remove(turn)
                if first and self._line:
                    self._line[0].release()
