"""Random streams of Golab and Özsu 2003, section 6.1, and what joins of them cost when they run.

One row a tick, of stream i with probability lambda_i / (lambda_1 + ...), its value uniform over the stream's distinct
ones; hash tables have it at the value modulo the number of buckets, as in the paper (`_keys`). A unit of time is
lambda_1 + ... ticks, so that windows hold the lambda_i * T_i rows of the cost model. Nothing is counted nor timed
before all windows are full: what that takes is taken off. Joins only count their results. Seconds are those of the
processor, so that other processes disturb them less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from time import process_time
from typing import TypeVar

import numpy as np
import pyarrow as pa
from rich.console import Console

from panewise.arrays import Ints
from panewise.language.expressions import ColumnRef, Expression
from panewise.language.functions import resolve
from panewise.operators.joins.window_join import WindowJoin
from panewise.operators.relation_delta import Delta
from panewise.optimize.first_orders import unmeasured_orders
from panewise.schema import BIGINT
from papers.golab2003.join_cost_tables import Parameters
from papers.golab2003.join_strategies import ReferenceJoin, Strategy
from papers.golab2003.join_strategy_loops import MULTIPLIER

Result = TypeVar("Result")


@dataclass(frozen=True)
class Cost:
    """Per unit of time, but for the results, which are those of the whole run."""

    results: int
    comparisons: float
    visits: float
    expirations: float
    seconds: float
    rows: float

    @property
    def rows_per_s(self) -> float:
        return self.rows / self.seconds

    @property
    def operations(self) -> float:
        """Rows looked at, and buckets and rows touched by expiration."""
        return self.visits + self.expirations


class RandomStreams:
    """Streams that fill their windows and then go on for so many units.

    >>> streams = RandomStreams(((1, 10, 5), (2, 10, 5)), units=20, seed=1)
    >>> streams.unit, streams.windows, sum(len(times) for times in streams.times)
    (3, [30, 30], 90)
    """

    def __init__(self, parameters: Parameters, units: int, seed: int = 1) -> None:
        rates = np.array([rate for rate, _, _ in parameters])
        self.unit = round(rates.sum())
        self.windows = [round(length * self.unit) for _, length, _ in parameters]
        self.units, self.warm = units, max(self.windows)
        rng = np.random.default_rng(seed)
        self.distinct = int(max(distinct for _, _, distinct in parameters))
        # Of all rows as they come: stream and value. Of each stream: instants and keys.
        self.streams: Ints = rng.choice(len(parameters), self.warm + units * self.unit, p=rates / rates.sum())
        bounds = np.array([int(distinct) for _, _, distinct in parameters])
        self.values: Ints = rng.integers(0, bounds[self.streams])
        self.times: list[Ints] = [np.flatnonzero(self.streams == i) for i in range(len(parameters))]
        self.keys: list[Ints] = [_keys(self.values[times]) for times in self.times]

    def cost(
        self,
        strategy: Strategy,
        *,
        order: Sequence[int] | None = None,
        orders: Sequence[Sequence[int]] | None = None,
        buckets: int | Sequence[int] = 1,
        interval: float = 0,
        expiration: float = 0,
        repeats: int = 1,
    ) -> Cost:
        """Of a strategy; intervals are in units, the seconds are the least of so many runs."""
        join = ReferenceJoin(
            strategy, self.windows, order=order, orders=orders, buckets=buckets, interval=round(interval * self.unit),
            expiration=round(expiration * self.unit),
        )  # fmt: skip

        def run(rows: int) -> tuple[int, ...]:
            ends = [np.searchsorted(times, rows) for times in self.times]
            times, keys = ([own[:end] for own, end in zip(all_, ends, strict=True)] for all_ in (self.times, self.keys))
            joined = join.run(times, keys, collect=False)
            return joined.count, joined.comparisons, joined.visits, joined.expirations

        return self.cost_of(run, repeats)

    def cost_of(self, run: Callable[[int], tuple[int, ...]], repeats: int) -> Cost:
        """Of a function that joins the first so many rows and returns results, comparisons, visits, expirations."""
        run(self.unit)  # its loops are loaded
        before, before_s = least_seconds(lambda: run(self.warm), repeats)
        after, after_s = least_seconds(lambda: run(len(self.streams)), repeats)
        comparisons, visits, expirations = (
            (last - first) / self.units for first, last in zip(before[1:], after[1:], strict=True)
        )
        # Rows cost no less when windows are full than before; this is a bound where times are too short to tell.
        least = after_s * self.units * self.unit / len(self.streams)
        seconds = max(after_s - before_s, least) / self.units
        return Cost(after[0], comparisons, visits, expirations, seconds, self.unit)

    def window_join(self, rows_per_step: int, repeats: int = 1) -> tuple[int, float]:
        """The results of the engine's own join of these streams, and rows per second: all of them, from the start."""
        total = len(self.streams)
        names = [f"s{i}.key" for i in range(len(self.times))]
        key, *others = (ColumnRef(BIGINT, name) for name in names)
        condition = reduce(_both, (resolve("eq", (key, other)) for other in others))
        steps = [
            (since, [self._delta(i, name, since, since + rows_per_step) for i, name in enumerate(names)])
            for since in range(0, total, rows_per_step)
        ]

        def run() -> int:
            schemas = [pa.schema([(name, pa.int64())]) for name in names]
            join = WindowJoin(schemas, condition, unmeasured_orders(schemas, condition))
            return sum(len(join.process(deltas, since, since + rows_per_step)) for since, deltas in steps)

        results, seconds = least_seconds(run, repeats + 1)
        return results, total / seconds

    def _delta(self, i: int, name: str, since: int, until: int) -> Delta:
        first, last = np.searchsorted(self.times[i], (since, until))
        births = self.times[i][first:last]
        batch = pa.record_batch({name: self.keys[i][first:last]})
        return Delta(batch, np.arange(first, last), births, births + self.windows[i])


def _keys(values: Ints) -> Ints:
    """Keys whose hashes are the values: the strategies multiply a key by MULTIPLIER and take its upper half."""
    inverse = pow(int(MULTIPLIER), -1, 1 << 64)
    return (values.astype(np.uint64) * np.uint64((inverse << 32) % (1 << 64))).view(np.int64)


def _both(left: Expression, right: Expression) -> Expression:
    return resolve("and", (left, right))


def least_seconds(run: Callable[[], Result], repeats: int) -> tuple[Result, float]:
    """What it returns, and the least time that it took."""
    seconds = []
    for _ in range(repeats):
        start = process_time()
        result = run()
        seconds.append(process_time() - start)
    return result, min(seconds)


def judge(console: Console, claim: str, met: bool, found: str) -> None:
    """One sentence on what the paper says and what was found."""
    said = f"[green]agrees[/]: {found}" if met else f"[red]DIFFERS[/]: {found}"
    console.print(f"  the paper: {claim}: {said}")
