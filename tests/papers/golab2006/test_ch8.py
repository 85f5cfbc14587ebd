"""The figures of Golab 2006, chapter 8, are shown, other costs are noticed, the simulation does what it says."""

from __future__ import annotations

import pytest
from rich.console import Console

from panewise.schedule.periodic.periodic_tasks import PeriodicQuery, sub_groups
from panewise.schedule.periodic.sharing_techniques import TECHNIQUES
from papers.experiments import PAPER_EXPERIMENTS
from papers.golab2006 import ch8
from papers.golab2006.ch8_simulation import ScheduleWorkload, distinct_values, random_workload, simulate


def test_it_is_found_by_name() -> None:
    assert PAPER_EXPERIMENTS["golab2006-ch8"].module == "golab2006.ch8"


def test_a_processor_with_time_executes_every_query_at_its_slide() -> None:
    queries = (PeriodicQuery("a", "G", 2, 1), PeriodicQuery("b", "G", 5, 1))
    measured = simulate(
        ScheduleWorkload(queries, 0, 0), sub_groups(queries), TECHNIQUES["CS"].choose, speed=1e6, seconds=100
    )
    assert measured.latency == 0
    assert measured.executions == {"a": 49, "b": 19}  # the update of second 100 has not been processed
    assert measured.throughput == pytest.approx(0.68, abs=0.01)


def test_latency_is_updates_beyond_the_slide() -> None:
    # An execution takes 2.5 s: the synopses slide three times, or two, between executions that should be one apart.
    query = PeriodicQuery("a", "G", 1, 2.5)
    measured = simulate(
        ScheduleWorkload((query,), 0, 0), sub_groups([query]), TECHNIQUES["CS"].choose, speed=1, seconds=1000
    )
    assert measured.latency == pytest.approx(1.5, abs=0.02)
    assert measured.throughput == pytest.approx(0.4, abs=0.01)


def test_sharing_is_faster_in_overload() -> None:
    queries = tuple(PeriodicQuery(f"q{slide}", "G", slide, 10) for slide in (2, 3, 4, 6))
    found = {
        name: simulate(ScheduleWorkload(queries, 0, 0), technique.tasks_of(queries), technique.choose, 5, 600)
        for name, technique in TECHNIQUES.items()
    }
    assert found["No-S"].throughput < found["CS"].throughput <= found["H-LP"].throughput
    assert found["No-S"].latency > found["CS"].latency >= found["H-LP"].latency


def test_workloads_are_those_of_the_thesis() -> None:
    low, high = random_workload(1_500, 5), random_workload(3_000, 5)
    assert len(low.queries) == 40 and len({query.group for query in low.queries}) == 8
    assert [query.slide for query in low.queries] == [query.slide for query in high.queries]
    assert all(1 <= query.slide <= 50 for query in low.queries)
    assert all(after.scan > 1.9 * before.scan for before, after in zip(low.queries, high.queries, strict=True))
    assert distinct_values(10, 1) == pytest.approx(1) and distinct_values(10, 1e4) == pytest.approx(10)


def test_other_costs_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(quiet=True)
    assert ch8.schedule_costs(console)
    monkeypatch.setattr(ch8, "PRINTED", {(2, 3, 5): 11.63})
    assert not ch8.schedule_costs(console)


def test_all_of_it_runs_quickly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    drawn = []
    monkeypatch.setattr(ch8, "show_plot", lambda console, name, panels: drawn.append((name, len(panels))))
    assert ch8.run(quick=True, folder=None) == 0
    shown = capsys.readouterr().out
    for expected in (
        "7.67", "11.93", "11.4", "14.5", "12.67", "16.83", "figure 8.7", "figure 8.8", "figure 8.9", "figure 8.10",
        "ratios with 40 queries", "No-S", "H-LP", "more than doubles the throughput of hybrid",
    ):  # fmt: skip
        assert expected in shown
    assert drawn == [("papers-golab2006-ch8_7_10", 4)]
