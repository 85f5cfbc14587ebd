"""Buckets that two workers keep: a change that does not concern a fragment leaves its buckets alone, wherever they are.

Each micro-batch is one worker's, so that the other one's buckets are of the version before when their turn comes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import panewise as pw
from panewise.spark.buckets.bucket_state import KeptBucket
from panewise.spark.buckets.family_pages import FamilyPages
from panewise.spark.buckets.row_journal import RowJournal
from panewise.spark.program import known_programs
from panewise.spark.tasks.worker import BatchTask
from tests.case_runner import same_rows
from tests.spark.local_run import LocalRun

SECOND = 1_000_000
ARROW = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("k", pa.int64()), ("v", pa.int64())])
STREAMS = [f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, v BIGINT)" for name in ("a", "b")]
QUERIES = {
    "summed": "SELECT k, SUM(v) AS s FROM a [RANGE 6 SECONDS SLIDE 2 SECONDS] GROUP BY k",
    "total": "SELECT COUNT(*) AS n FROM a [RANGE 4 SECONDS SLIDE 1 SECOND] WHERE v > 3",
    "moving": "SELECT k, MAX(v) AS m FROM a [RANGE 3 SECONDS] GROUP BY k",
    "joined": "SELECT x.k, x.v, y.v AS w FROM a [RANGE 4 SECONDS] AS x, b [RANGE 4 SECONDS] AS y WHERE x.k = y.k",
}
CREATES = {name: f"CREATE QUERY {name} AS {text}" for name, text in QUERIES.items()}
UNRELATED = [
    ["CREATE STREAM c (ts TIMESTAMP, k BIGINT, v BIGINT)"],
    ["CREATE QUERY other AS SELECT SUM(v) AS s FROM c [RANGE 4 SECONDS SLIDE 1 SECOND]"],
    ["CREATE QUERY pairs AS SELECT v, COUNT(*) AS n FROM b [RANGE 4 SECONDS SLIDE 1 SECOND] GROUP BY v"],
    ["ALTER STREAM a SET (late = 'drop')", "SUSPEND QUERY other"],
    ["DROP QUERY other", "DROP QUERY pairs", "DROP STREAM c"],
]


class TwoWorkers(LocalRun):
    """`built`: the fragments whose buckets were built anew from what is stored."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(place)
        self.built: list[int] = []
        for layout in (FamilyPages, RowJournal):
            monkeypatch.setattr(layout, "build", staticmethod(self._counting(layout.build)))

    def _counting(self, build: Any) -> Any:
        def counting(bucket: Any, *given: Any) -> None:
            self.built.append(bucket.fragment.number)
            build(bucket, *given)

        return counting

    def _task(self) -> BatchTask:
        task = super()._task()
        task.kept = self.workers[self.batch % 2]
        return task

    def kept(self) -> Iterator[KeptBucket]:
        """The buckets of the worker that has had the last micro-batch."""
        return (kept for kept in self.workers[(self.batch - 1) % 2].values() if isinstance(kept, KeptBucket))


class Fed:
    """A run of two workers and an engine, fed alike."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.run, self.engine = TwoWorkers(place, monkeypatch), pw.Engine()
        self.found: dict[str, list[dict[str, Any]]] = {}
        self.second = 0

    def change(self, *statements: str) -> None:
        self.run.change(*statements)
        for statement in statements:
            self.engine.execute(statement)

    def go_on(self, turns: int = 1) -> None:
        for _ in range(turns):
            for stream in ("a", "b"):
                rows = [{"ts": self.second * SECOND + i, "k": i % 3, "v": self.second + i} for i in range(6)]
                self.run.push(stream, pa.RecordBatch.from_pylist(rows, ARROW))
                self.engine.push(stream, rows)
            for name, table in self.run.run().items():
                self.found.setdefault(name, []).extend(table.to_pylist())
            self.second += 1

    def check(self, *names: str) -> None:
        for name in names:
            expected = self.engine.results(name).to_pylist()
            assert len(expected) > 5
            same_rows(expected, self.found.pop(name))


@pytest.fixture
def fed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fed:
    """Both workers have all buckets."""
    fed = Fed(tmp_path, monkeypatch)
    fed.change(*STREAMS, *CREATES.values())
    fed.go_on(4)
    assert fed.run.built  # by the second worker
    fed.run.built.clear()
    return fed


def test_an_unrelated_change_rebuilds_no_kept_bucket(fed: Fed) -> None:
    for statements in UNRELATED:
        fed.change(*statements)
        fed.go_on(3)
        own = [kept.bucket for kept in fed.run.kept() if kept.bucket.fragment.number <= 4]
        assert own and {bucket.version for bucket in own} == {fed.run.program.newest.number}
    fragments = {query.fragment for query in fed.run.program.newest.queries.values()}
    assert fragments.isdisjoint(fed.run.built)
    fed.check(*QUERIES)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE QUERY more AS SELECT k, MAX(v) AS m FROM a [RANGE 5 SECONDS SLIDE 3 SECONDS] GROUP BY k",
        "CREATE QUERY more AS SELECT COUNT(*) AS n FROM a [RANGE 3 SECONDS SLIDE 1 SECOND] WHERE v > 3",
        "CREATE QUERY more AS SELECT x.k, y.v FROM a [RANGE 2 SECONDS] AS x, b [RANGE 2 SECONDS] AS y WHERE x.k = y.k",
    ],
)
def test_a_change_that_concerns_a_fragment_is_applied(statement: str, fed: Fed) -> None:
    """By both workers, and to no other fragment."""
    fed.change(statement)
    concerned = fed.run.program.newest.queries["more"].fragment
    assert any(q.fragment == concerned for name, q in fed.run.program.newest.queries.items() if name != "more")
    fed.go_on(3)
    assert set(fed.run.built) == {concerned}
    fed.go_on(9)
    assert fed.found["more"]
    fed.check(*QUERIES)


def test_who_was_suspended_and_goes_on_is_concerned(fed: Fed) -> None:
    fed.change("SUSPEND QUERY moving")
    fed.go_on(2)
    fed.change("RESUME QUERY moving")
    fed.go_on(2)
    assert set(fed.run.built) == {fed.run.program.newest.queries["moving"].fragment}
    fed.check("summed", "total", "joined")


def test_what_came_and_went_between_two_turns_is_no_difference_that_is_passed_over(fed: Fed) -> None:
    """Edges are cut for it, although both versions are equal."""
    fed.change("CREATE QUERY brief AS SELECT k, MIN(v) AS m FROM a [RANGE 7 SECONDS SLIDE 1 SECOND] GROUP BY k")
    fed.go_on()
    fed.change("DROP QUERY brief")
    fed.go_on(8)
    assert set(fed.run.built) == {fed.run.program.newest.queries["summed"].fragment}
    fed.check(*QUERIES)


def test_another_program_that_says_the_same_goes_on_with_kept_buckets(fed: Fed) -> None:
    """A process that has forgotten its program reads it anew."""
    for statements in UNRELATED:
        known_programs._of_runs.clear()
        before = {id(kept.bucket) for kept in fed.run.kept()}
        fed.change(*statements)
        fed.go_on(2)
        assert {id(kept.bucket) for kept in fed.run.kept()} & before
    fragments = {query.fragment for query in fed.run.program.newest.queries.values()}
    assert fragments.isdisjoint(fed.run.built)
    fed.check(*QUERIES)
