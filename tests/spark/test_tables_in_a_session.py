"""Tables in a running Spark query: changed, restarted, a micro-batch done again; the engine says the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import panewise as pw
from panewise.errors import DataError
from panewise.spark.delivery import batch_writer
from tests.engine.random_relations import SECOND
from tests.spark.test_connected_tables import write
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NAMES = "CREATE TABLE names (k STRING PRIMARY KEY, name STRING) NON RETROACTIVE"
DEFINED = """
CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT);
CREATE TABLE most (k STRING PRIMARY KEY, v BIGINT);
INSERT INTO most VALUES ('a', 1), ('b', 1);
CREATE QUERY named AS SELECT t.v, names.name FROM t [RANGE 10 SECONDS SLIDE 1 SECOND], names WHERE t.k = names.k;
CREATE QUERY over AS SELECT t.k, t.v FROM t [RANGE 10 SECONDS], most WHERE t.k = most.k AND t.v > most.v;
"""
QUERIES = ("named", "over")


def test_as_the_engine_says_whatever_happens(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "names.parquet"
    write(file, a="Anna")
    engine = pw.Engine()
    engine.execute(f"{NAMES}; INSERT INTO names VALUES ('a', 'Anna'); {DEFINED}")

    def begun() -> tuple[pw.SparkPipeline, Any]:
        """A new driver from the checkpoint and the same text."""
        pipeline = pw.SparkPipeline(spark, checkpoint=str(tmp_path / "checkpoint"), name="tables")
        pipeline.execute(f"{NAMES} WITH (connector = 'parquet', path = '{file}'); {DEFINED}")
        return pipeline, pipeline.start()

    def come(second: int, *keys: str) -> None:
        """Rows of a second, in a micro-batch."""
        rows = [{"ts": second * SECOND, "k": key, "v": second} for key in keys]
        engine.push("t", rows)
        engine.advance("t", second * SECOND + 1)
        pipeline.push("t", rows)
        handle.advance("t", second * SECOND + 1)

    pipeline, handle = begun()
    try:
        come(1, "a", "b")
        come(2, "a", "b")
        handle.process_all()
        run = handle.status()
        # Both tables change while it runs, which it goes on to do.
        for host in (engine, pipeline):
            host.execute("UPDATE most SET v = 2 WHERE k = 'a'; INSERT INTO most VALUES ('c', 0)")
            with pytest.raises(DataError, match="'most' already has a row with the key k = 'a'"):
                host.execute("INSERT INTO most VALUES ('d', 0), ('a', 0)")
        write(file, a="Anne", b="Ben")
        engine.execute("UPDATE names SET name = 'Anne' WHERE k = 'a'; INSERT INTO names VALUES ('b', 'Ben')")
        come(3, "a", "b", "c")
        handle.process_all()
        assert handle.status()["state"] == run["state"] == "RUNNING"
        assert handle.stats()["tables"]["names"]["version"] == 2
        assert handle.stats()["queries"]["over"]["tables"] == {"most": 2}
        handle.stop()
        pipeline, handle = begun()
        come(4, "a", "b", "c")
        handle.process_all()
        # A micro-batch has been computed, and the driver dies before it has written anything. It stands still while
        # the rows and the watermark that passes them come, so that one micro-batch has both.
        handle.stop()
        come(5, "a", "b", "c")
        with monkeypatch.context() as patch:
            patch.setattr(batch_writer, "write_entries", _dies)
            pipeline, handle = begun()
            with pytest.raises(Exception, match="the driver dies"):
                handle.wait(PATIENCE_S)
        write(file, b="Bea")
        pipeline, handle = begun()
        handle.process_all()
        # What it saw then it has seen again; what came meanwhile is for the next one.
        engine.execute("DELETE FROM names WHERE k = 'a'; UPDATE names SET name = 'Bea' WHERE k = 'b'")
        come(6, "a", "b", "c")
        handle.process_all()
        for name in QUERIES:
            expected = engine.results(name)
            assert expected.num_rows > 6
            assert _rows(handle.fetch(name)) == _rows(expected), name
        asked = "SELECT k, name FROM names"
        assert pipeline.execute(asked).to_pylist() == engine.execute(asked).to_pylist() == [{"k": "b", "name": "Bea"}]
        told = "\n".join(pipeline.execute("EXPLAIN QUERY named").column("plan").to_pylist())
        assert f"table names: version 3, 1 row, as of micro-batch {handle.status()['batch']}" in told
    finally:
        handle.stop()


def _dies(*arguments: Any) -> None:
    raise RuntimeError("the driver dies")


def _rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))
