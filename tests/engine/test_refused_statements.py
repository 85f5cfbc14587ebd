"""Statements that are refused, whatever raises: nothing of them is left, and the folder of the engine opens again."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import panewise as pw
from panewise.engine.channels.channel import Channel
from panewise.engine.consumers.plan_consumer import PlanConsumer
from panewise.engine.hosting import query_starter
from panewise.engine.hosting.read_graph import ReadGraph
from panewise.errors import PlanError
from panewise.language.bind.binder import bind_one, parse
from panewise.language.statements import SelectOnce
from panewise.operators.continuous.continuous import ContinuousRows
from panewise.operators.family.family import Family
from panewise.optimize.node_of_plan import physical
from panewise.plan.build import build
from panewise.plan.physical_plan import Difference, Planned
from tests.soak.statements import books

BASE = """
CREATE STREAM s (ts TIMESTAMP, a BIGINT, k STRING);
CREATE STREAM u (ts TIMESTAMP, a BIGINT, k STRING);
CREATE TABLE t (k STRING PRIMARY KEY, w BIGINT);
CREATE QUERY sums AS SELECT k, SUM(a) AS total FROM s [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k;
CREATE QUERY pairs AS
  SELECT x.a AS one, y.a AS other FROM s [RANGE 5 SECONDS] x JOIN u [RANGE 5 SECONDS] y ON x.k = y.k;
"""
UNPLANNED = [
    "SELECT x.a FROM (SELECT a FROM s [RANGE 1 MINUTE]) x",
    "SELECT x.a FROM (SELECT ISTREAM a FROM s [RANGE 1 MINUTE]) x WHERE x.a > 1",
    "SELECT SUM(x.a) AS total FROM (SELECT a FROM s [RANGE 1 MINUTE SLIDE 1 SECOND]) x",
    "SELECT x.a FROM (SELECT a, k FROM s [RANGE 1 MINUTE]) x JOIN u [RANGE 1 MINUTE] y ON x.k = y.k",
    "SELECT x.a FROM (SELECT a, k FROM s [NOW]) x JOIN (SELECT a, k FROM u [NOW]) y ON x.k = y.k",
    "SELECT x.a FROM (SELECT i.a FROM s [NOW] i JOIN u [NOW] j ON i.k = j.k) x JOIN u [NOW] y ON x.a = y.a",
    "SELECT COUNT(*) AS n FROM (SELECT a FROM s [RANGE 1 MINUTE] EXCEPT SELECT a FROM u [RANGE 1 MINUTE]) x",
    "SELECT a FROM (SELECT a FROM s [RANGE 1 MINUTE]) UNION SELECT a FROM u [RANGE 1 MINUTE]",
    "SELECT DISTINCT x.a FROM (SELECT a FROM s [RANGE 1 MINUTE]) x",
    "SELECT a FROM s [NOW] WHERE EXISTS (SELECT * FROM (SELECT a FROM u [NOW]) y WHERE y.a = s.a)",
    (
        "SELECT a FROM s [NOW] x WHERE EXISTS (SELECT 1 AS one FROM u [NOW] y, s [NOW] z WHERE y.a = z.a AND x.a = y.a"
        " AND NOT EXISTS (SELECT * FROM u [NOW] w WHERE w.a = y.a))"
    ),
    (
        "SELECT a FROM s [NOW] x WHERE EXISTS (SELECT * FROM u [NOW] y WHERE x.a < y.a"
        " AND NOT EXISTS (SELECT * FROM u [NOW] w WHERE w.a = y.a))"
    ),
    (
        "SELECT a FROM s [NOW] x WHERE EXISTS (SELECT * FROM u [NOW] y"
        " WHERE NOT EXISTS (SELECT * FROM u [NOW] w WHERE w.a = x.a))"
    ),
    "SELECT RSTREAM RESTORE a FROM s [ROWS 4 SLIDE 2]",
    "SELECT ISTREAM RESTORE SUM(a) AS total FROM s [PARTITION BY k ROWS 4 SLIDE 2]",
]


@pytest.mark.parametrize("select", UNPLANNED)
@pytest.mark.parametrize("fed", [False, True])
def test_what_has_no_operator_is_refused_by_the_planner(select: str, fed: bool, tmp_path: Path) -> None:
    with pw.Engine(tmp_path) as engine:
        engine.execute(BASE)
        if fed:
            push(engine)
        before, plan = books(engine), str(engine.explain())
        for text in (f"CREATE QUERY q AS {select}", f"EXPLAIN {select}"):
            with pytest.raises(PlanError) as refused:
                engine.execute(text)
            assert refused.value.span is not None and refused.value.hint is not None
        assert books(engine) == before
        assert str(engine.explain()) == plan
    with pw.Engine(tmp_path) as again:
        assert [query.name for query in again.catalog.of_kind("query")] == ["sums", "pairs"]
        assert sorted(again.hosting.queries) == ["pairs", "sums"]
        push(again, 10)
        assert again.results("sums").num_rows


def push(engine: pw.Engine, second: int = 1) -> None:
    for stream in ("s", "u"):
        engine.push(stream, [{"ts": (second + i) * 1_000_000, "a": i, "k": "xy"[i % 2]} for i in range(4)])


ACCEPTED = [
    "SELECT SUM(a) AS total FROM s [RANGE 2 SECONDS SLIDE 1 SECOND]",
    "SELECT k, MAX(a) AS most FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY k",
    "SELECT k, SUM(a) AS total FROM s [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k",
    "SELECT a FROM s [RANGE 2 SECONDS]",
    "SELECT x.a FROM s [RANGE 9 SECONDS] x JOIN u [RANGE 9 SECONDS] y ON x.k = y.k",
    "SELECT x.a FROM s [RANGE 9 SECONDS] x JOIN u [RANGE 3 SECONDS OFFSET 1 SECOND] y ON x.k = y.k",
    "SELECT x.a FROM s [RANGE 9 SECONDS] x JOIN t ON x.k = t.k",
    "SELECT MAX(b) AS m FROM (SELECT SUM(a) AS b FROM s [RANGE 2 SECONDS SLIDE 1 SECOND]) [RANGE 1 DAY SLIDE 1 MINUTE]",
    "SELECT x.a FROM (SELECT ISTREAM a FROM s [NOW]) x [NOW] JOIN (SELECT ISTREAM a FROM u [NOW]) y [NOW] ON x.a = y.a",
]


class Stopped(BaseException):
    """As an interrupt: not an Exception."""


@pytest.mark.parametrize("select", ACCEPTED)
@pytest.mark.parametrize(
    ("owner", "method"),
    [
        (Channel, "attach"),
        (Family, "add"),
        (Family, "due"),
        (PlanConsumer, "attach"),
        (ContinuousRows, "__init__"),
        (ReadGraph, "slides"),
        (query_starter, "operator_of"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_whatever_raises_nothing_is_left(owner: Any, method: str, select: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first, second or third call of a method on the way of CREATE QUERY raises, before or after its work."""
    engine = pw.Engine()
    engine.execute(BASE)
    push(engine)
    engine.results("sums")
    before, plan = books(engine), str(engine.explain())
    for number in range(6):
        call, after, problem = number // 2, number % 2 == 1, (AssertionError, MemoryError)[number % 2]
        with monkeypatch.context() as patched:
            patched.setattr(owner, method, raising_at(getattr(owner, method), call, after, problem))
            with suppress(problem):
                engine.execute(f"CREATE QUERY q AS {select}")
        engine.execute("DROP QUERY IF EXISTS q")
        assert books(engine) == before
    assert str(engine.explain()) == plan
    engine.execute(f"CREATE QUERY q AS {select}")
    push(engine, 10)
    engine.results("q")
    again = pw.Engine.restore(engine.snapshot())
    assert sorted(again.hosting.queries) == sorted(engine.hosting.queries)


def test_a_window_that_comes_too_late_over_a_subquery_leaves_nothing() -> None:
    engine = pw.Engine()
    engine.execute(BASE)
    push(engine)
    before = books(engine)
    with pytest.raises(PlanError, match="from the first one on"):
        engine.execute(
            "CREATE QUERY q AS "
            "SELECT MAX(b) AS m FROM (SELECT SUM(a) AS b FROM s [RANGE 2 SECONDS SLIDE 1 SECOND]) [ROWS 3 SLIDE 1]"
        )
    assert books(engine) == before


def raising_at(real: Any, number: int, after: bool, problem: type[BaseException]) -> Any:
    """The function, but its call of a number raises, after its work or instead of it."""
    calls = iter(range(1_000))

    def raising(*given: Any, **named: Any) -> Any:
        here = next(calls) == number
        if here and not after:
            raise problem
        answer = real(*given, **named)
        if here:
            raise problem
        return answer

    return raising


@pytest.mark.parametrize("problem", [AssertionError, Stopped])
def test_the_folder_opens_after_any_exception(
    problem: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = pw.Engine(tmp_path)
    engine.execute(BASE)
    push(engine)
    with monkeypatch.context() as patched:
        patched.setattr(ReadGraph, "slides", raising_at(ReadGraph.slides, 0, True, problem))
        with pytest.raises(problem):
            engine.execute(f"CREATE QUERY q AS {ACCEPTED[-2]}")
    engine.close(snapshot=False)
    for _ in range(2):  # from the log, and from the snapshot of the first
        with pw.Engine(tmp_path) as again:
            there = [query.name for query in again.catalog.of_kind("query")]
            # A call that was interrupted has happened, or it has not; one that was refused has not.
            assert there == ["sums", "pairs"] or (problem is Stopped and there == ["sums", "pairs", "q"])
            assert {name.partition("\0")[0] for name in again.hosting.queries} == set(there)


def test_a_snapshot_with_what_an_earlier_version_left_is_restored() -> None:
    """Of a query inside one that was refused, which is not in the catalog."""
    engine = pw.Engine()
    engine.execute(BASE)
    [parsed] = parse("SELECT a FROM s [RANGE 1 MINUTE]")
    bound = bind_one(parsed, engine.catalog)
    assert isinstance(bound, SelectOnce)
    engine.hosting.change(Difference(coming={"q\x001": Planned(physical(build(bound.query, engine.find_aggregate)))}))
    push(engine)
    again = pw.Engine.restore(engine.snapshot())
    assert sorted(again.hosting.queries) == ["pairs", "sums"]
    for each in (engine, again):
        each.push("s", [{"ts": 9_000_000, "a": 7, "k": "x"}])
    assert again.results("sums") == engine.results("sums")


def test_the_answer_of_a_failed_query_is_refused_in_words() -> None:
    engine = pw.Engine()
    engine.execute(BASE)
    engine.hosting.queries["sums"].fail_alone("")
    engine.hosting.queries["sums"].reason = "it met its end"
    for text in ("SELECT * FROM sums", "SELECT DISTINCT k FROM sums"):
        with pytest.raises(pw.NotHeldError, match="it met its end"):
            engine.execute(text)


def test_an_answer_has_no_columns_of_reports() -> None:
    engine = pw.Engine()
    engine.execute(BASE + "CREATE QUERY log AS SELECT a FROM s [RANGE 1 SECOND]")
    for text in (
        "SELECT instant AS x FROM log",
        "SELECT DISTINCT instant AS x FROM log",
        "SELECT MAX(instant) FROM log",
    ):
        with pytest.raises(PlanError, match="no column 'instant'"):
            engine.execute(text)


def test_a_query_inside_a_one_time_query_is_not_taken_for_its_answer() -> None:
    engine = pw.Engine()
    engine.execute(BASE)
    with pytest.raises(PlanError, match="over a subquery"):
        engine.execute("SELECT COUNT(*) AS n FROM (SELECT ISTREAM total FROM sums [UNBOUNDED]) [UNBOUNDED]")


def test_frequent_over_several_inputs_is_refused_once_too() -> None:
    engine = pw.Engine()
    engine.execute(BASE)
    with pytest.raises(PlanError, match="FREQUENT"):
        engine.execute("SELECT FREQUENT(3, x.a) AS f FROM s x JOIN u y ON x.k = y.k")


def test_a_join_of_too_many_inputs_and_a_set_operation_of_too_many_are_refused() -> None:
    engine = pw.Engine()
    engine.execute(BASE)
    with pytest.raises(PlanError, match="a join of 17 inputs"):
        engine.execute(
            "CREATE QUERY q AS SELECT i0.a FROM s [NOW] i0" + "".join(f", s [NOW] i{i}" for i in range(1, 17))
        )
    with pytest.raises(pw.PanewiseError, match="at most 64 set operations"):
        engine.execute("CREATE QUERY q AS SELECT a FROM s [NOW]" + " UNION ALL SELECT a FROM u [NOW]" * 65)


def test_what_cannot_be_read_again_is_refused() -> None:
    """Its text in the log or in a snapshot would not open the folder."""
    engine = pw.Engine()
    engine.execute(BASE)
    with pytest.raises(pw.PanewiseError, match="canonical text of the statement cannot be parsed"):
        engine.execute(f"CREATE QUERY q AS SELECT a{'::BIGINT' * 45} AS x FROM s [NOW]")
