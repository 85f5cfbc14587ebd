"""The strategies of Golab and Özsu 2003 and of Golab 2006 against the definition, against WindowJoin, and their counts
by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.language.expressions import ColumnRef, Expression
from panewise.language.functions import resolve
from panewise.operators.joins.window_join import WindowJoin
from panewise.operators.relation_delta import Delta
from panewise.optimize.first_orders import unmeasured_orders
from panewise.schema import BIGINT
from papers.golab2003.join_strategies import GROUPED, LAZY, ReferenceJoin, Strategy
from tests.now_or_soak import examples

Streams = list[list[tuple[int, int]]]  # (time, key), by time


def defined(streams: Streams, windows: list[int]) -> list[tuple[int, ...]]:
    """Every combination of equal keys in which the newest row finds all others in their windows."""
    found = []
    for rows in itertools.product(*(range(len(stream)) for stream in streams)):
        parts = [streams[i][row] for i, row in enumerate(rows)]
        now = max(time for time, _ in parts)
        equal = len({key for _, key in parts}) == 1
        if equal and all(now < time + window for (time, _), window in zip(parts, windows, strict=True)):
            found.append(rows)
    return sorted(found)


def columns(streams: Streams) -> tuple[list[np.ndarray], list[np.ndarray]]:
    times = [np.array([time for time, _ in stream], np.int64) for stream in streams]
    return times, [np.array([key for _, key in stream], np.int64) for stream in streams]


EXACT = [strategy for strategy in Strategy if strategy is not Strategy.GROUPED_LAZY]


@st.composite
def runs(draw: st.DrawFn) -> tuple[Streams, list[int], ReferenceJoin]:
    count = draw(st.integers(2, 4))
    most = {2: 14, 3: 8, 4: 6}[count]
    rows = st.lists(st.tuples(st.integers(-3, 30), st.sampled_from([0, 1, -7])), max_size=most)
    streams = [sorted(draw(rows), key=lambda row: row[0]) for _ in range(count)]
    windows = [draw(st.integers(1, 15)) for _ in range(count)]
    strategy = draw(st.sampled_from(EXACT))
    permutations = st.permutations(range(count))
    lazy = strategy in LAZY
    interval = draw(st.integers(1 if lazy else 0, 7)) if strategy is not Strategy.EAGER else 0
    general = strategy is Strategy.GENERAL_LAZY
    join = ReferenceJoin(
        strategy,
        windows,
        order=draw(permutations),
        orders=[draw(permutations) for _ in range(count)] if general else None,
        buckets=[draw(st.integers(1, 3)) for _ in range(count)],
        interval=interval,
        expiration=0 if strategy in GROUPED else draw(st.integers(0, 9)),
    )
    return streams, windows, join


@examples(150, soak=300)
@given(run=runs())
def test_every_strategy_finds_what_is_defined_once(run: tuple[Streams, list[int], ReferenceJoin]) -> None:
    streams, windows, join = run
    joined = join.run(*columns(streams))
    assert sorted(zip(*joined.rows.tolist(), strict=True)) == defined(streams, windows)
    assert joined.count == joined.rows.shape[1] == join.run(*columns(streams), collect=False).count


@examples(30, soak=60)
@given(run=runs())
def test_the_window_join_finds_the_same(run: tuple[Streams, list[int], ReferenceJoin]) -> None:
    streams, windows, join = run
    names = [f"{name}.k" for name in "abcd"[: len(streams)]]
    condition: Expression | None = None
    for name in names[1:]:
        equal = resolve("eq", (ColumnRef(BIGINT, names[0]), ColumnRef(BIGINT, name)))
        condition = equal if condition is None else resolve("and", (condition, equal))
    schemas = [pa.schema([(name, pa.int64()), (f"{name}.row", pa.int64())]) for name in names]
    deltas = []
    for schema, stream, window in zip(schemas, streams, windows, strict=True):
        (times,), (keys,) = columns([stream])
        numbers = np.arange(len(stream))
        batch = pa.RecordBatch.from_arrays([pa.array(keys), pa.array(numbers)], schema=schema)
        deltas.append(Delta(batch, numbers, times, times + window))
    orders = unmeasured_orders(schemas, condition)
    windowed = WindowJoin(schemas, condition, orders, columns=[f"{name}.row" for name in names])
    result = windowed.process(deltas, -3, 100)
    found = zip(*(column.to_pylist() for column in result.batch.columns), strict=True)
    assert sorted(found) == sorted(zip(*join.run(*columns(streams)).rows.tolist(), strict=True))


@examples(100, soak=200)
@given(run=runs(), interval=st.integers(1, 20), buckets=st.integers(1, 3), data=st.data())
def test_without_restore_what_is_there_at_a_run_is_found(
    run: tuple[Streams, list[int], ReferenceJoin], interval: int, buckets: int, data: st.DataObject
) -> None:
    streams, windows, _ = run
    order = data.draw(st.permutations(range(len(streams))))
    join = ReferenceJoin(Strategy.GROUPED_LAZY, windows, order=order, buckets=buckets, interval=interval)
    seen = []
    for rows in defined(streams, windows):
        times = [streams[i][row][0] for i, row in enumerate(rows)]
        ends = min(time + window for time, window in zip(times, windows, strict=True))
        if (max(times) // interval + 1) * interval < ends:
            seen.append(rows)
    assert sorted(zip(*join.run(*columns(streams)).rows.tolist(), strict=True)) == seen


def test_a_group_probes_once() -> None:
    """Ten equal rows of one stream look at the one row of the other ten times, or once where they come in one run."""
    times, keys = [np.array([0]), np.arange(1, 11)], [np.zeros(1, np.int64), np.zeros(10, np.int64)]
    for strategy in GROUPED:
        found = [ReferenceJoin(strategy, [50, 50], interval=interval).run(times, keys) for interval in (1, 11)]
        assert [(joined.count, joined.visits) for joined in found] == [(10, 10), (10, 1)]
    assert ReferenceJoin(Strategy.LAZY, [50, 50], interval=11).run(times, keys).visits > 10


def test_what_ends_before_the_next_run_is_removed_early() -> None:
    """At the run at 10, two rows have not ended; at that at 20 they will have."""
    times, keys = [np.array([1, 2]), np.array([12])], [np.zeros(2, np.int64), np.zeros(1, np.int64)]
    without, restored = (ReferenceJoin(strategy, [15, 15], interval=10).run(times, keys) for strategy in GROUPED)
    assert (without.count, without.visits) == (0, 0)
    assert (restored.count, restored.visits) == (2, 2)


def steady(count: int, keys: int, rows: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Streams of one row per unit time, with keys in turn."""
    times = np.arange(rows)
    return [times] * count, [times % keys] * count


def test_comparisons_are_those_of_the_loops() -> None:
    times, keys = steady(3, 5, 400)
    eager = ReferenceJoin(Strategy.EAGER, [100] * 3).run(times, keys, collect=False)
    # A new row meets about 100 rows, of which 20 match, and for each of these 100 rows more.
    per_row = eager.comparisons / (3 * 400)
    assert 0.75 * (100 + 20 * 100) < per_row <= 100 + 20 * 100
    naive = ReferenceJoin(Strategy.NAIVE, [100] * 3).run(times, keys, collect=False)
    assert naive.count == eager.count
    assert naive.comparisons > 1.5 * eager.comparisons
    hashed = ReferenceJoin(Strategy.EAGER, [100] * 3, buckets=64).run(times, keys, collect=False)
    assert hashed.count == eager.count
    assert hashed.comparisons < 0.3 * eager.comparisons
    assert hashed.expirations > 20 * eager.expirations


def test_a_long_interval_visits_rows_that_have_left() -> None:
    times, keys = steady(2, 5, 400)
    visits = [
        ReferenceJoin(Strategy.LAZY, [100] * 2, interval=interval).run(times, keys, collect=False).visits
        for interval in (1, 10, 50)
    ]
    assert visits == sorted(visits)
    assert visits[0] < visits[2]


def test_impossible_pairs_are_refused() -> None:
    with pytest.raises(AssertionError, match="interval"):
        ReferenceJoin(Strategy.LAZY, [10, 10])
    with pytest.raises(AssertionError, match="interval"):
        ReferenceJoin(Strategy.EAGER, [10, 10], interval=5)
    with pytest.raises(AssertionError, match="order per origin"):
        ReferenceJoin(Strategy.GENERAL_LAZY, [10, 10], interval=5)
    with pytest.raises(AssertionError, match="when they run"):
        ReferenceJoin(Strategy.GROUPED_LAZY, [10, 10], interval=5, expiration=10)
    with pytest.raises(AssertionError, match="name every stream"):
        ReferenceJoin(Strategy.EAGER, [10, 10], order=[0, 0])
