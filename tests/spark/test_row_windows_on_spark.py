"""Windows of rows that come in mid-stream on Spark, without a session: numbered from the beginning, or refused."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import panewise as pw
from panewise.errors import PlanError
from panewise.spark.tasks.batch_progress import read_marks
from tests.spark.local_run import LocalRun
from tests.spark.test_books import begun, pipeline_of

SECOND = 1_000_000
STREAM = "CREATE STREAM s (ts TIMESTAMP, k STRING, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)"
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.string()), ("v", pa.int64())])
Row = tuple[int, str, int]


def push(run: LocalRun, rows: list[Row]) -> None:
    batch = pa.RecordBatch.from_pylist([{"ts": t * SECOND, "k": k, "v": v} for t, k, v in rows], SCHEMA)
    run.push("s", batch)


def values(tables: list[dict[str, pa.Table]], name: str) -> list[int]:
    return [row["v"] for table in tables for row in (table[name].to_pylist() if name in table else [])]


@pytest.mark.parametrize("seed", range(6))
def test_reports_are_numbered_from_the_first_row_of_the_stream(seed: int, tmp_path: Path) -> None:
    """Rows come out of order, also from before what the stream had reached when the queries were created."""
    chance = Random(seed)
    run = LocalRun(tmp_path, partitions=3, seed=seed)
    run.change(STREAM, "CREATE QUERY first AS SELECT v FROM s [ROWS 1 SLIDE 1]")
    rows: list[Row] = []
    created: dict[str, tuple[int, int, int]] = {}  # rows, slide, and what the stream had reached
    found = []
    reached = -1
    for step in range(10):
        part = [(max(0, reached - 5) + chance.randint(0, 8), "a", 100 * step + i) for i in range(chance.randint(1, 6))]
        rows += part
        push(run, part)
        found.append(run.run())
        reached = max(t for t, _, _ in rows)
        if step % 3 == 1:
            size, slide = chance.randint(1, 4), chance.randint(1, 4)
            for name, item in (("picked", "v"), ("summed", "SUM(v) AS v")):
                created[f"{name}{step}"] = size, slide, reached
                run.change(f"CREATE QUERY {name}{step} AS SELECT {item} FROM s [ROWS {size} SLIDE {slide}]")
    run.advance("s", (reached + 10) * SECOND)
    found.append(run.run())
    rows.sort(key=lambda row: row[0])
    assert values(found, "first") == [v for _, _, v in rows]
    for name, (size, slide, after) in created.items():
        reports = [rows[max(0, n - size) : n] for n in range(slide, len(rows) + 1, slide)]
        said = [[v for _, _, v in report] if "picked" in name else [sum(v for _, _, v in report)] for report in reports]
        whole = [part for part, report in zip(said, reports, strict=True) if report[0][0] > after]
        got = values(found, name)
        # It may begin earlier, where another query has had its rows brought to the same bucket.
        suffixes = [list(chain(*said[at:])) for at in range(len(said) - len(whole) + 1)]
        assert got in suffixes, (name, size, slide, after, got, rows)


def test_the_rows_of_partitions_that_went_by_were_counted_by_nobody(tmp_path: Path) -> None:
    run = LocalRun(tmp_path)
    run.change(STREAM)
    push(run, [(1, "a", 1), (2, "b", 2)])
    run.run()
    run.change("CREATE QUERY q AS SELECT v FROM s [PARTITION BY k ROWS 2 SLIDE 2]")
    push(run, [(3, "a", 1)])
    run.run()
    assert "numbers the rows of each partition" in read_marks(run.folder, run.batch - 1).failed["q@1"]


NAMED = "CREATE QUERY named AS SELECT k, SUM(v) AS v FROM s [RANGE 2 SECONDS SLIDE 2 SECONDS] GROUP BY k"
OVER = "CREATE QUERY over AS SELECT MAX(v) AS v FROM named [ROWS 2 SLIDE 2]"


def test_the_results_of_a_query_are_counted_only_where_they_all_come(tmp_path: Path) -> None:
    """Who reads a query of a tree has a copy of it: one that begins later does not know how many results there were.

    `soon` selects, so that it is of another family and is computed in another bucket.
    """
    run = LocalRun(tmp_path)
    run.change(STREAM, NAMED)
    run.change(OVER.replace("over", "soon") + " WHERE v >= 0")
    push(run, [(t, "a", t) for t in range(12)])
    found = [run.run()]
    run.change(OVER)
    push(run, [(t, "a", t) for t in range(12, 30)])
    found.append(run.run())
    assert values(found, "soon") and not values(found, "over")
    assert "numbers the results of 'named'" in read_marks(run.folder, run.batch - 1).failed["over@2"]


def test_who_joins_a_family_finds_the_results_counted(tmp_path: Path) -> None:
    """The family is computed where it is, and with it the copy of the query that it reads."""
    run = LocalRun(tmp_path)
    run.change(STREAM, NAMED, OVER)
    push(run, [(t, "a", t) for t in range(12)])
    run.run()
    run.change(OVER.replace("over", "later"))
    push(run, [(t, "a", t) for t in range(12, 30)])
    found = [run.run()]
    assert values(found, "later") == values(found, "over") == [13, 21, 29, 37]


def in_mid_stream(place: Path) -> tuple[pw.SparkPipeline, Any, LocalRun]:
    """A pipeline whose stream has had twelve rows, its handle, and the run that stands for Spark."""
    pipeline = pipeline_of(STREAM, NAMED)
    handle: Any = begun(pipeline, place / "books", STREAM, NAMED)
    run = LocalRun(place / "books")
    run.change(STREAM, NAMED)
    push(run, [(t, "a", t) for t in range(12)])
    run.run()
    return pipeline, handle, run


def test_that_is_refused_when_it_is_said(tmp_path: Path) -> None:
    pipeline, handle, _ = in_mid_stream(tmp_path)
    assert handle.begins_late("named")
    with pytest.raises(PlanError, match="numbers the results of 'named'"):
        pipeline.execute(OVER)


LATE = "SELECT v FROM s [RANGE 2 SECONDS SLIDE 2 SECONDS]"
PASSED = "CREATE QUERY passed AS SELECT ISTREAM v FROM s [NOW]"


def test_the_results_of_a_query_in_mid_stream_have_no_numbers(tmp_path: Path) -> None:
    """But for those of a query that hands rows on: it is a stream that begins with it."""
    late, over = f"CREATE QUERY late AS {LATE}", OVER.replace("named", "late")
    on, over_on = "CREATE QUERY on_late AS SELECT ISTREAM v FROM late [NOW]", OVER.replace("named", "on_late")
    over_passed = OVER.replace("named", "passed").replace("over", "over_passed")
    pipeline, handle, run = in_mid_stream(tmp_path)
    for statement in (late, on, PASSED, over_passed):
        pipeline.execute(statement)
    inline = over.replace("late", f"({LATE})")
    for statement, inner in ((over, "'late'"), (inline, "the subquery"), (over_on, "'on_late'")):
        with pytest.raises(PlanError, match=f"numbers the results of {inner}"):
            pipeline.execute(statement)
    for statement in (late, on, PASSED, over_passed):
        run.change(statement)
    push(run, [(t, "a", t) for t in range(12, 20)])
    found = [run.run()]
    assert [handle.begins_late(name) for name in ("late", "on_late", "passed")] == [True, True, False]
    run.change(over, OVER.replace("named", "passed").replace("over", "again"))
    push(run, [(t, "a", t) for t in range(20, 30)])
    found.append(run.run())
    assert "numbers the results of 'late'" in read_marks(run.folder, run.batch - 1).failed["over@5"]
    assert values(found, "over_passed") == [13, 15, 17, 19, 21, 23]
    assert values(found, "again") == [15, 17, 19, 21, 23]
