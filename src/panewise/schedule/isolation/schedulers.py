"""What a scheduler of reads and window moves is, what it is asked and what it decides: Golab 2006, section 7.4.

    begin(read)        a read wants to run
    choose()           which of the running reads goes next: the highest priority, then who came first
    next_step(name)    which sub-window that read is to scan now; None when nothing is left and it may commit
    move()             the next window move: what it means for running reads, or None where it has to wait
    commit(name)       the read is over; the last move that its answer reflects

The caller does each step before it makes the next request, which is all the atomicity that is assumed; it holds a lock
where threads are involved. A scheduler decides and touches no data. `recorded_scheduler.py` writes down what comes of
its decisions, `isolation.py` judges that.

    serial_scheduler          a move waits until no read is under way             Serial
    window_scheduler          reads see the window as of their first step         WS
    latest_window_scheduler   reads see the window as of their commit             LWS (algorithm 7), TTU (algorithm 8)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace

from panewise.errors import PanewiseError, did_you_mean
from panewise.schedule.isolation.read_orders import copy_of, sub_window_of, youngest_bits
from panewise.schedule.isolation.transactions import WindowMove, WindowRead, check_length


@dataclass(frozen=True, slots=True)
class Step:
    """Scan a sub-window; `undo`: scan this old copy, which is still kept, once more and take it out of the answer."""

    sub_window: int
    copy: int
    undo: bool = False


@dataclass(frozen=True, slots=True)
class Moved:
    """A move that has been let through, and what it does to running reads, each by its name."""

    move: WindowMove
    sub_window: int
    aborted: tuple[str, ...] = ()
    forwarded: tuple[tuple[str, int], ...] = ()
    """Rows inserted into these sub-windows are to be passed to these reads, which have scanned them already."""


@dataclass(slots=True)
class Running:
    """A read under way. Sets of sub-windows are bits by time to update, see `read_orders`."""

    read: WindowRead
    seen: int = 0


class Scheduler(ABC):
    """The state that all schedulers have: the last move, and the reads under way.

    Time: a request is a few operations on integers of n bits for each read under way. Space: n bits each.
    """

    follows_moves = True
    """Whether a read under way sees the window as moves leave it, and not as it was."""

    def __init__(self, sub_windows: int, last_move: int | None = None) -> None:
        self.sub_windows = sub_windows
        self.last_move = sub_windows - 1 if last_move is None else last_move
        self._running: dict[str, Running] = {}

    # -- reads ---------------------------------------------------------------------------------------------------------

    def begin(self, read: WindowRead) -> None:
        check_length(read.length, self.sub_windows)
        if read.name in self._running:
            raise PanewiseError(f"a read named '{read.name}' is under way")
        self._running[read.name] = self._started(read)

    def runnable(self) -> tuple[str, ...]:
        """The reads that may take a step now."""
        return tuple(self._running)

    def choose(self) -> str | None:
        """The runnable read to go on with."""
        best: Running | None = None
        for running in self._running.values():  # in the order of their arrival
            if best is None or running.read.priority > best.read.priority:
                best = running
        return None if best is None else best.read.name

    @abstractmethod
    def next_step(self, name: str) -> Step | None:
        """The step that the read has to take now; it counts as taken."""

    def is_complete(self, name: str) -> bool:
        """Whether the read has no steps left; the next move may change that."""
        return not self._unread(self._found(name))

    def commit(self, name: str) -> int:
        """Ends a read that has no steps left; gives the last move that its answer reflects."""
        assert self.is_complete(name), f"{name} has steps left"
        running = self._running.pop(name)
        return self._reflected(running)

    def abort(self, name: str) -> None:
        """Ends a read that is no longer wanted."""
        del self._running[self._found(name).read.name]

    # -- moves ---------------------------------------------------------------------------------------------------------

    @abstractmethod
    def move(
        self, inserted_into: frozenset[int] = frozenset(), lengths: Mapping[str, int] | None = None
    ) -> Moved | None:
        """The next move asks to be done; None where it has to be asked again later.

        `lengths`: how many sub-windows the windows of these reads span from now on, where sub-windows last unequally
        long and windows are given in time. A read that keeps the window of its first step takes no notice.
        """

    # -- what schedulers differ in -------------------------------------------------------------------------------------

    def _started(self, read: WindowRead) -> Running:
        return Running(read)

    @abstractmethod
    def _unread(self, running: Running) -> int:
        """The sub-windows that the read has still to scan."""

    @abstractmethod
    def _reflected(self, running: Running) -> int:
        """The last move that the answer of a read that has scanned everything reflects."""

    # -- for those below -----------------------------------------------------------------------------------------------

    def _found(self, name: str) -> Running:
        if name not in self._running:
            raise PanewiseError(f"no read '{name}' is under way", hint=did_you_mean(name, self._running))
        return self._running[name]

    def _window(self, length: int) -> int:
        return youngest_bits(length, self.sub_windows)

    def _scan(self, running: Running, bit: int) -> Step:
        running.seen |= 1 << bit
        return Step(
            sub_window_of(bit, self.sub_windows, self.last_move), copy_of(bit, self.sub_windows, self.last_move)
        )

    def _advance(self, lengths: Mapping[str, int] | None) -> None:
        """After the move every sub-window is one move nearer to its replacement."""
        self.last_move += 1
        for running in self._running.values():
            running.seen >>= 1
        for name, length in (lengths or {}).items():
            if name in self._running:
                check_length(length, self.sub_windows)
                self._running[name].read = replace(self._running[name].read, length=length)
