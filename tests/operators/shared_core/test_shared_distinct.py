"""A DISTINCT shared by many windows against one DISTINCT for each of them, at every instant."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.operators.deltas.distinct import DistinctOperator
from panewise.operators.lifetimes import NEVER
from panewise.operators.relation_delta import FOREVER, Delta
from panewise.operators.shared_core import shared_distinct
from panewise.operators.shared_core.shared_distinct import SharedDistinct
from panewise.schema import BIGINT, STRING, Column, Schema
from panewise.state.snapshot_format import dumped, loaded
from tests.now_or_soak import examples
from tests.operators.delta_histories import CUTS, FEW_VALUES, HORIZON, LAST, SCHEMA, VALUES, Told, batch_of

Row = tuple[tuple[object, object], int]
INTEGERS = Schema((Column("a", BIGINT),))


@st.composite
def streams(draw: st.DrawFn) -> list[Row]:
    times = sorted(draw(st.lists(st.integers(0, LAST), max_size=30)))
    values = draw(st.sampled_from([VALUES, FEW_VALUES]))
    return [(draw(values), instant) for instant in times]


def step(rows: list[Row], since: int, until: int) -> tuple[pa.RecordBatch, np.ndarray]:
    new = [row for row in rows if since <= row[1] < until]
    return batch_of([values for values, _ in new]), np.array([instant for _, instant in new], np.int64)


def alone(rows: list[Row], range_us: int, first: int, begins: int, cuts: list[int]) -> Told:
    """What a DISTINCT of its own says from the instant `first` on, of the rows from `begins` on."""
    operator, told = DistinctOperator(SCHEMA, strict=False), Told()
    seen = [(values, max(at, first), at + range_us) for values, at in rows if begins <= at and at + range_us > first]
    for since, until in pairwise([first, *[cut for cut in cuts if cut > first], HORIZON]):
        new = [row for row in seen if since <= row[1] < until]
        births, deaths = (np.array([row[i] for row in new], np.int64) for i in (1, 2))
        delta = Delta(batch_of([row[0] for row in new]), np.arange(len(new)) + 100 * since, births, deaths)
        told.take(operator.process([delta], since, until), since, until)
    return told


@contextmanager
def forgetful(yes: bool) -> Iterator[None]:
    with patch.object(shared_distinct, "_SPARE", 0 if yes else 4096):
        yield


@examples(125, soak=250)
@given(
    rows=streams(),
    ranges=st.lists(st.integers(1, 30), min_size=1, max_size=5),
    cuts=CUTS,
    restart=st.none() | st.integers(0, 6),
    forgets=st.booleans(),
)
def test_every_window_is_as_its_own_distinct(
    rows: list[Row], ranges: list[int], cuts: list[int], restart: int | None, forgets: bool
) -> None:
    with forgetful(forgets):
        shared = SharedDistinct(SCHEMA)
        for i, range_us in enumerate(ranges):
            shared.add(f"q{i}", range_us, NEVER)
        told = {f"q{i}": Told() for i in range(len(ranges))}
        for number, (since, until) in enumerate(pairwise([0, *cuts, HORIZON])):
            if number == restart:
                snapshot = loaded(dumped(shared.snapshot()))
                shared = SharedDistinct(SCHEMA)
                shared.restore(snapshot)
            for name, delta in shared.process(*step(rows, since, until), since, until).items():
                assert not len(delta.ended)
                told[name].take(delta, since, until)
    for i, range_us in enumerate(ranges):
        wanted = alone(rows, range_us, 0, NEVER, cuts)
        assert sorted(told[f"q{i}"].rows.values(), key=repr) == sorted(wanted.rows.values(), key=repr), range_us
        assert all(told[f"q{i}"].at(instant) == wanted.at(instant) for instant in range(HORIZON))


@pytest.mark.parametrize("step", [700, 20_000, 10**9])
def test_many_rows_in_bursts(step: int) -> None:
    """Instants in a few narrow bursts, so that many results are born close together; calendars of many blocks."""
    rng = np.random.default_rng(7)
    times = np.sort(rng.integers(0, 5, 6000) * 10_000 + rng.integers(0, 300, 6000) * rng.integers(0, 9, 6000))
    values, ranges = rng.integers(0, 900, 6000), [1, 40, 41, 900, 9_000, 25_000]
    shared, alone_by = SharedDistinct(INTEGERS), [DistinctOperator(INTEGERS, strict=False) for _ in ranges]
    for i, range_us in enumerate(ranges):
        shared.add(f"q{i}", range_us, NEVER)
    cuts = [0, *range(step, 80_000, step), max(step, 80_000)]
    for since, until in pairwise(cuts):
        here = (times >= since) & (times < until)
        batch, births = pa.record_batch({"a": values[here]}), times[here]
        results = shared.process(batch, births, since, until)
        for i, range_us in enumerate(ranges):
            delta = Delta(batch, np.flatnonzero(here), births, births + range_us)
            wanted, got = alone_by[i].process([delta], since, until), results[f"q{i}"]
            assert _lives(got) == _lives(wanted)
            assert (np.diff(got.births) >= 0).all()


def _lives(delta: Delta) -> list[tuple[int, int, int]]:
    columns = delta.batch.column(0).to_pylist(), delta.births.tolist(), delta.deaths.tolist()
    return sorted(zip(*columns, strict=True))


PLAYS = st.lists(
    st.tuples(st.sampled_from(["add", "add", "remove", "restart"]), st.integers(1, 30), st.integers(-3, 12)),
    max_size=10,
)


@examples(125, soak=250)
@given(rows=streams(), plays=PLAYS, cuts=CUTS, forgets=st.booleans(), data=st.data())
def test_windows_come_and_go(
    rows: list[Row], plays: list[tuple[str, int, int]], cuts: list[int], forgets: bool, data: st.DataObject
) -> None:
    """Every window sees the rows from its `begins` on, before it came only those that older windows still reach."""
    with forgetful(forgets):
        shared, told = SharedDistinct(SCHEMA), {}
        here: dict[str, tuple[int, int, int]] = {}  # name -> range, first instant, begins
        lives: dict[str, tuple[int, int, int, int]] = {}  # the same, and when it went
        kept_from = NEVER  # from when on all rows are held
        when = [data.draw(st.integers(0, len(cuts))) for _ in plays]
        for number, (since, until) in enumerate(pairwise([0, *cuts, HORIZON])):
            for k, (play, range_us, lead) in enumerate(plays):
                if when[k] != number:
                    continue
                if play == "add":
                    begins = NEVER if lead == -3 else since + lead
                    shared.add(f"q{k}", range_us, begins)
                    here[f"q{k}"], told[f"q{k}"] = (range_us, since, begins), Told()
                elif play == "remove" and here:
                    name = data.draw(st.sampled_from(sorted(here)))
                    shared.remove(name)
                    lives[name] = *here.pop(name), since
                elif play == "restart":
                    snapshot = loaded(dumped(shared.snapshot()))
                    shared = SharedDistinct(SCHEMA)
                    shared.restore(snapshot)
            for name, (range_us, first, begins) in here.items():
                if first == since:
                    here[name] = range_us, first, max(begins, kept_from)
            reach = max((range_us for range_us, _, _ in here.values()), default=0)
            kept_from = max(kept_from, until - reach)
            results = shared.process(*step(rows, since, until), since, until)
            assert results.keys() == here.keys()
            for name, delta in results.items():
                told[name].take(delta, since, until)
    lives.update({name: (*window, HORIZON) for name, window in here.items()})
    for name, (range_us, first, begins, end) in lives.items():
        wanted = alone(rows, range_us, first, begins, cuts)
        for instant in range(first, end):
            assert told[name].at(instant) == wanted.at(instant), (name, instant)


def test_a_row_at_the_instant_at_which_its_predecessor_dies_is_shown_once() -> None:
    shared = SharedDistinct(INTEGERS)
    shared.add("q", 5, NEVER)
    result = shared.process(pa.record_batch({"a": [1, 1, 1]}), np.array([0, 5, 5]), 0, 20)["q"]
    assert (result.births.tolist(), result.deaths.tolist()) == ([0, 5], [5, 10])


def test_a_window_that_comes_later_has_what_a_greater_one_holds_at_once() -> None:
    shared = SharedDistinct(INTEGERS)
    shared.add("day", 100, NEVER)
    shared.process(pa.record_batch({"a": [1, 2, 3]}), np.array([0, 60, 70]), 0, 80)
    shared.add("hour", 50, NEVER)
    shared.add("later", 50, 65)
    none = pa.record_batch({"a": pa.array([], pa.int64())}), np.empty(0, np.int64)
    results = shared.process(*none, 80, 90)
    assert results["hour"].batch.to_pydict() == {"a": [2, 3]}
    assert results["hour"].births.tolist() == [80, 80] and results["hour"].deaths.tolist() == [110, 120]
    assert results["later"].batch.to_pydict() == {"a": [3]}
    assert not len(results["day"])


def test_the_first_step_may_begin_before_all_time_and_the_last_may_end_after_it() -> None:
    shared = SharedDistinct(INTEGERS)
    shared.add("q", 5, NEVER)
    result = shared.process(pa.record_batch({"a": [1, 1]}), np.array([10, 12]), NEVER, 13)["q"]
    assert result.deaths.tolist() == [15]
    result = shared.process(pa.record_batch({"a": [1]}), np.array([14]), 13, FOREVER)["q"]
    assert (result.births.tolist(), result.deaths.tolist()) == ([15], [19])


@pytest.mark.parametrize("windows", [1, 20])
def test_state_levels_off_while_values_come_and_go(windows: int) -> None:
    shared, sizes = SharedDistinct(Schema((Column("s", STRING),))), []
    for i in range(windows):
        shared.add(f"q{i}", 250 - 3 * i, NEVER)
    for k in range(90):
        values = pa.record_batch({"s": [f"value {i:06}" for i in range(500 * k, 500 * k + 1000)]})
        results = shared.process(values, np.sort(np.arange(1000) % 100 + 100 * k), 100 * k, 100 * (k + 1))
        assert all(len(result) >= 500 for result in results.values())
        sizes.append(shared.bytes_held)
    assert max(sizes[60:]) < 1.1 * max(sizes[30:60])


def test_a_window_that_goes_takes_its_state_along() -> None:
    shared = SharedDistinct(INTEGERS)
    shared.add("short", 10, NEVER)
    shared.add("long", 10**6, NEVER)
    shared.process(pa.record_batch({"a": np.arange(50_000)}), np.arange(50_000), 0, 50_000)
    before = shared.bytes_held
    shared.remove("long")
    shared.process(pa.record_batch({"a": np.arange(1)}), np.array([50_000]), 50_000, 50_001)
    assert shared.bytes_held < before / 20
