"""Plans: the update pattern of every rule, equality of plans that mean the same, and what has no operator yet."""

from __future__ import annotations

import pytest

from panewise.aggregates import builtin as registry
from panewise.catalog import Catalog, StreamDefinition, TableDefinition
from panewise.errors import PlanError
from panewise.language.bind.binder import bind_one, parse
from panewise.language.statements import CreateQuery
from panewise.plan.build import build
from panewise.plan.nodes import Emit, Join, Pattern, Scan
from panewise.plan.supported.supported_plans import check_supported
from panewise.schema import BIGINT, DOUBLE, STRING, TIMESTAMP, Column, Schema

STREAM = Schema((Column("ts", TIMESTAMP), Column("k", STRING), Column("v", BIGINT), Column("x", DOUBLE)))
TABLE = Schema((Column("k", STRING), Column("sector", STRING)))


def catalog() -> Catalog:
    result = Catalog()
    for name in ("t", "u"):
        result.add(StreamDefinition(name, STREAM, "ts", 0))
    result.add(TableDefinition("retro", TABLE, ("k",), True))
    result.add(TableDefinition("versioned", TABLE, ("k",), False))
    return result


def plan(text: str) -> Emit:
    [parsed] = parse(f"CREATE QUERY q AS {text}")
    statement = bind_one(parsed, catalog())
    assert isinstance(statement, CreateQuery)
    return build(statement.query, registry.find)


def relation_pattern(text: str) -> Pattern:
    """Of the relation, before it becomes a stream."""
    return plan(text).input.pattern


R = "[RANGE 1 MINUTE]"


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        # windows, and what keeps the pattern of its input (rule 1)
        ("SELECT v FROM t [UNBOUNDED]", Pattern.MONOTONIC),
        (f"SELECT v FROM t {R}", Pattern.WEAKEST),
        ("SELECT v FROM t [NOW]", Pattern.WEAKEST),
        ("SELECT v FROM t [RANGE 1 MINUTE SLIDE 7 SECONDS]", Pattern.WEAKEST),
        ("SELECT v FROM t [ROWS 5]", Pattern.STRICT),
        ("SELECT v FROM t [PARTITION BY k ROWS 5]", Pattern.STRICT),
        (f"SELECT v + 1 AS w FROM t {R} WHERE v > 3", Pattern.WEAKEST),
        ("SELECT v + 1 AS w FROM t [UNBOUNDED] WHERE v > 3", Pattern.MONOTONIC),
        # unions (rule 2)
        (f"SELECT v FROM t {R} UNION ALL SELECT v FROM u {R}", Pattern.WEAKEST),
        (f"SELECT v FROM t {R} UNION ALL SELECT v FROM u [RANGE 2 MINUTES]", Pattern.WEAK),
        (f"SELECT v FROM t {R} UNION ALL SELECT v FROM u [ROWS 3]", Pattern.STRICT),
        ("SELECT v FROM t [UNBOUNDED] UNION ALL SELECT v FROM u [UNBOUNDED]", Pattern.MONOTONIC),
        (f"SELECT v FROM t {R} UNION SELECT v FROM u {R}", Pattern.WEAK),
        # joins and DISTINCT (rule 3)
        (f"SELECT t.v FROM t {R}, u {R} WHERE t.k = u.k", Pattern.WEAK),
        (f"SELECT t.v FROM t {R}, u [ROWS 3] WHERE t.k = u.k", Pattern.STRICT),
        ("SELECT t.v FROM t [UNBOUNDED], u [UNBOUNDED] WHERE t.k = u.k", Pattern.MONOTONIC),
        ("SELECT t.v FROM t [RANGE 1 MINUTE INTERNAL], u [RANGE 1 MINUTE INTERNAL] WHERE t.k = u.k", Pattern.MONOTONIC),
        (f"SELECT DISTINCT k FROM t {R}", Pattern.WEAK),
        ("SELECT DISTINCT k FROM t [ROWS 3]", Pattern.STRICT),
        # aggregates, negation, retroactive tables (rule 4)
        (f"SELECT k, COUNT(*) AS n FROM t {R} GROUP BY k", Pattern.STRICT),
        ("SELECT COUNT(*) AS n FROM t [UNBOUNDED]", Pattern.STRICT),
        (f"SELECT v FROM t {R} EXCEPT SELECT v FROM u {R}", Pattern.STRICT),
        (f"SELECT v FROM t {R} EXCEPT ALL SELECT v FROM u {R}", Pattern.STRICT),
        (f"SELECT v FROM t {R} WHERE NOT EXISTS (SELECT 1 AS one FROM u {R} WHERE u.k = t.k)", Pattern.STRICT),
        (f"SELECT t.v FROM t {R}, retro WHERE t.k = retro.k", Pattern.STRICT),
        # a stream again
        (f"SELECT v FROM (SELECT ISTREAM v FROM t {R}) [RANGE 1 HOUR]", Pattern.WEAKEST),
        (f"SELECT v FROM (SELECT ISTREAM v FROM t {R}) [UNBOUNDED]", Pattern.MONOTONIC),
    ],
)
def test_update_patterns(text: str, pattern: Pattern) -> None:
    assert relation_pattern(text) is pattern


def test_a_join_with_a_versioned_table_keeps_the_stream_s_pattern() -> None:
    text = f"SELECT t.v FROM t {R}, versioned WHERE t.k = versioned.k"
    join = next(node for node in plan(text).walk() if isinstance(node, Join))
    table = next(node for node in join.walk() if isinstance(node, Scan) and node.kind == "table")
    assert table.retroactive is False
    assert join.pattern is Pattern.WEAKEST


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        (f"SELECT v FROM t {R}", Pattern.WEAKEST),  # a change log is as its input
        (f"SELECT ISTREAM v FROM t {R}", Pattern.MONOTONIC),
        (f"SELECT DSTREAM v FROM t {R}", Pattern.MONOTONIC),
        (f"SELECT k, COUNT(*) AS n FROM t {R} GROUP BY k", Pattern.STRICT),
        ("SELECT k, COUNT(*) AS n FROM t [RANGE 1 MINUTE SLIDE 1 MINUTE] GROUP BY k", Pattern.MONOTONIC),
    ],
)
def test_patterns_of_results(text: str, pattern: Pattern) -> None:
    assert plan(text).pattern is pattern


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("v > 1 AND x < 2", "x < 2 AND v > 1"),
        ("v > 1 AND x < 2 AND k = 'a'", "(k = 'a' AND x < 2) AND (v > 1 AND v > 1)"),
        ("v > 1 OR (x < 2 AND k = 'a')", "('a' = k AND 2 > x) OR 1 < v"),
        ("5 < v", "v > 5"),
        ("5 <= v", "v >= 5"),
        ("v = 5", "5 = v"),
        ("v <> 5", "5 != v"),
        ("v + 1 > 3", "1 + v > 3"),
        ("v * 2 > 3", "2 * v > 3"),
        ("NOT (v > 5)", "NOT (5 < v)"),
        ("CASE WHEN v > 5 THEN TRUE ELSE x > 1 END", "CASE WHEN 5 < v THEN TRUE ELSE 1 < x END"),
    ],
)
def test_selections_that_mean_the_same_are_equal(first: str, second: str) -> None:
    one, other = (plan(f"SELECT COUNT(*) AS n FROM t {R} WHERE {where}") for where in (first, second))
    assert one == other
    assert hash(one) == hash(other)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("v > 1", "v >= 1"),
        ("v - 1 > 3", "1 - v > 3"),
        ("v / 2 > 3", "2 / v > 3"),
        ("v > 1 AND x < 2", "v > 1 OR x < 2"),
        ("v = 1", "v = 1.0"),
        ("k = 'a'", "k = 'A'"),
        ("v > 1 AND (x < 2 OR k = 'a')", "(v > 1 AND x < 2) OR k = 'a'"),
    ],
)
def test_selections_that_differ_are_not(first: str, second: str) -> None:
    one, other = (plan(f"SELECT COUNT(*) AS n FROM t {R} WHERE {where}") for where in (first, second))
    assert one != other


def test_keys_and_arguments_are_put_into_one_form_too() -> None:
    one = plan(f"SELECT v + 1 AS k, SUM(x * 2) AS s FROM t {R} GROUP BY v + 1")
    other = plan(f"SELECT 1 + v AS k, SUM(2 * x) AS s FROM t {R} GROUP BY 1 + v")
    assert one == other
    assert one == plan(f"SELECT V + 1 AS k, sum(X * 2) AS s FROM T {R} GROUP BY v + 1")


def test_equal_aggregates_are_computed_once() -> None:
    found = plan(f"SELECT SUM(v) AS a, SUM(v) + SUM(v) AS b FROM t {R} HAVING SUM(v) > 1")
    [aggregate] = [node for node in found.walk() if type(node).__name__ == "Aggregate"]
    assert len(aggregate.aggregates) == 1


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (f"SELECT t.v FROM t {R} LEFT JOIN u {R} ON t.k = u.k", "LEFT.* JOIN has no operator yet"),
        (f"SELECT COUNT(DISTINCT k) AS n FROM t {R}", r"COUNT\(DISTINCT ...\) over a window without SLIDE"),
        ("SELECT k FROM retro", "reads table 'retro' only in a join with a window"),
        (
            "SELECT t.v FROM t [ROWS 3], versioned WHERE t.k = versioned.k",
            "'versioned' cannot be joined with 't'",
        ),
        ("SELECT v FROM t", "stream 't' is read without a window"),
        (f"SELECT v FROM (SELECT v FROM t {R}) [ROWS 3]", "the inner query is a change log"),
    ],
)
def test_what_has_no_operator_is_named(text: str, missing: str) -> None:
    with pytest.raises(PlanError, match=missing):
        check_supported(plan(text))


def test_derived_schemas() -> None:
    periodic = plan("SELECT k, SUM(v) AS s, AVG(v) AS a FROM t [RANGE 1 MINUTE SLIDE 1 MINUTE] GROUP BY k")
    assert str(periodic.schema) == "window_start TIMESTAMP, window_end TIMESTAMP, k STRING, s BIGINT, a DOUBLE"
    assert periodic.timestamp == "window_end"
    changes = plan(f"SELECT k, x FROM t {R}")
    assert str(changes.schema) == "instant TIMESTAMP, change INT, k STRING, x DOUBLE"
    assert str(plan(f"SELECT ISTREAM k, x FROM t {R}").schema) == "instant TIMESTAMP, k STRING, x DOUBLE"
    assert changes.timestamp == "instant"
