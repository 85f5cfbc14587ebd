"""A tree of the weave: longer slices, made of the store's own slices, for members whose windows have few edges.

A store cuts slices where any window of any member begins or ends. If one member slides by a minute and another by a
second, the windows of the first consist of sixty times more slices than necessary. In a tree of its own, one slice is
enough:

    the store's slices     |-|-|-|-|-|-|-|-|-|-|-|-|        folded once for all
    a tree's slices        |-----|-----|-----|-----|        each an answer of the store's own synopses

A slice of a tree is the cell between two adjacent edges of its members' windows. It is made when the watermark has
passed its end. A slice of the store may be older than a member and therefore extend over an edge of the tree; it is not
divided. A tree is derived from the store's slices: it is never written to disk, and it is rebuilt when groups, states,
codes of strings or members change. The weave may therefore change between any two flushes, and no report is lost,
duplicated or changed. Source: Shein and Chrysanthis 2020, section 3.1.1 (TriWeave).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from panewise.arrays import Ints
from panewise.operators.arguments import ranks_of
from panewise.operators.family.sought_windows import Answers, SoughtWindows, Technique
from panewise.plan.aggregation import ROW_COUNT, Pools, StateKey
from panewise.slicing.pairs import Cadence
from panewise.slicing.window_set import WindowSet
from panewise.synopses.synopsis import Synopsis


class FinestSlices(Protocol):
    """The store from whose slices a tree makes its own."""

    pools: Pools
    same_as_rows: list[StateKey]

    @property
    def first(self) -> int: ...

    @property
    def synopses(self) -> dict[StateKey, Synopsis]: ...

    @property
    def starts(self) -> Ints: ...

    @property
    def ends(self) -> Ints: ...

    def synopsis_for(self, key: StateKey, technique: Technique) -> Synopsis: ...


class Tree:
    """Some members of a family: their windows, slices and synopses."""

    def __init__(self, store: FinestSlices, technique: Technique) -> None:
        self._store = store
        self.technique = technique
        self.windows = WindowSet()
        self.synopses: dict[StateKey, Synopsis] = {}
        self.first = 0
        self.starts: Ints = np.empty(0, np.int64)
        self.ends: Ints = np.empty(0, np.int64)
        self._taken: int | None = None  # the tree covers the store's slices before this number; None: rebuild it

    @property
    def bytes_held(self) -> int:
        return sum(synopsis.bytes_held for synopsis in self.synopses.values())

    def add(self, cadence: Cadence) -> None:
        if self.windows.add(cadence):
            self.discard()

    def remove(self, cadence: Cadence, number: int) -> None:
        """No member asks for this window again. Its edges stay until the tree is rebuilt, which does no harm."""
        self.windows.remove(cadence)
        for synopsis in self.synopses.values():
            synopsis.drop_window(number)

    def discard(self) -> None:
        """The store's slices or the windows have changed: the tree is rebuilt when it is next used."""
        self._taken = None

    def take_in(self, watermark: int) -> None:
        """Makes slices of the cells that the watermark has passed."""
        store = self._store
        if self._taken is None:
            self.first, self._taken = 0, store.first
            self.starts = self.ends = np.empty(0, np.int64)
            self.synopses = {key: store.synopsis_for(key, self.technique) for key in store.synopses}
        begin = self._taken - store.first
        starts, ends = store.starts[begin:], store.ends[begin:]
        if not len(starts):
            return
        cells = np.minimum(next_edges(self.windows, starts), np.iinfo(np.int64).max)
        cells = np.where(ends > cells, ends, cells)  # slices that extend over an edge
        count = int(np.searchsorted(cells, watermark, side="right"))
        if not count:
            return
        firsts = np.flatnonzero(np.diff(cells[:count], prepend=cells[0] - 1))
        numbers = self._taken + np.append(firsts, count)
        for key, synopsis in self.synopses.items():
            ranks = ranks_of(key, store.pools)
            ints, floats = store.synopses[key].answer(numbers[:-1], numbers[1:], ranks)
            synopsis.insert(ints, floats, ranks)
        self.starts = np.concatenate([self.starts, starts[firsts]])
        self.ends = np.concatenate([self.ends, ends[numbers[1:] - self._taken - 1]])
        self._taken += count

    def evict(self) -> None:
        """Evicts what the store has evicted."""
        store = self._store
        if self._taken is None:
            return
        if store.first > self._taken:
            self.discard()
            return
        held = int(store.starts[0]) if len(store.starts) else np.iinfo(np.int64).max
        gone = int(np.searchsorted(self.starts, held, side="left"))
        if gone:
            self.first += gone
            self.starts, self.ends = self.starts[gone:], self.ends[gone:]
            for synopsis in self.synopses.values():
                synopsis.evict(self.first)

    def answers(self, keys: list[StateKey], sought: SoughtWindows) -> Answers:
        """The states of the windows, as from the store; all states have a fixed size."""
        result: Answers = {}
        for key in dict.fromkeys([ROW_COUNT, *keys]):
            kept = ROW_COUNT if key in self._store.same_as_rows else key
            if kept not in result:
                ranks = ranks_of(kept, self._store.pools)
                result[kept] = self.synopses[kept].answer(
                    sought.starts, sought.ends, ranks, sought.groups, sought.numbers
                )
            result[key] = result[kept]
        return result


def next_edges(windows: WindowSet, points: Ints) -> Ints:
    """For each point, the first edge of any window after it."""
    slides, phases = windows.edges
    result = np.full(len(points), np.iinfo(np.int64).max)
    for slide, phase in zip(slides.tolist(), phases.tolist(), strict=True):
        np.minimum(result, points - (points - phase) % slide + slide, out=result)
    return result
