"""HAVING over very many groups in lookup mode: the collective index against recomputation from all rows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import panewise as pw
from panewise.engine.consumers.operator_consumer import OperatorConsumer
from panewise.errors import NotHeldError
from panewise.operators.continuous.collective_lookup import CollectiveLookup
from panewise.operators.continuous.continuous import ContinuousAggregate
from tests.engine.small_engine import SECOND, STREAM, engine_of, row

RANGE = 6


def looked_up(having: str, items: str = "k", window: str = f"[RANGE {RANGE} SECONDS]", where: str = "") -> str:
    return f"CREATE QUERY q WITH (mode = 'lookup') AS SELECT {items} FROM t {window} {where} GROUP BY k HAVING {having}"


def operator_of(engine: pw.Engine) -> Any:
    consumer = engine.hosting.consumers["q"]
    assert isinstance(consumer, OperatorConsumer)
    return consumer.operator


Row = dict[str, Any]
# Per condition: what HAVING says, and the same of a group's rows.
CONDITIONS: dict[str, Any] = {
    "COUNT(*) > 2": lambda rows: len(rows) > 2,
    "2 < COUNT(*)": lambda rows: len(rows) > 2,
    "COUNT(*) <= 2": lambda rows: len(rows) <= 2,
    "COUNT(*) = 3": lambda rows: len(rows) == 3,
    "COUNT(*) > 1.5": lambda rows: len(rows) > 1.5,
    "COUNT(v) BETWEEN 1 AND 3": lambda rows: 1 <= len(some(rows)) <= 3,
    "COUNT(v) < 2": lambda rows: len(some(rows)) < 2,
    "SUM(v) >= 8": lambda rows: bool(some(rows)) and sum(some(rows)) >= 8,
    "SUM(v) < 8": lambda rows: bool(some(rows)) and sum(some(rows)) < 8,
    "SUM(v) > 3 AND SUM(v) <= 20 AND COUNT(*) > 1": lambda rows: len(rows) > 1 and 3 < sum(some(rows)) <= 20,
    "MAX(v) > 5": lambda rows: bool(some(rows)) and max(some(rows)) > 5,
    "MAX(v) <= 5": lambda rows: bool(some(rows)) and max(some(rows)) <= 5,
    "MIN(v) BETWEEN 1 AND 4": lambda rows: bool(some(rows)) and 1 <= min(some(rows)) <= 4,
    "MAX(x) > 0.25": lambda rows: max(r["x"] for r in rows) > 0.25,
    "MIN(x) < 0": lambda rows: min(r["x"] for r in rows) < 0,
    "MIN(x) >= -0.5 AND k <> 'a'": lambda rows: min(r["x"] for r in rows) >= -0.5 and rows[0]["k"] not in ("a", None),
}


def some(rows: list[Row]) -> list[int]:
    return [r["v"] for r in rows if r["v"] is not None]


@st.composite
def streams(draw: st.DrawFn) -> list[list[Row]]:
    """Batches of rows in order of time, some values NULL, in few groups, one of them NULL."""
    values = st.one_of(st.none(), st.integers(0, 9))
    doubles = st.sampled_from([-1.0, -0.5, 0.0, 0.25, 0.5, 3.0])
    made = st.tuples(st.sampled_from(["a", "b", "c", "d", None]), values, doubles, st.integers(0, 3))
    second, batches = 0, []
    for batch in draw(st.lists(st.lists(made, max_size=12), min_size=1, max_size=6)):
        rows = []
        for k, v, x, pause in batch:
            second += pause
            rows.append(row(second, k, v, x))
        batches.append(rows)
        second += 2  # the test lets the watermark come as far as a second past a batch
    return batches


ITEMS = "k, COUNT(*) AS n, COUNT(v) AS c, SUM(v) AS s, MIN(v) AS low, MAX(x) AS high"


def recomputed(rows: list[Row], now: int, passes: Any) -> list[tuple[Any, ...]]:
    groups: dict[Any, list[Row]] = {}
    for r in rows:
        if now - RANGE * SECOND < r["ts"] <= now:
            groups.setdefault(r["k"], []).append(r)
    found = []
    for k, held in groups.items():
        if passes(held):
            v = some(held)
            low, total = (min(v), sum(v)) if v else (None, None)
            found.append((k, len(held), len(v), total, low, max(r["x"] for r in held)))
    return sorted(found, key=str)


@pytest.mark.parametrize("having", CONDITIONS)
@given(batches=streams(), saves=st.booleans())
@settings(max_examples=8, deadline=None)
def test_lookups_equal_recomputation(having: str, batches: list[list[Row]], saves: bool) -> None:
    engine = engine_of(STREAM, looked_up(having, ITEMS))
    assert isinstance(operator_of(engine), CollectiveLookup)
    rows: list[Row] = []
    for batch in batches:
        rows += batch
        if batch:
            engine.push("t", batch)
        if not rows:
            continue
        for later in (1, SECOND):
            engine.advance("t", rows[-1]["ts"] + later)
            if saves:
                engine = pw.Engine.restore(engine.snapshot())
            table = engine.lookup("q")
            answer = sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=str)
            assert answer == recomputed(rows, rows[-1]["ts"] + later - 1, CONDITIONS[having])
    assert len(engine.results("q")) == 0, "a query in lookup mode has no results"


def test_explain_names_the_index() -> None:
    for having, index in {
        "COUNT(*) > 5": "CI-COUNT with p = 4 on COUNT >= 6",
        "SUM(v) BETWEEN 3 AND 9": "CI-SUM with p = 4 on SUM >= 3 and <= 9",
        "COUNT(v) >= 2": "CI-COUNT with p = 4 on COUNT >= 2",
        "MAX(x) < 3": "the MAX filter on MAX <= 3.0",
        "MIN(v) > 1": "the MIN filter on MIN >= 2",
        # The bound that narrows most is the index's; HAVING is checked whole.
        "SUM(v) < 9 AND COUNT(*) > 3": "CI-COUNT with p = 4 on COUNT >= 4",
    }.items():
        engine = engine_of(STREAM, looked_up(having))
        assert f"collective index: {index}>" in str(engine.explain("q"))
        assert f"collective index: {index}," in str(engine.explain())


@pytest.mark.parametrize(
    "statement",
    [
        looked_up("AVG(v) > 3"),
        looked_up("COUNT(*) <> 3"),
        looked_up("COUNT(*) > 3 OR k = 'a'"),
        looked_up("NOT (COUNT(*) > 3)"),
        looked_up("COUNT(*) > COUNT(v)"),
        looked_up("SUM(x) > 3"),
        looked_up("COUNT(*) > 3", "k, SUM(x) AS s"),
        looked_up("MAX(k) > 'b'"),
        looked_up("COUNT(*) > 3", window="[RANGE 6 SECONDS OFFSET 1 SECOND]"),
        looked_up("COUNT(*) > 3", window="[UNBOUNDED]"),
        looked_up("COUNT(*) > 3", window="[ROWS 5]"),
        looked_up("COUNT(*) > 3").replace(" WITH (mode = 'lookup')", ""),
        "CREATE QUERY q WITH (mode = 'lookup') AS SELECT COUNT(*) AS n FROM t [RANGE 6 SECONDS] HAVING COUNT(*) > 3",
    ],
)
def test_other_shapes_are_answered_the_ordinary_way(statement: str) -> None:
    engine = engine_of(STREAM, statement)
    assert isinstance(operator_of(engine), ContinuousAggregate)
    assert "collective" not in str(engine.explain("q"))


def test_a_negative_value_ends_the_index_of_sums_but_no_answer() -> None:
    engine = engine_of(STREAM, looked_up("SUM(v) >= 5", "k, SUM(v) AS s"))
    engine.push("t", [row(1, "a", 7), row(2, "b", 9), row(3, "b", -6), row(3, "c", 5)])
    engine.advance("t", 4 * SECOND)
    assert engine.lookup("q").to_pylist() == [{"k": "a", "s": 7}, {"k": "c", "s": 5}]
    assert "collective index: none, every group is asked: CI-SUM adds integers from 0 on, and -6 came" in str(
        engine.explain("q")
    )
    engine = pw.Engine.restore(engine.snapshot())
    assert engine.lookup("q").to_pylist() == [{"k": "a", "s": 7}, {"k": "c", "s": 5}]
    assert "none, every group is asked" in str(engine.explain("q"))


def test_where_and_expressions_as_arguments() -> None:
    engine = engine_of(STREAM, looked_up("SUM(v * 2) > 10", "k, SUM(v * 2) AS s", where="WHERE x > 0"))
    engine.push("t", [row(1, "a", 7, 1.0), row(2, "a", 9, -1.0), row(3, "b", 5, 1.0)])
    engine.advance("t", 4 * SECOND)
    assert engine.lookup("q").to_pylist() == [{"k": "a", "s": 14}]
    assert engine.lookup("q", key="a").num_rows == 1


def test_instants_of_the_past() -> None:
    engine = engine_of(STREAM, looked_up("COUNT(*) >= 2", "k, COUNT(*) AS n"))
    engine.push("t", [row(1, "a"), row(2, "a"), row(3, "b"), row(4, "a"), row(5, "b")])
    engine.advance("t", 6 * SECOND)
    assert engine.lookup("q", at=3 * SECOND).to_pylist() == [{"k": "a", "n": 2}]
    assert engine.lookup("q", at=int(5.5 * SECOND)).to_pylist() == [{"k": "a", "n": 3}, {"k": "b", "n": 2}]
    with pytest.raises(NotHeldError, match="not held"):
        engine.lookup("q", at=7 * SECOND)
    engine.advance("t", 60 * SECOND)
    assert engine.lookup("q").num_rows == 0
    with pytest.raises(NotHeldError, match="not held"):
        engine.lookup("q", at=3 * SECOND)
    maxima = engine_of(STREAM, looked_up("MAX(v) >= 2"))
    maxima.push("t", [row(1, "a", 5), row(3, "a", 1)])
    maxima.advance("t", 5 * SECOND)
    assert maxima.lookup("q", at=4 * SECOND).to_pylist() == [{"k": "a"}]
    with pytest.raises(NotHeldError, match="from the newest row on"):
        maxima.lookup("q", at=2 * SECOND)


def test_a_query_that_comes_in_mid_stream_waits_for_a_whole_window() -> None:
    engine = engine_of(STREAM)
    engine.push("t", [row(1, "a"), row(2, "a")])
    engine.advance("t", 3 * SECOND)
    engine.execute(looked_up("COUNT(*) >= 1", "k, COUNT(*) AS n"))
    engine.push("t", [row(4, "a"), row(5, "b")])
    engine.advance("t", 6 * SECOND)
    with pytest.raises(NotHeldError, match="not held"):
        engine.lookup("q")
    engine.advance("t", 9 * SECOND)
    assert engine.lookup("q").to_pylist() == [{"k": "a", "n": 1}, {"k": "b", "n": 1}]


def test_groups_without_rows_are_forgotten() -> None:
    engine = engine_of(
        "CREATE STREAM t (ts TIMESTAMP, k BIGINT, v BIGINT)",
        looked_up("MAX(v) >= 0 AND COUNT(*) > 0", "k, MAX(v) AS m"),
    )
    held = []
    for second in range(0, 200, 4):
        rows = [{"ts": second * SECOND + i, "k": second * 1000 + i, "v": i} for i in range(1000)]
        engine.push("t", rows)
        engine.advance("t", (second + 1) * SECOND)
        held.append(engine.stats()["queries"]["q"]["bytes"])
        last = [r for before in (second - 4, second) for r in range(before * 1000, before * 1000 + 1000) if before >= 0]
        assert sorted(engine.lookup("q")["k"].to_pylist()) == last
    assert max(held[25:]) <= max(held[:25]), "state does not grow with the stream"


NUMBERED = "CREATE STREAM t (ts TIMESTAMP, k BIGINT, v BIGINT)"


def numbered(second: int, keys: range | tuple[int, ...], v: int | None) -> list[Row]:
    return [{"ts": second * SECOND, "k": k, "v": v} for k in keys]


@pytest.mark.parametrize("extremes", ["MAX(v) AS m", "MIN(v) AS m", "MAX(v) AS m, MIN(v) AS low"])
def test_groups_with_nothing_but_nulls_have_no_extreme(extremes: str) -> None:
    engine = engine_of(NUMBERED, looked_up("COUNT(*) > 0", f"k, COUNT(*) AS n, {extremes}"))
    engine.push("t", numbered(1, range(5000), None) + numbered(1, (3, 4000), 7))
    engine.advance("t", 2 * SECOND)
    for _ in ("as it is", "restored"):
        found = {r["k"]: r for r in engine.lookup("q").to_pylist()}
        assert len(found) == 5000
        assert {k: r["n"] for k, r in found.items() if r["n"] != 1} == {3: 2, 4000: 2}
        assert {k: r["m"] for k, r in found.items() if r["m"] is not None} == {3: 7, 4000: 7}
        engine = pw.Engine.restore(engine.snapshot())


def test_there_is_room_for_groups_of_which_only_nulls_have_come() -> None:
    """Compiled loops check no bounds: the width is looked at before the lookup, which would read what is not there."""
    engine = engine_of(NUMBERED, looked_up("COUNT(*) > 0", "k, MAX(v) AS m"))
    engine.push("t", numbered(1, range(5000), None))
    engine.advance("t", 2 * SECOND)
    assert [staircase.width >= 5000 for staircase in operator_of(engine)._extremes.values()] == [True]
    assert engine.lookup("q")["m"].null_count == 5000


@pytest.mark.parametrize(
    ("having", "v"),
    [("COUNT(*) > 1", 0), ("COUNT(v) > 1", 0), ("SUM(v) > 1", 1), ("MAX(v) > 0", 1), ("MIN(v) > 0", 1)],
)
def test_groups_are_forgotten_whatever_the_index(having: str, v: int) -> None:
    engine = engine_of(NUMBERED, looked_up(having, "k, COUNT(*) AS n"))
    engine.push("t", numbered(1, range(2000), v))
    for second in range(2, 12):
        engine.push("t", numbered(second, (7, 1999), v))
    engine.advance("t", 12 * SECOND)
    assert len(operator_of(engine)._table) == 2
    assert engine.lookup("q").to_pylist() == [{"k": 7, "n": RANGE}, {"k": 1999, "n": RANGE}]
    engine.advance("t", 40 * SECOND)
    assert engine.lookup("q").num_rows == 0


@pytest.mark.parametrize("having", ["MAX(v) > 0", "MIN(v) > 0", "COUNT(*) > 1 AND MAX(v) > 0", "SUM(v) > 0"])
def test_groups_are_forgotten_where_those_that_stay_have_only_nulls(having: str) -> None:
    engine = engine_of(NUMBERED, looked_up(having, "k, COUNT(*) AS n, MAX(v) AS m"))
    engine.push("t", numbered(1, range(2000), None))
    for second in range(2, 12):
        engine.push("t", numbered(second, range(1990, 2000), None))
    engine.advance("t", 12 * SECOND)
    assert len(operator_of(engine)._table) == 10
    assert engine.lookup("q").num_rows == 0
    engine.push("t", numbered(12, (1995, 5000), 3))
    engine.push("t", numbered(12, (5000,), 4))
    engine.advance("t", 13 * SECOND)
    found = {r["k"]: (r["n"], r["m"]) for r in engine.lookup("q").to_pylist()}
    assert found == {1995: (RANGE, 3), 5000: (2, 4)}


def test_an_error_while_groups_are_forgotten_leaves_ids_and_state_in_agreement(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of(NUMBERED, looked_up("MAX(v) > 0", "k, COUNT(*) AS n, MAX(v) AS m"))
    engine.push("t", numbered(1, range(2000), 1) + numbered(5, (7, 1999), 2))
    engine.advance("t", 6 * SECOND)
    operator = operator_of(engine)

    def fails(*_: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(type(operator._index), "regrouped", fails)
        with pytest.raises(MemoryError):
            operator._evict(2 * SECOND)
    assert len(operator._table) == 2000
    answer = [{"k": 7, "n": 1, "m": 2}, {"k": 1999, "n": 1, "m": 2}]
    engine.advance("t", 10 * SECOND)
    assert engine.lookup("q").to_pylist() == answer
    assert len(operator._table) == 2


def test_one_great_value_does_not_end_the_index_of_sums() -> None:
    engine = engine_of(NUMBERED, looked_up("SUM(v) > 1000000", "k, SUM(v) AS s"))
    rows = [{"ts": SECOND, "k": i % 1000, "v": 1} for i in range(65_536)]
    rows[777]["v"] = 2**45
    engine.push("t", rows)
    engine.advance("t", 2 * SECOND)
    assert engine.lookup("q").to_pylist() == [{"k": 777, "s": 2**45 + 64}]
    assert "collective index: CI-SUM" in str(engine.explain("q"))
