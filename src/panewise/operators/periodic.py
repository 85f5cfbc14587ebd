"""The tree: periodic aggregates that share one sequence of slices.

Queries over one stream with the same selection and grouping, whatever their windows, are members of one tree. A row is
filtered, grouped, sliced and folded once, for all of them; each distinct state is kept once. When the watermark passes
the end of a slice its partials enter the synopses, and all reports that have come due are answered together.

    rows -> WHERE -> group ids -> slots -> fold    | once for all members
    closed slices -> synopses -> answers           | one call for all due windows
    answers -> lower -> HAVING -> items            | per member

The axis is integers: event times in microseconds, or row numbers for windows of rows. Rows come in any order as long as
none falls into a slice that the watermark has closed. A tree with few groups keeps dense slices; past `DENSE_GROUPS` it
moves to sparse ones for good.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.columns import flags
from panewise.aggregates.states import Feed
from panewise.aggregates.string_pool import StringPool
from panewise.aggregates.user import matrix_of
from panewise.errors import NotHeldError, QueryFailed
from panewise.language.expressions import Expression
from panewise.operators.aggregation import Aggregation, ArgumentPlan, Arguments, Pools, StateKey
from panewise.operators.dense_reports import Piece, answered, dense_reports, passing_of, stamped
from panewise.operators.dense_slices import DenseSlices
from panewise.operators.members import Member, first_answerable, is_whole, note_rows
from panewise.operators.rows import Rows
from panewise.operators.sparse_reports import sparse_reports
from panewise.operators.sparse_slices import SparseSlices
from panewise.plan.evaluate import compiled
from panewise.slicing.pairs import Cadence
from panewise.state.group_table import GroupTable

Ints = NDArray[np.int64]
DENSE_GROUPS = 4096
SHORT_WAY_FROM = 1024  # rows; a smaller batch is not worth a loop of its own, which would have to be compiled first
FORGET_FROM = 65_536  # groups or strings; fewer are not worth looking for idle ones
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
    ) -> None:
        self.keys = keys
        self.where = where
        self.timed = timed  # the axis is event time, not row numbers
        self.members: dict[str, Member] = {}
        self.failures: dict[str, str] = {}  # members that met data they cannot answer for, for the host to remove
        self.state_held_from: dict[StateKey, int | None] = {}
        self.pools: Pools = {}
        self.table = GroupTable(tuple(key.type for key in keys))
        self.store: DenseSlices | SparseSlices = DenseSlices(16 if keys else 1, self.pools)
        self.watermark = INT64_MIN
        self.greatest = INT64_MIN  # the greatest point seen
        self.cut = INT64_MIN  # from here on, edges are those of all members
        self.evicted_to: int | None = None  # slices before this point may have gone
        self._held_from = held_from
        self._shapes: dict[Aggregation, int] = {}
        self._strings_kept: dict[Expression, int] = {}  # by pool, at the last look for idle strings
        self._groups_kept = 0  # at the last look for idle groups
        self.repeated_keys: tuple[int, tuple[int, int], list[pa.Array]] | None = None
        self._arguments: ArgumentPlan | None = None  # of the states; made anew when they change
        self._where = compiled(where) if where is not None else None
        self._keys = [compiled(key) for key in keys]

    def hold_from(self, point: int | None) -> None:
        """Rows before the point were not seen (None: all were); before any member is there."""
        assert not self.members
        self._held_from = point

    # -- members -------------------------------------------------------------------------------------------------

    def add(self, name: str, aggregation: Aggregation, cadence: Cadence) -> None:
        """A query joins: with history where the slices held answer it exactly, else from its first whole window on."""
        assert aggregation.keys == self.keys
        held_from = self._held_from
        for key in aggregation.states:
            if key not in self.state_held_from:
                # Nobody kept this state so far: it is whole from the next point that no row has reached.
                seen = self._held_from if self.greatest == INT64_MIN else self.greatest + 1
                self.state_held_from[key] = seen
                self._arguments = None
                self.store.add_state(key)
            since = self.state_held_from[key]
            if since is not None:
                held_from = since if held_from is None else max(held_from, since)
        member = self.members[name] = Member(aggregation, cadence, INT64_MIN, held_from, timed=self.timed)
        member.shape = self._shapes.setdefault(aggregation, len(self._shapes))
        self._recut()
        if isinstance(self.store, SparseSlices):
            member.touched = self.store.touched(cadence)
        if self.watermark != INT64_MIN:
            member.reported = first_answerable(self, member) - cadence.slide

    def _recut(self) -> None:
        """Edges of the members from the first point on that no row has reached."""
        open_ends = self.store.open.ends
        reached = INT64_MIN if self.greatest == INT64_MIN else self.greatest + 1
        if len(open_ends):
            reached = max(reached, int(open_ends.max()))
        reached = max(reached, self.watermark)
        self.cut = reached
        self.store.cut_from(reached, [member.cadence for member in self.members.values()])

    def remove(self, name: str) -> None:
        del self.members[name]
        wanted = {key for member in self.members.values() for key in member.aggregation.states}
        for key in [key for key in self.state_held_from if key not in wanted]:
            del self.state_held_from[key]
            self._arguments = None
            self.store.drop_state(key)
        if self.members:
            self._recut()

    # -- rows ----------------------------------------------------------------------------------------------------

    def process(self, rows: Rows, points: Ints, watermark: int) -> dict[str, list[Piece]]:
        """Takes rows in, moves the watermark, and returns what has come due per member, in order of time.

        A piece is a batch (window_start, window_end as points, then the items) or a range of empty reports.
        """
        if len(rows):
            self.greatest = max(self.greatest, rows.latest if points is rows.times else int(points[-1]))
            if not self.keys:
                for member in self.members.values():
                    if not member.begun:
                        note_rows(member, points)
            self._fold(rows, points)
        if watermark <= self.watermark:
            return {}
        self.store.close(watermark)
        self.watermark = watermark
        pieces = self.due()
        self._evict()
        self._forget_groups()
        self._forget_strings()
        return pieces

    def _fold(self, rows: Rows, points: Ints) -> None:
        if self._where is not None:
            kept = self._where(rows.batch)
            chosen = np.flatnonzero(flags(kept))
            if len(chosen) < len(rows):
                if not len(chosen):
                    return
                rows, points = rows.take(chosen), points[chosen]
        if self._arguments is None:
            self._arguments = ArgumentPlan(tuple(self.state_held_from), self.pools)
        arguments = self._arguments.read(rows.batch)
        self.store.note_nulls(arguments)
        done = 0
        groups = np.empty(0, np.int64)
        if self.keys:
            words, nulls = self.table.words([key(rows.batch) for key in self._keys])
            done = self._fold_known(words, nulls, points, arguments, rows)
            if done == len(rows):
                return
            groups = self.table.ids_of(words[:, done:], nulls[done:])
            self._make_room()
        slots = self.store.assign(points[done:], groups)
        self._fold_slots(slots, arguments.rest(done), rows.slice(done, len(rows)))

    def _fold_known(self, words: Ints, nulls: Ints, points: Ints, arguments: Arguments, rows: Rows) -> int:
        """The short way: rows up to the first one with a new key find their group by one load. How many there were."""
        direct = self.table.direct(words, nulls)
        if direct is None or not isinstance(self.store, DenseSlices) or len(rows) < SHORT_WAY_FROM:
            return 0
        slots = self.store.assign_known(points, words[0], *direct)
        if len(slots):
            self._fold_slots(slots, arguments, rows, counted=True)
        return len(slots)

    def _fold_slots(self, slots: Ints, arguments: Arguments, rows: Rows, counted: bool = False) -> None:
        for key, problem in self.store.fold(slots, arguments, rows, counted):
            for name, member in self.members.items():
                if key in member.aggregation.states:
                    self.failures[name] = f"an aggregate raised {type(problem).__name__}: {problem}"

    def _make_room(self) -> None:
        needed = len(self.table)
        if isinstance(self.store, DenseSlices):
            if needed > DENSE_GROUPS:
                cadences = [member.cadence for member in self.members.values()]
                self.store = SparseSlices.of_dense(self.store, 2 * needed, cadences)
                for member in self.members.values():
                    member.touched = self.store.touched(member.cadence)
            elif needed > self.store.width:
                roomy = max(needed, self.store.width + self.store.width // 2)
                self.store.widen(min(DENSE_GROUPS, -(-roomy // 16) * 16))
        elif needed > self.store.groups:
            self.store.widen(2 * needed)

    def due(self) -> dict[str, list[Piece]]:
        """The reports that the watermark has reached and that are not out yet."""
        return dense_reports(self) if isinstance(self.store, DenseSlices) else sparse_reports(self)

    def report_at(self, name: str, report: int) -> pa.RecordBatch | None:
        """A report of the past, where the slices held still answer it."""
        member = self.members[name]
        if not isinstance(self.store, DenseSlices) or member.cadence.range is None:
            raise NotHeldError(f"only the last report of '{name}' is held")
        if not is_whole(self, member.cadence, report, member.held_from):
            raise NotHeldError(f"the report of '{name}' at point {report} is no longer held")
        found = answered(self, [(name, np.array([report], np.int64))])
        if name in self.failures:
            raise QueryFailed(self.failures.pop(name))
        return found[0][1] if found else None

    def asked(self, aggregation: Aggregation, cadence: Cadence) -> pa.RecordBatch | None:
        """The last report of a window that is no member's, where the slices held answer it exactly; else None."""
        report = cadence.next_report(self.watermark) - cadence.slide
        if not isinstance(self.store, DenseSlices) or cadence.range is None:
            return None
        since = [point for key in aggregation.states if (point := self.state_held_from[key]) is not None]
        held_from = max(since, default=self._held_from if self._held_from is not None else INT64_MIN)
        if not is_whole(self, cadence, report, None if held_from == INT64_MIN else held_from):
            return None
        self.members[""] = Member(aggregation, cadence, report, timed=self.timed)
        try:
            found = answered(self, [("", np.array([report], np.int64))])
        finally:
            member = self.members.pop("")
        if "" in self.failures:
            raise QueryFailed(self.failures.pop(""))
        return found[0][1] if found else self._stamped_nothing(member)

    def _stamped_nothing(self, member: Member) -> pa.RecordBatch:
        nothing = [pa.nulls(0, field.type) for field in member.aggregation.item_schema]
        return stamped(member, np.empty(0, np.int64), nothing)

    def empty_batch(self, member: Member, ends: Ints) -> pa.RecordBatch | None:
        """What an ungrouped query says of empty windows, at these reports."""
        fields = {key: matrix_of(key.kind, len(ends)).fields() for key in member.aggregation.states}
        answers, kept = passing_of(self, member.aggregation, [], fields)
        if not answers.num_rows:
            return None
        return stamped(member, ends if kept is None else ends[kept], member.aggregation.selected(answers))

    # -- forgetting ----------------------------------------------------------------------------------------------

    def _evict(self) -> None:
        """Drops the slices that no member's next report needs."""
        if not len(self.store.starts):
            return
        needed = len(self.store.starts)
        held_to = reach = INT64_MAX
        for member in self.members.values():
            following = member.cadence.next_report(max(self.watermark, member.reported))
            start = member.cadence.start(following)
            if start is None:
                start = min(following - member.cadence.offset, self.watermark)
                number = int(np.searchsorted(self.store.ends, start, side="right"))
                member.endless = member.endless or number > 0
                needed = min(needed, number)
            else:
                held_to = min(held_to, start)
            reach = min(reach, start)
        if self.evicted_to is None or reach > self.evicted_to:
            self.evicted_to = reach
        needed = min(needed, int(np.searchsorted(self.store.starts, held_to, side="left")))
        self.store.evict(self.store.first + needed)

    def next_due(self) -> int:
        """The first point at which a report will be due."""
        return min(
            (m.cadence.next_report(max(self.watermark, m.reported)) for m in self.members.values()), default=INT64_MAX
        )

    def _forget_groups(self) -> None:
        """Lets groups go that no slice holds any more, each time the table has doubled."""
        store = self.store
        if not isinstance(store, SparseSlices) or len(self.table) < 2 * self._groups_kept + FORGET_FROM:
            return
        live = store.live_groups()
        self._groups_kept = len(self.table)
        if live is None or 2 * len(live) > len(self.table):
            return
        self._groups_kept = len(live)
        renamed = self.table.keep(live)
        store.regroup(live, renamed)
        for member in self.members.values():
            passing = np.zeros(store.groups, np.bool_)
            known = live[live < len(member.passing)]
            passing[: len(known)] = member.passing[known]
            member.passing = passing
            touched = [renamed[groups] for groups in member.touched]
            member.touched = [groups[groups >= 0] for groups in touched]

    def _forget_strings(self) -> None:
        """Lets strings go that no state holds any more, each time their pool has doubled."""
        for argument, pool in list(self.pools.items()):
            if not len(pool) or len(pool) < 2 * self._strings_kept.get(argument, 0) + FORGET_FROM:
                continue
            fields = [(key, place) for key in self.state_held_from for place, of in key.code_fields if of == argument]
            if not fields:  # the queries that read it have gone
                del self.pools[argument]
                continue
            live = np.unique(np.concatenate([a[place] for key, place in fields for a in self.store.live_ints(key)]))
            live = live[live >= 0]
            self._strings_kept[argument] = len(pool)
            if 2 * len(live) <= len(pool):
                self._strings_kept[argument] = len(live)
                renamed = pool.keep(live)
                for key, place in fields:
                    for array in self.store.int_arrays(key):
                        array[place] = np.where(array[place] >= 0, renamed[array[place]], -1)

    @property
    def bytes_held(self) -> int:
        return self.store.bytes_held + self.table.bytes_held + sum(pool.bytes_held for pool in self.pools.values())

    # -- snapshots -----------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        return {
            "sparse": isinstance(self.store, SparseSlices),
            "store": self.store.snapshot(),
            "table": self.table.snapshot(),
            "pools": [pa.record_batch({"s": pool.all_strings()}) for pool in self._pool_list()],
            "watermark": self.watermark,
            "greatest": self.greatest,
            "groups_kept": self._groups_kept,
            "held_from": self._held_from,
            "cut": self.cut,
            "evicted_to": self.evicted_to,
            "states": [repr(key) for key in self.state_held_from],
            "state_held_from": list(self.state_held_from.values()),
            "members": {
                name: {
                    "reported": member.reported,
                    "held_from": member.held_from,
                    "first_report": member.first_report,
                    "begun": member.begun,
                    "endless": member.endless,
                    "suspended": member.suspended,
                    "passing": member.passing.view(np.uint8).astype(np.int64),
                    "touched": np.concatenate(member.touched) if member.touched else np.empty(0, np.int64),
                }
                for name, member in self.members.items()
            },
        }

    def _pool_list(self) -> list[StringPool]:
        """The pools in an order that follows from the states alone."""
        found: dict[Expression, StringPool] = {}
        for key in self.state_held_from:
            for argument, feed in zip(key.arguments, key.kind.feeds, strict=False):
                if feed is Feed.CODE:
                    found[argument] = self.pools.setdefault(argument, StringPool())
        return list(found.values())

    def restore(self, snapshot: dict[str, Any]) -> None:
        """The members must have been added already; their states take the order of the snapshot."""
        by_name = {repr(key): key for key in self.state_held_from}
        order = [by_name[name] for name in snapshot["states"]]
        self._arguments = None
        self.state_held_from = dict(zip(order, snapshot["state_held_from"], strict=True))
        for pool, strings in zip(self._pool_list(), snapshot["pools"], strict=True):
            pool.load(strings.column(0))
        self.table.restore(snapshot["table"])
        if snapshot["sparse"] and isinstance(self.store, DenseSlices):
            cadences = [member.cadence for member in self.members.values()]
            self.store = SparseSlices.of_dense(self.store, 1, cadences)
        self.store.restore(snapshot["store"])
        for name in ("watermark", "greatest"):
            setattr(self, name, snapshot[name])
        self._held_from, self.cut = snapshot["held_from"], snapshot["cut"]
        self._groups_kept = snapshot["groups_kept"]
        self.evicted_to = snapshot["evicted_to"]
        for name, saved in snapshot["members"].items():
            member = self.members[name]
            for attribute in ("reported", "held_from", "first_report", "begun", "endless", "suspended"):
                setattr(member, attribute, saved[attribute])
            member.passing = saved["passing"].astype(np.bool_)
            member.touched = [saved["touched"]] if len(saved["touched"]) else []
