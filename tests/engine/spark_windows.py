"""Spark's own batch `groupBy(window(...))` as a second, independent oracle for periodic queries.

Both sides answer the same list of aggregates for the same windows; `compare` holds the engine's results against
Spark's, window by window. Spark aligns the starts of windows and panewise their ends, hence `startTime = -range mod
slide`. Only non-empty windows are compared, and slides of at most the range, which is all that Spark's window knows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import panewise as pw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECOND = 1_000_000
PUSH_ROWS = 65_536


@dataclass(frozen=True)
class WindowQuery:
    """A periodic query over a stream `t` with the event time `ts`; aggregates are (panewise text, Spark text)."""

    range_us: int
    slide_us: int
    groups: tuple[str, ...]
    aggregates: tuple[tuple[str, str], ...]
    where: str = "true"

    def cql(self) -> str:
        items = [
            *self.groups,
            *(f"{text} AS a{at}" for at, (text, _) in enumerate(self.aggregates)),
            "COUNT(*) AS rows",
        ]
        grouping = f" GROUP BY {', '.join(self.groups)}" if self.groups else ""
        window = f"[RANGE {self.range_us} MICROSECONDS SLIDE {self.slide_us} MICROSECONDS]"
        return f"SELECT {', '.join(items)} FROM t {window} WHERE {self.where}{grouping}"

    def spark_sql(self) -> str:
        start = -self.range_us % self.slide_us
        window = f"window(ts, '{self.range_us} microseconds', '{self.slide_us} microseconds', '{start} microseconds')"
        items = [f"{text} AS a{at}" for at, (_, text) in enumerate(self.aggregates)]
        keys = ", ".join((window, *self.groups))
        return (
            f"SELECT window.start AS window_start, window.end AS window_end, "
            f"{', '.join((*self.groups, *items, 'count(*) AS rows'))} FROM t WHERE {self.where} GROUP BY {keys}"
        )


def same(*names: str) -> tuple[tuple[str, str], ...]:
    """Aggregates that both sides write in the same way."""
    return tuple((name, name) for name in names)


def engine_answers(stream: str, rows: pa.Table, queries: Iterable[WindowQuery]) -> list[pa.Table]:
    """All results of all queries in one engine, fed in pushes and flushed at the end."""
    engine = pw.Engine()
    engine.execute(stream)
    names = []
    for at, query in enumerate(queries):
        names.append(f"q{at}")
        engine.execute(f"CREATE QUERY q{at} AS {query.cql()}")
    for begin in range(0, rows.num_rows, PUSH_ROWS):
        engine.push("t", rows.slice(begin, PUSH_ROWS))
    engine.flush()
    assert engine.stats()["streams"]["t"]["late_rows"] == 0
    return [engine.results(name) for name in names]


def spark_answers(spark: SparkSession, folder: Path, rows: pa.Table, queries: Iterable[WindowQuery]) -> list[pa.Table]:
    pq.write_table(rows, folder / "rows.parquet")
    spark.read.parquet(str(folder / "rows.parquet")).createOrReplaceTempView("t")
    return [spark.sql(query.spark_sql()).toArrow() for query in queries]


def compare(query: WindowQuery, found: pa.Table, expected: pa.Table) -> int:
    """Asserts that the non-empty windows agree; gives how many rows were compared."""
    left = keyed(query, found)
    right = keyed(query, expected)
    assert left.keys() == right.keys(), f"{query.cql()}: {sample(left, right)}"
    for key, wanted in right.items():
        got = left[key]
        assert all(map(agree, got, wanted)), f"{query.cql()}: at {key} expected {wanted}, found {got}"
    return len(right)


def keyed(query: WindowQuery, table: pa.Table) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    names = ("window_start", "window_end", *query.groups)
    keys = zip(*(plain(table[name]) for name in names), strict=True)
    values = zip(*(plain(table[f"a{at}"]) for at in range(len(query.aggregates))), strict=True)
    rows = table["rows"].to_pylist()
    found = {key: answers for key, answers, count in zip(keys, values, rows, strict=True) if count > 0}
    assert len(found) == sum(count > 0 for count in rows), "a window and group occurs twice"
    return found


def plain(column: pa.ChunkedArray) -> list[Any]:
    """Timestamps as integers: making datetimes of a million of them takes longer than the queries."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    return column.to_pylist()


def sample(left: dict[Any, Any], right: dict[Any, Any]) -> str:
    missing, extra = list(right.keys() - left.keys()), list(left.keys() - right.keys())
    return f"{len(missing)} windows are missing, such as {missing[:3]}; {len(extra)} are extra, such as {extra[:3]}"


def agree(found: Any, expected: Any) -> bool:
    if isinstance(found, float) and isinstance(expected, float):
        if math.isnan(found) or math.isnan(expected):
            return math.isnan(found) and math.isnan(expected)
        return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9)
    return type(found) is type(expected) and found == expected
