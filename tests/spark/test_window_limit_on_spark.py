"""The limit of windows on Spark: tasks judge their own rows, and buckets the first rows of all tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from panewise.errors import DataError
from panewise.spark.environment.folder import Folder
from panewise.spark.stages.stage_one import _message_packets
from panewise.spark.tasks.batch_progress import last_marks
from tests.spark import local_run
from tests.spark.local_run import LocalRun

DAY = 86_400 * 1_000_000
STREAM = "CREATE STREAM t (ts TIMESTAMP, v BIGINT) WITH (on_bad_row = 'skip')"
QUERIES = [
    "CREATE QUERY fine AS SELECT COUNT(*) AS n FROM t [RANGE 10 SECONDS SLIDE 1 SECOND]",
    "CREATE QUERY kept AS SELECT v FROM t [RANGE 10 SECONDS SLIDE 1 SECOND]",
    "CREATE QUERY coarse AS SELECT COUNT(*) AS n FROM t [RANGE 1 DAY SLIDE 1 DAY]",
]


def rows(*days: float) -> pa.RecordBatch:
    times = pa.array([int(day * DAY) for day in days], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    return pa.record_batch({"ts": times, "v": pa.array(range(len(days)), pa.int64())})


@pytest.mark.parametrize("messages", [[(1000, 0)], [(1000,), (0,)]], ids=["one push", "two pushes"])
def test_a_row_too_old_for_its_micro_batch_is_bad(tmp_path: Path, messages: list[tuple[float, ...]]) -> None:
    run = LocalRun(tmp_path)
    run.change(STREAM, *QUERIES)
    for message in messages:
        run.push("t", rows(*message))
    run.run()
    marks = last_marks(Folder(str(tmp_path)))
    assert not marks.failed
    assert (marks.of("t@0").bad_rows, marks.of("t@0").oldest) == (1, 1000 * DAY)
    run.push("t", rows(1000.02))
    assert run.run()["fine"].num_rows == 1728


@pytest.mark.parametrize("punctuation", [False, True])
def test_first_rows_of_several_tasks_fail_the_queries_that_report_too_often(
    tmp_path: Path, punctuation: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def alone(task: Any, message: Any, extents: Any) -> Any:
        return _message_packets(task, message, {})

    monkeypatch.setattr(local_run, "_message_packets", alone)
    run = LocalRun(tmp_path)
    run.change(STREAM, *QUERIES)
    run.push("t", rows(0))
    if punctuation:
        run.advance("t", 1000 * DAY)
    else:
        run.push("t", rows(1000))
    results = run.run()
    assert results["coarse"].num_rows == 1000
    failed = last_marks(Folder(str(tmp_path))).failed
    assert sorted(name.partition("@")[0] for name in failed) == ["fine", "kept"]
    assert "would close more than 10,000,000 windows" in next(iter(failed.values()))
    run.push("t", rows(1001))
    assert run.run()["coarse"].num_rows == 1


def test_a_stream_that_another_one_waited_for(tmp_path: Path) -> None:
    run = LocalRun(tmp_path)
    windows = "t [RANGE 5 SECONDS SLIDE 1 SECOND], u [RANGE 5 SECONDS SLIDE 1 SECOND]"
    other = STREAM.replace("STREAM t", "STREAM u").replace("skip", "fail")
    run.change(STREAM, other, f"CREATE QUERY q AS SELECT COUNT(*) AS n FROM {windows} WHERE t.v = u.v")
    for day in (0, 100, 200):
        run.push("t", rows(day))
        run.run()
    run.push("u", rows(200))
    with pytest.raises(DataError, match="more than 10,000,000 windows"):
        run.run()
