"""The pipeline in steady state, and the least that a trigger takes.

Steady: 24 million rows in files of a million, eight files a trigger, range 60 s, slide 1 s, 100 keys. Spark's own
record of the second and later micro-batches counts: the first one starts workers and loads compiled loops.

Floor: micro-batches of a thousand rows, one file each, for the pipeline and for a plain transformWithStateInPandas job
that counts rows per bucket, with as many partitions, the same state store and a Parquet sink, or none. The pipeline
writes every result to its log, so the job with a sink is its equal; the other is the limit.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import floor, spark_rows, window_rows
from bench.measure import isolated_on_all_cores
from bench.report import Aim, Report
from bench.spark_session import cores, median, session, trigger_seconds
from bench.spark_windows import run_to_the_end, statements

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

RANGE_S = 60
STEADY_ROWS, STEADY_FILE_ROWS, STEADY_FILES = 24_000_000, 1_000_000, 8
QUICK_ROWS, QUICK_FILE_ROWS, QUICK_FILES = 60_000, 10_000, 2
FLOOR_FILE_ROWS, FLOOR_TRIGGERS, FLOOR_WARM_UP = 1_000, 24, 6
ROWS_WANTED, RESULTS_WANTED, FLOOR_WANTED = 3e6, 0.3e6, 1.3
PLAIN_SINKS = {"plain transformWithState, Parquet": "parquet", "plain transformWithState, no sink": "noop"}


def run(quick: bool) -> Report:
    count, file_rows, files = (
        (QUICK_ROWS, QUICK_FILE_ROWS, QUICK_FILES) if quick else (STEADY_ROWS, STEADY_FILE_ROWS, STEADY_FILES)
    )
    triggers = FLOOR_WARM_UP + 2 if quick else FLOOR_TRIGGERS
    report = Report(
        "spark_steady",
        f"spark_steady: {floor.GROUPS} groups, SUM and MAX, range {RANGE_S} s, slide 1 s, all cores",
        ("system", "rows a trigger", "triggers", "median s", "least s", "most s", "rows/s", "results/s", "agrees"),
    )
    spark_rows.folder(count, file_rows)
    steady = isolated_on_all_cores(measure, count=count, file_rows=file_rows, files=files, leave_out=1)
    _add(report, "panewise, steady", files * file_rows, steady)
    spark_rows.folder(triggers * FLOOR_FILE_ROWS, FLOOR_FILE_ROWS)
    floors = {}
    small = {"count": triggers * FLOOR_FILE_ROWS, "file_rows": FLOOR_FILE_ROWS, "leave_out": FLOOR_WARM_UP}
    floors["panewise, floor"] = isolated_on_all_cores(measure, **small, files=1)
    for name, sink in PLAIN_SINKS.items():
        floors[name] = isolated_on_all_cores(measure_plain, **small, sink=sink)
    for name, figure in floors.items():
        _add(report, name, FLOOR_FILE_ROWS, figure)
    report.notes = [
        f"steady: micro-batches from the second on; floor: after {FLOOR_WARM_UP}; seconds as in Spark's progress",
        f"plain: rows counted per bucket, {cores()} partitions, RocksDB with changelogs",
    ]
    ours, plain = (median(floors[name]["seconds"]) for name in ("panewise, floor", "plain transformWithState, Parquet"))
    report.aims = [
        Aim.at_least("rows/s in steady state", ROWS_WANTED, report.rows[0]["rows/s"]),
        Aim.at_least("results/s in steady state", RESULTS_WANTED, report.rows[0]["results/s"]),
        Aim.at_most(
            f"a trigger of {FLOOR_FILE_ROWS:,} rows to one of a plain job with a Parquet sink",
            FLOOR_WANTED,
            ours / plain,
        ),
    ]
    return report


def _add(report: Report, system: str, rows: int, figure: dict[str, Any]) -> None:
    seconds = figure["seconds"]
    taken = median(seconds)
    report.rows.append(
        {"system": system, "rows a trigger": rows, "triggers": len(seconds), "median s": taken,
         "least s": min(seconds), "most s": max(seconds), "rows/s": rows / taken,
         "results/s": figure["results"] / figure["rows"] * rows / taken, "agrees": not figure["disagreement"]}
    )  # fmt: skip
    if figure["disagreement"]:
        report.agree = False
        report.notes.append(f"{system}: {figure['disagreement']}")


# -- in processes of their own ---------------------------------------------------------------------------------------


def measure(count: int, file_rows: int, files: int, leave_out: int) -> dict[str, Any]:
    """The pipeline over all files, so many a trigger."""
    rows = spark_rows.folder(count, file_rows)
    with tempfile.TemporaryDirectory(dir=rows.parent) as place, session() as spark:
        cql = statements(rows, RANGE_S, f", max_files_per_trigger = {files}")
        handle, progress = run_to_the_end(spark, cql, Path(place) / "checkpoint")
        results = handle.fetch("q")
        handle.stop()
    return {
        "rows": count,
        "results": results.num_rows,
        "seconds": trigger_seconds(progress, leave_out),
        "disagreement": window_rows.disagreement(results, count, RANGE_S),
    }


def measure_plain(count: int, file_rows: int, leave_out: int, sink: str) -> dict[str, Any]:
    """A job of the same shape that only counts."""
    rows = spark_rows.folder(count, file_rows)
    with (
        tempfile.TemporaryDirectory(dir=rows.parent) as place,
        session(
            spark__sql__shuffle__partitions=str(cores()),
            spark__sql__streaming__stateStore__providerClass=(
                "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
            ),
            spark__sql__streaming__stateStore__rocksdb__changelogCheckpointing__enabled="true",
            spark__sql__streaming__numRecentProgressUpdates="1000",
        ) as spark,
    ):
        query = _plain_query(spark, rows, Path(place), sink)
        query.awaitTermination()
        seconds = trigger_seconds(query.recentProgress, leave_out)
    return {"rows": count, "results": 2 * count // file_rows, "seconds": seconds, "disagreement": ""}


def _plain_query(spark: SparkSession, rows: Path, folder: Path, sink: str) -> Any:
    from pyspark.sql import functions as f
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    class Counting(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.count = handle.getValueState("count", "count bigint")

        def handleInputRows(  # noqa: N802 (Spark's name)
            self, key: Any, rows: Iterator[pd.DataFrame], timer_values: Any
        ) -> Iterator[pd.DataFrame]:
            import pandas as pd

            held = self.count.get()
            total = (0 if held is None else held[0]) + sum(len(frame) for frame in rows)
            self.count.update((total,))
            yield pd.DataFrame({"bucket": [key[0]], "count": [total]})

        def close(self) -> None:
            return

    counted = (
        spark.readStream.schema("ts timestamp, k bigint, v double")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(rows))
        .withColumn("bucket", f.col("k") % 2)
        .groupBy("bucket")
        .transformWithStateInPandas(Counting(), "bucket bigint, count bigint", "append", "none")
    )
    writer = counted.writeStream.format(sink).option("checkpointLocation", str(folder / "checkpoint"))
    if sink == "parquet":
        writer = writer.option("path", str(folder / "results"))
    return writer.outputMode("append").trigger(availableNow=True).start()
