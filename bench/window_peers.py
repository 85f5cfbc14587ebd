"""DuckDB and Polars on the window benchmark, each with the fastest formulation that we found for it.

Both reduce the rows to slices of a second first and slide over those, which is far faster than joining rows with
windows (DuckDB's `generate_series` join, Polars' `group_by_dynamic` with a period). Windows without a row of a group
must not appear and those that a group's last rows still fill must: hence the grid of all seconds and groups.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from bench import window_rows
from bench.measure import forget_peak, interleaved, median_clock, median_cpu, peak_bytes, resident_bytes

PEERS = ("duckdb", "polars")


def duckdb_query(rows: pa.Table, range_s: int) -> Callable[[], pa.Table]:
    import duckdb

    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("given", rows)
    connection.execute("CREATE TABLE s AS SELECT epoch_us(ts) AS us, k, v FROM given")
    query = f"""
        WITH slices AS (
          SELECT k, us // 1000000 AS second, SUM(v) AS s, MAX(v) AS m FROM s GROUP BY ALL
        ), grid AS (
          SELECT k, second
          FROM (SELECT DISTINCT k FROM slices),
               (SELECT UNNEST(RANGE(MIN(second), MAX(second) + {range_s})) AS second FROM slices)
        ), slid AS (
          SELECT second, k, SUM(s) OVER last AS s, MAX(m) OVER last AS m
          FROM grid LEFT JOIN slices USING (k, second)
          WINDOW last AS (PARTITION BY k ORDER BY second ROWS {range_s - 1} PRECEDING)
        )
        SELECT make_timestamp((second + 1) * 1000000) AS window_end, k, s, m FROM slid WHERE m IS NOT NULL
    """
    return lambda: connection.sql(query).to_arrow_table()


def polars_query(rows: pa.Table, range_s: int) -> Callable[[], pa.Table]:
    import polars as pl

    frame = pl.DataFrame(pl.from_arrow(rows)).with_columns(pl.col("ts").dt.epoch("us").alias("us")).drop("ts")

    def work() -> pa.Table:
        slices = (
            frame.lazy()
            .group_by("k", (pl.col("us") // 1_000_000).alias("second"))
            .agg(pl.col("v").sum().alias("s"), pl.col("v").max().alias("m"))
            .collect()
        )
        first, last = int(slices["second"].min()), int(slices["second"].max())
        seconds = pl.DataFrame({"second": pl.int_range(first, last + range_s, eager=True)})
        grid = slices.select("k").unique().join(seconds, how="cross")
        slid = (
            grid.lazy()
            .join(slices.lazy(), on=["k", "second"], how="left")
            .sort("k", "second")
            .with_columns(
                pl.col("s").rolling_sum(range_s, min_samples=1).over("k"),
                pl.col("m").rolling_max(range_s, min_samples=1).over("k"),
            )
            .filter(pl.col("m").is_not_null())
            .select(((pl.col("second") + 1) * 1_000_000).cast(pl.Datetime("us")).alias("window_end"), "k", "s", "m")
            .collect()
        )
        return slid.to_arrow()

    return work


def measure(peer: str, key_type: str, range_s: int, count: int, repeat: int) -> dict[str, Any]:
    """One run for the answers and the peak of memory, then the runs that count."""
    rows = pa.Table.from_batches(window_rows.batches(key_type, count))
    work = {"duckdb": duckdb_query, "polars": polars_query}[peer](rows, range_s)
    before = resident_bytes()
    forget_peak()
    results = work()
    peak = peak_bytes() - before
    timings = interleaved({peer: work}, repeat)[peer]
    return {
        "results": results.num_rows,
        "seconds": median_cpu(timings),
        "clock_s": median_clock(timings),
        "peak_bytes": peak,
        "disagreement": window_rows.disagreement(results, count, range_s),
    }
