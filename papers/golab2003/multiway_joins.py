"""Multi-way window joins: Golab and Özsu 2003, tables 5 to 7 by formula, sections 4.2 and 6 by running the joins.

    best_and_worst      section 6.2, table 8: the best and the worst order, nested loops and hash tables, eager and lazy
    intervals           sections 6.3 and 6.4, figure 4 (a): rows per second against the interval, by number of buckets
    unequal_sizes       section 6.5, figure 4 (b): larger tables for the faster stream
    strategies          figure 3, which the paper has by formula only: rows looked at by NAIVE, LAZY, GENERAL LAZY
    every_strategy      all of them by nested loops and hash tables, with eager and lazy expiration
                        (`strategy_tables.py`)
    beside_our_join     the same streams joined by the engine's own operator, `WindowJoin`

Streams are those of section 6.1 (`random_streams.py`). Every sentence on agreement is judged by the figures above
it; those on time depend on the machine. The exit code is about what may not differ: formulas, and numbers of results.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise, permutations
from pathlib import Path

from rich.console import Console

from panewise.optimize.joins.exact import best_loops, best_order
from panewise.optimize.joins.heuristics import augmented_order
from panewise.optimize.joins.order_costs import Evaluation, Order
from papers.golab2003.join_cost_tables import (
    BEST_INTERVALS,
    TABLES_003,
    UNEQUAL,
    UNEQUAL_EVALUATION,
    Parameters,
    best_costs,
    divided,
    equal_streams,
    named,
    tables_of_2003,
    unequal_costs,
)
from papers.golab2003.join_strategies import Strategy
from papers.golab2003.random_streams import Cost, RandomStreams, judge
from papers.golab2003.strategy_tables import every_strategy
from papers.plots import Panel
from papers.shown import figures_console, show_plot, show_table

EQUAL: Parameters = ((1, 100, 50),) * 4
# Table 8: buckets and interval, and rows per second of the best and the worst order.
TABLE_8 = {
    "nested loops, eager": (1, 0, 1614, 333),
    "nested loops, every 5": (1, 5, 1446, 296),
    "nested loops, every 10": (1, 10, 1332, 274),
    "hash, eager": (5, 0, 11540, 2524),
    "hash, every 5": (5, 5, 8420, 2041),
    "hash, every 10": (5, 10, 7947, 1848),
}
INTERVALS = (0, 1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 40, 50)
AVERAGES = (2, 4, 6, 8, 10, 12, 13, 16, 20, 26)


def run(quick: bool, folder: Path | None) -> int:
    console = figures_console()
    agrees = tables_of_2003(console, quick)
    same = best_and_worst(console, quick)
    same &= intervals(console, quick)
    same &= unequal_sizes(console, quick)
    same &= strategies(console, quick)
    same &= every_strategy(console, quick)
    same &= beside_our_join(console, quick)
    if not same:
        console.print("[red]joins of the same streams gave different numbers of results[/]")
    return int(not (agrees and same))


def of(streams: RandomStreams, interval: float, order: Order | None = None, buckets: int = 1, repeats: int = 1) -> Cost:
    """LAZY, or EAGER where the interval is 0."""
    strategy = Strategy.LAZY if interval else Strategy.EAGER
    return streams.cost(strategy, order=order, buckets=buckets, interval=interval, repeats=repeats)


def same_results(costs: list[Cost]) -> bool:
    return len({cost.results for cost in costs}) == 1


def _rate(cost: Cost) -> str:
    return f"{cost.rows_per_s:,.0f}"


# -- section 6.2 -------------------------------------------------------------------------------------------------------


def best_and_worst(console: Console, quick: bool) -> bool:
    """Orders are found by rows looked at, which do not depend on the machine, and then timed.

    All orders are tried with hash tables, over a time long enough to tell them apart: equal buckets divide the work of
    all orders alike, so that nested loops have the same ones. The quick version tries them for the eager join only.
    """
    counted = RandomStreams(TABLES_003[0].streams, 100 if quick else 3000)
    timed = RandomStreams(TABLES_003[0].streams, 50 if quick else 500)
    ends: dict[int, tuple[Order, Order]] = {}
    found: dict[str, tuple[Cost, Cost]] = {}
    cells = []
    for name, (buckets, interval, *paper) in TABLE_8.items():
        tried = 0 if quick else interval
        if tried not in ends:
            ends[tried] = _ends(counted, tried)
        orders = ends[tried]
        best, worst = (of(timed, interval, order=order, buckets=buckets, repeats=1 if quick else 3) for order in orders)
        found[name] = best, worst
        cells.append(
            [
                name, named(orders[0]), f"{best.visits:,.0f}", _rate(best), named(orders[1]), f"{worst.visits:,.0f}",
                _rate(worst), f"{worst.visits / best.visits:.2f}", f"{best.rows_per_s / worst.rows_per_s:.2f}",
                f"{paper[0] / paper[1]:.2f}",
            ]
        )  # fmt: skip
    columns = [
        "algorithm", "best", "looked at", "rows/s", "worst", "looked at", "rows/s", "ratio of looked at", "of rows/s",
        "the paper",
    ]  # fmt: skip
    show_table(console, "table 8: orders of the streams of table 5; rows looked at per unit of time", columns, cells)
    _judge_orders(console, {best for best, _ in ends.values()}, found)
    return same_results([cost for pair in found.values() for cost in pair])


def _ends(streams: RandomStreams, interval: int) -> tuple[Order, Order]:
    """The best and the worst order."""
    visits = {order: of(streams, interval, order=order, buckets=5).visits for order in permutations(range(4))}
    return min(visits, key=visits.__getitem__), max(visits, key=visits.__getitem__)


def _judge_orders(console: Console, best_orders: set[Order], found: Mapping[str, tuple[Cost, Cost]]) -> None:
    predicted = augmented_order(TABLES_003[0].costs())
    told = f"{named(predicted)}; best {', '.join(map(named, sorted(best_orders)))}"
    judge(console, "the best order is always the heuristic's", best_orders == {predicted}, told)
    smaller = sum(worst.seconds / best.seconds < worst.visits / best.visits for best, worst in found.values())
    claim = "times differ less than the work of joining does"
    judge(console, claim, smaller == len(found), f"in {smaller} of {len(found)} cases")
    rates = {name: best.rows_per_s for name, (best, _) in found.items()}
    gains = [rates[name.replace("nested loops", "hash")] / rates[name] for name in list(TABLE_8)[:3]]
    told = f"{min(gains):.1f} to {max(gains):.1f} times"
    judge(console, "hash tables of 5 buckets are several times as fast, there 5.8 to 7.2", min(gains) > 3, told)
    for kind in ("nested loops", "hash"):
        own = [rate for name, rate in rates.items() if name.startswith(kind)]
        told = ", ".join(f"{rate:,.0f}" for rate in own)
        claim = f"{kind}: eager is faster than lazy, and every 5 faster than every 10"
        judge(console, claim, own == sorted(own, reverse=True), told)


# -- sections 6.3 and 6.4 ----------------------------------------------------------------------------------------------


def intervals(console: Console, quick: bool) -> bool:
    streams = RandomStreams(EQUAL, 500 if quick else 3_000)
    tried = INTERVALS[:: 3 if quick else 1]
    found = {
        buckets: {tau: of(streams, tau, buckets=buckets, repeats=2 if quick else 7) for tau in tried}
        for buckets in (1, *BEST_INTERVALS)
    }
    names = {buckets: f"HASH{buckets}" if buckets > 1 else "NLJ" for buckets in found}
    title = "figure 4 (a): rows per second by interval of joining and expiring, 0 for eager; (operations per unit)"
    cells = [
        [str(tau), *(f"{_rate(own[tau])} ({own[tau].operations:,.0f})" for own in found.values())] for tau in tried
    ]
    show_table(console, title, ["interval", *names.values()], cells)
    lines = {names[buckets]: (tried, [own[tau].rows_per_s for tau in tried]) for buckets, own in found.items()}
    show_plot(console, "papers-golab2003_4a", [Panel("figure 4 (a)", "interval", "rows / s", lines, log_y=True)])
    by_time = {buckets: min(tried, key=lambda tau: own[tau].seconds) for buckets, own in found.items()}
    by_count = {buckets: min(tried, key=lambda tau: own[tau].operations) for buckets, own in found.items()}
    cells = [
        [names[b], str(BEST_INTERVALS.get(b, "short")), str(by_time[b]), _near(found[b]), str(by_count[b])]
        for b in found
    ]
    columns = ["", "paper", "by time", "within 3 % of that", "by operations"]
    show_table(console, "section 6.4: best intervals", columns, cells)
    for what, best in (("time", by_time), ("operations", by_count)):
        taus = list(best.values())
        grows = taus == sorted(taus) and taus[-1] > taus[0]
        judge(
            console, f"the best interval grows with the number of buckets, by {what}", grows, ", ".join(map(str, taus))
        )
    fastest = [max(cost.rows_per_s for cost in own.values()) for own in found.values()]
    gains = [after / before for before, after in pairwise(fastest)]
    told = ", ".join(f"{gain:.2f}" for gain in gains)
    judge(console, "each larger table is faster, nested loops are slowest", min(gains) > 1, f"by factors of {told}")
    per_bucket = [gain ** (1 / step) for gain, step in zip(gains, (1, 8, 20), strict=True)]
    told = ", ".join(f"{100 * gain - 100:.0f} %" for gain in per_bucket)
    falls = per_bucket == sorted(per_bucket, reverse=True)
    judge(console, "a further bucket gains less and less", falls, f"{told} a bucket from 1, 2 and 10 on")
    return same_results([cost for own in found.values() for cost in own.values()])


def _near(costs: Mapping[int, Cost]) -> str:
    """The shortest and the longest interval that is about as good as the best."""
    least = min(cost.seconds for cost in costs.values())
    near = [tau for tau, cost in costs.items() if cost.seconds < 1.03 * least]
    return f"{near[0]} to {near[-1]}"


# -- section 6.5 -------------------------------------------------------------------------------------------------------


def unequal_sizes(console: Console, quick: bool) -> bool:
    """LAZY, by which the fast stream's new rows probe the slow tables, and GENERAL LAZY, which may join them last."""
    streams = RandomStreams(UNEQUAL, 20 if quick else 300)
    averages = AVERAGES[1::3] if quick else AVERAGES
    panels, everything = [], []
    for strategy in (Strategy.LAZY, Strategy.GENERAL_LAZY):
        found: dict[str, dict[int, Cost]] = {}
        for average in averages:
            for division, buckets in divided(average).items():
                costs = unequal_costs(buckets)
                if strategy is Strategy.LAZY:
                    orders = [(origin, *best_order(costs, origin)) for origin in range(4)]
                else:
                    orders = [best_loops(costs, origin) for origin in range(4)]
                # LAZY with an order for each origin is GENERAL LAZY with new rows first.
                found.setdefault(division, {})[average] = streams.cost(
                    Strategy.GENERAL_LAZY, orders=orders, buckets=buckets, interval=UNEQUAL_EVALUATION.interval,
                    repeats=1 if quick else 5,
                )  # fmt: skip
        title = f"figure 4 (b), {strategy.value}: rows per second (rows looked at per unit) by buckets per table"
        cells = [
            [str(n), *(f"{_rate(own[n])} ({own[n].visits:,.0f})" if n in own else "-" for own in found.values())]
            for n in averages
        ]
        show_table(console, title, ["average", *found], cells)
        lines = {name: (list(own), [cost.rows_per_s for cost in own.values()]) for name, own in found.items()}
        panels.append(Panel(f"figure 4 (b), {strategy.value}", "buckets per table", "rows / s", lines))
        _judge_divisions(console, found)
        everything += [cost for own in found.values() for cost in own.values()]
    show_plot(console, "papers-golab2003_4b", panels)
    return same_results(everything)


def _judge_divisions(console: Console, found: Mapping[str, Mapping[int, Cost]]) -> None:
    def better(claim: str, one: str, other: str, average: int) -> None:
        first, second = found[one][average], found[other][average]
        told = f"{first.rows_per_s / second.rows_per_s:.2f} times, {second.visits / first.visits:.2f} by rows looked at"
        judge(console, f"{claim}, at {average}", first.rows_per_s > 1.05 * second.rows_per_s, told)

    middle, last = min(found["equal"], key=lambda average: abs(average - 12)), max(found["equal"])
    better("5 to slow is about 1.4 times equal tables", "5 to slow", "equal", middle)
    better("5 to slow is better than 10 to slow", "5 to slow", "10 to slow", middle)
    better("10 to slow is better than 5 to slow with more buckets", "10 to slow", "5 to slow", last)
    rates = {average: cost.rows_per_s for average, cost in found["1 to slow"].items()}
    best = max(rates, key=rates.__getitem__)
    told = f"at {best}; at {last} it is {rates[last] / rates[best]:.2f} of that"
    judge(console, "1 to slow is best at about 8", 6 <= best <= 10, told)


# -- figure 3 ----------------------------------------------------------------------------------------------------------


def strategies(console: Console, quick: bool) -> bool:
    """NAIVE in the order that is best by formula; LAZY and GENERAL LAZY with new rows of the first three streams first.
    Those of the fourth stream LAZY has first, GENERAL LAZY where rows looked at are fewest."""
    panels, everything = [], True
    taus = (1, 10, 50) if quick else (1, 2, 5, 10, 20, 30, 50)
    firsts = [(0, 1, 2, 3), (1, 0, 2, 3), (2, 0, 1, 3)]
    fourths = [(3, 0, 1, 2), (0, 3, 1, 2), (0, 1, 3, 2), (0, 1, 2, 3)]
    for part, rate in (("a", 1), ("b", 10)):
        streams = RandomStreams((*EQUAL[:3], (rate, 100, 50)), 50 if quick else 400)
        found: dict[int, list[Cost]] = {}
        cells = []
        for tau in taus:
            costs = equal_streams([1, 1, 1, rate], Evaluation(tau, tau))
            order = min(permutations(range(4)), key=costs.of_naive)
            naive = streams.cost(Strategy.NAIVE, order=order, interval=tau)
            placed = [streams.cost(Strategy.GENERAL_LAZY, orders=[*firsts, loops], interval=tau) for loops in fourths]
            best = min(range(4), key=lambda place: placed[place].visits)
            found[tau] = [naive, placed[0], placed[best]]
            measured = (
                f"{cost.visits:,.0f} ({formula:,.0f})"
                for cost, formula in zip(found[tau], best_costs(costs), strict=True)
            )
            cells.append([str(tau), *measured, f"{named(fourths[best])} ({named(best_loops(costs, 3))})"])
            everything &= same_results([naive, *placed])
        columns = ["interval", "NAIVE", "LAZY", "GENERAL LAZY", "loops for new rows of the fourth"]
        title = f"figure 3 ({part}): rows looked at per unit (by formula), fourth stream at a rate of {rate}"
        show_table(console, title, columns, cells)
        lines = {
            name: (taus, [costs[place].visits for costs in found.values()]) for place, name in enumerate(columns[1:4])
        }
        panels.append(Panel(f"figure 3 ({part})", "interval", "rows looked at / unit", lines))
        _judge_strategies(console, found, passes=part == "b")
    show_plot(console, "papers-golab2003_3", panels)
    return everything


def _judge_strategies(console: Console, found: Mapping[int, list[Cost]], passes: bool) -> None:
    worst = max(own[2].visits / min(cost.visits for cost in own) for own in found.values())
    judge(console, "GENERAL LAZY is never worse", worst < 1.03, f"at most {worst:.2f} times the best")
    better = [tau for tau, (naive, lazy, _) in found.items() if naive.visits < lazy.visits]
    claim = f"NAIVE {'passes' if passes else 'never passes'} LAZY when the interval is long"
    judge(console, claim, bool(better) == passes, f"better at {better}" if better else "never better")


# -- our own join ------------------------------------------------------------------------------------------------------


def beside_our_join(console: Console, quick: bool) -> bool:
    """The strategies count their results, `WindowJoin` makes rows of them; both from empty windows on."""
    same, cells = True, []
    for name, parameters, units in (
        ("table 5", TABLES_003[0].streams, 1000), ("section 6.3", EQUAL, 5000), ("section 6.5", UNEQUAL, 300),
    ):  # fmt: skip
        streams = RandomStreams(parameters, units // 20 if quick else units)
        repeats = 1 if quick else 3
        loops, hashed = (of(streams, 5, buckets=buckets, repeats=repeats) for buckets in (1, 30))
        steps = {rows: streams.window_join(rows, repeats) for rows in (1_000, 10_000)}
        results = {loops.results, hashed.results, *(found for found, _ in steps.values())}
        same &= len(results) == 1
        cells.append(
            [
                name, " / ".join(f"{count:,}" for count in sorted(results)), _rate(loops), _rate(hashed),
                *(f"{rate:,.0f}" for _, rate in steps.values()),
            ]
        )  # fmt: skip
    columns = [
        "streams",
        "results",
        "NLJ, every 5",
        "HASH30, every 5",
        "WindowJoin, 1,000 rows a step",
        "10,000 a step",
    ]
    show_table(console, "the engine's join beside the strategies: rows per second", columns, cells)
    console.print(f"  the same number of results: {'[green]yes[/]' if same else '[red]NO[/]'}")
    return same
