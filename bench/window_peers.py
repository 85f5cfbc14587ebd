"""DuckDB and Polars on the window benchmark, each with the fastest of the formulations that were tried for its range.

Both reduce the rows to slices of a second, which for a range of one slide are the answer already. For short ranges
DuckDB then gives each slice to all its windows and groups again; beyond, and in Polars, windows slide over the slices.
Windows without a row of a group must not appear and those that a group's last rows still fill must: hence the grid of
all seconds and groups. Polars' `group_by_dynamic` with a period was slower at every range and lacks those last windows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from bench import window_rows
from bench.measure import forget_peak, interleaved, median_clock, median_cpu, peak_bytes, resident_bytes

PEERS = ("duckdb", "polars")
OFFSETS_UP_TO_S = 10  # between here and 60 s sliding becomes faster in DuckDB


def duckdb_query(rows: pa.Table, range_s: int) -> Callable[[], pa.Table]:
    import duckdb

    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("given", rows)
    connection.execute("CREATE TABLE s AS SELECT epoch_us(ts) AS us, k, v FROM given")
    query = _duckdb_text(range_s)
    return lambda: connection.sql(query).to_arrow_table()


def _duckdb_text(range_s: int) -> str:
    slices = "SELECT k, us // 1000000 AS second, SUM(v) AS s, MAX(v) AS m FROM s GROUP BY ALL"
    if range_s == 1:
        return f"SELECT make_timestamp((second + 1) * 1000000) AS window_end, k, s, m FROM ({slices})"
    if range_s <= OFFSETS_UP_TO_S:
        return f"""
            SELECT make_timestamp((second + 1 + later) * 1000000) AS window_end, k, SUM(s) AS s, MAX(m) AS m
            FROM ({slices}), (SELECT UNNEST(RANGE({range_s})) AS later) GROUP BY ALL
        """
    return f"""
        WITH slices AS ({slices}), grid AS (
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
        ended = ((pl.col("second") + 1) * 1_000_000).cast(pl.Datetime("us")).alias("window_end")
        if range_s == 1:
            return slices.select(ended, "k", "s", "m").to_arrow()
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
            .select(ended, "k", "s", "m")
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
