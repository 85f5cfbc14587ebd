"""Spark by itself on the window benchmark: Structured Streaming's `window()`, and a careful user's batch in two steps.

The streaming query is the one that everybody writes: a watermark, `groupBy(window(...), k)`, append mode, a Parquet
sink. It runs availableNow, so many files a trigger. It reports windows up to the watermark, so the last ones, which
hold the last row, do not appear; with a watermark of no delay those are all that are missing. The two steps are a batch
query over the files of one trigger: panes of one slide by key first, then `window()` over the panes; a run over two
files goes before. Each is measured with the JVM's own settings and with huge methods compiled.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench import spark_rows, window_rows
from bench.spark_session import BETTER_JVM, Stopwatch, cores, first_end, median, session, trigger_seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SLIDE = "1 second"
SCHEMA = "ts timestamp, k bigint, v double"
JVMS = {"stock": "", "better JVM": BETTER_JVM}


def streamed(spark: SparkSession, rows: Path, range_s: int, out: Path, files: int) -> list[Any]:
    """Runs to the end; Spark's progress."""
    from pyspark.sql import functions as f

    results = (
        spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", files)
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
    return list(query.recentProgress)


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


STREAMED, IN_TWO_STEPS = SYSTEMS = "Spark window()", "Spark batch, two steps"


@dataclass(frozen=True)
class Input:
    """The files of the benchmark, and how many of them this system gets a trigger."""

    files_there: int
    file_rows: int
    files: int
    triggers: int

    def first(self, files: int, place: Path) -> Path:
        return spark_rows.prefix(spark_rows.folder(self.generated, self.file_rows), files, place)

    @property
    def generated(self) -> int:
        return self.files_there * self.file_rows


def measure(system: str, jvm: str, range_s: int, **given: int) -> dict[str, Any]:
    """Answers are read back and compared outside the clock."""
    rows = Input(**given)
    with (
        tempfile.TemporaryDirectory(dir=spark_rows.CACHE) as place,
        session(JVMS[jvm], spark__sql__shuffle__partitions=str(cores()), spark__sql__session__timeZone="UTC") as spark,
    ):
        return (_measure_stream if system == STREAMED else _measure_batch)(spark, rows, Path(place), range_s)


def _measure_stream(spark: SparkSession, rows: Input, place: Path, range_s: int) -> dict[str, Any]:
    files = rows.first(rows.triggers * rows.files, place / "rows")
    begun = time.time()
    progress = streamed(spark, files, range_s, place, rows.files)
    results = read_results(place / "results")
    count = rows.triggers * rows.files * rows.file_rows
    # The watermark is the last row's timestamp, the rows are 1 ms apart.
    until_s = (count - 1) // 1000
    return {
        "rows": rows.files * rows.file_rows,
        "results": results.num_rows // rows.triggers,
        "first_s": first_end(progress) - begun,
        "seconds": median(trigger_seconds(progress, leave_out=1)),
        "disagreement": window_rows.disagreement(results, count, range_s, until_s=until_s, generated=rows.generated),
    }


def _measure_batch(spark: SparkSession, rows: Input, place: Path, range_s: int) -> dict[str, Any]:
    in_two_steps(spark, rows.first(2, place / "first_rows"), range_s, place / "first")
    files = rows.first(rows.files, place / "rows")
    with Stopwatch() as taken:
        in_two_steps(spark, files, range_s, place)
    results = read_results(place / "results")
    count = rows.files * rows.file_rows
    return {
        "rows": count,
        "results": results.num_rows,
        "first_s": None,
        "seconds": taken.clock,
        "disagreement": window_rows.disagreement(results, count, range_s, generated=rows.generated),
    }


def read_results(folder: Path) -> pa.Table:
    parts = sorted(folder.glob("*.parquet"))
    table = pa.concat_tables([pq.read_table(part) for part in parts])
    # Spark writes timestamps in a form of its own (nanoseconds, once read).
    return table.set_column(0, "window_end", table["window_end"].cast(pa.timestamp("us", "UTC")))
