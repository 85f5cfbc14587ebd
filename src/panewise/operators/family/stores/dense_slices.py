"""Slices in which every group has a place: the store of families with few groups.

Open slices are rooms of a state matrix. When the watermark has passed them, they move to `closed`, in time order
(`closed_slices.py`). One vectorised call answers all due windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panewise.aggregates.holistic import HeldKind, StatisticKind
from panewise.aggregates.states import COUNT
from panewise.aggregates.user import matrix_of
from panewise.arrays import Ints
from panewise.operators.arguments import Arguments
from panewise.operators.family.dense_reporting import DenseReporting
from panewise.operators.family.groups import Groups
from panewise.operators.family.members import Members
from panewise.operators.family.partials import Drained
from panewise.operators.family.reporting import Reporting
from panewise.operators.family.sought_windows import Answers, Slices, SoughtWindows, Technique
from panewise.operators.family.stores.closed_slices import ClosedSlices, synopsis_of, technique_of
from panewise.operators.family.stores.cursor import SparseSlice
from panewise.operators.family.stores.slice_store import SliceStore, make_room
from panewise.operators.family.stores.sparse_slices import SparseSlices
from panewise.operators.family.stores.tree import Tree
from panewise.operators.family.timeline import Timeline
from panewise.plan.aggregation import ROW_COUNT, Pools, StateKey
from panewise.slicing.pairs import Cadence
from panewise.slicing.window_set import WindowSet
from panewise.synopses.synopsis import Synopsis


class DenseSlices(SliceStore):
    """`width` groups in every slice, open or closed. A store that does not answer closes no slices."""

    is_sparse = False
    answers_past = True

    def __init__(self, width: int, pools: Pools, answers: bool = True, technique: Technique = None) -> None:
        super().__init__(pools, answers, width)
        self.width = width
        self.closed = ClosedSlices(width, pools, technique)
        # Counts of arguments without any NULL so far: they equal the count of rows and have no state of their own.
        self.same_as_rows: list[StateKey] = []

    @property
    def first(self) -> int:
        return self.closed.first

    @property
    def starts(self) -> Ints:
        return self.closed.starts

    @property
    def ends(self) -> Ints:
        return self.closed.ends

    @property
    def closed_span(self) -> tuple[int, int] | None:
        return self.closed.span

    @property
    def synopses(self) -> dict[StateKey, Synopsis]:
        """The synopses of the closed slices."""
        return self.closed.synopses

    @property
    def bytes_held(self) -> int:
        states = sum(matrix.bytes_held for matrix in self.matrices.values()) + self.closed.bytes_held
        trees = sum(tree.bytes_held for tree in self.trees.values())
        return self.open.bytes_held + states + self.held.bytes_held + trees

    # -- trees of the weave --------------------------------------------------------------------------------------

    @property
    def can_weave(self) -> bool:
        return self.answering

    def weave(self, trees: Sequence[Technique], own: Technique) -> None:
        assert self.can_weave
        self.trees = {number: Tree(self, technique) for number, technique in enumerate(trees, 1)}
        self.closed.use_technique(own)

    def synopsis_for(self, key: StateKey, technique: Technique) -> Synopsis:
        return synopsis_of(key, self.width, technique)

    def technique_of(self, tree: int, key: StateKey) -> str:
        return technique_of(key, self.trees[tree].technique if tree else self.closed.technique)

    def slices_of(self, tree: int, watermark: int) -> Slices:
        """The slices of a tree up to the watermark; tree 0 has the store's own slices."""
        if tree == 0:
            return self
        self.trees[tree].take_in(watermark)
        return self.trees[tree]

    def leave(self, tree: int, cadence: Cadence, window: int) -> None:
        if tree:
            self.trees[tree].remove(cadence, window)
        else:
            self.closed.drop_window(window)

    # -- states, windows and groups ------------------------------------------------------------------------------

    def follow(self, windows: WindowSet) -> None:
        self.closed.keep_evicted(windows.endless and self.answering, self.matrices)

    def add_state(self, key: StateKey) -> None:
        self.discard_trees()
        if key.kind == COUNT and key.arguments:
            self.same_as_rows.append(key)
            return
        if isinstance(key.kind, HeldKind):
            self.held.add(key, self.first, self.starts)
            return
        self.matrices[key] = matrix_of(key.kind, self.open.slots)
        if self.answering:
            self.closed.add_state(key)

    def drop_state(self, key: StateKey) -> None:
        self.discard_trees()
        if key in self.same_as_rows:
            self.same_as_rows.remove(key)
            return
        if isinstance(key.kind, HeldKind):
            self.held.drop(key)
            return
        del self.matrices[key]
        self.closed.drop_state(key)

    def count_apart(self, key: StateKey) -> None:
        """The first NULL of an argument has come: its count now differs from the count of rows."""
        self.discard_trees()
        self.same_as_rows.remove(key)
        rows = self.matrices[ROW_COUNT]
        matrix = matrix_of(key.kind, rows.slots)
        matrix.ints[:] = rows.ints
        self.matrices[key] = matrix
        if self.answering:
            self.closed.copy_row_count(key)

    def note_nulls(self, arguments: Arguments) -> None:
        for key in [key for key in self.same_as_rows if len(arguments.of(key)[0].valid)]:
            self.count_apart(key)

    def note_states(self, names: set[str]) -> None:
        for key in [key for key in self.same_as_rows if f"{key.name}_0" in names]:
            self.count_apart(key)

    def int_arrays(self, key: StateKey) -> list[Ints]:
        return [self.matrices[key].ints, *self.closed.int_arrays(key)]

    def live_ints(self, key: StateKey) -> list[Ints]:
        return [self.matrices[key].ints, *self.closed.live_ints(key)]

    # -- rows and partials ---------------------------------------------------------------------------------------

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

    def drain(self) -> Drained:
        begins, rooms = self.open.starts.copy(), self.open.rooms.copy()
        slots, starts, ends, groups = self.open.drain_dense(self.matrices[ROW_COUNT].ints[0])
        states = {}
        for key, matrix in self.matrices.items():
            states[key] = np.take(matrix.ints, slots, axis=1), np.take(matrix.floats, slots, axis=1)
            matrix.reset_rooms(rooms, self.width)
        return starts, ends, groups, states, self.held.drain(begins, rooms, starts, groups)

    # -- room for more groups ------------------------------------------------------------------------------------

    def with_room(self, groups: int, dense_most: int, windows: Iterable[Cadence]) -> SliceStore:
        """This store, or a sparse one if there are more than `dense_most` groups; a family never goes back."""
        if groups > dense_most:
            return self.as_sparse(2 * groups, windows)
        if groups > self.width:
            roomy = max(groups, self.width + self.width // 2)
            self.widen(min(dense_most, -(-roomy // 16) * 16))
        return self

    def as_written(self, sparse: bool, windows: Iterable[Cadence]) -> SliceStore:
        return self.as_sparse(1, windows) if sparse else self

    def as_sparse(self, groups: int, windows: Iterable[Cadence]) -> SparseSlices:
        """A sparse store with the same slices."""
        for key in list(self.same_as_rows):
            self.count_apart(key)
        evicted = None if self.closed.evicted is None else self.closed.evicted.present()
        store = SparseSlices(groups, self.pools, self.answering)
        store.take_closed(self.first, self._as_pairs(), list(self.matrices), self.held, windows, evicted)
        self._hand_open(store)
        return store

    def _as_pairs(self) -> list[SparseSlice]:
        """The closed slices, as sparse ones."""
        numbers = np.arange(self.first, self.closed.after, dtype=np.int64)
        if not len(numbers):
            return []
        partials = self.answers(list(self.matrices), SoughtWindows(numbers, numbers + 1, self.width))
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
        """Moves the open slices to another store."""
        if not self.open.count:
            store.open.set_edges(self.open.edges())
            return
        slots, sources = self.open.hand_over(store.open, self.matrices[ROW_COUNT].ints[0])
        store.held.move_rooms(self.open.rooms, store.open.rooms)
        states = {key: (matrix.ints[:, sources], matrix.floats[:, sources]) for key, matrix in self.matrices.items()}
        store.take_open(slots, states)

    def widen(self, width: int) -> None:
        """Makes room for more groups in every slice."""
        self.discard_trees()
        old = self.width
        self.width = width
        self.open.widen(width)
        for key, matrix in self.matrices.items():
            wider = matrix_of(key.kind, self.open.slots)
            for new, held in ((wider.ints, matrix.ints), (wider.floats, matrix.floats)):
                rooms, fields = held.shape[1] // old, len(held)
                target = new.reshape(fields, new.shape[1] // width, width)
                target[:, :rooms, :old] = held.reshape(fields, rooms, old)
            matrix.ints, matrix.floats = wider.ints, wider.floats
        self.closed.widen(width)

    # -- time and answers ----------------------------------------------------------------------------------------

    def close(self, watermark: int) -> None:
        count = self.open.closable(watermark)
        if count:
            self._close(count)
        for tree in self.trees.values():
            tree.take_in(watermark)

    def _close(self, count: int) -> None:
        rooms, starts = self.open.rooms[:count].copy(), self.open.starts[:count].copy()
        self.closed.append(self.matrices, rooms, starts, self.open.ends[:count])
        for matrix in self.matrices.values():
            matrix.reset_rooms(rooms, self.width)
        self.held.close(rooms, starts)
        self.open.close(count)

    def evict(self, before: int) -> None:
        if self.closed.evict(before):
            self.held.evict(before)
            for tree in self.trees.values():
                tree.evict()

    def answers(self, keys: list[StateKey], sought: SoughtWindows) -> Answers:
        """The states of the windows: arrays of shape (fields, windows, groups)."""
        result: Answers = {}
        for key in dict.fromkeys([ROW_COUNT, *keys]):
            if key in self.same_as_rows:
                result[key] = result[ROW_COUNT]
            elif isinstance(key.kind, StatisticKind):
                result[key] = self._statistic(key, sought)
            else:
                result[key] = self.closed.answer(key, sought)
        return result

    def _statistic(self, key: StateKey, sought: SoughtWindows) -> tuple[NDArray[Any], NDArray[Any]]:
        """An answer of a state without a fixed size."""
        starts, ends, groups, _, asked_for = sought
        chosen = None if asked_for is None else asked_for[key]
        held = np.maximum(starts, self.first)
        return self.held.answer(key, held, ends, np.arange(groups, dtype=np.int64), chosen)

    def reporting(self, members: Members, timeline: Timeline, groups: Groups) -> Reporting:
        return DenseReporting(self, members, timeline, groups)

    # -- needed by sparse stores only ----------------------------------------------------------------------------

    def touched(self, cadence: Cadence) -> list[Ints]:
        """Empty: every group is judged in every report."""
        return []

    def has_place(self, cadence: Cadence) -> bool:
        return True

    def passed(self, cadence: Cadence, report: int) -> bool:
        """False: the slices held answer any window at any time."""
        return False

    def turn_back(self, cadence: Cadence, report: int) -> None: ...

    def live_groups(self) -> Ints | None:
        """None: there are few groups, so all of them stay."""
        return None

    def regroup(self, kept: Ints, renamed: Ints) -> int:
        raise AssertionError("dense slices keep all groups")

    # -- snapshots -----------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        closed, evicted = self.closed, self.closed.evicted
        return {
            "width": self.width,
            "states": [key.written for key in self.matrices],
            "open": self.open.snapshot(),
            "first": closed.first,
            "starts": closed.starts,
            "ends": closed.ends,
            "ints": [matrix.ints.reshape(-1) for matrix in self.matrices.values()],
            "floats": [matrix.floats.reshape(-1) for matrix in self.matrices.values()],
            "synopses": [closed.synopses[key].snapshot() for key in self.matrices],
            "base": [] if evicted is None else [evicted.flat(key) for key in self.matrices],
            "held": self.held.snapshot(),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.discard_trees()
        for key in [key for key in self.same_as_rows if key.written in snapshot["states"]]:
            self.count_apart(key)
        self.width = snapshot["width"]
        self._restore_open(snapshot)
        self.closed.restore(snapshot, self.width, list(self.matrices))
