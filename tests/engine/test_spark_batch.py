"""Periodic queries on generated rows: the engine gives what Spark's own batch windows give."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from tests.engine.spark_windows import SECOND, WindowQuery, compare, engine_answers, same, spark_answers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

STREAM = """CREATE STREAM t (ts TIMESTAMP, arrival BIGINT, k STRING, j INT, v BIGINT, x DOUBLE, b BOOLEAN,
                             WATERMARK FOR ts AS ts - INTERVAL 10 SECONDS)"""
NUMBERS = same("SUM(v)", "AVG(v)", "MIN(v)", "MAX(v)", "COUNT(v)", "AVG(x)", "MIN(x)", "MAX(x)", "COUNT(*)", "SUM(j)")
SPREADS = same("SUM(x)", "VAR_POP(v)", "VAR_SAMP(x)", "STDDEV_POP(x)", "STDDEV_SAMP(v)")
# Spark's first and last follow the order of partitions; panewise follows (event time, arrival).
ENDS = (
    ("FIRST(v)", "min_by(v, struct(ts, arrival)) FILTER (WHERE v IS NOT NULL)"),
    ("LAST(k)", "max_by(k, struct(ts, arrival)) FILTER (WHERE k IS NOT NULL)"),
    ("ARG_MIN(k, v)", "min_by(k, struct(v, ts, arrival)) FILTER (WHERE v IS NOT NULL)"),
    ("BOOL_AND(b)", "bool_and(b)"),
    ("BOOL_OR(b)", "bool_or(b)"),
    ("MIN(k)", "min(k)"),
    ("MAX(ts)", "max(ts)"),
    ("GEOMEAN(ABS(v) + 1)", "exp(avg(ln(abs(v) + 1)))"),
)

QUERIES = (
    WindowQuery(10 * SECOND, 10 * SECOND, (), NUMBERS),
    WindowQuery(60 * SECOND, 10 * SECOND, ("k",), NUMBERS),
    WindowQuery(5 * SECOND, 2 * SECOND, ("k",), NUMBERS),
    WindowQuery(7 * SECOND, 3 * SECOND, (), SPREADS),
    WindowQuery(2_500_000, 1_000_000, ("k", "b"), SPREADS),
    WindowQuery(25 * 60 * SECOND, 7 * 60 * SECOND, ("j",), NUMBERS + SPREADS),
    WindowQuery(1_000_003, 999_983, ("k",), ENDS),
    WindowQuery(30 * SECOND, 20 * SECOND, (), ENDS),
    WindowQuery(60 * SECOND, 7 * SECOND, ("k",), ENDS, where="v > 0 AND b"),
    WindowQuery(20 * SECOND, 20 * SECOND, ("k",), NUMBERS, where="x < 0 OR k IS NULL"),
)


def generated(base_us: int, count: int) -> pa.Table:
    """Rows of about ten minutes, ten seconds out of order, with ties, NULLs and a gap."""
    source = np.random.default_rng(20260131)
    times = np.sort(source.integers(0, 600 * SECOND, count))
    times[count // 2 :] += 200 * SECOND
    times[:: count // 50] = times[1 :: count // 50][: len(times[:: count // 50])]
    order = np.argsort(times + source.integers(0, 5 * SECOND, count), kind="stable")
    times = times[order] + base_us

    def holes(values: list[object], share: float) -> list[object]:
        return [None if hole else value for value, hole in zip(values, source.random(count) < share, strict=True)]

    keys = source.choice(["ant", "bee", "cat", "été", ""], count).tolist()
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
            "arrival": pa.array(np.arange(count)),
            "k": pa.array(holes(keys, 0.1), pa.string()),
            "j": pa.array(source.integers(-3, 4, count), pa.int32()),
            "v": pa.array(holes(source.integers(-(10**12), 10**12, count).tolist(), 0.1), pa.int64()),
            "x": pa.array(holes((source.standard_normal(count) * 1e3).tolist(), 0.1), pa.float64()),
            "b": pa.array(holes((source.random(count) < 0.7).tolist(), 0.1), pa.bool_()),
        }
    )


@pytest.mark.parametrize(
    ("base_us", "queries"),
    [(0, QUERIES[::3]), (-300 * SECOND, QUERIES), (1_700_000_000 * SECOND, QUERIES[2::3])],
    ids=["from the epoch on", "around the epoch", "today"],
)
def test_generated_rows(
    spark: SparkSession, tmp_path: Path, soak: bool, base_us: int, queries: tuple[WindowQuery, ...]
) -> None:
    rows = generated(base_us, 200_000 if soak else 6_000)
    found = engine_answers(STREAM, rows, queries)
    expected = spark_answers(spark, tmp_path, rows, queries)
    for query, ours, theirs in zip(queries, found, expected, strict=True):
        assert compare(query, ours, theirs) > 0
