"""Spark by itself on the window benchmark: Structured Streaming's `window()`, and a careful user's batch in two steps.

The streaming query is the one that everybody writes: a watermark, `groupBy(window(...), k)`, append mode, a Parquet
sink. It runs availableNow, with all files in one micro-batch, which is the best it can get. It reports windows up to
the watermark, so the last ones, which hold the last row, do not appear; with a watermark of no delay those are all that
are missing. The two steps are a batch query: panes of one slide by key first, then `window()` over the panes. Each is
measured with the JVM's own settings and with huge methods compiled, once warm: a run over the first files goes before.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench import spark_rows, window_rows
from bench.spark_session import BETTER_JVM, Stopwatch, cores, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SLIDE = "1 second"
SCHEMA = "ts timestamp, k bigint, v double"
JVMS = {"stock": "", "better JVM": BETTER_JVM}


def streamed(spark: SparkSession, rows: Path, range_s: int, out: Path) -> None:
    from pyspark.sql import functions as f

    results = (
        spark.readStream.schema(SCHEMA)
        .parquet(str(rows))
        .withWatermark("ts", "0 seconds")
        .groupBy(f.window("ts", f"{range_s} seconds", SLIDE), "k")
        .agg(f.sum("v").alias("s"), f.max("v").alias("m"))
        .select(f.col("window.end").alias("window_end"), "k", "s", "m")
    )
    query = (
        results.writeStream.format("parquet")
        .option("path", str(out / "results"))
        .option("checkpointLocation", str(out / "checkpoint"))
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def in_two_steps(spark: SparkSession, rows: Path, range_s: int, out: Path) -> None:
    from pyspark.sql import functions as f

    panes: DataFrame = (
        spark.read.schema(SCHEMA)
        .parquet(str(rows))
        .groupBy("k", f.date_trunc("second", "ts").alias("pane"))
        .agg(f.sum("v").alias("s"), f.max("v").alias("m"))
    )
    windows = (
        panes.groupBy(f.window("pane", f"{range_s} seconds", SLIDE), "k")
        .agg(f.sum("s").alias("s"), f.max("m").alias("m"))
        .select(f.col("window.end").alias("window_end"), "k", "s", "m")
    )
    windows.write.parquet(str(out / "results"))


SYSTEMS = {"Spark window()": streamed, "Spark batch, two steps": in_two_steps}


def measure(system: str, jvm: str, range_s: int, count: int, file_rows: int, files: int) -> dict[str, Any]:
    """A warm-up over two files, then all files given; answers are read back and compared outside the clock."""
    run = SYSTEMS[system]
    whole = spark_rows.folder(count, file_rows)
    with (
        tempfile.TemporaryDirectory(dir=whole.parent) as place,
        session(JVMS[jvm], spark__sql__shuffle__partitions=str(cores()), spark__sql__session__timeZone="UTC") as spark,
    ):
        folder = Path(place)
        run(spark, spark_rows.prefix(whole, 2, folder / "first_rows"), range_s, folder / "first")
        rows = spark_rows.prefix(whole, files, folder / "rows")
        with Stopwatch() as taken:
            run(spark, rows, range_s, folder / "out")
        results = read_results(folder / "out" / "results")
    given = files * file_rows
    # The watermark is the last row's timestamp, the rows are 1 ms apart.
    until_s = (given - 1) // 1000 if run is streamed else None
    return {
        "rows": given,
        "results": results.num_rows,
        "seconds": taken.clock,
        "cpu_s": taken.cpu,
        "disagreement": window_rows.disagreement(results, given, range_s, until_s=until_s, generated=count),
    }


def read_results(folder: Path) -> pa.Table:
    parts = sorted(folder.glob("*.parquet"))
    table = pa.concat_tables([pq.read_table(part) for part in parts])
    # Spark writes timestamps in a form of its own (nanoseconds, once read).
    return table.set_column(0, "window_end", table["window_end"].cast(pa.timestamp("us", "UTC")))
