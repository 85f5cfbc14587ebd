"""Aggregates over [PARTITION BY c ROWS n SLIDE m OFFSET k]: a report covers only rows of the partition that causes it.

Within a partition the window moves along the row numbers, first in, first out. So every (partition, group) is a segment
of the two-stack fold in `window_folds.py`, with row numbers as its axis: a row is in the reports N, multiples of m,
with `number + k <= N < number + k + n`. Cost: O(1) amortised combines per row and report. The last n + k rows of each
partition are held.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.columns import wrapped
from panewise.aggregates.matrix import StateMatrix
from panewise.arrays import Ints
from panewise.errors import QueryFailed
from panewise.language.expressions import Expression
from panewise.language.statements import Emission
from panewise.operators.continuous.row_states import MatrixMaker, RowStates, chosen_states
from panewise.operators.continuous.window_folds import report_events
from panewise.operators.partition_tail import PartitionTail, RowCounts, segment_starts
from panewise.operators.result_columns import table_of
from panewise.operators.row_batch import Rows
from panewise.operators.row_operator import RowOperator
from panewise.operators.row_windows.counted_reports import DueCountedReports, ReportEmitter, check_counted, due_reports
from panewise.operators.selection import RowSelection
from panewise.plan.aggregation import Aggregation, StateKey
from panewise.schema import Schema
from panewise.temporal import RowsWindow

Mask = NDArray[np.bool_]
_NONE: Ints = np.empty(0, np.int64)


class PartitionedRows(RowOperator):
    """A report has a row for each group in its window; without GROUP BY it has one row.

    `held_from`: not all rows before it were seen. A partition that had rows before (`begin_after`) reports as soon as
    n + k of its rows were seen; its rows are numbered from its beginning.
    """

    def __init__(
        self,
        aggregation: Aggregation,
        window: RowsWindow,
        where: Expression | None,
        emit: Emission,
        schema: Schema,
        held_from: int | None = None,
        matrix_of: MatrixMaker = StateMatrix,
    ) -> None:
        assert window.slide is not None
        self._aggregation = aggregation
        self._window, self._slide = window, window.slide
        self._selection = RowSelection(where)
        self._emitter = ReportEmitter(emit, aggregation.item_schema)
        self.tail = PartitionTail(schema, window.partition_by, window.rows + window.offset, held_from)
        self._states = RowStates(aggregation, matrix_of)
        # These arrays have the rows that passed WHERE, in stream order.
        self._partitions: Ints = _NONE
        self._numbers: Ints = _NONE
        self._in_front: Mask = np.empty(0, np.bool_)

    @property
    def bytes_held(self) -> int:
        rows = self._partitions.nbytes + self._numbers.nbytes + self._in_front.nbytes
        return rows + self.tail.bytes_held + self._states.bytes_held + self._emitter.bytes_held

    def process(self, rows: Rows, watermark: int) -> pa.Table:
        """The reports that these rows cause; they are all rows below the watermark that were not given before.

        QueryFailed if an answer cannot be computed; its `results` are the reports before that one.
        """
        rows = self.tail.seen(rows)
        since = self.tail.next_sequence
        self.tail.extend(rows)
        self._append(rows, since)
        due = due_reports(self.tail, self._window, since)
        starts, ends = self.tail.times[due.begins], self.tail.times[due.ends - 1]
        reports, groups, folded = self._folded(due)
        try:
            result = self._emitter.emitted(starts, ends, *self._answers(reports, groups, folded))
        except QueryFailed as problem:
            failure = self._states.first_failure(reports, groups, folded)
            whole = np.flatnonzero(reports < failure)
            answers = self._answers(reports[whole], groups[whole], chosen_states(folded, whole))
            problem.results = self._emitter.emitted(starts[:failure], ends[:failure], *answers)
            raise
        self._forget()
        return result

    def begin_after(self, gone: RowCounts) -> None:
        self.tail.begin_after(gone)

    def take_in(self, rows: Rows) -> None:
        self.process(rows, 0)

    def counted_rows(self, partition_by: tuple[str, ...]) -> RowCounts | None:
        return self.tail.counted(partition_by)

    def _append(self, rows: Rows, since: int) -> None:
        passing = self._selection.passing(rows)
        new = np.flatnonzero(self.tail.sequences >= since)
        place = np.empty(len(rows), np.int64)
        place[self.tail.sequences[new] - since] = new
        if passing is not None:
            rows, place = rows.take(passing), place[passing]
        self._states.append(rows)
        self._partitions = np.concatenate([self._partitions, self.tail.partitions[place]])
        self._numbers = np.concatenate([self._numbers, self.tail.numbers[place]])
        self._in_front = np.concatenate([self._in_front, np.zeros(len(place), np.bool_)])

    def _folded(self, due: DueCountedReports) -> tuple[Ints, Ints, dict[StateKey, StateMatrix]]:
        """The groups of all due reports: the number of the report (from 0), the group, and its states."""
        tail, states = self.tail, self._states
        report_at = np.full(len(tail.partitions), -1, np.int64)
        report_at[due.causes] = np.arange(len(due.causes))
        touched = np.unique(tail.partitions[due.causes])
        chosen = np.flatnonzero(np.isin(self._partitions, touched))
        groups = states.groups if self._aggregation.keys else np.zeros(len(states), np.int64)
        order = chosen[np.lexsort((groups[chosen], self._partitions[chosen]))]
        partitions, groups = self._partitions[order], groups[order]
        if self._aggregation.keys:
            starts = segment_starts(partitions * (len(states.table) + 1) + groups)
            owners, owned = partitions[starts], groups[starts]
        else:
            starts = np.searchsorted(partitions, touched)
            owners, owned = touched, np.zeros(len(touched), np.int64)
        segment, numbers, first, last = self._events(due, owners, order, np.append(starts, len(order)))
        fronts = np.concatenate([[0], np.cumsum(self._in_front[order])])
        bounds = np.append(starts, len(order))
        middles = bounds[:-1] + fronts[bounds[1:]] - fronts[bounds[:-1]]
        folded, middles = states.fold_fifo(order, segment, first, last, middles)
        of_row = np.repeat(np.arange(len(owners)), np.diff(bounds))
        self._in_front[order] = np.arange(len(order)) < middles[of_row]
        tail_starts = segment_starts(tail.partitions)
        origin = tail_starts[np.searchsorted(tail.partitions[tail_starts], owners)]
        reports = report_at[origin[segment] + numbers - tail.numbers[origin[segment]]]
        return reports, owned[segment], folded

    def _answers(self, reports: Ints, groups: Ints, folded: dict[StateKey, StateMatrix]) -> tuple[Ints, pa.Table]:
        """The report of each row of the result, and the rows, in order of the reports."""
        columns, passing = self._states.answers(groups, folded)
        shown = np.flatnonzero(passing) if passing is not None else np.arange(len(reports))
        shown = shown[np.lexsort((groups[shown], reports[shown]))]
        return reports[shown], table_of(columns, self._aggregation.item_schema).take(wrapped(shown))

    def _events(self, due: DueCountedReports, owners: Ints, order: Ints, bounds: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Segment, row number and window of the reports of every segment; only non-empty windows, if grouped."""
        numbers, partitions = self.tail.numbers[due.causes], self.tail.partitions[due.causes]
        by_partition = np.lexsort((numbers, partitions))
        numbers, partitions = numbers[by_partition], partitions[by_partition]
        since = numbers[np.searchsorted(partitions, owners, side="left")]
        until = numbers[np.searchsorted(partitions, owners, side="right") - 1]
        births = self._numbers[order] + self._window.offset
        deaths = births + self._window.rows
        always = not self._aggregation.keys
        given = (births, deaths, bounds, self._slide, since, until, always)
        count = report_events(*given, _NONE, _NONE, _NONE, _NONE)
        segment, number, first, last = (np.empty(count, np.int64) for _ in range(4))
        if count:
            report_events(*given, segment, number, first, last)
        return segment, number, first, last

    def _forget(self) -> None:
        self.tail.trim()
        tail_starts = segment_starts(self.tail.partitions)
        if not len(tail_starts):
            return
        origin = tail_starts[np.searchsorted(self.tail.partitions[tail_starts], self._partitions)]
        kept = self._numbers >= self.tail.numbers[origin]
        if kept.all():
            return
        self._states.keep(kept)
        self._partitions, self._numbers, self._in_front = (
            self._partitions[kept],
            self._numbers[kept],
            self._in_front[kept],
        )
        self._states.forget_strings([])
        self._states.forget_groups()

    def lookup(self, at: int) -> pa.Table:
        """The last report; NotHeldError if it ends after the instant."""
        return self._emitter.lookup(at)

    def snapshot(self) -> dict[str, Any]:
        return {
            "tail": self.tail.snapshot(),
            "states": self._states.snapshot(),
            "partitions": self._partitions.copy(),
            "numbers": self._numbers.copy(),
            "in_front": self._in_front.astype(np.uint8),
            "emitter": self._emitter.snapshot(),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        check_counted(snapshot, self._window)
        self.tail.restore(snapshot["tail"])
        self._states.restore(snapshot["states"])
        self._partitions, self._numbers = snapshot["partitions"], snapshot["numbers"]
        self._in_front = snapshot["in_front"].astype(np.bool_)
        self._emitter.restore(snapshot["emitter"])
