"""Windows on Spark: the pipeline against Spark's own `window()`, on the same Parquet files, with answers compared.

Rows 1 ms apart, 100 groups, SUM and MAX, slide 1 s, ranges of 1 to 300 s. Each system runs in a process of its own, on
all cores, and takes two million rows a trigger, three triggers in all. What counts is a trigger of the running query:
the median of the second and third in Spark's own progress, with the results of every one on disk, for the pipeline in
its result log, for Spark in a Parquet folder. Beside it stands what starting costs: the clock from the start of the
query to the end of its first trigger. A peer that would take much longer than 20 seconds a trigger gets fewer rows in
each, and the table says how many. The batch in two steps has no triggers; it is timed by the clock over two million
rows, once warm. Every system's answers are compared, window by window, with the same reference over its rows.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import floor, spark_peers, spark_rows, window_rows
from bench.machine import peer_figure
from bench.measure import isolated_on_all_cores
from bench.report import Aim, Report
from bench.spark_session import BETTER_JVM, first_end, median, session, trigger_seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panewise.spark.handle import Handle

FILE_ROWS, FILES, TRIGGERS = 125_000, 16, 3
# Files a trigger that a peer gets, by range; the others get what the pipeline gets.
PEER_FILES = {("Spark window()", 300): 4}
STREAMING, TWO_STEPS = spark_peers.SYSTEMS
# Rows/s against Structured Streaming and against the batch in two steps, each with the better of the JVM's settings.
STREAMING_WANTED = {1: 1.0, 60: 10.0, 300: 50.0}
TWO_STEPS_WANTED = {60: 3.0, 300: 10.0}
FLAT_WANTED = 1.5
QUICK_FILE_ROWS, QUICK_FILES = 10_000, 2


def run(quick: bool) -> Report:
    file_rows, files = (QUICK_FILE_ROWS, QUICK_FILES) if quick else (FILE_ROWS, FILES)
    report = Report(
        "spark_windows",
        f"spark_windows: {files * file_rows:,} rows a trigger from Parquet, {floor.GROUPS} groups, SUM and MAX, "
        "slide 1 s, all cores",
        (
            "system",
            "JVM",
            "range s",
            "rows a trigger",
            "first s",
            "trigger s",
            "rows/s",
            "results/s",
            "ours to it",
            "agrees",
            "figure",
        ),
    )
    spark_rows.folder(TRIGGERS * files * file_rows, file_rows)  # written before any clock starts
    rates: dict[tuple[str, int], float] = {}
    for range_s in (10,) if quick else window_rows.RANGES:
        ours = isolated_on_all_cores(measure, range_s=range_s, file_rows=file_rows, files=files)
        rates["panewise", range_s] = ours["rows"] / ours["seconds"]
        _add(report, "panewise", "stock", range_s, ours, rates["panewise", range_s], "measured")
        for system in spark_peers.SYSTEMS:
            for jvm in spark_peers.JVMS:
                figure = _peer(system, jvm, range_s, file_rows, files)
                rate = figure["rows"] / figure["seconds"]
                rates[system, range_s] = max(rate, rates.get((system, range_s), 0.0))
                kept = "cached" if figure["cached"] else "measured"
                _add(report, system, jvm, range_s, figure, rates["panewise", range_s], kept)
        report.rows[-1]["section"] = True
    report.notes = [
        "trigger s: median of the triggers after the first; first s: from a query's start to its first trigger's end",
        f"better JVM: {BETTER_JVM}; peers have as many shuffle partitions as cores instead of 200",
        "Spark window() reports windows up to the watermark, the others also those that the last rows still fill",
    ]
    _add_aims(report, rates, (10,) if quick else window_rows.RANGES)
    return report


def _peer(system: str, jvm: str, range_s: int, file_rows: int, files: int) -> dict[str, Any]:
    parameters = {"system": system, "jvm": jvm, "range_s": range_s, "files_there": TRIGGERS * files,
                  "file_rows": file_rows, "files": min(files, PEER_FILES.get((system, range_s), files)),
                  "triggers": TRIGGERS}  # fmt: skip
    scripts = [Path(str(module.__file__)) for module in (spark_peers, spark_rows, floor)]
    return peer_figure("pyspark", scripts, parameters, lambda: isolated_on_all_cores(spark_peers.measure, **parameters))


def _add(
    report: Report, system: str, jvm: str, range_s: int, figure: dict[str, Any], ours: float, measured: str
) -> None:
    rate = figure["rows"] / figure["seconds"]
    report.rows.append(
        {"system": system, "JVM": jvm, "range s": range_s, "rows a trigger": figure["rows"],
         "first s": figure["first_s"], "trigger s": figure["seconds"], "rows/s": rate,
         "results/s": figure["results"] / figure["seconds"], "ours to it": ours / rate,
         "agrees": not figure["disagreement"], "figure": measured}
    )  # fmt: skip
    if figure["disagreement"]:
        report.agree = False
        report.notes.append(f"{system}, {jvm}, {range_s} s: {figure['disagreement']}")


def _add_aims(report: Report, rates: dict[tuple[str, int], float], ranges: tuple[int, ...]) -> None:
    for system, wanted in ((STREAMING, STREAMING_WANTED), (TWO_STEPS, TWO_STEPS_WANTED)):
        for range_s in ranges:
            if range_s in wanted:
                what = f"rows/s to {system} with the better JVM setting, range {range_s} s"
                measured = rates["panewise", range_s] / rates[system, range_s]
                report.aims.append(Aim.at_least(what, wanted[range_s], measured))
    if len(ranges) > 1:
        slowdown = rates["panewise", min(ranges)] / rates["panewise", max(ranges)]
        what = f"time for range {max(ranges)} s to time for {min(ranges)} s"
        report.aims.append(Aim.at_most(what, FLAT_WANTED, slowdown))


# -- in a process of its own -----------------------------------------------------------------------------------------


def statements(rows: Path, range_s: int, options: str = "") -> str:
    return f"""
        CREATE STREAM s (ts TIMESTAMP, k BIGINT, v DOUBLE) WITH (connector = 'parquet', path = '{rows}'{options});
        CREATE QUERY q AS SELECT k, SUM(v) AS s, MAX(v) AS m
          FROM s [RANGE {range_s} SECONDS SLIDE 1 SECOND] GROUP BY k;
    """


def measure(range_s: int, file_rows: int, files: int) -> dict[str, Any]:
    """The pipeline over all files, so many a trigger; answers are fetched and compared outside the clock."""
    count = TRIGGERS * files * file_rows
    rows = spark_rows.folder(count, file_rows)
    with tempfile.TemporaryDirectory(dir=rows.parent) as place, session() as spark:
        cql = statements(rows, range_s, f", max_files_per_trigger = {files}")
        begun = time.time()
        handle, progress = run_to_the_end(spark, cql, Path(place) / "checkpoint")
        results = handle.fetch("q")
        handle.stop()
    return {
        "rows": files * file_rows,
        "results": results.num_rows // TRIGGERS,
        "first_s": first_end(progress) - begun,
        "seconds": median(trigger_seconds(progress, leave_out=1)),
        "disagreement": window_rows.disagreement(results, count, range_s),
    }


def run_to_the_end(spark: SparkSession, cql: str, checkpoint: Path) -> tuple[Handle, list[dict[str, Any]]]:
    """All files, then the last windows, until everything is in the result log; also the progress over the files."""
    import panewise as pw

    pipeline = pw.SparkPipeline(spark)
    pipeline.execute(cql)
    handle = pipeline.start(checkpoint=str(checkpoint))
    handle.process_all()
    progress = handle.progress()
    handle.flush()
    return handle, progress
