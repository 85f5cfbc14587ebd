"""What a pipeline refuses and says before Spark has a part in it. No session is started here."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import panewise as pw
from panewise.errors import CatalogError, ConnectorError, PanewiseError
from panewise.spark.environment.folder import Folder
from panewise.spark.handle import Handle
from panewise.spark.program.changes import ChangeStatement
from panewise.spark.tasks.batch_progress import Marks, write_marks

STREAM = "CREATE STREAM Trades (ts TIMESTAMP, v BIGINT);"
QUERY = "CREATE QUERY q AS SELECT SUM(v) AS s FROM Trades [RANGE 2 SECONDS SLIDE 1 SECOND];"


def pipeline_of(*statements: str, version: str = "4.3.0") -> pw.SparkPipeline:
    session: Any = SimpleNamespace(version=version)
    pipeline = pw.SparkPipeline(session, partitions=2)
    for statement in statements:
        pipeline.execute(statement)
    return pipeline


def begun(pipeline: pw.SparkPipeline, place: Path, *statements: str) -> Handle:
    """A handle whose definitions are written down and whose Spark query does not run."""
    handle = Handle(pipeline, Folder(str(place)), None, available_now=False)
    handle.change([ChangeStatement(statement) for statement in statements])
    pipeline._handle = handle
    return handle


@pytest.mark.parametrize("verb", ["SUSPEND", "RESUME"])
def test_a_query_that_has_failed_is_neither_suspended_nor_resumed(verb: str, tmp_path: Path) -> None:
    pipeline = pipeline_of(STREAM, QUERY)
    if verb == "RESUME":
        pipeline.execute("SUSPEND QUERY q;")
    begun(pipeline, tmp_path, STREAM, QUERY)
    write_marks(Folder(str(tmp_path)), Marks(batch=0, failed={"q@0": "an answer of SUM is outside BIGINT"}))
    before = pipeline.books.execute("SHOW QUERIES")
    with pytest.raises(CatalogError, match="'q' has failed: an answer of SUM is outside BIGINT"):
        pipeline.execute(f"{verb} QUERY q;")
    assert pipeline.books.execute("SHOW QUERIES") == before


def test_a_stream_that_cannot_be_added_leaves_the_others(tmp_path: Path) -> None:
    from pyspark.sql.types import StructField, StructType, TimestampType

    schema = StructType([StructField("ts", TimestampType())])
    first, second = (SimpleNamespace(isStreaming=True, schema=schema, columns=["ts"]) for _ in range(2))
    pipeline = pipeline_of()
    pipeline.add_stream("t", first, timestamp="ts")  # type: ignore[arg-type]
    begun(pipeline, tmp_path, "CREATE STREAM t (ts TIMESTAMP) WITH (connector = 'dataframe');")
    for name, reason in (("u", "'u' cannot be added while the pipeline runs"), ("t", "there is already a stream 't'")):
        with pytest.raises(PanewiseError, match=reason):
            pipeline.add_stream(name, second, timestamp="ts")  # type: ignore[arg-type]
    assert pipeline.frames == {"t": first}
    assert [stream.name for stream in pipeline.books.catalog] == ["t"]


def test_explanations_name_streams_as_people_do() -> None:
    assert "  fragment 1 over Trades answers q" in pipeline_of(STREAM, QUERY).explain().split("\n")


def test_explanations_tell_the_trees_of_a_fragment() -> None:
    queries = (
        "CREATE QUERY a AS SELECT k, w, SUM(v) AS s FROM t [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k, w;",
        "CREATE QUERY b AS SELECT w, k, SUM(v) AS s FROM t [RANGE 3 SECONDS SLIDE 1 SECOND] WHERE v > 1 GROUP BY w, k;",
        "CREATE QUERY c WITH (technique='two_stacks') AS SELECT w, MIN(v) FROM t [RANGE 2 S SLIDE 1 S] GROUP BY k, w",
        "CREATE QUERY d AS SELECT k, w, MAX(v) AS s FROM t [RANGE 9 SECONDS SLIDE 2 SECONDS] GROUP BY k, w;",
        "CREATE QUERY e AS SELECT MAX(v) AS m FROM t [RANGE 9 SECONDS SLIDE 2 SECONDS] WHERE v < 7;",
    )
    stream = "CREATE STREAM t (ts TIMESTAMP, k STRING, w STRING, v BIGINT);"
    explained = pipeline_of(stream, *queries).explain()
    lines = explained[explained.index("on Spark:") :].split("\n")
    assert lines == [
        "on Spark:",
        "  fragment 1 over t answers a, b, c, d",
        "    the source is asked for: ts, k, w, v",
        "    rows are folded per slice and `k`, `w` before the exchange, for 3 families, partials merged in 2 buckets",
        "      rows by `k`, `w`: a, d",
        "      rows where (1L < `v`) by `w`, `k`: b",
        "      rows by `k`, `w`, kept by two_stacks: c",
        "  fragment 2 over t answers e",
        "    the source is asked for: ts, k, w, v",
        "    rows where (`v` < 7L) are folded per slice before the exchange, partials merged in one bucket",
    ]


def test_a_checkpoint_of_another_format_is_refused(tmp_path: Path) -> None:
    Folder(str(tmp_path)).make()
    before = {"id": "1", "partitions": 2, "named": True, "sharing": "weave"}
    Folder(str(tmp_path)).write_json("pipeline.json", before)
    with pytest.raises(CatalogError, match="its state has format 1, and this version reads format 4"):
        begun(pipeline_of(STREAM, QUERY), tmp_path)
    assert Folder(str(tmp_path)).read_json("pipeline.json") == before


def test_a_session_that_is_too_old() -> None:
    with pytest.raises(ConnectorError, match=r"needs Spark 4\.3 or later; the session has 4\.2\.1"):
        pipeline_of(version="4.2.1")


def test_a_sink_does_not_write_into_the_input(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "v.csv").write_text("ts,v\n")
    table = "CREATE TABLE w (v BIGINT) NON RETROACTIVE WITH (connector = 'csv', path = '{}');"
    sink = "CREATE SINK k FROM q WITH (connector = 'json', path = '{}');"
    pipeline = pipeline_of(STREAM, QUERY)
    pipeline.execute(sink.format(tmp_path / "in" / "v.csv"))
    with pytest.raises(ConnectorError, match="sink 'k' would write into the input of table 'w'"):
        pipeline.execute(table.format(tmp_path / "in"))
    assert pipeline.books.catalog.find("w") is None
    pipeline.execute("DROP SINK k;")
    pipeline.books.execute(table.format(tmp_path / "in" / "v.csv"))
    with pytest.raises(ConnectorError, match="sink 'k' would write into the input of table 'w'"):
        pipeline.execute(sink.format(tmp_path / "in"))
    assert pipeline.books.catalog.find("k") is None


@pytest.mark.parametrize("partitions", [None, 7])
def test_results_are_found_before_a_start_whatever_the_partitions_were(tmp_path: Path, partitions: int | None) -> None:
    """Queries over whole rows are in shards, of which the checkpoint says how many there are."""
    rows = [f"CREATE QUERY {name} AS SELECT v FROM Trades [RANGE 10 SECONDS];" for name in ("q1", "q2", "q3", "q4")]
    first = pipeline_of(STREAM, *rows)
    handle = begun(first, tmp_path, STREAM, *rows)
    assert len({query.fragment for query in handle.program.newest.queries.values()}) > 1
    session: Any = SimpleNamespace(version="4.3.0")
    again = pw.SparkPipeline(session, partitions=partitions, checkpoint=str(tmp_path))
    for statement in (STREAM, *rows):
        again.execute(statement)
    names = [again._log_name(Folder(str(tmp_path)), query) for query in again.queries()]
    assert names == ["q1@0", "q2@0", "q3@0", "q4@0"]


def test_explain_names_the_fragments_that_run(tmp_path: Path) -> None:
    """A query that was dropped leaves its number behind, and nobody else gets it."""
    pipeline = pipeline_of(STREAM, QUERY)
    begun(pipeline, tmp_path, STREAM, QUERY)
    pipeline.execute("DROP QUERY q;")
    pipeline.execute(
        "CREATE QUERY grouped AS SELECT v, COUNT(*) AS n FROM Trades [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY v;"
    )
    assert "fragment 2 over Trades answers grouped" in pipeline.explain("grouped")
