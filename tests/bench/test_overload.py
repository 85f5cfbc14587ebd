"""Overload for a second: nothing is lost without shedding, and with it estimates hold."""

from __future__ import annotations

import pytest

from bench import overload


@pytest.fixture(scope="module")
def sustained() -> float:
    return overload.sustainable(seconds=1)["rows/s"]


@pytest.mark.parametrize("case", overload.CASES)
def test_every_case_of_overload_agrees(case: str, sustained: float) -> None:
    figure = overload.measure(case, seconds=1, sustained=sustained)
    assert figure["agrees"], figure


def test_a_wrong_answer_is_noticed() -> None:
    values = overload.drawn()
    engine = overload.engine_with("")
    for number in range(overload.PUSHES_A_WINDOW):
        engine.push("s", overload.push_of(number, values).slice(0 if number else 1))
    engine.flush()
    errors = overload.errors_of(engine.results("totals")[:1], values, [1.0] * overload.PUSHES_A_WINDOW)
    assert errors == [float("inf")] * 2
