"""The option `technique`: whatever keeps the slices, answers are the same; what cannot is refused with the reason."""

from __future__ import annotations

import random
from typing import Any

import pytest

import panewise as pw
from panewise.aggregates import aggregate_functions as functions
from panewise.errors import BindError, PlanError
from panewise.schema import BIGINT, DOUBLE
from panewise.synopses.techniques import TECHNIQUES

SECOND = 1_000_000
STREAM = "CREATE STREAM t (ts TIMESTAMP, k STRING, n BIGINT, x DOUBLE, WATERMARK FOR ts AS ts - INTERVAL 3 SECONDS)"
WINDOWS = (
    "[RANGE 10 SECONDS SLIDE 2 SECONDS]",
    "[RANGE 7 SECONDS SLIDE 3 SECONDS]",
    "[RANGE 30 SECONDS SLIDE 5 SECONDS]",
    "[RANGE 6 SECONDS SLIDE 2 SECONDS OFFSET 4 SECONDS]",
    "[ROWS 20 SLIDE 7]",
)
AGGREGATES = {
    "COUNT(*)": functions.BUILT_IN["COUNT"].bound(()),
    "SUM(n)": functions.BUILT_IN["SUM"].bound((BIGINT,)),
    "SUM(x)": functions.BUILT_IN["SUM"].bound((DOUBLE,)),
    "MAX(x)": functions.BUILT_IN["MAX"].bound((DOUBLE,)),
    "MIN(n)": functions.BUILT_IN["MIN"].bound((BIGINT,)),
    "LAST(n)": functions.BUILT_IN["LAST"].bound((BIGINT,)),
    "STDDEV(x)": functions.BUILT_IN["STDDEV_SAMP"].bound((DOUBLE,)),
}
# Each of them is compiled for each technique: a sum, what is selected and what depends on the order are in every run.
# Without groups there are loops for sums and maxima of their own: every other technique has those of one of the two.
AGGREGATES_NOW = ("SUM(n)", "MAX(x)", "LAST(n)")
WHOLE_NOW = (("SUM(n)", "LAST(n)"), ("MAX(x)", "LAST(n)"))


def rows(seed: int, count: int) -> list[dict[str, Any]]:
    source = random.Random(seed)
    made = []
    for i in range(count):
        instant = (i // 4 + source.randint(-2, 0)) * SECOND + 10 * SECOND
        made.append(
            {"ts": instant, "k": source.choice("abc"), "n": source.randint(-50, 50), "x": source.randint(-80, 80) / 8}
        )
    return made


def admitted(technique: str, offset: int) -> list[str]:
    return [
        text
        for text, bound in AGGREGATES.items()
        if all(TECHNIQUES[technique].refusal(part.kind, offset) is None for part in bound.parts)
    ]


def asked_now(technique: str, window: str, grouped: bool, soak: bool) -> list[str]:
    found = admitted(technique, 1 if "OFFSET" in window else 0)
    if soak:
        return found
    whole = [text for text in found if text in WHOLE_NOW[list(TECHNIQUES).index(technique) % 2]]
    return whole if whole and not grouped else [text for text in found if text in AGGREGATES_NOW]


def create(engine: pw.Engine, name: str, window: str, technique: str, grouped: bool, soak: bool) -> bool:
    """Whether there is anything that the technique admits."""
    items = asked_now(technique, window, grouped, soak)
    if not items:
        return False
    option = f" WITH (technique = '{technique}')"
    keys, group = ("k, ", " GROUP BY k") if grouped else ("", "")
    aggregates = ", ".join(f"{text} AS a{i}" for i, text in enumerate(items))
    engine.execute(f"CREATE QUERY {name}{option} AS SELECT {keys}{aggregates} FROM t {window}{group}")
    return True


def create_plain(engine: pw.Engine, name: str, window: str, technique: str, grouped: bool, soak: bool) -> None:
    items = asked_now(technique, window, grouped, soak)
    keys, group = ("k, ", " GROUP BY k") if grouped else ("", "")
    aggregates = ", ".join(f"{text} AS a{i}" for i, text in enumerate(items))
    engine.execute(f"CREATE QUERY {name} AS SELECT {keys}{aggregates} FROM t {window}{group}")


def same(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> bool:
    def shown(row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(round(v, 9) if isinstance(v, float) else v for v in row.values())

    return sorted(map(shown, first), key=repr) == sorted(map(shown, second), key=repr)


# Without groups every other technique waits for the long runs: its loops are those of tests/synopses.
GROUPED = [
    pytest.param(technique, grouped, id=f"{'grouped' if grouped else 'whole'}-{technique}", marks=marks)
    for number, technique in enumerate(TECHNIQUES)
    for grouped, marks in ((True, []), (False, [pytest.mark.soak] if number % 2 else []))
]


@pytest.mark.parametrize(("technique", "grouped"), GROUPED)
def test_every_technique_answers_as_the_default_does(technique: str, grouped: bool, soak: bool) -> None:
    engine = pw.Engine()
    engine.execute(STREAM)
    asked = []
    for i, window in enumerate(WINDOWS):
        if create(engine, f"forced{i}", window, technique, grouped, soak):
            create_plain(engine, f"plain{i}", window, technique, grouped, soak)
            asked.append(i)
    assert asked
    pushed = rows(7, 400)
    engine.push("t", pushed[:150])
    if 2 in asked:  # one leaves in between, and comes back
        engine.execute("DROP QUERY forced2; DROP QUERY plain2")
    other = pw.Engine.restore(engine.snapshot())
    for one in (engine, other):
        if 2 in asked:
            create(one, "forced2", WINDOWS[2], technique, grouped, soak)
            create_plain(one, "plain2", WINDOWS[2], technique, grouped, soak)
        one.push("t", pushed[150:300])
        one.push("t", pushed[300:])
        one.flush()
        for i in asked:
            forced, plain = one.results(f"forced{i}").to_pylist(), one.results(f"plain{i}").to_pylist()
            assert len(plain) > 3 and same(forced, plain), (technique, WINDOWS[i])


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_what_a_technique_does_not_admit_is_refused_with_the_reason(technique: str) -> None:
    engine = pw.Engine()
    engine.execute(STREAM)
    refused = [text for text in AGGREGATES if text not in admitted(technique, 0)]
    for text in refused:
        with pytest.raises(PlanError, match=f"the technique '{technique}' cannot be used for"):
            engine.execute(f"CREATE QUERY q WITH (technique = '{technique}') AS SELECT {text} FROM t {WINDOWS[0]}")
    if TECHNIQUES[technique].suffix_only:
        with pytest.raises(PlanError, match="OFFSET"):
            engine.execute(
                f"CREATE QUERY q WITH (technique = '{technique}') AS "
                f"SELECT {admitted(technique, 0)[0]} FROM t {WINDOWS[3]}"
            )
    listed = engine.execute("SHOW QUERIES")
    assert listed is not None and listed.num_rows == 0


def test_names_and_shapes_that_no_technique_fits() -> None:
    engine = pw.Engine()
    engine.execute(STREAM)
    with pytest.raises(BindError, match="there is no technique 'two_stack'"):
        engine.execute(f"CREATE QUERY q WITH (technique = 'two_stack') AS SELECT COUNT(*) FROM t {WINDOWS[0]}")
    with pytest.raises(PlanError, match="sliding windows"):
        engine.execute("CREATE QUERY q WITH (technique = 'recompute') AS SELECT COUNT(*) FROM t [RANGE 5 SECONDS]")
    with pytest.raises(PlanError, match="sliding windows"):
        engine.execute(
            "CREATE QUERY q WITH (technique = 'recompute') AS SELECT n FROM t [RANGE 5 SECONDS SLIDE 1 SECOND]"
        )


def test_explain_names_the_technique() -> None:
    engine = pw.Engine()
    engine.execute(STREAM)
    engine.execute(f"CREATE QUERY q WITH (technique = 'recompute') AS SELECT SUM(x) FROM t {WINDOWS[0]}")
    assert "technique: recompute" in str(engine.explain())


def test_queries_that_come_and_go_leave_nothing_behind() -> None:
    engine = pw.Engine()
    engine.execute(STREAM)
    engine.execute(
        f"CREATE QUERY stays WITH (technique = 'DABA') AS SELECT k, MAX(x) AS m FROM t {WINDOWS[0]} GROUP BY k"
    )
    made = rows(3, 300)
    held = []
    for i in range(30):
        engine.execute(
            f"CREATE QUERY q WITH (technique = 'daba') AS SELECT k, MAX(x) AS m FROM t {WINDOWS[2]} GROUP BY k"
        )
        assert len(engine.hosting.families) == 1
        engine.push("t", made[10 * i : 10 * i + 10])
        engine.execute("DROP QUERY q")
        held.append(engine.hosting.families[0].family.bytes_held)
    assert held[-1] <= 1.1 * held[5]


def test_strings_of_the_oracle_are_renumbered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("panewise.operators.family.eviction.FORGET_FROM", 8)
    engine = pw.Engine()
    engine.execute("CREATE STREAM t (ts TIMESTAMP, w STRING)")
    window = "[RANGE 2 SECONDS SLIDE 1 SECOND]"
    engine.execute(f"CREATE QUERY q WITH (technique = 'recompute') AS SELECT MAX(w) AS m FROM t {window}")
    engine.execute(f"CREATE QUERY p AS SELECT MAX(w) AS m FROM t {window}")
    for second in range(40):
        engine.push("t", [{"ts": second * SECOND, "w": f"{(37 * second + i) % 101:03}"} for i in range(6)])
    assert engine.results("q").to_pylist() == engine.results("p").to_pylist()
