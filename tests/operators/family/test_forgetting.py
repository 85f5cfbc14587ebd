"""Groups that come and go: the tree holds those of its slices, not all that ever were."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

import panewise as pw
from panewise.operators.family import eviction as forgetting
from panewise.plan import physical_plan as physical
from tests.now_or_soak import soaking

SECOND = 1_000_000


@pytest.mark.parametrize("aggregate", ["COUNT(*)", "MAX(v)", "SUM(x)", "LAST(v)"])
def test_idle_groups_leave(monkeypatch: pytest.MonkeyPatch, aggregate: str) -> None:
    monkeypatch.setattr(physical, "SPARSE_ABOVE", 8)
    monkeypatch.setattr(forgetting, "FORGET_FROM", 32)
    engine = pw.Engine()
    engine.execute(
        f"""CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT, x DOUBLE);
        CREATE QUERY short AS SELECT k, {aggregate} AS a FROM t [RANGE 3 SECONDS SLIDE 1 SECOND] GROUP BY k;
        CREATE QUERY long AS SELECT k, COUNT(*) AS n FROM t [RANGE 5 SECONDS SLIDE 2 SECONDS] GROUP BY k
          HAVING COUNT(*) > 1"""
    )
    rows = [{"ts": i * SECOND // 10, "k": f"key {(i * i) % 7 + i // 20}", "v": i, "x": i / 2} for i in range(3000)]
    largest = 0
    for begin in range(0, len(rows), 50):
        engine.push("t", rows[begin : begin + 50])
        [tree] = engine.stats()["trees"]
        largest = max(largest, tree["groups"])
    # Some 160 names in all, of which a window of five seconds sees about ten.
    assert largest < 80
    engine.flush()

    def window(end: int, length: int) -> list[dict[str, object]]:
        return [row for row in rows if end - length * SECOND <= row["ts"] < end]  # type: ignore[operator]

    found = {(r["window_end"].timestamp(), r["k"]): r["n"] for r in engine.results("long").to_pylist()}
    expected = {}
    for second in range(0, 310, 2):
        counts = Counter(row["k"] for row in window(second * SECOND, 5))
        expected |= {(float(second), key): n for key, n in counts.items() if n > 1}
    assert found == expected
    answers = {(r["window_end"].timestamp(), r["k"]): r["a"] for r in engine.results("short").to_pylist()}
    folds = {
        "COUNT(*)": len,
        "MAX(v)": lambda held: max(row["v"] for row in held),
        "SUM(x)": lambda held: sum(row["x"] for row in held),
        "LAST(v)": lambda held: held[-1]["v"],
    }
    for (end, key), answer in answers.items():
        held = [row for row in window(int(end * SECOND), 3) if row["k"] == key]
        assert answer == folds[aggregate](held), (end, key)
    assert len(answers) == sum(len({r["k"] for r in window(e * SECOND, 3)}) for e in range(310))


OF_STRINGS = ["MAX(s)", "MIN(s)", "FIRST(s)", "LAST(s)", "ARG_MAX(s, v)", "ARG_MIN(v, s)"]


# Each once: by groups that are dense and groups that are not in turn.
@pytest.mark.parametrize(
    ("aggregate", "dense"),
    soaking(product(OF_STRINGS, [True, False]), now=[(text, at % 2 == 0) for at, text in enumerate(OF_STRINGS)]),
)
def test_idle_strings_leave(monkeypatch: pytest.MonkeyPatch, aggregate: str, dense: bool) -> None:
    monkeypatch.setattr(physical, "SPARSE_ABOVE", 4096 if dense else 2)
    monkeypatch.setattr(forgetting, "FORGET_FROM", 64)
    engine = pw.Engine()
    engine.execute(
        f"""CREATE STREAM t (ts TIMESTAMP, k BIGINT, v BIGINT, s STRING);
        CREATE QUERY q AS SELECT k, {aggregate} AS a FROM t [RANGE 3 SECONDS SLIDE 1 SECOND] GROUP BY k"""
    )
    rows = [
        {"ts": i * SECOND // 10, "k": i % 5, "v": (i * 7) % 11, "s": f"text {(i * 31) % 997:05}"} for i in range(3000)
    ]
    largest = 0
    for begin in range(0, len(rows), 50):
        engine.push("t", rows[begin : begin + 50])
        engine.stats()
        [consumer] = engine.hosting.families
        largest = max(largest, *(len(pool) for pool in consumer.family.store.pools.values()))
    assert largest < 400  # of 997 strings
    engine.flush()
    folds = {
        "MAX(s)": lambda held: max(row["s"] for row in held),
        "MIN(s)": lambda held: min(row["s"] for row in held),
        "FIRST(s)": lambda held: held[0]["s"],
        "LAST(s)": lambda held: held[-1]["s"],
        "ARG_MAX(s, v)": lambda held: max(held, key=lambda row: row["v"])["s"],
        "ARG_MIN(v, s)": lambda held: min(held, key=lambda row: row["s"])["v"],
    }
    answers = engine.results("q").to_pylist()
    assert len(answers) > 1400
    for answer in answers:
        end = int(answer["window_end"].timestamp() * SECOND)
        held = [row for row in rows if end - 3 * SECOND <= row["ts"] < end and row["k"] == answer["k"]]
        assert answer["a"] == folds[aggregate](held), answer
