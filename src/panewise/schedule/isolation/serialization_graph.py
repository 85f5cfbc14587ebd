"""The serialization graph of a history, and levels by theorems 7.1 and 7.2: Golab 2006, section 7.3.

Nodes are moves and committed reads. An edge leads from the transaction whose conflicting operation came first. Edges
that follow from others may be missing: a read has edges only to the move whose copy it saw and to the one that replaced
this copy.

    WROTE       move j -> read    the read saw copy j, or rows that j inserted
    REPLACED    read -> move      the move replaced, or inserted into, what the read had seen before
    REWROTE     move -> move      both wrote the same sub-window
    EXPIRED     read -> move      the move took a copy that the read saw out of the read's own, shorter window

The theorems are stated for reads of the whole window. A shorter read may not scan the sub-window that a move replaces,
so an inconsistent window would show no conflict. With EXPIRED, which for a whole window equals REPLACED, both theorems
hold for every length (as the proof of theorem 7.3 argues). It is not a conflict in the classical sense: acyclicity and
commit order consider only the other three.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import Enum
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from panewise.schedule.isolation.histories import History, HistoryOperation, OperationKind, Transaction


class Why(Enum):
    WROTE = "wrote"
    REPLACED = "replaced"
    REWROTE = "rewrote"
    EXPIRED = "expired"


@dataclass(frozen=True)
class Edge:
    before: Transaction
    after: Transaction
    why: Why


@dataclass(frozen=True)
class SerializationGraph:
    """The graph of one history. It has moves from before the history too, if reads saw their copies."""

    history: History
    edges: frozenset[Edge]
    whole_reads: frozenset[str]
    """Committed reads that saw all sub-windows of their window."""

    def conflicts(self) -> frozenset[Edge]:
        return frozenset(edge for edge in self.edges if edge.why is not Why.EXPIRED)

    def is_acyclic(self) -> bool:
        sorter: TopologicalSorter[Transaction] = TopologicalSorter()
        for edge in self.conflicts():
            sorter.add(edge.after, edge.before)
        try:
            sorter.prepare()
        except CycleError:
            return False
        return True

    def preserves_commit_order(self) -> bool:
        """Commit-order preserving serializability (section 7.6)."""
        commits = {
            s.transaction: place for place, s in enumerate(self.history.operations) if s.kind is OperationKind.COMMIT
        }
        return all(
            commits.get(edge.before, -1) < commits.get(edge.after, -1) for edge in self.conflicts() if self._in(edge)
        )

    def is_window_serializable(self) -> bool:
        """Theorem 7.1: moves before a read have smaller numbers than moves after it."""
        return (
            all(
                max(self._moves_before(read), default=-1) < min(self._moves_after(read), default=self._beyond)
                for read in self.history.committed_reads
            )
            and self._all_whole()
        )

    def is_latest_window_serializable(self) -> bool:
        """Theorem 7.2: no move that wrote before a read's commit comes after the read."""
        written = self.history.filled - 1
        latest: dict[Transaction, int] = {}
        for step in self.history.operations:
            if step.kind is OperationKind.WRITE:
                written += 1
            elif step.kind is OperationKind.COMMIT:
                latest[step.transaction] = written
        return self._all_whole() and all(
            min(self._moves_after(read), default=self._beyond) > latest[read] for read in self.history.committed_reads
        )

    @property
    def _beyond(self) -> int:
        """A number greater than that of any move."""
        return self.history.filled + len(self.history.operations)

    def _in(self, edge: Edge) -> bool:
        """Whether both ends are in the history. Moves that filled the window committed before it."""
        return not any(isinstance(end, int) and end < self.history.filled for end in (edge.before, edge.after))

    def _all_whole(self) -> bool:
        return self.whole_reads.issuperset(self.history.committed_reads)

    def _moves_before(self, read: str) -> list[int]:
        return [edge.before for edge in self.edges if edge.after == read and isinstance(edge.before, int)]

    def _moves_after(self, read: str) -> list[int]:
        return [edge.after for edge in self.edges if edge.before == read and isinstance(edge.after, int)]


def serialization_graph(history: History) -> SerializationGraph:
    """
    >>> graph = serialization_graph(History.parse("rQ[0] w2[0] c2 rQ[1] cQ", sub_windows=2))
    >>> [(edge.before, edge.after) for edge in graph.edges if edge.why is Why.REPLACED]
    [('Q', 2)]
    """
    by_place: defaultdict[int, list[tuple[int, HistoryOperation]]] = defaultdict(list)
    committed = frozenset(history.committed_reads)
    for place, step in enumerate(history.operations):
        if step.sub_window is not None and (isinstance(step.transaction, int) or step.transaction in committed):
            by_place[step.sub_window].append((place, step))
    last_move = history.filled - 1 + len(history.moves)
    edges: set[Edge] = set()
    seen: defaultdict[str, int] = defaultdict(int)
    for sub_window, steps in by_place.items():
        first_copy = _copy_before(history, sub_window)
        by_moves = [(place, step.kind, step.transaction) for place, step in steps if isinstance(step.transaction, int)]
        edges |= _edges_of_moves([move for _, _, move in by_moves], first_copy)
        for read, since, passed in _reads_in_effect(steps):
            seen[read] += 1
            copy, own = _edges_of_read(read, since, passed, by_moves, first_copy)
            edges |= own
            if copy + history.length(read) <= last_move:
                edges.add(Edge(read, copy + history.length(read), Why.EXPIRED))
    whole = frozenset(read for read in committed if seen[read] == history.length(read))
    return SerializationGraph(history, frozenset(edges), whole)


def _copy_before(history: History, sub_window: int) -> int:
    """The copy in a sub-window when the history begins."""
    last = history.filled - 1
    return last - (last - sub_window) % history.sub_windows


def _edges_of_moves(moves: list[int], first_copy: int) -> set[Edge]:
    return {Edge(before, after, Why.REWROTE) for before, after in pairwise((first_copy, *moves)) if before != after}


def _reads_in_effect(steps: list[tuple[int, HistoryOperation]]) -> list[tuple[str, int, frozenset[int]]]:
    """Reads of one sub-window that were not undone: the read, its place, and the moves whose inserts it was passed."""
    found: dict[str, tuple[int, frozenset[int]]] = {}
    latest_insert = -1
    for place, step in steps:
        if isinstance(step.transaction, int):
            latest_insert = step.transaction if step.kind is OperationKind.INSERT else -1
        elif step.kind is OperationKind.READ:
            found[step.transaction] = (place, frozenset())
        elif step.kind is OperationKind.UNDO:
            del found[step.transaction]
        else:
            since, passed = found[step.transaction]
            found[step.transaction] = (since, passed | {latest_insert})
    return [(read, since, passed) for read, (since, passed) in found.items()]


def _edges_of_read(
    read: str, since: int, passed: frozenset[int], by_moves: list[tuple[int, OperationKind, int]], first_copy: int
) -> tuple[int, set[Edge]]:
    """The copy that was read, and the edges between the read and the moves of one sub-window."""
    copy, edges, replaced = first_copy, set(), False
    for place, kind, move in by_moves:
        if place < since and kind is OperationKind.WRITE:
            copy = move
        if place < since or (kind is OperationKind.INSERT and move in passed):
            edges.add(Edge(move, read, Why.WROTE))
        elif not replaced:
            edges.add(Edge(read, move, Why.REPLACED))
            replaced = kind is OperationKind.WRITE
    edges.add(Edge(copy, read, Why.WROTE))
    return copy, edges
