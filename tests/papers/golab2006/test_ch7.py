"""The figures of Golab 2006, chapter 7, are shown, hold what the text says, and a broken promise is noticed."""

from __future__ import annotations

import pytest
from rich.console import Console

from panewise.schedule.isolation.levels import Level, has_level
from panewise.schedule.isolation.scheduler_names import SCHEDULERS, NamedScheduler
from panewise.schedule.isolation.transactions import Priority
from papers.experiments import PAPER_EXPERIMENTS
from papers.golab2006 import ch7
from papers.golab2006.ch7_simulation import MeasuredTrial, ReaderWorkload, ScanCost, SimulatedCosts, Simulation
from papers.golab2006.ch7_workload import COSTS, random_workload


def test_it_is_found_by_name() -> None:
    assert PAPER_EXPERIMENTS["golab2006-ch7"].module == "golab2006.ch7"


def simulated(name: str, workload: ReaderWorkload, costs: SimulatedCosts = COSTS) -> MeasuredTrial:
    scheduler = SCHEDULERS[name].make(workload.sub_windows)
    return Simulation(scheduler, workload, costs, is_serial=name == "Serial", record=True).run()


# Two sub-windows of 10 s, scans of 4 s each, moves that take 1 s: by hand. What was there at 0 is as of move 1.
#
#     0    4    8    12   16   20
#     |----|----|----|----|          a read and a read, where nothing comes between
#                  ^ move 2 is due at 10; nothing more begins at 20
SMALL = ReaderWorkload(2, 10.0, [2], [1] * 20)
SMALL_COSTS = SimulatedCosts(ScanCost(4.0, 0.0), ScanCost(1.0, 0.0), move_per_packet_s=1.0, decision_s=0.0)


@pytest.mark.parametrize(
    ("name", "staleness", "aborted"),
    [
        # Move 2 waits until 16; the third read is not over at 21.
        ("Serial", [8.0, 16.0], 0),
        # Move 2 takes 12 to 13; the second read ends at 17 and has not seen it.
        ("WS", [8.0, 17.0], 0),
        # The second read has scanned sub-window 0 at 12 when move 2 replaces it; the third takes 13 to 21.
        ("LWS", [8.0, 11.0], 1),
        # The second read has scanned sub-window 1 at 12, and sees move 2 at 17.
        ("TTU", [8.0, 7.0], 0),
    ],
)
def test_a_small_case_by_hand(name: str, staleness: list[float], aborted: int) -> None:
    measured = simulated(name, SMALL, SMALL_COSTS)
    assert measured.staleness_s[Priority.PERIODIC] == staleness
    assert (measured.aborted, measured.seconds, measured.answers) == (aborted, 21.0, [2])
    assert (measured.throughput, measured.inter_execution_s) == (2 / 21, 21 / 2)


def test_a_one_time_query_waits_only_for_a_step() -> None:
    workload = ReaderWorkload(2, 10.0, [2], [1] * 20, one_time=[(1.0, 1)])
    assert simulated("TTU", workload, SMALL_COSTS).response_s == [4.0]  # the step ends at 4, the query at 5
    assert simulated("Serial", workload, SMALL_COSTS).response_s == [8.0]


def test_ttu_aborts_nothing_where_lws_aborts_over_half() -> None:
    found: dict[str, list[MeasuredTrial]] = {name: [] for name in SCHEDULERS}
    for trial in range(2):
        workload = random_workload(100, 1, one_time=False, trial=trial)
        for name, scheduler in SCHEDULERS.items():
            measured = simulated(name, workload)
            assert measured.history is not None and has_level(measured.history, scheduler.promises)
            found[name].append(measured)
    assert sum(each.aborted for each in found["TTU"]) == 0
    assert sum(each.aborted for each in found["LWS"]) > sum(each.committed for each in found["LWS"])
    for own, serial in zip(found["TTU"], found["Serial"], strict=True):
        assert own.throughput > 0.96 * serial.throughput
        assert own.staleness(Priority.PERIODIC) < 0.6 * serial.staleness(Priority.PERIODIC)


def test_a_broken_promise_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    boasting = NamedScheduler(SCHEDULERS["WS"].make, Level.LATEST_WINDOW)
    monkeypatch.setitem(SCHEDULERS, "WS", boasting)
    monkeypatch.setattr(ch7, "SUB_WINDOWS", (20,))
    monkeypatch.setattr(ch7, "SUB_WINDOWS_TRIED", 0)
    monkeypatch.setattr(ch7, "TRIALS_MIN", 1)
    assert ch7.simulate(1, False, quick=False).broken_promises() == ["WS, 20 sub-windows of 1 s"]


def test_all_of_it_runs_quickly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    drawn = []
    monkeypatch.setattr(ch7, "show_plot", lambda console, name, panels: drawn.append((name, len(panels))))
    monkeypatch.setattr(ch7, "figures_console", lambda: Console(width=150))
    assert ch7.run(quick=True, folder=None) == 0
    shown = capsys.readouterr().out
    for number in range(8, 15):
        assert f"figure 7.{number}:" in shown
    assert "TTU aborts nothing: agrees" in shown
    assert "every history that was checked has the level" in shown
    assert drawn == [("papers-golab2006-ch7_8", 1), ("papers-golab2006-ch7_9_11", 6), ("papers-golab2006-ch7_12_14", 3)]
