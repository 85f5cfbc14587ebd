"""A tree of the weave: longer slices, made of a store's own, for the members whose windows have few edges.

A store cuts slices where any window of any member begins or ends. A member that slides by the minute beside one that
slides by the second has sixty slices where one would do. In a tree of its own it has that one:

    the store's slices     |-|-|-|-|-|-|-|-|-|-|-|-|        folded once for all
    a tree's slices        |-----|-----|-----|-----|        each an answer of the store's own synopses

A tree's slice is a cell between two edges of its members' windows, made when the watermark has passed its end. A slice
of the store that reaches over an edge of the tree, because it is older than the member that has the edge, stays what it
is. Everything here follows from the store's slices: nothing is written down, and what has changed too much (groups,
states, codes of strings, members) is made anew from them. So a weave can be changed between any two flushes, and no
report is lost, doubled or changed by it. Source: Shein and Chrysanthis 2020, section 3.1.1 (TriWeave).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from panewise.arrays import Ints
from panewise.operators.arguments import ranks_of
from panewise.operators.family.past_reports import Answers, SoughtReports, Technique
from panewise.plan.aggregation import ROW_COUNT, Pools, StateKey
from panewise.slicing.pairs import Cadence
from panewise.slicing.window_set import WindowSet
from panewise.synopses.synopsis import Synopsis


class FinestSlices(Protocol):
    """What a tree asks of the store whose slices its own are made of."""

    first: int
    pools: Pools
    synopses: dict[StateKey, Synopsis]
    same_as_rows: list[StateKey]

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
        self._taken: int | None = None  # the store's slices before this number are in; None: to be made anew

    @property
    def bytes_held(self) -> int:
        return sum(synopsis.bytes_held for synopsis in self.synopses.values())

    def add(self, cadence: Cadence) -> None:
        if self.windows.add(cadence):
            self.make_anew()

    def remove(self, cadence: Cadence, number: int) -> None:
        """A window that will not be asked for again; its edges stay until the tree is made anew, and do no harm."""
        self.windows.remove(cadence)
        for synopsis in self.synopses.values():
            synopsis.drop_window(number)

    def make_anew(self) -> None:
        """The store's slices are not what they were, or are wanted in another way."""
        self._taken = None

    def take_in(self, watermark: int) -> None:
        """Cells that the watermark has passed become slices."""
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
        cells = np.where(ends > cells, ends, cells)  # it reaches over an edge
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
        """Forgets what the store has forgotten."""
        store = self._store
        if self._taken is None:
            return
        if store.first > self._taken:
            self.make_anew()
            return
        held = int(store.starts[0]) if len(store.starts) else np.iinfo(np.int64).max
        gone = int(np.searchsorted(self.starts, held, side="left"))
        if gone:
            self.first += gone
            self.starts, self.ends = self.starts[gone:], self.ends[gone:]
            for synopsis in self.synopses.values():
                synopsis.evict(self.first)

    def answers(self, keys: list[StateKey], sought: SoughtReports) -> Answers:
        """As those of the store; all states have a fixed size."""
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
    """For each point the first edge of some window after it."""
    slides, phases = windows.edges
    result = np.full(len(points), np.iinfo(np.int64).max)
    for slide, phase in zip(slides.tolist(), phases.tolist(), strict=True):
        np.minimum(result, points - (points - phase) % slide + slide, out=result)
    return result
