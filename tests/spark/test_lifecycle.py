"""The life of a pipeline in a stock session: start, change, fail, restart, ask. Answers are those of the engine.

One session as a user has it, without any setting for panewise. Starting a Spark query takes seconds, so that few
pipelines go through many events each.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import panewise as pw
from panewise.errors import CatalogError, NotHeldError
from tests.case_runner import same_rows
from tests.waiting import PATIENCE_S, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panewise.spark.handle import Handle

pytestmark = pytest.mark.spark

EPOCH = datetime(2024, 5, 1, tzinfo=UTC)
STOCK = {
    "spark.sql.shuffle.partitions": "200",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    ),
}
ARROW = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("k", pa.string()), ("v", pa.int64())])
GROUPED = "SELECT k, SUM(v) AS s, COUNT(*) AS n FROM t [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY k"
TOTAL = "SELECT COUNT(*) AS n, MAX(v) AS m FROM t [RANGE 3 SECONDS SLIDE 1 SECOND]"
CHANGING = "SELECT k, COUNT(*) AS n FROM t [RANGE 2 SECONDS] GROUP BY k"
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def stock() -> Iterator[SparkSession]:
    """What `SparkSession.builder.getOrCreate()` gives; beside a session of other tests, one with a user's settings."""
    from pyspark.sql import SparkSession

    there = SparkSession.getActiveSession()
    if there is not None:
        session = there.newSession()
        for name, value in STOCK.items():
            session.conf.set(name, value)
        yield session
        return
    before = {name: os.environ.pop(name, None) for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")}
    session = SparkSession.builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
    os.environ.update({name: value for name, value in before.items() if value is not None})


def at(seconds: float) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


def row(seconds: float, k: str = "a", v: int = 1) -> dict[str, Any]:
    return {"ts": at(seconds), "k": k, "v": v}


def wait_until(reached: Callable[[], bool], handle: Handle) -> None:
    until(lambda: reached() or not handle.active, handle.status)
    assert reached(), handle.status()


class Twin:
    """A pipeline over a stream `t` and an engine beside it that gets the same rows and statements."""

    def __init__(self, delay: int) -> None:
        self.engine = pw.Engine()
        time = f"WATERMARK FOR ts AS ts - INTERVAL {delay} SECONDS"
        self.engine.execute(f"CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT, {time});")

    def expected(self, query: str) -> Rows:
        return list(self.engine.results(query).to_pylist())


# -- a user's DataFrame, changes while it runs ---------------------------------------------------------------------


def test_a_users_stream_and_changes_while_it_runs(stock: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    numbers = iter(range(1_000))

    def arrive(rows: Rows) -> None:
        hidden = source / f".{next(numbers)}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, ARROW), hidden)
        hidden.rename(source / hidden.name.removeprefix("."))
        twin.engine.push("t", rows)
        handle.process_all()

    twin = Twin(delay=2)
    frame = stock.readStream.schema("ts timestamp, k string, v bigint").parquet(str(source))
    pipeline = pw.SparkPipeline(stock, checkpoint=str(tmp_path / "checkpoint"), name="lifecycle")
    pipeline.add_stream("t", frame, timestamp="ts", watermark="2 seconds", late="keep")
    definitions = f"CREATE QUERY grouped AS {GROUPED}; CREATE QUERY changing AS {CHANGING};"
    pipeline.execute(definitions)
    twin.engine.execute(definitions)
    before = dict(stock.conf.getAll)
    handle = pipeline.start()
    assert dict(stock.conf.getAll) == before
    taken = pipeline.results("grouped").writeStream.format("memory").queryName("taken").outputMode("append").start()
    try:
        # Out of order within the delay: no row is late.
        arrive([row(1, "a", 5), row(0.5, "b", 1), row(2.5, "a", 2)])
        arrive([row(1.5, "b", 7), row(4, "a", 1), row(5, "b", 3)])
        assert handle.stats()["streams"]["t"]["late_rows"] == 0

        # Others lose and repeat nothing when queries come, rest and go.
        pipeline.execute(f"CREATE QUERY total AS {TOTAL}; SUSPEND QUERY changing;")
        twin.engine.execute(f"CREATE QUERY total AS {TOTAL}; SUSPEND QUERY changing;")
        arrive([row(7, "a", 4), row(9, "c", 8)])
        shown = pipeline.execute("SHOW QUERIES;")
        assert shown is not None
        assert dict(zip(shown["name"].to_pylist(), shown["status"].to_pylist(), strict=True)) == {
            "grouped": "RUNNING", "changing": "SUSPENDED", "total": "RUNNING"
        }  # fmt: skip
        pipeline.execute("RESUME QUERY changing;")
        twin.engine.execute("RESUME QUERY changing;")
        arrive([row(12, "b", 2), row(14, "a", 1)])

        # A row is late when the watermark of the micro-batch before has passed it; it is counted and set aside.
        arrive([row(3, "late", 1), row(13, "a", 6)])
        assert handle.stats()["streams"]["t"]["late_rows"] == 1
        assert handle.late_rows("t").to_pylist() == [row(3, "late", 1)]

        # A punctuation moves time without rows.
        handle.advance("t", at(20))
        twin.engine.advance("t", int(at(20).timestamp() * 1e6))
        handle.process_all()
        same_rows(twin.expected("grouped"), handle.fetch("grouped").to_pylist())
        same_rows(twin.expected("changing"), handle.fetch("changing").to_pylist())
        found, whole = handle.fetch("total").to_pylist(), twin.expected("total")
        same_rows([one for one in whole if one["window_end"] >= found[0]["window_end"]], found)
        assert found[0]["window_end"] <= at(9)

        assert handle.lookup("grouped", at=at(16), key="a").to_pylist() == [
            {"window_start": at(12), "window_end": at(16), "k": "a", "s": 7, "n": 2}
        ]
        pipeline.execute("DROP QUERY total;")
        assert [event["name"] for event in handle.progress()][-1:] in ([], ["lifecycle"])
        assert handle.status()["state"] == "RUNNING"
        with pytest.raises(CatalogError, match="cannot be added while the pipeline runs"):
            pipeline.add_stream("u", frame, timestamp="ts")

        # What the user's own sink has got is what the query has said, once.
        handle_rows = [list(one.values()) for one in pipeline_rows(pipeline, "grouped")]
        taken.processAllAvailable()
        memory = stock.sql("SELECT * FROM taken").toArrow().to_pylist()
        assert sorted(map(str, (list(one.values()) for one in memory))) == sorted(map(str, handle_rows))
        assert memory
    finally:
        taken.stop()
        handle.stop()
    assert handle.status()["state"] == "STOPPED"
    assert dict(stock.conf.getAll) == before


def pipeline_rows(pipeline: pw.SparkPipeline, query: str) -> Rows:
    """All results of a query so far, read from the log as a new handle does."""
    from panewise.spark.environment.folder import Folder
    from panewise.spark.results.batch_log import read_entries

    assert pipeline._checkpoint is not None
    folder = Folder(pipeline._checkpoint)
    entries = [entry for batch in folder.numbers("results") for entry in read_entries(folder, batch, "result") or []]
    return [one for entry in entries if entry.name.partition("@")[0] == query for one in entry.table.to_pylist()]


# -- pushed rows, restarts, lookups, idle streams ------------------------------------------------------------------


DEFINITIONS = f"""
    CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL 1 SECOND);
    CREATE QUERY grouped AS {GROUPED};
    CREATE QUERY changing AS {CHANGING};
"""


def test_restarts(stock: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "checkpoint")
    twin = Twin(delay=1)
    twin.engine.execute(f"CREATE QUERY grouped AS {GROUPED}; CREATE QUERY changing AS {CHANGING};")
    first, second = [row(0, "a"), row(1, "b"), row(3, "a", 9)], [row(5, "b"), row(4.5, "a"), row(8, "c")]
    pipeline = pw.SparkPipeline(stock, checkpoint=place)
    pipeline.execute(DEFINITIONS)
    handle = pipeline.start()
    pipeline.push("t", first)
    handle.process_all()
    with pytest.raises(CatalogError, match="runs already"):
        pipeline.start()
    early = handle.fetch("grouped").to_pylist()
    pipeline.execute(f"CREATE QUERY total AS {TOTAL};")
    handle.stop()
    # A statement between two runs holds in the next one.
    pipeline.execute("DROP QUERY total;")

    changed = pw.SparkPipeline(stock, checkpoint=place)
    changed.execute(DEFINITIONS.replace("[RANGE 2 SECONDS]", "[RANGE 9 SECONDS]"))
    with pytest.raises(CatalogError, match="other definitions of query changing"):
        changed.start()

    again = pw.SparkPipeline(stock, checkpoint=place)
    again.execute(DEFINITIONS)
    handle = again.start()
    try:
        assert [query.name for query in again.queries()] == ["grouped", "changing"]
        again.push("t", second)
        handle.process_all()
        for rows in (first, second):
            twin.engine.push("t", rows)
        found = handle.fetch("grouped").to_pylist()
        assert found[: len(early)] == early
        same_rows(twin.expected("grouped"), found)
        same_rows(twin.expected("changing"), handle.fetch("changing").to_pylist())

        # Lookups: from the log, and asked of the bucket.
        same_rows(twin.engine.lookup("changing").to_pylist(), handle.lookup("changing").to_pylist())
        same_rows(twin.engine.lookup("grouped").to_pylist(), handle.lookup("grouped").to_pylist())
        with pytest.raises(NotHeldError, match="has no report at"):
            handle.lookup("grouped", at=at(100))
        (tree,) = [tree for tree in handle.stats()["trees"] if tree["queries"] == ["grouped"]]
        assert tree["groups"] >= 2 and tree["stored_bytes"] > 0
        told, said = handle.stats()["queries"], twin.engine.stats()["queries"]
        assert {name: told[name]["answer_since"] for name in told} == {
            name: said[name]["answer_since"] for name in told
        }
        assert told["grouped"]["answer_since"] is not None
        assert handle.metrics()["rows"] == len(first) + len(second)

        # A stream that falls silent is closed up to its last row.
        again.execute("ALTER STREAM t SET (idle = '500 milliseconds');")
        assert "00:00:07" in handle.stats()["streams"]["t"]["watermark"]
        wait_until(lambda: "00:00:08.000001" in handle.stats()["streams"]["t"]["watermark"], handle)
        twin.engine.advance("t", int(at(8).timestamp() * 1e6) + 1)
        same_rows(twin.expected("changing"), handle.fetch("changing").to_pylist())
    finally:
        handle.stop()

    # Replaced: what is defined now holds, and what has changed begins anew.
    replaced = pw.SparkPipeline(stock, checkpoint=place)
    replaced.execute(DEFINITIONS.replace("[RANGE 2 SECONDS]", "[RANGE 9 SECONDS]"))
    handle = replaced.start(available_now=True, replace=True)
    assert handle.wait(PATIENCE_S)
    replaced.push("t", [row(30, "z"), row(31, "z")])
    handle = replaced.start(available_now=True)
    assert handle.wait(PATIENCE_S)
    handle.flush()
    twin.engine.push("t", [row(30, "z"), row(31, "z")])
    twin.engine.flush()
    late = [one for one in handle.fetch("grouped").to_pylist() if one["window_end"] >= at(8)]
    same_rows(twin.expected("grouped"), late)
    assert {one["k"] for one in handle.fetch("changing").to_pylist() if one["instant"] > at(20)} == {"z"}


# -- bad rows ----------------------------------------------------------------------------------------------------------


def test_a_bad_row_fails_the_run_until_it_may_be_skipped(stock: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    good = [f'{{"ts": "2024-05-01T00:00:0{second}Z", "k": "a", "v": {second}}}' for second in range(8)]
    (source / "one.json").write_text("\n".join([*good[:3], '{"ts": "2024-05-01T00:00:03Z", "k": "a", "v": "many"}']))
    pipeline = pw.SparkPipeline(stock, checkpoint=str(tmp_path / "checkpoint"))
    pipeline.execute(
        f"CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT) WITH (connector = 'json', path = '{source}');"
        f"CREATE QUERY total AS {TOTAL};"
    )
    handle = pipeline.start()
    with pytest.raises(Exception, match="many"):
        handle.wait(PATIENCE_S)
    status = handle.status()
    assert status["state"] == "FAILED" and "many" in status["message"]
    assert handle.stats()["streams"]["t"]["rows"] == 0

    pipeline.execute("ALTER STREAM t SET (on_bad_row = 'skip');")
    (source / "two.json").write_text("\n".join(good[4:]))
    handle = pipeline.start(available_now=True)
    assert handle.wait(PATIENCE_S)
    handle.flush()
    assert handle.stats()["streams"]["t"]["bad_rows"] == 1
    (bad,) = handle.bad_rows("t").to_pylist()
    assert "many" in bad["row"]
    engine = pw.Engine()
    engine.execute(f"CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT); CREATE QUERY total AS {TOTAL};")
    engine.push("t", [row(second, "a", second) for second in (0, 1, 2, 4, 5, 6, 7)])
    engine.flush()
    same_rows(engine.results("total").to_pylist(), handle.fetch("total").to_pylist())


# -- very many groups --------------------------------------------------------------------------------------------------


def test_very_many_groups(stock: SparkSession, tmp_path: Path, soak: bool) -> None:
    keys = 1_000_000 if soak else 100_000
    definitions = """
        CREATE STREAM t (ts TIMESTAMP, k BIGINT, v BIGINT);
        CREATE QUERY q AS SELECT k, SUM(v) AS s, MAX(v) AS m FROM t [RANGE 20 SECONDS SLIDE 10 SECONDS] GROUP BY k;
    """
    chance = np.random.default_rng(7)
    engine = pw.Engine()
    pipeline = pw.SparkPipeline(stock, checkpoint=str(tmp_path / "checkpoint"))
    for host in (engine, pipeline):
        host.execute(definitions)
    handle = pipeline.start()
    try:
        for turn in range(3):
            seconds = np.sort(chance.integers(0, 10_000_000, keys)) + turn * 10_000_000
            columns = {
                "ts": pa.array(seconds).cast(pa.timestamp("us", tz="UTC")),
                "k": chance.permutation(keys) if turn != 1 else chance.integers(0, keys, keys),
                "v": chance.integers(0, 1_000, keys),
            }
            batch = pa.RecordBatch.from_pydict(columns)
            engine.push("t", batch)
            pipeline.push("t", batch)
        handle.flush()
        engine.flush()
        order = [("window_end", "ascending"), ("k", "ascending")]
        found, expected = handle.fetch("q").sort_by(order), engine.results("q").sort_by(order)
        assert found.num_rows > 3 * keys
        assert found.equals(expected)
    finally:
        handle.stop()
