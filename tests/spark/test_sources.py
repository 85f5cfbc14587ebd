"""Which files a stream of one file reads on Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import panewise as pw
from panewise.catalog import StreamDefinition
from panewise.spark.ingest.stream_sources import source_frame

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("name", ["plain/rows.csv", "plain/odd{1},[2]^.csv", "odd[1]/rows.csv"])
def test_a_file_is_read_without_files_of_its_name_in_folders_below(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    file = tmp_path / name
    below = file.parent / "below" / file.name
    below.parent.mkdir(parents=True)
    for place in (file, below):
        place.write_text("ts\n2026-01-05 09:30:01\n")
    engine = pw.Engine()
    with pytest.warns(pw.ConnectorWarning):
        engine.execute(f"CREATE STREAM t (ts TIMESTAMP) WITH (connector = 'csv', path = '{file}')")
    stream = engine.catalog.get("t", "stream")
    assert isinstance(stream, StreamDefinition)
    frame, _ = source_frame(spark, stream, None, stream.schema)
    writer = frame.writeStream.format("memory").queryName("files_read").trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    assert [Path(row.path).parent.name for row in spark.table("files_read").collect()] == [file.parent.name]
