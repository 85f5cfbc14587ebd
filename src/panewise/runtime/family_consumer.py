"""Consumers: operators attached to a channel, and the queries that get what they produce.

A family serves many queries; every other operator serves one. All answer lookups, say what they hold, and go into and
come out of snapshots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.columns import integers, wrapped
from panewise.errors import NotHeldError, SnapshotError, raise_interrupt_behind
from panewise.operators.due_reports import EmptyReports
from panewise.operators.family.family import Family
from panewise.operators.family.member import Member
from panewise.operators.reports import Piece, Reports
from panewise.operators.rows import Rows
from panewise.operators.shared_fold import SharedFold
from panewise.optimize.sharing.family_report import FoldedWith, Measured, family_report
from panewise.optimize.sharing.report import FamilyReport, family_explanation
from panewise.optimize.sharing.weaver import ASSUMED_ROWS_PER_SECOND, SECOND, Load, Weaver
from panewise.plan.aggregation import Aggregation
from panewise.plan.explain import Explanation, explain, shared_with
from panewise.plan.physical import Difference, FamilyKey, shown_name
from panewise.runtime.adapting import Change
from panewise.runtime.bounded_steps import reports_most
from panewise.runtime.channel import INT64_MIN, Channel
from panewise.runtime.failures import failed, guarded
from panewise.runtime.hosted_query import HostedQuery
from panewise.runtime.leading_families import Leads
from panewise.runtime.ledger import Entry, Ledger, Place, last_report_of, row_count
from panewise.runtime.query_consumer import QueryConsumer
from panewise.runtime.window_ends import end_of
from panewise.slicing.pairs import Cadence
from panewise.temporal import format_instant

Ints = NDArray[np.int64]
TIME = pa.timestamp("us", tz="UTC")
SMALL_ROWS = 1024  # Pieces of no more rows than this are kept whole for lookups.
COST_WEIGHT = 0.25  # of the last time that what was postponed was answered, in what that is expected to take


class Finish(Protocol):
    """The last step of a query, from reports to what it says of them: `points` are the reports of the rows."""

    def process(self, reports: pa.Table, points: Ints, upto: int, times: Callable[[Ints], Ints]) -> pa.Table: ...

    def snapshot(self) -> dict[str, Any]: ...

    def restore(self, snapshot: dict[str, Any]) -> None: ...


class FamilyConsumer(QueryConsumer):
    """A family and its queries. The axis is event time, or row numbers where `counts_rows`."""

    is_shared = True

    def __init__(self, channel: Channel, key: FamilyKey, held_from: int | None, change: Change) -> None:
        """`change`: goes from one plan of the host to another."""
        self.channel = channel
        self.key = key
        self.shape = shape = key.shape
        self._change = change
        self._weaver = Weaver()
        self.family = Family(
            shape.keys,
            shape.where,
            held_from,
            timed=not shape.counts_rows,
            folds_only=channel.folds_only,
            technique=shape.technique,
            sparse_above=shape.adapting.sparse_above,
        )
        self._leads = Leads(channel, self.family)
        self.counts_rows = self.ordered = shape.counts_rows
        self.queries: dict[str, HostedQuery] = {}
        self.finishes: dict[str, Finish] = {}
        self.member_of: dict[str, str] = {}  # by query: the family's member whose reports it gets
        self._alike: dict[tuple[Aggregation, Cadence], str] = {}  # members that came at `_moment`, for their like
        self._moment: object = None
        self._followers: dict[str, set[str]] = {}  # by member: its queries
        self._ledgers: dict[int, Ledger] = {}  # by shape
        self._began: dict[str, Place] = {}  # where the members that came at `_moment` begin in their ledgers
        self._apart: dict[str, HostedQuery] = {}  # queries that get their results as they come
        self._last_pieces: dict[str, Piece | None] = {}  # of queries apart, and those of a snapshot
        self._taken = 0  # row numbers handed to the family so far
        self._times: Ints = np.empty(0, np.int64)  # event times of the last rows, for row windows
        self._times_from = 0
        self._first_point: int | None = None
        self._rows = 0
        self.answer_seconds = 0.0  # what it takes to answer what was postponed, as it has been of late
        self.answered_late: tuple[int, int, float] | None = None  # reports after, reports up to, and by the clock when

    @property
    def rows_per_unit(self) -> float | None:
        """How fast rows come, per unit of the axis; None before there is a span to measure over."""
        if self.counts_rows or self._first_point is None or self.family.greatest <= self._first_point:
            return None
        return self._rows / (self.family.greatest - self._first_point)

    def add(self, query: HostedQuery, aggregation: Aggregation, cadence: Cadence, finish: Finish | None) -> None:
        """A query joins. Where another one with the same meaning came at the same moment, they are one member.

        Where something is raised, it has not joined. An interrupt leaves it in the middle: the engine is broken then.
        """
        try:
            self._add(query, aggregation, cadence, finish)
        except Exception as problem:
            raise_interrupt_behind(problem)
            self.remove(query.name, self.channel.cut)
            raise

    def _add(self, query: HostedQuery, aggregation: Aggregation, cadence: Cadence, finish: Finish | None) -> None:
        name = query.name
        if self._moment != self.channel.moment:
            self._moment, self._alike, self._began = self.channel.moment, {}, {}
        apart = finish is not None or self.counts_rows or self.family.folds_only
        member = self._alike.get((aggregation, cadence))
        if member is not None and self.family.watermark != INT64_MIN and (apart or not self._can_begin_with(member)):
            member = None  # what the other one has had already, of windows that were due when it came, is gone
        fresh = member is None
        if member is None:
            member = name
            self.family.add(name, aggregation, cadence, self.channel.cut)
            self._leads.cover(name)
            self._alike[aggregation, cadence] = name
        self.queries[name] = query
        self.member_of[name] = member
        self._followers.setdefault(member, set()).add(name)
        self._last_pieces[name] = None
        if finish is not None:
            self.finishes[name] = finish
        if not aggregation.keys:
            query.empty_batch = lambda ends, q=query: self._final(
                q, self.family.empty_batch(self._member(q.name), ends)
            )
        if apart:
            self._apart[name] = query
        else:
            self._share(query, name)
        if fresh and self.family.watermark != INT64_MIN:
            self._hand_on(self.family.due(fresh=member), self.channel.watermark)
            self.adapt()

    def goes_on(self, name: str, since: int) -> None:
        """An ungrouped query in mid-stream, which sees rows from `since` on, begins with its first whole window,
        also where that is empty: rows that have gone by would have been shown before."""
        member = self.member_of.get(name)
        if member is None:
            return  # It has failed while it joined, on what the family holds or on the rows that it was shown.
        cadence = self.family.members[member].cadence
        if cadence.range is not None:
            first = {member: cadence.next_report(since + cadence.range + cadence.offset - 1)}
            self.family.note(first)
            self._leads.note(first)

    def _share(self, query: HostedQuery, name: str) -> None:
        member = self._member(name)
        ledger = self._ledgers.get(member.shape)
        if ledger is None:
            ledger = self._ledgers[member.shape] = Ledger(query.arrow, query.total)

        def apart() -> None:
            last = ledger.last(self._member(name).window)
            if last is not None:  # else it may be known from a snapshot, which is older than the ledger
                self._last_pieces[name] = last
            self._apart[name] = query

        begin = self._began.setdefault(member.name, ledger.place(member.window))
        query.share(ledger, member.window, begin, self.channel, apart)

    def _can_begin_with(self, member: str) -> bool:
        """Whether all that a member has reported since it came is still there to be read."""
        ledger = self._ledgers.get(self.family.members[member].shape)
        return ledger is not None and member in self._began and ledger.reaches(self._began[member])

    @property
    def fed(self) -> list[HostedQuery]:
        return list(self.queries.values())

    @property
    def read_queries(self) -> list[HostedQuery]:
        """They stand apart."""
        return [query for query in self._apart.values() if query.consumers]

    def _member(self, name: str) -> Member:
        return self.family.members[self.member_of[name]]

    def remove(self, name: str, cut: int | None = None) -> None:
        """A query leaves, also one that has joined only in part."""
        if name in self.queries:
            self.queries[name].stand_apart()
        for kept in (self.queries, self._last_pieces, self._apart, self.finishes):
            kept.pop(name, None)
        member = self.member_of.pop(name, name)
        followers = self._followers.get(member, set())
        followers.discard(name)
        if followers and member == name:
            self._hand_over(name, min(followers))
        elif not followers and member in self.family.members:
            self._followers.pop(member, None)
            self._alike = {key: other for key, other in self._alike.items() if other != member}
            self._began.pop(member, None)
            gone = self.family.members[member]
            if gone.shape in self._ledgers:
                self._ledgers[gone.shape].forget(gone.window)
            self._leads.drop(member)
            self.family.remove(member, cut)

    def leave(self, name: str) -> None:
        if name in self.queries:
            self.remove(name, self.channel.cut)

    def fail_query(self, name: str, reason: str) -> None:
        if name in self.queries:
            self.remove(name)
            if not self.queries and self.channel.cut is None:
                self.fail(reason)  # it takes no rows

    def let_go(self, name: str) -> None:
        if name in self.queries:
            self.remove(name)

    def ends(self, channel: Channel, newest: int) -> list[int]:
        return [] if self.counts_rows else [end_of(window, newest) for window in self.family.windows]

    def _hand_over(self, member: str, heir: str) -> None:
        """The query that a member is named after leaves, and others stay."""
        self.family.rename(member, heir)
        self._leads.rename(member, heir)
        followers = self._followers[heir] = self._followers.pop(member)
        self.member_of.update(dict.fromkeys(followers, heir))
        self._alike = {key: heir if other == member else other for key, other in self._alike.items()}
        if member in self._began:
            self._began[heir] = self._began.pop(member)

    @property
    def rows_taken(self) -> int:
        return self._taken

    def begin_at(self, row_number: int) -> None:
        """Row windows count from the beginning of the stream, not of the family."""
        self._taken = self._times_from = row_number

    def begin_with(self, rows: Rows, before: int) -> None:
        """All rows there ever were, for windows without a beginning: those of before an instant are one slice."""
        self.family.process(rows, np.maximum(rows.times, before - 1), INT64_MIN)

    def next_due(self) -> int:
        return INT64_MIN if self.counts_rows else self._leads.next_due(self.family.next_due())

    def take(self, rows: Rows, watermark: int) -> None:
        if not self.counts_rows:
            self.family.fold(rows)
            self.follow(rows, watermark)
            return
        # Those of before it began were not all shown to this consumer, so that it cannot tell their numbers.
        unseen = int(np.searchsorted(rows.times, self.channel.begun_at)) if self.channel.begun_at is not None else 0
        if unseen:
            self.family.hold_back(self._taken + unseen)
        points = np.arange(self._taken, self._taken + len(rows), dtype=np.int64)
        self._forget_last(self._taken + len(rows))
        self._taken += len(rows)
        self._times = np.concatenate([self._times, rows.times])
        self.count(points)
        self.family.take(rows, points)
        for reached in self._steps_to(self._taken):
            # Row numbers are no instants: what the last one of these has come to, only the last step may tell.
            self._hand_on(self.family.advance(reached), watermark if reached == self._taken else INT64_MIN)
        self.adapt()
        # None where every query has failed.
        reach = max(((m.cadence.range or 0) + m.cadence.offset for m in self.family.members.values()), default=0)
        gone = len(self._times) - 2 * reach - 1
        if gone > 0:
            self._times, self._times_from = self._times[gone:], self._times_from + gone

    def follow(self, rows: Rows, watermark: int) -> None:
        """The family has folded these rows; it follows the watermark, at once or when it has its turn."""
        self.see(rows)
        if self.channel.may_wait is not None and self.channel.may_wait(self):
            self.channel.postponed[self] = None
        elif self in self.channel.postponed:
            self.catch_up()
        else:
            self._advance(watermark)
            self.adapt()

    @property
    def load(self) -> Load:
        """What the family's plan depends on, as it is now."""
        rate = self.rows_per_unit
        assumed = 1.0 if self.counts_rows else ASSUMED_ROWS_PER_SECOND / SECOND
        return Load(assumed if rate is None else rate, max(1, self.family.group_count), len(self.family.windows))

    def adapt(self) -> None:
        """Between two batches: members are divided anew where what has come says so; see `Adapting`."""
        family = self.family
        if not self.shape.adapting.weave or not family.store.can_weave:
            return
        load = self.load
        if self._weaver.is_due(load, family.changes, family.tree_count):
            plan = self._weaver.next_plan(family.plan, load, family.changes)
            if plan is not None:
                self._change(Difference(woven={self.key: plan}))

    @property
    def is_postponed(self) -> bool:
        return self in self.channel.postponed

    @property
    def postponed_reports(self) -> int:
        """How many reports have come due and are not answered; those of empty windows count."""
        return self.family.due_count(self.channel.watermark) if self.is_postponed else 0

    def catch_up(self) -> None:
        """What was postponed is answered in one pass, each report as it would have been."""
        del self.channel.postponed[self]
        guarded(self, self._catch_up)

    def _catch_up(self) -> None:
        before, begun = self.family.watermark, self.channel.clock()
        self._advance(self.channel.watermark)
        now = self.channel.clock()
        self.answer_seconds += (now - begun - self.answer_seconds) * (COST_WEIGHT if self.answer_seconds else 1.0)
        self.answered_late = before, self.channel.watermark, now
        self.adapt()

    def _advance(self, watermark: int) -> None:
        for reached in self._steps_to(watermark):
            leading = self._leads.advance(reached)
            reports = self.family.advance(reached)
            for name, pieces in leading.items():
                reports.apart[name] = [*pieces, *reports.apart.get(name, [])]
            self._hand_on(reports, reached)

    def _steps_to(self, upto: int) -> Iterator[int]:
        """The points to which the family goes one after the other, so that no step has too many results to hold."""
        reached = INT64_MIN
        while reached < upto and not self.torn:
            reached = self.family.step_to(upto, reports_most(self.family.group_count))
            yield reached

    def begin_leads(self) -> None:
        """Before a snapshot, so that it changes nothing itself: folds the rows that leads begin with."""
        guarded(self, self._leads.begin)

    def explained(self) -> Explanation:
        return family_explanation(self.report)

    @property
    def report(self) -> FamilyReport:
        """What is shared here, and what it costs."""
        return family_report(self.shape, self.family.plan, self.measured)

    @property
    def measured(self) -> Measured:
        """What is known of the family now, for whoever prices it."""
        family, together = self.family, self.channel.together
        store = family.store
        slices = (store.starts, *(store.trees[number].starts for number in sorted(store.trees)))
        return Measured(
            shown_name(self.channel.name),
            tuple(family.states),
            self.load,
            self.rows_per_unit,
            (family.group_count or None) if family.keys else 1,
            tuple(map(len, slices)),
            {member: tuple(map(self._shown, sorted(names))) for member, names in self._followers.items()},
            None if together is None else together.folded_with(family),
        )

    def _shown(self, name: str) -> tuple[str, str]:
        return shown_name(name), str(self.queries[name].block.window)

    def explained_query(self, query: HostedQuery) -> Explanation:
        plan = explain(query.plan)
        if not self.queries:
            return plan
        states = ", ".join(key.shown for key in self.family.states)
        return plan.saying({"tree": shared_with(len(self.queries) - 1), "states": states})

    def see(self, rows: Rows) -> None:
        """Rows that the family has folded, or will before it is asked."""
        self._leads.fold(rows)
        self.count(rows.times)

    def count(self, points: Ints) -> None:
        if len(points):
            if self._first_point is None:
                self._first_point = int(points.min())
            self._rows += len(points)

    def _hand_on(self, reports: Reports, watermark: int) -> None:
        """What has come due goes to the queries, which have come to an instant with it."""
        self._write(reports)
        for name, query in list(self._apart.items()):
            raw = reports.get(self.member_of[name], [])
            finals = [final for piece in raw if (final := self._final_piece(query, piece)) is not None]
            if finals:
                last = self._last_by_number(name, raw[-1], finals[-1]) if self.counts_rows else finals[-1]
                self._last_pieces[name] = None if last is None else _kept_of(last)
            if name in self.finishes:
                finals = self._finished(query, raw, finals)
            query.receive(finals, watermark)
        for member, count in self.family.take_overflows().items():
            for name in self._followers.get(member, ()):
                self.queries[name].overflowed(count)
        for name, reason in self.take_failures().items():
            self.queries[name].fail(reason)
            self.remove(name)
            if not self.queries and self.channel.cut is None:
                self.fail(reason)  # nobody is left for whom it would take rows
                return

    def _forget_last(self, taken: int) -> None:
        """Row numbers have come to `taken`: a report that is due is the last one, also where it has no rows."""
        for name in self._apart:
            slide = self._member(name).cadence.slide
            if taken // slide > self._taken // slide:
                self._last_pieces[name] = None

    def _last_by_number(self, name: str, raw: Piece, final: Piece) -> Piece | None:
        """The last report of a window of rows, if it has rows: several reports may end at the same instant."""
        due = self._taken - self._taken % self._member(name).cadence.slide
        if isinstance(raw, EmptyReports) or isinstance(final, EmptyReports):
            assert isinstance(raw, EmptyReports)
            return final if raw.first + raw.slide * (raw.count - 1) == due else None
        numbers = integers(raw.column(1))
        return final.slice(int(np.searchsorted(numbers, due))) if int(numbers[-1]) == due else None

    def answered_at(self, report: int) -> float | None:
        if self.answered_late is None:
            return None
        after, upto, at = self.answered_late
        return at if after < report <= upto else None

    def fail(self, reason: str) -> None:
        """The state is torn that all its queries share."""
        self.torn = True
        self.channel.postponed.pop(self, None)
        self.channel.detach(self)
        queries = list(self.queries.values())
        for query in queries:
            query.stand_apart()
        self.family = self.family.anew()
        self._leads = Leads(self.channel, self.family)
        self.queries, self.finishes, self.member_of, self._followers = {}, {}, {}, {}
        self._alike, self._ledgers, self._began, self._apart, self._last_pieces = {}, {}, {}, {}, {}
        for query in queries:
            query.fail(reason)

    def take_failures(self) -> dict[str, str]:
        """The queries whose members met data that they cannot answer for, with the reason."""
        failures = self.family.take_failures()
        return {name: why for member, why in failures.items() for name in self._followers[member]}

    def _write(self, reports: Reports) -> None:
        """What is new, into the ledgers of its shapes."""
        entries: dict[int, Entry] = {}
        for shared in reports.together:
            if shared.shape in self._ledgers:
                entries.setdefault(shared.shape, Entry()).together.append(shared)
        for name, pieces in reports.apart.items():
            member = self.family.members[name]
            if member.shape in self._ledgers and pieces:
                entries.setdefault(member.shape, Entry()).apart[member.window] = pieces
        for shape, entry in entries.items():
            self._ledgers[shape].write(entry, next(iter(self.queries.values())).unread_max)

    def _final_piece(self, query: HostedQuery, piece: Piece) -> Piece | None:
        return piece if isinstance(piece, EmptyReports) else self._final(query, piece)

    def _finished(self, query: HostedQuery, raw: list[Piece], finals: list[Piece]) -> list[Piece]:
        """What changed between the reports; ranges of empty ones are written out for it."""
        batches = [batch for piece in finals for batch in query.batches(piece)]
        points = [
            integers(piece.column(1)) if isinstance(piece, pa.RecordBatch) else _ends_of(query, piece) for piece in raw
        ]
        table = self.finishes[query.name].process(
            pa.Table.from_batches(batches, schema=query.arrow),
            np.concatenate(points) if points else np.empty(0, np.int64),
            self.family.watermark,
            self._time_of,
        )
        return list(table.to_batches()) if table.num_rows else []

    def _final(self, query: HostedQuery, batch: pa.RecordBatch | None) -> pa.RecordBatch | None:
        """A batch of the family in the query's own types: row numbers become the instants of their rows."""
        if batch is None or not self.counts_rows:
            return batch
        offset = self._member(query.name).cadence.offset
        starts = wrapped(self._time_of(np.maximum(integers(batch.column(0)), 0)))
        ends = wrapped(self._time_of(integers(batch.column(1)) - offset - 1))
        columns = [starts.view(TIME), ends.view(TIME), *batch.columns[2:]]
        return pa.RecordBatch.from_arrays(columns, schema=query.arrow)

    def _time_of(self, points: Ints) -> Ints:
        result: Ints = self._times[np.maximum(points, self._times_from) - self._times_from]
        return result

    def last_report(self, name: str) -> pa.RecordBatch | None:
        """The last report, taken from the last results only when somebody asks."""
        last = self._last_pieces[name]
        if name not in self._apart:
            member = self._member(name)
            found = self._ledgers[member.shape].last(member.window)
            last = found if found is not None else last
        if isinstance(last, EmptyReports):
            builder = self.queries[name].empty_batch
            last = builder(np.array([last.first + last.slide * (last.count - 1)])) if builder is not None else None
        elif last is not None:
            ends = integers(last.column(1))
            last = last.slice(int(np.searchsorted(ends, ends[-1], side="left")))
        self._last_pieces[name] = last
        return last

    @property
    def come_to(self) -> int:
        return self.family.watermark if self in self.channel.postponed else self.channel.watermark

    def holds_until(self, name: str) -> int | None:
        watermark, cadence = self.channel.watermark, self._member(name).cadence
        if self.counts_rows or watermark == INT64_MIN:
            return None
        return watermark - (watermark - cadence.align) % cadence.slide + cadence.slide

    def lookup(self, name: str, at: int | None) -> pa.Table:
        """The last report, or the one that was the last at an instant."""
        query, member = self.queries[name], self._member(name)
        cadence = member.cadence
        if self.counts_rows:
            if at is not None:
                raise NotHeldError(f"'{name}' has a window of rows: only its last report can be looked up")
            held = self.last_report(name)
            return pa.Table.from_batches([held] if held is not None else [], schema=query.arrow)
        watermark = self.channel.watermark
        moment = watermark if at is None else at
        if watermark == INT64_MIN:
            return query.arrow.empty_table()
        if moment > watermark:
            raise NotHeldError(
                f"'{name}' has no report at {format_instant(moment)} yet",
                hint=f"it has come to {format_instant(watermark)}",
            )
        report = moment - (moment - cadence.align) % cadence.slide
        if report == watermark - (watermark - cadence.align) % cadence.slide:
            held = self.last_report(name)
            if held is not None and held.column(1)[0].value != report:
                held = None
            return pa.Table.from_batches([held] if held is not None else [], schema=query.arrow)
        batch = self._final(query, self.family.past_report(member, report, name))
        return pa.Table.from_batches([batch] if batch is not None else [], schema=query.arrow)

    @property
    def bytes_held(self) -> int:
        return self.family.bytes_held + self._leads.bytes_held + self._times.nbytes

    def snapshot(self) -> dict[str, Any]:
        return {
            "tree": self.family.snapshot(),
            "leads": self._leads.snapshot(),
            "finishes": {name: finish.snapshot() for name, finish in self.finishes.items()},
            "last_reports": {name: self.last_report(name) for name in self.queries},
            "member_of": dict(self.member_of),
            "taken": self._taken,
            "times": self._times,
            "times_from": self._times_from,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        left = [name for name in snapshot["member_of"] if name not in self.queries]
        if left:
            # An earlier version left the state of a query inside one that was refused; it cannot be told from others.
            raise SnapshotError(f"the snapshot has the state of a query {left[0]!r} that is not among its queries")
        for name in [name for name in self.queries if name not in snapshot["member_of"]]:
            self.remove(name)  # it had failed
        self._regroup(snapshot["member_of"])
        self.family.restore(snapshot["tree"])
        self._leads.restore(snapshot.get("leads", []))
        for name, saved in snapshot["finishes"].items():
            self.finishes[name].restore(saved)
        self._last_pieces = dict(snapshot["last_reports"])
        self._taken, self._times, self._times_from = snapshot["taken"], snapshot["times"], snapshot["times_from"]

    def _regroup(self, member_of: dict[str, str]) -> None:
        """Before any row: queries that came together here, and at different moments there, are the members of there."""
        if self.member_of == member_of:
            return
        meant = {name: (self._member(name).aggregation, self._member(name).cadence) for name in self.queries}
        sharing = [name for name in self.queries if name not in self._apart]
        for name in sharing:
            self.queries[name].stand_apart()
        for member in list(self.family.members):
            self.family.remove(member)
        self.member_of, self._followers, self._ledgers, self._alike, self._began = {}, {}, {}, {}, {}
        for name, member in member_of.items():
            if member not in self.family.members:
                self.family.add(member, *meant[member], self.channel.cut)
            self.member_of[name] = member
            self._followers.setdefault(member, set()).add(name)
        for name in sharing:
            del self._apart[name]
            self._share(self.queries[name], name)


class FamiliesTogether:
    """The families of a channel, whose rows are folded once for several of them."""

    def __init__(self) -> None:
        self.shared_fold = SharedFold()

    def folded_with(self, family: Family) -> FoldedWith | None:
        """Whose rows are folded in the same pass as this family's, as it was the last time."""
        return self.shared_fold.folded_with(family)

    def leave(self, consumer: FamilyConsumer) -> None:
        self.shared_fold.leave(consumer.family)

    def take(self, consumers: list[FamilyConsumer], rows: Rows, watermark: int, more: bool) -> None:
        torn: dict[int, Exception] = {}  # What was raised, by the id of the family.
        self.shared_fold.torn = lambda families, problem: torn.update(dict.fromkeys(map(id, families), problem))
        self.shared_fold.fold(rows, [consumer.family for consumer in consumers])
        if not more:
            self.shared_fold.settle()
        for consumer in consumers:
            if id(consumer.family) in torn:
                failed(consumer, torn[id(consumer.family)])
            elif more:
                guarded(consumer, partial(consumer.see, rows))
            else:
                guarded(consumer, partial(consumer.follow, rows, watermark))


def _kept_of(piece: Piece) -> Piece:
    """What is kept of the last piece for lookups: all of a small one, of a large one only its last report."""
    return piece if row_count(piece) <= SMALL_ROWS else last_report_of(piece)


def _ends_of(query: HostedQuery, reports: EmptyReports) -> Ints:
    batches = [integers(batch.column(1)) for batch in query.batches(reports)]
    return np.concatenate(batches) if batches else np.empty(0, np.int64)
