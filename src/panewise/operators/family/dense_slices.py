"""Slices in which every group has a place: the store of families with few groups.

Open slices are rooms of a state matrix; closed ones go, in time order, into one synopsis per state: of the technique
that was asked for or chosen by cost, else the running synopsis where the state can be taken away exactly and the
interval synopsis otherwise. One vectorised call answers all due windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panewise.aggregates.holistic import HeldKind, StatisticKind
from panewise.aggregates.matrix import StateMatrix
from panewise.aggregates.states import COUNT
from panewise.aggregates.user import matrix_of
from panewise.arrays import Floats, Ints
from panewise.operators.arguments import Arguments, ranks_of
from panewise.operators.family.dense_reporting import DenseReporting
from panewise.operators.family.groups import Groups
from panewise.operators.family.members import Members
from panewise.operators.family.partials import Drained
from panewise.operators.family.past_reports import Answers, Slices, SoughtReports, Technique
from panewise.operators.family.reporting import Reporting
from panewise.operators.family.slice_store import SliceStore, make_room, state_matrix
from panewise.operators.family.sparse_slices import SparseSlice, SparseSlices
from panewise.operators.family.timeline import Timeline
from panewise.operators.family.tree import Tree
from panewise.plan.aggregation import ROW_COUNT, Pools, StateKey
from panewise.slicing.pairs import Cadence
from panewise.slicing.window_set import WindowSet
from panewise.synopses.synopsis import Synopsis, partials
from panewise.synopses.techniques import technique_named


def technique_of(key: StateKey, technique: Technique) -> str:
    """The technique that a state is kept by: the one asked for, or, where that does not admit the state, the default.

    One technique for all states was asked for by a query; then only the count of rows can come to the default so.
    """
    asked = technique.get(key) if isinstance(technique, Mapping) else technique
    if asked is not None and technique_named(asked).refusal(key.kind) is None:
        return asked
    return "r_int" if key.kind.algebra.invertible and not key.kind.float_fields else "b_int"


def synopsis_of(key: StateKey, width: int, technique: Technique) -> Synopsis:
    return technique_named(technique_of(key, technique)).made(key.kind, width)


class DenseSlices(SliceStore):
    """`width` groups in every slice, open or closed. One that does not answer has no synopses."""

    is_sparse = False
    answers_past = True

    def __init__(self, width: int, pools: Pools, answers: bool = True, technique: Technique = None) -> None:
        super().__init__(pools, answers, width)
        self.width = width
        self.technique = technique
        self.synopses: dict[StateKey, Synopsis] = {}
        # Counts of arguments that were never NULL: they are the count of rows and need no state of their own.
        self.same_as_rows: list[StateKey] = []
        # What windows without a beginning need of evicted slices; None while there are no such windows.
        self.base: dict[StateKey, StateMatrix] | None = None
        # The closed slices held: number `first + i` spans starts[i] to ends[i].
        self.first = 0
        self._starts: Ints = np.empty(0, np.int64)
        self._ends: Ints = np.empty(0, np.int64)

    @property
    def closed_span(self) -> tuple[int, int] | None:
        return (int(self._starts[0]), int(self._ends[-1])) if len(self._starts) else None

    @property
    def starts(self) -> Ints:
        return self._starts

    @property
    def ends(self) -> Ints:
        return self._ends

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

    def weave(self, trees: Sequence[Technique], own: Technique) -> None:
        assert self.can_weave
        self.trees = {number: Tree(self, technique) for number, technique in enumerate(trees, 1)}
        self.keep_by(own)

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

    @property
    def can_weave(self) -> bool:
        return self.answering

    def slices_of(self, tree: int, watermark: int) -> Slices:
        """The slices of a tree, 0 for those of the store itself, up to the watermark."""
        if tree == 0:
            return self
        self.trees[tree].take_in(watermark)
        return self.trees[tree]

    def follow(self, windows: WindowSet) -> None:
        if not windows.endless:
            self.base = None
        elif self.base is None and self.answering:
            assert not self.first, "slices have gone that a window without a beginning needs"
            self.base = {key: matrix_of(key.kind, self.width) for key in self.matrices}

    def add_state(self, key: StateKey) -> None:
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
        matrix = self.matrices[ROW_COUNT]
        make_room(matrix, self.open.slots)
        return self.open.assign_known(points, words, base, direct, matrix.ints[0])

    def assign_alone(self, points: Ints, ascending: bool) -> Ints | None:
        if not self.matrices:
            return None
        matrix, done = self.matrices[ROW_COUNT], -1
        while done < len(points):
            make_room(matrix, self.open.slots)
            slots, done = self.open.assign_alone(points, max(done, 0), ascending, matrix.ints[0])
        return slots

    def int_arrays(self, key: StateKey) -> list[Ints]:
        base = [] if self.base is None else [self.base[key].ints]
        return [self.matrices[key].ints, *self.synopses[key].int_arrays(), *base]

    def live_ints(self, key: StateKey) -> list[Ints]:
        held, _ = partials(self.synopses[key], ranks_of(key, self.pools))
        base = [] if self.base is None else [self.base[key].ints]
        return [self.matrices[key].ints, held.reshape(len(held), -1), *base]

    def note_nulls(self, arguments: Arguments) -> None:
        for key in [key for key in self.same_as_rows if len(arguments.of(key)[0].valid)]:
            self.count_apart(key)

    def note_states(self, names: set[str]) -> None:
        for key in [key for key in self.same_as_rows if f"{key.name}_0" in names]:
            self.count_apart(key)

    def drain(self) -> Drained:
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

    def with_room(self, groups: int, dense_most: int, windows: Iterable[Cadence]) -> SliceStore:
        """Sparse slices where there are more groups than dense ones are for; that is for good."""
        if groups > dense_most:
            return self.as_sparse(2 * groups, windows)
        if groups > self.width:
            roomy = max(groups, self.width + self.width // 2)
            self.widen(min(dense_most, -(-roomy // 16) * 16))
        return self

    def as_written(self, sparse: bool, windows: Iterable[Cadence]) -> SliceStore:
        return self.as_sparse(1, windows) if sparse else self

    def as_sparse(self, groups: int, windows: Iterable[Cadence]) -> SparseSlices:
        """The same slices as pairs."""
        for key in list(self.same_as_rows):
            self.count_apart(key)
        store = SparseSlices(groups, self.pools, self.answering)
        store.first, store.held = self.first, self.held
        for key in self.matrices:
            store.matrices[key] = matrix_of(key.kind, store.open.slots)
        store.slices = self._as_pairs()
        self._hand_open(store)
        store.make_cursors(windows)
        if self.base is not None:
            present = np.flatnonzero(self.base[ROW_COUNT].ints[0])
            base = {
                key: (np.take(held.ints, present, axis=1), np.take(held.floats, present, axis=1))
                for key, held in self.base.items()
            }
            store.begin_endless(present, base)
        return store

    def _as_pairs(self) -> list[SparseSlice]:
        """The closed slices."""
        numbers = np.arange(self.first, self.after, dtype=np.int64)
        partials = (
            self.answers(list(self.matrices), SoughtReports(numbers, numbers + 1, self.width)) if len(numbers) else {}
        )
        slices = []
        for i in range(len(numbers)):
            present = np.flatnonzero(partials[ROW_COUNT][0][0, i])
            states = {
                key: (np.ascontiguousarray(ints[:, i, present]), np.ascontiguousarray(floats[:, i, present]))
                for key, (ints, floats) in partials.items()
            }
            slices.append(SparseSlice(int(self.starts[i]), int(self.ends[i]), present, states))
        return slices

    def _hand_open(self, store: SparseSlices) -> None:
        """The open slices go over to a store."""
        if not self.open.count:
            store.open.set_edges(self.open.edges())
            return
        slots, sources = self.open.hand_over(store.open, self.matrices[ROW_COUNT].ints[0])
        store.held.move_rooms(self.open.rooms, store.open.rooms)
        store.fit()
        for key, matrix in store.matrices.items():
            held = self.matrices[key]
            matrix.ints[:, slots], matrix.floats[:, slots] = held.ints[:, sources], held.floats[:, sources]

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
            make_room(matrix, width)
        for synopsis in self.synopses.values():
            synopsis.widen(width)

    def close(self, watermark: int) -> None:
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
        self._starts = np.concatenate([self._starts, self.open.starts[:count]])
        self._ends = np.concatenate([self._ends, self.open.ends[:count]])
        self.open.close(count)

    def evict(self, before: int) -> None:
        gone = before - self.first
        if gone > 0:
            for key, matrix in (self.base or {}).items():
                leaving = np.array([self.first]), np.array([before])
                ints, floats = self.synopses[key].answer(*leaving, ranks_of(key, self.pools))
                self._absorb(key, matrix, ints[:, 0], floats[:, 0])
            self._starts, self._ends = self._starts[gone:], self._ends[gone:]
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

    def leave(self, tree: int, cadence: Cadence, window: int) -> None:
        if tree:
            self.trees[tree].remove(cadence, window)
            return
        for synopsis in self.synopses.values():
            synopsis.drop_window(window)

    def answers(self, keys: list[StateKey], sought: SoughtReports) -> Answers:
        starts, ends, groups, numbers, asked_for = sought
        held = np.maximum(starts, self.first)
        result: Answers = {}
        for key in dict.fromkeys([ROW_COUNT, *keys]):
            if key in self.same_as_rows:
                result[key] = result[ROW_COUNT]
                continue
            if isinstance(key.kind, StatisticKind):
                chosen = None if asked_for is None else asked_for[key]
                result[key] = self.held.answer(key, held, ends, np.arange(groups, dtype=np.int64), chosen)
                continue
            result[key] = self.synopses[key].answer(held, ends, ranks_of(key, self.pools), groups, numbers)
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

    # -- what only other stores have to do -----------------------------------------------------------------------

    def touched(self, cadence: Cadence) -> list[Ints]:
        """Every group is judged in every report."""
        return []

    def has_place(self, cadence: Cadence) -> bool:
        return True

    def passed(self, cadence: Cadence, report: int) -> bool:
        """Any window of the slices held is answered at any time."""
        return False

    def turn_back(self, cadence: Cadence, report: int) -> None: ...

    def live_groups(self) -> Ints | None:
        """They are few."""
        return None

    def regroup(self, kept: Ints, renamed: Ints) -> int:
        raise AssertionError("no group leaves dense slices")

    def technique_of(self, tree: int, key: StateKey) -> str:
        return technique_of(key, self.trees[tree].technique if tree else self.technique)

    def reporting(self, members: Members, timeline: Timeline, groups: Groups) -> Reporting:
        return DenseReporting(self, members, timeline, groups)

    # -- snapshots -----------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        return {
            "width": self.width,
            "states": [key.written for key in self.matrices],
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
        self.make_trees_anew()
        for key in [key for key in self.same_as_rows if key.written in snapshot["states"]]:
            self.count_apart(key)
        by_name = {key.written: key for key in self.matrices}
        self.matrices = {by_name[name]: self.matrices[by_name[name]] for name in snapshot["states"]}
        if self.base is not None:
            self.base = {key: self.base[key] for key in self.matrices}
        self.width = snapshot["width"]
        self.open.restore(snapshot["open"])
        self.first, self._starts, self._ends = snapshot["first"], snapshot["starts"], snapshot["ends"]
        self.held.restore(snapshot["held"])
        for i, (key, matrix) in enumerate(self.matrices.items()):
            matrix.ints = state_matrix(snapshot["ints"][i], key.kind.int_fields, self.open.slots)
            matrix.floats = state_matrix(snapshot["floats"][i], key.kind.float_fields, self.open.slots)
            self.synopses[key].restore(snapshot["synopses"][i])
        if self.base is not None:
            for key, (ints, floats) in zip(self.base, snapshot["base"], strict=True):
                self.base[key].ints = state_matrix(ints, key.kind.int_fields, self.width)
                self.base[key].floats = state_matrix(floats, key.kind.float_fields, self.width)
