"""A program for a cluster: ships panewise, answers a query in every executor, and once more for each line it is sent.

Each answer is one line of JSON: the executors' work folders, where panewise came from there, and the sums. It runs as a
process of its own because a process has one Spark context, and that of the tests is a local one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from panewise.spark.environment.shipping import ship

if TYPE_CHECKING:
    import pyarrow as pa

TASKS = 4
SECONDS = 20
STATEMENTS = """
    CREATE STREAM s (ts TIMESTAMP, k STRING, v BIGINT);
    CREATE QUERY q AS SELECT k, SUM(v) AS s, MAX(v) AS m FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k;
"""


def total(number: int) -> int:
    """The sum of all SUMs that an engine answers over a few rows with this number."""
    import panewise as pw

    engine = pw.Engine()
    engine.execute(STATEMENTS)
    rows = [{"ts": second * 1_000_000, "k": "ab"[second % 2], "v": number} for second in range(SECONDS)]
    engine.push("s", rows)
    engine.flush()
    return sum(engine.results("q").column("s").to_pylist())


def answered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In an executor: a total for each number that the task was given."""
    import pyarrow as pa

    import panewise as pw

    folder = str(Path(SparkFiles.getRootDirectory()).resolve())
    for batch in batches:
        for number in batch.column("id").to_pylist():
            found = {"executor": folder, "package": str(pw.__file__), "total": total(number)}
            yield pa.RecordBatch.from_pylist([found])


def answer(session: SparkSession) -> str:
    # One partition a number: a task each, so that every core has work.
    rows = session.range(0, TASKS, 1, TASKS).mapInArrow(answered, "executor string, package string, total bigint")
    found = rows.collect()
    return json.dumps(
        {
            "executors": sorted({row.executor for row in found}),
            "packages": sorted({row.package for row in found}),
            "totals": sorted(row.total for row in found),
        }
    )


def main() -> None:
    # All executors first: otherwise the first one may have done all tasks before the second is there.
    session = SparkSession.builder.config("spark.scheduler.minRegisteredResourcesRatio", "1.0").getOrCreate()
    ship(session)
    ship(session)  # a second time changes nothing
    print(answer(session), flush=True)
    for _ in sys.stdin:
        print(answer(session), flush=True)
    session.stop()


if __name__ == "__main__":
    main()
