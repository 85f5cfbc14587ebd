"""DuckDB and Polars on the queries of `shared_queries`, each query alone.

A range is so many slides. Both reduce the rows to panes of one slide, and windows go over the panes, which for a range
of one slide are the answer already. Windows that the last rows still fill must appear and those without a row of a
group must not: hence the grid of all panes and groups, and the condition on what slid over it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from bench import floor, floor_of_queries, window_rows
from bench.floor_of_queries import Window
from bench.measure import interleaved, median_clock, median_cpu

PEERS = ("duckdb", "polars")


def duckdb_queries(rows: pa.Table, windows: list[Window], grouped: bool) -> list[Callable[[], pa.Table]]:
    import duckdb

    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("given", rows)
    connection.execute("CREATE TABLE s AS SELECT epoch_us(ts) AS us, k, v FROM given")
    texts = [_duckdb_text(*window, "k" if grouped else "0") for window in windows]
    return [lambda text=text: connection.sql(text).to_arrow_table() for text in texts]  # type: ignore[misc]


def _duckdb_text(range_s: int, slide_s: int, key: str) -> str:
    panes_a_range = range_s // slide_s
    ended = f"make_timestamp((pane + 1) * {slide_s} * 1000000) AS window_end, k, m"
    panes = f"SELECT {key} AS k, us // ({slide_s} * 1000000) AS pane, MAX(v) AS m FROM s GROUP BY ALL"
    if panes_a_range == 1:
        return f"SELECT {ended} FROM ({panes})"
    return f"""
        WITH panes AS ({panes}), grid AS (
          SELECT k, pane
          FROM (SELECT DISTINCT k FROM panes),
               (SELECT UNNEST(RANGE(MIN(pane), MAX(pane) + {panes_a_range})) AS pane FROM panes)
        ), slid AS (
          SELECT pane, k, MAX(m) OVER (PARTITION BY k ORDER BY pane ROWS {panes_a_range - 1} PRECEDING) AS m
          FROM grid LEFT JOIN panes USING (k, pane)
        )
        SELECT {ended} FROM slid WHERE m IS NOT NULL
    """


def polars_queries(rows: pa.Table, windows: list[Window], grouped: bool) -> list[Callable[[], pa.Table]]:
    import polars as pl

    frame = pl.DataFrame(pl.from_arrow(rows)).with_columns(pl.col("ts").dt.epoch("us").alias("us")).drop("ts")
    if not grouped:
        frame = frame.drop("k")
    keys = ["k"] if grouped else []

    def answer(range_s: int, slide_s: int) -> pa.Table:
        panes_a_range = range_s // slide_s
        panes = (
            frame.lazy()
            .group_by(*keys, (pl.col("us") // (slide_s * 1_000_000)).alias("pane"))
            .agg(pl.col("v").max().alias("m"))
            .collect()
        )
        ended = ((pl.col("pane") + 1) * (slide_s * 1_000_000)).cast(pl.Datetime("us")).alias("window_end")
        if panes_a_range == 1:
            return panes.select(ended, *keys, "m").to_arrow()
        first, last = int(panes["pane"].min()), int(panes["pane"].max())
        grid = pl.DataFrame({"pane": pl.int_range(first, last + panes_a_range, eager=True)})
        if grouped:
            grid = panes.select("k").unique().join(grid, how="cross")
        rolling = pl.col("m").rolling_max(panes_a_range, min_samples=1)
        slid = (
            grid.lazy()
            .join(panes.lazy(), on=[*keys, "pane"], how="left")
            .sort(*keys, "pane")
            .with_columns(rolling.over("k") if grouped else rolling)
            .filter(pl.col("m").is_not_null())
            .select(ended, *keys, "m")
            .collect()
        )
        return slid.to_arrow()

    return [lambda window=window: answer(*window) for window in windows]  # type: ignore[misc]


def measure(peer: str, queries: int, grouped: bool, count: int, repeat: int) -> dict[str, Any]:
    """Each query once for its answers, then the runs that count: all of them, one after the other."""
    rows = pa.Table.from_batches(window_rows.batches("BIGINT", count))
    windows = floor_of_queries.queries(queries)
    asked = {"duckdb": duckdb_queries, "polars": polars_queries}[peer](rows, windows, grouped)
    times, keys, values = floor.rows(count)
    cells = floor_of_queries.seconds_maxima(times, keys if grouped else np.zeros_like(keys), values)
    problems, results = [], 0
    for window, query in zip(windows, asked, strict=True):
        table = query()
        results += table.num_rows
        problem = floor_of_queries.difference(table, floor_of_queries.expected(cells, window))
        problems += [f"{window}: {problem}"] if problem else []
    timings = interleaved({peer: lambda: [query() for query in asked]}, repeat)[peer]
    return {
        "results": results,
        "seconds": median_cpu(timings),
        "clock_s": median_clock(timings),
        "disagreement": "; ".join(problems),
    }
