"""Joins on Spark: the pipeline against Spark's own join of two streams, on the same Parquet files, pairs compared.

Two streams of rows 1 ms apart are joined where keys are equal and times less than 60 s apart; keys are drawn from
100,000. Each system runs in a process of its own, on all cores, and takes the same files a trigger, four triggers in
all; what counts is the median of those after the second, in Spark's own progress, with all pairs on disk. Spark's join
has watermarks and a range of time, so that its state is bounded like ours.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.measure import isolated_on_all_cores
from bench.report import Aim, Report
from bench.spark_session import BETTER_JVM, cores, median, session, trigger_seconds

RANGE_S = 60
KEYS = 100_000
FILE_ROWS, FILES, TRIGGERS, LEFT_OUT = 65_536, 4, 4, 2
QUICK_FILE_ROWS, QUICK_FILES = 5_000, 1
WANTED = 2.0
EPOCH_US = 1_700_000_000_000_000


def run(quick: bool) -> Report:
    sizes = {"file_rows": QUICK_FILE_ROWS, "files": QUICK_FILES} if quick else {"file_rows": FILE_ROWS, "files": FILES}
    rows = 2 * sizes["file_rows"] * sizes["files"]
    report = Report(
        "spark_joins",
        f"spark_joins: two streams, {KEYS:,} keys, {RANGE_S} s windows, {rows:,} rows a trigger, from Parquet",
        ("system", "rows a trigger", "trigger s", "rows/s", "pairs", "ours to it", "agrees"),
    )
    figures = {name: isolated_on_all_cores(function, **sizes) for name, function in SYSTEMS.items()}
    ours = figures["panewise"]["seconds"]
    for name, figure in figures.items():
        agrees = figure["pairs"] == figures["panewise"]["expected"]
        report.rows.append(
            {"system": name, "rows a trigger": rows, "trigger s": figure["seconds"], "rows/s": rows / figure["seconds"],
             "pairs": figure["pairs"], "ours to it": figure["seconds"] / ours, "agrees": agrees}
        )  # fmt: skip
        report.agree = report.agree and agrees
    report.notes = [
        f"trigger s: median of the triggers after the {LEFT_OUT} first, with all pairs on disk",
        f"Spark's join runs with {BETTER_JVM} and as many shuffle partitions as cores",
    ]
    if not quick:
        measured = figures["Spark join"]["seconds"] / ours
        report.aims.append(Aim.at_least("time of Spark's own join to ours", WANTED, measured))
    return report


# -- in a process of its own -----------------------------------------------------------------------------------------


def written(place: Path, file_rows: int, files: int) -> dict[str, pa.Table]:
    """Both streams as folders of Parquet files, and as tables."""
    count = file_rows * files * TRIGGERS
    found = {}
    for number, name in enumerate("ab"):
        chance = np.random.default_rng(number)
        table = pa.table(
            {
                "ts": pa.array(np.arange(count) * 1000 + EPOCH_US, pa.timestamp("us", tz="UTC")),
                "k": chance.integers(0, KEYS, count),
                "v": np.arange(count),
            }
        )
        folder = place / name
        folder.mkdir()
        for part, begin in enumerate(range(0, count, file_rows)):
            path = folder / f"{part:05d}.parquet"
            pq.write_table(table.slice(begin, file_rows), path)
            os.utime(path, (EPOCH_US / 1e6 + part,) * 2)  # Spark reads files in the order of their dates
        found[name] = table
    return found


def expected(tables: dict[str, pa.Table]) -> int:
    import duckdb

    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table.select(["k", "v"]))
        text = f"SELECT count(*) FROM a, b WHERE a.k = b.k AND abs(a.v - b.v) < {RANGE_S * 1000}"
        return int(connection.sql(text).fetchall()[0][0])


def ours(file_rows: int, files: int) -> dict[str, Any]:
    import panewise as pw

    with tempfile.TemporaryDirectory() as name, session() as spark:
        place = Path(name)
        tables = written(place, file_rows, files)
        pipeline = pw.SparkPipeline(spark)
        for stream in "ab":
            options = f"connector = 'parquet', path = '{place / stream}', max_files_per_trigger = {files}"
            pipeline.execute(f"CREATE STREAM {stream} (ts TIMESTAMP, k BIGINT, v BIGINT) WITH ({options})")
        windows = ", ".join(f"{stream} [RANGE {RANGE_S} SECONDS INTERNAL]" for stream in "ab")
        pipeline.execute(f"CREATE QUERY q AS SELECT a.k, a.v AS x, b.v AS y FROM {windows} WHERE a.k = b.k")
        handle = pipeline.start(checkpoint=str(place / "checkpoint"))
        handle.process_all()
        progress = handle.progress()
        handle.flush()
        pairs = handle.fetch("q").num_rows
        handle.stop()
        return {
            "seconds": median(trigger_seconds(progress, leave_out=LEFT_OUT)),
            "pairs": pairs,
            "expected": expected(tables),
        }


def sparks(file_rows: int, files: int) -> dict[str, Any]:
    settings = {"spark__sql__shuffle__partitions": str(cores()), "spark__sql__session__timeZone": "UTC"}
    with tempfile.TemporaryDirectory() as name, session(BETTER_JVM, **settings) as spark:
        from pyspark.sql.functions import expr

        place = Path(name)
        written(place, file_rows, files)
        sides = [
            spark.readStream.schema("ts timestamp, k long, v long").option("maxFilesPerTrigger", files)
            .parquet(str(place / side)).withColumnRenamed("ts", f"{side}_ts").withColumnRenamed("k", f"{side}_k")
            .withColumnRenamed("v", f"{side}_v").withWatermark(f"{side}_ts", "0 seconds")
            for side in "ab"
        ]  # fmt: skip
        near = " AND ".join(
            f"{one}_ts > {other}_ts - INTERVAL {RANGE_S} SECONDS" for one, other in (("a", "b"), ("b", "a"))
        )
        joined = sides[0].join(sides[1], expr(f"a_k = b_k AND {near}")).select("a_k", "a_v", "b_v")
        query = (
            joined.writeStream.format("parquet").option("path", str(place / "out"))
            .option("checkpointLocation", str(place / "checkpoint")).trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()
        progress = list(query.recentProgress)
        pairs = spark.read.parquet(str(place / "out")).count()
        return {"seconds": median(trigger_seconds(progress, leave_out=LEFT_OUT)), "pairs": pairs}


SYSTEMS = {"panewise": ours, "Spark join": sparks}
