"""The family: periodic aggregates over one stream whose rows are folded together.

Queries over one stream with the same selection and grouping, whatever their windows, are members of one family. A row
is filtered, grouped, sliced and folded once, for all of them; each distinct state is kept once. When the watermark
passes the end of a slice its partials enter the synopses, and all reports that have come due are answered together.

    rows -> WHERE -> group ids -> slots -> fold    | once for all members
    closed slices -> synopses -> answers           | one call for all due windows
    answers -> lower -> HAVING -> items            | per member

Members may be divided into trees of a weave, which have slices of their own made of the family's (`tree.py`). Nothing
that has been or will be reported depends on the weave.

The axis is integers: event times in microseconds, or row numbers for windows of rows. Rows come in any order as long as
none falls into a slice that the watermark has closed. A family with few groups keeps dense slices; past `sparse_above`
it moves to sparse ones for good.

A family may also be fed by others, which fold rows and export partials (`partials.py`). A host that keeps the partials
it merged (*pages*) need never write the whole state: per micro-batch it writes the page and the *outline*, whose size
depends on members and not on slices or groups.

    rows -> fold -> take_partials  ==>  merge -> advance -> answers

    merge(page 1), advance, merge(page 2), advance, outline   ==   rebuild(outline, [page 1, page 2])
                                                              ==   merge(page 1), merge(page 2), forward, adopt(outline)

Invariant of pages: of the slices that begin at `needed_from` or later, every page is there; those that begin earlier
are needed by no report to come and are left out, also where some of their pages are there. A cut that came after a page
may have shortened its slices; the epochs in the outline say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.columns import flags, integers, wrapped
from panewise.aggregates.holistic import HeldKind
from panewise.arrays import INT64_MIN, Ints
from panewise.errors import NotHeldError, QueryFailed
from panewise.language.expressions import Expression
from panewise.loops import is_worth_calling
from panewise.operators.arguments import ArgumentPlan, Arguments
from panewise.operators.family.dense_slices import DenseSlices
from panewise.operators.family.eviction import Forgetting
from panewise.operators.family.groups import Groups
from panewise.operators.family.member import Member
from panewise.operators.family.members import Members
from panewise.operators.family.partials import START, Partials, packed
from panewise.operators.family.reporting import stamped
from panewise.operators.family.slice_store import SliceStore
from panewise.operators.family.timeline import Timeline
from panewise.operators.held.closed_values import STRUCTURES
from panewise.operators.reports import Reports
from panewise.operators.row_batch import Rows
from panewise.plan import physical_plan as physical
from panewise.plan.aggregation import ROW_COUNT, Aggregation, StateKey
from panewise.plan.expressions.evaluate import compiled
from panewise.plan.family_plan import FamilyPlan, TreePlan
from panewise.slicing.pairs import Cadence
from panewise.slicing.slot_loops import assign_known
from panewise.slicing.window_set import WindowSet
from panewise.temporal import format_instant

Kept = NDArray[np.bool_] | Ints | None  # what WHERE keeps, as a mask or as positions; None: it is not known yet
SHORT_WAY_FROM = 1024  # rows; a smaller batch is not worth compiling a loop of its own
SHORT_WAY_IN_ALL = 1 << 20  # rows in smaller batches are worth it
COUNTED = (ROW_COUNT,)  # by the short ways, which count rows while they find their slots


class Family:
    """Members, a timeline, groups and one store of slices. `held_from`: rows before it were not all seen.

    Fixed: `keys`, `where`, `timed` (the axis is event time, not row numbers), `folds_only` (it makes partials for
    other families and answers nothing itself), `technique`, which its queries have asked for, and `sparse_above`.
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
        self.keys = keys
        self.where = where
        self.timed = timed
        self.folds_only = folds_only
        self.technique = technique
        self.sparse_above = physical.SPARSE_ABOVE if sparse_above is None else sparse_above
        self._timeline = Timeline(held_from)
        self._members = Members(bool(keys), timed)
        self._groups = Groups(keys)
        self._forgetting = Forgetting(self._groups)
        self._keep(DenseSlices(16 if keys else 1, self._groups.pools, not folds_only, technique))
        self._argument_plan: ArgumentPlan | None = None  # of the states; made anew when they change
        self._where = compiled(where) if where is not None else None

    def like(self) -> Family:
        """A fresh family that folds or merges into the same slices, for partials that are to become fewer."""
        family = Family(self.keys, self.where, timed=self.timed, folds_only=True)
        for name, member in self.members.items():
            family.add(name, member.aggregation, member.cadence, INT64_MIN)
        family.follow_edges([self])
        return family

    def anew(self) -> Family:
        """A fresh family without members, for rows from the same point on."""
        return self.anew_from(self.held_from)

    def anew_from(self, held_from: int | None) -> Family:
        """A fresh family without members, for rows from another point on; None: for all rows there ever were."""
        return Family(self.keys, self.where, held_from, self.timed, self.folds_only, self.technique, self.sparse_above)

    # -- what it is ----------------------------------------------------------------------------------------------

    @property
    def members(self) -> Mapping[str, Member]:
        return MappingProxyType(self._members.by_name)

    @property
    def members_by_tree(self) -> dict[int, list[Member]]:
        """By number of the tree of the weave; 0 has the store's own slices."""
        return self._members.by_tree()

    @property
    def tree_count(self) -> int:
        """How many trees it is divided into, the one with the store's own slices included."""
        return len(self._store.trees) + 1

    @property
    def changes(self) -> int:
        """How often a member has come or gone."""
        return self._members.changes

    @property
    def windows(self) -> WindowSet:
        """Those of all members, each once."""
        return self._members.windows

    @property
    def shortest_slide(self) -> int | None:
        return self._members.windows.shortest_slide

    @property
    def group_count(self) -> int:
        return len(self._groups)

    @property
    def states(self) -> Mapping[StateKey, int | None]:
        """The states that are kept, with the point from which on each is whole; None: from the beginning."""
        return self._timeline.states

    @property
    def store(self) -> SliceStore:
        return self._store

    @property
    def open_slice_count(self) -> int:
        """How many slices the watermark has not passed."""
        return self._store.open.count

    @property
    def edges(self) -> dict[str, list[int]]:
        """Where slices are cut, in each epoch that rows may still fall into, as plain values."""
        return self._store.open.edges()

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
        """How far back from its report the rows of a window may lie, of windows that have a beginning."""
        schedule = self._members.schedule
        return int((schedule.column("range") + schedule.column("offset")).max()) if len(schedule) else 0

    @property
    def bytes_held(self) -> int:
        return self._store.bytes_held + self._groups.bytes_held

    # -- members -------------------------------------------------------------------------------------------------

    def hold_from(self, point: int | None) -> None:
        """Rows before the point were not seen (None: all were); before any member is there."""
        assert not self._members.by_name
        self._timeline.hold_from(point)

    def hold_back(self, point: int) -> None:
        """Rows before the point, which lies ahead of all reports so far, turn out not to have been seen all."""
        self._timeline.hold_back(point)
        for member in self._members:
            member.hold_back(point)

    def add(self, name: str, aggregation: Aggregation, cadence: Cadence, cut: int | None = None) -> None:
        """A query joins: with history where the slices held answer it exactly, else from its first whole window on.

        `cut`: edges change at this point, which no row of the stream has reached (INT64_MIN: none has come), also none
        that this family has not seen. Families that feed each other get the same calls with the same cuts.
        """
        timeline = self._timeline
        assert aggregation.keys == self.keys
        assert cut is not None or not timeline.by_cuts
        timeline.follow_cuts(cut)
        for key in aggregation.states:
            self._keep_state(key, cut)
        since = timeline.held_since(aggregation.states)
        member = self._members.add(name, aggregation, cadence, since)
        self._follow_windows(cut)
        member.join(timeline.reported_at_joining(cadence, since, self._store), self._store.touched(cadence))
        if timeline.watermark != INT64_MIN and timeline.by_cuts:
            self._store.turn_back(cadence, member.reported + cadence.slide)

    def keep_states(self, keys: Iterable[StateKey]) -> None:
        """States that others answer from, for a family without members that only folds."""
        assert self.folds_only
        for key in keys:
            self._keep_state(key, INT64_MIN)

    def _keep_state(self, key: StateKey, cut: int | None) -> None:
        if key not in self._timeline.states:
            self._timeline.begin_state(key, cut)
            self._argument_plan = None
            self._store.add_state(key)

    def remove(self, name: str, cut: int | None = None) -> None:
        """A query leaves, and what only it needed; `cut` as in `add`.

        Where a host gives the cuts, one that leaves without leaves its edges behind, until the next cut.
        """
        leaving = self._members.by_name[name]
        self._store.leave(leaving.tree, leaving.cadence, leaving.window)
        self._members.remove(name)
        wanted = self._members.states
        for key in [key for key in self._timeline.states if key not in wanted]:
            self._timeline.end_state(key)
            self._argument_plan = None
            self._store.drop_state(key)
        self._follow_windows(cut if self._members.by_name else None)

    def rename(self, name: str, to: str) -> None:
        """A member goes on under another name."""
        self._members.rename(name, to)

    def _follow_windows(self, cut: int | None) -> None:
        """Members have come or gone: the one place where the store learns of it."""
        windows = self._members.windows
        self._store.follow(windows)
        point = self._timeline.edges_change(windows, self._store.open, cut)
        if point is not None:
            self.cut_from(point, windows)

    def cut_from(self, point: int, windows: WindowSet) -> None:
        """These windows' edges hold from the point on, which no row has reached; it divides the slice around it."""
        self._timeline.cut_at(point)
        self._store.open.cut_from(point, windows)
        if not self.folds_only:
            self._store.close(self.watermark)  # the first part of that slice may be complete

    def take_failures(self) -> dict[str, str]:
        """Members that met data they cannot answer for, with what they met; the host removes them."""
        return self._members.take_failures()

    def take_overflows(self) -> dict[str, int]:
        """By member, answers outside their type since the last call; they are NULL."""
        return self._members.take_overflows()

    def take_troubles_of(self, other: Family) -> None:
        """Another family has answered for members of this one: its failures and overflows are theirs."""
        for name, reason in other.take_failures().items():
            self._members.fail(name, reason)
        for name, count in other.take_overflows().items():
            self._members.note_overflows(name, count)

    def take_over(self, name: str, other: Family) -> None:
        """A member goes on here whose reports another family has given so far: if they have begun, they have here."""
        self._members.by_name[name].go_on_from(other.members[name])

    # -- the weave -----------------------------------------------------------------------------------------------

    @property
    def plan(self) -> FamilyPlan:
        """How the members are divided now; the first tree has the store's own slices."""
        store, by_tree = self._store, self.members_by_tree
        trees = []
        for number in (0, *sorted(store.trees)):
            members = tuple(member.plan for member in by_tree.get(number, ()))
            windows = store.trees[number].windows if number else self.windows
            techniques = {key: self._kept_by(number, key) for key in self.states}
            trees.append(TreePlan(members, techniques, windows.classes))
        return FamilyPlan(tuple(trees))

    def become(self, plan: FamilyPlan) -> None:
        """Divides the members as a plan has it: some join trees that there are, or all trees are made anew.

        Members whose states or windows need the store's slices stay there whatever the plan says.
        """
        if not self._store.can_weave:
            return
        moving = self._joining(plan)
        if moving is None:
            for member in self._members.in_order:
                self._store.leave(member.tree, member.cadence, member.window)
                member.move_to(0)
            own, *others = plan.trees
            self._store.weave([tree.techniques for tree in others], own.techniques)
            moving = {member.name: number for number, tree in enumerate(others, 1) for member in tree.members}
        for name, number in moving.items():
            member = self.members[name]
            if number and member.can_move:
                member.move_to(number)
                self._store.trees[number].add(member.cadence)

    def _kept_by(self, number: int, key: StateKey) -> str:
        """What a tree keeps a state by."""
        if isinstance(key.kind, HeldKind):
            return STRUCTURES[key.kind.structure]
        return self._store.technique_of(number, key)

    def _joining(self, plan: FamilyPlan) -> dict[str, int] | None:
        """The members that leave the store's own slices for a tree; None where trees are not those that there are."""
        store = self._store
        if len(plan.trees) != len(store.trees) + 1 or not store.trees:
            return None
        moving: dict[str, int] = {}
        for number, tree in enumerate(plan.trees):
            if any(self._kept_by(number, key) != name for key, name in tree.techniques.items()):
                return None
            for member in tree.members:
                present = self.members[member.name].tree
                if present and present != number:
                    return None
                if not present and number:
                    moving[member.name] = number
        return moving

    # -- rows ----------------------------------------------------------------------------------------------------

    def process(self, rows: Rows, points: Ints, watermark: int) -> Reports:
        """Takes rows in, moves the watermark, and returns what has come due per member, in order of time.

        A piece is a batch (window_start, window_end as points, then the items) or a range of empty reports.
        """
        self.take(rows, points)
        return self.advance(watermark)

    def fold(self, rows: Rows, kept: Kept = None) -> None:
        """Takes rows in and leaves the watermark where it is."""
        assert self.timed
        self.take(rows, rows.times, kept)

    def take(self, rows: Rows, points: Ints, kept: Kept = None) -> None:
        """Takes rows in at these points of the axis, and leaves the watermark where it is."""
        if not len(rows):
            return
        self.notice(points, rows.latest if points is rows.times else int(points[-1]))
        self._fold(rows, points, kept)

    def notice(self, points: Ints, latest: int) -> None:
        """Rows have come, whether WHERE keeps them or not: `latest` is the greatest of their points."""
        self._timeline.see(latest)
        self._members.notice(points, latest)

    def _fold(self, rows: Rows, points: Ints, kept: Kept) -> None:
        if self._where is not None:
            chosen = flags(self._where(rows.batch)) if kept is None else kept
            chosen = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
            if len(chosen) < len(rows):
                if not len(chosen):
                    return
                rows, points = rows.take(chosen), points[chosen]
        if self._argument_plan is None:
            self._argument_plan = ArgumentPlan(tuple(self._timeline.states), self._groups.pools)
        arguments = self._argument_plan.read(rows.batch)
        self._store.note_nulls(arguments)
        alone = None if self.keys else self._store.assign_alone(points, rows.ascends and points is rows.times)
        if alone is not None:
            self._fold_slots(alone, arguments, rows, COUNTED)
            return
        done = 0
        groups = np.empty(0, np.int64)
        if self.keys:
            words, nulls = self._groups.words(rows.batch)
            done = self._fold_known(words, nulls, points, arguments, rows)
            if done == len(rows):
                return
            groups = self._groups.table.ids_of(words[:, done:], nulls[done:])
            self._make_room()
        slots = self._store.assign(points[done:], groups)
        self._fold_slots(slots, arguments.rest(done), rows.slice(done, len(rows)))

    def _fold_known(self, words: Ints, nulls: Ints, points: Ints, arguments: Arguments, rows: Rows) -> int:
        """The short way: rows up to the first one with a new key find their group by one load. How many there were."""
        direct = self._groups.table.direct(words, nulls)
        if direct is None:
            return 0
        if not is_worth_calling(assign_known, len(rows), SHORT_WAY_FROM - 1, SHORT_WAY_IN_ALL):
            return 0
        slots = self._store.assign_known(points, words[0], *direct)
        if len(slots):
            self._fold_slots(slots, arguments, rows, COUNTED)
        return len(slots)

    def _fold_slots(self, slots: Ints, arguments: Arguments, rows: Rows, counted: tuple[StateKey, ...] = ()) -> None:
        for key, problem in self._store.fold(slots, arguments, rows, counted):
            self._members.fail_readers_of(key, f"an aggregate raised {type(problem).__name__}: {problem}")

    def _make_room(self) -> None:
        """Slices follow the table of groups, which may have come to hold more."""
        before = self._store
        store = before.with_room(len(self._groups), self.sparse_above, self._members.windows)
        if store is not before:
            self._keep(store)
            self._members.leave_trees()
            for member in self._members:
                member.touch_anew(store.touched(member.cadence))

    def _keep(self, store: SliceStore) -> None:
        """Slices are kept here from now on."""
        self._store = store
        self._reporting = store.reporting(self._members, self._timeline, self._groups)

    # -- reports -------------------------------------------------------------------------------------------------

    def advance(self, watermark: int) -> Reports:
        """Moves the watermark; the second half of `process`."""
        assert not self.folds_only
        if watermark <= self.watermark:
            return Reports(self._members.names)
        self._store.close(watermark)
        self._timeline.move_to(watermark)
        pieces = self.due()
        self._forget()
        return pieces

    def forward(self, watermark: int) -> None:
        """Like `advance`, but the reports that come due are passed over: another process has answered them."""
        assert not self.folds_only
        if watermark > self.watermark:
            self._store.close(watermark)
            self._timeline.move_to(watermark)
            self._reporting.pass_over()
            self._forget()

    def due(self, fresh: str | None = None) -> Reports:
        """The reports that the watermark has reached and that are not out yet; `fresh`: of the last member to come."""
        return self._reporting.due(None if fresh is None else self.members[fresh])

    def next_due(self) -> int:
        """The first point at which a report will be due."""
        return self._members.schedule.next_due(self.watermark)

    def due_count(self, watermark: int) -> int:
        """How many reports will be due at a watermark, at most."""
        return self._members.schedule.due_count(self.watermark, watermark)

    def step_to(self, watermark: int, most: int) -> int:
        """The furthest point up to a watermark by which no more reports are due than `most`, or those of one point."""
        slide, come_to = self.shortest_slide, self.watermark
        # The closer look is for long ways, which are few.
        if slide is None or ((watermark - come_to) // slide + 1) * len(self._members.by_name) <= most:
            return watermark
        schedule, span = self._members.schedule, self._store.rows_span or (watermark, watermark)

        def is_few(point: int) -> bool:
            return schedule.due_count(come_to, point, span) <= most

        if is_few(watermark):
            return watermark
        begun = some = max(come_to, -(2**62))
        step = slide
        while some + step < watermark and is_few(some + step):
            some, step = some + step, 2 * step
        too_many = min(watermark, some + step)
        while too_many - some > slide:
            middle = (some + too_many) // 2
            some, too_many = (middle, too_many) if is_few(middle) else (some, middle)
        return some if some > begun else self.next_due()

    def empty_batch(self, member: Member, ends: Ints) -> pa.RecordBatch | None:
        """What an ungrouped query says of empty windows, at these reports."""
        return self._reporting.empty(member, ends)

    def past_report(self, member: Member, report: int, query: str) -> pa.RecordBatch | None:
        """A report of the past, where the slices held still answer it; `query` is the one that asks, for messages."""
        if not self._store.answers_past or member.cadence.range is None:
            raise NotHeldError(f"only the last report of '{query}' is held")
        if not self._timeline.is_whole(member.cadence, report, member.held_from, self._store):
            raise NotHeldError(
                f"the report of '{query}' at {format_instant(report) if self.timed else f'row {report:,}'} is not held",
                hint="rows of its window have gone, or came before the query; CREATE ARCHIVE keeps the past",
            )
        if not self.keys and member.is_before_the_first(report):
            return None
        return self._answered(member, report)

    def last_report_of(self, aggregation: Aggregation, cadence: Cadence) -> pa.RecordBatch | None:
        """The last report of a window that is no member's, where the slices held answer it exactly; else None."""
        report = cadence.next_report(self.watermark) - cadence.slide
        if not self._store.answers_past or cadence.range is None:
            return None
        if not self.answers_exactly(aggregation, cadence, report):
            return None
        shape = self._members.shapes.number(aggregation)
        member = Member(aggregation, cadence, report, timed=self.timed, shape=shape)
        found = self._answered(member, report)
        if found is not None:
            return found
        return stamped(member, np.empty(0, np.int64), [pa.nulls(0, field.type) for field in aggregation.item_schema])

    def answers_exactly(self, aggregation: Aggregation, cadence: Cadence, report: int) -> bool:
        """Whether the slices held answer this report of a window that need not be a member's; its states are kept."""
        return self._timeline.is_whole(cadence, report, self._timeline.held_since(aggregation.states), self._store)

    def _answered(self, member: Member, report: int) -> pa.RecordBatch | None:
        found = self._reporting.answered(member, report)
        reason = self._members.failures.pop(member.name, None)
        if reason is not None:
            raise QueryFailed(reason)
        return found

    def _forget(self) -> None:
        timeline, store = self._timeline, self._store
        released = timeline.release(self._members, store)
        if len(store.starts):
            store.evict(store.first + released)
        self._forgetting.forget_groups(store, self._members)
        self._forgetting.forget_strings(store, timeline.states)
        store.open.forget_epochs(timeline.edges_needed_from)

    # -- families that feed families -----------------------------------------------------------------------------

    def follow_edges(self, families: Sequence[Family]) -> None:
        """Cuts slices wherever one of these families does, for which it folds, now and in every epoch that rows may
        still fall into."""
        assert self.folds_only
        edges = self._timeline.edges_of([family.store.open for family in families])
        if edges is not None:
            self._store.open.set_edges(edges)

    def take_partials(self) -> pa.RecordBatch | None:
        """The partials of all open slices, which are forgotten; the format is told in `partials.py`."""
        if not self._store.open.count:
            return None
        found = packed(self._store.drain(), self._groups)
        if self.watermark == INT64_MIN:  # so nothing else is held
            self._forgetting.forget_folded(found)
        return found.batch

    def merge(self, batch: pa.RecordBatch, arrival_base: int = 0, finer: bool = False) -> None:
        """Partials of another family, none of a slice that is closed here, are newer than all that came before.

        Rows of the other family arrived so many later than it counts them. Its slices are those of this one, or
        `finer`: then each lies within one of these, and this family has noticed the rows.
        """
        if not batch.num_rows:
            return
        partials = Partials(batch, self._groups, arrival_base)
        groups = partials.ids()
        self._make_room()
        store = self._store
        if not finer:
            starts, ends = partials.spans()
            ends = store.open.until_cut(starts, ends)
            assert int(ends.min()) > self.watermark, "a slice that is closed already"
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

    def take_notes(self) -> dict[str, int]:
        """Of an ungrouped family that folds: the first report of each member that saw rows since the last call."""
        return self._members.take_notes()

    def note(self, notes: dict[str, int]) -> None:
        """What another family noted."""
        self._members.note(notes)

    # -- what is written down ------------------------------------------------------------------------------------

    def outline(self) -> dict[str, Any]:
        """What it takes, beside the partials that were merged, to rebuild the family; plain values, few of them."""
        assert all(member.cadence.range is not None for member in self._members), "needs slices without end"
        return {
            **self._timeline.marks,
            "edges": self.edges,
            "state_held_from": {key.name: since for key, since in self.states.items()},
            "members": self._members.outline(),
        }

    def rebuild(self, outline: dict[str, Any], pages: list[tuple[pa.RecordBatch, int]]) -> None:
        """Makes a fresh family, with the members of the outlined one, answer as that one from then on.

        `pages`: what was merged, partials and arrival base, in that order; those may be missing that end at or before
        the outline's `needed_from`.
        """
        store = self._store
        assert not len(store.starts) and not store.open.count
        store.open.set_edges(outline["edges"])
        needed = [(_needed(partials, outline["needed_from"]), base) for partials, base in pages]
        kept = [(partials, base) for partials, base in needed if partials.num_rows]
        firsts = [int(integers(partials.column(START)).min()) for partials, _ in kept]
        for i, (partials, base) in enumerate(kept):
            self.merge(partials, base)
            # Slices that no later page adds to need not wait among the open ones, which take more room.
            self._store.close(min([outline["watermark"], *firsts[i + 1 :]]))
        self.adopt(outline)
        # Cursors begin with the slices held, so at its next report a member judges every group in them.
        for member in self._members:
            member.touch_anew(self._store.touched(member.cadence))

    def adopt(self, outline: dict[str, Any]) -> None:
        """After merging what the outlined family merged and going forward to its watermark: all else that it knew."""
        self._timeline.set_marks(outline)
        self._timeline.set_states({key: outline["state_held_from"][key.name] for key in self.states})
        self._store.open.set_edges(outline["edges"])
        self._members.adopt(outline["members"])

    def snapshot(self) -> dict[str, Any]:
        """The whole state as plain values and arrays, proportional to slices times groups."""
        return {
            "sparse": self._store.is_sparse,
            "store": self._store.snapshot(),
            **self._groups.snapshot(self.states),
            "groups_kept": self._forgetting.groups_kept,
            "states": [key.written for key in self.states],
            "state_held_from": list(self.states.values()),
            **self._timeline.marks,
            "members": self._members.snapshot(),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """The members must have been added already; their states take the order of the snapshot."""
        by_name = {key.written: key for key in self.states}
        order = [by_name[name] for name in snapshot["states"]]
        self._argument_plan = None
        self._timeline.set_states(dict(zip(order, snapshot["state_held_from"], strict=True)))
        self._groups.restore(snapshot, self.states)
        self._keep(self._store.as_written(snapshot["sparse"], self._members.windows))
        self._store.restore(snapshot["store"])
        self._forgetting.groups_kept = snapshot["groups_kept"]
        self._timeline.set_marks(snapshot)
        self._members.restore(snapshot["members"])


def _needed(page: pa.RecordBatch, needed_from: int) -> pa.RecordBatch:
    starts = integers(page.column(START))
    if not len(starts) or int(starts.min()) >= needed_from:
        return page
    return page.take(wrapped(np.flatnonzero(starts >= needed_from)))
