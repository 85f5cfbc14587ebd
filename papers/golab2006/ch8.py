"""Schedules of periodic queries over synopses: Golab 2006, the costs of section 8.4.4, and figures 8.7 to 8.10.

    schedule_costs      section 8.4.4: what each of the five ways to schedule G1,1, G1,2 and G1,3 costs a minute
    compare_techniques  figures 8.7 to 8.10: throughput and latency of six techniques, 40 to 240 queries, two rates
    other_finish_work   how the comparison changes with a number that the thesis does not give

The figures come from a simulation (`ch8_simulation`), so they are the same on every machine. Two numbers are
ours, because the thesis gives neither; both were chosen after a look at several. The speed of the processor: it can do
just what conservative scheduling of 40 queries asks for on average at the low rate, since the thesis finds that one
overloaded "even for a small number of queries". And the work that each query does by itself after a shared scan: the
more of it, the less sharing helps, which `other_finish_work` shows. Every figure is the mean of several random
workloads. Sentences on agreement are judged by the figures ("doubles" from 1.75 times on, "a tenth" from 5 times less);
the exit code is about costs, which may not differ.

One finding differs for a reason that the cost model shows: where shared scans are most of the work, aggressive
scheduling, which shares all of them, refreshes most queries a second. The thesis has it behind late-pending sharing at
the high rate; so it is here where the work after the scan is great, and there hybrid gains little on conservative.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from rich.console import Console

from panewise.schedule.periodic.hybrid import hybrid_plan, hybrid_tasks, plan_cost
from panewise.schedule.periodic.periodic_tasks import PeriodicQuery, Task, groups, sub_groups
from panewise.schedule.periodic.sharing_techniques import TECHNIQUES
from papers.golab2003.random_streams import judge
from papers.golab2006.ch8_simulation import (
    BASE_RATE,
    FINISH_WORK,
    GROUPS,
    MeasuredSchedule,
    ScheduleWorkload,
    random_workload,
    simulate,
)
from papers.plots import Panel
from papers.shown import figures_console, show_plot, show_table

# Of section 8.4.3: windows and slides in minutes; over a basic interval synopsis a window of w costs w - 1 comparisons.
EXAMPLE = tuple(
    PeriodicQuery(f"Q{number}", "G1", slide, window - 1)
    for number, (window, slide) in enumerate(
        [(10, 2), (5, 2), (6, 2), (15, 3), (12, 3), (20, 5), (30, 5)], start=1
    )
)  # fmt: skip
# What the periods of G1,1, G1,2 and G1,3 become, and the cost per minute in the thesis, which misprints 11.93 as 11.63.
PRINTED: dict[tuple[int, int, int], float] = {
    (2, 3, 5): 11.93,
    (2, 2, 5): 11.4,
    (2, 2, 2): 14.5,
    (2, 3, 3): 12.67,
    (2, 3, 2): 16.83,
}
PER_GROUP = (5, 10, 20, 30)
SEEDS = (1, 2, 3)
FINISH_WORKS = (0.0, 0.05, FINISH_WORK, 0.3, 1.0)
RATES = (BASE_RATE, 2 * BASE_RATE)
PLAN_STATES_MAX = 64  # with 256, plans of these workloads were cheaper by 1.4 in a hundred at most


@dataclass(frozen=True)
class Means:
    """Of several workloads."""

    throughput: float
    latency: float
    tasks: float

    @classmethod
    def of(cls, runs: Sequence[MeasuredSchedule]) -> Means:
        return cls(
            fmean(run.throughput for run in runs), fmean(run.latency for run in runs), fmean(run.tasks for run in runs)
        )


Found = Mapping[int, Mapping[str, Means]]
"""By the number of queries and the technique."""


def run(quick: bool, folder: Path | None) -> int:
    console = figures_console()
    agrees = schedule_costs(console)
    compare_techniques(console, quick)
    other_finish_work(console, quick)
    return int(not agrees)


# -- section 8.4.4 -----------------------------------------------------------------------------------------------------


def schedule_costs(console: Console) -> bool:
    subs = sub_groups(EXAMPLE)
    alone, together = plan_cost(subs[:2]), plan_cost(_merged(subs[:2], (2, 2)))
    cells = [["G1,1 and G1,2 apart", "7.67", f"{alone:.2f}"], ["G1,1 and G1,2 together", "7", f"{together:.2f}"]]
    same = round(alone, 2) == 7.67 and together == 7
    for periods, printed in PRINTED.items():
        cost = plan_cost(_merged(subs, periods))
        same &= round(cost, 2) == printed
        cells.append([f"all three, periods {periods}", f"{printed:g}", f"{cost:.2f}"])
    show_table(console, "section 8.4.4: cost per minute of schedules", ["schedule", "thesis", "computed"], cells)
    plan = hybrid_plan(subs)
    best = sorted(task.period for task in plan.tasks) == [2, 5]
    judge(console, "hybrid scheduling gives G1,2 the period of G1,1", best, f"{plan.cost:g} per minute")
    if not same:
        console.print("[red]costs differ from those of section 8.4.4[/]")
    return same and best


def _merged(subs: Sequence[Task], periods: Sequence[int]) -> list[Task]:
    """The tasks of sub-groups that take these periods."""
    return [
        Task(
            subs[0].group, period, tuple(q for sub, own in zip(subs, periods, strict=True) if own == period
            for q in sub.queries),
        )
        for period in sorted(set(periods))
    ]  # fmt: skip


# -- figures 8.7 to 8.10 -----------------------------------------------------------------------------------------------


def compare_techniques(console: Console, quick: bool) -> None:
    per_group, seeds, seconds = ((5, 20), SEEDS[:1], 100) if quick else (PER_GROUP, SEEDS, 600)
    speed = fmean(demand(random_workload(BASE_RATE, PER_GROUP[0], seed)) for seed in seeds)
    console.print(f"a processor that merges {speed:,.0f} counters a second; {len(seeds)} x {seconds} simulated seconds")
    found: dict[int, Found] = {}
    panels = []
    for rate, figure in zip(RATES, (7, 9), strict=True):
        found[rate] = {
            len(GROUPS) * size: _all_techniques(rate, size, speed, seconds, seeds) for size in per_group
        }  # fmt: skip
        for number, what, unit, digits in (
            (figure, "throughput", "queries/s", 1), (figure + 1, "latency", "updates", 2),
        ):  # fmt: skip
            title = f"figure 8.{number}: {what} at {rate:,} rows/s"
            values = {name: [float(getattr(own[name], what)) for own in found[rate].values()] for name in TECHNIQUES}
            cells = [[name, *(f"{value:.{digits}f}" for value in line)] for name, line in values.items()]
            columns = ["technique", *(f"{count} queries" for count in found[rate])]
            show_table(console, f"{title}, {unit}", columns, cells)
            lines = {name: (list(map(float, found[rate])), line) for name, line in values.items()}
            panels.append(Panel(title, "queries", unit, lines))
        (_judge_low if rate == BASE_RATE else _judge_high)(console, found[rate], found[BASE_RATE])
    show_plot(console, "papers-golab2006-ch8_7_10", panels)


def _all_techniques(rate: int, per_group: int, speed: float, seconds: int, seeds: Sequence[int]) -> dict[str, Means]:
    runs: dict[str, list[MeasuredSchedule]] = {name: [] for name in TECHNIQUES}
    for seed in seeds:
        for name, measured in _runs(random_workload(rate, per_group, seed), speed, seconds):
            runs[name].append(measured)
    return {name: Means.of(own) for name, own in runs.items()}


def other_finish_work(console: Console, quick: bool) -> None:
    """With the same speed throughout: only what queries do by themselves changes."""
    per_group, seconds = (5, 60) if quick else (20, 300)
    speed = demand(random_workload(BASE_RATE, PER_GROUP[0]))
    cells = []
    for finish_work in FINISH_WORKS:
        low, high = (
            dict(_runs(random_workload(rate, per_group, 1, finish_work), speed, seconds)) for rate in RATES
        )  # fmt: skip
        cells.append([
            f"{finish_work:g}", f"{low['HS'].throughput / low['CS'].throughput:.2f}",
            f"{low['CS'].latency / max(low['HS'].latency, 0.01):.1f}",
            f"{high['H-LP'].throughput / high['HS'].throughput:.2f}",
            f"{high['H-LP'].throughput / high['AS'].throughput:.2f}",
            f"{high['AS'].latency / max(high['H-LP'].latency, 0.01):.2f}",
        ])  # fmt: skip
    columns = ["work", "low: HS / CS", "latency CS / HS", "high: H-LP / HS", "H-LP / AS", "latency AS / H-LP"]
    title = f"ratios with {len(GROUPS) * per_group} queries, by the work of a query of its own for a counter"
    show_table(console, title, columns, cells)


def _runs(workload: ScheduleWorkload, speed: float, seconds: int) -> Iterator[tuple[str, MeasuredSchedule]]:
    """Every technique, by name."""
    shortened = hybrid_tasks(workload.queries, PLAN_STATES_MAX)
    for name, technique in TECHNIQUES.items():
        tasks = shortened if technique.tasks_of is hybrid_tasks else technique.tasks_of(workload.queries)
        yield name, simulate(workload, tasks, technique.choose, speed, seconds)


def demand(workload: ScheduleWorkload) -> float:
    """Work a second that conservative scheduling needs to be in time."""
    queries = sum(plan_cost(sub_groups(members)) for members in groups(workload.queries))
    return queries + workload.update + workload.one_time


def _judge_low(console: Console, found: Found, _: Found) -> None:
    most = found[max(found)]
    slow = [count for count, own in found.items() if _slowest(own, 2) == {"No-S", "CS"}]
    told = f"with {', '.join(map(str, slow)) or 'no number of'} queries"
    judge(console, "no sharing and conservative have the lowest throughput", len(slow) == len(found), told)
    gaps = [own["CS"].throughput - own["No-S"].throughput for own in found.values()]
    judge(console, "the gap between them grows with the queries", gaps[-1] > gaps[0], _listed(gaps, "{:.1f}"))
    gain = max(own["HS"].throughput / own["CS"].throughput for own in found.values())
    judge(console, "hybrid doubles the throughput of conservative", gain >= 1.75, f"up to {gain:.2f} times")
    drop = max(own["CS"].latency / max(own["HS"].latency, 0.01) for own in found.values())
    judge(console, "and has about a tenth of its latency", drop >= 5, f"up to {drop:.1f} times less")
    tasks = most["HS"].tasks / most["CS"].tasks
    judge(console, "hybrid needs half of the tasks", tasks <= 0.6, f"{most['HS'].tasks:.0f} of {most['CS'].tasks:.0f}")
    more = [own["H-LP"].throughput / own["HS"].throughput for own in found.values()]
    judge(
        console, "late-pending sharing adds to hybrid as queries grow", more[-1] > max(1.0, more[0]),
        _listed(more, "{:.2f}") + " times",
    )  # fmt: skip
    good = all(own["AS"].throughput > own["CS"].throughput for own in found.values())
    judge(console, "aggressive has a good throughput", good, f"{most['AS'].throughput:.1f} queries/s")
    poor = all(own["AS"].latency > own["HS"].latency for own in found.values())
    latencies = [f"{own['AS'].latency:.2f} against {own['HS'].latency:.2f}" for own in found.values()]
    judge(console, "aggressive has a poor latency, above hybrid's", poor, "; ".join(latencies))


def _judge_high(console: Console, found: Found, low: Found) -> None:
    pairs = [(own[name], low[count][name]) for count, own in found.items() for name in TECHNIQUES]
    worse = [high.latency >= slow.latency and high.throughput <= slow.throughput for high, slow in pairs]
    judge(
        console, "all have a higher latency and a lower throughput than at the low rate", all(worse),
        f"{sum(worse)} of {len(worse)}",
    )  # fmt: skip
    worst = all(max(own, key=lambda name: own[name].latency) == "No-S" for own in found.values())
    told = f"{max(own['No-S'].latency for own in found.values()):.0f} updates"
    judge(console, "no sharing has the highest latency by far", worst, told)
    gain = [own["H-LP"].throughput / own["HS"].throughput for own in found.values()]
    judge(
        console, "late-pending sharing more than doubles the throughput of hybrid", max(gain) > 2,
        _listed(gain, "{:.2f}") + " times",
    )  # fmt: skip
    for what, best in (("throughput", max), ("latency", min)):
        winners = [best(own, key=lambda name: getattr(own[name], what)) for own in found.values()]
        behind = [best(set(own) - {"AS"}, key=lambda name: getattr(own[name], what)) for own in found.values()]
        told = f"{', '.join(winners)}; but for aggressive {', '.join(behind)}"
        judge(console, f"late-pending sharing is the best in {what}", set(winners) == {"H-LP"}, told)
    kept = {name: found[max(found)][name].throughput / low[max(low)][name].throughput for name in TECHNIQUES}
    told = f"to {kept['AS']:.0%} of that at the low rate, late-pending to {kept['H-LP']:.0%}"
    judge(console, "the throughput of aggressive drops significantly", kept["AS"] < min(0.6, kept["H-LP"]), told)


def _slowest(own: Mapping[str, Means], count: int) -> set[str]:
    return set(sorted(own, key=lambda name: own[name].throughput)[:count])


def _listed(values: Sequence[float], form: str) -> str:
    return ", ".join(form.format(value) for value in values)
