"""Slices in which every group has a place: the store of trees with few groups.

Open slices are rooms of a state matrix; closed ones go, in time order, into one synopsis per state: of the technique
that was asked for or chosen by cost, else the running synopsis where the state can be taken away exactly and the
interval synopsis otherwise. One vectorised call answers all due windows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panewise.aggregates.holistic import HeldKind, StatisticKind
from panewise.aggregates.matrix import NO_INTS, StateMatrix
from panewise.aggregates.states import COUNT
from panewise.aggregates.user import UserStateKind, matrix_of
from panewise.errors import raise_interrupt_behind
from panewise.operators.aggregation import ROW_COUNT, Arguments, Pools, StateKey, ranks_of
from panewise.operators.coarse_slices import CoarseSlices
from panewise.operators.held_values import DrainedLists, HeldValues
from panewise.operators.rows import Rows
from panewise.slicing.open_slices import OpenSlices
from panewise.slicing.window_set import WindowSet
from panewise.synopses.contract import Synopsis, partials
from panewise.synopses.interval import IntervalSynopsis
from panewise.synopses.running import RunningSynopsis
from panewise.synopses.techniques import technique_named

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


# By what states are kept: one technique for all, one for each, or None for the default.
Technique = str | Mapping[StateKey, str] | None

Failures = list[tuple[StateKey, Exception]]
# Partials as they leave a store: start, end and group of each, the fields of every state, and lists of values of those
# without a fixed size.
Drained = tuple[Ints, Ints, Ints, dict[StateKey, tuple[Ints, Floats]], dict[StateKey, DrainedLists]]


def fold_states(
    matrices: dict[StateKey, StateMatrix], slots: Ints, arguments: Arguments, rows: Rows, pools: Pools
) -> Failures:
    """Rows enter their slots; returns the states of users whose functions raised, with what they raised."""
    failed: Failures = []
    for key, matrix in matrices.items():
        try:
            arrivals = rows.arrivals if key.ordered else NO_INTS
            matrix.fold(slots, arguments.of(key), rows.times, arrivals, ranks_of(key, pools))
        except Exception as problem:
            raise_interrupt_behind(problem)
            if not isinstance(key.kind, UserStateKind):
                raise
            failed.append((key, problem))
    return failed


def synopsis_of(key: StateKey, width: int, technique: Technique) -> Synopsis:
    """The technique that a state is kept by: the one asked for, or, where that does not admit the state, the default.

    One technique for all states was asked for by a query; then only the count of rows can come to the default so.
    """
    if isinstance(technique, Mapping):
        technique = technique.get(key)
    if technique is not None and (chosen := technique_named(technique)).refusal(key.kind) is None:
        return chosen.made(key.kind, width)
    if key.kind.algebra.invertible and not key.kind.float_fields:
        return RunningSynopsis(key.kind, width)
    return IntervalSynopsis(key.kind, width)


class DenseSlices:
    """`width` groups in every slice, open or closed. One that does not answer has no synopses: none is ever closed."""

    def __init__(self, width: int, pools: Pools, answers: bool = True, technique: Technique = None) -> None:
        self.width = width
        self.pools = pools
        self.answering = answers
        self.technique = technique
        self.open = OpenSlices(width)
        self.matrices: dict[StateKey, StateMatrix] = {}
        self.synopses: dict[StateKey, Synopsis] = {}
        self.held = HeldValues(pools, answers)  # states without a fixed size
        # Counts of arguments that were never NULL: they are the count of rows and need no state of their own.
        self.same_as_rows: list[StateKey] = []
        # What windows without a beginning need of evicted slices; None while there are no such windows.
        self.base: dict[StateKey, StateMatrix] | None = None
        self.trees: dict[int, CoarseSlices] = {}  # longer slices for some members, by number from 1 on
        # The closed slices held: number `first + i` spans starts[i] to ends[i].
        self.first = 0
        self.starts: Ints = np.empty(0, np.int64)
        self.ends: Ints = np.empty(0, np.int64)

    @property
    def after(self) -> int:
        return self.first + len(self.starts)

    @property
    def bytes_held(self) -> int:
        states = sum(m.bytes_held for m in self.matrices.values()) + sum(s.bytes_held for s in self.synopses.values())
        trees = sum(tree.bytes_held for tree in self.trees.values())
        return self.open.bytes_held + states + self.held.bytes_held + trees

    def synopsis_for(self, key: StateKey, technique: Technique) -> Synopsis:
        return synopsis_of(key, self.width, technique)

    def keep_by(self, technique: Technique) -> None:
        """States are kept by another technique from now on: what is held goes over."""
        self.technique = technique
        for key, old in self.synopses.items():
            new = synopsis_of(key, self.width, technique)
            if type(new) is type(old):
                continue
            ranks = ranks_of(key, self.pools)
            ints, floats = partials(old, ranks)
            new.begin_at(old.first)
            new.insert(ints, floats, ranks)
            self.synopses[key] = new

    def make_trees_anew(self) -> None:
        """What trees hold is no longer what the slices here say."""
        for tree in self.trees.values():
            tree.make_anew()

    def slices_of(self, tree: int, watermark: int) -> DenseSlices | CoarseSlices:
        """The slices of a tree, 0 for those of the store itself, up to the watermark."""
        if tree == 0:
            return self
        self.trees[tree].take_in(watermark)
        return self.trees[tree]

    def follow(self, windows: WindowSet) -> None:
        """Keeps what windows without a beginning need, as long as there are some."""
        if not windows.endless:
            self.base = None
        elif self.base is None and self.answering:
            assert not self.first, "slices have gone that a window without a beginning needs"
            self.base = {key: matrix_of(key.kind, self.width) for key in self.matrices}

    def add_state(self, key: StateKey) -> None:
        """A state that slices hold from now on; those that exist have its identity."""
        self.make_trees_anew()
        if key.kind == COUNT and key.arguments:
            self.same_as_rows.append(key)
            return
        if isinstance(key.kind, HeldKind):
            self.held.add(key, self.first, self.starts)
            return
        self.matrices[key] = matrix_of(key.kind, self.open.slots)
        if not self.answering:
            return
        synopsis = synopsis_of(key, self.width, self.technique)
        empty = matrix_of(key.kind, len(self.starts) * self.width)
        synopsis.begin_at(self.first)
        synopsis.insert(
            empty.ints.reshape(key.kind.int_fields, len(self.starts), self.width),
            empty.floats.reshape(key.kind.float_fields, len(self.starts), self.width),
            ranks_of(key, self.pools),
        )
        self.synopses[key] = synopsis
        if self.base is not None:
            self.base[key] = matrix_of(key.kind, self.width)

    def drop_state(self, key: StateKey) -> None:
        self.make_trees_anew()
        if key in self.same_as_rows:
            self.same_as_rows.remove(key)
            return
        if isinstance(key.kind, HeldKind):
            self.held.drop(key)
            return
        del self.matrices[key]
        self.synopses.pop(key, None)
        if self.base is not None:
            del self.base[key]

    def assign_known(self, points: Ints, words: Ints, base: int, direct: Ints) -> Ints:
        """The slots of the first rows, as many as have a known group and a slice at hand; they are counted already."""
        matrix = self.matrices[ROW_COUNT]
        if matrix.slots < self.open.slots:
            self._resize(matrix, self.open.slots)
        return self.open.assign_known(points, words, base, direct, matrix.ints[0])

    def assign_alone(self, points: Ints, ascending: bool) -> Ints:
        """The slots of rows where there is one group; they are counted already."""
        matrix, done = self.matrices[ROW_COUNT], -1
        while done < len(points):
            if matrix.slots < self.open.slots:
                self._resize(matrix, self.open.slots)
            slots, done = self.open.assign_alone(points, max(done, 0), ascending, matrix.ints[0])
        return slots

    def int_arrays(self, key: StateKey) -> list[Ints]:
        """The int64 fields of all arrays of a state which cannot be taken away; places not in use hold anything."""
        base = [] if self.base is None else [self.base[key].ints]
        return [self.matrices[key].ints, *self.synopses[key].int_arrays(), *base]

    def live_ints(self, key: StateKey) -> list[Ints]:
        """The same for what is in use alone, in part as copies."""
        held, _ = partials(self.synopses[key], ranks_of(key, self.pools))
        base = [] if self.base is None else [self.base[key].ints]
        return [self.matrices[key].ints, held.reshape(len(held), -1), *base]

    def assign(self, points: Ints, groups: Ints) -> Ints:
        """The slot of every row, until the next call."""
        return self.open.assign(points, groups)

    def note_nulls(self, arguments: Arguments) -> None:
        """Before rows are counted: arguments with NULLs among them need counts of their own from now on."""
        for key in [key for key in self.same_as_rows if len(arguments.of(key)[0].valid)]:
            self.count_apart(key)

    def fold(self, slots: Ints, arguments: Arguments, rows: Rows, counted: bool) -> Failures:
        """Rows enter their slots; they are in the count of rows already where `counted`."""
        self.fit()
        folded = {key: matrix for key, matrix in self.matrices.items() if not (counted and key == ROW_COUNT)}
        if self.held.rooms:
            self.held.fold(*self.open.places(slots), arguments)
        return fold_states(folded, slots, arguments, rows, self.pools)

    def fit(self) -> None:
        """Every state follows the open slices, which may have come to have more slots."""
        for matrix in self.matrices.values():
            if matrix.slots < self.open.slots:
                self._resize(matrix, self.open.slots)

    def absorb(self, key: StateKey, slots: Ints, ints: Ints, floats: Floats) -> None:
        """Newer partials of a state enter their slots, for which there is room already."""
        self.matrices[key].combine_at(slots, ints, floats, ranks_of(key, self.pools))

    def drain(self) -> Drained:
        """The partials of all open slices, which are forgotten."""
        begins, rooms = self.open.starts.copy(), self.open.rooms.copy()
        slots, starts, ends, groups = self.open.drain_dense(self.matrices[ROW_COUNT].ints[0])
        states = {}
        for key, matrix in self.matrices.items():
            states[key] = np.take(matrix.ints, slots, axis=1), np.take(matrix.floats, slots, axis=1)
            matrix.reset_rooms(rooms, self.width)
        return starts, ends, groups, states, self.held.drain(begins, rooms, starts, groups)

    def count_apart(self, key: StateKey) -> None:
        """A first NULL has come: from now on the count of this argument differs from the count of rows."""
        self.make_trees_anew()
        self.same_as_rows.remove(key)
        rows = self.matrices[ROW_COUNT]
        matrix = matrix_of(key.kind, rows.slots)
        matrix.ints[:] = rows.ints
        self.matrices[key] = matrix
        if not self.answering:
            return
        synopsis = synopsis_of(key, self.width, self.technique)
        synopsis.restore(self.synopses[ROW_COUNT].snapshot())
        self.synopses[key] = synopsis
        if self.base is not None:
            self.base[key] = matrix_of(key.kind, self.width)
            self.base[key].ints[:] = self.base[ROW_COUNT].ints

    @staticmethod
    def _resize(matrix: StateMatrix, slots: int) -> None:
        larger = matrix_of(matrix.kind, slots)
        larger.ints[:, : matrix.ints.shape[1]] = matrix.ints
        larger.floats[:, : matrix.floats.shape[1]] = matrix.floats
        matrix.ints, matrix.floats = larger.ints, larger.floats

    def widen(self, width: int) -> None:
        """Room for more groups in every slice."""
        self.make_trees_anew()
        old = self.width
        self.width = self.open.width = width
        for key, matrix in self.matrices.items():
            wider = matrix_of(key.kind, self.open.slots)
            for new, held in ((wider.ints, matrix.ints), (wider.floats, matrix.floats)):
                rooms, fields = held.shape[1] // old, len(held)
                target = new.reshape(fields, new.shape[1] // width, width)
                target[:, :rooms, :old] = held.reshape(fields, rooms, old)
            matrix.ints, matrix.floats = wider.ints, wider.floats
        for matrix in (self.base or {}).values():
            self._resize(matrix, width)
        for synopsis in self.synopses.values():
            synopsis.widen(width)

    def close(self, watermark: int) -> None:
        """Slices that end at the watermark or before leave the rooms for the synopses."""
        count = self.open.closable(watermark)
        if count:
            self._close(count)
        for tree in self.trees.values():
            tree.take_in(watermark)

    def _close(self, count: int) -> None:
        rooms = self.open.rooms[:count].copy()
        for key, matrix in self.matrices.items():
            self.synopses[key].insert_from(matrix.ints, matrix.floats, rooms, ranks_of(key, self.pools))
            matrix.reset_rooms(rooms, self.width)
        self.held.close(rooms, self.open.starts[:count].copy())
        self.starts = np.concatenate([self.starts, self.open.starts[:count]])
        self.ends = np.concatenate([self.ends, self.open.ends[:count]])
        self.open.close(count)

    def evict(self, before: int) -> None:
        """Forgets the slices numbered below `before`."""
        gone = before - self.first
        if gone > 0:
            for key, matrix in (self.base or {}).items():
                leaving = np.array([self.first]), np.array([before])
                ints, floats = self.synopses[key].answer(*leaving, ranks_of(key, self.pools))
                self._absorb(key, matrix, ints[:, 0], floats[:, 0])
            self.starts, self.ends = self.starts[gone:], self.ends[gone:]
            self.first = before
            for synopsis in self.synopses.values():
                synopsis.evict(before)
            self.held.evict(before)
            for tree in self.trees.values():
                tree.evict()

    def _absorb(self, key: StateKey, matrix: StateMatrix, ints: Ints, floats: Floats) -> None:
        newer = matrix_of(key.kind, 0)
        newer.ints, newer.floats = np.ascontiguousarray(ints), np.ascontiguousarray(floats)
        matrix.combine(0, newer, 0, newer.slots, ranks_of(key, self.pools))

    def drop_window(self, window: int) -> None:
        """A member's window will not be asked for again here."""
        for synopsis in self.synopses.values():
            synopsis.drop_window(window)

    def answers(
        self,
        keys: list[StateKey],
        starts: Ints,
        ends: Ints,
        groups: int,
        windows: Ints | None = None,
        asked_for: dict[StateKey, NDArray[np.bool_]] | None = None,
    ) -> dict[StateKey, tuple[NDArray[Any], NDArray[Any]]]:
        """The states of windows of slice numbers, shape (fields, answers, groups); start -1 is the beginning of all.

        `windows` numbers the members' windows, for techniques that go on from where a window was last; `asked_for`
        says for which answers a question to a state without a fixed size is asked, where not for all of them.
        """
        held = np.maximum(starts, self.first)
        result: dict[StateKey, tuple[NDArray[Any], NDArray[Any]]] = {}
        for key in dict.fromkeys([ROW_COUNT, *keys]):
            if key in self.same_as_rows:
                result[key] = result[ROW_COUNT]
                continue
            if isinstance(key.kind, StatisticKind):
                chosen = None if asked_for is None else asked_for[key]
                result[key] = self.held.answer(key, held, ends, np.arange(groups, dtype=np.int64), chosen)
                continue
            result[key] = self.synopses[key].answer(held, ends, ranks_of(key, self.pools), groups, windows)
            if self.base is not None:
                self._add_base(key, starts, *result[key])
        return result

    def _add_base(self, key: StateKey, starts: Ints, ints: Ints, floats: Floats) -> None:
        """What was evicted comes before what is held, in the answers that reach back to the beginning."""
        assert self.base is not None
        groups = max(ints.shape[2], floats.shape[2])
        for window in np.flatnonzero(starts < 0):
            whole = matrix_of(key.kind, 0)
            whole.ints, whole.floats = self.base[key].ints[:, :groups].copy(), self.base[key].floats[:, :groups].copy()
            self._absorb(key, whole, ints[:, window], floats[:, window])
            ints[:, window], floats[:, window] = whole.ints, whole.floats

    def snapshot(self) -> dict[str, Any]:
        return {
            "width": self.width,
            "states": [repr(key) for key in self.matrices],
            "open": self.open.snapshot(),
            "first": self.first,
            "starts": self.starts,
            "ends": self.ends,
            "ints": [matrix.ints.reshape(-1) for matrix in self.matrices.values()],
            "floats": [matrix.floats.reshape(-1) for matrix in self.matrices.values()],
            "synopses": [self.synopses[key].snapshot() for key in self.matrices],
            "base": [self._flat_base(key) for key in self.matrices] if self.base is not None else [],
            "held": self.held.snapshot(),
        }

    def _flat_base(self, key: StateKey) -> list[NDArray[Any]]:
        assert self.base is not None
        return [self.base[key].ints.reshape(-1), self.base[key].floats.reshape(-1)]

    def restore(self, snapshot: dict[str, Any]) -> None:
        """The states must have been added already; they take the order of the snapshot."""
        self.make_trees_anew()
        for key in [key for key in self.same_as_rows if repr(key) in snapshot["states"]]:
            self.count_apart(key)
        by_name = {repr(key): key for key in self.matrices}
        self.matrices = {by_name[name]: self.matrices[by_name[name]] for name in snapshot["states"]}
        if self.base is not None:
            self.base = {key: self.base[key] for key in self.matrices}
        self.width = snapshot["width"]
        self.open.restore(snapshot["open"])
        self.first, self.starts, self.ends = snapshot["first"], snapshot["starts"], snapshot["ends"]
        self.held.restore(snapshot["held"])
        for i, (key, matrix) in enumerate(self.matrices.items()):
            matrix.ints = state_matrix(snapshot["ints"][i], key.kind.int_fields, self.open.slots)
            matrix.floats = state_matrix(snapshot["floats"][i], key.kind.float_fields, self.open.slots)
            self.synopses[key].restore(snapshot["synopses"][i])
        if self.base is not None:
            for key, (ints, floats) in zip(self.base, snapshot["base"], strict=True):
                self.base[key].ints = state_matrix(ints, key.kind.int_fields, self.width)
                self.base[key].floats = state_matrix(floats, key.kind.float_fields, self.width)


def state_matrix(flat: NDArray[Any], fields: int, slots: int) -> NDArray[Any]:
    """A flat copy of a state matrix in its shape again."""
    return flat.reshape(fields, slots).copy()
