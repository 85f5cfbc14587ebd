"""Shared queries on Spark: 100 queries against Spark's own `window()` for each, and 1,000 queries against one.

The queries are those of `shared_queries`, MAX by 100 groups, with a Parquet sink for each. What counts is a trigger of
the running query in Spark's own progress, with the results of all queries in their sinks, as typed columns.

Against Spark: the files of `spark_windows`, as many a trigger as there. Some of the queries run as everybody writes
them, each alone: a watermark, `groupBy(window(...), k)`, append mode, a Parquet sink. They are taken evenly from all in
the order of their slides a range, because `window()` makes as many rows of each; a `window()` for every query is taken
to cost their mean times the number of queries. The pipeline and each of them have a process of their own, with the
setting of the JVM and, for Spark's own queries, the number of shuffle partitions that are better for Spark.

Against one: a file a trigger, the one query and the thousand in processes of their own. Results cost what they cost to
write, so beside twice the time of one query a second is allowed for every half million of them.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench import floor, floor_of_queries, spark_rows
from bench.floor_of_queries import Window
from bench.measure import isolated_on_all_cores
from bench.report import Aim, Report
from bench.spark_peers import SCHEMA, read_results
from bench.spark_session import BETTER_JVM, cores, median, session, trigger_seconds
from bench.spark_windows import FILE_ROWS, FILES, QUICK_FILE_ROWS, QUICK_FILES, TRIGGERS, run_to_the_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AGAINST_SPARK, ALONE = 100, 6
AGAINST_ONE, SMALL_TRIGGERS, WARM_UP = 1_000, 8, 3
QUICK_AGAINST_SPARK, QUICK_ALONE, QUICK_AGAINST_ONE, QUICK_SMALL_TRIGGERS = 10, 2, 20, 5
TIMES_SPARK_WANTED = 100.0
TIMES_ONE_ALLOWED, RESULTS_A_SECOND_ALLOWED = 2.0, 500_000
SAMPLED_EVERY = 19  # queries all of whose results are compared; of the others they are counted

Expected = Callable[[Window], tuple[Any, Any, Any]]


def run(quick: bool) -> Report:
    report = Report(
        "spark_shared_queries",
        f"spark_shared_queries: MAX by {floor.GROUPS} groups, slides of 1 to 60 s, ranges of 1 to 60 slides, "
        "a Parquet sink per query, all cores",
        (
            *("system", "queries", "range, slide", "rows", "triggers", "median s", "least s", "most s", "results"),
            *("results/s", "to ours", "agrees"),
        ),
    )
    _against_spark(report, quick)
    _against_one(report, quick)
    report.notes += [
        "median s: of triggers after the first ones; results of all of them are in Parquet when they end",
        "rows, results: in a trigger, as the median of those; to ours: their time to that of the pipeline",
        "Spark window(): some queries, each alone; Spark, scaled: their mean, times the number of queries",
        f"against Spark all have {BETTER_JVM} and, for Spark's own queries, {cores()} shuffle partitions",
        "Spark window() reports windows up to the watermark, the pipeline at last those that the last rows still fill",
    ]
    return report


def _against_spark(report: Report, quick: bool) -> None:
    queries, alone = (QUICK_AGAINST_SPARK, QUICK_ALONE) if quick else (AGAINST_SPARK, ALONE)
    file_rows, files = (QUICK_FILE_ROWS, QUICK_FILES) if quick else (FILE_ROWS, FILES)
    rows = files * file_rows
    spark_rows.folder(TRIGGERS * rows, file_rows)  # written before any clock starts
    given = {"count": TRIGGERS * rows, "file_rows": file_rows, "files": files, "leave_out": 1}
    figure = isolated_on_all_cores(measure, queries=queries, java_options=BETTER_JVM, **given)
    ours_s = median(figure["seconds"])
    _add(report, "panewise", queries, rows, figure)
    by_spark = [
        isolated_on_all_cores(measure_alone, window=window, **given)
        for window in evenly(floor_of_queries.queries(queries), alone)
    ]
    for one in by_spark:
        _add(report, "Spark window()", 1, rows, one)
    mean_s = statistics.mean(median(one["seconds"]) for one in by_spark)
    ratio = queries * mean_s / ours_s
    report.rows.append(
        {"system": "Spark, scaled", "queries": queries, "rows": rows, "median s": queries * mean_s, "to ours": ratio,
         "section": True}
    )  # fmt: skip
    what = f"{queries} queries: time of a window() for each, {alone} measured, to ours"
    report.aims.append(Aim.at_least(what, TIMES_SPARK_WANTED, ratio))


def _against_one(report: Report, quick: bool) -> None:
    many, triggers = (QUICK_AGAINST_ONE, QUICK_SMALL_TRIGGERS) if quick else (AGAINST_ONE, SMALL_TRIGGERS)
    file_rows = QUICK_FILE_ROWS if quick else FILE_ROWS
    spark_rows.folder(triggers * file_rows, file_rows)
    given = {"count": triggers * file_rows, "file_rows": file_rows, "files": 1, "leave_out": WARM_UP}
    figures = {queries: isolated_on_all_cores(measure, queries=queries, **given) for queries in (1, many)}
    for queries, figure in figures.items():
        _add(report, "panewise", queries, file_rows, figure)
    results = median(figures[many]["results"])
    allowed_s = TIMES_ONE_ALLOWED * median(figures[1]["seconds"]) + results / RESULTS_A_SECOND_ALLOWED
    what = f"a trigger of {many:,} queries: twice that of one, and 1 s for each 0.5 million of its results"
    report.aims.append(Aim.at_most(what, allowed_s, median(figures[many]["seconds"]), " s"))


def _add(report: Report, system: str, queries: int, rows: int, figure: dict[str, Any]) -> None:
    seconds = figure["seconds"]
    taken, results = median(seconds), median(figure["results"])
    report.rows.append(
        {"system": system, "queries": queries, "range, slide": figure.get("window"), "rows": rows,
         "triggers": len(seconds), "median s": taken, "least s": min(seconds), "most s": max(seconds),
         "results": results, "results/s": results / taken, "agrees": not figure["disagreement"]}
    )  # fmt: skip
    if figure["disagreement"]:
        report.agree = False
        report.notes.append(f"{system}, {queries} queries: {figure['disagreement']}")


# -- in a process of its own -----------------------------------------------------------------------------------------


def measure(
    queries: int, count: int, file_rows: int, files: int, leave_out: int, java_options: str = ""
) -> dict[str, Any]:
    """The pipeline over all files."""
    rows = spark_rows.folder(count, file_rows)
    windows = floor_of_queries.queries(queries)
    with tempfile.TemporaryDirectory(dir=rows.parent) as place, session(java_options) as spark:
        folder = Path(place)
        cql = statements(rows, folder / "out", windows, files)
        handle, progress = run_to_the_end(spark, cql, folder / "checkpoint")
        handle.stop()
        seconds = trigger_seconds(progress, leave_out)
        problems, results = disagreements(folder / "out", windows, expected_of(count))
    return {
        "seconds": seconds,
        "results": [results.get(batch, 0) for batch in range(leave_out, leave_out + len(seconds))],
        "disagreement": "; ".join(problems),
    }


def statements(rows: Path, out: Path, windows: list[Window], files: int) -> str:
    stream = "CREATE STREAM s (ts TIMESTAMP, k BIGINT, v DOUBLE)"
    lines = [f"{stream} WITH (connector = 'parquet', path = '{rows}', max_files_per_trigger = {files});"]
    for number, (range_s, slide_s) in enumerate(windows):
        window = f"[RANGE {range_s} SECONDS SLIDE {slide_s} SECONDS]"
        lines += [
            f"CREATE QUERY q{number} AS SELECT k, MAX(v) AS m FROM s {window} GROUP BY k;",
            f"CREATE SINK sink{number} FROM q{number} WITH (connector = 'parquet', path = '{out / str(number)}');",
        ]
    return "\n".join(lines)


def expected_of(count: int) -> Expected:
    """The results of any window over all rows; those of equal windows are made once."""
    cells = floor_of_queries.seconds_maxima(*floor.rows(count))
    known: dict[Window, tuple[Any, Any, Any]] = {}

    def of(window: Window) -> tuple[Any, Any, Any]:
        if window not in known:
            known[window] = floor_of_queries.expected(cells, window)
        return known[window]

    return of


def disagreements(out: Path, windows: list[Window], answers: Expected) -> tuple[list[str], dict[int, int]]:
    """What is wrong with what the sinks hold, and how many results all of them got in each micro-batch."""
    problems: list[str] = []
    by_batch: dict[int, int] = {}
    for number, window in enumerate(windows):
        parts = sorted((out / str(number)).glob("*.parquet"))
        rows = [pq.read_metadata(part).num_rows for part in parts]
        for part, held in zip(parts, rows, strict=True):
            batch = int(part.name.split("-")[1])
            by_batch[batch] = by_batch.get(batch, 0) + held
        wanted = answers(window)
        problem = "" if sum(rows) == len(wanted[0]) else f"{sum(rows)} results instead of {len(wanted[0])}"
        if not problem and number % SAMPLED_EVERY == 0:
            table = pa.concat_tables([pq.read_table(part) for part in parts])
            problem = floor_of_queries.difference(table, wanted)
        problems += [f"sink {number}, {window}: {problem}"] if problem else []
    return problems[:5], by_batch


# -- Spark by itself -------------------------------------------------------------------------------------------------


def evenly(windows: list[Window], count: int) -> list[Window]:
    """So many of the windows: the middle ones of equal parts, in the order of their slides a range."""
    ordered = sorted(windows, key=lambda window: (window[0] // window[1], window[1]))
    return [ordered[(2 * part + 1) * len(ordered) // (2 * count)] for part in range(count)]


def measure_alone(window: Window, count: int, file_rows: int, files: int, leave_out: int) -> dict[str, Any]:
    """One query in Structured Streaming; windows that end after the watermark are not reported."""
    rows = spark_rows.folder(count, file_rows)
    range_s, slide_s = window
    settings = {"spark__sql__shuffle__partitions": str(cores()), "spark__sql__session__timeZone": "UTC"}
    with tempfile.TemporaryDirectory(dir=rows.parent) as folder, session(BETTER_JVM, **settings) as spark:
        seconds = trigger_seconds(streamed(spark, rows, (range_s, slide_s), Path(folder), files))
        found = read_results(Path(folder) / "results")
    ends, keys, maxima = expected_of(count)((range_s, slide_s))
    early = ends <= (count - 1) // 1000
    return {
        "window": f"{range_s}, {slide_s}",
        "seconds": seconds[leave_out:],
        "results": [found.num_rows / len(seconds)],
        "disagreement": floor_of_queries.difference(found, (ends[early], keys[early], maxima[early])),
    }


def streamed(spark: SparkSession, rows: Path, window: Window, place: Path, files: int) -> list[Any]:
    """Runs to the end; Spark's progress."""
    from pyspark.sql import functions as f

    range_s, slide_s = window
    results = (
        spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", files)
        .parquet(str(rows))
        .withWatermark("ts", "0 seconds")
        .groupBy(f.window("ts", f"{range_s} seconds", f"{slide_s} seconds"), "k")
        .agg(f.max("v").alias("m"))
        .select(f.col("window.end").alias("window_end"), "k", "m")
    )
    query = (
        results.writeStream.format("parquet")
        .option("path", str(place / "results"))
        .option("checkpointLocation", str(place / "checkpoint"))
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return list(query.recentProgress)
