"""The slices of a family, whichever store holds them now: rows and partials enter, and unneeded groups leave.

    rows      -> WHERE -> group ids -> slots -> fold
    partials  -> group ids -> slots -> combine

A family starts with dense slices. When it has more than `sparse_above` groups, it moves to sparse slices for good: the
store and its reporting are then replaced by others.

Invariant: the store has room for all groups, and a state is in the store exactly if it is in the timeline.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.columns import flags, integers
from panewise.arrays import INT64_MIN, Ints
from panewise.language.expressions import Expression
from panewise.loops import is_worth_calling
from panewise.operators.arguments import ArgumentPlan, Arguments
from panewise.operators.family.eviction import Eviction
from panewise.operators.family.groups import Groups
from panewise.operators.family.members import Members
from panewise.operators.family.partials import START, Partials, from_point, packed
from panewise.operators.family.reporting import Reporting
from panewise.operators.family.stores.dense_slices import DenseSlices
from panewise.operators.family.stores.slice_store import SliceStore
from panewise.operators.family.timeline import Timeline
from panewise.operators.row_batch import Rows
from panewise.plan.aggregation import ROW_COUNT, StateKey
from panewise.plan.expressions.evaluate import compiled
from panewise.slicing.slot_loops import assign_known
from panewise.slicing.window_set import WindowSet

Kept = NDArray[np.bool_] | Ints | None  # the rows that WHERE keeps, as a mask or as positions; None: not computed yet
# The fast path has a compiled loop of its own. It is worth compiling for a batch of this many rows, or for this many
# rows in smaller batches altogether.
FAST_PATH_FROM, FAST_PATH_IN_ALL = 1024, 1 << 20
COUNTED = (ROW_COUNT,)  # the states that are folded while slots are found


class FamilySlices:
    """The store, its reporting, and the groups. `answers`: slices are closed and answer windows."""

    def __init__(
        self,
        keys: tuple[Expression, ...],
        where: Expression | None,
        members: Members,
        timeline: Timeline,
        answers: bool,
        technique: str | None,
        sparse_above: int,
    ) -> None:
        self.groups = Groups(keys)
        self._where = compiled(where) if where is not None else None
        self._members = members
        self._timeline = timeline
        self._sparse_above = sparse_above
        self._eviction = Eviction(self.groups)
        self._argument_plan: ArgumentPlan | None = None  # for the states; None after they have changed
        self._use(DenseSlices(16 if keys else 1, self.groups.pools, answers, technique))

    def _use(self, store: SliceStore) -> None:
        """Uses this store from now on."""
        self.store = store
        self.reporting: Reporting = store.reporting(self._members, self._timeline, self.groups)

    @property
    def bytes_held(self) -> int:
        return self.store.bytes_held + self.groups.bytes_held

    # -- states --------------------------------------------------------------------------------------------------

    def add_state(self, key: StateKey, cut: int | None) -> None:
        """Keeps a state from now on, unless it is kept already; `cut` as in `Family.add`."""
        if key not in self._timeline.states:
            self._timeline.begin_state(key, cut)
            self._argument_plan = None
            self.store.add_state(key)

    def drop_unneeded_states(self) -> None:
        """Drops the states that no member needs."""
        needed = self._members.states
        for key in [key for key in self._timeline.states if key not in needed]:
            self._timeline.end_state(key)
            self._argument_plan = None
            self.store.drop_state(key)

    # -- edges ---------------------------------------------------------------------------------------------------

    def follow_windows(self, cut: int | None) -> None:
        """Members were added or removed: the store and its edges follow; `cut` as in `Family.add`."""
        windows = self._members.windows
        self.store.follow(windows)
        point = self._timeline.edges_change(windows, self.store.open, cut)
        if point is not None:
            self.cut_from(point, windows)

    def cut_from(self, point: int, windows: WindowSet) -> None:
        """Uses the edges of these windows from the point on, which no row has reached; divides the slice around it."""
        self._timeline.cut_at(point)
        self.store.open.cut_from(point, windows)
        if self.store.answering:
            self.store.close(self._timeline.watermark)  # the first part of that slice may be complete

    # -- rows ----------------------------------------------------------------------------------------------------

    def fold(self, rows: Rows, points: Ints, kept: Kept) -> None:
        """Folds the rows that WHERE keeps, at these points of the axis."""
        if self._where is not None:
            chosen = flags(self._where(rows.batch)) if kept is None else kept
            chosen = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
            if len(chosen) < len(rows):
                if not len(chosen):
                    return
                rows, points = rows.take(chosen), points[chosen]
        if self._argument_plan is None:
            self._argument_plan = ArgumentPlan(tuple(self._timeline.states), self.groups.pools)
        arguments = self._argument_plan.read(rows.batch)
        self.store.note_nulls(arguments)
        if self.groups.keys:
            self._fold_grouped(rows, points, arguments)
            return
        slots = self.store.assign_alone(points, rows.ascends and points is rows.times)
        if slots is not None:
            self._fold_slots(slots, arguments, rows, COUNTED)
        else:
            self._fold_slots(self.store.assign(points, np.empty(0, np.int64)), arguments, rows)

    def _fold_grouped(self, rows: Rows, points: Ints, arguments: Arguments) -> None:
        words, nulls = self.groups.words(rows.batch)
        done = self._fold_known(words, nulls, points, arguments, rows)
        if done == len(rows):
            return
        groups = self.groups.table.ids_of(words[:, done:], nulls[done:])
        self._make_room()
        slots = self.store.assign(points[done:], groups)
        self._fold_slots(slots, arguments.rest(done), rows.slice(done, len(rows)))

    def _fold_known(self, words: Ints, nulls: Ints, points: Ints, arguments: Arguments, rows: Rows) -> int:
        """The fast path: folds the rows before the first new key, whose groups are found by one load; returns their
        number."""
        direct = self.groups.table.direct(words, nulls)
        if direct is None:
            return 0
        if not is_worth_calling(assign_known, len(rows), FAST_PATH_FROM - 1, FAST_PATH_IN_ALL):
            return 0
        slots = self.store.assign_known(points, words[0], *direct)
        if len(slots):
            self._fold_slots(slots, arguments, rows, COUNTED)
        return len(slots)

    def _fold_slots(self, slots: Ints, arguments: Arguments, rows: Rows, counted: tuple[StateKey, ...] = ()) -> None:
        for key, problem in self.store.fold(slots, arguments, rows, counted):
            self._members.fail_readers_of(key, f"an aggregate raised {type(problem).__name__}: {problem}")

    def _make_room(self) -> None:
        """Gives the store room for all groups of the table; it may become another store."""
        before = self.store
        store = before.with_room(len(self.groups), self._sparse_above, self._members.windows)
        if store is not before:
            self._use(store)
            self._members.leave_trees()
            self.touch_all()

    def touch_all(self) -> None:
        """Every member judges all groups of the slices held at its next report; needed after cursors were made."""
        for member in self._members:
            member.touch_anew(self.store.touched(member.cadence))

    # -- partials ------------------------------------------------------------------------------------------------

    def take_partials(self) -> pa.RecordBatch | None:
        """The partials of all open slices, which are then empty; None if there are none."""
        if not self.store.open.count:
            return None
        found = packed(self.store.drain(), self.groups)
        if self._timeline.watermark == INT64_MIN:  # no slice is closed, so nothing else is held
            self._eviction.keep_only(found)
        return found.batch

    def merge(self, batch: pa.RecordBatch, arrival_base: int, finer: bool) -> None:
        """Combines partials of another family with the open slices; see `Family.merge`."""
        partials = Partials(batch, self.groups, arrival_base)
        groups = partials.ids()
        self._make_room()
        store = self.store
        if not finer:
            starts, ends = partials.spans()
            ends = store.open.until_cut(starts, ends)
            assert int(ends.min()) > self._timeline.watermark, "partials of a slice that is closed already"
            store.open.open_spans(starts, ends)
            self._timeline.see(int(ends.max()) - 1)
        slots = store.assign(partials.starts, groups)
        store.note_states(partials.names)
        store.fit()
        for key in store.matrices:
            source = partials.source(key)
            if source is not None:
                store.absorb(key, slots, *partials.fields(source))
        for key in store.held.keys:
            if partials.has_lists(key):
                rows, values, counts = partials.lists(key)
                rooms, owners = store.open.places(slots[rows])
                store.held.absorb(key, rooms, owners, values, counts)

    def rebuild(self, pages: Sequence[tuple[pa.RecordBatch, int]], needed_from: int, watermark: int) -> None:
        """Merges pages, partials with arrival bases, into empty slices, and closes those that the watermark passes."""
        assert not len(self.store.starts) and not self.store.open.count
        needed = [(from_point(partials, needed_from), base) for partials, base in pages]
        kept = [(partials, base) for partials, base in needed if partials.num_rows]
        firsts = [int(integers(partials.column(START)).min()) for partials, _ in kept]
        for i, (partials, base) in enumerate(kept):
            self.merge(partials, base, finer=False)
            # Close the slices that no later page adds to: open slices take more room.
            self.store.close(min([watermark, *firsts[i + 1 :]]))

    # -- time ----------------------------------------------------------------------------------------------------

    def close(self, watermark: int) -> None:
        """Moves the watermark, and closes the slices that it passes."""
        self.store.close(watermark)
        self._timeline.move_to(watermark)

    def evict(self) -> None:
        """Evicts slices, groups, strings and edges that no report to come needs."""
        timeline, store = self._timeline, self.store
        released = timeline.release(self._members, store)
        if len(store.starts):
            store.evict(store.first + released)
        self._eviction.evict_groups(store, self._members)
        self._eviction.evict_strings(store, timeline.states)
        store.open.forget_epochs(timeline.edges_needed_from)

    # -- snapshots -----------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        return {
            "sparse": self.store.is_sparse,
            "store": self.store.snapshot(),
            **self.groups.snapshot(self._timeline.states),
            "groups_kept": self._eviction.groups_kept,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """The states must have been added already; they have the order of the snapshot."""
        self._argument_plan = None
        self.groups.restore(snapshot, self._timeline.states)
        self._use(self.store.as_written(snapshot["sparse"], self._members.windows))
        self.store.restore(snapshot["store"])
        self._eviction.restore(snapshot["groups_kept"])
