"""Statements are bound, built and planned once in a process, and files of changes read once. No session is started."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import panewise as pw
from panewise.engine.books import definitions
from panewise.engine.statements import statement_runner
from panewise.optimize import planner
from panewise.spark.environment.folder import Folder
from panewise.spark.handle import Handle
from panewise.spark.program import known_programs, program
from panewise.spark.program.changes import Change, ChangeStatement, write_change
from panewise.spark.program.known_programs import add_change, read_program
from panewise.spark.program.program import Program
from panewise.spark.program.reconcile import reconciled
from tests.engine.hosting.frail_aggregate import register

STREAM = "CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT)"
QUERIES = {
    "summed": "CREATE QUERY summed AS SELECT k, SUM(v) AS s FROM t [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k",
    "moving": "create query moving as select max(v) as m from t [range 3 seconds]  where v > 0 -- as people write",
    "above": "CREATE QUERY above AS SELECT MAX(s) AS m FROM summed [RANGE 3 SECONDS SLIDE 1 SECOND]",
}


class Work:
    """What has been done for each query, by its name, in the driver's books and programs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bound: Counter[str] = Counter()
        self.built = self.planned = self.read = 0
        for module in (statement_runner, program):
            self._count(monkeypatch, module, "bind_one", self._bound)
        self._count(monkeypatch, planner, "physical", self._planned)
        self._count(monkeypatch, definitions, "build", self._built)
        self._count(monkeypatch, known_programs, "read_change", self._read)
        known_programs._known.clear()

    @staticmethod
    def _count(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, note: Any) -> None:
        done = getattr(module, name)

        def counting(*given: Any, **named: Any) -> Any:
            note(*given)
            return done(*given, **named)

        monkeypatch.setattr(module, name, counting)

    def _bound(self, parsed: Any, *_: Any) -> None:
        words = str(parsed).split()
        if words[:2] == ["CREATE", "QUERY"]:
            self.bound[words[2]] += 1

    def _planned(self, *_: Any) -> None:
        self.planned += 1

    def _built(self, *_: Any) -> None:
        self.built += 1

    def _read(self, *_: Any) -> None:
        self.read += 1

    def take(self) -> tuple[dict[str, int], int, int]:
        found = dict(self.bound), self.built, self.planned
        self.bound.clear()
        self.built = self.planned = 0
        return found

    @property
    def once(self) -> tuple[dict[str, int], int, int]:
        return dict.fromkeys(QUERIES, 1), len(QUERIES), len(QUERIES)


def pipeline_at(place: Path, *statements: str, **options: Any) -> pw.SparkPipeline:
    session: Any = SimpleNamespace(version="4.3.0")
    pipeline = pw.SparkPipeline(session, **({"checkpoint": str(place), "partitions": 3} | options))
    for statement in statements:
        pipeline.execute(statement)
    return pipeline


def started(pipeline: pw.SparkPipeline, place: Path, replace: bool = False) -> Handle:
    """A handle whose definitions have been brought to those of the pipeline, and whose Spark query does not run."""
    handle = Handle(pipeline, Folder(str(place)), None, available_now=False)
    statements = reconciled(pipeline.books, handle.program, replace)
    if statements:
        handle.change(statements)
    pipeline._handle = handle
    return handle


def test_a_query_is_bound_built_and_planned_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the start and after it, for the books, the program and EXPLAIN."""
    work = Work(monkeypatch)
    pipeline = pipeline_at(tmp_path, STREAM, QUERIES["summed"])
    pipeline.explain()
    started(pipeline, tmp_path)
    pipeline.execute(f"{QUERIES['moving']}\n; {QUERIES['above']}; EXPLAIN PLAN")
    pipeline.explain("above")
    assert work.take() == work.once
    assert list(pipeline._handle.program.newest.queries) == list(QUERIES)  # type: ignore[union-attr]


def test_a_restart_binds_what_the_books_have_not_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started(pipeline_at(tmp_path, STREAM, *QUERIES.values()), tmp_path)
    work = Work(monkeypatch)  # which also forgets what the process knew
    handle = started(pipeline_at(tmp_path, STREAM, *QUERIES.values()), tmp_path)
    assert work.take() == work.once
    assert handle.program.next_version == 1
    again = started(pipeline_at(tmp_path), tmp_path)
    assert work.take() == ({}, 0, 0)  # the process knows the checkpoint
    assert again.program.next_version == 1
    known_programs._known.clear()
    learning = pipeline_at(tmp_path)
    started(learning, tmp_path)
    assert work.take() == work.once  # the books learn from the program
    assert [query.name for query in learning.queries()] == list(QUERIES)


def test_what_was_bound_to_something_else_is_bound_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text is the same, and the stream below it has another type."""
    started(pipeline_at(tmp_path, STREAM, *QUERIES.values()), tmp_path)
    work = Work(monkeypatch)
    other = pipeline_at(tmp_path, STREAM.replace("v BIGINT", "v DOUBLE"), *QUERIES.values())
    handle = started(other, tmp_path, replace=True)
    bound, _, _ = work.take()
    assert bound == dict.fromkeys(QUERIES, 2)  # by the books, and for what the checkpoint had
    first, last = handle.program.versions
    types = [str(version.queries["summed"].definition.schema.find("s").type) for version in (first, last)]
    assert types == ["BIGINT", "DOUBLE"]


def test_another_sharing_is_planned_for_itself(tmp_path: Path) -> None:
    """The checkpoint's sharing holds, also for what was planned before it was known."""
    started(pipeline_at(tmp_path, STREAM, QUERIES["summed"], sharing="none"), tmp_path)
    other = pipeline_at(tmp_path, STREAM, *QUERIES.values())
    wide = QUERIES["summed"].replace("summed", "wide")
    other.execute(wide)
    handle = started(other, tmp_path)
    other.execute(wide.replace("wide", "wider"))
    queries = handle.program.newest.queries
    assert len({queries[name].family for name in ("summed", "wide", "wider")}) == 3
    explained = other.explain()
    assert explained.startswith("PLAN  <sharing: none, queries: 5,")
    assert explained.count("FAMILY BY k  <queries: 1,") == 4  # one is computed again for who reads it


# -- results() ---------------------------------------------------------------------------------------------------------


def log_names(pipeline: pw.SparkPipeline, place: Path) -> list[str]:
    return [pipeline._log_name(Folder(str(place)), query) for query in pipeline.queries()]


def test_names_in_the_log_are_found_without_reading_changes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(pipeline_at(tmp_path, STREAM, QUERIES["summed"]), tmp_path)
    work = Work(monkeypatch)
    reader = pipeline_at(tmp_path, STREAM, *QUERIES.values())
    assert log_names(reader, tmp_path) == ["summed@0", "moving@1", "above@1"]
    assert work.take() == work.once and work.read == 1
    assert log_names(reader, tmp_path) == ["summed@0", "moving@1", "above@1"] and work.read == 1
    # Another process writes a change: that file is read, and no other.
    elsewhere = Program(3)
    elsewhere.apply(Change(0, 0, (STREAM, QUERIES["summed"])))
    write_change(Folder(str(tmp_path)), elsewhere.apply(Change(1, 7, (QUERIES["moving"].partition(" --")[0],))))
    work.take()
    assert log_names(reader, tmp_path) == ["summed@0", "moving@1", "above@2"] and work.read == 2
    assert work.take() == ({}, 0, 0)
    # The pipeline's own changes need not be read.
    handle = started(reader, tmp_path)
    assert log_names(reader, tmp_path) == ["summed@0", "moving@1", "above@2"] and work.read == 2
    assert handle.program.next_version == 3


def test_a_change_that_was_taken_back_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch)
    pipeline = pipeline_at(tmp_path, STREAM, QUERIES["summed"])
    handle = started(pipeline, tmp_path)
    folder = Folder(str(tmp_path))
    failed = Handle(pipeline, folder, None, available_now=False)
    change = failed._write_change([ChangeStatement(QUERIES["moving"])])
    folder.remove(change.file)  # as a start does that fails
    program = read_program(folder, 3, {})
    assert list(program.newest.queries) == ["summed"] and program.next_version == handle.program.next_version == 1
    assert work.read == 1
    # The next change has the same number and another content.
    add_change(folder, handle.program, Change(1, 0, (QUERIES["above"],)))
    assert list(read_program(folder, 3, {}).newest.queries) == ["summed", "above"]
    assert list(Handle(pipeline, folder, None, available_now=False).program.newest.queries) == ["summed", "above"]


def test_programs_that_were_given_out_are_each_their_owners(tmp_path: Path) -> None:
    handle = started(pipeline_at(tmp_path, STREAM), tmp_path)
    own = read_program(Folder(str(tmp_path)), 3, {})
    handle.change([ChangeStatement(QUERIES["summed"])])
    assert own.newest.queries == {} and own.catalog.find("summed") is None and own.fragments == {}
    assert list(read_program(Folder(str(tmp_path)), 3, {}).newest.queries) == ["summed"]


def test_other_aggregates_of_the_same_name_are_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frail = QUERIES["summed"].replace("SUM", "FRAIL")
    first = pipeline_at(tmp_path, STREAM)
    register(first.books)
    first.execute(frail)
    started(first, tmp_path)
    work = Work(monkeypatch)
    for _ in range(2):
        other = pipeline_at(tmp_path, STREAM)
        register(other.books)
        started(other, tmp_path)
        assert work.take() == ({"summed": 1}, 1, 1)
