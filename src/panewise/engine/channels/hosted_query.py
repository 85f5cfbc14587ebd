"""A registered query while it runs: its results on their way to readers, subscribers and other queries."""

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
from panewise.engine.channels.ledger import Ledger, LedgerPosition, Place, piece_bytes, row_count
from panewise.engine.channels.readers import Reader
from panewise.engine.channels.unread_total import UnreadTotal
from panewise.engine.channels.withheld_changes import WithheldChanges
from panewise.errors import AnswerOverflowWarning
from panewise.language.statements import Emission as Emission
from panewise.operators.due_reports import EmptyReports
from panewise.operators.reports import Piece
from panewise.operators.row_batch import Rows
from panewise.plan.blocks import Block
from panewise.plan.nodes import Emit
from panewise.plan.physical_plan import HIDDEN, shown_name
from panewise.temporal import RowsWindow

Subscriber = Callable[[pa.RecordBatch], None]
UNREAD_ROWS_MAX = 10_000_000
CHUNK = 1 << 16


class HostedQuery(Channel):
    """The results of one query. As a channel it is what queries over this query read.

    As long as nobody wants each result as it comes, it reads a ledger that it shares with others; then it stands apart,
    and results are handed to it. What becomes of it is assigned here alone: others tell it what has happened.
    """

    of_query = True

    def __init__(self, name: str, plan: Emit, block: Block, total: UnreadTotal | None = None) -> None:
        """`total`: the limit of all that hold results until they are read."""
        super().__init__(name, plan.schema, plan.timestamp)
        self.total = total
        if total is not None:
            total.join(self)
        self.plan = plan
        self.block = block
        self.arrow = plan.schema.to_arrow()
        self._status = "RUNNING"
        self.reason = ""
        self.begins_by_count = False
        self.overflows = 0  # answers of SUM that were outside their type, and are NULL
        self.remarks: deque[Warning] = deque(maxlen=1)  # for whoever hosts it to hand on
        self.subscribers: list[Subscriber] = []
        self._rows_out = 0
        self._rows_dropped = 0
        self.unread_max: int | None = UNREAD_ROWS_MAX
        self.empty_batch: Callable[[Ints], pa.RecordBatch | None] | None = None
        self.entering: EnteringRows | None = None  # what its answer consists of, where somebody wants to know
        # A change log that is suspended begins again with what it did not show; others leave that out.
        self._withheld = WithheldChanges(self.arrow) if plan.emission is Emission.CHANGES else None
        self._unread: list[Piece] = []
        self._unread_rows = 0
        self.undelivered: deque[pa.RecordBatch] = deque()  # results for subscribers
        self.offered = 0  # how many of them there have been
        self._ledger: tuple[Ledger, LedgerPosition] | None = None
        self._source: Channel | None = None  # how far it has come, while it reads a ledger
        self._apart: Callable[[], None] | None = None

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

    def share(self, ledger: Ledger, number: int, begin: Place, source: Channel, apart: Callable[[], None]) -> None:
        """Results are read from a ledger, from a place on; `apart` is called when that ends."""
        reader = ledger.join(number, begin)
        self._rows_out -= reader.taken
        self._ledger, self._source, self._apart = (ledger, reader), source, apart

    def stand_apart(self) -> None:
        """Results are handed to it from now on; those that it has not read stay unread."""
        if self._ledger is None:
            return
        ledger, reader = self._ledger
        self._unread = self._all_unread()
        self._unread_rows = sum(map(row_count, self._unread))
        self._rows_out += ledger.rows_of(reader)
        self._rows_dropped += ledger.lost(reader)
        assert self._source is not None and self._apart is not None
        self.watermark, self.rows_seen = self._source.watermark, self._rows_out
        ledger.leave(reader)
        self._ledger = None
        self._apart()

    # -- how it begins -------------------------------------------------------------------------------------------

    def remark_to(self, remarks: deque[Warning]) -> None:
        """What is to be said of it goes there."""
        self.remarks = remarks

    def begin_at(self, watermark: int) -> None:
        """It has come as far as what it reads."""
        self.watermark = watermark

    def begin_whole_from(self, instant: int | None, by_count: bool = False) -> None:
        """It came in mid-stream: results before an instant are missing, or are there only because others held rows.
        `by_count`: it begins when enough rows have come, and nobody knows when that is. None: none are missing."""
        self.whole_from, self.begins_by_count = instant, by_count

    def count_not_all(self) -> None:
        """Its results are not counted from the first one on."""
        self.counts_all = False

    def write_empty_by(self, empty_batch: Callable[[Ints], pa.RecordBatch | None]) -> None:
        """Who says what its reports over empty windows are."""
        self.empty_batch = empty_batch

    def show_entering(self, entering: EnteringRows | None) -> None:
        """Somebody wants to know what its answer consists of; None: nobody does any more."""
        self.entering = entering

    def keep_all_unread(self) -> None:
        """Results wait until they are read, however many there are."""
        self.unread_max = None

    def go_on_at(self, watermark: int) -> None:
        """Its results up to here have been handed on before."""
        self.watermark = max(self.watermark, watermark)

    # -- what becomes of it --------------------------------------------------------------------------------------

    @property
    def status(self) -> str:
        return self._status

    def suspend(self, reason: str = "") -> None:
        """It shows nothing until it is resumed."""
        self._become("SUSPENDED")
        self.reason = reason or self.reason

    def resume(self) -> None:
        """It shows its results again; a change log begins with what it has not shown."""
        suspended = self._status == "SUSPENDED"
        self._become("RUNNING")
        if suspended and self._withheld is not None:
            # Like every change by a statement this one happens at the watermark.
            self.receive(list(self._withheld.shown_at(self.watermark)), self.watermark)

    def fail(self, reason: str) -> None:
        """It has no results any more, and whoever reads it has none either."""
        if self._status != "FAILED":
            self.fail_alone(reason)
            for consumer in list(self.consumers):
                consumer.fail(self._reason_for_readers)

    def fail_alone(self, reason: str) -> None:
        """It has no results any more; whoever reads it is told elsewhere."""
        self._become("FAILED")
        self.reason = reason

    def _become(self, status: str) -> None:
        if status != "RUNNING":
            self.stand_apart()
        self._status = status

    @property
    def withholds(self) -> bool:
        """Whether it is a change log that will say later what it does not show now."""
        return self._withheld is not None and self._status == "SUSPENDED"

    def overflowed(self, count: int) -> None:
        """So many more of its answers are outside their type. It goes on; the first ones are remarked on."""
        if count and not self.overflows:
            self.remarks.append(overflow_warning(self.shown))
        self.overflows += count

    def forget_overflows(self) -> None:
        """They have been told."""
        self.overflows = 0

    @property
    def failure(self) -> str | None:
        return self._reason_for_readers if self._status == "FAILED" else None

    @property
    def _reason_for_readers(self) -> str:
        return f"query '{self.name}', which it reads, has failed: {self.reason}"

    @property
    def rows_out(self) -> int:
        return self._rows_out + (0 if self._ledger is None else self._ledger[0].rows_of(self._ledger[1]))

    @property
    def rows_dropped(self) -> int:
        return self._rows_dropped + (0 if self._ledger is None else self._ledger[0].lost(self._ledger[1]))

    def attach(self, reader: Reader, history: Rows | None = None) -> None:
        self.stand_apart()
        super().attach(reader, history)

    def retain(self, duration: int) -> None:
        self.stand_apart()
        super().retain(duration)

    def listen(self, subscriber: Subscriber) -> None:
        """Batches of results go to a subscriber from now on."""
        self.stand_apart()
        self.subscribers.append(subscriber)

    # -- results as they come ------------------------------------------------------------------------------------

    def receive(self, pieces: list[Piece], watermark: int) -> None:
        """New results, in order of time, and how far the query has come with them."""
        if self.status != "RUNNING":
            if self._withheld is not None:
                self._withheld.take([batch for piece in pieces for batch in self.batches(piece)])
            pieces = []
        for piece in pieces:
            count = row_count(piece)
            self._rows_out += count
            self._unread.append(piece)
            self._unread_rows += count
            if self.subscribers:
                batches = self.batches(piece)
                self.undelivered.extend(batches)
                self.offered += len(batches)
        while self.unread_max is not None and self._unread_rows > self.unread_max and self.give_up_oldest():
            pass
        if self.total is not None and pieces:
            self.total.take(sum(map(piece_bytes, pieces)))
        if self.consumers or self.retain_us:
            self._flow_on(pieces, watermark)
        else:
            self.watermark = max(self.watermark, watermark)
            self.rows_seen += sum(map(row_count, pieces))
        if self.entering is not None:
            self.entering.step(watermark)

    @property
    def unread_bytes(self) -> int:
        """Of results that were handed to it; those of a ledger are the ledger's."""
        return sum(map(piece_bytes, self._unread))

    def give_up_oldest(self) -> bool:
        """The oldest of these go, unless they are the newest too; whether they went."""
        if len(self._unread) < 2:
            return False
        count = row_count(self._unread.pop(0))
        self._unread_rows -= count
        self._rows_dropped += count
        return True

    @property
    def held_from(self) -> int | None:
        """While nobody reads this query its newest results, reports at the watermark itself, are not kept."""
        held = super().held_from
        kept = self.consumers or self.retain_us or not self.block.periodic
        held = held if held is None or kept else held + 1
        return held if self.whole_from is None else max(self.whole_from, self.whole_from if held is None else held)

    @property
    def missed_before(self) -> int | None:
        """A query may have begun late itself, so that results are missing though none has gone by."""
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
        """A piece as batches; a range of empty reports becomes rows only here."""
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
        """What is new since the last call."""
        if self._ledger is not None:
            ledger, reader = self._ledger
            own, lost = self._read_own() if self._unread else None, ledger.lost(reader)
            table = ledger.read(reader, self.batches)
            self._rows_dropped += lost
            table = table if own is None else pa.concat_tables([own, table])
        else:
            table = self._read_own()
        self._unread, self._unread_rows = [], 0
        return table

    def _read_own(self) -> pa.Table:
        return pa.Table.from_batches([b for piece in self._unread for b in self.batches(piece)], schema=self.arrow)

    def put_back(self, table: pa.Table) -> None:
        """What was read last is new again."""
        self._unread = [*table.to_batches(), *self._unread]
        self._unread_rows += table.num_rows

    def _all_unread(self) -> list[Piece]:
        return self._unread if self._ledger is None else self._unread + self._ledger[0].unread(self._ledger[1])

    def deliver(self) -> list[Exception]:
        """Calls the subscribers with what has come for them; returns what they raised."""
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
            **({"overflows": self.overflows} if self.overflows else {}),
            "unread": [
                {"first": p.first, "count": p.count, "slide": p.slide} if isinstance(p, EmptyReports) else p
                for p in self._all_unread()
            ],
            **({} if self._withheld is None or self.status == "RUNNING" else {"withheld": self._withheld.net()}),
            **({} if self.counts_all else {"counts_all": False}),
            **({} if self.whole_from is None else {"whole_from": self.whole_from}),
            **({"begins_by_count": True} if self.begins_by_count else {}),
        }

    def _progress(self) -> dict[str, int]:
        """How far it has come; while it reads a ledger, that is how far the ledger's writer has."""
        if self._source is None or self._ledger is None:
            return {"watermark": self.watermark, "rows_seen": self.rows_seen}
        return {"watermark": self._source.watermark, "rows_seen": self.rows_out}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """A fresh query becomes the one of the snapshot, also where it has just begun to read a ledger."""
        # First: one that is suspended stands apart, at a watermark to which its source has not been restored yet.
        self._become(snapshot["status"])
        self.reason = snapshot["reason"]
        self.overflows = snapshot.get("overflows", 0)
        super().restore(snapshot["channel"])
        self._rows_out, self._rows_dropped = snapshot["rows_out"], snapshot["rows_dropped"]
        if self._ledger is not None:
            self._rows_out -= self._ledger[0].rows_of(self._ledger[1])
        self._unread = [EmptyReports(**p) if isinstance(p, dict) else p for p in snapshot["unread"]]
        self._unread_rows = sum(map(row_count, self._unread))
        self.counts_all = snapshot.get("counts_all", self.counts_all)
        self.whole_from = snapshot.get("whole_from", self.whole_from)
        self.begins_by_count = snapshot.get("begins_by_count", self.begins_by_count)
        withheld = snapshot.get("withheld")
        if self._withheld is not None and withheld is not None:
            self._withheld.take(withheld.to_batches())


def overflow_warning(name: str) -> AnswerOverflowWarning:
    """What is said when the first answer of a query is outside its type."""
    return AnswerOverflowWarning(
        f"an answer of SUM of query '{name}' is outside its type and NULL; 'overflows' in stats() counts such answers. "
        "SUM(CAST(... AS DOUBLE)) has room for it, with 15 digits"
    )


def overflow_remark(count: int) -> str:
    """What is said of a query with so many answers outside their type; nothing where there are none.

    >>> overflow_remark(1)
    'answers of SUM that are outside their type, and NULL: 1'
    """
    return f"answers of SUM that are outside their type, and NULL: {count:,}" if count else ""
