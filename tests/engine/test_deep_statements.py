"""Deeply nested statements: answered or refused in words, at every depth, and never by the interpreter's stack."""

from __future__ import annotations

from pathlib import Path

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
HOUR = "[RANGE 1 HOUR SLIDE 1 MINUTE]"
CHAINS = {
    "or": lambda n: f"SELECT COUNT(*) AS n FROM s {HOUR} WHERE {terms(n, 'OR', 'a = ')}",
    "having": lambda n: f"SELECT COUNT(*) AS n FROM s {HOUR} HAVING {terms(n, 'OR', 'COUNT(*) = ')}",
    "distinct": lambda n: f"SELECT DISTINCT a FROM s [NOW] WHERE {terms(n, 'OR', 'a = ')}",
    "join": lambda n: f"SELECT x.a FROM s [NOW] x, s [NOW] y WHERE x.a = y.a AND {terms(n, 'AND', 'x.a <> ')}",
    "exists": lambda n: (
        f"SELECT a FROM s [NOW] x WHERE EXISTS (SELECT 1 FROM s [NOW] y WHERE x.a = y.a AND "
        f"{terms(n, 'AND', 'y.a <> ')}) AND {terms(n, 'AND', 'x.a <> ')}"
    ),
}


def terms(count: int, connective: str, term: str) -> str:
    return f" {connective} ".join(f"{term}{number}" for number in range(10, 10 + count))


@pytest.mark.parametrize("shape", CHAINS)
def test_a_chain_may_be_long(shape: str, tmp_path: Path) -> None:
    """Also where the folder is opened from further down the stack."""
    with pw.Engine(tmp_path / "kept") as engine:
        engine.execute("CREATE STREAM s (ts TIMESTAMP, a BIGINT) WITH (retain = '1 hour')")
        select = CHAINS[shape](400)
        engine.execute(f"CREATE QUERY q AS {select}")
        engine.execute(f"EXPLAIN {select}")
        engine.push("s", [{"ts": second * 1_000_000, "a": second} for second in range(20)])
        engine.execute(select)
        found = engine.lookup("q")

    def opened(frames: int) -> None:
        if frames:
            opened(frames - 1)
            return
        with pw.Engine(tmp_path / "kept") as engine:
            assert engine.lookup("q") == found

    opened(300)


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
