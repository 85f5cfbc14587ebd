"""Plans of all that runs, as values, and what leads from one to the next."""

from __future__ import annotations

import pytest

import panewise as pw
from panewise.language.bind.binder import bind_one, parse
from panewise.language.statements import CreateQuery, SelectOnce
from panewise.optimize.node_of_plan import physical, physical_once
from panewise.plan.build import build
from panewise.plan.once import Once
from panewise.plan.physical_plan import Difference, PhysicalPlan, PhysicalQuery, Planned
from tests.engine.small_engine import COUNTS, STREAM, SUMS, engine_of


def bound(engine: pw.Engine, text: str) -> object:
    (parsed,) = parse(text)
    return bind_one(parsed, engine.catalog, engine.find_aggregate, list)


def node(text: str) -> PhysicalQuery:
    engine = engine_of(STREAM)
    statement = bound(engine, text)
    assert isinstance(statement, CreateQuery)
    return physical(build(statement.query, engine.find_aggregate))


def test_equal_statements_are_equal_nodes_and_plans() -> None:
    assert node(SUMS) == node(SUMS.lower())
    assert PhysicalPlan({"q": Planned(node(SUMS))}) == PhysicalPlan({"q": Planned(node(SUMS))})
    assert node(SUMS) != node(COUNTS)


def test_a_difference_has_what_goes_before_what_comes() -> None:
    sums, counts = node(SUMS), node(COUNTS)
    running = PhysicalPlan({"a": Planned(sums), "b": Planned(counts), "c": Planned(sums)})
    assert running.difference(running) == Difference()
    wanted = PhysicalPlan({"b": Planned(counts), "c": Planned(counts), "d": Planned(sums)})
    assert wanted.difference(running) == Difference(("c", "a"), {"c": Planned(counts), "d": Planned(sums)})


def test_a_query_that_is_made_anew_is_another_one() -> None:
    running, wanted = (PhysicalPlan({"a": Planned(node(SUMS), created)}) for created in (0, 3))
    assert wanted.difference(running) == Difference(("a",), wanted.queries)


def test_a_host_knows_its_plan() -> None:
    engine = engine_of(STREAM, SUMS, COUNTS, "CREATE QUERY over_it AS SELECT MAX(s) AS m FROM q [RANGE 9 SECONDS]")
    assert list(engine.hosting.plan.queries) == ["q", "c", "over_it"]
    assert engine.hosting.plan.queries["q"].node == node(SUMS)
    before = engine.hosting.plan
    with pytest.raises(pw.PanewiseError):
        engine.execute("CREATE QUERY wrong AS SELECT MAX(nothing) FROM t [RANGE 9 SECONDS]")
    assert engine.hosting.plan == before
    engine.execute("DROP QUERY over_it; DROP QUERY c")
    assert list(engine.hosting.plan.queries) == ["q"]


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("SELECT k FROM t [RANGE 5 SECONDS]", Once.WINDOW),
        ("SELECT k, SUM(v) AS s FROM t [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k", Once.SLICES),
        ("SELECT k FROM t [ROWS 5]", Once.COUNTED),
        ("SELECT s FROM q [RANGE 5 SECONDS]", Once.WINDOW),
        ("SELECT s FROM q", Once.ANSWER),
        ("SELECT w FROM places", Once.TABLE),
        ("SELECT a.k FROM t [RANGE 5 SECONDS] a, t [RANGE 5 SECONDS] b WHERE a.k = b.k", Once.INPUTS),
    ],
)
def test_a_one_time_query_has_a_node(text: str, way: Once) -> None:
    engine = engine_of(STREAM, SUMS, "CREATE TABLE places (w BIGINT)")
    statement = bound(engine, text)
    assert isinstance(statement, SelectOnce)
    assert physical_once(build(statement.query, engine.find_aggregate)).way is way
