"""Orders and algorithms of multi-way window joins: Golab 2006, tables 5.3 to 5.6 by formula, figures 5.2 to 5.4 run.

    order_costs         figure 5.2: four orders, by eight algorithms, each relative to the best order
    interval_costs      figures 5.3 and 5.4: milliseconds per 1,000 rows against the interval, of nested loops, and of
                        hash tables of 2 and 5 buckets

The streams are those of table 5.5 with a rate of 10 for the first, to which its costs belong. "Eager" is algorithm 2,
with lazy expiration 3 (`ReferenceJoin` compares times in both); "lazy" and "lazyR" are algorithms 4 and 5. The thesis
does not say what the fourth order of figure 5.2 is: here it is the worst. Sentences on agreement are judged by the
figures; the exit code is about formulas and numbers of results, which may not differ.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise, permutations
from pathlib import Path

import numpy as np
from rich.console import Console

from papers.golab2003.join_cost_tables import TABLES_001, named, tables_of_2006
from papers.golab2003.join_strategies import Strategy
from papers.golab2003.random_streams import Cost, RandomStreams, judge
from papers.plots import Panel
from papers.shown import figures_console, show_plot, show_table

TABLE_5_5 = TABLES_001[1]
BEST = (1, 0, 2, 3)
ORDERS = (BEST, (0, 1, 2, 3), (1, 2, 3, 0))
INTERVAL = 10.0  # of figure 5.2
INTERVALS = (0, 1, 2, 5, 10, 15, 20, 30, 40, 50)

Algorithm = Callable[[RandomStreams, Sequence[int], int, float, int], Cost]
"""Of streams, an order, buckets per window, an interval in units and repeats."""


def eager(streams: RandomStreams, order: Sequence[int], buckets: int, interval: float, repeats: int) -> Cost:
    """Algorithm 2; 3 where rows are expired every interval."""
    return streams.cost(Strategy.EAGER, order=order, buckets=buckets, expiration=interval, repeats=repeats)


def lazy(streams: RandomStreams, order: Sequence[int], buckets: int, interval: float, repeats: int) -> Cost:
    """Algorithm 4."""
    return streams.cost(Strategy.GROUPED_LAZY, order=order, buckets=buckets, interval=interval, repeats=repeats)


def lazy_restore(streams: RandomStreams, order: Sequence[int], buckets: int, interval: float, repeats: int) -> Cost:
    """Algorithm 5."""
    return streams.cost(Strategy.GROUPED_RESTORE, order=order, buckets=buckets, interval=interval, repeats=repeats)


def run(quick: bool, folder: Path | None) -> int:
    console = figures_console()
    agrees = tables_of_2006(console)
    same = order_costs(console, quick)
    same &= interval_costs(console, quick)
    if not same:
        console.print("[red]joins of the same streams gave different numbers of results[/]")
    return int(not (agrees and same))


# -- figure 5.2 --------------------------------------------------------------------------------------------------------


def order_costs(console: Console, quick: bool) -> bool:
    costs = TABLE_5_5.costs()
    orders = (*ORDERS, max(permutations(range(4)), key=costs.of_global_order))
    streams = RandomStreams(TABLE_5_5.streams, 50 if quick else 300)
    algorithms: dict[str, tuple[Algorithm, float]] = {
        "eager": (eager, 0), "eager, lazy expiration": (eager, INTERVAL), "lazy": (lazy, INTERVAL),
        "lazyR": (lazy_restore, INTERVAL),
    }  # fmt: skip
    found = {
        f"{name}{', hash' if buckets > 1 else ''}": [
            algorithm(streams, order, buckets, interval, 1 if quick else 3) for order in orders
        ]
        for buckets in (1, 10)
        for name, (algorithm, interval) in algorithms.items()
    }
    predicted = [costs.of_global_order(order) / costs.of_global_order(BEST) for order in orders]
    relative = {name: [cost.seconds / own[0].seconds for cost in own] for name, own in found.items()}
    cells = [["predicted", *(f"{ratio:.2f}" for ratio in predicted), ""]]
    for name, own in found.items():
        ratios = [
            f"{ratio:.2f} ({cost.visits / own[0].visits:.2f})" for ratio, cost in zip(relative[name], own, strict=True)
        ]
        cells.append([name, *ratios, f"{_milliseconds(own[0]):.3f}"])
    title = "figure 5.2: time (rows looked at) relative to the best order, intervals of 10, hash tables of 10 buckets"
    show_table(console, title, ["algorithm", *map(named, orders), f"ms per 1,000 rows, {named(BEST)}"], cells)
    _judge_orders(console, predicted, relative)
    exact = {cost.results for name, own in found.items() if "lazyR" in name or "eager" in name for cost in own}
    lost = {cost.results for name, own in found.items() if name in ("lazy", "lazy, hash") for cost in own}
    share = 1 - min(lost) / max(exact)
    judge(console, "without restore few results are lost", 0 <= share < 0.2, f"{share:.1%} of {max(exact):,}")
    return len(exact) == 1 and len(lost) == 1 and share >= 0


def _judge_orders(console: Console, predicted: list[float], relative: Mapping[str, list[float]]) -> None:
    ranks = np.argsort(predicted).tolist()
    alike = [name for name, ratios in relative.items() if np.argsort(ratios).tolist() == ranks]
    judge(console, "all algorithms rank the orders as predicted", len(alike) == len(relative), f"{len(alike)} of 8")
    less = [name for name, ratios in relative.items() if max(ratios) < max(predicted)]
    told = f"{min(map(max, relative.values())):.2f} to {max(map(max, relative.values())):.2f} times"
    judge(
        console, f"orders differ less than predicted, {max(predicted):.2f} times", len(less) == len(relative),
        f"{told}; less with {len(less)} of 8",
    )  # fmt: skip
    distance = {name: float(np.mean(np.abs(np.log(np.array(own) / predicted)))) for name, own in relative.items()}
    nearest = min(distance, key=distance.__getitem__)
    judge(
        console, "eager with lazy expiration is nearest to the prediction", nearest == "eager, lazy expiration", nearest
    )
    smaller = [
        name
        for name, own in relative.items()
        if f"{name}, hash" in relative and max(relative[f"{name}, hash"]) < max(own)
    ]
    judge(console, "orders differ less with hash tables", len(smaller) == 4, f"for {len(smaller)} of 4 algorithms")


def _milliseconds(cost: Cost) -> float:
    """Per 1,000 rows."""
    return 1e6 / cost.rows_per_s


# -- figures 5.3 and 5.4 -----------------------------------------------------------------------------------------------


def interval_costs(console: Console, quick: bool) -> bool:
    intervals = (0, 5, 20, 50) if quick else INTERVALS
    repeats = 1 if quick else 3
    panels, exact = [], set()
    for buckets in (1, 2, 5):
        streams = RandomStreams(TABLE_5_5.streams, 100 if quick else 500)
        found = {
            name: {tau: algorithm(streams, BEST, buckets, tau, repeats) for tau in intervals if tau or name == "eager"}
            for name, algorithm in {"eager": eager, "lazy": lazy, "lazyR": lazy_restore}.items()
        }
        figure = "figure 5.3: nested loops" if buckets == 1 else f"figure 5.4: hash tables of {buckets} buckets"
        cells = [
            [
                str(t),
                *(f"{_milliseconds(own[t]):.3f} ({own[t].visits:,.0f})" if t in own else "-" for own in found.values()),
            ]
            for t in intervals
        ]
        show_table(console, f"{figure}; ms per 1,000 rows (rows looked at per unit)", ["interval", *found], cells)
        times = {name: {tau: _milliseconds(cost) for tau, cost in own.items()} for name, own in found.items()}
        lines = {name: (list(own), list(own.values())) for name, own in times.items()}
        panels.append(Panel(figure, "interval", "ms / 1,000 rows", lines))
        _judge_intervals(console, buckets, times)
        exact |= {cost.results for name in ("eager", "lazyR") for cost in found[name].values()}
    show_plot(console, "papers-golab2006-ch5_3_4", panels)
    return len(exact) == 1


def _judge_intervals(console: Console, buckets: int, times: Mapping[str, Mapping[int, float]]) -> None:
    own, plain, restored = times["eager"], times["lazy"], times["lazyR"]
    gains = {tau: own[tau] / plain[tau] for tau in plain}
    judge(console, "lazy is faster than eager", min(gains.values()) > 1, f"{_span(gains.values())} times")
    penalty = [restored[tau] / plain[tau] for tau in plain]
    dearer = min(penalty) > 0.95 and max(penalty) > 1.05  # at short intervals they do nearly the same
    judge(console, "restore costs more than no restore", dearer, f"{_span(penalty)} times")
    start, middle, end = 0, 5, max(own)
    if buckets == 5:
        judge(
            console, "eager gains from 0 to 5 and loses from there on", own[start] > own[middle] < own[end],
            f"{own[start]:.3f}, {own[middle]:.3f}, {own[end]:.3f} ms at 0, 5 and {end}",
        )  # fmt: skip
    else:
        judge(
            console, "eager is slower with longer intervals", own[end] > own[start],
            f"{own[end] / own[start]:.2f} times from 0 to {end}",
        )  # fmt: skip
    if buckets == 2:
        short, longer, *_ = restored.values()
        told = f"{short:.3f}, {longer:.3f} ms at the first two"
        judge(console, "lazyR is slower at first as intervals grow", longer > short, told)
    for name, line in (("lazy", plain), ("lazyR", restored)):
        falls = sum(after < before for before, after in pairwise(line.values()))
        judge(
            console, f"{name} is faster with longer intervals", line[end] < line[min(line)],
            f"{line[min(line)] / line[end]:.2f} times from {min(line)} to {end}, falling in {falls} of {len(line) - 1}",
        )  # fmt: skip


def _span(ratios: Collection[float]) -> str:
    return f"{min(ratios):.2f} to {max(ratios):.2f}"
