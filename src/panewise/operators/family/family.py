"""The family: periodic aggregates over one stream whose rows are folded together.

Queries over one stream with the same WHERE and GROUP BY, whatever their windows, are members of one family. A row is
filtered, grouped, sliced and folded once for all of them; each distinct state is kept once. When the watermark passes
the end of a slice, its partials enter the synopses, and all due reports are answered together.

    rows -> WHERE -> group ids -> slots -> fold    | once for all members            family_slices.py
    closed slices -> synopses -> answers           | one call for all due windows    stores/
    answers -> lower -> HAVING -> items            | for each member                 reporting.py

The axis is integers: event times in microseconds, or row numbers for windows of rows. Rows come in any order, but none
may fall into a slice that the watermark has closed.

A family may also be fed by other families, which fold rows and export partials. `partials.py` has their format and says
how a host writes them instead of the whole state.

    rows -> fold -> take_partials  ==>  merge -> advance -> answers
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from panewise.arrays import INT64_MIN, Ints
from panewise.language.expressions import Expression
from panewise.operators.family.family_slices import FamilySlices, Kept
from panewise.operators.family.member import Member
from panewise.operators.family.member_trees import MemberTrees
from panewise.operators.family.members import Members
from panewise.operators.family.past_reports import PastReports
from panewise.operators.family.stores.slice_store import SliceStore
from panewise.operators.family.timeline import Timeline
from panewise.operators.reports import Reports
from panewise.operators.row_batch import Rows
from panewise.plan import physical_plan as physical
from panewise.plan.aggregation import Aggregation, StateKey
from panewise.plan.family_plan import FamilyPlan
from panewise.slicing.pairs import Cadence
from panewise.slicing.window_set import WindowSet


class Family:
    """Members, a timeline and slices. Not all rows before `held_from` were seen; None: all rows were seen.

    Fixed: `keys`, `where`, `timed` (the axis is event time, not row numbers), `folds_only` (it makes partials for
    other families and answers nothing), `technique` (which its queries asked for), and `sparse_above` (groups).
    """

    def __init__(
        self,
        keys: tuple[Expression, ...],
        where: Expression | None,
        held_from: int | None = None,
        timed: bool = True,
        folds_only: bool = False,
        technique: str | None = None,
        sparse_above: int | None = None,
    ) -> None:
        self.keys, self.where = keys, where
        self.timed, self.folds_only = timed, folds_only
        self.technique = technique
        self.sparse_above = physical.SPARSE_ABOVE if sparse_above is None else sparse_above
        timeline = self._timeline = Timeline(held_from)
        members = self._members = Members(bool(keys), timed)
        self._slices = FamilySlices(keys, where, members, timeline, not folds_only, technique, self.sparse_above)
        self._trees = MemberTrees(members, timeline, self._slices)
        self._past = PastReports(members, timeline, self._slices, timed)

    def like(self) -> Family:
        """A fresh family that folds or merges into the same slices; it combines many partials into fewer."""
        family = Family(self.keys, self.where, timed=self.timed, folds_only=True)
        for name, member in self.members.items():
            family.add(name, member.aggregation, member.cadence, INT64_MIN)
        family.follow_edges([self])
        return family

    def anew(self) -> Family:
        """A fresh family without members, which sees rows from the same point on."""
        return self.anew_from(self.held_from)

    def anew_from(self, held_from: int | None) -> Family:
        """A fresh family without members, which sees rows from a point on; None: all rows of the stream."""
        return Family(self.keys, self.where, held_from, self.timed, self.folds_only, self.technique, self.sparse_above)

    # -- what it is ----------------------------------------------------------------------------------------------

    @property
    def members(self) -> Mapping[str, Member]:
        return MappingProxyType(self._members.by_name)

    @property
    def members_by_tree(self) -> dict[int, list[Member]]:
        """Members by the number of their tree; tree 0 has the store's own slices."""
        return self._members.by_tree()

    @property
    def tree_count(self) -> int:
        """The number of trees of the weave, including tree 0 with the store's own slices."""
        return len(self._trees)

    @property
    def changes(self) -> int:
        """The number of times that a member was added or removed."""
        return self._members.changes

    @property
    def windows(self) -> WindowSet:
        """The distinct windows of all members."""
        return self._members.windows

    @property
    def shortest_slide(self) -> int | None:
        return self._members.windows.shortest_slide

    @property
    def group_count(self) -> int:
        return len(self._slices.groups)

    @property
    def states(self) -> Mapping[StateKey, int | None]:
        """The states that are kept, each with the point from which on it is whole; None: from the beginning."""
        return self._timeline.states

    @property
    def store(self) -> SliceStore:
        return self._slices.store

    @property
    def open_slice_count(self) -> int:
        """The number of slices that the watermark has not passed."""
        return self.store.open.count

    @property
    def edges(self) -> dict[str, list[int]]:
        """Where slices are cut, in each epoch that rows may still fall into, as plain values."""
        return self.store.open.edges()

    @property
    def watermark(self) -> int:
        return self._timeline.watermark

    @property
    def greatest(self) -> int:
        """The greatest point of any row."""
        return self._timeline.greatest

    @property
    def held_from(self) -> int | None:
        return self._timeline.held_from

    @property
    def needed_from(self) -> int:
        """No report to come needs a slice that begins before this point."""
        return self._timeline.needed_from

    @property
    def reach(self) -> int:
        """The longest distance from the beginning of a window to its report, over windows that have a beginning."""
        return self._members.schedule.reach

    @property
    def bytes_held(self) -> int:
        return self._slices.bytes_held

    # -- members -------------------------------------------------------------------------------------------------

    def hold_from(self, point: int | None) -> None:
        """Rows before the point were not seen (None: all were). To be called before any member is added."""
        assert not self._members.by_name
        self._timeline.hold_from(point)

    def hold_back(self, point: int) -> None:
        """Not all rows before the point were seen, after all. The point is later than all reports so far."""
        self._timeline.hold_back(point)
        self._members.hold_back(point)

    def add(self, name: str, aggregation: Aggregation, cadence: Cadence, cut: int | None = None) -> None:
        """Adds a query. It reports from its first whole window on, which the slices held may answer already.

        `cut`: edges change at this point. No row of the stream has reached it, including rows that this family has not
        seen; INT64_MIN: there are no rows yet. Families that feed each other get the same calls with the same cuts.
        """
        timeline = self._timeline
        assert aggregation.keys == self.keys
        assert cut is not None or not timeline.by_cuts
        timeline.follow_cuts(cut)
        for key in aggregation.states:
            self._slices.add_state(key, cut)
        since = timeline.held_since(aggregation.states)
        member = self._members.add(name, aggregation, cadence, since)
        self._slices.follow_windows(cut)
        store = self.store
        member.join(timeline.reported_at_joining(cadence, since, store), store.touched(cadence))
        if timeline.watermark != INT64_MIN and timeline.by_cuts:
            store.turn_back(cadence, member.reported + cadence.slide)

    def keep_states(self, keys: Iterable[StateKey]) -> None:
        """Keeps states that other families need; for a family without members that only folds."""
        assert self.folds_only
        for key in keys:
            self._slices.add_state(key, INT64_MIN)

    def remove(self, name: str, cut: int | None = None) -> None:
        """Removes a query and what only it needed; `cut` as in `add`. Without a cut, a host that gives cuts keeps the
        query's edges until the next one."""
        self._trees.leave(self._members.by_name[name])
        self._members.remove(name)
        self._slices.drop_unneeded_states()
        self._slices.follow_windows(cut if self._members.by_name else None)

    def rename(self, name: str, to: str) -> None:
        """Gives a member another name."""
        self._members.rename(name, to)

    def cut_from(self, point: int, windows: WindowSet) -> None:
        """Uses the edges of these windows from the point on, which no row has reached."""
        self._slices.cut_from(point, windows)

    def take_failures(self) -> dict[str, str]:
        """Members whose answers cannot be computed any more, with the reason. The host removes them."""
        return self._members.take_failures()

    def take_overflows(self) -> dict[str, int]:
        """The number of answers outside their type since the last call, by member; they are NULL."""
        return self._members.take_overflows()

    def take_troubles_of(self, other: Family) -> None:
        """Takes over failures and overflows of another family, which answered for members of this one."""
        self._members.take_troubles_of(other._members)

    def take_over(self, name: str, other: Family) -> None:
        """Another family gave the reports of this member so far; if they have begun there, they have begun here."""
        self._members.by_name[name].go_on_from(other.members[name])

    @property
    def plan(self) -> FamilyPlan:
        """How the members are divided into trees; the first tree has the store's own slices."""
        return self._trees.plan

    def become(self, plan: FamilyPlan) -> None:
        """Divides the members into trees as the plan says; see `MemberTrees.become`."""
        self._trees.become(plan)

    # -- rows ----------------------------------------------------------------------------------------------------

    def process(self, rows: Rows, points: Ints, watermark: int) -> Reports:
        """Takes rows in, moves the watermark, and returns the due reports of each member, in order of time."""
        self.take(rows, points)
        return self.advance(watermark)

    def fold(self, rows: Rows, kept: Kept = None) -> None:
        """Takes rows in at their event times, without moving the watermark."""
        assert self.timed
        self.take(rows, rows.times, kept)

    def take(self, rows: Rows, points: Ints, kept: Kept = None) -> None:
        """Takes rows in at these points of the axis, without moving the watermark."""
        if len(rows):
            self.notice(points, rows.latest if points is rows.times else int(points[-1]))
            self._slices.fold(rows, points, kept)

    def notice(self, points: Ints, latest: int) -> None:
        """Rows have arrived, before any WHERE; `latest` is the greatest of their points."""
        self._timeline.see(latest)
        self._members.notice(points, latest)

    # -- reports -------------------------------------------------------------------------------------------------

    def advance(self, watermark: int) -> Reports:
        """Moves the watermark and returns the due reports; the second half of `process`."""
        assert not self.folds_only
        if watermark <= self.watermark:
            return Reports(self._members.names)
        self._slices.close(watermark)
        pieces = self.due()
        self._slices.evict()
        return pieces

    def forward(self, watermark: int) -> None:
        """Moves the watermark and skips the due reports, which another process has answered."""
        assert not self.folds_only
        if watermark > self.watermark:
            self._slices.close(watermark)
            self._slices.reporting.skip_due()
            self._slices.evict()

    def due(self, fresh: str | None = None) -> Reports:
        """The reports that the watermark has reached and that are not out yet; `fresh`: only those of this member."""
        return self._slices.reporting.due(None if fresh is None else self.members[fresh])

    def next_due(self) -> int:
        """The first point at which a report will be due."""
        return self._members.schedule.next_due(self.watermark)

    def due_count(self, watermark: int) -> int:
        """How many reports will be due at a watermark, at most."""
        return self._members.schedule.due_count(self.watermark, watermark)

    def step_to(self, watermark: int, most: int) -> int:
        """The furthest point up to a watermark by which at most `most` reports are due, or else the next report."""
        return self._members.step_to(self.watermark, watermark, most, lambda: self.store.rows_span)

    def empty_batch(self, member: Member, ends: Ints) -> pa.RecordBatch | None:
        """The reports of an ungrouped query over empty windows that end at these points; None if HAVING drops them."""
        return self._slices.reporting.empty(member, ends)

    def past_report(self, member: Member, report: int, query: str) -> pa.RecordBatch | None:
        """A report of the past; NotHeldError, which names the query, if the slices held do not answer it."""
        return self._past.report_of(member, report, query)

    def last_report_of(self, aggregation: Aggregation, cadence: Cadence) -> pa.RecordBatch | None:
        """The last report of a window that no member has; None if the slices held do not answer it exactly."""
        return self._past.last_report_of(aggregation, cadence)

    def answers_exactly(self, aggregation: Aggregation, cadence: Cadence, report: int) -> bool:
        """Whether the slices held answer a report of any window, whose states must be kept."""
        return self._past.is_answered(aggregation, cadence, report)

    # -- families that feed families -----------------------------------------------------------------------------

    def follow_edges(self, families: Sequence[Family]) -> None:
        """Cuts slices wherever one of these families does, for which this one folds, in every epoch still in use."""
        assert self.folds_only
        edges = self._timeline.edges_of([family.store.open for family in families])
        if edges is not None:
            self.store.open.set_edges(edges)

    def take_partials(self) -> pa.RecordBatch | None:
        """The partials of all open slices, which are then empty; `partials.py` describes the format."""
        return self._slices.take_partials()

    def merge(self, batch: pa.RecordBatch, arrival_base: int = 0, finer: bool = False) -> None:
        """Combines partials of another family with the open slices. They are newer than all that came before.

        `arrival_base` is added to the arrival numbers that the other family gave to its rows. Its slices are those of
        this family. If `finer`, each lies within a slice of this family, which has noticed the rows already.
        """
        if batch.num_rows:
            self._slices.merge(batch, arrival_base, finer)

    def take_notes(self) -> dict[str, int]:
        """The first report of each member that saw rows since the last call; of an ungrouped family that folds."""
        return self._members.take_notes()

    def note(self, notes: dict[str, int]) -> None:
        """Takes over what another family noted (`take_notes`)."""
        self._members.note(notes)

    # -- outlines and snapshots ----------------------------------------------------------------------------------

    def outline(self) -> dict[str, Any]:
        """Everything that `rebuild` needs besides the partials that were merged: a few plain values."""
        assert all(member.cadence.range is not None for member in self._members), "needs slices without end"
        return {
            **self._timeline.marks,
            "edges": self.edges,
            "state_held_from": {key.name: since for key, since in self.states.items()},
            "members": self._members.outline(),
        }

    def rebuild(self, outline: dict[str, Any], pages: list[tuple[pa.RecordBatch, int]]) -> None:
        """Makes a fresh family with the same members continue as the family of the outline would.

        `pages`: partials with their arrival bases, in the order in which they were merged there.
        """
        self.store.open.set_edges(outline["edges"])
        self._slices.rebuild(pages, outline["needed_from"], outline["watermark"])
        self.adopt(outline)
        self._slices.touch_all()

    def adopt(self, outline: dict[str, Any]) -> None:
        """Takes the rest of an outline over, after the same partials were merged and the watermark was moved."""
        self._timeline.set_marks(outline)
        self._timeline.set_states({key: outline["state_held_from"][key.name] for key in self.states})
        self.store.open.set_edges(outline["edges"])
        self._members.adopt(outline["members"])

    def snapshot(self) -> dict[str, Any]:
        """The whole state as plain values and arrays; its size is proportional to slices times groups."""
        return {
            **self._slices.snapshot(),
            "states": [key.written for key in self.states],
            "state_held_from": list(self.states.values()),
            **self._timeline.marks,
            "members": self._members.snapshot(),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Takes a snapshot over. The members must have been added already; states take the order of the snapshot."""
        by_name = {key.written: key for key in self.states}
        order = [by_name[name] for name in snapshot["states"]]
        self._timeline.set_states(dict(zip(order, snapshot["state_held_from"], strict=True)))
        self._slices.restore(snapshot)
        self._timeline.set_marks(snapshot)
        self._members.restore(snapshot["members"])
