"""Plans of scans compute what recomputing computes, and touch what Golab 2006, figure 7.2 says that they touch."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.errors import PanewiseError
from panewise.schedule.scans import Scan, ScanPlan, plan_scan

TWO_SUMS = {"sum1": 6, "sum2": 10}


@pytest.mark.parametrize(
    ("scan", "values", "kept"),
    [(Scan.WINDOW, 1000, 0), (Scan.INCREMENTAL, 300, 1), (Scan.SYNOPSIS, 10, 0), (Scan.INCREMENTAL_SYNOPSIS, 3, 1)],
)
def test_figure_7_2(scan: Scan, values: int, kept: int) -> None:
    plan = plan_scan(scan, TWO_SUMS, sub_windows=10, last_move=20, previous_move=19)
    assert plan.values_read(rows_per_sub_window=100) == values
    assert len(plan.kept) == kept
    assert scan.needs_isolation == (kept == 0)


def test_scans_go_from_the_youngest_to_the_oldest() -> None:
    plan = plan_scan(Scan.SYNOPSIS, TWO_SUMS, sub_windows=10, last_move=20)
    assert [step.copy for step in plan.steps] == list(range(20, 10, -1))
    assert [step.sub_window for step in plan.steps] == [copy % 10 for copy in range(20, 10, -1)]
    assert [len(step.added_to) for step in plan.steps] == [2] * 6 + [1] * 4


def test_incremental_scans_of_many_lengths_touch_the_whole_window() -> None:
    lengths = {f"sum{length}": length for length in range(2, 11)}
    plan = plan_scan(Scan.INCREMENTAL, lengths, sub_windows=10, last_move=20, previous_move=19)
    assert [step.copy for step in plan.steps] == [20, *range(18, 9, -1)]


def test_where_nothing_is_left_of_the_old_window_it_is_not_read() -> None:
    plan = plan_scan(Scan.INCREMENTAL, {"gone": 3, "there": 4}, sub_windows=10, last_move=12, previous_move=9)
    assert plan.afresh == {"gone"}
    assert [(step.copy, step.subtracted_from) for step in plan.steps] == [
        (12, ()), (11, ()), (10, ()), (8, ("there",)), (7, ("there",)), (6, ("there",)),
    ]  # fmt: skip


@given(
    st.integers(1, 8).flatmap(
        lambda count: st.tuples(st.just(count), st.lists(st.integers(1, count), min_size=1, max_size=4))
    ),
    st.lists(st.integers(0, 10), min_size=1, max_size=5),
    st.sampled_from(Scan),
    st.randoms(use_true_random=False),
)
def test_sums_by_plan_are_the_sums(
    window: tuple[int, list[int]], moves_between: list[int], scan: Scan, chance: random.Random
) -> None:
    count, each = window
    lengths = {f"q{number}": length for number, length in enumerate(each)}
    sums = [chance.randrange(100) for _ in range(count + sum(moves_between))]
    answers: dict[str, int] = {}
    last, previous = count - 1, None
    for moves in moves_between:
        last += moves
        plan = plan_scan(scan, lengths, count, last, previous)
        follow(plan, sums, answers)
        assert answers == {name: sum(sums[last - length + 1 : last + 1]) for name, length in lengths.items()}
        held = set(range(last - count + 1, last + 1))
        assert {step.copy for step in plan.steps} - held == plan.kept
        assert len({step.copy for step in plan.steps}) == len(plan.steps)
        previous = last


def follow(plan: ScanPlan, sums: list[int], answers: dict[str, int]) -> None:
    answers.update(dict.fromkeys(plan.afresh, 0))
    for step in plan.steps:
        for name in step.added_to:
            answers[name] += sums[step.copy]
        for name in step.subtracted_from:
            answers[name] -= sums[step.copy]


def test_a_window_longer_than_the_array_is_refused() -> None:
    with pytest.raises(PanewiseError, match="expected 1 to 4"):
        plan_scan(Scan.WINDOW, {"q": 5}, sub_windows=4, last_move=9)
