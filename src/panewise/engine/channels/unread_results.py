"""The results of one query until they are read: in a ledger that queries share, or held here.

When a query leaves its ledger, the results that it has not read there are held here. Results held beside a ledger (of a
snapshot, or read and put back) are older than those in it. They are given up first, so that no read has a gap inside.

Invariant: `rows_out` counts all results; each is unread, was read, or counts in `rows_dropped`. `next_number` is the
number of the next result: higher than `rows_out` if results were handed out that a replay of the log did not produce
again. At most `rows_max` rows are held, and beyond them the newest piece; the limit of all queries together is in
`unread_total.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from panewise.engine.channels.ledger import Ledger, LedgerPosition, Place, piece_bytes, row_count
from panewise.engine.channels.unread_total import UnreadTotal
from panewise.operators.due_reports import EmptyReports
from panewise.operators.reports import Piece

UNREAD_ROWS_MAX = 10_000_000
WriteOut = Callable[[Piece], list[pa.RecordBatch]]
"""A piece as batches; a range of empty reports becomes rows."""


class UnreadResults:
    """Pieces held for one query, its position in a ledger, and counts of both."""

    def __init__(self, schema: pa.Schema, total: UnreadTotal | None) -> None:
        """`total`: the limit of all queries together."""
        self.rows_max: int | None = UNREAD_ROWS_MAX
        self.total = total
        if total is not None:
            total.join(self)
        self._schema = schema
        self._pieces: list[Piece] = []
        self._rows = 0
        self._rows_out = 0  # Without those of the ledger, as long as one is read.
        self._rows_dropped = 0
        self.numbers_skipped = 0
        self._ledger: tuple[Ledger, LedgerPosition] | None = None

    @property
    def rows_out(self) -> int:
        return self._rows_out + (0 if self._ledger is None else self._ledger[0].rows_of(self._ledger[1]))

    @property
    def next_number(self) -> int:
        return self.rows_out + self.numbers_skipped

    def skip_numbers(self, number: int) -> None:
        """The next result has this number or a higher one."""
        self.numbers_skipped += max(0, number - self.next_number)

    @property
    def rows_dropped(self) -> int:
        self._give_up_before_lost()
        return self._rows_dropped + (0 if self._ledger is None else self._ledger[0].lost(self._ledger[1]))

    def keep_all(self) -> None:
        """There is no limit of rows from now on."""
        self.rows_max = None

    # -- the ledger ----------------------------------------------------------------------------------------------

    @property
    def in_ledger(self) -> bool:
        return self._ledger is not None

    def join_ledger(self, ledger: Ledger, number: int, begin: Place) -> None:
        """Results are read from a ledger from now on, beginning at a place."""
        reader = ledger.join(number, begin)
        self._rows_out -= reader.taken
        self._ledger = ledger, reader

    def leave_ledger(self) -> None:
        """What is unread in the ledger is held here."""
        assert self._ledger is not None
        ledger, reader = self._ledger
        self._pieces = self.pieces
        self._rows = sum(map(row_count, self._pieces))
        self._rows_out += ledger.rows_of(reader)
        self._rows_dropped += ledger.lost(reader)
        ledger.leave(reader)
        self._ledger = None

    # -- results -------------------------------------------------------------------------------------------------

    @property
    def pieces(self) -> list[Piece]:
        """All unread results."""
        self._give_up_before_lost()
        return self._pieces if self._ledger is None else self._pieces + self._ledger[0].unread(self._ledger[1])

    def take(self, pieces: list[Piece]) -> None:
        """New results, which are in no ledger."""
        count = sum(map(row_count, pieces))
        self._pieces.extend(pieces)
        self._rows_out += count
        self._rows += count
        while self.rows_max is not None and self._rows > self.rows_max and self.give_up_oldest():
            pass
        if self.total is not None and pieces:
            self.total.take(sum(map(piece_bytes, pieces)))

    @property
    def unread_bytes(self) -> int:
        """The bytes of results held here; those in a ledger are counted by the ledger."""
        self._give_up_before_lost()
        return sum(map(piece_bytes, self._pieces))

    def give_up_oldest(self) -> bool:
        """Drops the oldest piece held here, unless it is also the newest; returns whether one was dropped."""
        newer = self._ledger is not None and self._ledger[0].has_unread(self._ledger[1])
        if len(self._pieces) < (1 if newer else 2):
            return False
        count = row_count(self._pieces.pop(0))
        self._rows -= count
        self._rows_dropped += count
        return True

    def read(self, write_out: WriteOut) -> pa.Table:
        """The results since the last call."""
        self._give_up_before_lost()
        if self._ledger is not None:
            ledger, reader = self._ledger
            own, lost = self._held(write_out) if self._pieces else None, ledger.lost(reader)
            table = ledger.read(reader, write_out)
            self._rows_dropped += lost
            table = table if own is None else pa.concat_tables([own, table])
        else:
            table = self._held(write_out)
        self._pieces, self._rows = [], 0
        return table

    def _give_up_before_lost(self) -> None:
        """Drops what is held here if the ledger has dropped results that are newer."""
        if self._pieces and self._ledger is not None and self._ledger[0].lost(self._ledger[1]):
            self._rows_dropped += self._rows
            self._pieces, self._rows = [], 0

    def _held(self, write_out: WriteOut) -> pa.Table:
        return pa.Table.from_batches([b for piece in self._pieces for b in write_out(piece)], schema=self._schema)

    def put_back(self, table: pa.Table) -> None:
        """The results of the last read are unread again."""
        self._pieces = [*table.to_batches(), *self._pieces]
        self._rows += table.num_rows

    def restore(self, rows_out: int, rows_dropped: int, pieces: list[Piece], numbers_skipped: int = 0) -> None:
        """`pieces`: unread results, beside those that a ledger may have from now on."""
        self._rows_out, self._rows_dropped, self.numbers_skipped = rows_out, rows_dropped, numbers_skipped
        if self._ledger is not None:
            self._rows_out -= self._ledger[0].rows_of(self._ledger[1])
        self._pieces, self._rows = pieces, sum(map(row_count, pieces))


def written(piece: Piece) -> Any:
    """A piece as a part of a snapshot."""
    if isinstance(piece, EmptyReports):
        return {"first": piece.first, "count": piece.count, "slide": piece.slide}
    return piece


def read_back(written: Any) -> Piece:
    """A piece from a part of a snapshot."""
    piece: Piece = EmptyReports(**written) if isinstance(written, dict) else written
    return piece
