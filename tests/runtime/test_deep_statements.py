"""Deeply nested statements: answered or refused in words, at every depth, and never by the interpreter's stack."""

from __future__ import annotations

import pytest

import panewise as pw

DEPTHS = (1, 20, 38, 40, 41, 70, 1_000)
SHAPES = {
    "parentheses": lambda n: f"SELECT {'(' * n}a{')' * n} AS x FROM s [NOW]",
    "minus": lambda n: f"SELECT {'- ' * n}a AS x FROM s [NOW]",
    "sum": lambda n: f"SELECT a{' + a' * n} AS x FROM s [NOW]",
    "not": lambda n: f"SELECT a FROM s [NOW] WHERE {'NOT ' * n}(a > 1)",
    "and": lambda n: f"SELECT a FROM s [NOW] WHERE a > 1{' AND (a > 1 OR a < 0)' * n}",
    "case": lambda n: f"SELECT {'CASE WHEN a > 1 THEN ' * n}a{' END' * n} AS x FROM s [NOW]",
    "function": lambda n: f"SELECT {'ABS(' * n}a{')' * n} AS x FROM s [NOW]",
    "cast": lambda n: f"SELECT a{'::BIGINT' * n} AS x FROM s [NOW]",
    "subquery": lambda n: f"SELECT * FROM {'(SELECT ISTREAM a FROM ' * n}s [NOW]{') [NOW]' * n}",
    "exists": lambda n: f"SELECT a FROM s [NOW]{' WHERE EXISTS (SELECT a FROM s [NOW]' * n}{')' * n}",
    "union": lambda n: f"SELECT a FROM s [NOW]{' UNION ALL SELECT a FROM s [NOW]' * n}",
    "except": lambda n: f"{'(' * n}SELECT a FROM s [NOW]{' EXCEPT SELECT a FROM s [NOW])' * n}",
    "join": lambda n: "SELECT i0.a FROM s [NOW] i0" + "".join(f", s [NOW] i{i}" for i in range(1, n)),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_depth_is_answered_or_refused(shape: str) -> None:
    engine = pw.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, a BIGINT) WITH (retain = '1 hour')")
    for number, depth in enumerate(DEPTHS):
        select = SHAPES[shape](depth)
        for text in (f"CREATE QUERY q{number} AS {select}", f"EXPLAIN {select}", select):
            said = "answered"
            try:
                engine.execute(text)
            except pw.PanewiseError as error:
                said = str(error)
            assert 0 < len(said) < 2_000, shape
        engine.push("s", [{"ts": number * 1_000_000, "a": number}])
    engine.results("q0")
    again = pw.Engine.restore(engine.snapshot())
    assert again.execute("SHOW QUERIES") == engine.execute("SHOW QUERIES")
