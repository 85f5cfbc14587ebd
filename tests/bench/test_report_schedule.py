"""The benchmark of schedules, small: results are the same, and it would notice if they were not."""

from __future__ import annotations

import math

import pytest

from bench import report_schedule


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_schedule, "PUSH_ROWS", 2000)
    monkeypatch.setattr(report_schedule, "KEYS", 20)
    monkeypatch.setattr(report_schedule, "QUERIES", 40)


def test_schedules_agree() -> None:
    figures = [report_schedule.measure(name, rate=math.inf, pushes=160) for name in ("at once", "earliest-deadline")]
    assert figures[0]["results"] == figures[1]["results"]
    assert all(figure["accepted rows/s"] > 0 and figure["late, all"] > 0 for figure in figures)


def test_other_rows_are_noticed() -> None:
    figures = [report_schedule.measure("at once", rate=math.inf, pushes=pushes) for pushes in (100, 101)]
    assert figures[0]["results"] != figures[1]["results"]
