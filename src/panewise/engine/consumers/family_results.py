"""The reports of a family's members, on their way to the queries that follow them.

Most queries read a ledger, which holds the results of all members of one shape. Queries that need each result as it
comes stand apart, and results are handed to them. Windows of rows report by row numbers, which are replaced by the
event times of their rows here. For lookups, the last piece of a query that stands apart is kept; for others the ledger
has it.

    reports of members  ->  ledgers by shape                         | read on request
                        ->  own types  ->  finish  ->  receive       | queries that stand apart
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import integers, wrapped
from panewise.arrays import INT64_MIN
from panewise.engine.channels.channel import Channel
from panewise.engine.channels.hosted_query import HostedQuery
from panewise.engine.channels.ledger import Ledger, LedgerEntry, last_report_of, row_count
from panewise.engine.consumers.followers import Followers
from panewise.engine.consumers.report_diff import Finish
from panewise.engine.consumers.row_times import RowTimes
from panewise.errors import NotHeldError
from panewise.operators.due_reports import EmptyReports
from panewise.operators.family.family import Family
from panewise.operators.family.member import Member
from panewise.operators.reports import Piece, Reports
from panewise.plan.aggregation import Aggregation
from panewise.temporal import format_instant

TIME = pa.timestamp("us", tz="UTC")
SMALL_ROWS = 1024  # Pieces of up to this many rows are kept whole for lookups.


class FamilyResults:
    """The queries of a family by name; `apart` are those to which results are handed as they come."""

    def __init__(self, channel: Channel, family: Family, followers: Followers, row_times: RowTimes) -> None:
        self._channel = channel
        self._family = family
        self._followers = followers
        self._row_times = row_times
        self.queries: dict[str, HostedQuery] = {}
        self.apart: dict[str, HostedQuery] = {}
        self._finishes: dict[str, Finish] = {}
        self._ledgers: dict[int, Ledger] = {}  # by shape
        self._last_pieces: dict[str, Piece | None] = {}  # For queries that stand apart, and from snapshots.

    def member(self, name: str) -> Member:
        """The member whose reports a query gets."""
        return self._family.members[self._followers.member_of[name]]

    # -- queries that come and go --------------------------------------------------------------------------------

    def connect(self, query: HostedQuery, aggregation: Aggregation, finish: Finish | None, apart: bool) -> None:
        """A query gets the reports of its member from a ledger or, if `apart`, as they come."""
        name = query.name
        self.queries[name] = query
        self._last_pieces[name] = None
        if finish is not None:
            self._finishes[name] = finish
        if not aggregation.keys:
            # For windows of rows, only snapshots of an earlier panewise contain ranges of empty reports.
            query.write_empty_by(lambda ends: self.final(query, self._family.empty_batch(self.member(name), ends)))
        if apart:
            self.apart[name] = query
        else:
            self._share(query)

    def _share(self, query: HostedQuery) -> None:
        name, member = query.name, self.member(query.name)
        ledger = self._ledgers.get(member.shape)
        if ledger is None:
            ledger = self._ledgers[member.shape] = Ledger(query.arrow, query.total)

        def apart() -> None:
            last = ledger.last(self.member(name).window)
            if last is not None:  # Otherwise it may be known from a snapshot, which is older than the ledger.
                self._last_pieces[name] = last
            self.apart[name] = query

        begin = self._followers.begin_at(member.name, ledger.place(member.window))
        query.share(ledger, member.window, begin, self._channel, apart)

    def reaches_back(self, member: str) -> bool:
        """Whether the member was added at this moment, and its ledger still has all its reports."""
        began, ledger = self._followers.began_at(member), self._ledgers.get(self._family.members[member].shape)
        return began is not None and ledger is not None and ledger.reaches(began)

    def disconnect(self, name: str) -> None:
        """A query gets no more results; unread results stay readable."""
        if name in self.queries:
            self.queries[name].detach_from_ledger()
        for kept in (self.queries, self.apart, self._finishes, self._last_pieces):
            kept.pop(name, None)

    def forget(self, member: Member) -> None:
        """A member is removed: no query follows it."""
        if member.shape in self._ledgers:
            self._ledgers[member.shape].forget(member.window)

    def end_sharing(self) -> list[str]:
        """Makes all queries stand apart and drops the ledgers; returns the names of queries that read one."""
        sharing = [name for name in self.queries if name not in self.apart]
        for name in sharing:
            self.queries[name].detach_from_ledger()
        self._ledgers = {}
        return sharing

    def share_again(self, names: Sequence[str]) -> None:
        """These queries, which stand apart, read ledgers again."""
        for name in names:
            del self.apart[name]
            self._share(self.queries[name])

    # -- results -------------------------------------------------------------------------------------------------

    def hand_on(self, reports: Reports, watermark: int) -> None:
        """Hands due reports to the queries, which have then come to the watermark."""
        self._write(reports)
        for name, query in list(self.apart.items()):
            raw = reports.get(self._followers.member_of[name], [])
            if not self._family.timed:
                raw = [batch for piece in raw if (batch := self._written_out(name, piece)) is not None]
            finals = [final for piece in raw if (final := self._final_piece(query, piece)) is not None]
            if finals:
                last = finals[-1] if self._family.timed else self._last_by_number(name, raw[-1], finals[-1])
                self._last_pieces[name] = None if last is None else _kept_of(last)
            if name in self._finishes:
                finals = self._finished(query, raw, finals)
            query.receive(finals, watermark)

    def _write(self, reports: Reports) -> None:
        """Writes new reports into the ledgers of their shapes."""
        entries: dict[int, LedgerEntry] = {}
        for shared in reports.together:
            if shared.shape in self._ledgers:
                entries.setdefault(shared.shape, LedgerEntry()).together.append(shared)
        for name, pieces in reports.apart.items():
            member = self._family.members[name]
            if member.shape in self._ledgers and pieces:
                entries.setdefault(member.shape, LedgerEntry()).apart[member.window] = pieces
        for shape, entry in entries.items():
            self._ledgers[shape].write(entry, next(iter(self.queries.values())).unread.rows_max)

    def _written_out(self, name: str, piece: Piece) -> pa.RecordBatch | None:
        """Reports of a window of rows as a batch; None if HAVING drops empty ones. A range of empty ones is written out
        now, while the times of its rows are known; there are no more reports than rows."""
        if not isinstance(piece, EmptyReports):
            return piece
        return self._family.empty_batch(self.member(name), piece.points)

    def _final_piece(self, query: HostedQuery, piece: Piece) -> Piece | None:
        return piece if isinstance(piece, EmptyReports) else self.final(query, piece)

    def final(self, query: HostedQuery, batch: pa.RecordBatch | None) -> pa.RecordBatch | None:
        """A batch of the family in the query's own types: row numbers are replaced by the instants of their rows."""
        if batch is None or self._family.timed:
            return batch
        offset = self.member(query.name).cadence.offset
        starts = wrapped(self._row_times.of(np.maximum(integers(batch.column(0)), 0)))
        ends = wrapped(self._row_times.of(integers(batch.column(1)) - offset - 1))
        columns = [starts.view(TIME), ends.view(TIME), *batch.columns[2:]]
        return pa.RecordBatch.from_arrays(columns, schema=query.arrow)

    def _finished(self, query: HostedQuery, raw: list[Piece], finals: list[Piece]) -> list[Piece]:
        """The changes between reports; ranges of empty reports are written out first."""
        batches = [batch for piece in finals for batch in query.batches(piece)]
        points = [piece.points if isinstance(piece, EmptyReports) else integers(piece.column(1)) for piece in raw]
        table = self._finishes[query.name].process(
            pa.Table.from_batches(batches, schema=query.arrow),
            np.concatenate(points) if points else np.empty(0, np.int64),
            self._family.watermark,
            self._row_times.of,
        )
        return list(table.to_batches()) if table.num_rows else []

    # -- lookups -------------------------------------------------------------------------------------------------

    @property
    def read_queries(self) -> list[HostedQuery]:
        """The queries that other queries read; all of them stand apart."""
        return [query for query in self.apart.values() if query.consumers]

    def lookup(self, name: str, at: int | None) -> pa.Table:
        """The last report of a query, now or at an instant."""
        query, member = self.queries[name], self.member(name)
        if not self._family.timed:
            if at is not None:
                raise NotHeldError(f"'{name}' has a window of rows: only its last report can be looked up")
            return self._table(query, self._last_report(name))
        watermark = self._channel.watermark
        moment = watermark if at is None else at
        if watermark == INT64_MIN:
            return query.arrow.empty_table()
        if moment > watermark:
            raise NotHeldError(
                f"'{name}' has no report at {format_instant(moment)} yet",
                hint=f"it has come to {format_instant(watermark)}",
            )
        report = member.cadence.last_report(moment)
        if report == member.cadence.last_report(watermark):
            held = self._last_report(name)
            return self._table(query, held if held is not None and held.column(1)[0].value == report else None)
        return self._table(query, self.final(query, self._family.past_report(member, report, name)))

    @staticmethod
    def _table(query: HostedQuery, batch: pa.RecordBatch | None) -> pa.Table:
        return pa.Table.from_batches([] if batch is None else [batch], schema=query.arrow)

    def holds_until(self, name: str) -> int | None:
        """The watermark at which a lookup of a query has another answer; None if that is not known."""
        watermark = self._channel.watermark
        if not self._family.timed or watermark == INT64_MIN:
            return None
        return self.member(name).cadence.next_report(watermark)

    def expect(self, rows: int) -> None:
        """This many rows come to windows of rows. If a report comes due with them, it is the last one, even if it is
        empty."""
        before = self._row_times.taken
        for name in self.apart:
            slide = self.member(name).cadence.slide
            if (before + rows) // slide > before // slide:
                self._last_pieces[name] = None

    def _last_by_number(self, name: str, raw: Piece, final: Piece) -> Piece | None:
        """The last report of a window of rows, if it has rows. It is found by number, as several reports may end at the
        same instant."""
        assert not isinstance(raw, EmptyReports), "ranges of empty reports are written out"
        assert not isinstance(final, EmptyReports)
        due, numbers = self.member(name).cadence.last_report(self._row_times.taken), integers(raw.column(1))
        return final.slice(int(np.searchsorted(numbers, due))) if int(numbers[-1]) == due else None

    def _last_report(self, name: str) -> pa.RecordBatch | None:
        """The last report, cut out of the last piece only now."""
        last = self._last_pieces[name]
        if name not in self.apart:
            member = self.member(name)
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

    # -- state ---------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        return {
            "finishes": {name: finish.snapshot() for name, finish in self._finishes.items()},
            "last_reports": {name: self._last_report(name) for name in self.queries},
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        for name, saved in snapshot["finishes"].items():
            self._finishes[name].restore(saved)
        self._last_pieces = dict(snapshot["last_reports"])


def _kept_of(piece: Piece) -> Piece:
    """The part of a last piece that is kept for lookups: all of a small piece, the last report of a large one."""
    return piece if row_count(piece) <= SMALL_ROWS else last_report_of(piece)
