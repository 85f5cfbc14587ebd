"""Many queries on Spark: 200 sinks on 200 queries against one sink on one query, by the time that a trigger takes.

Each trigger is a file of 100,000 rows, a hundred seconds of event time. The two hundred have ranges of 1 to 300 s and
slides of about 200 s, so that they have about as many results in all as the one with a slide of a second: judged is
what queries and sinks cost by themselves. Every sink is a Parquet folder, and what it holds at the end is compared.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench import floor, spark_rows, window_rows
from bench.measure import isolated_on_all_cores
from bench.report import Aim, Report
from bench.spark_session import median, session, trigger_seconds
from bench.spark_windows import run_to_the_end

QUERIES = 200
RATIO_WANTED = 2.0
FILE_ROWS, TRIGGERS, WARM_UP = 100_000, 14, 4
QUICK_FILE_ROWS, QUICK_TRIGGERS = 10_000, 6

Window = tuple[int, int]  # range and slide in seconds


def run(quick: bool) -> Report:
    file_rows, triggers = (QUICK_FILE_ROWS, QUICK_TRIGGERS) if quick else (FILE_ROWS, TRIGGERS)
    report = Report(
        "spark_many_queries",
        f"spark_many_queries: {floor.GROUPS} groups, SUM and MAX, a Parquet sink per query, all cores",
        ("queries", "rows a trigger", "triggers", "median s", "least s", "most s", "results", "rows read", "agrees"),
    )
    spark_rows.folder(triggers * file_rows, file_rows)
    medians = {}
    for queries in (1, 20 if quick else QUERIES):
        figure = isolated_on_all_cores(measure, queries=queries, count=triggers * file_rows, file_rows=file_rows)
        seconds = figure["seconds"]
        medians[queries] = median(seconds)
        report.rows.append(
            {"queries": queries, "rows a trigger": file_rows, "triggers": len(seconds), "median s": medians[queries],
             "least s": min(seconds), "most s": max(seconds), "results": figure["results"],
             "rows read": figure["rows_read"], "agrees": not figure["disagreement"]}
        )  # fmt: skip
        if figure["disagreement"]:
            report.agree = False
            report.notes.append(f"{queries} queries: {figure['disagreement']}")
    one, many = medians.values()
    report.notes.append("the many slide so much more slowly that there are about as many results")
    report.aims = [Aim.at_most(f"time of a trigger with {max(medians)} sinks to one with 1", RATIO_WANTED, many / one)]
    return report


def windows(queries: int) -> list[Window]:
    draw = random.Random(11)
    if queries == 1:
        return [(150, 1)]
    return [(draw.randint(1, 300), draw.randint(queries * 4 // 5, queries * 6 // 5)) for _ in range(queries)]


# -- in a process of its own -----------------------------------------------------------------------------------------


def statements(rows: Path, out: Path, chosen: list[Window]) -> str:
    stream = "CREATE STREAM s (ts TIMESTAMP, k BIGINT, v DOUBLE)"
    lines = [f"{stream} WITH (connector = 'parquet', path = '{rows}', max_files_per_trigger = 1);"]
    for number, (range_s, slide_s) in enumerate(chosen):
        window = f"[RANGE {range_s} SECONDS SLIDE {slide_s} SECONDS]"
        lines += [
            f"CREATE QUERY q{number} AS SELECT k, SUM(v) AS s, MAX(v) AS m FROM s {window} GROUP BY k;",
            f"CREATE SINK sink{number} FROM q{number} WITH (connector = 'parquet', path = '{out / str(number)}');",
        ]
    return "\n".join(lines)


def measure(queries: int, count: int, file_rows: int) -> dict[str, Any]:
    rows = spark_rows.folder(count, file_rows)
    chosen = windows(queries)
    with tempfile.TemporaryDirectory(dir=rows.parent) as place, session() as spark:
        folder = Path(place)
        cql = statements(rows, folder / "out", chosen)
        handle, progress = run_to_the_end(spark, cql, folder / "checkpoint")
        seconds = trigger_seconds(progress)
        rows_read = handle.stats()["streams"]["s"]["rows"]
        handle.stop()
        problems, results = disagreements(folder / "out", chosen, count)
    return {
        "seconds": seconds[WARM_UP:],
        "rows_read": rows_read,
        "results": results,
        "disagreement": "; ".join(problems),
    }


def disagreements(out: Path, chosen: list[Window], count: int) -> tuple[list[str], int]:
    """What is wrong with the sinks' content (a sample is compared in full), and how many rows all of them hold."""
    problems = []
    results = 0
    for number, (range_s, slide_s) in enumerate(chosen):
        parts = sorted((out / str(number)).glob("*.parquet"))
        if number % 19:
            results += sum(pq.read_metadata(part).num_rows for part in parts)
            continue
        table = pa.concat_tables([pq.read_table(part) for part in parts])
        results += table.num_rows
        problem = window_rows.disagreement(table, count, range_s, slide_s)
        problems += [f"sink {number}: {problem}"] if problem else []
    return problems, results
