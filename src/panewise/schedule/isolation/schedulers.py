"""The contract of schedulers of reads and window moves: Golab 2006, section 7.4.

    begin(read)        starts a read
    choose()           the read that goes next: the highest priority, then the earliest
    next_step(name)    the sub-window that the read must scan now; None if it has scanned all and may commit
    move()             the next window move and its effect on running reads; None if the move must wait
    commit(name)       ends a read; returns the last move that its answer reflects

The caller carries out each step before it makes the next request, under a lock if there are several threads. No other
atomicity is assumed. A scheduler decides, and touches no data. `recorded_scheduler.py` records its decisions, and
`levels.py` judges them.

    serial_scheduler          a move waits until no read is running               Serial
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
    """Scan a sub-window. `undo`: scan this old copy, which was kept, again, and take it out of the answer."""

    sub_window: int
    copy: int
    undo: bool = False


@dataclass(frozen=True, slots=True)
class Moved:
    """A move that was allowed, and its effect on running reads, by name."""

    move: WindowMove
    sub_window: int
    aborted: tuple[str, ...] = ()
    forwarded: tuple[tuple[str, int], ...] = ()
    """Pairs of a read and a sub-window that it has scanned: pass the rows inserted there to the read."""


@dataclass(slots=True)
class Running:
    """A running read. `seen`: the sub-windows that it has scanned, as bits by time to update (`read_orders`)."""

    read: WindowRead
    seen: int = 0


class Scheduler(ABC):
    """The common state of schedulers: the last move, and the running reads.

    Time: a request takes a few operations on integers of n bits for each running read. Space: n bits each.
    """

    follows_moves = True
    """Whether a running read sees the moves that happen after its first step."""

    def __init__(self, sub_windows: int, last_move: int | None = None) -> None:
        self.sub_windows = sub_windows
        self.last_move = sub_windows - 1 if last_move is None else last_move
        self._running: dict[str, Running] = {}

    # -- reads ---------------------------------------------------------------------------------------------------------

    def begin(self, read: WindowRead) -> None:
        check_length(read.length, self.sub_windows)
        if read.name in self._running:
            raise PanewiseError(f"a read named '{read.name}' is already running")
        self._running[read.name] = self._started(read)

    def runnable(self) -> tuple[str, ...]:
        """The reads that may take a step now."""
        return tuple(self._running)

    def choose(self) -> str | None:
        """The runnable read that goes next."""
        best: Running | None = None
        for running in self._running.values():  # in the order of their arrival
            if best is None or running.read.priority > best.read.priority:
                best = running
        return None if best is None else best.read.name

    @abstractmethod
    def next_step(self, name: str) -> Step | None:
        """The step that the read must take now. It counts as taken when this returns."""

    def is_complete(self, name: str) -> bool:
        """Whether the read has no steps left. A later move may change that."""
        return not self._unread(self._found(name))

    def commit(self, name: str) -> int:
        """Ends a read that has no steps left. Returns the last move that its answer reflects."""
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
        """Asks for the next move. None: it must wait, and be requested again later.

        `lengths`: the new lengths, in sub-windows, of the windows of these reads, if sub-windows have unequal durations
        and windows are given in time. A scheduler whose reads keep the window of their first step ignores it.
        """

    # -- what schedulers override --------------------------------------------------------------------------------------

    def _started(self, read: WindowRead) -> Running:
        return Running(read)

    @abstractmethod
    def _unread(self, running: Running) -> int:
        """The sub-windows that the read must still scan."""

    @abstractmethod
    def _reflected(self, running: Running) -> int:
        """The last move that the answer of a complete read reflects."""

    # -- for subclasses ------------------------------------------------------------------------------------------------

    def _found(self, name: str) -> Running:
        if name not in self._running:
            raise PanewiseError(f"no read '{name}' is running", hint=did_you_mean(name, self._running))
        return self._running[name]

    def _window(self, length: int) -> int:
        return youngest_bits(length, self.sub_windows)

    def _scan(self, running: Running, bit: int) -> Step:
        running.seen |= 1 << bit
        return Step(
            sub_window_of(bit, self.sub_windows, self.last_move), copy_of(bit, self.sub_windows, self.last_move)
        )

    def _advance(self, lengths: Mapping[str, int] | None) -> None:
        """Makes the move: every sub-window is one move nearer to its replacement."""
        self.last_move += 1
        for running in self._running.values():
            running.seen >>= 1
        for name, length in (lengths or {}).items():
            if name in self._running:
                check_length(length, self.sub_windows)
                self._running[name].read = replace(self._running[name].read, length=length)
