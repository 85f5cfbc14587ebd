"""Histories: the operations of reads and moves on sub-windows, in order. Golab 2006, section 7.3.1.

A history is a tuple of operations. Its text has the notation of the thesis:

    rQ1[0]   read Q1 scans sub-window 0                    w5[0]   move 5 replaces sub-window 0
    cQ1 c5   commit                                        aQ1     abort
    uQ1[0]   Q1 removes the copy of sub-window 0 that      i5[3]   move 5 also inserts rows into sub-window 3
             it had read from its answer                           (results of update pattern WEAK)
    fQ1[3]   rows inserted into sub-window 3, which Q1 had read, are passed to Q1

`u` is the re-scan of a kept old copy (end of section 7.4.2); `i` and `f` are from section 7.4.3. Moves 0 to
`filled` - 1 filled the window before the history begins, and are not part of it.

Invariant, checked when a history is made: moves come in the order of their numbers, write their own sub-window, and
commit once. A read does nothing after its end. Only sub-windows that were read are undone or passed on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from panewise.errors import PanewiseError
from panewise.schedule.isolation.transactions import check_length


class OperationKind(Enum):
    READ = "r"
    UNDO = "u"
    FORWARD = "f"
    WRITE = "w"
    INSERT = "i"
    COMMIT = "c"
    ABORT = "a"


OF_READS = frozenset({OperationKind.READ, OperationKind.UNDO, OperationKind.FORWARD, OperationKind.ABORT})
OF_MOVES = frozenset({OperationKind.WRITE, OperationKind.INSERT})
ENDS = frozenset({OperationKind.COMMIT, OperationKind.ABORT})
Transaction = int | str
"""A move by its number, a read by its name."""

_OPERATION = re.compile(r"([rufwica])(\d+|[A-Za-z]\w*)(?:\[(\d+)\])?")


@dataclass(frozen=True, slots=True)
class HistoryOperation:
    kind: OperationKind
    transaction: Transaction
    sub_window: int | None = None

    def __str__(self) -> str:
        place = "" if self.sub_window is None else f"[{self.sub_window}]"
        return f"{self.kind.value}{self.transaction}{place}"


@dataclass(frozen=True)
class History:
    """Operations over a window of `sub_windows`; `lengths` has the reads that do not read the whole window.

    >>> history = History.parse("rQ1[0] w2[0] c2 rQ1[1] cQ1", sub_windows=2)
    >>> str(history), history.committed_reads
    ('rQ1[0] w2[0] c2 rQ1[1] cQ1', ('Q1',))
    """

    operations: tuple[HistoryOperation, ...]
    sub_windows: int
    lengths: Mapping[str, int] = field(default_factory=dict)
    filled: int = -1
    """Number of moves before the history; -1 stands for `sub_windows`."""

    def __post_init__(self) -> None:
        if self.filled < 0:
            object.__setattr__(self, "filled", self.sub_windows)
        if self.filled < self.sub_windows:
            raise PanewiseError(f"{self.filled} moves do not fill a window of {self.sub_windows} sub-windows")
        for length in self.lengths.values():
            check_length(length, self.sub_windows)
        _Rules(self.sub_windows, self.filled).check(self.operations)

    @classmethod
    def parse(
        cls, text: str, *, sub_windows: int, lengths: Mapping[str, int] | None = None, filled: int = -1
    ) -> History:
        return cls(tuple(map(_operation, text.split())), sub_windows, dict(lengths or {}), filled)

    def __str__(self) -> str:
        return " ".join(map(str, self.operations))

    def length(self, read: str) -> int:
        return self.lengths.get(read, self.sub_windows)

    @property
    def committed_reads(self) -> tuple[str, ...]:
        """The committed reads, in the order of their commits."""
        return tuple(
            step.transaction
            for step in self.operations
            if step.kind is OperationKind.COMMIT and isinstance(step.transaction, str)
        )

    @property
    def moves(self) -> tuple[int, ...]:
        return tuple(
            step.transaction
            for step in self.operations
            if step.kind is OperationKind.WRITE and isinstance(step.transaction, int)
        )


def _operation(text: str) -> HistoryOperation:
    found = _OPERATION.fullmatch(text)
    if found is None:
        raise PanewiseError(f"'{text}' is not an operation of a history", hint="as in rQ1[0], w5[0], c5, cQ1, aQ1")
    kind, transaction, place = found.groups()
    return HistoryOperation(
        OperationKind(kind),
        int(transaction) if transaction.isdigit() else transaction,
        None if place is None else int(place),
    )


class _Rules:
    """Checks the invariant of a history; `_place`, `_of_move` and `_of_read` return the problem of an operation."""

    def __init__(self, sub_windows: int, filled: int) -> None:
        self._sub_windows = sub_windows
        self._next_move = filled
        self._open_moves: set[int] = set()
        self._ended: set[str] = set()
        self._seen: set[tuple[Transaction, int | None]] = set()

    def check(self, operations: Iterable[HistoryOperation]) -> None:
        for step in operations:
            wrong = self._place(step) or (
                self._of_move(step, step.transaction)
                if isinstance(step.transaction, int)
                else self._of_read(step, step.transaction)
            )
            if wrong:
                raise PanewiseError(f"{step} is not possible here in a history: {wrong}")
        if self._open_moves:
            raise PanewiseError(f"moves {sorted(self._open_moves)} do not commit; every window move must")

    def _place(self, step: HistoryOperation) -> str | None:
        if step.kind in ENDS:
            return None if step.sub_window is None else "a commit or abort has no sub-window"
        if step.sub_window is None or step.sub_window >= self._sub_windows:
            return f"sub-windows are 0 to {self._sub_windows - 1}"
        return None

    def _of_move(self, step: HistoryOperation, number: int) -> str | None:
        if step.kind in OF_READS:
            return "a move can only write, insert and commit"
        if step.kind is OperationKind.WRITE:
            if number != self._next_move or step.sub_window != number % self._sub_windows:
                return f"expected w{self._next_move}[{self._next_move % self._sub_windows}]"
            self._next_move += 1
            self._open_moves.add(number)
        elif number not in self._open_moves:
            return f"move {number} is not running"
        elif step.kind is OperationKind.COMMIT:
            self._open_moves.remove(number)
        elif number != self._next_move - 1:
            return f"move {self._next_move - 1} has begun since"
        return None

    def _of_read(self, step: HistoryOperation, name: str) -> str | None:
        if step.kind in OF_MOVES:
            return "a read cannot write"
        if name in self._ended:
            return f"{name} has ended"
        key = (name, step.sub_window)
        if step.kind in ENDS:
            self._ended.add(name)
        elif step.kind is OperationKind.READ:
            if key in self._seen:
                return f"{name} has already read sub-window {step.sub_window}"
            self._seen.add(key)
        elif key not in self._seen:
            return f"{name} has not read sub-window {step.sub_window}"
        elif step.kind is OperationKind.UNDO:
            self._seen.remove(key)
        return None


class HistoryBuilder:
    """Collects operations; `history` returns those so far."""

    def __init__(self, sub_windows: int, filled: int | None = None) -> None:
        self._sub_windows = sub_windows
        self._filled = sub_windows if filled is None else filled
        self._operations: list[HistoryOperation] = []
        self._lengths: dict[str, int] = {}

    def begin(self, read: str, length: int) -> None:
        self._lengths[read] = length

    def add(self, kind: OperationKind, transaction: Transaction, sub_window: int | None = None) -> None:
        self._operations.append(HistoryOperation(kind, transaction, sub_window))

    def history(self) -> History:
        return History(tuple(self._operations), self._sub_windows, dict(self._lengths), self._filled)
