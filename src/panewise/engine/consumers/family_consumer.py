"""The consumer of a family of periodic aggregates: it answers many queries out of slices that they share.

Queries that mean the same and come at the same moment are one member (`followers.py`); what members report goes to
their queries by way of `family_results.py`. The axis is event time, or row numbers for windows of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.states import UserStateKind
from panewise.arrays import INT64_MIN, Ints
from panewise.engine.channels.channel import Channel
from panewise.engine.channels.failures import guarded
from panewise.engine.channels.hosted_query import HostedQuery
from panewise.engine.channels.readers import Folding
from panewise.engine.channels.window_ends import end_of
from panewise.engine.consumers.adapting import Change
from panewise.engine.consumers.bounded_steps import reports_most
from panewise.engine.consumers.family_results import FamilyResults
from panewise.engine.consumers.followers import Followers, Meaning
from panewise.engine.consumers.leading_families import Leads
from panewise.engine.consumers.query_consumer import QueryConsumer
from panewise.engine.consumers.report_diff import Finish
from panewise.engine.consumers.row_times import RowTimes
from panewise.errors import NotHeldError, SnapshotError, raise_interrupt_behind
from panewise.operators.family.family import Family
from panewise.operators.family.first_reports import first_whole, reach_of
from panewise.operators.reports import Reports
from panewise.operators.row_batch import Rows
from panewise.optimize.sharing.report.family_report import MeasuredFamily, family_report
from panewise.optimize.sharing.report.sharing_report import FamilyReport, family_explanation
from panewise.optimize.sharing.weave.weaver import ASSUMED_ROWS_PER_SECOND, SECOND, Load, Weaver
from panewise.plan.aggregation import Aggregation
from panewise.plan.explanation import Explanation, explain, shared_with
from panewise.plan.physical_plan import Difference, FamilyKey, shown_name
from panewise.slicing.pairs import Cadence
from panewise.temporal import format_instant

TIME = pa.timestamp("us", tz="UTC")
SMALL_ROWS = 1024  # Pieces of no more rows than this are kept whole for lookups.
REPORTS_MOST = 128  # of the shortest slide of a family, by which it may trail its channel where reports wait
SLICES_MOST = 1024  # open ones that it may hold then
COST_WEIGHT = 0.25  # of the last time that what was postponed was answered, in what that is expected to take


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
        self.counts_rows = shape.counts_rows
        self._followers = Followers()
        self._row_times = RowTimes()  # for windows of rows
        self._results = FamilyResults(channel, self.family, self._followers, self._row_times)
        self._first_point: int | None = None
        self._rows = 0
        self.answer_seconds = 0.0  # what it takes to answer what was postponed, as it has been of late
        self.answered_late: tuple[int, int, float] | None = None  # reports after, reports up to, and by the clock when

    @property
    def queries(self) -> Mapping[str, HostedQuery]:
        """Those that follow a member."""
        return self._results.queries

    @property
    def folding(self) -> Folding | None:
        return None if self.counts_rows else self

    def attach(self, history: Rows | None = None) -> None:
        """`history`: rows with which it begins."""
        self.channel.attach(self, history)

    def detach(self) -> None:
        self.channel.detach(self)

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
        name, meaning = query.name, (aggregation, cadence)
        self._followers.come_at(self.channel.moment)
        apart = finish is not None or self.counts_rows or self.family.folds_only
        member = self._member_to_follow(meaning, apart)
        if member is None:
            self.family.add(name, aggregation, cadence, self.channel.cut)
            self._leads.cover(name)
            self._followers.lead(name, meaning)
        self._followers.follow(name, member or name)
        self._results.connect(query, aggregation, finish, apart)
        if member is None and self.family.watermark != INT64_MIN:
            # That is its last report at most: the timeline lets a member begin no earlier.
            self._hand_on(self.family.due(fresh=name), self.channel.watermark)
            self.adapt()

    def _member_to_follow(self, meaning: Meaning, apart: bool) -> str | None:
        """The member whose reports a query that comes now can get from the first one on; None: it needs its own."""
        member = self._followers.like(meaning)
        if member is None or self.family.watermark == INT64_MIN:
            return member
        # Reports that were due when the member came have gone to those who stand apart, and others may have read them.
        return None if apart or not self._results.reaches_back(member) else member

    def goes_on(self, name: str, since: int) -> None:
        """An ungrouped query in mid-stream, which sees rows from `since` on, begins with its first whole window,
        also where that is empty: rows that have gone by would have been shown before."""
        member = self._followers.member_of.get(name)
        if member is None:
            return  # It has failed while it joined, on what the family holds or on the rows that it was shown.
        cadence = self.family.members[member].cadence
        if cadence.range is not None:
            first = {member: first_whole(cadence, since)}
            self.family.note(first)
            self._leads.note(first)

    @property
    def fed(self) -> list[HostedQuery]:
        return list(self.queries.values())

    @property
    def read_queries(self) -> list[HostedQuery]:
        """They stand apart."""
        return [query for query in self._results.apart.values() if query.consumers]

    def remove(self, name: str, cut: int | None = None) -> None:
        """A query leaves, also one that has joined only in part."""
        self._results.disconnect(name)
        member, heir = self._followers.leave(name)
        if heir is not None and heir != member:
            self.family.rename(member, heir)
            self._leads.rename(member, heir)
        elif heir is None and member in self.family.members:
            self._results.forget(self.family.members[member])
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

    @property
    def rows_taken(self) -> int:
        return self._row_times.taken

    def begin_at(self, row_number: int) -> None:
        """Row windows count from the beginning of the stream, not of the family."""
        self._row_times.begin_at(row_number)

    def begin_with(self, rows: Rows, before: int) -> None:
        """All rows there ever were, for windows without a beginning: those of before an instant are one slice."""
        self.family.process(rows, np.maximum(rows.times, before - 1), INT64_MIN)

    def next_due(self) -> int:
        return INT64_MIN if self.counts_rows else self._leads.next_due(self.family.next_due())

    def take(self, rows: Rows, watermark: int) -> None:
        if not self.counts_rows:
            self.family.fold(rows)
            self.follow(rows)
            return
        # Those of before it began were not all shown to this consumer, so that it cannot tell their numbers.
        unseen = int(np.searchsorted(rows.times, self.channel.begun_at)) if self.channel.begun_at is not None else 0
        if unseen:
            self.family.hold_back(self._row_times.taken + unseen)
        self._results.expect(len(rows))
        points = self._row_times.take(rows.times)
        self.count(points)
        self.family.take(rows, points)
        self.advance()
        self.adapt()
        # None where every query has failed.
        reach = max((reach_of(member.cadence) for member in self.family.members.values()), default=0)
        self._row_times.forget(reach)

    def follow(self, rows: Rows) -> None:
        """The family has folded these rows; it follows the channel, at once or when it has its turn."""
        self.see(rows)
        if self.channel.may_postpone and self.can_wait:
            self.channel.postponed[self] = None
        elif self in self.channel.postponed:
            self.catch_up()
        else:
            self.advance()
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
    def can_wait(self) -> bool:
        """Whether reports that have come due may be answered later, and are the same then; see `report_schedule.py`."""
        family, watermark = self.family, self.channel.watermark
        if self.counts_rows or family.watermark == INT64_MIN or family.shortest_slide is None or self.read_queries:
            return False
        if watermark - family.watermark > REPORTS_MOST * family.shortest_slide or family.open_slice_count > SLICES_MOST:
            return False
        # What a function of a user raises ends its query at once, with all reports before it out.
        return not any(isinstance(key.kind, UserStateKind) for key in family.states)

    @property
    def is_postponed(self) -> bool:
        return self in self.channel.postponed

    @property
    def first_postponed(self) -> tuple[int, int] | None:
        report, slide = self.family.next_due(), self.family.shortest_slide
        return None if slide is None or report > self.channel.watermark else (report, slide)

    @property
    def first_name(self) -> str:
        return min(self.queries, default="")

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
        self.advance()
        now = self.channel.clock()
        self.answer_seconds += (now - begun - self.answer_seconds) * (COST_WEIGHT if self.answer_seconds else 1.0)
        self.answered_late = before, self.channel.watermark, now
        self.adapt()

    def advance(self) -> None:
        if self.counts_rows:
            taken = self._row_times.taken
            for reached in self._steps_to(taken):
                # Row numbers are no instants: what the last one of these has come to, only the last step may tell.
                instant = self.channel.watermark if reached == taken else INT64_MIN
                self._hand_on(self.family.advance(reached), instant)
            return
        for reached in self._steps_to(self.channel.watermark):
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
    def measured(self) -> MeasuredFamily:
        """What is known of the family now, for whoever prices it."""
        family, together = self.family, self.channel.together
        store = family.store
        slices = (store.starts, *(store.trees[number].starts for number in sorted(store.trees)))
        return MeasuredFamily(
            shown_name(self.channel.name),
            tuple(family.states),
            self.load,
            self.rows_per_unit,
            (family.group_count or None) if family.keys else 1,
            tuple(map(len, slices)),
            {member: tuple(map(self._shown, sorted(names))) for member, names in self._followers.by_member.items()},
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
        self._results.hand_on(reports, watermark)
        for member, count in self.family.take_overflows().items():
            for name in self._followers.of(member):
                self.queries[name].overflowed(count)
        for name, reason in self.take_failures().items():
            self.queries[name].fail(reason)
            self.remove(name)
            if not self.queries and self.channel.cut is None:
                self.fail(reason)  # nobody is left for whom it would take rows
                return

    def answered_at(self, report: int) -> float | None:
        if self.answered_late is None:
            return None
        after, upto, at = self.answered_late
        return at if after < report <= upto else None

    def fail(self, reason: str) -> None:
        """The state is torn that all its queries share."""
        self.torn = True
        self.channel.postponed.pop(self, None)
        self.detach()
        queries = list(self.queries.values())
        for query in queries:
            query.stand_apart()
        self.family, self._followers = self.family.anew(), Followers()
        self._leads = Leads(self.channel, self.family)
        self._results = FamilyResults(self.channel, self.family, self._followers, self._row_times)
        for query in queries:
            query.fail(reason)

    def take_failures(self) -> dict[str, str]:
        """The queries whose members met data that they cannot answer for, with the reason."""
        failures = self.family.take_failures()
        return {name: why for member, why in failures.items() for name in self._followers.of(member)}

    @property
    def come_to(self) -> int:
        return self.family.watermark if self in self.channel.postponed else self.channel.watermark

    def holds_until(self, name: str) -> int | None:
        watermark, cadence = self.channel.watermark, self._results.member(name).cadence
        if self.counts_rows or watermark == INT64_MIN:
            return None
        return cadence.next_report(watermark)

    def lookup(self, name: str, at: int | None) -> pa.Table:
        """The last report, or the one that was the last at an instant."""
        query, member = self.queries[name], self._results.member(name)
        cadence = member.cadence
        if self.counts_rows:
            if at is not None:
                raise NotHeldError(f"'{name}' has a window of rows: only its last report can be looked up")
            held = self._results.last_report(name)
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
        report = cadence.last_report(moment)
        if report == cadence.last_report(watermark):
            held = self._results.last_report(name)
            if held is not None and held.column(1)[0].value != report:
                held = None
            return pa.Table.from_batches([held] if held is not None else [], schema=query.arrow)
        batch = self._results.final(query, self.family.past_report(member, report, name))
        return pa.Table.from_batches([batch] if batch is not None else [], schema=query.arrow)

    @property
    def bytes_held(self) -> int:
        return self.family.bytes_held + self._leads.bytes_held + self._row_times.bytes_held

    def snapshot(self) -> dict[str, Any]:
        return {
            "tree": self.family.snapshot(),
            "leads": self._leads.snapshot(),
            **self._results.snapshot(),
            "member_of": dict(self._followers.member_of),
            **self._row_times.snapshot(),
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
        self._results.restore(snapshot)
        self._row_times.restore(snapshot)

    def _regroup(self, member_of: dict[str, str]) -> None:
        """Before any row: queries that came together here, and at different moments there, are the members of there."""
        if self._followers.member_of == member_of:
            return
        members = {name: self._results.member(name) for name in self.queries}
        meant = {name: (member.aggregation, member.cadence) for name, member in members.items()}
        sharing = self._results.end_sharing()
        for member in list(self.family.members):
            self.family.remove(member)
        self._followers.begin_anew()
        for name, member in member_of.items():
            if member not in self.family.members:
                self.family.add(member, *meant[member], self.channel.cut)
            self._followers.follow(name, member)
        self._results.share_again(sharing)
