"""The consumer of a family of periodic aggregates: it answers many queries from slices that they share.

Queries with the same meaning that are created at the same moment follow one member of the family (`followers.py`).
`family_results.py` brings the reports of members to their queries. The axis is event time, or row numbers for windows
of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.arrays import INT64_MIN
from panewise.engine.channels.channel import Channel
from panewise.engine.channels.failures import guarded
from panewise.engine.channels.hosted_query import HostedQuery
from panewise.engine.channels.readers import Folding
from panewise.engine.channels.window_ends import end_of
from panewise.engine.consumers.adapting import Change
from panewise.engine.consumers.bounded_steps import reports_most
from panewise.engine.consumers.family_measures import FamilyMeasures
from panewise.engine.consumers.family_results import FamilyResults
from panewise.engine.consumers.followers import Followers, Meaning
from panewise.engine.consumers.leading_families import Leads
from panewise.engine.consumers.postponed_reports import PostponedReports
from panewise.engine.consumers.query_consumer import QueryConsumer
from panewise.engine.consumers.report_diff import Finish
from panewise.engine.consumers.row_times import RowTimes
from panewise.errors import SnapshotError, raise_interrupt_behind
from panewise.operators.family.family import Family
from panewise.operators.family.first_reports import first_whole, reach_of
from panewise.operators.reports import Reports
from panewise.operators.row_batch import Rows
from panewise.optimize.sharing.report.family_report import MeasuredFamily, family_report
from panewise.optimize.sharing.report.sharing_report import FamilyReport, family_explanation
from panewise.plan.aggregation import Aggregation
from panewise.plan.explanation import Explanation, explain, shared_with
from panewise.plan.physical_plan import Difference, FamilyKey, shown_name
from panewise.slicing.pairs import Cadence


class FamilyConsumer(QueryConsumer):
    """A family and its queries. The axis is event time, or row numbers if `counts_rows`."""

    is_shared = True

    def __init__(self, channel: Channel, key: FamilyKey, held_from: int | None, change: Change) -> None:
        """`change`: applies a difference to the host's plan."""
        self.channel = channel
        self.key = key
        self.shape = shape = key.shape
        self.counts_rows = shape.counts_rows
        self._change = change
        self._row_times = RowTimes()  # for windows of rows
        self._begin_with(
            Family(
                shape.keys,
                shape.where,
                held_from,
                timed=not shape.counts_rows,
                folds_only=channel.folds_only,
                technique=shape.technique,
                sparse_above=shape.adapting.sparse_above,
            )
        )

    def _begin_with(self, family: Family) -> None:
        """Starts from a family without members."""
        self.family = family
        self._leads = Leads(self.channel, family)
        self._measures = FamilyMeasures(self.channel, family)
        self._followers = Followers()
        self._results = FamilyResults(self.channel, family, self._followers, self._row_times)
        self.postponed = PostponedReports(self, self.channel, family, self._results)

    @property
    def queries(self) -> Mapping[str, HostedQuery]:
        """The queries that follow a member, by name."""
        return self._results.queries

    @property
    def folding(self) -> Folding | None:
        return None if self.counts_rows else self

    def attach(self, history: Rows | None = None) -> None:
        """`history`: rows that the family takes first."""
        self.channel.attach(self, history)

    def detach(self) -> None:
        self.channel.detach(self)

    # -- queries that come and go --------------------------------------------------------------------------------

    def add(self, query: HostedQuery, aggregation: Aggregation, cadence: Cadence, finish: Finish | None) -> None:
        """A query joins. It shares a member with a query of the same meaning that was added at the same moment.

        If this raises, the query has not joined. An interrupt leaves the change half done: the engine is then broken.
        """
        try:
            self._add(query, aggregation, cadence, finish)
        except Exception as problem:
            raise_interrupt_behind(problem)
            self.remove(query.name, self.channel.cut)
            raise

    def _add(self, query: HostedQuery, aggregation: Aggregation, cadence: Cadence, finish: Finish | None) -> None:
        name, meaning = query.name, (aggregation, cadence)
        self._followers.set_moment(self.channel.moment)
        apart = finish is not None or self.counts_rows or self.family.folds_only
        member = self._member_to_follow(meaning, apart)
        if member is None:
            self.family.add(name, aggregation, cadence, self.channel.cut)
            self._leads.cover(name)
            self._leads.note_recent(name)
            self._followers.lead(name, meaning)
        self._followers.follow(name, member or name)
        self._results.connect(query, aggregation, finish, apart)
        if member is None and self.family.watermark != INT64_MIN:
            # At most its last report is due: the timeline lets a member begin no earlier.
            self._hand_on(self.family.due(fresh=name), self.channel.watermark)
            self.adapt()

    def _member_to_follow(self, meaning: Meaning, apart: bool) -> str | None:
        """The member whose reports a new query can get from the first one on; None if it needs a member of its own."""
        member = self._followers.like(meaning)
        if member is None or self.family.watermark == INT64_MIN:
            return member
        # Reports that were due when the member was added are gone for a query that stands apart. In a ledger they may
        # have been read and forgotten.
        return None if apart or not self._results.reaches_back(member) else member

    def begins_as_alone(self, name: str) -> bool:
        """Whether a query begins no later than it would alone; otherwise it begins behind the newest row."""
        return self._leads.covers(self._followers.member_of.get(name, name))

    def goes_on(self, name: str, since: int) -> None:
        """An ungrouped query that was created in mid-stream and sees rows from `since` on begins with its first whole
        window, even if that is empty: rows that have passed would have begun its reports before."""
        member = self._followers.member_of.get(name)
        if member is None:
            return  # It failed while it joined.
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
        return self._results.read_queries

    def remove(self, name: str, cut: int | None = None) -> None:
        """A query leaves; it may have joined only in part."""
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
                self.fail(reason)  # Without queries it takes no rows.

    def let_go(self, name: str) -> None:
        if name in self.queries:
            self.remove(name)

    def fail(self, reason: str) -> None:
        """The shared state is torn: all queries fail."""
        self.torn = True
        self.postponed.drop()
        self.detach()
        queries = list(self.queries.values())
        for query in queries:
            query.detach_from_ledger()
        self._begin_with(self.family.anew())
        for query in queries:
            query.fail(reason)

    # -- rows ----------------------------------------------------------------------------------------------------

    def ends(self, channel: Channel, newest: int) -> list[int]:
        return [] if self.counts_rows else [end_of(window, newest) for window in self.family.windows]

    @property
    def rows_taken(self) -> int:
        return self._row_times.taken

    def begin_at(self, row_number: int) -> None:
        """The number of the first row. Row windows count from the beginning of the stream, not of the family."""
        self._row_times.begin_at(row_number)

    def begin_with(self, rows: Rows, before: int) -> None:
        """Takes all past rows, for windows without a beginning. Rows before the instant become one slice."""
        self.family.process(rows, np.maximum(rows.times, before - 1), INT64_MIN)

    def next_due(self) -> int:
        return INT64_MIN if self.counts_rows else self._leads.next_due(self.family.next_due())

    def take(self, rows: Rows, watermark: int) -> None:
        if not self.counts_rows:
            self.family.fold(rows)
            self.follow(rows)
            return
        # Rows before the channel began were not all shown to it, so their numbers are not known.
        unseen = int(np.searchsorted(rows.times, self.channel.begun_at)) if self.channel.begun_at is not None else 0
        if unseen:
            self.family.hold_back(self._row_times.taken + unseen)
        self._results.expect(len(rows))
        points = self._row_times.take(rows.times)
        self._measures.count(points)
        self.family.take(rows, points)
        self.advance()
        self.adapt()
        # There is no member if all queries have failed.
        reach = max((reach_of(member.cadence) for member in self.family.members.values()), default=0)
        self._row_times.forget(reach)

    def see(self, rows: Rows) -> None:
        """Rows that the family has folded, or will fold before it is asked."""
        self._leads.fold(rows)
        self._measures.count(rows.times)

    def follow(self, rows: Rows) -> None:
        """The family has folded these rows. It follows its channel now, or its reports are postponed."""
        self.see(rows)
        if self.channel.may_postpone and self.postponed.can_wait:
            self.postponed.postpone()
        elif self.postponed.are_waiting:
            self.catch_up()
        else:
            self.advance()
            self.adapt()

    def adapt(self) -> None:
        """Called between two batches: asks the host for another weave if the measurements call for one."""
        if self.shape.adapting.weave and self.family.store.can_weave:
            plan = self._measures.next_plan()
            if plan is not None:
                self._change(Difference(woven={self.key: plan}))

    # -- reports -------------------------------------------------------------------------------------------------

    @property
    def is_postponed(self) -> bool:
        return self.postponed.are_waiting

    @property
    def postponed_reports(self) -> int:
        return self.postponed.postponed_reports

    def catch_up(self) -> None:
        self.postponed.catch_up()

    def answered_at(self, report: int) -> float | None:
        return self.postponed.answered_at(report)

    def advance(self) -> None:
        if self.counts_rows:
            taken = self._row_times.taken
            for reached in self._steps_to(taken):
                # A step ends at a row number, which is no instant. Only the last step has come to the watermark.
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
        """The points at which the family stops on its way, so that no step has too many results to hold."""
        reached = INT64_MIN
        while reached < upto and not self.torn:
            reached = self.family.step_to(upto, reports_most(self.family.group_count))
            yield reached

    def _hand_on(self, reports: Reports, watermark: int) -> None:
        """Due reports go to the queries, which have then come to the watermark."""
        self._results.hand_on(reports, watermark)
        for member, count in self.family.take_overflows().items():
            for name in self._followers.of(member):
                self.queries[name].overflowed(count)
        for name, reason in self.take_failures().items():
            self.queries[name].fail(reason)
            self.remove(name)
            if not self.queries and self.channel.cut is None:
                self.fail(reason)  # Without queries it takes no rows.
                return

    def take_failures(self) -> dict[str, str]:
        """The queries whose members met data that they cannot answer for, with the reason."""
        failures = self.family.take_failures()
        return {name: why for member, why in failures.items() for name in self._followers.of(member)}

    # -- what it answers -----------------------------------------------------------------------------------------

    @property
    def watermark(self) -> int:
        return self.family.watermark if self.postponed.are_waiting else self.channel.watermark

    def lookup(self, name: str, at: int | None) -> pa.Table:
        return self._results.lookup(name, at)

    def holds_until(self, name: str) -> int | None:
        return self._results.holds_until(name)

    def explained(self) -> Explanation:
        return family_explanation(self.report)

    @property
    def report(self) -> FamilyReport:
        """What is shared here, and what it costs."""
        return family_report(self.shape, self.family.plan, self.measured)

    @property
    def measured(self) -> MeasuredFamily:
        """What is known of the family now, to price it."""
        by_member = self._followers.by_member.items()
        return self._measures.measured({member: tuple(map(self._shown, sorted(names))) for member, names in by_member})

    def _shown(self, name: str) -> tuple[str, str]:
        return shown_name(name), str(self.queries[name].block.window)

    def explained_query(self, query: HostedQuery) -> Explanation:
        plan = explain(query.plan)
        if not self.queries:
            return plan
        states = ", ".join(key.shown for key in self.family.states)
        return plan.saying({"tree": shared_with(len(self.queries) - 1), "states": states})

    # -- state ---------------------------------------------------------------------------------------------------

    @property
    def bytes_held(self) -> int:
        return self.family.bytes_held + self._leads.bytes_held + self._row_times.bytes_held

    def begin_leads(self) -> None:
        """Folds the rows that leads begin with. Called before a snapshot, which must change nothing itself."""
        guarded(self, self._leads.begin)

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
            # An earlier version left the state of a refused query in its family; it cannot be told from that of others.
            raise SnapshotError(f"the snapshot has the state of a query {left[0]!r} that is not among its queries")
        for name in [name for name in self.queries if name not in snapshot["member_of"]]:
            self.remove(name)  # It had failed.
        self._regroup(snapshot["member_of"])
        self.family.restore(snapshot["tree"])
        self._leads.restore(snapshot.get("leads", []))
        self._results.restore(snapshot)
        self._row_times.restore(snapshot)

    def _regroup(self, member_of: dict[str, str]) -> None:
        """Gives queries the members that they had in the snapshot; before any row comes. Queries that were created at
        different moments there are created at one moment here, and may share a member."""
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
