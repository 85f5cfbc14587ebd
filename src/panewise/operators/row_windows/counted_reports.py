"""The reports of [PARTITION BY c ROWS n SLIDE m OFFSET k]: which reports are due, and the rows of each.

Row number N of a partition causes a report if N is a multiple of m. The report covers the rows N - k - n + 1 to N - k
of the partition, if they exist. Without PARTITION BY the whole stream is one partition. Rows are counted before WHERE.
Reports are in the order of the rows that cause them.

    number      1  2  3  4  5  6        [ROWS 3 SLIDE 2]
    reports        *     *     *        {1, 2}, {2, 3, 4}, {4, 5, 6}; with OFFSET 1: {1}, {1, 2, 3}, {3, 4, 5}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.columns import wrapped
from panewise.arrays import Ints
from panewise.errors import NotHeldError, SnapshotError
from panewise.language.expressions import Expression
from panewise.language.statements import Emission, SelectItem
from panewise.operators.partition_tail import PartitionTail, RowCounts
from panewise.operators.relation_rows import SelectedValues
from panewise.operators.relation_to_stream import CountedReports, RelationToStream
from panewise.operators.result_columns import periodic_schema, table_of, timestamps
from panewise.operators.row_batch import Rows
from panewise.operators.row_operator import RowOperator
from panewise.operators.row_windows.row_window import spread
from panewise.operators.selection import RowSelection
from panewise.schema import Schema
from panewise.temporal import RowsWindow, format_instant

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class DueCountedReports:
    """Due reports in order. Row `causes[i]` of the tail causes report i, over its rows `begins[i]` to `ends[i] - 1`."""

    causes: Ints
    begins: Ints
    ends: Ints


def due_reports(tail: PartitionTail, window: RowsWindow, since: int) -> DueCountedReports:
    """The reports caused by rows with sequence numbers from `since` on, if all rows of their windows were seen."""
    assert window.slide is not None
    missed, youngest = tail.missed, tail.numbers - window.offset
    whole = (youngest > 0) & ((missed == 0) | (youngest - window.rows >= missed))
    due = (tail.sequences >= since) & (tail.numbers % window.slide == 0) & whole
    causes = np.flatnonzero(due)
    causes = causes[np.argsort(tail.sequences[causes])]
    ends = causes - window.offset + 1
    return DueCountedReports(causes, ends - np.minimum(window.rows, tail.numbers[causes] - window.offset), ends)


def check_counted(snapshot: dict[str, Any], window: RowsWindow) -> None:
    """Refuses a snapshot of a query that an earlier panewise began in mid-stream, and that counts from there."""
    if snapshot.get("wait"):
        raise SnapshotError(
            f"a query over {window} was created in mid-stream by an earlier panewise, and its reports are numbered "
            "from there instead of from the beginning of the stream",
            hint="drop the query with the version that wrote the snapshot, and create it again with this one",
        )


class ReportEmitter:
    """Emits whole reports (RSTREAM) or differences of successive ones, and keeps the last report for lookups."""

    def __init__(self, emit: Emission, items: pa.Schema) -> None:
        assert emit is not Emission.CHANGES
        self._schema = periodic_schema(items)
        self._differences = None if emit is Emission.RSTREAM else RelationToStream(emit, items)
        self._last: pa.Table | None = None
        self._last_end = 0
        self._next = 0

    @property
    def bytes_held(self) -> int:
        last = 0 if self._last is None else int(self._last.nbytes)
        return last + (0 if self._differences is None else self._differences.bytes_held)

    def emitted(self, starts: Ints, ends: Ints, rows: Ints, values: pa.Table) -> pa.Table:
        """The results for the next reports; row i of the values belongs to report `rows[i]`, counted from 0."""
        if not len(ends):
            return self._schema.empty_table()
        shown = table_of([timestamps(starts[rows]), timestamps(ends[rows]), *values.columns], self._schema)
        self._last = shown.filter(wrapped(rows == len(ends) - 1)).combine_chunks()
        self._last_end = int(ends[-1])
        first, self._next = self._next, self._next + len(ends)
        if self._differences is None:
            return shown
        return self._differences.process_counted(CountedReports(first, starts, ends, rows + first, values))

    def lookup(self, at: int) -> pa.Table:
        """The last report; NotHeldError if it ends after the instant."""
        if self._last is None:
            return self._schema.empty_table()
        if at < self._last_end:
            raise NotHeldError(
                f"the report at {format_instant(at)} is not held",
                hint=f"the last report ends at {format_instant(self._last_end)}",
            )
        return self._last

    def snapshot(self) -> dict[str, Any]:
        return {
            "last": self._last,
            "last_end": self._last_end,
            "next": self._next,
            "differences": None if self._differences is None else self._differences.snapshot(),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._last, self._last_end, self._next = snapshot["last"], snapshot["last_end"], snapshot["next"]
        if self._differences is not None:
            self._differences.restore(snapshot["differences"])


class CountedRowWindow(RowOperator):
    """Rows of a count window with SLIDE, without aggregates. Holds the last n + k rows of every partition.

    `held_from`: not all rows before it were seen. A partition that had rows before (`begin_after`) reports as soon as
    n + k of its rows were seen; its rows are numbered from its beginning.
    """

    def __init__(
        self,
        items: tuple[SelectItem, ...],
        window: RowsWindow,
        where: Expression | None,
        emit: Emission,
        schema: Schema,
        held_from: int | None = None,
    ) -> None:
        self._window = window
        self._selection = RowSelection(where)
        self._selected = SelectedValues(items)
        self._emitter = ReportEmitter(emit, self._selected.schema)
        self.tail = PartitionTail(schema, window.partition_by, window.rows + window.offset, held_from)
        self._passing: Mask = np.empty(0, np.bool_)  # for each row of the tail, whether it passed WHERE
        self._values = self._selected.schema.empty_table()  # the values of the rows that passed, in the tail's order

    @property
    def bytes_held(self) -> int:
        rows = self.tail.bytes_held + self._passing.nbytes + int(self._values.nbytes)
        return rows + self._emitter.bytes_held

    def process(self, rows: Rows, watermark: int) -> pa.Table:
        """The reports that these rows cause; they are all rows below the watermark that were not given before."""
        rows = self.tail.seen(rows)
        since = self.tail.next_sequence
        passing = self._selection.passing(rows)
        fresh = np.ones(len(rows), np.bool_) if passing is None else passing
        new = self._selected.of(rows if passing is None else rows.take(passing))
        self._rearrange(self.tail.extend(rows), fresh, new)
        due = due_reports(self.tail, self._window, since)
        passed = np.concatenate([[0], np.cumsum(self._passing)])
        begins, counts = passed[due.begins], passed[due.ends] - passed[due.begins]
        values = self._values.take(wrapped(spread(begins, counts)))
        starts, ends = self.tail.times[due.begins], self.tail.times[due.ends - 1]
        result = self._emitter.emitted(starts, ends, np.repeat(np.arange(len(ends)), counts), values)
        kept = self.tail.trim()
        if not kept.all():
            self._values = self._values.filter(wrapped(kept[self._passing])).combine_chunks()
            self._passing = self._passing[kept]
        return result

    def begin_after(self, gone: RowCounts) -> None:
        self.tail.begin_after(gone)

    def take_in(self, rows: Rows) -> None:
        self.process(rows, 0)

    def counted_rows(self, partition_by: tuple[str, ...]) -> RowCounts | None:
        return self.tail.counted(partition_by)

    def _rearrange(self, order: Ints, fresh: Mask, new: pa.Table) -> None:
        """Puts held and new values into the tail's order."""
        passing = np.concatenate([self._passing, fresh])
        place = np.cumsum(passing) - 1
        self._passing = passing[order]
        taken = wrapped(place[order][self._passing])
        self._values = pa.concat_tables([self._values, new]).take(taken).combine_chunks()

    def lookup(self, at: int) -> pa.Table:
        """The last report; NotHeldError if it ends after the instant."""
        return self._emitter.lookup(at)

    def snapshot(self) -> dict[str, Any]:
        return {
            "tail": self.tail.snapshot(),
            "passing": self._passing.astype(np.uint8),
            "values": self._values,
            "emitter": self._emitter.snapshot(),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        check_counted(snapshot, self._window)
        self.tail.restore(snapshot["tail"])
        self._passing = snapshot["passing"].astype(np.bool_)
        self._values = snapshot["values"]
        self._emitter.restore(snapshot["emitter"])
