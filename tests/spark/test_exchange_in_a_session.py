"""A join and a negation exchanged by key in a Spark query that stops, dies and goes on: what the engine says."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import panewise as pw
from panewise.spark.delivery import batch_writer
from tests.engine.random_relations import CREATE, SECOND
from tests.spark.both_hosts import ARROW
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

WINDOWS = "a [RANGE 4 SECONDS] AS x, b [RANGE 3 SECONDS] AS y"
QUERIES = {
    "pairs": f"SELECT x.k, x.v AS p, y.v AS q FROM {WINDOWS} WHERE x.k = y.k",
    "alone": "SELECT k, v FROM a [RANGE 4 S] WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 3 S] WHERE b.k = a.k)",
    "counted": f"SELECT COUNT(*) AS n FROM {WINDOWS} WHERE x.k = y.k",
}
DEFINED = "; ".join(
    [*(CREATE.format(stream) for stream in "ab"), *(f"CREATE QUERY {name} AS {text}" for name, text in QUERIES.items())]
)


def test_as_the_engine_says_whatever_happens(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, soak: bool
) -> None:
    chance, engine = Random(7), pw.Engine()
    engine.execute(DEFINED)

    def begun() -> tuple[pw.SparkPipeline, Any]:
        """A new driver from the checkpoint and the same text."""
        pipeline = pw.SparkPipeline(spark, checkpoint=str(tmp_path / "checkpoint"), name="exchange", partitions=2)
        pipeline.execute(DEFINED)
        return pipeline, pipeline.start()

    def come(second: int) -> None:
        """Rows of a second, out of order within the delay, and NULL among their keys."""
        for stream in "ab":
            rows = [
                {
                    "ts": second * SECOND + chance.randrange(SECOND),
                    "k": chance.choice((None, *range(12))),
                    "v": chance.randrange(9),
                }
                for _ in range(40)
            ]
            batch = pa.RecordBatch.from_pylist(rows, ARROW)
            engine.push(stream, batch)
            pipeline.push(stream, batch)

    pipeline, handle = begun()
    try:
        assert "by a.`k` = b.`k` into 2 buckets" in pipeline.explain("pairs")
        assert "one bucket: an aggregate without GROUP BY" in pipeline.explain("counted")
        for second in range(4):
            come(second)
        handle.process_all()
        for tree in handle.stats()["trees"]:
            assert tree["buckets"] == (1 if tree["queries"] == ["counted"] else 2)
        shown = (engine.execute("SELECT * FROM alone"), handle.lookup("alone"))
        assert same(*shown)
        if soak:  # the death below starts anew as well; tests/spark/test_lifecycle.py stops in every run
            handle.stop()
            pipeline, handle = begun()
        come(4)
        handle.process_all()
        # The driver dies when the results are there and nothing says so yet: the micro-batch is done again.
        with monkeypatch.context() as patch:
            patch.setattr(batch_writer, "write_marks", _dies)
            come(5)
            with pytest.raises(Exception, match="the driver dies"):  # noqa: PT012
                handle.process_all()
                handle.wait(PATIENCE_S)
        pipeline, handle = begun()
        for second in range(6, 9):
            come(second)
        handle.process_all()
        for stream in "ab":
            engine.advance(stream, 60 * SECOND)
            handle.advance(stream, 60 * SECOND)
        handle.process_all()
        for name in QUERIES:
            expected = engine.results(name)
            assert expected.num_rows > 50
            assert same(handle.fetch(name), expected)  # of the whole log
    finally:
        handle.stop()


def _dies(*_: Any) -> None:
    raise RuntimeError("the driver dies")


def same(first: pa.Table | None, second: pa.Table | None) -> bool:
    """Of one instant results come in any order."""
    assert first is not None and second is not None
    return sorted(map(repr, first.to_pylist())) == sorted(map(repr, second.to_pylist()))
