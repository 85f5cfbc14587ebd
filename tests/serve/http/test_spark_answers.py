"""The answers that are kept for lookups are those that the result log gives, and those of the engine, whatever
micro-batches bring."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import panewise as pw
from panewise.errors import NotHeldError
from panewise.serve.http.backends.spark_answers import SparkAnswers
from panewise.spark.folder_reader import FolderReader
from panewise.spark.results.deliveries import Deliveries
from panewise.temporal import SECOND
from tests.spark.local_run import LocalRun

STATEMENTS = (
    "CREATE STREAM s (ts TIMESTAMP, k STRING, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL 1 SECOND)",
    "CREATE QUERY often AS SELECT k, SUM(v) AS total FROM s [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k",
    "CREATE QUERY seldom AS SELECT k, COUNT(*) AS n FROM s [RANGE 3 SECONDS SLIDE 5 SECONDS] GROUP BY k",
    "CREATE QUERY alone AS SELECT MAX(v) AS most FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS]",
)
LATER = "CREATE QUERY later AS SELECT k, MIN(v) AS least FROM s [RANGE 2 SECONDS SLIDE 1 SECOND] WHERE v > 3 GROUP BY k"
# Steps of time from row to row, keys and values; how far a punctuation goes, where there is one; whether `often` is
# suspended, or resumed.
BATCH = st.tuples(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ab"), st.integers(0, 9)), max_size=5),
    st.none() | st.integers(0, 12),
    st.booleans(),
)


@settings(max_examples=25)
@given(st.lists(BATCH, max_size=7), st.integers(0, 7), st.integers(0, 7))
def test_kept_answers_are_those_of_the_log(
    batches: list[tuple[list[tuple[int, str, int]], int | None, bool]], created: int, started: int
) -> None:
    with tempfile.TemporaryDirectory() as place:
        run = LocalRun(Path(place))
        run.change(*STATEMENTS)
        engine = pw.Engine()
        engine.execute(";".join(STATEMENTS))
        reader = FolderReader(run.folder, run.program.catalog, run.program)
        answers, deliveries = SparkAnswers(reader), Deliveries(run.folder)  # type: ignore[arg-type]
        now = 0
        for number, (rows, ahead, toggled) in enumerate(batches):
            if number == created:
                run.change(LATER)
            if toggled:
                verb = "RESUME" if run.program.versions[-1].queries["often"].suspended else "SUSPEND"
                run.change(f"{verb} QUERY often")
            if number == started:  # another server begins, with what the folder has
                answers, deliveries = SparkAnswers(reader), Deliveries(run.folder)  # type: ignore[arg-type]
            times = []
            for step, _, _ in rows:
                now += step
                times.append(now * SECOND)
            if rows:
                run.push("s", batch_of(times, rows))
                engine.push("s", pa.Table.from_batches([batch_of(times, rows)]))
            if ahead is not None:
                now = max(now, now + ahead)
                run.advance("s", now * SECOND)
                engine.advance("s", now * SECOND)
            run.run()
            follow(reader, answers, deliveries)
            for query in reader.version.queries.values():
                answer = answers.found(query, deliveries.batch)
                if answer is None:  # nobody has seen what was due while it was suspended
                    assert query.suspended or query.resumed is not None
                    with pytest.raises(NotHeldError, match="due while the query was suspended"):
                        reader._reported(query, None)
                    continue
                expected = reader._reported(query, None)
                assert answer.table.to_pylist() == expected.to_pylist()
                if query.name != "later":
                    assert in_order(answer.table) == in_order(engine.lookup(query.name))
                assert answer.watermark_us == reader.watermark_of(query, reader.marks())
                assert answer.lookup().age_s >= 0


def in_order(table: pa.Table) -> list[str]:
    return sorted(map(str, table.to_pylist()))


def follow(reader: FolderReader, answers: SparkAnswers, deliveries: Deliveries) -> None:
    marks = reader.marks()
    names = {query.log_name for query in reader.version.queries.values()}
    begun = deliveries.batch >= 0
    found = deliveries.since_then(marks) if begun else deliveries.earlier(marks, names, 1_000, 1 << 30)
    answers.refresh(marks, found, deliveries.at or 0.0, {name for name in names if not deliveries.total(name)})


def batch_of(times: list[int], rows: list[tuple[int, str, int]]) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "ts": pa.array(times, pa.int64()).cast(pa.timestamp("us", tz="UTC")),
            "k": [key for _, key, _ in rows],
            "v": [value for _, _, value in rows],
        }
    )
