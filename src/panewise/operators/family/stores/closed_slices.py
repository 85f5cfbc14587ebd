"""The closed slices of a dense store: one synopsis per state answers windows over them.

    slices evicted             slices held                  not closed yet
    ---------------------|----|----|----|----|----|-------------------------->
     evicted states    first                        after

Slices are numbered from 0 in time order. `starts[i]` and `ends[i]` belong to slice `first + i`. The synopsis of a state
uses the technique that was asked for, or chosen by cost; otherwise the running synopsis if the state can be subtracted
exactly, and the interval synopsis if not.

Invariant: all synopses hold the same slices. While some window has no beginning, the evicted states are the states of
all slices before `first`, combined.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panewise.aggregates.matrix import StateMatrix
from panewise.aggregates.user import matrix_of
from panewise.arrays import Floats, Ints
from panewise.operators.arguments import ranks_of
from panewise.operators.family.sought_windows import SoughtWindows, Technique
from panewise.operators.family.stores.slice_store import make_room, state_matrix
from panewise.plan.aggregation import ROW_COUNT, Pools, StateKey
from panewise.synopses.synopsis import Synopsis, partials
from panewise.synopses.techniques import technique_named


def technique_of(key: StateKey, technique: Technique) -> str:
    """The technique for a state: the one asked for, or the default if that one does not admit the state.

    If a query asked for one technique for all states, only the count of rows can get the default.
    """
    asked = technique.get(key) if isinstance(technique, Mapping) else technique
    if asked is not None and technique_named(asked).refusal(key.kind) is None:
        return asked
    return "r_int" if key.kind.algebra.invertible and not key.kind.float_fields else "b_int"


def synopsis_of(key: StateKey, width: int, technique: Technique) -> Synopsis:
    """An empty synopsis for a state."""
    return technique_named(technique_of(key, technique)).made(key.kind, width)


class ClosedSlices:
    """Closed slices with `width` groups each."""

    def __init__(self, width: int, pools: Pools, technique: Technique) -> None:
        self.width = width
        self.technique = technique
        self.first = 0
        self.starts: Ints = np.empty(0, np.int64)
        self.ends: Ints = np.empty(0, np.int64)
        self.synopses: dict[StateKey, Synopsis] = {}
        self.evicted: EvictedStates | None = None  # None while every window has a beginning
        self._pools = pools

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def after(self) -> int:
        return self.first + len(self.starts)

    @property
    def span(self) -> tuple[int, int] | None:
        """Where the first slice begins and the last one ends; None if there are no slices."""
        return (int(self.starts[0]), int(self.ends[-1])) if len(self.starts) else None

    @property
    def bytes_held(self) -> int:
        return sum(synopsis.bytes_held for synopsis in self.synopses.values())

    # -- states, windows and groups ------------------------------------------------------------------------------

    def add_state(self, key: StateKey) -> None:
        """Adds a state, which is at its identity in all slices held and evicted."""
        synopsis = synopsis_of(key, self.width, self.technique)
        empty = matrix_of(key.kind, len(self) * self.width)
        synopsis.begin_at(self.first)
        synopsis.insert(
            empty.ints.reshape(key.kind.int_fields, len(self), self.width),
            empty.floats.reshape(key.kind.float_fields, len(self), self.width),
            ranks_of(key, self._pools),
        )
        self.synopses[key] = synopsis
        if self.evicted is not None:
            self.evicted.add_state(key)

    def copy_row_count(self, key: StateKey) -> None:
        """Adds a count, which is equal to the count of rows in all slices held and evicted."""
        synopsis = synopsis_of(key, self.width, self.technique)
        synopsis.restore(self.synopses[ROW_COUNT].snapshot())
        self.synopses[key] = synopsis
        if self.evicted is not None:
            self.evicted.copy_row_count(key)

    def drop_state(self, key: StateKey) -> None:
        self.synopses.pop(key, None)
        if self.evicted is not None:
            self.evicted.drop_state(key)

    def use_technique(self, technique: Technique) -> None:
        """Changes the technique; the slices held move to new synopses."""
        self.technique = technique
        for key, old in self.synopses.items():
            new = synopsis_of(key, self.width, technique)
            if type(new) is type(old):
                continue
            ranks = ranks_of(key, self._pools)
            ints, floats = partials(old, ranks)
            new.begin_at(old.first)
            new.insert(ints, floats, ranks)
            self.synopses[key] = new

    def keep_evicted(self, wanted: bool, keys: Iterable[StateKey]) -> None:
        """Whether some window has no beginning; if so, the states of evicted slices are kept from now on."""
        if not wanted:
            self.evicted = None
        elif self.evicted is None:
            assert not self.first, "slices that a window without a beginning needs were evicted"
            self.evicted = EvictedStates(keys, self.width, self._pools)

    def drop_window(self, window: int) -> None:
        """No member asks for the window with this number again."""
        for synopsis in self.synopses.values():
            synopsis.drop_window(window)

    def widen(self, width: int) -> None:
        """Makes room for more groups."""
        self.width = width
        if self.evicted is not None:
            self.evicted.widen(width)
        for synopsis in self.synopses.values():
            synopsis.widen(width)

    def int_arrays(self, key: StateKey) -> list[Ints]:
        """The int64 fields of all arrays of a state."""
        evicted = [] if self.evicted is None else [self.evicted.ints_of(key)]
        return [*self.synopses[key].int_arrays(), *evicted]

    def live_ints(self, key: StateKey) -> list[Ints]:
        """The int64 fields of a state in the slices held and evicted, without unused places; partly copies."""
        held, _ = partials(self.synopses[key], ranks_of(key, self._pools))
        evicted = [] if self.evicted is None else [self.evicted.ints_of(key)]
        return [held.reshape(len(held), -1), *evicted]

    # -- slices --------------------------------------------------------------------------------------------------

    def append(self, matrices: Mapping[StateKey, StateMatrix], rooms: Ints, starts: Ints, ends: Ints) -> None:
        """Appends slices, oldest first; `rooms` are their rooms in the matrices."""
        for key, matrix in matrices.items():
            self.synopses[key].insert_from(matrix.ints, matrix.floats, rooms, ranks_of(key, self._pools))
        self.starts = np.concatenate([self.starts, starts])
        self.ends = np.concatenate([self.ends, ends])

    def evict(self, before: int) -> bool:
        """Evicts the slices numbered below `before`; returns whether there were any."""
        gone = before - self.first
        if gone <= 0:
            return False
        if self.evicted is not None:
            leaving = np.array([self.first]), np.array([before])
            for key in self.evicted.keys:
                ints, floats = self.synopses[key].answer(*leaving, ranks_of(key, self._pools))
                self.evicted.take_in(key, ints[:, 0], floats[:, 0])
        self.starts, self.ends = self.starts[gone:], self.ends[gone:]
        self.first = before
        for synopsis in self.synopses.values():
            synopsis.evict(before)
        return True

    def answer(self, key: StateKey, sought: SoughtWindows) -> tuple[NDArray[Any], NDArray[Any]]:
        """The state of each window for each group: arrays of shape (fields, windows, groups)."""
        starts, ends, groups, numbers, _ = sought
        held = np.maximum(starts, self.first)
        ints, floats = self.synopses[key].answer(held, ends, ranks_of(key, self._pools), groups, numbers)
        if self.evicted is not None:
            self.evicted.add_to(key, starts, ints, floats)
        return ints, floats

    # -- snapshots -----------------------------------------------------------------------------------------------

    def restore(self, snapshot: dict[str, Any], width: int, keys: Iterable[StateKey]) -> None:
        """The parts of the store's snapshot that belong to closed slices; `keys` are in the snapshot's order."""
        self.width = width
        self.first, self.starts, self.ends = snapshot["first"], snapshot["starts"], snapshot["ends"]
        for key, saved in zip(keys, snapshot["synopses"], strict=True):
            self.synopses[key].restore(saved)
        if self.evicted is not None:
            self.evicted.restore(dict(zip(keys, snapshot["base"], strict=True)), width)


class EvictedStates:
    """The states of all evicted slices, combined: a window without a beginning still needs them."""

    def __init__(self, keys: Iterable[StateKey], width: int, pools: Pools) -> None:
        self._width = width
        self._pools = pools
        self._matrices = {key: matrix_of(key.kind, width) for key in keys}

    @property
    def keys(self) -> Iterable[StateKey]:
        return self._matrices.keys()

    def add_state(self, key: StateKey) -> None:
        self._matrices[key] = matrix_of(key.kind, self._width)

    def copy_row_count(self, key: StateKey) -> None:
        """Adds a count that is equal to the count of rows."""
        self.add_state(key)
        self._matrices[key].ints[:] = self._matrices[ROW_COUNT].ints

    def drop_state(self, key: StateKey) -> None:
        del self._matrices[key]

    def widen(self, width: int) -> None:
        self._width = width
        for matrix in self._matrices.values():
            make_room(matrix, width)

    def ints_of(self, key: StateKey) -> Ints:
        return self._matrices[key].ints

    def take_in(self, key: StateKey, ints: Ints, floats: Floats) -> None:
        """Adds slices that are evicted now, combined: arrays of shape (fields, groups)."""
        self._combine(key, self._matrices[key], ints, floats)

    def add_to(self, key: StateKey, starts: Ints, ints: Ints, floats: Floats) -> None:
        """Puts the evicted states before the answers of windows that reach back to the beginning (start -1)."""
        groups = max(ints.shape[2], floats.shape[2])
        evicted = self._matrices[key]
        for window in np.flatnonzero(starts < 0):
            whole = matrix_of(key.kind, 0)
            whole.ints, whole.floats = evicted.ints[:, :groups].copy(), evicted.floats[:, :groups].copy()
            self._combine(key, whole, ints[:, window], floats[:, window])
            ints[:, window], floats[:, window] = whole.ints, whole.floats

    def _combine(self, key: StateKey, older: StateMatrix, ints: Ints, floats: Floats) -> None:
        newer = matrix_of(key.kind, 0)
        newer.ints, newer.floats = np.ascontiguousarray(ints), np.ascontiguousarray(floats)
        older.combine(0, newer, 0, newer.slots, ranks_of(key, self._pools))

    def present(self) -> tuple[Ints, dict[StateKey, tuple[Ints, Floats]]]:
        """The groups with rows in evicted slices, and their states."""
        groups = np.flatnonzero(self._matrices[ROW_COUNT].ints[0])
        states = {
            key: (np.take(matrix.ints, groups, axis=1), np.take(matrix.floats, groups, axis=1))
            for key, matrix in self._matrices.items()
        }
        return groups, states

    # -- snapshots -----------------------------------------------------------------------------------------------

    def flat(self, key: StateKey) -> list[NDArray[Any]]:
        """The fields of a state as flat arrays."""
        return [self._matrices[key].ints.reshape(-1), self._matrices[key].floats.reshape(-1)]

    def restore(self, saved: dict[StateKey, list[NDArray[Any]]], width: int) -> None:
        """The states take the order of what was saved."""
        self._width = width
        self._matrices = {key: self._matrices[key] for key in saved}
        for key, (ints, floats) in saved.items():
            self._matrices[key].ints = state_matrix(ints, key.kind.int_fields, width)
            self._matrices[key].floats = state_matrix(floats, key.kind.float_fields, width)
