"""Two stacks over sparse slices: one window over very many groups, where each slice has partials of few groups.

A slice is a list of (group, partial). Per group the window is `front[group]` combined with `back[group]`. New partials
are combined into the back. When the front is used up, the slices are flipped into it, newest first, and for each
partial the previous state of the front is kept. Evicting a slice restores these states:

    flip:    undo[slice, group] = front[group];  front[group] = partial + front[group]
    evict:   front[group] = undo[slice, group]          for the groups of the oldest slice only

So insert and evict touch only the groups of the slice, amortised O(1) each. Nothing is subtracted, so the result is
exact for doubles, and any associative state will do. Invertible states need no flip: they are added and subtracted.
Memory: two states per group, one or two per partial held. Source: two stacks, in Shein and Chrysanthis 2020, section
2.2.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from panewise.aggregates import kernels
from panewise.aggregates.kernels import combine_run
from panewise.aggregates.matrix import identity
from panewise.aggregates.states import StateKind
from panewise.aggregates.user import combine_of
from panewise.arrays import Floats, Ints
from panewise.loops import compiled_loop, specialised


@compiled_loop
def _append(
    operation: int, ints: Ints, floats: Floats, groups: Ints, part_ints: Ints, part_floats: Floats, ranks: Ints
) -> None:
    one = 1 + 0 * groups.shape[0]  # not a literal, because Numba compiles again for each literal argument
    for j in range(groups.shape[0]):
        combine_run(operation, ints, floats, groups[j], part_ints, part_floats, j, one, ranks)


@compiled_loop
def _prepend(
    operation: int, ints: Ints, floats: Floats, groups: Ints, part_ints: Ints, part_floats: Floats, ranks: Ints
) -> None:
    """Combines the groups' states with `part`, in place in `part`; the caller copies the result to the groups."""
    one = 1 + 0 * groups.shape[0]
    for j in range(groups.shape[0]):
        combine_run(operation, part_ints, part_floats, j, ints, floats, groups[j], one, ranks)


class SparseTwoStacks:
    """The two stacks of one window, for one kind of state and many groups."""

    def __init__(self, kind: StateKind, groups: int, endless: bool = False) -> None:
        self.kind = kind
        self.endless = endless  # nothing is ever evicted, so slices need not be kept
        self.subtracts = kind.algebra.invertible and not kind.float_fields
        self._append, self._prepend = _append, _prepend
        combine = combine_of(kind)
        if combine is not None:
            name = "chosen" if combine is kernels.combine_chosen else None
            self._append = specialised(_append, name, combine_run=combine)
            self._prepend = specialised(_prepend, name, combine_run=combine)
        self._back = identity(kind, groups)
        self._front = identity(kind, 0 if self.subtracts else groups)
        self._undo: deque[tuple[Ints, Floats]] = deque()  # previous front states, per slice in the front, oldest first
        self._back_slices: deque[tuple[Ints, Ints, Floats]] = deque()  # oldest first

    @property
    def groups(self) -> int:
        return int(max(self._back[0].shape[1], self._back[1].shape[1]))

    @property
    def bytes_held(self) -> int:
        arrays = [*self._back, *self._front, *(a for undo in self._undo for a in undo)]
        return sum(a.nbytes for a in arrays)

    def int_arrays(self) -> list[Ints]:
        """The int64 fields of all its own states. The states of slices belong to whoever inserted them."""
        return [self._back[0], self._front[0], *(ints for ints, _ in self._undo)]

    def widen(self, groups: int) -> None:
        for pair in ("_back", "_front"):
            if pair == "_front" and self.subtracts:
                continue
            wider = identity(self.kind, groups)
            for new, old in zip(wider, getattr(self, pair), strict=True):
                new[:, : old.shape[1]] = old
            setattr(self, pair, wider)

    def regroup(self, kept: Ints, renamed: Ints, groups: int) -> None:
        """Keeps only these groups. `renamed` has the new number of each old group."""
        for pair in ("_back", "_front"):
            if pair == "_front" and self.subtracts:
                continue
            smaller = identity(self.kind, groups)
            for new, old in zip(smaller, getattr(self, pair), strict=True):
                new[:, : len(kept)] = old[:, kept]
            setattr(self, pair, smaller)
        self._back_slices = deque((renamed[held], ints, floats) for held, ints, floats in self._back_slices)

    def insert(self, groups: Ints, ints: Ints, floats: Floats, ranks: Ints) -> None:
        """Adds a newer slice to the window."""
        if self.subtracts:
            self._back[0][:, groups] += ints
            return
        self._append(int(self.kind.operation), *self._back, groups, ints, floats, ranks)
        if not self.endless:
            self._back_slices.append((groups, ints, floats))

    def evict(self, groups: Ints, ints: Ints, floats: Floats, ranks: Ints) -> None:
        """Removes the oldest slice, which the caller passes again."""
        if self.subtracts:
            self._back[0][:, groups] -= ints
            return
        if not self._undo:
            self._flip(ranks)
        for front, old in zip(self._front, self._undo.popleft(), strict=True):
            front[:, groups] = old

    def _flip(self, ranks: Ints) -> None:
        for groups, ints, floats in reversed(self._back_slices):
            self._undo.appendleft((self._front[0][:, groups], self._front[1][:, groups]))
            part = ints.copy(), floats.copy()
            self._prepend(int(self.kind.operation), *self._front, groups, *part, ranks)
            for front, new in zip(self._front, part, strict=True):
                front[:, groups] = new
        self._back_slices.clear()
        self._back = identity(self.kind, self.groups)

    def answer(self, groups: Ints, ranks: Ints) -> tuple[Ints, Floats]:
        """The window's states of these groups."""
        if self.subtracts:
            return self._back[0][:, groups], np.empty((0, len(groups)))
        result = np.ascontiguousarray(self._front[0][:, groups]), np.ascontiguousarray(self._front[1][:, groups])
        self._prepend(int(self.kind.operation), *self._back, groups, *result, ranks)
        return result
