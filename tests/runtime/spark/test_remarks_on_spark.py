"""Rows that a pipeline does not take: who fetches is told of late ones, and those far ahead of the clock are bad."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import panewise as pw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SECOND = 1_000_000


def test_late_rows_are_remarked_on(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = pw.SparkPipeline(spark, checkpoint=str(tmp_path), name="set_aside")
    pipeline.execute(
        "CREATE STREAM t (ts TIMESTAMP, v BIGINT);"
        "CREATE QUERY q AS SELECT COUNT(*) AS n FROM t [RANGE 1 SECOND SLIDE 1 SECOND];"
    )
    handle = pipeline.start()
    try:
        pipeline.push("t", [{"ts": 60 * SECOND, "v": 1}])
        handle.process_all()
        pipeline.push("t", [{"ts": 20 * SECOND, "v": 1}, {"ts": 61 * SECOND, "v": 1}])
        handle.process_all()
        with pytest.warns(pw.LateRowsWarning, match="1 of 3 rows of stream 't'.*- INTERVAL 40 SECONDS") as caught:
            handle.fetch("q")
        assert caught[0].filename == __file__
        assert handle.stats()["streams"]["t"]["late_remark"] == str(caught[0].message)
        with pytest.warns(pw.LateRowsWarning, match=r"keeps no late rows \(1 were dropped so far\)"):
            assert handle.late_rows("t").num_rows == 0
    finally:
        handle.stop()
