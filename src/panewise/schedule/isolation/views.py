"""What each committed read of a history saw, found by a replay of the history.

A sub-window holds a copy and, in WEAK results, rows that later moves inserted into it. Its *content* is the number of
the copy and the numbers of the moves that inserted rows. A read's *view* is the content of every sub-window that counts
in its answer. Time: one step per operation. Space: the views.
"""

from __future__ import annotations

from dataclasses import dataclass

from panewise.schedule.isolation.histories import History, OperationKind
from panewise.schedule.isolation.transactions import copies_of_window


@dataclass(frozen=True)
class Content:
    copy: int
    inserts: frozenset[int] = frozenset()

    def with_insert(self, move: int) -> Content:
        return Content(self.copy, self.inserts | {move})


View = dict[int, Content]
"""Contents by sub-window."""


@dataclass(frozen=True)
class CommittedRead:
    name: str
    length: int
    view: View
    last_move_at_commit: int

    @property
    def youngest(self) -> int:
        return max((content.copy for content in self.view.values()), default=-1)


@dataclass(frozen=True)
class Replay:
    """The committed reads in the order of their commits, the inserts into copies, and the final contents."""

    reads: tuple[CommittedRead, ...]
    inserts: dict[int, tuple[int, ...]]
    """By copy, the moves that inserted into it, in order."""
    final: View

    def state(self, move: int, length: int, sub_windows: int) -> View:
        """The window as of a move: the view of a read that runs alone after it."""
        return {
            copy % sub_windows: Content(copy, frozenset(by for by in self.inserts.get(copy, ()) if by <= move))
            for copy in copies_of_window(move, length)
        }


def replay(history: History) -> Replay:
    last_move = history.filled - 1
    held = {copy % history.sub_windows: Content(copy) for copy in copies_of_window(last_move, history.sub_windows)}
    views: dict[str, View] = {}
    inserts: dict[int, tuple[int, ...]] = {}
    reads: list[CommittedRead] = []
    for step in history.operations:
        if isinstance(step.transaction, int):
            if step.sub_window is None:
                continue
            if step.kind is OperationKind.WRITE:
                last_move = step.transaction
                held[step.sub_window] = Content(last_move)
            else:
                content = held[step.sub_window]
                held[step.sub_window] = content.with_insert(step.transaction)
                inserts[content.copy] = (*inserts.get(content.copy, ()), step.transaction)
            continue
        view = views.setdefault(step.transaction, {})
        if step.sub_window is None:
            if step.kind is OperationKind.COMMIT:
                length = history.length(step.transaction)
                reads.append(CommittedRead(step.transaction, length, view, last_move))
        elif step.kind is OperationKind.READ:
            view[step.sub_window] = held[step.sub_window]
        elif step.kind is OperationKind.UNDO:
            del view[step.sub_window]
        elif last_move in held[step.sub_window].inserts:
            view[step.sub_window] = view[step.sub_window].with_insert(last_move)
    return Replay(tuple(reads), inserts, held)
