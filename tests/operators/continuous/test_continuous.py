"""Continuous queries against hand-worked timelines and against recomputing the relation at every change instant."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.aggregates.overflows import Overflows
from panewise.aggregates.user import matrix_of, user_aggregate
from panewise.errors import NotHeldError
from panewise.language.expressions import ColumnRef
from panewise.language.statements import Emission, SelectItem
from panewise.operators.continuous.continuous import ContinuousAggregate, ContinuousRows
from panewise.plan.aggregation import Aggregation
from panewise.schema import DOUBLE
from panewise.temporal import RowsWindow, TimeWindow, Window
from tests.operators.timelines import (
    POSITIVE,
    SCHEMA,
    K,
    N,
    Query,
    Row,
    Values,
    X,
    identity,
    in_window,
    multiset,
    passes,
    rows_of,
    table_rows,
    through_ipc,
)

COUNTED = Query(["k"], [("COUNT", None), ("SUM", "n"), ("MAX", "x"), ("MIN", "g")])
WHOLE = Query([], [("COUNT", None), ("SUM", "n"), ("MIN", "x"), ("LAST", "k"), ("AVG", "x")])
HIDDEN = Query(["k"], [("COUNT", None)], shown=False)
MANY = Query(["k"], [("COUNT", None), ("FIRST", "x")]).with_having()
PAIRS = Query(["k", "g"], [("COUNT", None), ("SUM", "x")])


class Plain:
    """SELECT n, k: a query without aggregates."""

    def answer(self, rows: list[Row]) -> list[Values]:
        return [(row[3], row[1]) for row in rows]


PLAIN = Plain()
Operator = ContinuousAggregate | ContinuousRows


def operator_of(
    query: Query | Plain,
    window: Window,
    where: bool,
    emit: Emission,
    held_from: int | None = None,
    silent: bool = False,
) -> Operator:
    condition = POSITIVE if where else None
    if isinstance(query, Plain):
        items = (SelectItem("n", N), SelectItem("k", K))
        return ContinuousRows(items, window, condition, emit, SCHEMA, held_from, silent)
    return ContinuousAggregate(query.aggregation(), window, condition, emit, SCHEMA, held_from, silent)


def run(make: Callable[[], Operator], rows: list[Row], watermarks: list[int], restarts: bool = False) -> list[Values]:
    """All results, with one call for each watermark; `restarts`: through a snapshot before each."""
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


def instants_of(window: Window, rows: list[Row], watermark: int) -> list[int]:
    found = {row[0] for row in rows}
    if isinstance(window, TimeWindow):
        found = {ts + window.offset_us for ts in found}
        if window.range_us is not None:
            found |= {ts + window.range_us for ts in found}
    return sorted(t for t in found if t < watermark)


def expected(
    query: Any, window: Window, where: bool, emit: Emission, rows: list[Row], watermark: int
) -> Counter[Values]:
    """The results as a multiset of (instant, [change,] values)."""
    found: Counter[Values] = Counter()
    before: Counter[Values] = Counter()
    started = False
    for t in instants_of(window, rows, watermark):
        inside = in_window(window, rows, t)
        started = started or bool(inside)
        now = multiset(query.answer([row for row in inside if passes(row, where)])) if started else Counter()
        for values, copies in (before - now).items():
            if emit is Emission.CHANGES:
                found[t, -1, *values] += copies
            elif emit is Emission.DSTREAM:
                found[t, *values] += copies
        for values, copies in (now - before).items():
            if emit is Emission.CHANGES:
                found[t, 1, *values] += copies
            elif emit is Emission.ISTREAM:
                found[t, *values] += copies
        before = now
    return found


def test_range_grouped() -> None:
    # ts      0    2         5         9   10       RANGE 5
    # a       |=========)                           COUNT 1 from 0 to 5
    # a            |=============)                  2 from 2 to 5, 1 from 5 to 7
    rows: list[Row] = [(0, "a", None, 1, None), (2, "a", None, 2, None)]
    query = Query(["k"], [("COUNT", None), ("SUM", "n")])
    found = run(lambda: operator_of(query, TimeWindow(5), False, Emission.CHANGES), rows, [100])
    assert found == [
        (0, 1, "a", 1, 1),
        (2, -1, "a", 1, 1),
        (2, 1, "a", 2, 3),
        (5, -1, "a", 2, 3),
        (5, 1, "a", 1, 2),
        (7, -1, "a", 1, 2),
    ]


def test_ungrouped_stays_when_empty() -> None:
    rows: list[Row] = [(3, "a", None, -1, None), (4, "a", None, 2, None)]
    query = Query([], [("COUNT", None), ("MAX", "n")])
    found = run(lambda: operator_of(query, TimeWindow(10), True, Emission.CHANGES), rows, [100])
    # The row at 3 does not pass WHERE, but the stream has begun.
    assert found == [(3, 1, 0, None), (4, -1, 0, None), (4, 1, 1, 2), (14, -1, 1, 2), (14, 1, 0, None)]


def test_equal_answers_of_two_groups_cancel() -> None:
    # b leaves with COUNT 1 just when a comes with COUNT 1.
    rows: list[Row] = [(0, "b", None, 1, None), (5, "a", None, 1, None)]
    found = run(lambda: operator_of(HIDDEN, TimeWindow(5), False, Emission.CHANGES), rows, [100])
    assert found == [(0, 1, 1), (10, -1, 1)]


def test_rows_of_one_instant_apply_together() -> None:
    # [ROWS 1]: at 7 three rows come, only the last one shows.
    rows: list[Row] = [(t, k, None, n, None) for t, k, n in ((7, "a", 1), (7, "b", 2), (7, "c", 3), (8, "c", 3))]
    found = run(lambda: operator_of(PLAIN, RowsWindow(1), False, Emission.CHANGES), rows, [100])
    assert found == [(7, 1, 3, "c")]


def test_historical_rows() -> None:
    # row     1   2   3   4        [ROWS 2 OFFSET 1]: row 1 shows from row 2 on and until row 4 comes
    rows: list[Row] = [(t, "a", None, t, None) for t in (1, 2, 3, 4)]
    found = run(lambda: operator_of(PLAIN, RowsWindow(2, offset=1), False, Emission.CHANGES), rows, [100])
    assert found == [(2, 1, 1, "a"), (3, 1, 2, "a"), (4, -1, 1, "a"), (4, 1, 3, "a")]


@pytest.mark.parametrize("query", [COUNTED, PLAIN])
def test_now_lasts_one_microsecond(query: Any) -> None:
    rows: list[Row] = [(5, "a", "g", 1, 2.0)]
    found = run(lambda: operator_of(query, TimeWindow(1), False, Emission.CHANGES), rows, [6, 7])
    assert [row[:2] for row in found] == [(5, 1), (6, -1)]


def test_infinities_and_nan_leave_with_their_rows() -> None:
    rows: list[Row] = [
        (0, "a", None, 1, float("inf")),
        (1, "a", None, 1, float("-inf")),
        (2, "a", None, 1, float("nan")),
        (3, "a", None, 1, 1.5),
    ]
    query = Query([], [("SUM", "x"), ("MAX", "x"), ("MIN", "x")])
    found = run(lambda: operator_of(query, TimeWindow(3), False, Emission.ISTREAM), rows, [100])
    assert [tuple(map(identity, row)) for row in found] == [
        (0, float("inf"), float("inf"), float("inf")),
        (1, "NaN", float("inf"), float("-inf")),
        (2, "NaN", "NaN", float("-inf")),
        (4, "NaN", "NaN", 1.5),
        (5, 1.5, 1.5, 1.5),
        (6, None, None, None),
    ]


def test_a_large_value_leaves_no_trace_in_a_sum() -> None:
    rows: list[Row] = [(0, "a", None, 1, 1e18)] + [(t, "a", None, 1, 0.1) for t in range(1, 1000)]
    query = Query([], [("SUM", "x")])
    found = run(lambda: operator_of(query, TimeWindow(50), False, Emission.ISTREAM), rows, [17, 300, 10_000])
    sums = dict(found)
    # From 50 on the window is full of 0.1 and nothing changes until rows stop coming at 1000.
    assert [t for t in sums if 50 <= t < 1000] == [50]
    assert sums[50] == pytest.approx(5.0, abs=5e-12)
    assert sums[1030] == pytest.approx(1.9, abs=2e-12)


def test_a_sum_that_overflows_is_null_until_its_rows_have_left() -> None:
    most = 2**63 - 1
    rows: list[Row] = [
        (1, "a", None, most, None),
        (2, "b", None, 1, None),
        (3, "a", None, 1, None),
        (3, "b", None, 2, None),
    ]
    operator = operator_of(Query(["k"], [("SUM", "n")]), TimeWindow(10), False, Emission.CHANGES)
    with Overflows() as found:
        changes = table_rows(operator.process(rows_of(rows), 12))
    assert changes[:2] == [(1, 1, "a", most), (2, 1, "b", 1)]
    assert sorted(changes[2:6], key=repr) == sorted(
        [(3, -1, "a", most), (3, 1, "a", None), (3, -1, "b", 1), (3, 1, "b", 3)], key=repr
    )
    assert changes[6:] == [(11, -1, "a", None), (11, 1, "a", 1)]
    assert found.count > 0


# Queries that come in mid-stream


def test_a_time_window_waits_until_it_is_whole() -> None:
    # held from 10, RANGE 5: the first whole window covers [10, 14], at instant 14
    rows: list[Row] = [(10, "a", None, 1, None), (12, "a", None, 1, None), (15, "b", None, 1, None)]
    query = Query(["k"], [("COUNT", None)])
    found = run(
        lambda: operator_of(query, TimeWindow(5), False, Emission.CHANGES, held_from=10), rows, [11, 13, 16, 30]
    )
    assert found == [
        (14, 1, "a", 2),
        (15, -1, "a", 2),
        (15, 1, "a", 1),
        (15, 1, "b", 1),
        (17, -1, "a", 1),
        (20, -1, "b", 1),
    ]


def test_an_ungrouped_time_window_appears_whole_and_empty() -> None:
    query = Query([], [("COUNT", None)])
    found = run(lambda: operator_of(query, TimeWindow(5), False, Emission.CHANGES, held_from=10), [], [12, 40])
    assert found == [(14, 1, 0)]


def test_a_count_window_waits_for_its_rows() -> None:
    rows: list[Row] = [(t, "a" if t % 2 else "b", None, t, None) for t in range(1, 8)]
    found = run(lambda: operator_of(PLAIN, RowsWindow(3), False, Emission.CHANGES, held_from=0), rows, [3, 100])
    assert found[:4] == [(3, 1, 1, "a"), (3, 1, 2, "b"), (3, 1, 3, "a"), (4, -1, 1, "a")]
    parted = RowsWindow(3, partition_by=("k",))
    found = run(lambda: operator_of(PLAIN, parted, False, Emission.ISTREAM, held_from=0), rows, [3, 100])
    assert found == [(5, 1, "a"), (5, 3, "a"), (5, 5, "a"), (6, 2, "b"), (6, 4, "b"), (6, 6, "b"), (7, 7, "a")]


def test_unbounded_counts_from_its_registration() -> None:
    rows: list[Row] = [(50, "a", None, 1, None)]
    query = Query([], [("COUNT", None)])
    found = run(lambda: operator_of(query, TimeWindow(None), False, Emission.CHANGES, held_from=40), rows, [100])
    assert found == [(50, 1, 1)]


# Lookups


@pytest.mark.parametrize("silent", [False, True])
def test_lookups_say_what_is_held(silent: bool) -> None:
    rows: list[Row] = [(0, "a", None, 1, None), (4, "b", None, 2, None)]
    query = Query(["k"], [("COUNT", None)])
    operator = operator_of(query, TimeWindow(10), False, Emission.CHANGES, silent=silent)
    with pytest.raises(NotHeldError, match="when its window is whole"):
        operator.lookup(3)
    operator.process(rows_of(rows), 9)
    assert table_rows(operator.lookup(8)) == [("a", 1), ("b", 1)]
    assert table_rows(operator.lookup(3)) == [("a", 1)]
    assert table_rows(operator.lookup(-5)) == []
    with pytest.raises(NotHeldError, match=r"00:00:00\.000008"):
        operator.lookup(9)
    operator.process(rows_of([]), 12)
    assert table_rows(operator.lookup(11)) == [("b", 1)]
    with pytest.raises(NotHeldError, match=r"from 1970-01-01 00:00:00\.000010 to"):
        operator.lookup(9)


def test_a_filter_over_an_unbounded_window_holds_nothing() -> None:
    operator = operator_of(PLAIN, TimeWindow(None), True, Emission.ISTREAM)
    operator.process(rows_of([(t, "a", None, 1, None) for t in range(1000)]), 500)
    operator.process(rows_of([(t, "a", None, 1, None) for t in range(500, 1000)]), 2000)
    assert operator.bytes_held < 1000
    with pytest.raises(NotHeldError, match="unbounded"):
        operator.lookup(1999)


def test_an_unbounded_aggregate_holds_groups_not_rows() -> None:
    operator = operator_of(COUNTED, TimeWindow(None), False, Emission.ISTREAM)
    empty = operator.bytes_held
    operator.process(rows_of([(t, "ab"[t % 2], "g", 1, 1.0) for t in range(20_000)]), 20_000)
    assert operator.bytes_held < empty + 10_000
    assert table_rows(operator.lookup(19_999)) == [("a", 10_000, 10_000, 1.0, "g"), ("b", 10_000, 10_000, 1.0, "g")]


def test_groups_and_strings_that_are_gone_are_forgotten() -> None:
    query = Query(["k"], [("COUNT", None), ("MIN", "g"), ("LAST", "g")])
    operator = operator_of(query, TimeWindow(100), False, Emission.CHANGES)
    held = []
    for start in range(0, 40_000, 4_000):
        rows: list[Row] = [(t, f"k{t}", f"g{t}", 1, None) for t in range(start, start + 4_000)]
        operator.process(rows_of(rows), start + 4_000)
        held.append(operator.bytes_held)
        assert operator.lookup(start + 3_999).num_rows == 100
    assert held[-1] <= 2 * held[1]
    assert table_rows(operator.lookup(39_999))[0] == ("k39900", 1, "g39900", "g39900")


# Against recomputation

LETTERS = st.sampled_from(["a", "b", None])
STREAMS = st.lists(
    st.tuples(
        st.integers(0, 40),
        LETTERS,
        LETTERS,
        st.one_of(st.none(), st.integers(-2, 3)),
        st.one_of(st.none(), st.sampled_from([-1.0, -0.0, 0.0, 2.5, float("nan")])),
    ),
    max_size=30,
).map(lambda rows: sorted(rows, key=lambda row: row[0]))
TIME_WINDOWS = st.builds(TimeWindow, st.one_of(st.none(), st.integers(1, 12)), offset_us=st.sampled_from([0, 0, 1, 7]))
COUNT_WINDOWS = st.builds(
    RowsWindow,
    st.integers(1, 4),
    offset=st.sampled_from([0, 0, 1, 3]),
    partition_by=st.sampled_from([(), ("k",), ("g",), ("k", "g")]),
)
WINDOWS = st.one_of(TIME_WINDOWS, COUNT_WINDOWS)
EMITS = st.sampled_from([Emission.CHANGES, Emission.ISTREAM, Emission.DSTREAM])
# NaN breaks Python's own min and max, so extremes and averages read x only where it has none.
QUERIES = st.sampled_from([COUNTED, WHOLE, HIDDEN, MANY, PAIRS, PLAIN])
CUTS = st.lists(st.integers(0, 60), max_size=6).map(sorted)


def tamed(rows: list[Row]) -> list[Row]:
    return [(*row[:4], None if row[4] is not None and row[4] != row[4] else row[4]) for row in rows]


@given(STREAMS, WINDOWS, QUERIES, EMITS, st.booleans(), CUTS, st.booleans())
def test_results_are_those_of_recomputation(
    rows: list[Row], window: Window, query: Any, emit: Emission, where: bool, cuts: list[int], restarts: bool
) -> None:
    rows = tamed(rows)
    found = run(lambda: operator_of(query, window, where, emit), rows, [*cuts, 70], restarts)
    assert multiset(found) == expected(query, window, where, emit, rows, 70)
    assert [row[0] for row in found] == sorted(row[0] for row in found)
    if emit is Emission.CHANGES:
        assert [row[:2] for row in found] == sorted(row[:2] for row in found)


@given(STREAMS, WINDOWS, CUTS, st.booleans())
def test_nan_and_both_zeros_are_one_value_each(
    rows: list[Row], window: Window, cuts: list[int], restarts: bool
) -> None:
    class Floats:
        def answer(self, rows: list[Row]) -> list[Values]:
            return [(row[4],) for row in rows]

    def make() -> Operator:
        return ContinuousRows((SelectItem("x", X),), window, None, Emission.CHANGES, SCHEMA)

    found = run(make, rows, [*cuts, 70], restarts)
    assert multiset(found) == expected(Floats(), window, False, Emission.CHANGES, rows, 70)


@given(STREAMS, WINDOWS, QUERIES, st.booleans(), CUTS, st.booleans())
def test_lookups_are_those_of_recomputation(
    rows: list[Row], window: Window, query: Any, where: bool, cuts: list[int], silent: bool
) -> None:
    rows = tamed(rows)
    operator = operator_of(query, window, where, Emission.CHANGES, silent=silent)
    done = 0
    for watermark in [*cuts, 70]:
        due = [row for row in rows[done:] if row[0] < watermark]
        operator.process(rows_of(due, done), watermark)
        done += len(due)
        inside = in_window(window, rows, watermark - 1)
        # A time window has begun with its first row, a count window when it first held one, and then always does.
        begun = bool(inside) if isinstance(window, RowsWindow) else bool(instants_of(window, rows, watermark))
        answer = query.answer([row for row in inside if passes(row, where)]) if begun else []
        assert multiset(table_rows(operator.lookup(watermark - 1))) == multiset(answer)


def test_answers_do_not_depend_on_the_cut_to_the_last_bit() -> None:
    source = random.Random(7)
    rows: list[Row] = []
    for t in range(400):
        rows += [(t, source.choice("ab"), source.choice("xyz"), 1, source.uniform(-1, 1)) for _ in range(2)]
    query = Query([], [("SUM", "x"), ("AVG", "x")])
    windows: list[Window] = [TimeWindow(37), RowsWindow(9), RowsWindow(5, partition_by=("g",)), TimeWindow(None)]
    for window in windows:
        make = partial(operator_of, query, window, False, Emission.CHANGES)
        whole = run(make, rows, [1000])
        parts = run(make, rows, list(range(0, 1000, 13)))
        assert parts == whole


def test_an_aggregate_of_a_user_that_depends_on_order() -> None:
    """The state holds a count, the first and the last value; its combine takes the older side first."""

    def combine(a: tuple[float, float, float], b: tuple[float, float, float]) -> tuple[float, float, float]:
        return (a[0] + b[0], b[1] if a[0] == 0 else a[1], a[2] if b[0] == 0 else b[2])

    function = user_aggregate(
        "ENDS",
        lift=lambda x: (1.0, x, x),
        combine=combine,
        lower=lambda a: 100 * a[1] + a[2],
        identity=(0.0, 0.0, 0.0),
    )
    bound = function.bound((DOUBLE,))
    aggregation = Aggregation((K,), (bound,), ((X,),), (SelectItem("e", ColumnRef(DOUBLE, "aggregate_0")),), None)
    rows: list[Row] = [(t, "ab"[t % 2], "gh"[t % 3 % 2], 1, float(t)) for t in range(1, 40)]
    ends = Query(["k"], [("FIRST", "x"), ("LAST", "x")], shown=False)
    windows: list[Window] = [TimeWindow(9), RowsWindow(4), RowsWindow(3, partition_by=("g",)), TimeWindow(None)]
    for window in windows:
        make = partial(ContinuousAggregate, aggregation, window, None, Emission.ISTREAM, SCHEMA, matrix_of=matrix_of)
        found = run(make, rows, [5, 11, 12, 100])
        expect = expected(ends, window, False, Emission.ISTREAM, rows, 100)
        assert multiset(found) == Counter({(t, 100 * a + b): n for (t, a, b), n in expect.items()})
