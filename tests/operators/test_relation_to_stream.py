"""ISTREAM and DSTREAM between reports, and the restore semantics, by hand and by recomputation."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from panewise.language.statements import Emission
from panewise.operators.continuous.continuous import ContinuousAggregate
from panewise.operators.relation_to_stream import CountedReports, RelationToStream, Restore
from panewise.operators.result_columns import periodic_schema
from panewise.schema import TIMESTAMP
from panewise.temporal import TimeWindow
from tests.operators.timelines import SCHEMA, Query, Row, Values, in_window, multiset, rows_of, table_rows, through_ipc

ITEMS = pa.schema([("v", pa.string()), ("x", pa.float64())])
WINDOW = TimeWindow(25, 10)
NAN = float("nan")
Reported = tuple[int, str | None, float | None]  # window_end, v, x


def reports_of(rows: list[Reported], window: TimeWindow = WINDOW) -> pa.Table:
    """A table of reports from (window_end, v, x)."""
    ends = [end for end, _, _ in rows]
    starts = [None if window.range_us is None else end - window.range_us - window.offset_us for end in ends]
    columns = [pa.array(edges, pa.int64()).cast(TIMESTAMP.to_arrow()) for edges in (starts, ends)]
    values = [pa.array([v for _, v, _ in rows], pa.string()), pa.array([x for _, _, x in rows], pa.float64())]
    return pa.Table.from_arrays([*columns, *values], schema=periodic_schema(ITEMS))


def test_values_are_compared_as_multisets() -> None:
    # 10: a b      20: b b c      30: nothing      40: nothing
    reports = [(10, "a", 1.0), (10, "b", 1.0), (20, "b", 1.0), (20, "b", 1.0), (20, "c", 1.0)]
    new = RelationToStream(Emission.ISTREAM, ITEMS)
    assert table_rows(new.process(reports_of(reports), WINDOW, 45)) == [
        (-15, 10, "a", 1.0),
        (-15, 10, "b", 1.0),
        (-5, 20, "b", 1.0),
        (-5, 20, "c", 1.0),
    ]
    gone = RelationToStream(Emission.DSTREAM, ITEMS)
    assert table_rows(gone.process(reports_of(reports), WINDOW, 25)) == [(-5, 20, "a", 1.0)]
    assert gone.bytes_held > 0
    assert table_rows(gone.process(reports_of([]), WINDOW, 29)) == []
    assert sorted(table_rows(gone.process(reports_of([]), WINDOW, 55))) == [
        (5, 30, "b", 1.0),
        (5, 30, "b", 1.0),
        (5, 30, "c", 1.0),
    ]


def test_null_nan_and_zeros_equal_themselves() -> None:
    first: list[Reported] = [(10, None, NAN), (10, "z", 0.0), (10, "n", None)]
    second: list[Reported] = [(20, None, NAN), (20, "z", -0.0), (20, "n", None), (20, "n", 0.0)]
    new = RelationToStream(Emission.ISTREAM, ITEMS)
    new.process(reports_of(first), WINDOW, 10)
    assert table_rows(new.process(reports_of(second), WINDOW, 20)) == [(-5, 20, "n", 0.0)]


def test_reports_of_count_windows_follow_each_other() -> None:
    # Three reports, the second one empty, all ending at the same instant.
    values = pa.table({"v": ["a", "b", "a"], "x": [1.0, 1.0, 1.0]}, schema=ITEMS)
    reports = CountedReports(7, np.array([1, 2, 3]), np.array([5, 5, 5]), np.array([7, 7, 9]), values)
    assert table_rows(RelationToStream(Emission.ISTREAM, ITEMS).process_counted(reports)) == [
        (1, 5, "a", 1.0),
        (1, 5, "b", 1.0),
        (3, 5, "a", 1.0),
    ]
    assert table_rows(RelationToStream(Emission.DSTREAM, ITEMS).process_counted(reports)) == [
        (2, 5, "a", 1.0),
        (2, 5, "b", 1.0),
    ]


VALUES = st.tuples(st.integers(0, 12), st.sampled_from(["a", "b", None]), st.sampled_from([0.0, -0.0, NAN, None]))


@given(
    st.lists(VALUES, max_size=25),
    st.sampled_from([Emission.ISTREAM, Emission.DSTREAM]),
    st.lists(st.integers(0, 150), max_size=5).map(sorted),
    st.booleans(),
)
def test_differences_are_those_of_recomputation(
    rows: list[Reported], emit: Emission, cuts: list[int], restarts: bool
) -> None:
    rows = sorted(((10 * number, v, x) for number, v, x in rows), key=lambda row: row[0])
    operator = RelationToStream(emit, ITEMS)
    found: list[Values] = []
    done = 0
    for watermark in [*cuts, 160]:
        due = [row for row in rows[done:] if row[0] <= watermark]
        done += len(due)
        if restarts:
            snapshot = through_ipc(operator.snapshot())
            operator = RelationToStream(emit, ITEMS)
            operator.restore(snapshot)
        found += table_rows(operator.process(reports_of(due), WINDOW, watermark))
    expected: Counter[Values] = Counter()
    before: Counter[Values] = Counter()
    for end in range(0, 161, 10):
        now = multiset((v, x) for e, v, x in rows if e == end)
        difference = now - before if emit is Emission.ISTREAM else before - now
        expected.update({(end - 25, end, *values): copies for values, copies in difference.items()})
        before = now
    assert multiset(found) == expected


# RESTORE: SELECT k, COUNT(*) FROM s [RANGE r SLIDE 10] GROUP BY k

QUERY = Query(["k"], [("COUNT", None)])


def restored(
    rows: list[Row], range_us: int, emit: Emission, watermarks: list[int], restarts: bool = False
) -> list[Values]:
    window = TimeWindow(range_us, 10)

    def make() -> tuple[ContinuousAggregate, Restore]:
        continuous = ContinuousAggregate(QUERY.aggregation(), TimeWindow(range_us), None, Emission.ISTREAM, SCHEMA)
        return continuous, Restore(emit, QUERY.aggregation().item_schema, window)

    continuous, restore = make()
    found: list[Values] = []
    done, reported = 0, -10
    for watermark in watermarks:
        due = [row for row in rows[done:] if row[0] < watermark]
        if restarts:
            snapshots = through_ipc(continuous.snapshot()), through_ipc(restore.snapshot())
            continuous, restore = make()
            continuous.restore(snapshots[0])
            restore.restore(snapshots[1])
        insertions = continuous.process(rows_of(due, done), watermark)
        done += len(due)
        reports = []
        while reported + 10 <= watermark:
            reported += 10
            reports += [
                (reported - range_us, reported, *values)
                for values in QUERY.answer(in_window(TimeWindow(range_us), rows, reported - 1))
            ]
        columns = list(zip(*reports, strict=True)) if reports else [()] * 4
        schema = periodic_schema(QUERY.aggregation().item_schema)
        arrays = [pa.array(list(values), field.type) for values, field in zip(columns, schema, strict=True)]
        table = pa.Table.from_arrays(arrays, schema=schema)
        found += table_rows(restore.process(table, insertions, watermark))
    return found


def test_short_lived_results_are_restored() -> None:
    # ts         1    3  4       10        RANGE 5
    # a          |====|===)                COUNT 1 at 1, 2 at 3, 1 at 6; gone at 8
    # b               |  |==               COUNT 1 from 7 to 12: the only one that the report at 10 shows
    rows: list[Row] = [(1, "a", None, 1, None), (3, "a", None, 1, None), (7, "b", None, 1, None)]
    assert restored(rows, 5, Emission.ISTREAM, [20]) == [
        (5, 10, "a", 1),
        (5, 10, "a", 2),
        (5, 10, "a", 1),
        (5, 10, "b", 1),
    ]
    assert restored(rows, 5, Emission.RSTREAM, [9, 11, 20]) == [
        (5, 10, "b", 1),
        (5, 10, "a", 1),
        (5, 10, "a", 2),
        (5, 10, "a", 1),
    ]


@given(
    st.lists(st.tuples(st.integers(0, 60), st.sampled_from("ab")), max_size=15).map(sorted),
    st.integers(1, 25),
    st.sampled_from([Emission.ISTREAM, Emission.RSTREAM]),
    st.lists(st.integers(0, 100), max_size=5).map(sorted),
    st.booleans(),
)
def test_restored_results_are_those_of_recomputation(
    points: list[tuple[int, str]], range_us: int, emit: Emission, cuts: list[int], restarts: bool
) -> None:
    rows: list[Row] = [(t, k, None, 1, None) for t, k in points]
    window = TimeWindow(range_us)
    expected: Counter[Values] = Counter()
    before: Counter[Values] = Counter()
    report: Counter[Values] = Counter()
    produced: Counter[Values] = Counter()
    for t in range(121):
        if t % 10 == 0:
            shown = before + (produced - (before - report)) if emit is Emission.RSTREAM else produced
            expected.update({(t - range_us, t, *values): copies for values, copies in shown.items()})
            report, produced = before, Counter()
        now = multiset(QUERY.answer(in_window(window, rows, t)))
        produced += now - before
        before = now
    assert multiset(restored(rows, range_us, emit, [*cuts, 120], restarts)) == expected
