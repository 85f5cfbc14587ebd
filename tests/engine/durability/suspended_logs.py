"""Change logs of every kind of continuous query, for the tests of SUSPEND and RESUME on both hosts."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa

STREAMS = [
    f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL 1 SECOND)"
    for name in ("a", "b")
]
LOGS = {
    "kept": "SELECT k, v FROM a [RANGE 3 SECONDS]",
    "total": "SELECT SUM(v) AS s, COUNT(*) AS n FROM a [RANGE 3 SECONDS]",
    "totals": "SELECT k, SUM(v) AS s FROM a [RANGE 3 SECONDS] GROUP BY k HAVING COUNT(*) > 1",
    "last_rows": "SELECT k, v FROM a [ROWS 4]",
    "last_of_each": "SELECT k, MAX(v) AS m FROM a [PARTITION BY k ROWS 2] GROUP BY k",
    "pairs": "SELECT a.k, a.v, b.v AS w FROM a [RANGE 3 SECONDS], b [RANGE 2 SECONDS] WHERE a.k = b.k",
    "joined_sum": "SELECT a.k, SUM(b.v) AS s FROM a [RANGE 3 SECONDS], b [RANGE 2 SECONDS] "
    "WHERE a.k = b.k GROUP BY a.k",
    "different": "SELECT DISTINCT v FROM a [RANGE 3 SECONDS]",
    "less": "SELECT k FROM a [RANGE 3 SECONDS] EXCEPT SELECT k FROM b [RANGE 3 SECONDS]",
    "all_of_both": "SELECT k FROM a [RANGE 3 SECONDS] UNION ALL SELECT k FROM b [RANGE 2 SECONDS]",
    "lonely": "SELECT k, v FROM a [RANGE 3 SECONDS] "
    "WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 2 SECONDS] WHERE b.k = a.k)",
}
CREATES = [f"CREATE QUERY {name} AS {text}" for name, text in LOGS.items()]


def random_rows(chance: random.Random, now: int) -> list[dict[str, int]]:
    """Rows of about a second, some of them out of order within the delay."""
    times = [now + chance.randrange(1_000_000) for _ in range(chance.randrange(1, 5))]
    return [{"ts": time, "k": chance.randrange(3), "v": chance.randrange(4)} for time in times]


class Replayed:
    """The relation that a reader of a change log has."""

    def __init__(self) -> None:
        self.rows: Counter[tuple[Any, ...]] = Counter()
        self.last = -(2**63)

    def take(self, log: pa.Table) -> None:
        """Raises where the log takes back what it has not shown, or goes back in time."""
        for instant, change, *values in zip(*(column.to_pylist() for column in _integers(log).columns), strict=True):
            assert instant >= self.last, (instant, self.last)
            self.last = instant
            self.rows[tuple(values)] += change
            assert self.rows[tuple(values)] >= 0, f"{values} goes at {instant}, and was never shown"
        self.rows = +self.rows


def _integers(log: pa.Table) -> pa.Table:
    return log.set_column(0, log.schema.names[0], log.column(0).cast(pa.int64()))
