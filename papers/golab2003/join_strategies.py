"""The join strategies of Golab and Özsu 2003, section 3, and Golab 2006, section 5.2, side by side and counted.

For comparison and for the figures of both, over int64 keys and instants; `WindowJoin` is what queries run. All but
GROUPED_LAZY give the same results: a new row joins the rows that came before it, by (time, stream), and have not left
their windows, `time <= now < time + range`.

| strategy        | a new row                                                     | joined                 | algorithm |
| --------------- | ------------------------------------------------------------- | ---------------------- | --------- |
| NAIVE           | stands where the one global order puts its stream             | as it comes, or lazily |           |
| EAGER           | stands first, the others follow in the global order           | as it comes            | 2, 3      |
| LAZY            | the same                                                      | every `interval`       |           |
| GENERAL_LAZY    | stands where the order of its origin puts it                  | every `interval`       |           |
| GROUPED_LAZY    | stands first, together with those of its stream and key       | every `interval`       | 4         |
| GROUPED_RESTORE | the same                                                      | every `interval`       | 5         |

GROUPED_LAZY removes at a run what ends before the next one, compares no times, and gives the results that are there at
some run; GROUPED_RESTORE keeps rows until they have ended, and finds those between two runs too.

`buckets` are per window: 1 is a nested loop, more a hash join (section 3.4). Rows are expired before every join, or
every `expiration`; lazily, never more often than they are joined; grouped joins do it at their runs. Times are compared
where rows are expired eagerly too, other than in algorithm 2. Cost: what the counters say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from panewise.arrays import Ints
from papers.golab2003.join_strategy_loops import COMPARISONS, EXPIRATIONS, VISITS, run_grouped, run_strategy


class Strategy(Enum):
    """Names of the paper; "grouped" are those of the thesis."""

    NAIVE = "naive"
    EAGER = "eager"
    LAZY = "lazy"
    GENERAL_LAZY = "general lazy"
    GROUPED_LAZY = "grouped lazy"
    GROUPED_RESTORE = "grouped lazy with restore"


GROUPED = (Strategy.GROUPED_LAZY, Strategy.GROUPED_RESTORE)
LAZY = (Strategy.LAZY, Strategy.GENERAL_LAZY, *GROUPED)


@dataclass(frozen=True)
class Joined:
    """Results as rows by stream (none where they were only counted), and what was done for them."""

    rows: Ints
    count: int
    comparisons: int
    visits: int
    expirations: int


class ReferenceJoin:
    """The join of streams on one key by a strategy.

    `order` is the global order; `orders[i]`, for GENERAL_LAZY, the whole order for new rows of stream i.

    >>> join = ReferenceJoin(Strategy.EAGER, windows=[10, 10])
    >>> times, keys = [np.array([0, 5]), np.array([7, 10])], [np.array([1, 2]), np.array([2, 1])]
    >>> joined = join.run(times, keys)
    >>> joined.rows.tolist(), joined.comparisons
    ([[1], [0]], 3)
    """

    def __init__(
        self,
        strategy: Strategy,
        windows: Sequence[int],
        *,
        order: Sequence[int] | None = None,
        orders: Sequence[Sequence[int]] | None = None,
        buckets: int | Sequence[int] = 1,
        interval: int = 0,
        expiration: int = 0,
    ) -> None:
        streams = len(windows)
        lazy = strategy in LAZY
        assert interval > 0 if lazy else strategy is Strategy.NAIVE or interval == 0, "lazy joins have an interval"
        assert (orders is not None) == (strategy is Strategy.GENERAL_LAZY), "GENERAL_LAZY has an order per origin"
        assert expiration == 0 or strategy not in GROUPED, "grouped joins expire when they run"
        self._strategy = strategy
        self._windows: Ints = np.array(windows, np.int64)
        self._orders = _orders(strategy, list(range(streams)) if order is None else list(order), orders)
        sizes = [buckets] * streams if isinstance(buckets, int) else list(buckets)
        self._bucket_base: Ints = np.cumsum([0, *sizes], dtype=np.int64)
        self._interval, self._expiration = interval, expiration

    def run(self, times: Sequence[Ints], keys: Sequence[Ints], collect: bool = True) -> Joined:
        """Joins whole streams, each in order of time. Without `collect` results are counted only."""
        base = np.cumsum([0, *map(len, times)], dtype=np.int64)
        flat_times, flat_keys = np.concatenate(times).astype(np.int64), np.concatenate(keys).astype(np.int64)
        streams = np.repeat(np.arange(len(times)), [len(own) for own in times])
        arrivals = streams[np.lexsort((streams, flat_times))]
        counters = np.zeros(3, np.int64)
        rows = np.empty((len(times), 0), np.int64)
        count = -1
        while count < 0 or (collect and count > rows.shape[1]):
            rows = np.empty((len(times), max(count, 0)), np.int64)
            streams_of = self._orders, self._windows, base, flat_times, flat_keys, self._bucket_base, counters, rows
            if self._strategy in GROUPED:
                restore = self._strategy is Strategy.GROUPED_RESTORE
                count = run_grouped(arrivals, self._interval, restore, *streams_of)
            else:
                count = run_strategy(arrivals, self._interval, self._expiration, *streams_of)
        done = counters.tolist()
        return Joined(rows, count, done[COMPARISONS], done[VISITS], done[EXPIRATIONS])


def _orders(strategy: Strategy, order: list[int], orders: Sequence[Sequence[int]] | None) -> Ints:
    """For each origin, all streams in the order of the loops."""
    streams = range(len(order))
    if orders is not None:
        chosen = [list(own) for own in orders]
    elif strategy is Strategy.NAIVE:
        chosen = [order for _ in streams]
    else:
        chosen = [[origin, *(i for i in order if i != origin)] for origin in streams]
    assert all(sorted(own) == list(streams) for own in chosen), f"orders {chosen} must name every stream once"
    return np.array(chosen, np.int64)
