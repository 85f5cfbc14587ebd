"""By what plans can be divided: the keys of each stream, or the reason why there are none."""

from __future__ import annotations

import pytest

import panewise as pw
from panewise.aggregates import builtin as registry
from panewise.language.bind.binder import bind_one, parse
from panewise.language.sql_text import to_sql
from panewise.language.statements import CreateQuery
from panewise.plan.build import build
from panewise.plan.partitioning import Partitioning, partitioning

STREAM = (
    "CREATE STREAM {} (ts TIMESTAMP, k BIGINT, i INT, x DOUBLE, w STRING, "
    "d DECIMAL(5, 2), e DECIMAL(9, 4), v BIGINT)"
)  # fmt: skip
TABLE = "CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)"
A, B, C = "a [RANGE 5 SECONDS]", "b [RANGE 5 SECONDS]", "c [RANGE 9 SECONDS]"


def divided(text: str) -> Partitioning:
    engine = pw.Engine()
    for stream in "abc":
        engine.execute(STREAM.format(stream))
    engine.execute(TABLE)
    engine.execute(f"CREATE QUERY inner_one AS SELECT ISTREAM k, v FROM {A}")
    [parsed] = parse(f"CREATE QUERY q AS {text}")
    statement = bind_one(parsed, engine.catalog)
    assert isinstance(statement, CreateQuery)
    return partitioning(build(statement.query, registry.find))


def keys(text: str) -> dict[str, list[str]]:
    found = divided(text)
    assert not found.reason
    return {stream: [to_sql(key) for key in by] for stream, by in found.keys.items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # joins
        (f"SELECT a.k, b.v FROM {A}, {B} WHERE a.k = b.k", {"a": ["k"], "b": ["k"]}),
        (f"SELECT a.k FROM {A}, {B}, {C} WHERE a.k = b.v AND b.v = c.k", {"a": ["k"], "b": ["v"], "c": ["k"]}),
        (f"SELECT a.w FROM {A}, {B} WHERE a.w = b.w AND a.v < b.v", {"a": ["w"], "b": ["w"]}),
        (f"SELECT b.k FROM {A}, {B} WHERE a.i = b.k", {"a": ["CAST(i AS BIGINT)"], "b": ["k"]}),
        (f"SELECT b.e FROM {A}, {B} WHERE a.d = b.e", {"a": ["CAST(d AS DECIMAL(9, 4))"], "b": ["e"]}),
        (f"SELECT b.v FROM {A}, {B} WHERE a.k + 1 = b.v", {"a": ["k + 1"], "b": ["v"]}),
        (f"SELECT y.k FROM {A} AS x, {A} AS y WHERE x.k = y.k", {"a": ["k"]}),
        # Of a stream that is read twice each row goes to one place only.
        (f"SELECT y.v FROM {A} AS x, {A} AS y WHERE x.k = y.v AND x.v = y.v", {"a": ["v"]}),
        # What repeats whole reports, and what is only ever added to, need not show its key.
        ("SELECT a.v FROM a [RANGE 5 S SLIDE 1 S], b [RANGE 5 S] WHERE a.k = b.k", {"a": ["k"], "b": ["k"]}),
        ("SELECT a.v FROM a [RANGE 5 S INTERNAL], b [RANGE 5 S INTERNAL] WHERE a.k = b.k", {"a": ["k"], "b": ["k"]}),
        ("SELECT a.k FROM a [PARTITION BY k ROWS 2], b [RANGE 5 S] WHERE a.k = b.k", {"a": ["k"], "b": ["k"]}),
        # negation
        (f"SELECT k, v FROM {A} WHERE NOT EXISTS (SELECT 1 FROM {B} WHERE b.v = a.k)", {"a": ["k"], "b": ["v"]}),
        (
            f"SELECT a.k FROM {A}, {B} WHERE a.k = b.k AND EXISTS (SELECT 1 FROM {C} WHERE c.v = b.k AND c.v > 1)",
            {"a": ["k"], "b": ["k"], "c": ["v"]},
        ),
        (
            f"SELECT k FROM {C} WHERE NOT EXISTS (SELECT 1 FROM {A}, {B} WHERE a.k = b.k AND b.k = c.k)",
            {"a": ["k"], "b": ["k"], "c": ["k"]},
        ),
        (f"SELECT k FROM {A} EXCEPT SELECT v FROM {B}", {"a": ["k"], "b": ["v"]}),
        (f"SELECT k, w FROM {A} EXCEPT ALL SELECT v, w FROM {B}", {"a": ["k", "w"], "b": ["v", "w"]}),
        (f"SELECT k FROM {A} EXCEPT SELECT i FROM {B}", {"a": ["k"], "b": ["CAST(i AS BIGINT)"]}),
        # duplicates and groups
        (f"SELECT DISTINCT v + 1 AS n FROM {A}", {"a": ["v + 1"]}),
        (f"SELECT DISTINCT a.v, b.k FROM {A}, {B} WHERE a.k = b.k", {"a": ["k"], "b": ["k"]}),
        (f"SELECT k FROM {A} UNION SELECT v FROM {B}", {"a": ["k"], "b": ["v"]}),
        (f"SELECT b.k AS g, SUM(a.v) AS s FROM {A}, {B} WHERE a.k = b.k GROUP BY b.k", {"a": ["k"], "b": ["k"]}),
        (
            f"SELECT b.k AS g, COUNT(*) AS n FROM {A}, {B} WHERE a.k = b.k GROUP BY a.w, b.k HAVING COUNT(*) > 1",
            {"a": ["k"], "b": ["k"]},
        ),
    ],
)
def test_divided_by(text: str, expected: dict[str, list[str]]) -> None:
    assert keys(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"SELECT a.k FROM {A}, {B} WHERE a.v < b.v", "no equality relates all inputs of the join"),
        (f"SELECT a.k FROM {A}, {B}, {C} WHERE a.k = b.k AND b.v = c.v", "no equality relates all inputs of the join"),
        (f"SELECT x.k FROM {A} AS x, {A} AS y WHERE x.k = y.v", "no equality relates all inputs of the join"),
        (f"SELECT a.v FROM {A}, {B} WHERE a.k = b.k", "CHANGES compares results, and the key is not among"),
        ("SELECT ISTREAM a.v FROM a [RANGE 5 S SLIDE 1 S], b [RANGE 5 S] WHERE a.k = b.k", "ISTREAM compares results"),
        # An expression of the key may be equal for different keys.
        (f"SELECT a.k % 2 AS r FROM {A}, {B} WHERE a.k = b.k", "CHANGES compares results"),
        (f"SELECT DISTINCT a.v FROM {A}, {B} WHERE a.k = b.k", "DISTINCT is not over the key"),
        (f"SELECT a.v, COUNT(*) AS n FROM {A}, {B} WHERE a.k = b.k GROUP BY a.v", "GROUP BY does not contain the key"),
        (f"SELECT COUNT(*) AS n FROM {A}, {B} WHERE a.k = b.k", "an aggregate without GROUP BY is over all rows"),
        (
            "SELECT a.k FROM a [ROWS 2], b [RANGE 5 S] WHERE a.k = b.k",
            "the window [ROWS 2] counts the rows of all keys",
        ),
        ("SELECT a.k FROM a [PARTITION BY w ROWS 2], b [RANGE 5 S] WHERE a.k = b.k", "no equality relates all inputs"),
        ("SELECT DISTINCT k FROM a [PARTITION BY w ROWS 2]", "DISTINCT is not over the key"),
        (f"SELECT k FROM {A} WHERE NOT EXISTS (SELECT 1 FROM {B})", "NOT EXISTS does not relate its sides by one key"),
        (f"SELECT k FROM {A} WHERE NOT EXISTS (SELECT 1 FROM {A} AS y WHERE y.v = a.k)", "NOT EXISTS does not relate"),
        (f"SELECT v, k FROM {A} EXCEPT SELECT k, v FROM {A}", "EXCEPT is not over the key"),
        (f"SELECT a.v FROM {A}, {B} WHERE a.k = b.k EXCEPT SELECT v FROM {C}", "EXCEPT is not over the key"),
        (f"SELECT a.k, t.v FROM {A}, t WHERE a.k = t.k", "it reads a table"),
        (f"SELECT a.k FROM {A}, inner_one [RANGE 5 S] AS o WHERE a.k = o.k", "it reads the results of another query"),
    ],
)
def test_not_divided(text: str, reason: str) -> None:
    found = divided(text)
    assert not found.keys
    assert found.reason.startswith(reason)


def test_partitions_of_floating_point_numbers_are_by_themselves_only() -> None:
    """0.0 and -0.0 are one partition, and two texts."""
    windows = "a [PARTITION BY x ROWS 2], b [RANGE 5 S]"
    assert keys(f"SELECT b.x FROM {windows} WHERE a.x = b.x") == {"a": ["x"], "b": ["x"]}
    assert divided(f"SELECT b.w FROM {windows} WHERE CAST(a.x AS STRING) = b.w").reason
    by_text = "a [PARTITION BY k ROWS 2], b [RANGE 5 S] WHERE CAST(a.k AS STRING) = b.w"
    assert keys(f"SELECT b.w FROM {by_text}") == {"a": ["CAST(k AS STRING)"], "b": ["w"]}
