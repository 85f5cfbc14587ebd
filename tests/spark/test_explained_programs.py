"""EXPLAIN on Spark says what runs: fragments, families and queries, before the start as they would. No session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import panewise as pw
from panewise.errors import PanewiseError
from panewise.spark.buckets.hosted_program import HostedProgram, Measures
from panewise.spark.folder_reader import FolderReader
from tests.spark.local_run import LocalRun
from tests.spark.test_books import begun, pipeline_of

STREAM = "CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT)"
ARROW = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("k", pa.string()), ("v", pa.int64())])
SECOND = 1_000_000
WINDOW = "[RANGE 4 SECONDS SLIDE 1 SECOND]"


def query(name: str, select: str, rest: str = "", window: str = WINDOW) -> str:
    return f"CREATE QUERY {name} AS SELECT {select} FROM t {window} {rest}"


REPORTED = query("reported", "k, SUM(v) AS s", "GROUP BY k")
INSERTED = query("inserted", "ISTREAM k, SUM(v) AS s", "GROUP BY k")
OTHERS = [
    query("wide", "k, MAX(v) AS m", "GROUP BY k", "[RANGE 9 SECONDS SLIDE 3 SECONDS]"),
    query("high", "k, COUNT(*) AS n", "WHERE v > 2 GROUP BY k"),
    query("all_rows", "COUNT(*) AS n", "WHERE v > 3"),
]


def titles(explained: Any, depth: int = 0) -> list[str]:
    """The titles of an explanation, indented, without those of costs."""
    below = [line for part in explained["inputs"] for line in titles(part, depth + 1)]
    return below if explained["node"].startswith("COST") else ["  " * depth + explained["node"], *below]


def test_one_shape_with_different_spread_is_two_fragments() -> None:
    """The books would have them in one family."""
    pipeline = pipeline_of(STREAM, REPORTED, INSERTED)
    assert str(pipeline.books.explain()).count("FAMILY") == 1
    explained = pipeline.explanation().to_dict()
    assert {name: explained[name] for name in ("queries", "fragments", "trees")} == {
        "queries": 2, "fragments": 2, "trees": 2,
    }  # fmt: skip
    assert titles(explained) == [
        "PLAN",
        "  STREAM t",
        "  FRAGMENT 1 OVER t",
        "    FAMILY BY k",
        "      FOLD rows into slices",
        "      TREE 1",
        "        QUERY reported",
        "  FRAGMENT 2 OVER t",
        "    FAMILY BY k",
        "      FOLD rows into slices",
        "      TREE 1",
        "        QUERY inserted",
    ]
    told = [{name: part[name] for name in ("rows", "buckets")} for part in explained["inputs"][1:]]
    assert told == [{"rows": "folded", "buckets": 2}, {"rows": "together", "buckets": 1}]
    assert "tree: alone" in pipeline.explain("reported") and "tree: alone" in pipeline.explain("inserted")


def test_the_fold_before_the_exchange_is_shown_for_all_fragments_of_a_stream() -> None:
    pipeline = pipeline_of(STREAM, REPORTED, INSERTED, *OTHERS)
    (stream, *_) = pipeline.explanation().to_dict()["inputs"]
    (fold,) = stream["inputs"]
    assert fold["node"] == "FOLD rows once before the exchange, where that is cheaper"
    assert {name: fold[name] for name in ("families", "by", "selections")} == {
        "families": 3, "by": "k", "selections": 2,
    }  # fmt: skip
    alone = pw.SparkPipeline(pipeline.spark, partitions=2, sharing="none")
    for text in (STREAM, REPORTED, *OTHERS):
        alone.execute(text)
    assert "FOLD rows once" not in alone.explain()


def test_before_the_start_as_after_it(tmp_path: Path) -> None:
    texts = [STREAM, REPORTED, INSERTED, *OTHERS]
    pipeline = pipeline_of(*texts)
    pipeline.execute("SUSPEND QUERY wide")
    before = pipeline.explain(), [pipeline.explain(name) for name in ("reported", "all_rows")]
    begun(pipeline, tmp_path, *texts, "SUSPEND QUERY wide")
    assert (pipeline.explain(), [pipeline.explain(name) for name in ("reported", "all_rows")]) == before
    assert pipeline.execute("EXPLAIN PLAN").column("plan").to_pylist() == before[0].split("\n")  # type: ignore[union-attr]


def test_a_statement_sees_those_before_it(tmp_path: Path) -> None:
    """Also in one call, and under the numbers that they will have."""
    pipeline = pipeline_of(STREAM, REPORTED)
    begun(pipeline, tmp_path, STREAM, REPORTED)
    table = pipeline.execute(f"DROP QUERY reported; {OTHERS[2]}; EXPLAIN PLAN")
    assert table is not None
    lines = table.column("plan").to_pylist()
    assert "        QUERY all_rows  <window: [RANGE 4 SECONDS SLIDE 1 SECOND]>" in lines
    assert [line for line in lines if "FRAGMENT" in line] == [
        "  FRAGMENT 2 OVER t  <queries: 1, rows: folded, buckets: 1>"
    ]
    assert pipeline.explain().split("\n") == lines


def test_a_query_that_is_not_there(tmp_path: Path) -> None:
    for place in (None, tmp_path):
        pipeline = pipeline_of(STREAM, REPORTED)
        if place is not None:
            begun(pipeline, place, STREAM, REPORTED)
        with pytest.raises(PanewiseError, match="there is no query 'nobody'"):
            pipeline.explain("nobody")
        with pytest.raises(PanewiseError, match="there is no query 'nobody'"):
            pipeline.execute("EXPLAIN QUERY nobody")


def test_the_sharing_of_the_checkpoint_is_shown(tmp_path: Path) -> None:
    first = pw.SparkPipeline(pipeline_of().spark, partitions=2, sharing="none")
    begun(first, tmp_path)
    pipeline = pipeline_of(STREAM, REPORTED, OTHERS[0])
    assert pipeline.explain().count("FAMILY BY k  <queries: 2") == 1
    begun(pipeline, tmp_path, STREAM, REPORTED, OTHERS[0])
    explained = pipeline.explain()
    assert explained.startswith("PLAN  <sharing: none, queries: 2, fragments: 1, trees: 2>")
    assert explained.count("FAMILY BY k  <queries: 1") == 2


def test_what_was_measured_prices_what_runs(tmp_path: Path) -> None:
    run = LocalRun(tmp_path)
    run.change(STREAM, REPORTED, *OTHERS, query("moving", "k, MAX(v) AS m", "GROUP BY k", "[RANGE 2 SECONDS]"))
    before = HostedProgram(run.program, Measures())
    assert str(before.explanation(None)).count("1,000 per second assumed, none measured yet") == 3
    for second in range(5):
        rows = [{"ts": second * SECOND + 5_000 * i, "k": f"{i % 7}", "v": i} for i in range(200)]
        run.push("t", pa.RecordBatch.from_pylist(rows, ARROW))
        run.run()
    run.change("DROP QUERY wide", query("late", "k, MIN(v) AS m", "GROUP BY k"))
    reader = FolderReader(run.folder, run.program.catalog, run.program)
    hosted = HostedProgram(run.program, reader.measures(), before)
    report = {family.title: family for family in hosted.report().families}
    assert {title: (round(family.rows_per_second or 0), family.groups) for title, family in report.items()} == {
        "BY k": (200, 7), "BY k WHERE 2 < v": (200, 7), "WHERE 3 < v": (200, 1),
    }  # fmt: skip
    assert all(family.trees[0].slices_held for family in report.values())
    assert [name for name, _ in report["BY k"].trees[0].members] == ["reported", "late"]
    assert "QUERY moving  <operator: ContinuousAggregate" in str(hosted.explanation(None))


def test_a_query_that_has_failed_does_not_run(tmp_path: Path) -> None:
    run = LocalRun(tmp_path)
    run.change(STREAM, REPORTED)
    run.push("t", pa.RecordBatch.from_pylist([{"ts": SECOND, "k": "a", "v": 1}], ARROW))
    run.run()
    run.change("CREATE QUERY numbered AS SELECT v FROM t [PARTITION BY k ROWS 2 SLIDE 2]")
    run.push("t", pa.RecordBatch.from_pylist([{"ts": 2 * SECOND, "k": "a", "v": 1}], ARROW))
    run.run()
    hosted = HostedProgram(run.program, FolderReader(run.folder, run.program.catalog, run.program).measures())
    assert "QUERY numbered" not in str(hosted.explanation(None))
    assert "numbers the rows of each partition" in str(hosted.explanation("numbered"))


def test_what_is_computed_for_its_readers_is_shown_where_it_runs() -> None:
    above = "CREATE QUERY above AS SELECT MAX(s) AS m FROM reported [ROWS 3 SLIDE 1]"
    lines = pipeline_of(STREAM, REPORTED, above).explain().split("\n")
    assert "  FRAGMENT 2 OVER t  <queries: 1, rows: together, buckets: 1, computes again: reported>" in lines
    assert sum(line.strip().startswith("QUERY reported") for line in lines) == 2


def test_hosted_fragments_that_did_not_change_are_hosted_once() -> None:
    pipeline = pipeline_of(STREAM, REPORTED, INSERTED)
    first = pipeline._explainer._hosted(None, None)
    before = {bucket.fragment.number: bucket for bucket in first._buckets}
    pipeline.execute(query("more", "COUNT(*) AS n", "WHERE v > 9"))
    pipeline.execute(query("inserted_too", "ISTREAM k, MIN(v) AS m", "GROUP BY k"))
    second = {bucket.fragment.number: bucket for bucket in pipeline._explainer._hosted(None, None)._buckets}
    assert second[1] is before[1] and second[2] is not before[2]
    assert len(second) == 3
