"""Periodic queries without aggregates over time windows: `SELECT a, b FROM s [RANGE r SLIDE s] WHERE ...`.

Reports are numbered from the window's alignment: `e = align + number * slide`. A row is in the reports e with
`ts + offset < e <= ts + offset + range`. Its birth is the number of the first of them; its death is the first number
after them:

    reports       0         1         2         3         4         RANGE 2 SLIDE 1, in units of the slide
    a row              *    [  birth            )  death

RSTREAM emits whole reports, which is O(rows x reports) of output. ISTREAM and DSTREAM emit only what enters and leaves,
without building the reports.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import wrapped
from panewise.arrays import Ints
from panewise.errors import NotHeldError
from panewise.language.expressions import Expression
from panewise.language.statements import Emission, SelectItem
from panewise.operators.lifetimes import FOREVER, NEVER, Assigned
from panewise.operators.relation_rows import RelationRows
from panewise.operators.relation_to_stream import last_report_number, report_number, window_columns
from panewise.operators.result_columns import periodic_schema, table_of
from panewise.operators.row_batch import Rows
from panewise.operators.row_operator import RowOperator
from panewise.operators.selection import RowSelection
from panewise.schema import Schema
from panewise.temporal import TimeWindow, format_instant

_NONE: Ints = np.empty(0, np.int64)


def spread(starts: Ints, counts: Ints) -> Ints:
    """The numbers of the ranges `[start, start + count)`, range after range.

    >>> spread(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    before = np.cumsum(counts) - counts
    result: Ints = np.repeat(starts - before, counts) + np.arange(int(counts.sum()))
    return result


class RowWindow(RowOperator):
    """Rows of a periodic time window; `held_from`: windows that begin before that instant are not reported."""

    def __init__(
        self,
        items: tuple[SelectItem, ...],
        window: TimeWindow,
        where: Expression | None,
        emit: Emission,
        schema: Schema,
        held_from: int | None = None,
    ) -> None:
        assert window.slide_us is not None and emit is not Emission.CHANGES
        self._window = window
        self._emit = emit
        self._selection = RowSelection(where)
        self._relation = RelationRows(items)
        self._schema = periodic_schema(self._relation.schema)
        self._sequence = 0
        self._whole_from = NEVER
        if held_from is not None and window.range_us is not None:
            self._whole_from = last_report_number(window, held_from + window.range_us + window.offset_us - 1) + 1
        # Rows that came before the query stay in an unbounded window for ever, but are not known.
        self._misses_some = held_from is not None and window.range_us is None
        self._next = NEVER  # reports below this number are out

    @property
    def bytes_held(self) -> int:
        return self._relation.bytes_held

    @property
    def most_in_report(self) -> int:
        return len(self._relation.alive) if self._emit is Emission.RSTREAM else 0

    def begin_at(self, instant: int) -> None:
        """The first report is the first one after this instant, and contains rows from before."""
        self._whole_from = last_report_number(self._window, instant) + 1

    def process(self, rows: Rows, watermark: int) -> pa.Table:
        """The reports up to the watermark; the rows are all rows below it that were not given before."""
        self._relation.take(rows, self._assigned(rows), self._selection.passing(rows))
        since, until = self._next, max(self._next, last_report_number(self._window, watermark) + 1)
        if self._emit is Emission.RSTREAM:
            numbers, values = self._reports(since, until)
        else:
            numbers, _, values = self._relation.changes(since, until, self._emit)
        self._next = until
        self._relation.forget(until)
        return table_of([*window_columns(self._window, numbers), *values.columns], self._schema)

    def _assigned(self, rows: Rows) -> Assigned:
        entered = rows.times + self._window.offset_us
        births = np.maximum(report_number(self._window, entered) + 1, self._whole_from)
        if self._window.range_us is None:
            deaths = np.full(len(rows), FOREVER, np.int64)
        else:
            deaths = report_number(self._window, entered + self._window.range_us) + 1
        first, self._sequence = self._sequence, self._sequence + len(rows)
        return Assigned(first, births, deaths, _NONE, _NONE, _NONE)

    def _reports(self, since: int, until: int) -> tuple[Ints, pa.Table]:
        """The rows of all non-empty reports in [since, until), in order of the reports."""
        births, deaths = self._relation.alive.births, self._relation.alive.deaths
        # Each report is counted for its first row only; births and deaths ascend.
        first, after = np.maximum(births, since), np.minimum(deaths, until)
        reached = np.maximum.accumulate(after)
        first[1:] = np.maximum(first[1:], reached[:-1])
        reports = spread(first, np.maximum(after - first, 0))
        begins = np.searchsorted(deaths, reports, side="right")
        ends = np.searchsorted(births, reports, side="right")
        counts = np.maximum(ends - begins, 0)
        return np.repeat(reports, counts), self._relation.values.take(wrapped(spread(begins, counts)))

    def lookup(self, at: int) -> pa.Table:
        """The last report at or before an instant; NotHeldError if it is no longer held or not due yet."""
        number = last_report_number(self._window, at)
        first = FOREVER if self._misses_some else max(self._whole_from, self._relation.alive.held_since)
        if not first <= number < self._next:
            held = "no report is held yet"
            if max(first, NEVER + 1) < self._next:
                end = format_instant(self._window.align_us + (self._next - 1) * (self._window.slide_us or 0))
                held = f"the last report is that of {end}"
            raise NotHeldError(f"the report at {format_instant(at)} is not held", hint=held)
        values = self._relation.at(number)
        numbers = np.full(values.num_rows, number, np.int64)
        return table_of([*window_columns(self._window, numbers), *values.columns], self._schema)

    def snapshot(self) -> dict[str, Any]:
        marks = {"sequence": self._sequence, "next": self._next, "whole_from": self._whole_from}
        return {"relation": self._relation.snapshot(), "misses_some": self._misses_some, **marks}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._relation.restore(snapshot["relation"])
        self._sequence, self._next = snapshot["sequence"], snapshot["next"]
        self._whole_from = snapshot["whole_from"]
        self._misses_some = snapshot.get("misses_some", False)
