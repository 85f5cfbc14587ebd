"""Isolation of readers from window moves: Golab 2006, figures 7.8 to 7.14, by simulation.

    aborts              figure 7.8: reads aborted by LWS (algorithm 7) and TTU (algorithm 8)
    periodic_queries    figures 7.9 to 7.11: staleness, inter-execution time, throughput
    mixed_queries       figures 7.12 to 7.14: one-time queries of higher priority beside the periodic ones
    rescans             section 7.4.2: old copies are kept and undone where a read would be aborted

Serial, WS, LWS and TTU are given the same workloads in simulated time (`ch7_simulation`), with parameters of
the text and costs of ours (`ch7_workload`). Sentences on agreement are judged by the figures. The exit code is
about promises: the history of each scheduler's first trial has the level that the scheduler promises, by the checker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from panewise.schedule.isolation.latest_window_scheduler import LatestWindowScheduler, OnConflict
from panewise.schedule.isolation.levels import has_level
from panewise.schedule.isolation.read_orders import by_sub_window
from panewise.schedule.isolation.scheduler_names import SCHEDULERS
from panewise.schedule.isolation.schedulers import Scheduler
from panewise.schedule.isolation.transactions import Priority, WindowRead
from papers.golab2003.random_streams import judge
from papers.golab2006.ch7_simulation import MeasuredTrial, Simulation, mean
from papers.golab2006.ch7_workload import COSTS, DECISION_S, QUERIES, random_workload
from papers.plots import Panel
from papers.shown import figures_console, show_plot, show_table

SUB_WINDOWS = (10, 20, 40, 60, 80, 100)
TRIALS_MIN = 5  # as in the text; more of those that are short, whose figures are few
SUB_WINDOWS_TRIED = 200
SAME = 1.02  # a ratio up to here is no difference
LOST_WANTED = 0.04  # throughput of Serial that TTU may lose
LATEST = ("LWS", "TTU")
OTHERS = ("Serial", "WS", "TTU")

Figure = Callable[[MeasuredTrial], float]


@dataclass(frozen=True)
class Runs:
    """All trials of one kind of workload, by scheduler and number of sub-windows."""

    sub_window_s: int
    trials: Mapping[str, Mapping[int, Sequence[MeasuredTrial]]]

    @property
    def sub_windows(self) -> list[int]:
        return list(next(iter(self.trials.values())))

    def mean(self, scheduler: str, sub_windows: int, figure: Figure) -> float:
        return mean([figure(measured) for measured in self.trials[scheduler][sub_windows]])

    def line(self, scheduler: str, figure: Figure) -> list[float]:
        return [self.mean(scheduler, count, figure) for count in self.sub_windows]

    def broken_promises(self) -> list[str]:
        return [
            f"{name}, {count} sub-windows of {self.sub_window_s} s"
            for name, by_count in self.trials.items()
            for count, trials in by_count.items()
            for measured in trials
            if measured.history is not None and not has_level(measured.history, SCHEDULERS[name].promises)
        ]


def simulate(sub_window_s: int, one_time: bool, quick: bool) -> Runs:
    trials: dict[str, dict[int, list[MeasuredTrial]]] = {name: {} for name in SCHEDULERS}
    for count in (10, 40 if one_time else 100) if quick else SUB_WINDOWS:
        for trial in range(1 if quick else max(TRIALS_MIN, SUB_WINDOWS_TRIED // count)):
            workload = random_workload(count, sub_window_s, one_time=one_time, trial=trial)
            for name, scheduler in SCHEDULERS.items():
                simulation = Simulation(scheduler.make(count), workload, COSTS, name == "Serial", record=trial == 0)
                trials[name].setdefault(count, []).append(simulation.run())
    return Runs(sub_window_s, trials)


def run(quick: bool, folder: Path | None) -> int:
    console = figures_console()
    every_second, slower = simulate(1, False, quick), simulate(5, False, quick)
    mixed = simulate(5, True, quick)
    aborts(console, every_second, slower)
    periodic_queries(console, every_second, slower)
    mixed_queries(console, mixed)
    rescans(console, quick)
    decisions(console)
    broken = [promise for runs in (every_second, slower, mixed) for promise in runs.broken_promises()]
    if broken:
        console.print(f"[red]histories below the level that their scheduler promises: {'; '.join(broken)}[/]")
    else:
        console.print("every history that was checked has the level that its scheduler promises")
    return int(bool(broken))


# -- figure 7.8 --------------------------------------------------------------------------------------------------------


def aborts(console: Console, every_second: Runs, slower: Runs) -> None:
    def share(measured: MeasuredTrial) -> float:
        return 100 * measured.aborted_share

    both = (every_second, slower)
    cells = [
        [str(count), *(f"{runs.mean(name, count, share):.1f}" for name in LATEST for runs in both)]
        for count in every_second.sub_windows
    ]
    columns = ["sub-windows", *(f"{name}, t = {runs.sub_window_s} s" for name in LATEST for runs in both)]
    show_table(console, "figure 7.8: reads aborted, %", columns, cells)
    lines = {f"LWS, t = {runs.sub_window_s} s": (runs.sub_windows, runs.line("LWS", share)) for runs in both}
    show_plot(console, "papers-golab2006-ch7_8", [Panel("figure 7.8", "sub-windows", "aborted, %", lines)])
    worst = every_second.mean("LWS", every_second.sub_windows[-1], share)
    judge(console, "LWS aborts over half at the longest window and t = 1 s", worst > 50, f"{worst:.0f} %")
    with_ttu = max(max(runs.line("TTU", share)) for runs in both)
    judge(console, "TTU aborts nothing", with_ttu == 0, f"{with_ttu:.1f} %")
    fast, slow = every_second.line("LWS", share), slower.line("LWS", share)
    more = sum(a > b for a, b in zip(fast, slow, strict=True))
    judge(console, "LWS aborts more at t = 1 s than at 5 s", more == len(fast), f"in {more} of {len(fast)} cases")
    grows = all(line[0] < line[-1] and line == sorted(line) for line in (fast, slow))
    told = f"{fast[0]:.0f} to {fast[-1]:.0f} % and {slow[0]:.0f} to {slow[-1]:.0f} %"
    judge(console, "and more with more sub-windows", grows, told)


# -- figures 7.9 to 7.11 -----------------------------------------------------------------------------------------------


def show_figure(console: Console, title: str, runs: Sequence[Runs], figure: Figure, places: int = 2) -> list[Panel]:
    """A table with a column per scheduler and length of sub-windows, and the panels that draw it."""
    columns = ["sub-windows", *(f"{name}, {each.sub_window_s} s" for each in runs for name in SCHEDULERS)]
    cells = [
        [str(count), *(f"{each.mean(name, count, figure):.{places}f}" for each in runs for name in SCHEDULERS)]
        for count in runs[0].sub_windows
    ]
    show_table(console, title, columns, cells)
    what, unit = title.rsplit(", ", 1)
    return [
        Panel(
            f"{what}, t = {each.sub_window_s} s", "sub-windows", unit,
            {name: (each.sub_windows, each.line(name, figure)) for name in SCHEDULERS},
        )
        for each in runs
    ]  # fmt: skip


def periodic_staleness(measured: MeasuredTrial) -> float:
    return measured.staleness(Priority.PERIODIC)


def inter_execution(measured: MeasuredTrial) -> float:
    return measured.inter_execution_s


def throughput(measured: MeasuredTrial) -> float:
    return measured.throughput


def periodic_queries(console: Console, every_second: Runs, slower: Runs) -> None:
    both = (every_second, slower)
    panels = show_figure(console, "figure 7.9: staleness of periodic queries, s", both, periodic_staleness)
    judge_staleness(console, both, periodic_staleness)
    lines = {(each.sub_window_s, name): each.line(name, periodic_staleness) for each in both for name in SCHEDULERS}
    above = [ws / serial for t in (1, 5) for ws, serial in zip(lines[t, "WS"], lines[t, "Serial"], strict=True)]
    judge(console, "Serial is slightly better than WS", 1 < mean(above) < 1.1, f"WS at {spread(above)} of Serial")

    panels += show_figure(console, "figure 7.10: inter-execution time, s", both, inter_execution)
    ratios = {name: against_serial(both, name, inter_execution) for name in ("WS", "LWS", "TTU")}
    close = max(*ratios["WS"], *ratios["TTU"])
    judge(console, "Serial is best, WS and TTU very closely behind", close < 1.05, f"at most {close:.3f} of Serial")
    judge(console, "LWS is worst", min(ratios["LWS"]) > close, f"{spread(ratios['LWS'])} times Serial")

    panels += show_figure(console, "figure 7.11: throughput, reads/s", both, throughput, places=3)
    lost = [1 - ratio for ratio in against_serial(both, "TTU", throughput)]
    judge(console, "TTU loses at most 4 % to Serial", max(lost) <= LOST_WANTED, f"{spread(lost, percent=True)}")
    lower = [min(against_serial(both, name, throughput)) for name in OTHERS]
    least = against_serial(both, "LWS", throughput)
    judge(console, "LWS is lower in all cases", max(least) < min(lower), f"{spread(least, percent=True)} of Serial")
    show_plot(console, "papers-golab2006-ch7_9_11", panels)


def judge_staleness(console: Console, runs: Sequence[Runs], figure: Figure) -> None:
    cases = [(each, count) for each in runs for count in each.sub_windows]
    found = [{name: each.mean(name, count, figure) for name in SCHEDULERS} for each, count in cases]
    gains = [min(at["WS"], at["Serial"]) / max(at["TTU"], at["LWS"]) for at in found]
    met = min(gains) > 1 / SAME and max(gains) > SAME
    judge(console, "TTU and LWS are fresher than WS and Serial", met, f"{spread(gains)} times")
    behind = [at["TTU"] / min(at.values()) for at in found]
    judge(console, "TTU is the freshest in all cases", max(behind) < SAME, f"at most {max(behind):.3f} of the freshest")


def against_serial(runs: Sequence[Runs], name: str, figure: Figure) -> list[float]:
    return [
        each.mean(name, count, figure) / each.mean("Serial", count, figure)
        for each in runs
        for count in each.sub_windows
    ]


def spread(values: Sequence[float], percent: bool = False) -> str:
    scale, unit = (100, " %") if percent else (1, "")
    return f"{scale * min(values):.2f}{unit} to {scale * max(values):.2f}{unit}"


# -- figures 7.12 to 7.14 ----------------------------------------------------------------------------------------------


def response(measured: MeasuredTrial) -> float:
    return mean(measured.response_s)


def one_time_staleness(measured: MeasuredTrial) -> float:
    return measured.staleness(Priority.ONE_TIME)


def mixed_queries(console: Console, mixed: Runs) -> None:
    console.print(f"{QUERIES[5]} periodic queries and one-time queries, one a second on average; t = 5 s")
    panels = show_figure(console, "figure 7.12: response time of one-time queries, s", (mixed,), response, places=3)
    lines = {name: mixed.line(name, response) for name in SCHEDULERS}
    alike = [ttu / ws for ttu, ws in zip(lines["TTU"], lines["WS"], strict=True)]
    judge(console, "TTU and WS are best and nearly the same", 0.9 < min(alike) <= max(alike) < 1.1, f"{spread(alike)}")
    longer = [lws / ttu for lws, ttu in zip(lines["LWS"], lines["TTU"], strict=True)]
    told = f"{spread(longer)} times TTU; one-time queries are short here beside t, and few meet a move"
    judge(console, "LWS takes noticeably longer", min(longer) > SAME, told)
    longest = [serial / ttu for serial, ttu in zip(lines["Serial"], lines["TTU"], strict=True)]
    judge(console, "Serial is worst", min(longest) > max(1, *longer), f"{spread(longest)} times TTU")

    panels += show_figure(console, "figure 7.13: staleness of one-time queries, s", (mixed,), one_time_staleness)
    judge_staleness(console, (mixed,), one_time_staleness)
    panels += show_figure(console, "figure 7.14: staleness of periodic queries, s", (mixed,), periodic_staleness)
    judge_staleness(console, (mixed,), periodic_staleness)
    aborted = sum(measured.aborted for trials in mixed.trials["TTU"].values() for measured in trials)
    judge(console, "TTU still aborts nothing", aborted == 0, f"{aborted} reads")
    show_plot(console, "papers-golab2006-ch7_12_14", panels)


# -- section 7.4.2: re-scans instead of aborts -------------------------------------------------------------------------


def rescans(console: Console, quick: bool) -> None:
    makers: dict[str, Callable[[int], Scheduler]] = {
        "LWS": lambda count: LatestWindowScheduler(count, order=by_sub_window, on_conflict=OnConflict.RESCAN),
        "TTU": lambda count: LatestWindowScheduler(count, on_conflict=OnConflict.RESCAN),
    }
    cells, total = [], dict.fromkeys(makers, 0)
    for count in (10, 50) if quick else SUB_WINDOWS:
        workload = random_workload(count, 1, one_time=False, trial=0)
        found = {name: Simulation(make(count), workload, COSTS, False, False).run() for name, make in makers.items()}
        cells.append([str(count), *(f"{100 * each.rescans / each.committed:.1f}" for each in found.values())])
        for name, each in found.items():
            total[name] += each.rescans
            assert not each.aborted, "nothing is aborted where old copies are kept"
    show_table(console, "re-scans of old copies per 100 reads, t = 1 s", ["sub-windows", *makers], cells)
    judge(
        console, "TTU needs the fewest re-scans", total["TTU"] <= total["LWS"], f"{total['TTU']} against {total['LWS']}"
    )


# -- what a decision takes here ----------------------------------------------------------------------------------------


def decisions(console: Console) -> None:
    count, rounds = 100, 20
    cells, slowest = [], 0.0
    for name, scheduler in SCHEDULERS.items():
        own = scheduler.make(count)
        began = time.perf_counter()
        for number in range(rounds):
            own.begin(WindowRead(f"Q{number}", count))
            while own.next_step(f"Q{number}") is not None:
                pass
            own.commit(f"Q{number}")
            own.move()
        each = (time.perf_counter() - began) / (rounds * (count + 1))
        slowest = max(slowest, each)
        cells.append([name, f"{1e6 * each:.1f}"])
    show_table(console, "time of a decision here, 100 sub-windows", ["scheduler", "microseconds"], cells)
    told = f"{1e6 * slowest:.1f} of the {1e6 * DECISION_S:.0f} microseconds that the simulation charges"
    judge(console, "the overhead is negligible", slowest < DECISION_S, told)
