"""Shared queries on Spark: 100 queries against Spark's own `window()` for each, and 1,000 queries against one.

The queries are those of `shared_queries`, MAX by 100 groups, with a Parquet sink for each. What counts is a trigger of
the running query, by Spark's own progress, with the results of all queries in their sinks as typed columns.

Against Spark: 100 queries over the files of `spark_windows`, as many a trigger. In the same session, afterwards, some of
the queries run as everybody writes them, each alone: a watermark, `groupBy(window(...), k)`, append mode, a Parquet
sink. They are chosen evenly among all by their slides a range, on which `window()`'s time depends, and all are
taken to cost as many times the mean as there are queries. The session has the JVM's setting and the number of shuffle
partitions that are better for Spark.

Against one: a file a trigger, each number of queries in a session of its own. More results take longer to write, so a
second is allowed for every half million of them beside twice the time of one query.
"""

from __future__ import annotations

import tempfile
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

AGAINST_SPARK, ASKED_ALONE = 100, 6
AGAINST_ONE, SMALL_TRIGGERS, WARM_UP = 1_000, 12, 4
QUICK_QUERIES, QUICK_ASKED_ALONE, QUICK_SMALL_TRIGGERS = 10, 2, 6
TIMES_SPARK_WANTED = 100.0
TIMES_ONE, RESULTS_A_SECOND = 2.0, 500_000
SAMPLED_EVERY = 19  # queries whose sinks are compared; of the others rows are counted


def run(quick: bool) -> Report:
    queries, alone = (QUICK_QUERIES, QUICK_ASKED_ALONE) if quick else (AGAINST_SPARK, ASKED_ALONE)
    file_rows, files = (QUICK_FILE_ROWS, QUICK_FILES) if quick else (FILE_ROWS, FILES)
    report = Report(
        "spark_shared_queries",
        f"spark_shared_queries: MAX by {floor.GROUPS} groups, slides of 1 to 60 s, ranges of 1 to 60 slides, "
        "a Parquet sink per query, all cores",
        (
            *("system", "queries", "rows a trigger", "triggers", "median s", "least s", "most s", "rows/s"),
            *("results a trigger", "results/s", "ours to it", "agrees"),
        ),
    )
    spark_rows.folder(TRIGGERS * files * file_rows, file_rows)  # written before any clock starts
    given = {"count": TRIGGERS * files * file_rows, "file_rows": file_rows, "files": files}
    figure = isolated_on_all_cores(measure, queries=queries, leave_out=1, alone=alone, **given)
    _add(report, "panewise", queries, files * file_rows, figure)
    _add_alone(report, figure, queries, files * file_rows)
    spark_s = queries * median([seconds for one in figure["alone"] for seconds in one["seconds"]][:0] or _means(figure))
    report.aims = [
        Aim.at_least(
            f"{queries} queries: time of `window()` for each, to ours", TIMES_SPARK_WANTED,
            spark_s / median(figure["seconds"]),
        )
    ]  # fmt: skip
    return report
