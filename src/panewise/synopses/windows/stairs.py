"""The stairwise structure: windows that contain each other share pieces, coarser from stair to stair.

Windows form a chain if each is subsumable under the next (definition 1): its slide divides the next one's slide, and
its range is not longer. All windows of a chain that are due at an instant end there, so each window only adds what lies
before the start of the window below it:

      window 2   |==core 2==|                           range 12, slide 4: pieces of 4
      window 1              |.|=core 1=|                range  7, slide 2: pieces of 2
      window 0                         |==core 0==|     range  3, slide 1: slices
                             `buffer, not yet a piece   end

Slices that expire from a window pass to the buffer of the next stair. They stay in place; only boundaries move. When
the next window slides, the part of the buffer that fills pieces as long as its slide moves into its core; the rest,
shorter than a piece, stays in the buffer. The answer of a stair is core + buffer + the answer of the stair below. A
core is a queue of two stacks: each piece before `flip` has the combination from itself to `flip`, and the pieces after
`flip` are combined in one state. Windows of equal range share a stair ("piggybacked"). Invariant: the cores and buffers
of a chain tile the slices from the start of its last window to the common end.

Slides and ranges are observed, not declared: a window that was asked for three times in equal steps is arranged into
the chains (`stair_chains`). A window that fits no chain starts one. So does a window that moves irregularly, as windows
by time do over the slices of other queries; its pieces are single slices. A window that leaves its step is loose until
the windows are arranged again. Loose windows are combined from slices. They build on the next shorter window that was
just answered, or on their own last answer as long as their start does not move.

For any associative state, commutative or not. Insert O(1). An answer costs, amortised, 3 combinations plus the quotient
of its slide and the slide of the window below; at worst one per piece. The structure answers many ranges at once.
Because a chain has one common end, historical windows get chains of their own. Windows by time are treated like windows
by rows. Space: the slices, and two states per slice of the longest window of each chain. Source: Patroumpas and Sellis
2011, sections 2.3, 3.1, 3.2 and 4.
"""

from __future__ import annotations

import numpy as np

from panewise.aggregates.matrix import identity
from panewise.aggregates.states import StateKind
from panewise.arrays import Floats, Ints
from panewise.synopses.counting import loops_for, new_counter
from panewise.synopses.slice_ring import SliceRing
from panewise.synopses.windows.stair_chains import chains_of
from panewise.synopses.windows.stairs_loops import (
    ABOVE,
    AGREED,
    BELOW,
    END,
    HOST,
    LOOPS,
    MOVES,
    PLACE,
    RANGE,
    RESTLESS,
    ROOM,
    ROWS,
    SEEN_END,
    SLIDE,
    STEP,
    loosen,
)  # fmt: skip


class Stairs(SliceRing):
    """The ring of slices, the pieces of all chains, and for each stair the state of its newer stack and its answer."""

    def __init__(self, kind: StateKind, width: int) -> None:
        super().__init__(kind, width)
        self.counter = new_counter()
        self.choose_loops(counted=False)
        self._table: Ints = np.full((ROWS, 0), -1, np.int64)
        self._places = 0
        self._asked = 0
        self._arrange_at = 0  # number of answers from which windows may be arranged again; it grows, to keep this rare
        self._renew()

    def choose_loops(self, counted: bool) -> None:
        self._answer = loops_for(LOOPS, self.kind, counted)["answer_stairs"]

    def _renew(self) -> None:
        """The windows keep their stairs, but each stair has to be rebuilt."""
        self._table[END] = -1
        windows = self._table.shape[1]
        self._lengths = np.ones(self._places, np.int64)
        self._pieces = identity(self.kind, self._places * self.width)
        self._suffixes = identity(self.kind, self._places * self.width)
        self._backs = identity(self.kind, windows * self.width)
        self._wholes = identity(self.kind, windows * self.width)
        self._visited = np.empty(int(self._table[ROOM].max(initial=1)), np.int64)

    @property
    def chains(self) -> list[list[int]]:
        """The windows of each chain, the shortest first, without piggybacked ones."""
        table = self._table
        own = np.flatnonzero(table[HOST] == np.arange(table.shape[1]))
        result = [[seed] for seed in own.tolist() if table[BELOW, seed] < 0]
        for chain in result:
            while (above := int(table[ABOVE, chain[-1]])) >= 0:
                chain.append(above)
        return result

    def _arrange(self) -> None:
        """Gives every steady and every restless window a stair, and resets all stairs."""
        table = self._table
        steady = np.flatnonzero(table[AGREED] > 0)
        restless = np.flatnonzero((table[MOVES] >= RESTLESS) & (table[AGREED] <= 0))
        chains = chains_of(table[RANGE, steady], table[SLIDE, steady], table[SEEN_END, steady])
        for row in (HOST, BELOW, ABOVE, ROOM):
            table[row] = -1
        self._places = 0
        for chain in chains:
            windows = steady[chain.windows]
            table[STEP, windows] = table[SLIDE, windows]
            self._stack(windows, int((table[RANGE, windows] + 2 * table[SLIDE, windows]).max()))
            for window, host in chain.piggybacked.items():
                table[HOST, steady[window]] = steady[host]
        for place in range(len(restless)):
            alone = restless[place : place + 1]
            table[STEP, alone] = 1
            self._stack(alone, int((2 * table[RANGE, alone] + np.abs(table[SLIDE, alone])).max()))
        self._renew()

    def _make_columns(self, count: int) -> None:
        """Makes columns for at least this many windows."""
        known = self._table.shape[1]
        if count <= known:
            return
        table = np.full((ROWS, max(count, 2 * known)), -1, np.int64)
        table[[AGREED, MOVES]] = 0
        table[:, :known] = self._table
        self._table = table
        for name in ("_backs", "_wholes"):
            new = identity(self.kind, table.shape[1] * self.width)
            for array, old in zip(new, getattr(self, name), strict=True):
                array[:, : old.shape[1]] = old
            setattr(self, name, new)

    def drop_window(self, window: int) -> None:
        """Removes its stair. The windows of the stairs above become loose until they are seen to be steady again."""
        if window < self._table.shape[1]:
            if self._table[HOST, window] == window:
                loosen(self._table, window)
            self._table[:, window] = -1
            self._table[[AGREED, MOVES], window] = 0
            self._arrange_at = 0

    def _stack(self, windows: Ints, slices: int) -> None:
        """Makes these windows a chain with places for at least this many slices."""
        room = 1 << max(slices, 1).bit_length()
        self._table[HOST, windows] = windows
        self._table[BELOW, windows[1:]] = windows[:-1]
        self._table[ABOVE, windows[:-1]] = windows[1:]
        self._table[PLACE, windows], self._table[ROOM, windows] = self._places, room
        self._places += room

    @property
    def bytes_held(self) -> int:
        states = (*self._pieces, *self._suffixes, *self._backs, *self._wholes)
        own = (self._table, self._lengths, self._visited, *states)
        return super().bytes_held + sum(array.nbytes for array in own)

    def int_arrays(self) -> list[Ints]:
        return [self._ints, self._pieces[0], self._suffixes[0], self._backs[0], self._wholes[0]]

    def answer(
        self, starts: Ints, ends: Ints, ranks: Ints, groups: int | None = None, windows: Ints | None = None
    ) -> tuple[Ints, Floats]:
        count, groups = len(starts), self.width if groups is None else groups
        windows = np.zeros(count, np.int64) if windows is None else windows
        self._make_columns(int(windows.max(initial=-1)) + 1)
        ints, floats = identity(self.kind, count * groups)
        done = 0
        while done < count:
            begin, arrange_from = done, max(0, self._arrange_at - self._asked)
            done, waiting = self._answer(
                int(self.kind.operation), self._ints, self._floats, self._room, self.width, groups, self._table,
                self._lengths, *self._pieces, *self._suffixes, *self._backs, *self._wholes, self._visited, begin,
                arrange_from, starts, ends, windows, ints, floats, ranks, self.counter,
            )  # fmt: skip
            if waiting:
                self._arrange()
                self._arrange_at = (self._asked + done) * 5 // 4 + len(self._table[0])
        self._asked += count
        shape = count, groups
        return ints.reshape(self.kind.int_fields, *shape), floats.reshape(self.kind.float_fields, *shape)
