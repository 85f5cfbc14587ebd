"""The ledger of a tree's results: written once per flush for all queries, and read by each at its own pace.

Thousands of queries share a tree, and a batch for each after every flush would cost more than all answers. So what the
members of one shape have reported together is one entry, and each query has a *reader*: the member whose reports it
gets, and the entry from which on it has read nothing. Queries that are alike have readers of one member.

    entry         0         1         2         3
                batch     batch     batch               a batch holds the reports of all members, cut by member
    readers       |                   |
             q1 (member 7)   q2 (member 7), q3 (member 9)

Several entries are put together for all members when a second reader asks for the same ones: then a reader's results
are a slice. Entries that every reader has read are forgotten, but for the last report of every member: now and then,
when as many rows wait for it as last reports have, others are let go. So of what was read about twice the last reports
are held, and a row costs O(1) for it.
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

Place = tuple[int, int]  # an entry, and how many rows of a member came before it
LOOKED_OVER = 64  # entries that were read, after which those are let go that hold nobody's last report
LOOKED_OVER_ROWS = 1 << 14  # or so many rows of them, more than last reports have


@dataclass(eq=False)
class LedgerPosition:
    """`taken`: how many rows of its member, counted from the ledger's beginning, have been read or were before it."""

    number: int
    position: int
    taken: int


@dataclass
class LedgerEntry:
    """What came in one flush."""

    together: list[MemberBatches] = field(default_factory=list)
    apart: dict[int, list[Piece]] = field(default_factory=dict)

    def of(self, number: int) -> list[Piece]:
        """The pieces of a member, in order of time."""
        found = [batch for shared in self.together if (batch := shared.of(number)) is not None]
        return in_order([*found, *self.apart[number]]) if number in self.apart else found

    @property
    def rows(self) -> int:
        """Those in batches: ranges of empty reports take no room."""
        apart = (piece for pieces in self.apart.values() for piece in pieces if isinstance(piece, pa.RecordBatch))
        return sum(int(shared.batch.num_rows) for shared in self.together) + sum(int(piece.num_rows) for piece in apart)

    @property
    def bytes(self) -> int:
        apart = sum(piece_bytes(piece) for pieces in self.apart.values() for piece in pieces)
        return sum(int(shared.batch.nbytes) for shared in self.together) + apart

    def last_reports(self, wanted: NDArray[np.bool_]) -> LedgerEntry:
        """The last reports of some members, `wanted` by their numbers, in memory of their own."""
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
        """`total`: the limit of all that hold results until they are read."""
        self.schema = schema
        self._total = total
        if total is not None:
            total.join(self)
        self._nothing = schema.empty_table()
        self._entries: list[LedgerEntry] = []
        self._base = 0
        self._readers: dict[int, int] = {}  # how many stand at each position
        self._rows: Ints = np.zeros(16, np.int64)  # by member: rows so far
        self._dropped: Ints = np.zeros(16, np.int64)  # by member: rows of entries that were forgotten
        self._held = 0  # rows in entries
        self._last: Ints = np.full(16, -1, np.int64)  # by member: the entry with its last report
        self._kept: dict[int, LedgerEntry] = {}  # entries that may hold a last report
        self._kept_read = 0  # rows in those of them that have been read
        self._last_rows = 0  # how many last reports had when they were looked over
        self._asked: tuple[int, int] | None = None
        self._sorted: tuple[tuple[int, int], pa.Table, Ints] | None = None

    @property
    def _end(self) -> int:
        return self._base + len(self._entries)

    # -- writing -------------------------------------------------------------------------------------------------

    def write(self, entry: LedgerEntry, most: int | None) -> None:
        """What is new of all members; `most`: how many unread rows of a member are kept."""
        for shared in entry.together:
            self._fit(int(shared.numbers.max()))
            self._rows[shared.numbers] += np.diff(shared.cuts)
            self._last[shared.numbers] = self._end
            self._held += shared.batch.num_rows
        for number, pieces in entry.apart.items():
            self._fit(number)
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
        self._look_over()
        while most is not None and self._held > most and len(self._entries) > 1:
            if int((self._rows - self._dropped).max()) <= most:
                break
            self._drop_oldest()
        if self._total is not None and self._readers:
            self._total.take(entry.bytes)

    @property
    def unread_bytes(self) -> int:
        """Of entries that some reader has not read."""
        return sum(entry.bytes for entry in self._entries)

    def give_up_oldest(self) -> bool:
        """The oldest entry goes, unless it is the newest too; whether it went."""
        if len(self._entries) < 2:
            return False
        self._drop_oldest()
        self._look_over()
        return True

    def _fit(self, number: int) -> None:
        while number >= len(self._rows):
            more = np.zeros_like(self._rows)
            self._rows, self._dropped = np.concatenate([self._rows, more]), np.concatenate([self._dropped, more])
            self._last = np.concatenate([self._last, more - 1])

    def _look_over(self) -> None:
        """Of the entries that have been read, only last reports stay, once there are many others."""
        read = len(self._kept) - len(self._entries)
        if read <= LOOKED_OVER and self._kept_read <= 2 * self._last_rows + LOOKED_OVER_ROWS:
            return
        kept: dict[int, LedgerEntry] = {}
        for number, entry in self._kept.items():
            if number >= self._base:
                kept[number] = entry
            elif (wanted := self._last == number).any():
                kept[number] = entry.last_reports(wanted)
        self._kept = kept
        self._kept_read = sum(entry.rows for number, entry in kept.items() if number < self._base)
        self._last_rows = self._kept_read

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
        """Where a reader of what comes of a member from now on begins."""
        self._fit(number)
        return self._end, int(self._rows[number])

    def reaches(self, place: Place) -> bool:
        """Whether everything since then is still there."""
        return place[0] >= self._base

    def join(self, number: int, place: Place | None = None) -> LedgerPosition:
        """A reader of what comes of a member from a place on, or from now on."""
        position, taken = self.place(number) if place is None else place
        self._readers[position] = self._readers.get(position, 0) + 1
        return LedgerPosition(number, position, taken)

    def leave(self, reader: LedgerPosition) -> None:
        self._move(reader.position, None)

    def rows_of(self, reader: LedgerPosition) -> int:
        """The rows of its member so far, read and unread."""
        return int(self._rows[reader.number])

    def unread(self, reader: LedgerPosition) -> list[Piece]:
        """What it has not read, still unread afterwards."""
        begin = max(reader.position, self._base) - self._base
        return [piece for entry in self._entries[begin:] for piece in entry.of(reader.number)]

    def lost(self, reader: LedgerPosition) -> int:
        """The rows that went before it read them."""
        return max(0, int(self._dropped[reader.number]) - reader.taken) if reader.position < self._base else 0

    def read(self, reader: LedgerPosition, batches: Callable[[Piece], list[pa.RecordBatch]]) -> pa.Table:
        """What is new since the last call; `batches` writes out a range of empty reports."""
        begin, end = max(reader.position, self._base), self._end
        if begin == end:
            return self._nothing
        table = self._slice(reader.number, begin, end) if end - begin > 1 else None
        if table is None:
            found = [batch for piece in self.unread(reader) for batch in batches(piece)]
            table = pa.Table.from_batches(found, schema=self.schema)
        reader.taken = int(self._rows[reader.number])
        before, reader.position = reader.position, end
        self._move(before, end)
        return table

    def _slice(self, number: int, begin: int, end: int) -> pa.Table | None:
        """A member's part of entries that were put in order; None where nobody has asked for these entries before."""
        span = begin, end
        if self._sorted is None or self._sorted[0] != span:
            if self._asked != span or any(entry.apart for entry in self._entries[begin - self._base :]):
                self._asked = span
                return None
            self._sorted = span, *self._in_order(begin)
        _, table, firsts = self._sorted
        if number + 1 >= len(firsts):
            return self._nothing
        first, after = int(firsts[number]), int(firsts[number + 1])
        return table.slice(first, after - first)

    def _in_order(self, begin: int) -> tuple[pa.Table, Ints]:
        """All entries from one on as a table by member, and where each member begins in it."""
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
        """A reader has gone from one position to another, or away; entries that all have read are forgotten."""
        self._readers[before] -= 1
        if after is not None:
            self._readers[after] = self._readers.get(after, 0) + 1
        if not self._readers[before]:
            del self._readers[before]
            needed = min(self._readers, default=self._end)
            while self._entries and self._base < needed:
                self._drop_oldest()
            self._look_over()
            if self._sorted is not None and self._sorted[0][0] < needed:
                self._sorted = None

    def last(self, number: int) -> Piece | None:
        """The last piece of a member's reports."""
        index = int(self._last[number]) if number < len(self._last) else -1
        pieces = self._kept[index].of(number) if index >= 0 else []
        return pieces[-1] if pieces else None

    def forget(self, number: int) -> None:
        """Another member may get the number."""
        if number < len(self._last):
            self._last[number] = -1


def piece_bytes(piece: Piece) -> int:
    """Ranges of empty reports take no room."""
    return 0 if isinstance(piece, EmptyReports) else int(piece.nbytes)


def row_count(piece: Piece) -> int:
    return piece.count if isinstance(piece, EmptyReports) else piece.num_rows


def last_report_of(piece: Piece) -> Piece:
    """The last report of a piece; what it was a part of is not held on to."""
    if isinstance(piece, EmptyReports):
        return EmptyReports(piece.first + piece.slide * (piece.count - 1), 1, piece.slide)
    ends = integers(piece.column(1))
    return piece.take(wrapped(np.arange(np.searchsorted(ends, ends[-1], side="left"), len(ends))))


def _last_together(shared: MemberBatches, own: NDArray[np.bool_]) -> MemberBatches:
    """The last reports of some members."""
    sizes, ends = np.diff(shared.cuts), integers(shared.batch.column(1))
    last = ends[np.maximum(shared.cuts[1:] - 1, 0)]
    shown = np.repeat(own, sizes) & (ends == np.repeat(last, sizes))
    owners = np.repeat(np.arange(len(sizes)), sizes)[shown]
    counts = np.bincount(owners, minlength=len(sizes))[own]
    batch = shared.batch.take(wrapped(np.flatnonzero(shown)))
    return MemberBatches(shared.shape, batch, shared.numbers[own], np.concatenate([[0], np.cumsum(counts)]))
