"""What the members of a family report, on its way to the queries that follow them.

Most queries read a ledger, which has the results of all members that select alike; those that want each result as it
comes stand apart, and are handed theirs. A window of rows reports by row numbers, which become the event times of their
rows here. Of a query that stands apart the last piece is kept for lookups; of others the ledger has it.

    reports of members  ->  ledgers by shape                      | read when somebody asks
                        ->  own types  ->  finish  ->  receive    | queries that stand apart
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import integers, wrapped
from panewise.engine.channels.channel import Channel
from panewise.engine.channels.hosted_query import HostedQuery
from panewise.engine.channels.ledger import Ledger, LedgerEntry, last_report_of, row_count
from panewise.engine.consumers.followers import Followers
from panewise.engine.consumers.report_diff import Finish
from panewise.engine.consumers.row_times import RowTimes
from panewise.operators.due_reports import EmptyReports
from panewise.operators.family.family import Family
from panewise.operators.family.member import Member
from panewise.operators.reports import Piece, Reports
from panewise.plan.aggregation import Aggregation

TIME = pa.timestamp("us", tz="UTC")
SMALL_ROWS = 1024  # Pieces of no more rows than this are kept whole for lookups.


class FamilyResults:
    """The queries of a family by name; `apart` are those that get their results as they come."""

    def __init__(self, channel: Channel, family: Family, followers: Followers, row_times: RowTimes) -> None:
        self._channel = channel
        self._family = family
        self._followers = followers
        self._row_times = row_times
        self.queries: dict[str, HostedQuery] = {}
        self.apart: dict[str, HostedQuery] = {}
        self._finishes: dict[str, Finish] = {}
        self._ledgers: dict[int, Ledger] = {}  # by shape
        self._last_pieces: dict[str, Piece | None] = {}  # of queries apart, and those of a snapshot

    def member(self, name: str) -> Member:
        """Whose reports a query gets."""
        return self._family.members[self._followers.member_of[name]]

    # -- queries that come and go --------------------------------------------------------------------------------

    def connect(self, query: HostedQuery, aggregation: Aggregation, finish: Finish | None, apart: bool) -> None:
        """A query that follows a member gets its reports, from a ledger or, `apart`, as they come."""
        name = query.name
        self.queries[name] = query
        self._last_pieces[name] = None
        if finish is not None:
            self._finishes[name] = finish
        if not aggregation.keys:
            # Of windows of rows only snapshots of an earlier panewise have ranges that wait to be written out.
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
            if last is not None:  # else it may be known from a snapshot, which is older than the ledger
                self._last_pieces[name] = last
            self.apart[name] = query

        begin = self._followers.begin_at(member.name, ledger.place(member.window))
        query.share(ledger, member.window, begin, self._channel, apart)

    def reaches_back(self, member: str) -> bool:
        """Whether all that a member has reported since it came, at this moment, is still there to be read."""
        began, ledger = self._followers.began_at(member), self._ledgers.get(self._family.members[member].shape)
        return began is not None and ledger is not None and ledger.reaches(began)

    def disconnect(self, name: str) -> None:
        """A query gets nothing more; what it has not read stays unread."""
        if name in self.queries:
            self.queries[name].stand_apart()
        for kept in (self.queries, self.apart, self._finishes, self._last_pieces):
            kept.pop(name, None)

    def forget(self, member: Member) -> None:
        """A member goes: no query follows it."""
        if member.shape in self._ledgers:
            self._ledgers[member.shape].forget(member.window)

    def end_sharing(self) -> list[str]:
        """All queries stand apart, and ledgers are forgotten; the names of those that read one."""
        sharing = [name for name in self.queries if name not in self.apart]
        for name in sharing:
            self.queries[name].stand_apart()
        self._ledgers = {}
        return sharing

    def share_again(self, names: Sequence[str]) -> None:
        """These queries, which stand apart, read ledgers."""
        for name in names:
            del self.apart[name]
            self._share(self.queries[name])

    # -- results -------------------------------------------------------------------------------------------------

    def hand_on(self, reports: Reports, watermark: int) -> None:
        """What has come due goes to the queries, which have come to an instant with it."""
        self._write(reports)
        for name, query in list(self.apart.items()):
            raw = reports.get(self._followers.member_of[name], [])
            if not self._family.timed:
                raw = [self._written_out(name, piece) for piece in raw]
            finals = [final for piece in raw if (final := self._final_piece(query, piece)) is not None]
            if finals:
                last = finals[-1] if self._family.timed else self._last_by_number(name, raw[-1], finals[-1])
                self._last_pieces[name] = None if last is None else _kept_of(last)
            if name in self._finishes:
                finals = self._finished(query, raw, finals)
            query.receive(finals, watermark)

    def _write(self, reports: Reports) -> None:
        """What is new, into the ledgers of its shapes."""
        entries: dict[int, LedgerEntry] = {}
        for shared in reports.together:
            if shared.shape in self._ledgers:
                entries.setdefault(shared.shape, LedgerEntry()).together.append(shared)
        for name, pieces in reports.apart.items():
            member = self._family.members[name]
            if member.shape in self._ledgers and pieces:
                entries.setdefault(member.shape, LedgerEntry()).apart[member.window] = pieces
        for shape, entry in entries.items():
            self._ledgers[shape].write(entry, next(iter(self.queries.values())).unread_max)

    def _written_out(self, name: str, piece: Piece) -> pa.RecordBatch:
        """Reports of a window of rows. A range of empty ones does not wait until it is read: the times of its rows are
        known now, and there are no more reports than rows."""
        if not isinstance(piece, EmptyReports):
            return piece
        batch = self._family.empty_batch(self.member(name), piece.points)
        assert batch is not None, "only a query without groups reports windows without rows"
        return batch

    def _final_piece(self, query: HostedQuery, piece: Piece) -> Piece | None:
        return piece if isinstance(piece, EmptyReports) else self.final(query, piece)

    def final(self, query: HostedQuery, batch: pa.RecordBatch | None) -> pa.RecordBatch | None:
        """A batch of the family in the query's own types: row numbers become the instants of their rows."""
        if batch is None or self._family.timed:
            return batch
        offset = self.member(query.name).cadence.offset
        starts = wrapped(self._row_times.of(np.maximum(integers(batch.column(0)), 0)))
        ends = wrapped(self._row_times.of(integers(batch.column(1)) - offset - 1))
        columns = [starts.view(TIME), ends.view(TIME), *batch.columns[2:]]
        return pa.RecordBatch.from_arrays(columns, schema=query.arrow)

    def _finished(self, query: HostedQuery, raw: list[Piece], finals: list[Piece]) -> list[Piece]:
        """What changed between the reports; ranges of empty ones are written out for it."""
        batches = [batch for piece in finals for batch in query.batches(piece)]
        points = [piece.points if isinstance(piece, EmptyReports) else integers(piece.column(1)) for piece in raw]
        table = self._finishes[query.name].process(
            pa.Table.from_batches(batches, schema=query.arrow),
            np.concatenate(points) if points else np.empty(0, np.int64),
            self._family.watermark,
            self._row_times.of,
        )
        return list(table.to_batches()) if table.num_rows else []

    # -- last reports --------------------------------------------------------------------------------------------

    def expect(self, rows: int) -> None:
        """So many rows come to windows of rows: a report that falls due with them is the last one, also where it has no
        rows."""
        before = self._row_times.taken
        for name in self.apart:
            slide = self.member(name).cadence.slide
            if (before + rows) // slide > before // slide:
                self._last_pieces[name] = None

    def _last_by_number(self, name: str, raw: Piece, final: Piece) -> Piece | None:
        """The last report of a window of rows, if it has rows: several reports may end at the same instant."""
        assert not isinstance(raw, EmptyReports), "they are written out"
        assert not isinstance(final, EmptyReports)
        due, numbers = self.member(name).cadence.last_report(self._row_times.taken), integers(raw.column(1))
        return final.slice(int(np.searchsorted(numbers, due))) if int(numbers[-1]) == due else None

    def last_report(self, name: str) -> pa.RecordBatch | None:
        """The last report, taken from the last results only when somebody asks."""
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

    # -- what is written down ------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        return {
            "finishes": {name: finish.snapshot() for name, finish in self._finishes.items()},
            "last_reports": {name: self.last_report(name) for name in self.queries},
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        for name, saved in snapshot["finishes"].items():
            self._finishes[name].restore(saved)
        self._last_pieces = dict(snapshot["last_reports"])


def _kept_of(piece: Piece) -> Piece:
    """What is kept of the last piece for lookups: all of a small one, of a large one only its last report."""
    return piece if row_count(piece) <= SMALL_ROWS else last_report_of(piece)
