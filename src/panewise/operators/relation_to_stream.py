"""From reports to streams: ISTREAM and DSTREAM of successive reports, and the RESTORE semantics.

A report is a multiset of the selected values; the window columns are not compared. The report at e is compared with the
previous one, at e - slide. A report without rows counts too:

    report      1: {a, b}     2: {b, b, c}     3: {}
    ISTREAM     a, b          b, c
    DSTREAM                   a                b, b, c

RESTORE (Golab 2006, section 3.3.4) adds the results that a continuous evaluation would have produced between two
reports but that are no longer in the second one. Only the rows of the last report are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import wrapped
from panewise.arrays import INT64_MAX, Ints
from panewise.language.statements import Emission
from panewise.operators.lifetimes import NEVER
from panewise.operators.multiset import remaining
from panewise.operators.relation_rows import wanted
from panewise.operators.result_columns import (
    INSTANT,
    WINDOW_END,
    microseconds,
    no_timestamps,
    periodic_schema,
    table_of,
    timestamps,
)
from panewise.temporal import TimeWindow


@dataclass(frozen=True)
class CountedReports:
    """Reports of a count window, numbered from `first`: the windows, and all rows with the numbers of their reports."""

    first: int
    starts: Ints
    ends: Ints
    numbers: Ints
    values: pa.Table


def report_number(window: TimeWindow, instants: Ints) -> Ints:
    """The number of the last report at or before each instant, counted from the window's alignment."""
    assert window.slide_us is not None
    result: Ints = (instants - window.align_us) // window.slide_us
    return result


def last_report_number(window: TimeWindow, watermark: int) -> int:
    """The number of the last report at or before the watermark, which may be any integer."""
    assert window.slide_us is not None
    return (watermark - window.align_us) // window.slide_us


def window_columns(window: TimeWindow, numbers: Ints) -> list[pa.Array]:
    """`window_start` and `window_end` of reports; an unbounded window has no start."""
    assert window.slide_us is not None
    ends = window.align_us + numbers * window.slide_us
    if window.range_us is None:
        return [no_timestamps(len(ends)), timestamps(ends)]
    return [timestamps(ends - (window.range_us + window.offset_us)), timestamps(ends)]


class RelationToStream:
    """The rows that are new in each report, or missing from it, compared with the previous one.

    `items` is the schema of the selected values.
    """

    def __init__(self, emit: Emission, items: pa.Schema) -> None:
        assert emit in (Emission.ISTREAM, Emission.DSTREAM)
        self._emit = emit
        self._items = items
        self._schema = periodic_schema(items)
        self._last = items.empty_table()
        self._last_number = 0

    @property
    def bytes_held(self) -> int:
        return int(self._last.nbytes)

    def process(self, reports: pa.Table, window: TimeWindow, watermark: int) -> pa.Table:
        """The results for all reports of a periodic time window up to the watermark, in order of `window_end`."""
        numbers = report_number(window, microseconds(reports.column(WINDOW_END)))
        last = last_report_number(window, watermark)
        found, values = self._differences(numbers, reports.select(self._items.names), last)
        return table_of([*window_columns(window, found), *values.columns], self._schema)

    def process_counted(self, reports: CountedReports) -> pa.Table:
        """The results for the next reports of a count window."""
        if not len(reports.ends):
            return self._schema.empty_table()
        upto = reports.first + len(reports.ends) - 1
        found, values = self._differences(reports.numbers, reports.values, upto)
        edges = [timestamps(edge[found - reports.first]) for edge in (reports.starts, reports.ends)]
        return table_of([*edges, *values.columns], self._schema)

    def _differences(self, numbers: Ints, values: pa.Table, upto: int) -> tuple[Ints, pa.Table]:
        """Every row comes in its report and leaves in the next one; equal rows that leave and come cancel."""
        held = self._last.num_rows
        both = pa.concat_tables([self._last, values.cast(self._items)]).combine_chunks()
        shown = np.concatenate([np.full(held, self._last_number, np.int64), numbers])
        came = np.arange(held, len(shown))
        lost = np.flatnonzero(shown < upto)
        rows = np.concatenate([lost, came])
        points = np.concatenate([shown[lost] + 1, shown[came]])
        signs = np.ones(len(rows), np.int64)
        signs[: len(lost)] = -1
        taken = wrapped(rows)
        kept = remaining(points, signs, [column.take(taken) for column in both.columns])
        chosen = np.flatnonzero(kept & wanted(self._emit, signs))
        chosen = chosen[np.argsort(points[chosen], kind="stable")]
        stays = shown >= upto
        self._last = both.filter(wrapped(stays)).combine_chunks()
        if stays.any():
            self._last_number = int(shown[stays][0])
        return points[chosen], both.take(wrapped(rows[chosen]))

    def snapshot(self) -> dict[str, Any]:
        return {"last": self._last, "last_number": self._last_number}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._last, self._last_number = snapshot["last"], snapshot["last_number"]


_UNTIL_A_REPORT = INT64_MAX  # in place of the number of a report that is not known yet


class Restore:
    """ISTREAM RESTORE and RSTREAM RESTORE of a periodic time window.

    Beside the periodic query, the host runs a continuous ISTREAM query with the same window without SLIDE. Its
    insertions at instants in [e - slide, e) belong to the report at e.

        ISTREAM RESTORE at e = all these insertions
        RSTREAM RESTORE at e = the report at e, and the insertions that ISTREAM at e does not show: short-lived results

    `begins`: for a query created in mid-stream, the first instant at which its window is whole. The continuous query
    shows all rows that are there then as insertions. The first whole report therefore does not know which rows are new,
    and the report after it is the first one emitted. `is_total`: an aggregate without groups reports empty windows from
    the first window with a row on. Whether there has been one is unknown, so that it begins after its own first report.
    """

    def __init__(
        self, emit: Emission, items: pa.Schema, window: TimeWindow, begins: int = NEVER, is_total: bool = False
    ) -> None:
        assert emit in (Emission.ISTREAM, Emission.RSTREAM)
        self._emit = emit
        self._window = window
        # Reports up to this number are not emitted.
        self._skipped = NEVER if begins == NEVER else last_report_number(window, begins) + 1
        if begins != NEVER and is_total and emit is Emission.RSTREAM:
            self._skipped = _UNTIL_A_REPORT
        self._schema = periodic_schema(items)
        self._pending = items.empty_table()  # insertions after the last report
        self._pending_numbers: Ints = np.empty(0, np.int64)
        self._newcomers = RelationToStream(Emission.ISTREAM, items)

    @property
    def bytes_held(self) -> int:
        return int(self._pending.nbytes) + self._pending_numbers.nbytes + self._newcomers.bytes_held

    def process(self, reports: pa.Table, insertions: pa.Table, watermark: int) -> pa.Table:
        """The results up to the watermark, from the due reports and the insertions of the continuous query."""
        produced = self._due(insertions, watermark)
        if self._skipped == _UNTIL_A_REPORT and reports.num_rows:
            self._skipped = int(report_number(self._window, microseconds(reports.column(WINDOW_END)[:1]))[0])
        if self._emit is Emission.ISTREAM:
            return self._emitted(produced)
        newcomers = self._newcomers.process(reports, self._window, watermark)
        both = pa.concat_tables([newcomers, produced]).combine_chunks()
        signs = np.ones(both.num_rows, np.int64)
        signs[: newcomers.num_rows] = -1
        ends = microseconds(both.column(WINDOW_END))
        short_lived = remaining(ends, signs, both.columns[2:]) & (signs > 0)
        shown = pa.concat_tables([reports.cast(self._schema), both.filter(wrapped(short_lived))])
        order = np.argsort(microseconds(shown.column(WINDOW_END)), kind="stable")
        return self._emitted(shown.take(wrapped(order)).combine_chunks())

    def _emitted(self, table: pa.Table) -> pa.Table:
        if self._skipped == NEVER or not table.num_rows:
            return table
        ends = microseconds(table.column(WINDOW_END))
        return table.filter(wrapped(report_number(self._window, ends) > self._skipped)).combine_chunks()

    def _due(self, insertions: pa.Table, watermark: int) -> pa.Table:
        """The insertions that belong to reports up to the watermark, with their windows; the others stay pending."""
        instants = microseconds(insertions.column(INSTANT))
        names = self._pending.schema.names
        values = pa.concat_tables([self._pending, insertions.select(names).cast(self._pending.schema)])
        numbers = np.concatenate([self._pending_numbers, report_number(self._window, instants) + 1])
        due = int(np.count_nonzero(numbers <= last_report_number(self._window, watermark)))
        self._pending = values.slice(due).combine_chunks()
        self._pending_numbers = numbers[due:].copy()
        columns = [*window_columns(self._window, numbers[:due]), *values.slice(0, due).combine_chunks().columns]
        return table_of(columns, self._schema)

    def snapshot(self) -> dict[str, Any]:
        return {
            "unsaid": self._skipped,
            "pending": self._pending,
            "pending_numbers": self._pending_numbers.copy(),
            "newcomers": self._newcomers.snapshot(),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._skipped = snapshot.get("unsaid", NEVER)
        self._pending = snapshot["pending"]
        self._pending_numbers = snapshot["pending_numbers"]
        self._newcomers.restore(snapshot["newcomers"])
