"""Turns: one thread at a time is inside the engine, and waiting threads enter in the order in which they came.

With Python's own locks, a thread that leaves and comes back at once overtakes all waiting threads: a loop of pushes
would starve every reader. Here a thread waits in line if another one is inside or waits. The thread inside may give way
between two steps of long work, and goes on when those before it in the line have had their turns.

    inside     push ... give way .              . push goes on
    line              lookup     | lookup | stats |

A turn is re-entrant. Users' code must not run inside, because it may take locks of its own. Such work is noted as
`outstanding`, and `afterwards` does it in the same thread when the outermost turn has ended.

Interrupts. A KeyboardInterrupt may come between any two steps, even before the first step of `__enter__` or `__exit__`.
Therefore a turn belongs to the frame of its `with` statement. If that frame has returned and the turn has not ended,
the next thread takes it over. State is changed inside `with change`, which ends only if nothing is raised, or if the
change was `undone`. If a turn ends, or is taken over, while a change has begun and not ended, the state is half
changed: the engine is `broken`, and no thread can enter any more.

Cost: about a microsecond a turn if no thread waits; otherwise a switch of threads for each that waits.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import get_ident
from time import monotonic
from types import FrameType, TracebackType
from typing import Self

from panewise.errors import EngineBroken, PanewiseError

PATROL_S = 1.0  # How often waiting threads check that the frame of the present turn still runs.


class StateChange:
    """Whether state is half changed: `with change: ...`, by one thread at a time, and possibly nested.

    >>> change = StateChange()
    >>> with change:
    ...     assert change.begun
    >>> change.begun
    False

    If something is raised inside, the change stays begun for good, unless `undone` was called before.
    """

    __slots__ = ("_outer", "begun")

    def __init__(self) -> None:
        self.begun = False
        self._outer: list[bool] = []  # The value of `begun` before each `with` that has not ended.

    def __enter__(self) -> Self:
        self._outer.append(self.begun)
        self.begun = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        outer = self._outer.pop()
        if kind is None:
            self.begun = outer

    def undone(self) -> None:
        """Called inside, before raising: the state is as it was before the innermost `with`."""
        self.begun = self._outer[-1]


@dataclass(eq=False)
class _Waiting:
    """A waiting thread; `called` is released when its turn begins."""

    thread: int
    frame: FrameType
    called: threading.Lock = field(default_factory=threading.Lock)


class Turns:
    """A fair, re-entrant lock for `with`. `writers`: the threads that are changing state, inside or giving way."""

    def __init__(self, afterwards: Callable[[], list[Exception]]) -> None:
        """`afterwards`: does the outstanding work, and returns the errors that users' code raised."""
        self._guard = threading.Lock()  # Held for a few instructions, and only by `with`, which interrupts do not tear.
        self._line: deque[_Waiting] = deque()
        self._depth = 0
        self._frame: FrameType | None = None  # The frame of the turn's `with` statement.
        self._afterwards = afterwards
        self.owner = 0  # The thread whose turn it is; 0: none.
        self.writers: set[int] = set()
        self.left = 0.0  # When the last writer left.
        self.outstanding = False
        self.change = StateChange()
        self.broken = False
        self.refused: PanewiseError | None = None  # Why no thread can enter: in a child process.
        self.remedy = "it has no path, so its state is lost: create a new engine"

    def __enter__(self) -> None:
        if self.refused is not None:
            raise self.refused
        me, frame = get_ident(), sys._getframe(1)
        if self.owner == me:
            if _runs(self._frame, frame):
                self._depth += 1
                return
            self._take_over(me, self._frame)
        with self._guard:
            if not self.owner and not self._line:
                self.owner, self._frame, self._depth = me, frame, 1
        if self._frame is not frame:
            self._stand_in_line(_Waiting(me, frame))
        if self.change.begun:
            self.broken = True
        if self.broken:
            self._leave(me)
            raise self.refusal()

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        me = get_ident()
        if self.owner != me:  # It was interrupted while it gave way, and has left the line.
            self.writers.discard(me)
            return
        self._depth -= 1
        if self._depth > 0:
            return
        if self.change.begun:
            self.broken = True
        outstanding, self.outstanding = self.outstanding, False
        self._leave(me)
        if outstanding and not self.broken:
            raised = self._afterwards()
            if raised and kind is None:
                raise raised[0]

    def entered_at_once(self) -> bool:
        """Enters and returns True if no thread is inside or waits; `__exit__` ends that turn."""
        me, frame = get_ident(), sys._getframe(1)
        owner, inside = self.owner, self._frame
        if owner and not _runs(inside, sys._current_frames().get(owner)):
            self._take_over(owner, inside)
        with self._guard:
            if not self.owner and not self._line:
                self.owner, self._frame, self._depth = me, frame, 1
        return self._frame is frame

    def refusal(self) -> EngineBroken:
        """The error of every call to a broken engine."""
        return EngineBroken(
            "the engine was left in the middle of a change, by an interrupt or an error, and answers nothing any more",
            hint=self.remedy,
        )

    @property
    def free(self) -> bool:
        """Whether a thread could enter now without waiting."""
        return self.owner == 0 and not self._line

    @property
    def nested(self) -> bool:
        """Whether the thread inside has entered more than once."""
        return self._depth > 1

    def give_way(self) -> None:
        """Lets waiting threads in. The caller's state must be consistent. Nested turns do not give way."""
        if not self._line or self._depth != 1 or self._frame is None:
            return
        assert not self.change.begun, "a thread gives way only with consistent state"
        outstanding, self.outstanding = self.outstanding, False
        self._stand_in_line(_Waiting(self.owner, self._frame), leaving=True)
        self.outstanding = outstanding or self.outstanding
        if self.broken or self.change.begun:
            self.broken = True
            raise self.refusal()

    def check(self) -> None:
        """Refuses a call that needs no turn, if no thread can enter."""
        if self.refused is not None:
            raise self.refused
        if self.broken:
            raise self.refusal()

    def _stand_in_line(self, waiting: _Waiting, leaving: bool = False) -> None:
        """Returns when its turn begins. `leaving`: the caller is inside, and gives its turn to the first in line."""
        waiting.called.acquire()
        with self._guard:
            self._line.append(waiting)
            if leaving or not self.owner:
                self._call_next()
        abandoned: FrameType | None = None
        try:
            while not waiting.called.acquire(timeout=PATROL_S):
                frame, owner = self._frame, self.owner
                if frame is waiting.frame:  # Its turn was assigned, but an interrupt came before `release`.
                    return
                if frame is not None and frame is abandoned:
                    self._take_over(owner, frame)
                gone = frame is not None and not _runs(frame, sys._current_frames().get(owner))
                abandoned = frame if gone else None
        except BaseException:  # Threads behind must not wait for one that has gone.
            self._give_up(waiting)
            raise

    def _give_up(self, waiting: _Waiting) -> None:
        with self._guard:
            if waiting in self._line:
                self._line.remove(waiting)
            elif self._frame is waiting.frame:
                self._call_next()

    def _leave(self, me: int) -> None:
        if self.writers:
            self.writers.discard(me)
            self.left = monotonic()
        with self._guard:
            self._call_next()

    def _take_over(self, owner: int, frame: FrameType | None) -> None:
        """Ends the turn of a frame that does not run any more and has not ended it."""
        self.writers.discard(owner)
        with self._guard:
            if self._frame is frame:
                self._call_next()

    def _call_next(self) -> None:
        """Gives the turn to the first in line. The caller holds the guard."""
        if self._line:
            first = self._line[0]
            self.owner, self._frame, self._depth = first.thread, first.frame, 1
            self._line.popleft()
            first.called.release()
        else:
            self.owner, self._frame, self._depth = 0, None, 0


def _runs(frame: FrameType | None, stack: FrameType | None) -> bool:
    """Whether a frame is in a stack, which is given by its innermost frame."""
    while stack is not None and stack is not frame:
        stack = stack.f_back
    return stack is not None
