"""The ledger of a family's results: written once per flush for all queries, and read by each at its own pace.

Thousands of queries may share a family, and a batch for each query after every flush would cost more than all answers.
So the reports of all members of one shape in one flush are one entry. Each query has a *reader*: the member whose
reports it gets, and its first unread entry. Queries that follow one member have readers of that member.

    entry         0         1         2         3
                batch     batch     batch               a batch holds the reports of all members, cut by member
    readers       |                   |
             q1 (member 7)   q2 (member 7), q3 (member 9)

When a second reader asks for the same entries, they are sorted by member, once for all; then a reader's results are a
slice. Entries that every reader has read are forgotten, except for the last report of every member. Other rows of such
entries are dropped when they are as many as the rows of last reports. So of read entries, about twice the last reports
are held, at an amortised cost of O(1) a row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.columns import integers, wrapped
from panewise.arrays import Ints
from panewise.engine.channels.unread_total import UnreadTotal
from panewise.operators.due_reports import EmptyReports
from panewise.operators.reports import MemberBatches, Piece, in_order

Place = tuple[int, int]  # An entry, and how many rows of a member came before it.
READ_ENTRIES_MAX = 64  # Read entries are cut down to last reports when there are more of them.
READ_ROWS_SPARE = 1 << 14  # They are also cut down when they have this many rows more than twice those of last reports.


@dataclass(eq=False)
class LedgerPosition:
    """A reader: its member, its first unread entry, and `taken`, how many rows of the member were read or came before
    it, counted from the ledger's beginning."""

    number: int
    position: int
    taken: int

    def go_to(self, position: int, taken: int) -> None:
        """All entries before the position were read."""
        self.position, self.taken = position, taken


@dataclass
class LedgerEntry:
    """The reports of one flush."""

    together: list[MemberBatches] = field(default_factory=list)
    apart: dict[int, list[Piece]] = field(default_factory=dict)

    def of(self, number: int) -> list[Piece]:
        """The pieces of a member, in order of time."""
        found = [batch for shared in self.together if (batch := shared.of(number)) is not None]
        return in_order([*found, *self.apart[number]]) if number in self.apart else found

    @property
    def rows(self) -> int:
        """Number of rows in batches; ranges of empty reports take no room."""
        apart = (piece for pieces in self.apart.values() for piece in pieces if isinstance(piece, pa.RecordBatch))
        return sum(int(shared.batch.num_rows) for shared in self.together) + sum(int(piece.num_rows) for piece in apart)

    @property
    def bytes(self) -> int:
        apart = sum(piece_bytes(piece) for pieces in self.apart.values() for piece in pieces)
        return sum(int(shared.batch.nbytes) for shared in self.together) + apart

    def last_reports(self, wanted: NDArray[np.bool_]) -> LedgerEntry:
        """A copy of the last reports of some members; `wanted` marks them by number."""
        result = LedgerEntry()
        for shared in self.together:
            own = wanted[shared.numbers] & ~np.isin(shared.numbers, list(self.apart))
            if own.any():
                result.together.append(_last_together(shared, own))
        for number in self.apart:
            if wanted[number]:
                result.apart[number] = [last_report_of(self.of(number)[-1])]
        return result


class Ledger:
    """Entries from number `_base` on."""

    def __init__(self, schema: pa.Schema, total: UnreadTotal | None = None) -> None:
        """`total`: the limit of the unread results of all queries."""
        self.schema = schema
        self._total = total
        if total is not None:
            total.join(self)
        self._nothing = schema.empty_table()
        self._entries: list[LedgerEntry] = []
        self._base = 0
        self._readers: dict[int, int] = {}  # Number of readers at each position.
        self._rows: Ints = np.zeros(16, np.int64)  # By member: number of rows so far.
        self._dropped: Ints = np.zeros(16, np.int64)  # By member: number of rows in forgotten entries.
        self._held = 0  # Number of rows in entries.
        self._last: Ints = np.full(16, -1, np.int64)  # By member: the entry with its last report.
        self._kept: dict[int, LedgerEntry] = {}  # Entries that may hold a last report.
        self._kept_read = 0  # Number of rows in those that every reader has read.
        self._last_report_rows = 0  # Number of rows of last reports when entries were last cut down.
        self._asked_span: tuple[int, int] | None = None  # The span of entries that was asked for last.
        self._sorted: tuple[tuple[int, int], pa.Table, Ints] | None = None  # A span, its rows, where members begin.

    @property
    def _end(self) -> int:
        return self._base + len(self._entries)

    # -- writing -------------------------------------------------------------------------------------------------

    def write(self, entry: LedgerEntry, most: int | None) -> None:
        """Adds the reports of one flush. `most`: the number of unread rows that are kept of a member."""
        for shared in entry.together:
            self._make_room(int(shared.numbers.max()))
            self._rows[shared.numbers] += np.diff(shared.cuts)
            self._last[shared.numbers] = self._end
            self._held += shared.batch.num_rows
        for number, pieces in entry.apart.items():
            self._make_room(number)
            count = sum(map(row_count, pieces))
            self._rows[number] += count
            self._last[number] = self._end
            self._held += count
        self._kept[self._end] = entry
        if self._readers:
            self._entries.append(entry)
        else:
            self._base += 1
            self._dropped, self._held = self._rows.copy(), 0
            self._kept_read += entry.rows
        self._trim()
        while most is not None and self._held > most and len(self._entries) > 1:
            if int((self._rows - self._dropped).max()) <= most:
                break
            self._drop_oldest()
        if self._total is not None and self._readers:
            self._total.take(entry.bytes)

    @property
    def unread_bytes(self) -> int:
        """The bytes of entries that some reader has not read."""
        return sum(entry.bytes for entry in self._entries)

    def give_up_oldest(self) -> bool:
        """Drops the oldest entry, unless it is also the newest; returns whether it was dropped."""
        if len(self._entries) < 2:
            return False
        self._drop_oldest()
        self._trim()
        return True

    def _make_room(self, number: int) -> None:
        while number >= len(self._rows):
            more = np.zeros_like(self._rows)
            self._rows, self._dropped = np.concatenate([self._rows, more]), np.concatenate([self._dropped, more])
            self._last = np.concatenate([self._last, more - 1])

    def _trim(self) -> None:
        """Cuts read entries down to last reports, if there is much else in them."""
        read = len(self._kept) - len(self._entries)
        if read <= READ_ENTRIES_MAX and self._kept_read <= 2 * self._last_report_rows + READ_ROWS_SPARE:
            return
        kept: dict[int, LedgerEntry] = {}
        for number, entry in self._kept.items():
            if number >= self._base:
                kept[number] = entry
            elif (wanted := self._last == number).any():
                kept[number] = entry.last_reports(wanted)
        self._kept = kept
        self._kept_read = sum(entry.rows for number, entry in kept.items() if number < self._base)
        self._last_report_rows = self._kept_read

    def _drop_oldest(self) -> None:
        entry = self._entries.pop(0)
        self._kept_read += entry.rows if self._base in self._kept else 0
        self._base += 1
        for shared in entry.together:
            self._dropped[shared.numbers] += np.diff(shared.cuts)
            self._held -= shared.batch.num_rows
        for number, pieces in entry.apart.items():
            count = sum(map(row_count, pieces))
            self._dropped[number] += count
            self._held -= count

    # -- reading -------------------------------------------------------------------------------------------------

    def place(self, number: int) -> Place:
        """The place at which a new reader of a member begins."""
        self._make_room(number)
        return self._end, int(self._rows[number])

    def reaches(self, place: Place) -> bool:
        """Whether all entries since a place are still there."""
        return place[0] >= self._base

    def join(self, number: int, place: Place | None = None) -> LedgerPosition:
        """Adds a reader of a member, from a place on, or from now on."""
        position, taken = self.place(number) if place is None else place
        self._readers[position] = self._readers.get(position, 0) + 1
        return LedgerPosition(number, position, taken)

    def leave(self, reader: LedgerPosition) -> None:
        self._move(reader.position, None)

    def rows_of(self, reader: LedgerPosition) -> int:
        """Number of rows of its member so far, read and unread."""
        return int(self._rows[reader.number])

    def unread(self, reader: LedgerPosition) -> list[Piece]:
        """Its unread pieces, which stay unread."""
        begin = max(reader.position, self._base) - self._base
        return [piece for entry in self._entries[begin:] for piece in entry.of(reader.number)]

    def has_unread(self, reader: LedgerPosition) -> bool:
        """Whether its member has had rows since it read last."""
        return int(self._rows[reader.number]) > reader.taken

    def lost(self, reader: LedgerPosition) -> int:
        """Number of rows that were dropped before it read them."""
        return max(0, int(self._dropped[reader.number]) - reader.taken) if reader.position < self._base else 0

    def read(self, reader: LedgerPosition, batches: Callable[[Piece], list[pa.RecordBatch]]) -> pa.Table:
        """Its results since the last call; `batches` writes out ranges of empty reports."""
        begin, end = max(reader.position, self._base), self._end
        if begin == end:
            return self._nothing
        table = self._slice(reader.number, begin, end) if end - begin > 1 else None
        if table is None:
            found = [batch for piece in self.unread(reader) for batch in batches(piece)]
            table = pa.Table.from_batches(found, schema=self.schema)
        before = reader.position
        reader.go_to(end, int(self._rows[reader.number]))
        self._move(before, end)
        return table

    def _slice(self, number: int, begin: int, end: int) -> pa.Table | None:
        """A member's rows in a span of entries that was sorted; None if the span was not asked for before."""
        span = begin, end
        if self._sorted is None or self._sorted[0] != span:
            if self._asked_span != span or any(entry.apart for entry in self._entries[begin - self._base :]):
                self._asked_span = span
                return None
            self._sorted = span, *self._in_order(begin)
        _, table, firsts = self._sorted
        if number + 1 >= len(firsts):
            return self._nothing
        first, after = int(firsts[number]), int(firsts[number + 1])
        return table.slice(first, after - first)

    def _in_order(self, begin: int) -> tuple[pa.Table, Ints]:
        """The rows of all entries from one on, sorted by member, and where each member begins."""
        parts = [shared for entry in self._entries[begin - self._base :] for shared in entry.together]
        if not parts:
            return self._nothing, np.zeros(1, np.int64)
        numbers = np.concatenate([np.repeat(part.numbers, np.diff(part.cuts)) for part in parts])
        most = int(numbers.max())
        order = np.argsort(numbers.astype(np.uint16) if most < 1 << 16 else numbers, kind="stable")
        table = pa.Table.from_batches([part.batch for part in parts], schema=self.schema).combine_chunks()
        firsts = np.concatenate([[0], np.cumsum(np.bincount(numbers, minlength=most + 1))])
        return table.take(wrapped(order)), firsts

    def _move(self, before: int, after: int | None) -> None:
        """A reader moves to another position, or leaves if that is None. Entries that all have read are forgotten."""
        self._readers[before] -= 1
        if after is not None:
            self._readers[after] = self._readers.get(after, 0) + 1
        if not self._readers[before]:
            del self._readers[before]
            needed = min(self._readers, default=self._end)
            while self._entries and self._base < needed:
                self._drop_oldest()
            self._trim()
            if self._sorted is not None and self._sorted[0][0] < needed:
                self._sorted = None

    def last(self, number: int) -> Piece | None:
        """The last piece of a member's reports."""
        index = int(self._last[number]) if number < len(self._last) else -1
        pieces = self._kept[index].of(number) if index >= 0 else []
        return pieces[-1] if pieces else None

    def forget(self, number: int) -> None:
        """A member is removed; another member may get its number."""
        if number < len(self._last):
            self._last[number] = -1


def piece_bytes(piece: Piece) -> int:
    """The bytes of a piece; ranges of empty reports take no room."""
    return 0 if isinstance(piece, EmptyReports) else int(piece.nbytes)


def row_count(piece: Piece) -> int:
    return piece.count if isinstance(piece, EmptyReports) else piece.num_rows


def last_report_of(piece: Piece) -> Piece:
    """A copy of the last report of a piece."""
    if isinstance(piece, EmptyReports):
        return EmptyReports(piece.first + piece.slide * (piece.count - 1), 1, piece.slide)
    ends = integers(piece.column(1))
    return piece.take(wrapped(np.arange(np.searchsorted(ends, ends[-1], side="left"), len(ends))))


def _last_together(shared: MemberBatches, own: NDArray[np.bool_]) -> MemberBatches:
    """The last reports of some members; `own` marks them by place."""
    sizes, ends = np.diff(shared.cuts), integers(shared.batch.column(1))
    last = ends[np.maximum(shared.cuts[1:] - 1, 0)]
    shown = np.repeat(own, sizes) & (ends == np.repeat(last, sizes))
    owners = np.repeat(np.arange(len(sizes)), sizes)[shown]
    counts = np.bincount(owners, minlength=len(sizes))[own]
    batch = shared.batch.take(wrapped(np.flatnonzero(shown)))
    return MemberBatches(shared.shape, batch, shared.numbers[own], np.concatenate([[0], np.cumsum(counts)]))
