"""A registered query while it runs: its status, and its results on their way to callers, subscribers and other queries.

Results wait for callers in `unread_results.py`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import integers
from panewise.arrays import Ints
from panewise.engine.channels.channel import Channel
from panewise.engine.channels.entering_rows import EnteringRows
from panewise.engine.channels.ledger import Ledger, Place, row_count
from panewise.engine.channels.readers import Reader
from panewise.engine.channels.unread_results import UnreadResults, read_back, written
from panewise.engine.channels.unread_total import UnreadTotal
from panewise.engine.channels.withheld_changes import WithheldChanges
from panewise.errors import AnswerOverflowWarning
from panewise.language.statements import Emission
from panewise.operators.due_reports import EmptyReports
from panewise.operators.reports import Piece
from panewise.operators.row_batch import Rows
from panewise.plan.blocks import Block
from panewise.plan.nodes import Emit
from panewise.plan.physical_plan import HIDDEN, shown_name
from panewise.temporal import RowsWindow

Subscriber = Callable[[pa.RecordBatch], None]
CHUNK = 1 << 16  # Ranges of empty reports are written out in batches of this many rows.


class HostedQuery(Channel):
    """One query. As a channel it is what queries over this query read.

    It may read a ledger that it shares with other queries until somebody needs each result as it comes. Then it stands
    apart, and results are handed to it by `receive`.
    """

    of_query = True

    def __init__(self, name: str, plan: Emit, block: Block, total: UnreadTotal | None = None) -> None:
        """`total`: the limit of the unread results of all queries."""
        super().__init__(name, plan.schema, plan.timestamp)
        self.plan = plan
        self.block = block
        self.arrow = plan.schema.to_arrow()
        self.unread = UnreadResults(self.arrow, total)
        self._status = "RUNNING"
        self.reason = ""
        self.begins_by_count = False
        self.overflows = 0  # Answers of SUM that were outside their type, and are NULL.
        self.remarks: deque[Warning] = deque(maxlen=1)  # Warnings that the host is to show.
        self.subscribers: list[Subscriber] = []
        self.empty_batch: Callable[[Ints], pa.RecordBatch | None] | None = None
        self.entering: EnteringRows | None = None  # The rows of its answer, while somebody reads them.
        # A suspended change log shows the withheld changes when it is resumed; other queries omit those results.
        self._withheld = WithheldChanges(self.arrow) if plan.emission is Emission.CHANGES else None
        self.undelivered: deque[pa.RecordBatch] = deque()  # Results for subscribers.
        self.offered = 0  # Number of batches that were ever put there.
        self._source: Channel | None = None  # The channel whose watermark it has, while it reads a ledger.
        self._apart: Callable[[], None] | None = None  # Called when it leaves the ledger.

    @property
    def is_hidden(self) -> bool:
        """Whether it is a query inside another one."""
        return HIDDEN in self.name

    @property
    def shown(self) -> str:
        """Its name for people."""
        return shown_name(self.name)

    @property
    def is_to_begin(self) -> bool:
        window = self.block.window
        partitioned = isinstance(window, RowsWindow) and bool(window.partition_by)
        return self.begins_by_count and (partitioned or not self.rows_out)

    @property
    def comes_late(self) -> bool:
        window = self.block.window
        return isinstance(window, RowsWindow) and window.periodic and bool(window.offset)

    @property
    def called(self) -> str:
        return "the subquery" if self.is_hidden else super().called

    @property
    def readers(self) -> list[Reader]:
        return [*self.consumers, *([] if self.entering is None else self.entering.consumers)]

    # -- the ledger ----------------------------------------------------------------------------------------------

    @property
    def total(self) -> UnreadTotal | None:
        return self.unread.total

    def share(self, ledger: Ledger, number: int, begin: Place, source: Channel, apart: Callable[[], None]) -> None:
        """Results are read from a ledger, from a place on; `apart` is called when that ends."""
        self.unread.join_ledger(ledger, number, begin)
        self._source, self._apart = source, apart

    def detach_from_ledger(self) -> None:
        """Results are handed to it from now on; unread results stay unread."""
        if self.unread.in_ledger:
            assert self._source is not None and self._apart is not None
            self.unread.leave_ledger()
            self.watermark, self.rows_seen = self._source.watermark, self.unread.rows_out
            self._apart()

    # -- how it begins -------------------------------------------------------------------------------------------

    def remark_to(self, remarks: deque[Warning]) -> None:
        """Its warnings are collected there."""
        self.remarks = remarks

    def begin_at(self, watermark: int) -> None:
        """Sets the watermark to that of the channels that it reads."""
        self.watermark = watermark

    def begin_whole_from(self, instant: int | None, by_count: bool = False) -> None:
        """It was created in mid-stream: results before an instant are missing, or exist only because other queries held
        rows. None: none are missing. `by_count`: it begins when enough rows have come, at an instant not known yet."""
        self.whole_from, self.begins_by_count = instant, by_count

    def count_not_all(self) -> None:
        """Its results are not counted from the first one on."""
        self.counts_all = False

    def write_empty_by(self, empty_batch: Callable[[Ints], pa.RecordBatch | None]) -> None:
        """`empty_batch`: makes its reports over empty windows, by the ends of the windows."""
        self.empty_batch = empty_batch

    def show_entering(self, entering: EnteringRows | None) -> None:
        """Somebody reads the rows of its answer; None: nobody does any more."""
        self.entering = entering

    def keep_all_unread(self) -> None:
        """Unread results are held, however many there are."""
        self.unread.keep_all()

    def go_on_at(self, watermark: int) -> None:
        """Its results up to this watermark have been handed on before."""
        self.watermark = max(self.watermark, watermark)

    # -- its status ----------------------------------------------------------------------------------------------

    @property
    def status(self) -> str:
        return self._status

    def suspend(self, reason: str = "") -> None:
        """It shows no results until it is resumed."""
        self._become("SUSPENDED")
        self.reason = reason or self.reason

    def resume(self) -> None:
        """It shows its results again; a change log begins with the withheld changes."""
        suspended = self._status == "SUSPENDED"
        self._become("RUNNING")
        if suspended and self._withheld is not None:
            # Like every change by a statement, this one happens at the watermark.
            self.receive(list(self._withheld.shown_at(self.watermark)), self.watermark)

    def fail(self, reason: str) -> None:
        """It has no results any more, and the queries that read it fail too."""
        if self._status != "FAILED":
            self.fail_alone(reason)
            for consumer in list(self.consumers):
                consumer.fail(self._reason_for_readers)

    def fail_alone(self, reason: str) -> None:
        """It has no results any more; the queries that read it are told elsewhere."""
        self._become("FAILED")
        self.reason = reason

    def _become(self, status: str) -> None:
        if status != "RUNNING":
            self.detach_from_ledger()
        self._status = status

    @property
    def withholds(self) -> bool:
        """Whether it is a suspended change log, which shows its changes when it is resumed."""
        return self._withheld is not None and self._status == "SUSPENDED"

    def overflowed(self, count: int) -> None:
        """This many more of its answers are outside their type. It goes on; the first time there is a warning."""
        if count and not self.overflows:
            self.remarks.append(overflow_warning(self.shown))
        self.overflows += count

    def forget_overflows(self) -> None:
        """They have been reported, and are counted from 0 again."""
        self.overflows = 0

    @property
    def failure(self) -> str | None:
        return self._reason_for_readers if self._status == "FAILED" else None

    @property
    def _reason_for_readers(self) -> str:
        return f"query '{self.name}', which it reads, has failed: {self.reason}"

    @property
    def rows_out(self) -> int:
        return self.unread.rows_out

    @property
    def rows_dropped(self) -> int:
        return self.unread.rows_dropped

    def attach(self, reader: Reader, history: Rows | None = None) -> None:
        self.detach_from_ledger()
        super().attach(reader, history)

    def retain(self, duration: int) -> None:
        self.detach_from_ledger()
        super().retain(duration)

    def listen(self, subscriber: Subscriber) -> None:
        """A subscriber is called with the batches of results that come from now on."""
        self.detach_from_ledger()
        self.subscribers.append(subscriber)

    # -- results as they come ------------------------------------------------------------------------------------

    def receive(self, pieces: list[Piece], watermark: int) -> None:
        """New results, in order of time, and the watermark that the query has then."""
        if self.status != "RUNNING":
            if self._withheld is not None:
                self._withheld.take([batch for piece in pieces for batch in self.batches(piece)])
            pieces = []
        self.unread.take(pieces)
        for piece in pieces if self.subscribers else ():
            batches = self.batches(piece)
            self.undelivered.extend(batches)
            self.offered += len(batches)
        if self.consumers or self.retain_us:
            self._flow_on(pieces, watermark)
        else:
            self.watermark = max(self.watermark, watermark)
            self.rows_seen += sum(map(row_count, pieces))
        if self.entering is not None:
            self.entering.step(watermark)

    @property
    def held_from(self) -> int | None:
        """Rows before this instant are not seen by a new reader. While nobody reads a periodic query, its newest
        results, which are reports at the watermark itself, are not kept."""
        held = super().held_from
        kept = self.consumers or self.retain_us or not self.block.periodic
        held = held if held is None or kept else held + 1
        return held if self.whole_from is None else max(self.whole_from, self.whole_from if held is None else held)

    @property
    def missed_before(self) -> int | None:
        """A query may have begun late itself: then results are missing even if none has passed."""
        return self.held_from

    def _flow_on(self, pieces: list[Piece], watermark: int) -> None:
        batches = [batch for piece in pieces for batch in self.batches(piece)]
        if not batches:
            self.flow(self.empty_rows(), watermark)
            return
        batch = batches[0]
        if len(batches) > 1:
            batch = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
        times = integers(batch.column(self.timestamp))
        self.flow(Rows(batch, times, self.rows_seen), watermark)

    def batches(self, piece: Piece) -> list[pa.RecordBatch]:
        """A piece as batches; ranges of empty reports are written out as rows only here."""
        if not isinstance(piece, EmptyReports):
            return [piece]
        assert self.empty_batch is not None
        result = []
        for begin in range(0, piece.count, CHUNK):
            count = min(CHUNK, piece.count - begin)
            ends = piece.first + piece.slide * np.arange(begin, begin + count, dtype=np.int64)
            batch = self.empty_batch(ends)
            if batch is not None:
                result.append(batch)
        return result

    def read(self) -> pa.Table:
        """The results since the last call."""
        return self.unread.read(self.batches)

    def put_back(self, table: pa.Table) -> None:
        """The results of the last read are unread again."""
        self.unread.put_back(table)

    def deliver(self) -> list[Exception]:
        """Calls the subscribers with undelivered results; returns the errors that they raised."""
        raised: list[Exception] = []
        while self.undelivered:
            batch = self.undelivered.popleft()
            for subscriber in list(self.subscribers):
                try:
                    subscriber(batch)
                except Exception as problem:  # noqa: BLE001 - a subscriber must not disturb the others
                    raised.append(problem)
        return raised

    def snapshot(self) -> dict[str, Any]:
        return {
            "channel": super().snapshot() | self._progress(),
            "status": self.status,
            "reason": self.reason,
            "rows_out": self.rows_out,
            "rows_dropped": self.rows_dropped,
            **({"numbers_skipped": self.unread.numbers_skipped} if self.unread.numbers_skipped else {}),
            **({"overflows": self.overflows} if self.overflows else {}),
            "unread": list(map(written, self.unread.pieces)),
            **({} if self._withheld is None or self.status == "RUNNING" else {"withheld": self._withheld.net()}),
            **({} if self.counts_all else {"counts_all": False}),
            **({} if self.whole_from is None else {"whole_from": self.whole_from}),
            **({"begins_by_count": True} if self.begins_by_count else {}),
        }

    def _progress(self) -> dict[str, int]:
        """Its watermark and row count; while it reads a ledger, its watermark is that of the ledger's writer."""
        if self._source is None or not self.unread.in_ledger:
            return {"watermark": self.watermark, "rows_seen": self.rows_seen}
        return {"watermark": self._source.watermark, "rows_seen": self.rows_out}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """A fresh query becomes the one of the snapshot; it may have begun to read a ledger."""
        # This comes first: a suspended query stands apart, and its watermark is restored afterwards.
        self._become(snapshot["status"])
        self.reason = snapshot["reason"]
        self.overflows = snapshot.get("overflows", 0)
        super().restore(snapshot["channel"])
        unread = list(map(read_back, snapshot["unread"]))
        skipped = snapshot.get("numbers_skipped", 0)
        self.unread.restore(snapshot["rows_out"], snapshot["rows_dropped"], unread, skipped)
        self.counts_all = snapshot.get("counts_all", self.counts_all)
        self.whole_from = snapshot.get("whole_from", self.whole_from)
        self.begins_by_count = snapshot.get("begins_by_count", self.begins_by_count)
        withheld = snapshot.get("withheld")
        if self._withheld is not None and withheld is not None:
            self._withheld.take(withheld.to_batches())


def overflow_warning(name: str) -> AnswerOverflowWarning:
    """The warning about the first answer of a query that is outside its type."""
    return AnswerOverflowWarning(
        f"an answer of SUM of query '{name}' is outside its type and NULL; 'overflows' in stats() counts such answers. "
        "SUM(CAST(... AS DOUBLE)) has room for it, with 15 digits"
    )


def overflow_remark(count: int) -> str:
    """The remark on a query with this many answers outside their type; empty if there are none.

    >>> overflow_remark(1)
    'answers of SUM that are outside their type, and NULL: 1'
    """
    return f"answers of SUM that are outside their type, and NULL: {count:,}" if count else ""
