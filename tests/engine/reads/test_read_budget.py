"""One-time queries beside others: each has a budget of rows, bytes and seconds, and what is long runs outside turns."""

from __future__ import annotations

import itertools
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import panewise as pw
from panewise.engine.calls import statement_calls
from panewise.engine.reads.archive_reads import ArchiveView
from panewise.engine.reads.published_answers import watermark_us
from panewise.errors import PlanError, ReadLimitError
from panewise.operators import read_budget
from panewise.operators.joins import probing
from panewise.operators.read_budget import ReadBudget
from tests.engine.small_engine import SECOND
from tests.engine.test_turns import joined, started
from tests.waiting import PATIENCE_S

STREAM = "CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT) WITH (retain = '1 hour')"
A, B, C = (f"t [RANGE 1 HOUR] AS {name}" for name in "abc")
SELF_JOIN = f"SELECT a.v, b.v AS w FROM {A}, {B} WHERE a.k = b.k"
SCANNED = f"SELECT a.v FROM {A}, {B} WHERE a.v + b.v < -5"
THREE = f"SELECT a.v FROM {A}, {B}, {C} WHERE a.k = b.k AND b.k = c.k AND b.v = c.v + 1000000"
SELECTED = "SELECT v, k FROM t [RANGE 1 HOUR]"
LAST = "SELECT v FROM t [ROWS 100000]"


def engine_with(count: int, key: str = "one", **limits: Any) -> pw.Engine:
    """An engine whose stream retains so many rows of one key."""
    engine = pw.Engine(**limits)
    engine.execute(STREAM)
    push(engine, 0, count, key)
    engine.advance("t", 100 * SECOND)
    return engine


def push(engine: pw.Engine, first: int, count: int, key: str = "one") -> None:
    numbers = pa.array(np.arange(first, first + count, dtype=np.int64))
    times = numbers.view(pa.timestamp("us", tz="UTC"))
    engine.push("t", pa.record_batch({"ts": times, "k": pa.array([key] * count), "v": numbers}))


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The budget is asked after every few rows."""
    monkeypatch.setattr(probing, "CANDIDATES", 256)
    monkeypatch.setattr(probing, "LOOKS", 256)
    for name in ("PART_ROWS_MAX", "PART_ROWS_MIN"):
        monkeypatch.setattr(read_budget, name, 64)


@pytest.fixture
def second_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second passes between any two looks at the clock."""
    seconds = itertools.count()
    monkeypatch.setattr(read_budget, "monotonic", lambda: float(next(seconds)))


# -- the three budgets -------------------------------------------------------------------------------------------------


def test_a_join_ends_at_its_rows_before_the_memory_does() -> None:
    engine = engine_with(6_000, read_rows=400_000)
    before, most = pa.total_allocated_bytes(), [0]
    take = ReadBudget.take

    def watched(budget: ReadBudget, rows: int = 0, size: int = 0) -> None:
        most[0] = max(most[0], pa.total_allocated_bytes() - before)
        take(budget, rows, size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ReadBudget, "take", watched)
        tracemalloc.start()
        with pytest.raises(ReadLimitError, match=r"makes more than 400,000 rows, which is its limit \(read_rows\)"):
            engine.execute(SELF_JOIN)
        most.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert sum(most) < 100 << 20, "36 million results would be more than a gigabyte"
    assert engine.execute("SELECT COUNT(*) AS n FROM t [RANGE 1 HOUR]")["n"].to_pylist() == [6_000]


@pytest.mark.parametrize(
    "select", [SELF_JOIN, SELECTED, LAST, "SELECT v FROM names", "SELECT m.v FROM names, names AS m"]
)
def test_rows_that_are_made_count(select: str) -> None:
    engine = engine_with(500, read_rows=400)
    engine.execute("CREATE TABLE names (v BIGINT)")
    engine.execute(f"INSERT INTO names VALUES {', '.join(f'({v})' for v in range(500))}")
    with pytest.raises(ReadLimitError, match="read_rows") as caught:
        engine.execute(select)
    assert "CREATE QUERY" in str(caught.value)


def test_rows_that_are_only_scanned_do_not_count() -> None:
    engine = engine_with(500, read_rows=1)
    assert engine.execute("SELECT SUM(v) AS s FROM t [RANGE 1 HOUR]")["s"].to_pylist() == [499 * 250]
    assert engine.execute("SELECT v FROM t [RANGE 1 HOUR] WHERE v = 7")["v"].to_pylist() == [7]
    with pytest.raises(ReadLimitError):
        engine.execute("SELECT v FROM t [RANGE 1 HOUR] WHERE v < 2")


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("select", [SELF_JOIN, SELF_JOIN.replace("a.v", "a.k"), SELECTED, SELECTED + " WHERE v > 1"])
def test_bytes_are_counted_as_they_are_made(select: str) -> None:
    engine = engine_with(100, "long " * 20_000, read_bytes=1 << 20)
    with pytest.raises(ReadLimitError, match=r"1,048,576 bytes of memory.*read_bytes"):
        engine.execute(select)


@pytest.mark.usefixtures("small_parts")
def test_aggregates_without_a_fixed_size_and_many_of_them_count() -> None:
    engine = engine_with(4_000, read_bytes=1 << 20)
    many = ", ".join(f"SUM(v + {n}) AS s{n}" for n in range(50))
    for select in (f"SELECT {many} FROM {A}, {B} WHERE a.v = b.v".replace("v +", "a.v +"), _medians()):
        with pytest.raises(ReadLimitError, match="read_bytes"):
            engine.execute(select)


def _medians() -> str:
    return f"SELECT {', '.join(f'MEDIAN(v + {n}) AS m{n}' for n in range(50))} FROM t [RANGE 1 HOUR]"


@pytest.mark.usefixtures("small_parts", "second_a_look")
@pytest.mark.parametrize("inside", [1, 1 << 40])
@pytest.mark.parametrize(
    "select", [SELF_JOIN, SCANNED, THREE, SELECTED, LAST, "SELECT COUNT(*) AS n FROM t [UNBOUNDED]"]
)
def test_seconds_are_looked_at_while_it_runs(select: str, inside: int) -> None:
    engine = engine_with(2_000, read_seconds=20)
    engine.reads.isolation.rows_inside = inside
    with pytest.raises(ReadLimitError, match=r"takes longer than 20 s, which is its limit \(read_seconds\)"):
        engine.execute(select)
    assert engine.turns.free


@pytest.mark.parametrize("limits", [{"read_rows": 0}, {"read_bytes": 1.5}, {"read_seconds": 0}, {"read_rows": True}])
def test_a_limit_is_a_positive_number(limits: dict[str, Any]) -> None:
    with pytest.raises(PlanError, match=f"{next(iter(limits))} is a"):
        pw.Engine(**limits)


def test_none_is_no_limit() -> None:
    engine = engine_with(300, read_rows=None, read_bytes=None, read_seconds=None)
    assert engine.execute(SELF_JOIN).num_rows == 90_000


# -- outside everybody's turn ------------------------------------------------------------------------------------------


def archive_at(folder: Path) -> str:
    return (
        f"CREATE ARCHIVE a FROM t WITH (path = '{folder}', key = 'k', lifetime = '1 day', every = '10 seconds', "
        "layout = '2x3')"
    )


LONG = {
    "a join of few rows": SELF_JOIN,
    "a window of rows": LAST,
    "a table": "SELECT v + 1 AS w FROM names",
    "a join with a table": "SELECT names.v FROM t [RANGE 1 HOUR] AS a, names WHERE a.v = names.v",
    "an answer": "SELECT n FROM counts",
    "an archive": "SELECT v FROM a",
    "an archive among others": "SELECT a.v FROM a, names WHERE a.v = names.v",
    "the past of a stream": "SELECT SUM(v) AS s FROM t [RANGE 12 HOURS]",
    "the past of a window of rows": "SELECT SUM(v) AS s FROM t [ROWS 700]",
}


@pytest.mark.parametrize("select", LONG.values(), ids=LONG)
def test_what_may_be_long_is_computed_outside_all_turns(select: str, tmp_path: Path) -> None:
    engine = pw.Engine()
    engine.execute(STREAM.replace("1 hour", "1 minute"))
    engine.execute(archive_at(tmp_path / "archive"))
    engine.execute("CREATE QUERY counts AS SELECT v, COUNT(*) AS n FROM t [RANGE 1 HOUR] GROUP BY v")
    push(engine, 0, 300)
    push(engine, 90 * SECOND, 500)
    engine.advance("t", 100 * SECOND)
    engine.execute("CREATE TABLE names (v BIGINT)")
    engine.execute(f"INSERT INTO names VALUES {', '.join(f'({v})' for v in range(300))}")
    engine.reads.isolation.rows_inside = 100
    owners: set[int] = set()
    take = ReadBudget.take

    def watched(budget: ReadBudget, rows: int = 0, size: int = 0) -> None:
        owners.add(engine.turns.owner)
        take(budget, rows, size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ReadBudget, "take", watched)
        found = engine.execute(select.replace("1 HOUR", "1 MINUTE"))
    assert owners == {0}
    engine.reads.isolation.level = "serial"
    again = engine.execute(select.replace("1 HOUR", "1 MINUTE"))
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, again.to_pylist()))
    engine.close()


def test_explain_reads_the_footers_of_archives_outside_all_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_with(100)
    engine.execute(archive_at(tmp_path / "archive"))
    owners = []
    touched = ArchiveView.touched
    monkeypatch.setattr(
        ArchiveView, "touched", lambda view, sought: owners.append(engine.turns.owner) or touched(view, sought)
    )
    assert "row groups" in str(engine.execute("EXPLAIN SELECT v FROM a")["plan"].to_pylist())
    assert owners == [0]
    engine.close()


def test_rows_that_take_long_are_scanned_outside_all_turns_to_the_last_few() -> None:
    engine = engine_with(4_000)
    engine.reads.isolation.sub_window_rows = engine.reads.isolation.rows_inside = 1_000
    steps: list[None] = []
    engine.reads.isolation.between_steps = lambda: steps.append(None)
    answer = engine.execute("SELECT SUM(LENGTH(LPAD(k, 8000, 'x'))) AS n FROM t [RANGE 1 HOUR]")
    assert answer is not None and answer["n"].to_pylist() == [32_000_000]
    assert len(steps) > 50  # of a short SELECT, there would be three


def test_a_push_goes_through_while_a_join_of_few_rows_makes_many() -> None:
    engine = engine_with(500)
    begun, pushed = threading.Event(), threading.Event()
    take = ReadBudget.take

    def slow(budget: ReadBudget, rows: int = 0, size: int = 0) -> None:
        begun.set()
        assert pushed.wait(PATIENCE_S), "a push waits for the read"
        take(budget, rows, size)

    def write() -> None:
        assert begun.wait(PATIENCE_S)
        push(engine, 200 * SECOND, 1)
        pushed.set()

    writer = started(write)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ReadBudget, "take", slow)
        assert engine.execute(SELF_JOIN).num_rows in (250_000, 250_001)
    joined(writer)


def test_a_long_read_that_is_overtaken_answers_as_of_its_last_begin() -> None:
    for inside_s, counted, seconds in ((1e9, 1, 103), (0.0, 0, 103)):
        engine = engine_with(500)
        engine.reads.isolation.inside_s = inside_s
        later = iter(range(101, 200))
        engine.reads.isolation.between_steps = lambda engine=engine, later=later: engine.advance(
            "t", next(later) * SECOND
        )
        answer = engine.execute(SELF_JOIN)
        assert engine.stats()["reads"]["aborted"] == 3
        assert engine.stats()["reads"]["inside_the_turn"] == counted
        assert (answer.num_rows, watermark_us(answer)) == (250_000, seconds * SECOND)


def test_a_table_that_changes_meanwhile_is_seen_as_it_is_at_the_commit() -> None:
    engine = engine_with(3)
    engine.execute("CREATE TABLE names (v BIGINT)")
    engine.execute("INSERT INTO names VALUES (1)")
    engine.reads.isolation.rows_inside = 0

    def insert() -> None:
        engine.reads.isolation.between_steps = None
        engine.execute("INSERT INTO names VALUES (2)")

    for select, found in (
        ("SELECT v FROM names", 2),
        ("SELECT a.v FROM t [RANGE 1 HOUR] AS a, names WHERE a.v = names.v", 2),
    ):
        engine.execute("DELETE FROM names WHERE v = 2")
        engine.reads.isolation.between_steps = insert
        assert engine.execute(select).num_rows == found


@pytest.mark.parametrize("word", ["", "EXPLAIN "])
def test_a_long_statement_is_bound_outside_all_turns(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_with(3)
    many = f"{word}SELECT {', '.join(f'v + {n} AS c{n}' for n in range(200))} FROM t [RANGE 1 HOUR]"
    owners: list[int] = []
    bind = statement_calls.bind_one

    def watched(*arguments: Any) -> Any:
        owners.append(engine.turns.owner)
        return bind(*arguments)

    monkeypatch.setattr(statement_calls, "bind_one", watched)
    assert engine.execute(many).num_rows
    assert owners == [0]


def test_a_statement_that_was_bound_to_other_definitions_is_bound_again(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_with(3)
    bind, bound = statement_calls.bind_one, []

    def overtaken(*arguments: Any) -> Any:
        bound.append(bind(*arguments))
        if len(bound) == 1:
            engine.execute("DROP STREAM t")
            engine.execute("CREATE STREAM t (ts TIMESTAMP, k BIGINT, v BIGINT) WITH (retain = '1 hour')")
        return bound[-1]

    monkeypatch.setattr(statement_calls, "bind_one", overtaken)
    table = engine.execute(f"SELECT k, {', '.join(f'v + {n} AS c{n}' for n in range(200))} FROM t [RANGE 1 HOUR]")
    assert (table.num_rows, table.schema.field("k").type) == (0, pa.int64())
