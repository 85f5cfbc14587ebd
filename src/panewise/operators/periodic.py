"""The tree: periodic aggregates that share one sequence of slices.

Queries over one stream with the same selection and grouping, whatever their windows, are members of one tree. A row is
filtered, grouped, sliced and folded once, for all of them; each distinct state is kept once. When the watermark passes
the end of a slice its partials enter the synopses, and all reports that have come due are answered together.

    rows -> WHERE -> group ids -> slots -> fold    | once for all members
    closed slices -> synopses -> answers           | one call for all due windows
    answers -> lower -> HAVING -> items            | per member

The rows are folded once for the whole family, as such queries are called; its members may be divided into trees of a
weave, which have slices of their own made of these (`tree_weave.py`).

The axis is integers: event times in microseconds, or row numbers for windows of rows. Rows come in any order as long as
none falls into a slice that the watermark has closed. A tree with few groups keeps dense slices; past `DENSE_GROUPS` it
moves to sparse ones for good.

A tree may also be fed by other trees, which fold rows and export partials (`partials.py`), and be rebuilt from what it
was fed (`tree_outline.py`):

    rows -> fold -> take_partials  ==>  merge -> advance -> answers
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.columns import flags
from panewise.language.expressions import Expression
from panewise.loops import is_worth_calling
from panewise.operators.aggregation import (
    ROW_COUNT,
    Aggregation,
    ArgumentPlan,
    Arguments,
    Pools,
    StateKey,
    empty_fields,
)
from panewise.operators.dense_reports import passing_of, stamped
from panewise.operators.dense_slices import DenseSlices
from panewise.operators.members import Member, first_answerable, note_rows
from panewise.operators.partials import merge_partials, taken_partials
from panewise.operators.reports import Reports
from panewise.operators.rows import Rows
from panewise.operators.schedule import Schedule
from panewise.operators.shapes import Shapes
from panewise.operators.slice_store import SliceStore
from panewise.operators.tree_forgetting import evict_slices, forget_groups, forget_strings
from panewise.operators.tree_outline import adopt_outline, outline_of, rebuild_tree
from panewise.operators.tree_snapshot import restore_tree, snapshot_of
from panewise.operators.tree_weave import leave_tree
from panewise.plan.evaluate import compiled
from panewise.slicing.pairs import Cadence
from panewise.slicing.slot_loops import assign_known
from panewise.slicing.window_set import WindowSet
from panewise.state.group_table import GroupTable

Ints = NDArray[np.int64]
DENSE_GROUPS = 4096
SHORT_WAY_FROM = 1024  # rows; a smaller batch is not worth compiling a loop of its own
SHORT_WAY_IN_ALL = 1 << 20  # rows in smaller batches are worth it
COUNTED = (ROW_COUNT,)  # by the short ways, which count rows while they find their slots
INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1


class PeriodicTree:
    """Members, one store of slices, one table of groups. `held_from`: rows before it were not all seen."""

    def __init__(
        self,
        keys: tuple[Expression, ...],
        where: Expression | None,
        held_from: int | None = None,
        timed: bool = True,
        folds_only: bool = False,
        technique: str | None = None,
    ) -> None:
        self.keys = keys
        self.technique = technique  # that its queries have asked for
        self.changes = 0  # of its members so far
        self.where = where
        self.timed = timed  # the axis is event time, not row numbers
        self.folds_only = folds_only  # it makes partials for other trees and answers nothing itself
        self.members: dict[str, Member] = {}
        self.schedule = Schedule()  # the same members, as columns
        self.names: dict[int, str] = {}  # by the numbers of their windows
        self.failures: dict[str, str] = {}  # members that met data they cannot answer for, for the host to remove
        self.overflows: dict[str, int] = {}  # by member, answers outside their type that nobody has taken note of
        self.state_held_from: dict[StateKey, int | None] = {}
        self.pools: Pools = {}
        self.table = GroupTable(tuple(key.type for key in keys))
        self.store: SliceStore = DenseSlices(16 if keys else 1, self.pools, not folds_only, technique)
        self._free_windows: list[int] = []  # numbers of windows that have left, for those to come
        self.watermark = INT64_MIN
        self.greatest = INT64_MIN  # the greatest point seen
        self.cut = INT64_MIN  # from here on, edges are those of all members
        self.by_cuts = False  # a host says where edges change, the same for several trees
        self.needed_from = INT64_MIN  # slices that begin before this point are needed by no report to come
        self.evicted_to: int | None = None  # where the last slice that has gone ended
        self.held_from = held_from
        self.shapes = Shapes()
        self.windows = WindowSet()  # of all members
        self._waiting: dict[str, Member] = {}  # of an ungrouped tree: members whose reports have not begun
        self.strings_kept: dict[Expression, int] = {}  # by pool, at the last look for idle strings
        self.groups_kept = 0  # at the last look for idle groups
        self.repeated_keys: tuple[int, tuple[int, int], list[pa.Array]] | None = None
        self.argument_plan: ArgumentPlan | None = None  # of the states; made anew when they change
        self._where = compiled(where) if where is not None else None
        self._keys = [compiled(key) for key in keys]

    def hold_from(self, point: int | None) -> None:
        """Rows before the point were not seen (None: all were); before any member is there."""
        assert not self.members
        self.held_from = point

    def hold_back(self, point: int) -> None:
        """Rows before the point, which lies ahead of all reports so far, turn out not to have been seen all."""
        self.held_from = point if self.held_from is None else max(point, self.held_from)
        for member in self.members.values():
            member.held_from = point if member.held_from is None else max(point, member.held_from)
            self.schedule.set_easy(member.row, False)

    # -- members -------------------------------------------------------------------------------------------------

    def add(self, name: str, aggregation: Aggregation, cadence: Cadence, cut: int | None = None) -> None:
        """A query joins: with history where the slices held answer it exactly, else from its first whole window on.

        `cut`: edges change at this point, which no row of the stream has reached (INT64_MIN: none has come), also none
        that this tree has not seen. Trees that feed each other get the same calls with the same cuts.
        """
        assert aggregation.keys == self.keys
        assert cut is not None or not self.by_cuts
        self.by_cuts = self.by_cuts or cut is not None
        held_from = self.held_from
        for key in aggregation.states:
            if key not in self.state_held_from:
                # Nobody kept this state so far: it is whole from the next point that no row has reached.
                seen = self.held_from if self.greatest == INT64_MIN else self.greatest + 1
                if cut is not None:
                    seen = None if cut == INT64_MIN else cut
                self.state_held_from[key] = seen
                self.argument_plan = None
                self.store.add_state(key)
            since = self.state_held_from[key]
            if since is not None:
                held_from = since if held_from is None else max(held_from, since)
        member = self.members[name] = Member(aggregation, cadence, INT64_MIN, held_from, self.timed, name)
        # All others have numbers from 1 on without a gap, but for the free ones.
        member.window = self._free_windows.pop() if self._free_windows else len(self.members)
        member.shape = self.shapes.number(aggregation)
        self.schedule.add(member)
        self.names[member.window] = name
        self.windows.add(cadence)
        self.changes += 1
        if not self.keys:
            self._waiting[name] = member
        self._follow_windows(cut)
        member.touched = self.store.touched(cadence)
        if self.watermark != INT64_MIN:
            member.reported = first_answerable(self, member) - cadence.slide
            if self.by_cuts:
                self.store.turn_back(cadence, member.reported + cadence.slide)
        elif cadence.range is not None and self.cut != INT64_MIN and self.by_cuts:
            # Slices before the cut may straddle its windows, and nothing says yet which are due.
            member.reported = cadence.next_report(self.cut + cadence.range + cadence.offset - 1) - cadence.slide

    def _follow_windows(self, cut: int | None) -> None:
        """Members have come or gone: the one place where the store learns of it.

        Where a host gives the cuts, edges change there and nowhere else, in all its trees alike. Otherwise they change
        where the windows have other edges than the slices to come.
        """
        self.store.follow(self.windows)
        if cut is not None:
            self.cut_from(cut, self.windows)
        elif self.members and not self.by_cuts and not self.store.open.has_edges_of(self.windows):
            reached = INT64_MIN if self.greatest == INT64_MIN else self.greatest + 1
            self.cut_from(max(reached, self.watermark), self.windows)

    def cut_from(self, point: int, windows: WindowSet) -> None:
        """These windows' edges hold from the point on, which no row has reached; it divides the slice around it."""
        self.cut = point
        self.store.open.cut_from(point, windows)
        if not self.folds_only:
            self.store.close(self.watermark)  # the first part of that slice may be complete

    def note_overflows(self, name: str, count: int) -> None:
        """So many answers of a member are outside their type, and NULL."""
        if count:
            self.overflows[name] = self.overflows.get(name, 0) + count

    def rename(self, name: str, to: str) -> None:
        """A member goes on under another name."""
        member = self.members[to] = self.members.pop(name)
        member.name = self.names[member.window] = to
        if name in self._waiting:
            self._waiting[to] = self._waiting.pop(name)
        if name in self.failures:
            self.failures[to] = self.failures.pop(name)

    def remove(self, name: str, cut: int | None = None) -> None:
        """A query leaves, and what only it needed; `cut` as in `add`.

        Where a host gives the cuts, one that leaves without leaves its edges behind, until the next cut.
        """
        member = self.members.pop(name)
        self._waiting.pop(name, None)
        leave_tree(self, member)
        self.schedule.remove(member)
        del self.names[member.window]
        self._free_windows.append(member.window)
        self.windows.remove(member.cadence)
        self.changes += 1
        shapes = {other.aggregation for other in self.members.values()}
        wanted = {key for aggregation in shapes for key in aggregation.states}
        for key in [key for key in self.state_held_from if key not in wanted]:
            del self.state_held_from[key]
            self.argument_plan = None
            self.store.drop_state(key)
        self._follow_windows(cut if self.members else None)

    # -- rows ----------------------------------------------------------------------------------------------------

    def process(self, rows: Rows, points: Ints, watermark: int) -> Reports:
        """Takes rows in, moves the watermark, and returns what has come due per member, in order of time.

        A piece is a batch (window_start, window_end as points, then the items) or a range of empty reports.
        """
        if len(rows):
            self._take(rows, points)
        return self.advance(watermark)

    def fold(self, rows: Rows, kept: NDArray[np.bool_] | Ints | None = None) -> None:
        """Takes rows in and leaves the watermark where it is.

        `kept`: what WHERE keeps, where that is known already, as a mask or as positions.
        """
        assert self.timed
        if len(rows):
            self._take(rows, rows.times, kept)

    def _take(self, rows: Rows, points: Ints, kept: NDArray[np.bool_] | Ints | None = None) -> None:
        self.notice(points, rows.latest if points is rows.times else int(points[-1]))
        self._fold(rows, points, kept)

    def notice(self, points: Ints, latest: int) -> None:
        """Rows have come, whether WHERE keeps them or not: `latest` is the greatest of their points."""
        self.greatest = max(self.greatest, latest)
        if self._waiting:
            least = int(points.min())
            for name, member in list(self._waiting.items()):
                if member.begun:
                    del self._waiting[name]
                else:
                    note_rows(member, points, least, latest)

    def begin_reports(self) -> None:
        """Members of an ungrouped tree whose first report has come due are easy from there on: all that follow are due.

        Those that know of no first report yet, or that have joined and find older rows in the slices held, are looked
        at more closely elsewhere.
        """
        oldest = int(self.store.starts[0]) if self._waiting and len(self.store.starts) else INT64_MAX
        for name, member in list(self._waiting.items()):
            first, cadence = member.first_report, member.cadence
            if member.begun:
                del self._waiting[name]
            elif first is None or first > self.watermark or cadence.range is None or member.suspended:
                continue
            elif oldest >= first - cadence.slide - cadence.offset:
                member.reported = max(first, cadence.next_report(member.reported)) - cadence.slide
                member.begun = True
                self.schedule.set_easy(member.row, member.is_easy(grouped=False))
                del self._waiting[name]

    def advance(self, watermark: int) -> Reports:
        """Moves the watermark; the second half of `process`."""
        assert not self.folds_only
        if watermark <= self.watermark:
            return Reports(self.names)
        self.store.close(watermark)
        self.watermark = watermark
        pieces = self.due()
        self._forget()
        return pieces

    # -- trees that feed trees -----------------------------------------------------------------------------------

    def take_partials(self) -> pa.RecordBatch | None:
        """The partials of all open slices, which are forgotten; the format is told in `partials.py`."""
        return taken_partials(self)

    def merge(self, partials: pa.RecordBatch, arrival_base: int = 0) -> None:
        """Partials of another tree, none of a slice that is closed here; they are newer than all that came before.

        Rows of the other tree arrived so many later than it counts them.
        """
        merge_partials(self, partials, arrival_base)

    def take_notes(self) -> dict[str, int]:
        """Of an ungrouped tree that folds: the first report of each member that saw rows since the last call."""
        notes = {name: m.first_report for name, m in self.members.items() if m.first_report is not None}
        for name in notes:
            self.members[name].first_report = None
        return notes

    def note(self, notes: dict[str, int]) -> None:
        """What another tree noted."""
        for name, report in notes.items():
            member = self.members.get(name)
            if member is not None and not member.begun:
                member.first_report = report if member.first_report is None else min(report, member.first_report)

    def outline(self) -> dict[str, Any]:
        """What it takes, beside the partials that were merged, to rebuild the tree; plain values, few of them."""
        return outline_of(self)

    def rebuild(self, outline: dict[str, Any], pages: list[tuple[pa.RecordBatch, int]]) -> None:
        """Makes a fresh tree, with the members of the outlined one, answer as that one from then on.

        `pages`: what was merged, partials and arrival base, in that order; those may be missing that end at or before
        the outline's `needed_from`.
        """
        rebuild_tree(self, outline, pages)

    def adopt(self, outline: dict[str, Any]) -> None:
        """After merging what the outlined tree merged and going forward to its watermark: all else that it knew."""
        adopt_outline(self, outline)

    def like(self) -> PeriodicTree:
        """A fresh tree that folds or merges into the same slices, for partials that are to become fewer."""
        tree = PeriodicTree(self.keys, self.where, timed=self.timed, folds_only=True)
        for name, member in self.members.items():
            tree.add(name, member.aggregation, member.cadence, INT64_MIN)
        tree.store.open.set_edges(self.store.open.edges())
        return tree

    def forward(self, watermark: int) -> None:
        """Like `advance`, but the reports that come due are passed over: another process has answered them."""
        assert not self.folds_only
        if watermark > self.watermark:
            self.store.close(watermark)
            self.watermark = watermark
            self.store.pass_over(self)
            self._forget()

    def _fold(self, rows: Rows, points: Ints, kept: NDArray[np.bool_] | Ints | None) -> None:
        if self._where is not None:
            chosen = flags(self._where(rows.batch)) if kept is None else kept
            chosen = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
            if len(chosen) < len(rows):
                if not len(chosen):
                    return
                rows, points = rows.take(chosen), points[chosen]
        if self.argument_plan is None:
            self.argument_plan = ArgumentPlan(tuple(self.state_held_from), self.pools)
        arguments = self.argument_plan.read(rows.batch)
        self.store.note_nulls(arguments)
        alone = None if self.keys else self.store.assign_alone(points, rows.ascends and points is rows.times)
        if alone is not None:
            self._fold_slots(alone, arguments, rows, COUNTED)
            return
        done = 0
        groups = np.empty(0, np.int64)
        if self.keys:
            words, nulls = self.table.words([key(rows.batch) for key in self._keys])
            done = self._fold_known(words, nulls, points, arguments, rows)
            if done == len(rows):
                return
            groups = self.table.ids_of(words[:, done:], nulls[done:])
            self.make_room()
        slots = self.store.assign(points[done:], groups)
        self._fold_slots(slots, arguments.rest(done), rows.slice(done, len(rows)))

    def _fold_known(self, words: Ints, nulls: Ints, points: Ints, arguments: Arguments, rows: Rows) -> int:
        """The short way: rows up to the first one with a new key find their group by one load. How many there were."""
        direct = self.table.direct(words, nulls)
        if direct is None:
            return 0
        if not is_worth_calling(assign_known, len(rows), SHORT_WAY_FROM - 1, SHORT_WAY_IN_ALL):
            return 0
        slots = self.store.assign_known(points, words[0], *direct)
        if len(slots):
            self._fold_slots(slots, arguments, rows, COUNTED)
        return len(slots)

    def _fold_slots(self, slots: Ints, arguments: Arguments, rows: Rows, counted: tuple[StateKey, ...] = ()) -> None:
        for key, problem in self.store.fold(slots, arguments, rows, counted):
            for name, member in self.members.items():
                if key in member.aggregation.states:
                    self.failures[name] = f"an aggregate raised {type(problem).__name__}: {problem}"

    def make_room(self) -> None:
        """Slices follow the table of groups, which may have come to hold more."""
        before = self.store
        self.store = before.with_room(len(self.table), DENSE_GROUPS, self.windows)
        if self.store is not before:
            self.schedule.column("tree")[:] = 0
            for member in self.members.values():
                member.touched = self.store.touched(member.cadence)

    def due(self, fresh: str | None = None) -> Reports:
        """The reports that the watermark has reached and that are not out yet; `fresh`: of the last member to come."""
        return self.store.due(self, None if fresh is None else self.members[fresh])

    def empty_batch(self, member: Member, ends: Ints) -> pa.RecordBatch | None:
        """What an ungrouped query says of empty windows, at these reports."""
        fields = {key: empty_fields(key, len(ends)) for key in member.aggregation.asked}
        answers, kept = passing_of(self, member.aggregation, [], fields)
        if not answers.num_rows:
            return None
        return stamped(member, ends if kept is None else ends[kept], member.aggregation.selected(answers))

    # -- forgetting ----------------------------------------------------------------------------------------------

    def _forget(self) -> None:
        evict_slices(self)
        forget_groups(self)
        forget_strings(self)
        # Nobody asks for edges of the past, but where several trees must agree on what the slices held answer.
        self.store.open.forget_epochs(self.needed_from if self.by_cuts else self.watermark)

    def next_due(self) -> int:
        """The first point at which a report will be due."""
        return self.schedule.next_due(self.watermark)

    @property
    def shortest_slide(self) -> int | None:
        return self.windows.shortest_slide

    @property
    def bytes_held(self) -> int:
        return self.store.bytes_held + self.table.bytes_held + sum(pool.bytes_held for pool in self.pools.values())

    # -- snapshots -----------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        return snapshot_of(self)

    def restore(self, snapshot: dict[str, Any]) -> None:
        """The members must have been added already."""
        restore_tree(self, snapshot)
