"""Windows on Spark: the pipeline against Spark's own `window()`, on the same Parquet files, with answers compared.

Two million rows 1 ms apart, 100 groups, SUM and MAX, slide 1 s, ranges of 1 to 300 s. Each system runs in a process of
its own, on all cores, warm (a run over the first files goes before), and is timed by the clock from the start of its
query until its last result is on disk: for the pipeline that is the result log, with the last windows flushed; for
Spark a Parquet folder. A peer that would take much longer than 20 seconds gets the first files only, and the table says
how many rows that are. Every system's answers are compared, window by window, with the same reference over its rows.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import floor, spark_peers, spark_rows, window_rows
from bench.machine import peer_figure
from bench.measure import isolated_on_all_cores
from bench.report import Aim, Report
from bench.spark_session import BETTER_JVM, Stopwatch, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panewise.runtime.spark.handle import Handle

FILE_ROWS = 125_000
# Files that a peer gets, by range; all where the range is missing.
PEER_FILES = {("Spark window()", 300): 4}
STREAMING, TWO_STEPS = spark_peers.SYSTEMS
# Rows/s against Structured Streaming and against the batch in two steps, each with the better of the JVM's settings.
STREAMING_WANTED = {1: 1.0, 60: 10.0, 300: 50.0}
TWO_STEPS_WANTED = {60: 3.0, 300: 10.0}
FLAT_WANTED = 1.5
QUICK_COUNT, QUICK_FILE_ROWS = 40_000, 10_000


def run(quick: bool) -> Report:
    count, file_rows = (QUICK_COUNT, QUICK_FILE_ROWS) if quick else (floor.ROWS, FILE_ROWS)
    report = Report(
        "spark_windows",
        f"spark_windows: {count:,} rows in Parquet, {floor.GROUPS} groups, SUM and MAX, slide 1 s, all cores",
        (
            "system",
            "JVM",
            "range s",
            "rows",
            "seconds",
            "rows/s",
            "results/s",
            "ours to it",
            "cores busy",
            "agrees",
            "figure",
        ),
    )
    spark_rows.folder(count, file_rows)  # written before any clock starts
    rates: dict[tuple[str, int], float] = {}
    for range_s in (10,) if quick else window_rows.RANGES:
        ours = isolated_on_all_cores(measure, range_s=range_s, count=count, file_rows=file_rows)
        rates["panewise", range_s] = ours["rows"] / ours["seconds"]
        _add(report, "panewise", "stock", range_s, ours, rates["panewise", range_s], "measured")
        for system in spark_peers.SYSTEMS:
            for jvm in spark_peers.JVMS:
                figure = _peer(system, jvm, range_s, count, file_rows)
                rate = figure["rows"] / figure["seconds"]
                rates[system, range_s] = max(rate, rates.get((system, range_s), 0.0))
                kept = "cached" if figure["cached"] else "measured"
                _add(report, system, jvm, range_s, figure, rates["panewise", range_s], kept)
        report.rows[-1]["section"] = True
    report.notes = [
        "clock from the start of the query to the last result on disk, once warm; cores busy: processor s to clock s",
        f"better JVM: {BETTER_JVM}; peers have as many shuffle partitions as cores instead of 200",
        "Spark window() reports windows up to the watermark, the others also those that the last rows still fill",
    ]
    _add_aims(report, rates, (10,) if quick else window_rows.RANGES)
    return report


def _peer(system: str, jvm: str, range_s: int, count: int, file_rows: int) -> dict[str, Any]:
    all_files = count // file_rows
    files = min(all_files, PEER_FILES.get((system, range_s), all_files))
    parameters = {"system": system, "jvm": jvm, "range_s": range_s, "count": count, "file_rows": file_rows}
    scripts = [Path(str(module.__file__)) for module in (spark_peers, spark_rows, floor)]
    return peer_figure(
        "pyspark", scripts, parameters | {"files": files},
        lambda: isolated_on_all_cores(spark_peers.measure, **parameters, files=files),
    )  # fmt: skip


def _add(
    report: Report, system: str, jvm: str, range_s: int, figure: dict[str, Any], ours: float, measured: str
) -> None:
    rate = figure["rows"] / figure["seconds"]
    report.rows.append(
        {"system": system, "JVM": jvm, "range s": range_s, "rows": figure["rows"], "seconds": figure["seconds"],
         "rows/s": rate, "results/s": figure["results"] / figure["seconds"], "ours to it": ours / rate,
         "cores busy": figure["cpu_s"] / figure["seconds"], "agrees": not figure["disagreement"], "figure": measured}
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


def measure(range_s: int, count: int, file_rows: int) -> dict[str, Any]:
    """A warm-up over two files, then all of them; answers are fetched and compared outside the clock."""
    whole = spark_rows.folder(count, file_rows)
    with tempfile.TemporaryDirectory(dir=whole.parent) as place, session() as spark:
        folder = Path(place)
        first = statements(spark_rows.prefix(whole, 2, folder / "first_rows"), range_s)
        run_to_the_end(spark, first, folder / "first")[0].stop()
        cql = statements(whole, range_s)
        with Stopwatch() as taken:
            handle, _ = run_to_the_end(spark, cql, folder / "checkpoint")
        results = handle.fetch("q")
        handle.stop()
    return {
        "rows": count,
        "results": results.num_rows,
        "seconds": taken.clock,
        "cpu_s": taken.cpu,
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
