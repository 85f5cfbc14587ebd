"""Multi-query optimization of sliding-window aggregates: Shein and Chrysanthis 2020, section 5.

    experiments 1 to 5   the cost of plans against the number of queries, the longest slide, the greatest overlap, the
                         rate of rows and the skew of slides (table 4, figures 17 to 21), in operations, for each
                         technique under WeaveShare and TriWeave; and the trees that plans have on average
    greedy and optimum   what best pairs cost in optima, over random sets of up to 8 queries
    figure 16            seconds of planning against the number of queries, by the method of counting edges
    experiments 6 and 7  throughput as the calibrated model estimates it, against that of executing the plans
                         (`plan_execution.py`), at the middle point of the others (figures 22 and 23)

Plans of one technique never mix it with others, as in the paper. The figures to hold against: SlickDeque up to 270,000
times cheaper than Panes; 16.0, 15.7, 10.3 and 4.8 trees for Panes, FlatFAT, FlatFIT and SlickDeque; estimates off by
31 % for WeaveShare and 14 % for TriWeave. Deviations are relative to what was measured: plainly, in results a second,
and after the paper's way of making the largest readings equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from panewise.optimize.sharing.costs.calibration import calibrated
from panewise.optimize.sharing.costs.weave_costs import CalibratedModel, OperationModel
from panewise.optimize.sharing.weave.strands import CadenceColumns
from panewise.optimize.sharing.weave.weaving import weave
from papers.plots import Panel
from papers.shein2020.optimum import compare
from papers.shein2020.plan_execution import ExecutedPlan, calibrated_with_long_windows, model_of, push_of
from papers.shein2020.workload_plans import (
    EXPERIMENTS,
    METHODS,
    OPTIMIZERS,
    TECHNIQUES,
    QueryWorkload,
    arbitrary,
    cost_by,
    experiment_costs,
    planning_seconds,
)
from papers.shown import figures_console, show_plot, show_table

DEVIATION_OF_PAPER = {"weave_share": 0.31, "tri_weave": 0.14}
DEVIATION_WANTED = 0.15
TREES_OF_PAPER = {"panes": "16.0", "flat_fat": "15.7", "flat_fit": "10.3", "slick_deque": "4.8"}
RUNS = 10
EXECUTED = 3  # random workloads whose plans are executed
SETS_COMPARED = 300
QUERIES_PLANNED = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
ARBITRARY_PLANNED = (10, 30, 100, 1_000, 10_000)


def run(quick: bool, folder: Path | None) -> int:
    console = figures_console()
    plan_costs(console, quick)
    wrong = greedy_against_optimum(console, quick)
    wrong |= planning_time(console, quick)
    throughput(console, quick)
    return int(wrong)


def _aim(console: Console, what: str, met: bool) -> None:
    console.print(f"  {'met   ' if met else 'MISSED'}  {what}", style="green" if met else "bold red")


# -- experiments 1 to 5 ------------------------------------------------------------------------------------------------


def plan_costs(console: Console, quick: bool) -> None:
    seeds = 2 if quick else RUNS
    trees: dict[tuple[str, str], list[float]] = {}
    cheaper = 0.0
    for experiment in EXPERIMENTS:
        found = experiment_costs(experiment, seeds)
        values = [f"{value:,g}" for value in experiment.values]
        for optimizer, name in OPTIMIZERS.items():
            rows = [[t, *(f"{cost:,.4g}" for cost in found.costs[t, optimizer])] for t in TECHNIQUES]
            title = f"experiment {experiment.number}: cost of {name}'s plans in operations a unit, {seeds} runs"
            show_table(console, title, [experiment.title, *values], rows)
            best = np.minimum(found.costs["slick_deque", optimizer], found.costs["slick_deque_inv", optimizer])
            cheaper = max(cheaper, float((np.array(found.costs["panes", optimizer]) / best).max()))
        panels = [
            Panel(
                f"experiment {experiment.number}: {name}",
                experiment.title,
                "operations / unit",
                {t: (experiment.values, found.costs[t, optimizer]) for t in TECHNIQUES},
                log_x=experiment.log_x,
                log_y=True,
            )
            for optimizer, name in OPTIMIZERS.items()
        ]
        show_plot(console, f"papers-shein2020_{experiment.number}", panels)
        for key, counts in found.trees.items():
            trees.setdefault(key, []).extend(counts)
    rows = [
        [t, *(f"{np.mean(trees[t, optimizer]):.1f}" for optimizer in OPTIMIZERS), TREES_OF_PAPER.get(t, "4.8")]
        for t in TECHNIQUES
    ]
    show_table(
        console, "trees of a plan, on average of all runs", ["technique", *OPTIMIZERS.values(), "the paper"], rows
    )
    console.print(f"SlickDeque's plans are up to {cheaper:,.0f} times cheaper than Panes' (the paper: 270,000)")


# -- greedy and optimum ------------------------------------------------------------------------------------------------


def greedy_against_optimum(console: Console, quick: bool) -> bool:
    """Returns whether some greedy plan was cheaper than the optimum, which cannot be."""
    rows, wrong = [], False
    count = 20 if quick else SETS_COMPARED
    for optimizer, name in OPTIMIZERS.items():
        ratios = compare(4, count, optimizer, most=5 if quick else 8)
        wrong |= bool((ratios < 1 - 1e-9).any())
        optimal = np.count_nonzero(ratios < 1 + 1e-9) / count
        rows.append([name, f"{ratios.mean():.4f}", f"{ratios.max():.4f}", f"{100 * optimal:.0f} %"])
    title = f"best pairs against the best of all partitions: {count} random sets of up to {5 if quick else 8} queries"
    show_table(console, title, ["optimizer", "mean ratio", "worst ratio", "optimal"], rows)
    return wrong


# -- figure 16 ---------------------------------------------------------------------------------------------------------


def planning_time(console: Console, quick: bool) -> bool:
    """Returns whether methods gave plans of different numbers of trees."""
    panels, wrong = [], False
    sets = {
        "slides among the factors of 1,000": QUERIES_PLANNED[: 3 if quick else None],
        "slides from 1 to 1,000": ARBITRARY_PLANNED[: 2 if quick else None],
        "slides from 1 to 1,000, with offsets": ARBITRARY_PLANNED[: 2 if quick else None],
    }
    for place, (title, sizes) in enumerate(sets.items()):
        planning_seconds(_planned(place, sizes[0]), "auto")  # everything is loaded
        lines: dict[str, tuple[list[float], list[float]]] = {}
        rows = []
        trees: dict[int, set[int]] = {}
        for method, name in METHODS.items():
            found = {size: planning_seconds(_planned(place, size), method) for size in sizes}
            rows.append([name, *(f"{seen[0]:.3f} s, {seen[1]}" if seen else "-" for seen in found.values())])
            timed = {size: seen for size, seen in found.items() if seen}
            lines[name] = [float(size) for size in timed], [seen[0] for seen in timed.values()]
            for size, seen in timed.items():
                trees.setdefault(size, set()).add(seen[1])
        columns = ["queries", *(f"{size:,}" for size in sizes)]
        show_table(
            console, f"figure 16: seconds of planning and trees, {title} (-: the method does not apply)", columns, rows
        )
        panels.append(Panel(title, "queries", "seconds", lines, log_x=True, log_y=True))
        wrong |= any(len(counts) > 1 for counts in trees.values())
    _aim(console, "all methods that apply give as many trees", not wrong)
    show_plot(console, "papers-shein2020_16", panels)
    return wrong


def _planned(place: int, size: int) -> CadenceColumns:
    return QueryWorkload(queries=size).drawn(16) if place == 0 else arbitrary(size, offsets=place == 2)


# -- experiments 6 and 7 -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ThroughputReading:
    """Results a second of one technique's plans, on average: by three models, and as measured."""

    technique: str
    trees: float
    estimated: float  # by curves that were fitted to long windows too
    by_kept: float  # by the calibration that the machine keeps
    by_operations: float  # the reciprocal of the cost
    measured: float


def throughput(console: Console, quick: bool) -> None:
    workload = QueryWorkload(queries=20, slide_max=20, overlap_max=20) if quick else QueryWorkload()
    kept = calibrated()
    machine = kept if quick else calibrated_with_long_windows(kept)
    panels = []
    for number, (optimizer, name) in enumerate(OPTIMIZERS.items(), start=6):
        seeds, seconds = (1, 0.02) if quick else (EXECUTED, 2.0)
        readings = [mean_reading(workload, machine, kept, t, optimizer, seeds, seconds) for t in TECHNIQUES]
        rows = [
            [r.technique, f"{r.trees:.1f}", *(f"{rate:,.0f}" for rate in (r.by_kept, r.estimated, r.measured)),
             f"{100 * (r.estimated / r.measured - 1):+.0f} %"]
            for r in readings
        ]  # fmt: skip
        title = f"experiment {number}: {name}, results a second, {seeds} plans for {workload.queries} queries"
        columns = ["technique", "trees", "estimated, short windows", "estimated", "measured", "deviation"]
        show_table(console, title, columns, rows)
        _deviations(console, optimizer, readings, quick)
        lines = {
            "estimated": (range(len(TECHNIQUES)), [r.estimated for r in readings]),
            "measured": (range(len(TECHNIQUES)), [r.measured for r in readings]),
        }
        panels.append(Panel(f"experiment {number}: {name}", ", ".join(TECHNIQUES), "results / s", lines, log_y=True))
    show_plot(console, "papers-shein2020_6", panels)


def _deviations(console: Console, optimizer: str, readings: list[ThroughputReading], quick: bool) -> None:
    measured = [r.measured for r in readings]
    scaled = {}
    for model, estimated in {
        "calibrated": [r.estimated for r in readings],
        "calibrated by short windows": [r.by_kept for r in readings],
        "operations": [r.by_operations for r in readings],
    }.items():
        scaled[model] = deviation(same_largest(estimated, measured), measured)
        plain = "" if model == "operations" else f", {100 * deviation(estimated, measured):.0f} % plainly"
        console.print(f"average deviation, {model}: {100 * scaled[model]:.0f} % with equal largest readings{plain}")
    if not quick:
        said = f"below {100 * DEVIATION_WANTED:.0f} % (the paper: {100 * DEVIATION_OF_PAPER[optimizer]:.0f} %)"
        _aim(console, said, scaled["calibrated"] < DEVIATION_WANTED)


def mean_reading(
    workload: QueryWorkload, machine: CalibratedModel, kept: CalibratedModel, technique: str, optimizer: str,
    seeds: int, seconds: float,
) -> ThroughputReading:  # fmt: skip
    """Over so many random workloads, the same for every technique and optimizer."""
    found = [
        reading(workload.drawn(s), workload.rate, machine, kept, technique, optimizer, seconds) for s in range(seeds)
    ]
    return ThroughputReading(technique, *(float(mean) for mean in np.mean(found, axis=0)))


def reading(
    columns: CadenceColumns, rate: float, machine: CalibratedModel, kept: CalibratedModel, technique: str,
    optimizer: str, seconds: float,
) -> tuple[float, ...]:  # fmt: skip
    """The numbers of a ThroughputReading: the plan is made with the calibrated model, priced by all, and executed."""
    cadences = [columns[place] for place in range(len(columns))]
    models = [model_of(model, technique, push_of(cadences)) for model in (machine, kept)]
    plan = weave(columns, rate, models[0], [technique], optimizer)
    executed = ExecutedPlan(plan, technique, cadences, optimizer == "tri_weave")
    results = executed.results / executed.push_units
    estimated, by_kept, operations = (
        cost_by(model, cadences, plan, technique, optimizer, rate) for model in (*models, OperationModel())
    )
    measured = executed.measured(seconds).results_per_s
    return len(plan.trees), results / estimated * 1e9, results / by_kept * 1e9, 1 / operations, measured


def same_largest(estimated: Sequence[float], measured: Sequence[float]) -> list[float]:
    """The estimates in the scale in which the largest of them is the largest measured one."""
    return [value * max(measured) / max(estimated) for value in estimated]


def deviation(estimated: Sequence[float], measured: Sequence[float]) -> float:
    """The mean distance of estimates from what was measured, in that."""
    return float(np.mean([abs(guess / found - 1) for guess, found in zip(estimated, measured, strict=True)]))
