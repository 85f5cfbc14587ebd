"""Periodic queries without aggregates over time and count windows, and aggregates over partitioned count windows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.aggregates.overflows import Overflows
from panewise.errors import NotHeldError
from panewise.language.statements import Emission, SelectItem
from panewise.operators.partition_tail import RowCounts
from panewise.operators.row_windows.counted_reports import CountedRowWindow
from panewise.operators.row_windows.partitioned_rows import PartitionedRows
from panewise.operators.row_windows.row_window import RowWindow
from panewise.temporal import RowsWindow, TimeWindow
from tests.operators.timelines import (
    POSITIVE,
    SCHEMA,
    K,
    N,
    Query,
    Row,
    Values,
    multiset,
    partition_of,
    passes,
    rows_of,
    table_rows,
    through_ipc,
)

ITEMS = (SelectItem("n", N), SelectItem("k", K))
Operator = RowWindow | CountedRowWindow | PartitionedRows
Report = tuple[int | None, int, list[Values]]  # start, end, values


def rows_operator(window: Any, where: bool, emit: Emission, held_from: int | None = None) -> Operator:
    condition = POSITIVE if where else None
    if isinstance(window, TimeWindow):
        return RowWindow(ITEMS, window, condition, emit, SCHEMA, held_from)
    return CountedRowWindow(ITEMS, window, condition, emit, SCHEMA, held_from)


def run(make: Callable[[], Operator], rows: list[Row], watermarks: list[int], restarts: bool = False) -> list[Values]:
    operator = make()
    found: list[Values] = []
    done = 0
    for watermark in watermarks:
        due = [row for row in rows[done:] if row[0] < watermark]
        if restarts:
            snapshot = through_ipc(operator.snapshot())
            operator = make()
            operator.restore(snapshot)
        found += table_rows(operator.process(rows_of(due, done), watermark))
        done += len(due)
    return found


def shown(reports: list[Report], emit: Emission) -> list[Counter[Values]]:
    """Per report, the result rows."""
    found = []
    before: Counter[Values] = Counter()
    for start, end, values in reports:
        now = multiset(values)
        rows = {Emission.RSTREAM: now, Emission.ISTREAM: now - before, Emission.DSTREAM: before - now}[emit]
        found.append(Counter({(start, end, *row): copies for row, copies in rows.items()}))
        before = now
    return found


def time_reports(window: TimeWindow, rows: list[Row], where: bool, watermark: int) -> list[Report]:
    assert window.slide_us is not None
    found: list[Report] = []
    first = -200 - (-200 - window.align_us) % window.slide_us
    for end in range(first, watermark + 1, window.slide_us):
        start = None if window.range_us is None else end - window.offset_us - window.range_us
        inside = [r for r in rows if (start is None or start <= r[0]) and r[0] < end - window.offset_us]
        found.append((start, end, [(r[3], r[1]) for r in inside if passes(r, where)]))
    return found


def count_reports(window: RowsWindow, rows: list[Row], answer: Callable[[list[Row]], list[Values]]) -> list[Report]:
    assert window.slide is not None
    found: list[Report] = []
    seen: dict[Values, list[Row]] = {}
    for row in rows:
        own = seen.setdefault(partition_of(window, row), [])
        own.append(row)
        end = len(own) - window.offset
        if len(own) % window.slide == 0 and end > 0:
            inside = own[max(0, end - window.rows) : end]
            found.append((inside[0][0], inside[-1][0], answer(inside)))
    return found


def test_reports_of_a_time_window() -> None:
    # ts       1    4      9       RANGE 6 SLIDE 4: reports at 4 (from -2), 8 (from 2), 12 (from 6), 16 (from 10)
    rows: list[Row] = [(1, "a", None, 1, None), (4, "b", None, 2, None), (9, "c", None, 3, None)]
    window = TimeWindow(6, 4)
    found = run(lambda: rows_operator(window, False, Emission.RSTREAM), rows, [4, 5, 100])
    assert found == [(-2, 4, 1, "a"), (2, 8, 2, "b"), (6, 12, 3, "c")]
    assert run(lambda: rows_operator(window, False, Emission.DSTREAM), rows, [100]) == [
        (2, 8, 1, "a"),
        (6, 12, 2, "b"),
        (10, 16, 3, "c"),
    ]


def test_a_slide_longer_than_the_range_skips_rows() -> None:
    rows: list[Row] = [(t, "a", None, t, None) for t in (1, 8, 11, 19)]
    found = run(lambda: rows_operator(TimeWindow(3, 10), False, Emission.ISTREAM), rows, [100])
    assert found == [(7, 10, 8, "a"), (17, 20, 19, "a")]


def test_a_gap_costs_nothing() -> None:
    rows: list[Row] = [(0, "a", None, 1, None), (10**17, "a", None, 2, None)]
    found = run(lambda: rows_operator(TimeWindow(2, 1), False, Emission.RSTREAM), rows, [10**17 + 100])
    assert [row[1] for row in found] == [1, 2, 10**17 + 1, 10**17 + 2]


def test_mid_stream_reports_begin_with_the_first_whole_window() -> None:
    rows: list[Row] = [(t, "a", None, t, None) for t in (11, 15)]
    found = run(lambda: rows_operator(TimeWindow(10, 4), False, Emission.RSTREAM, held_from=10), rows, [20, 100])
    assert sorted({row[:2] for row in found}) == [(10, 20), (14, 24)]


def test_lookups_of_time_windows() -> None:
    operator = rows_operator(TimeWindow(6, 4), False, Emission.ISTREAM)
    with pytest.raises(NotHeldError, match="no report is held yet"):
        operator.lookup(0)
    operator.process(rows_of([(1, "a", None, 1, None), (4, "b", None, 2, None)]), 9)
    assert table_rows(operator.lookup(9)) == [(2, 8, 2, "b")]
    with pytest.raises(NotHeldError, match=r"00:00:00\.000008"):
        operator.lookup(7)
    with pytest.raises(NotHeldError):
        operator.lookup(12)


def test_reports_of_a_count_window() -> None:
    rows: list[Row] = [(t * 10, "a", None, t, None) for t in range(1, 7)]
    found = run(lambda: rows_operator(RowsWindow(3, 2), False, Emission.RSTREAM), rows, [25, 1000])
    assert [row[:3] for row in found] == [
        (10, 20, 1), (10, 20, 2), (20, 40, 2), (20, 40, 3), (20, 40, 4), (40, 60, 4), (40, 60, 5), (40, 60, 6),
    ]  # fmt: skip
    found = run(lambda: rows_operator(RowsWindow(3, 2, offset=1), False, Emission.ISTREAM), rows, [25, 1000])
    assert [row[:3] for row in found] == [(10, 10, 1), (10, 30, 2), (10, 30, 3), (30, 50, 4), (30, 50, 5)]


def test_partitions_report_by_themselves() -> None:
    rows: list[Row] = [(t, k, None, t, None) for t, k in enumerate("abaabb")]
    query = Query([], [("COUNT", None), ("SUM", "n")])
    window = RowsWindow(2, 2, partition_by=("k",))
    operator = PartitionedRows(query.aggregation(), window, None, Emission.RSTREAM, SCHEMA)
    # a at 0, 2, 3; b at 1, 4, 5
    assert table_rows(operator.process(rows_of(rows), 100)) == [(0, 2, 2, 2), (1, 4, 2, 5)]
    assert table_rows(operator.lookup(4)) == [(1, 4, 2, 5)]
    with pytest.raises(NotHeldError, match="ends at"):
        operator.lookup(3)


def test_reports_that_overflow_are_null() -> None:
    rows: list[Row] = [(t, "a", None, 2**62, None) for t in range(5)]
    window = RowsWindow(3, 1, partition_by=("k",))
    operator = PartitionedRows(Query([], [("SUM", "n")]).aggregation(), window, None, Emission.RSTREAM, SCHEMA)
    with Overflows() as found:
        shown = table_rows(operator.process(rows_of(rows), 100))
    assert shown == [(0, 0, 2**62), *((max(0, t - 2), t, None) for t in range(1, 5))]
    assert found.count == 4


def test_mid_stream_partitions_report_once_full() -> None:
    """Of `a` two rows have gone by, of `b` one, of `c` none: reports are numbered from the first row on."""
    rows: list[Row] = [(t, "abc"[t % 3], None, t, None) for t in range(12)]
    window = RowsWindow(3, 2, partition_by=("k",))
    operator = PartitionedRows(Query(["k"], [("SUM", "n")]).aggregation(), window, None, Emission.RSTREAM, SCHEMA, 0)
    operator.begin_after(RowCounts([pa.array(["b", "a"])], np.array([1, 2])))
    found = table_rows(operator.process(rows_of(rows), 100))
    assert found == [(2, 5, "c", 7), (1, 7, "b", 12), (3, 9, "a", 18), (5, 11, "c", 24)]


def test_rows_that_were_not_all_seen_are_counted() -> None:
    """Rows before 4 may lie between others that the query has not seen."""
    rows: list[Row] = [(t, "a", None, t, None) for t in range(10)]
    window = RowsWindow(2, 3, partition_by=("k",))
    operator = PartitionedRows(Query(["k"], [("SUM", "n")]).aggregation(), window, None, Emission.RSTREAM, SCHEMA, 4)
    operator.begin_after(RowCounts([pa.array(["a"])], np.array([1])))
    assert table_rows(operator.process(rows_of(rows[:3]), 3)) == []
    assert table_rows(operator.process(rows_of(rows[3:]), 100)) == [(6, 7, "a", 13)]


LETTERS = st.sampled_from(["a", "b", None])
STREAMS = st.lists(
    st.tuples(st.integers(-20, 40), LETTERS, LETTERS, st.one_of(st.none(), st.integers(-2, 3)), st.just(0.5)),
    max_size=30,
).map(lambda rows: sorted(rows, key=lambda row: row[0]))
TIME_WINDOWS = st.builds(
    TimeWindow,
    st.one_of(st.none(), st.integers(1, 12)),
    slide_us=st.integers(1, 15),
    offset_us=st.sampled_from([0, 0, 1, 7]),
    align_us=st.sampled_from([0, 3, -5]),
)
COUNT_WINDOWS = st.builds(
    RowsWindow,
    st.integers(1, 4),
    slide=st.integers(1, 5),
    offset=st.sampled_from([0, 0, 1, 3]),
    partition_by=st.sampled_from([(), ("k",), ("k", "g")]),
)
EMITS = st.sampled_from([Emission.RSTREAM, Emission.ISTREAM, Emission.DSTREAM])
CUTS = st.lists(st.integers(-20, 60), max_size=6).map(sorted)


@given(STREAMS, TIME_WINDOWS, EMITS, st.booleans(), CUTS, st.booleans())
def test_time_windows_are_those_of_recomputation(
    rows: list[Row], window: TimeWindow, emit: Emission, where: bool, cuts: list[int], restarts: bool
) -> None:
    found = run(lambda: rows_operator(window, where, emit), rows, [*cuts, 70], restarts)
    assert multiset(found) == sum(shown(time_reports(window, rows, where, 70), emit), Counter())
    assert [row[1] for row in found] == sorted(row[1] for row in found)


@given(STREAMS, COUNT_WINDOWS, EMITS, st.booleans(), CUTS, st.booleans())
def test_count_windows_are_those_of_recomputation(
    rows: list[Row], window: RowsWindow, emit: Emission, where: bool, cuts: list[int], restarts: bool
) -> None:
    found = run(lambda: rows_operator(window, where, emit), rows, [*cuts, 70], restarts)
    reports = count_reports(window, rows, lambda inside: [(r[3], r[1]) for r in inside if passes(r, where)])
    assert multiset(found) == sum(shown(reports, emit), Counter())


@given(
    STREAMS,
    COUNT_WINDOWS,
    EMITS,
    st.booleans(),
    CUTS,
    st.booleans(),
    st.sampled_from(
        [
            Query([], [("COUNT", None), ("SUM", "n"), ("LAST", "k")]),
            Query(["g"], [("COUNT", None), ("MAX", "n"), ("SUM", "x")]),
            Query(["g", "k"], [("COUNT", None)], shown=False),
            Query(["g"], [("COUNT", None), ("FIRST", "n")]).with_having(),
        ]
    ),
)
def test_partitioned_aggregates_are_those_of_recomputation(
    rows: list[Row], window: RowsWindow, emit: Emission, where: bool, cuts: list[int], restarts: bool, query: Query
) -> None:
    condition = POSITIVE if where else None

    def make() -> Operator:
        return PartitionedRows(query.aggregation(), window, condition, emit, SCHEMA)

    found = run(make, rows, [*cuts, 70], restarts)
    reports = count_reports(window, rows, lambda inside: query.answer([r for r in inside if passes(r, where)]))
    assert multiset(found) == sum(shown(reports, emit), Counter())
