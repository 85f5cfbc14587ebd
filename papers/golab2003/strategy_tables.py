"""Every strategy of multi-way window joins, by nested loops and hash tables, with eager and lazy expiration.

All on the same streams, those of Golab and Özsu 2003, table 5; with the grouped joins of Golab 2006, section 5.2.2.
Expiration is eager before every join (of lazy strategies: at every run), lazy every EXPIRATION units. Grouped joins
expire as their algorithm says. All give the same results but the one without restore, which loses those that live
between two runs only.
"""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console

from panewise.optimize.joins.exact import best_loops
from panewise.optimize.joins.heuristics import augmented_order
from panewise.optimize.joins.order_costs import Evaluation
from papers.golab2003.join_cost_tables import TABLES_003, named
from papers.golab2003.join_strategies import GROUPED, Strategy
from papers.golab2003.random_streams import Cost, RandomStreams, judge
from papers.shown import show_table

INTERVAL, EXPIRATION, BUCKETS = 5.0, 20.0, 5
# Of every row of the table: strategy and interval.
ROWS: dict[str, tuple[Strategy, float]] = {
    "NAIVE": (Strategy.NAIVE, 0),
    "NAIVE, every 5": (Strategy.NAIVE, INTERVAL),
    "EAGER": (Strategy.EAGER, 0),
    "LAZY, every 5": (Strategy.LAZY, INTERVAL),
    "GENERAL LAZY, every 5": (Strategy.GENERAL_LAZY, INTERVAL),
    "grouped, every 5": (Strategy.GROUPED_LAZY, INTERVAL),
    "grouped with restore, every 5": (Strategy.GROUPED_RESTORE, INTERVAL),
}
LOSSY = "grouped, every 5"
COLUMNS: dict[str, tuple[int, float]] = {
    "NLJ": (1, 0),
    "NLJ, lazy expiration": (1, EXPIRATION),
    f"HASH{BUCKETS}": (BUCKETS, 0),
    f"HASH{BUCKETS}, lazy expiration": (BUCKETS, EXPIRATION),
}
Found = Mapping[str, Mapping[str, Cost]]


def every_strategy(console: Console, quick: bool) -> bool:
    """Whether all that may not differ in their results do not."""
    streams = RandomStreams(TABLES_003[0].streams, 20 if quick else 100)
    found = {
        name: {column: _cost(streams, name, column, 1 if quick else 2) for column in COLUMNS if _exists(name, column)}
        for name in ROWS
    }
    cells = [
        [name, *(_told(own[column]) if column in own else "by its algorithm" for column in COLUMNS)]
        for name, own in found.items()
    ]
    order = named(augmented_order(TABLES_003[0].costs()))
    title = f"every strategy, streams of table 5 in the order {order}: rows per second (operations per unit)"
    show_table(console, title, ["strategy", *COLUMNS], cells)
    exact = {cost.results for name, own in found.items() if name != LOSSY for cost in own.values()}
    lost = {cost.results for cost in found[LOSSY].values()}
    same = len(exact) == len(lost) == 1 and lost.pop() <= max(exact)
    console.print(f"  the same results by all that restore: {'[green]yes[/]' if same else '[red]NO[/]'}")
    _judge(console, found)
    return same


def _exists(name: str, column: str) -> bool:
    return ROWS[name][0] not in GROUPED or not COLUMNS[column][1]


def _cost(streams: RandomStreams, name: str, column: str, repeats: int) -> Cost:
    (strategy, interval), (buckets, expiration) = ROWS[name], COLUMNS[column]
    lazily = TABLES_003[0].costs(Evaluation(interval, interval))
    general = strategy is Strategy.GENERAL_LAZY
    return streams.cost(
        strategy,
        order=augmented_order(TABLES_003[0].costs()),
        orders=[best_loops(lazily, origin) for origin in range(4)] if general else None,
        buckets=buckets,
        interval=interval,
        expiration=expiration,
        repeats=repeats,
    )


def _told(cost: Cost) -> str:
    return f"{cost.rows_per_s:,.0f} ({cost.operations:,.0f})"


def _judge(console: Console, found: Found) -> None:
    ratio = found["NAIVE"]["NLJ"].visits / found["EAGER"]["NLJ"].visits
    judge(console, "NAIVE looks at more rows than EAGER", ratio > 1, f"{ratio:.2f} times as many")
    gains = [own[f"HASH{BUCKETS}"].rows_per_s / own["NLJ"].rows_per_s for own in found.values()]
    told = f"{min(gains):.1f} to {max(gains):.1f} times"
    judge(console, "hash tables are faster by every strategy", min(gains) > 1, told)
    grouped, plain = found["grouped with restore, every 5"], found["LAZY, every 5"]
    ratio = plain["NLJ"].visits / grouped["NLJ"].visits
    judge(console, "groups look at fewer rows than single ones", ratio > 1, f"{ratio:.2f} times as few")
    share = 1 - found[LOSSY]["NLJ"].results / plain["NLJ"].results
    judge(console, "without restore few results are lost", share < 0.2, f"{share:.1%}")
