"""Results of all queries handed over at once: what `hand_over` gives for each, once, and again where it failed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import panewise as pw

STREAM = "CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT)"
QUERIES = {
    "shared": "SELECT k, SUM(v) AS total FROM s [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k",
    "also_shared": "SELECT k, SUM(v) AS total FROM s [RANGE 3 SECONDS SLIDE 1 SECOND] GROUP BY k",
    "apart": "SELECT MAX(v) AS most FROM s [ROWS 7 SLIDE 3]",
    "silent": "SELECT v FROM s [RANGE 1 SECOND] WHERE v < 0",
}
Part = tuple[str, pa.Table, int]


def engine_at(path: Path | None) -> pw.Engine:
    engine = pw.Engine(path)
    if not list(engine.catalog):
        engine.execute(STREAM)
        for name, text in QUERIES.items():
            engine.execute(f"CREATE QUERY {name} AS {text}")
    return engine


def push(engine: pw.Engine, second: int) -> None:
    engine.push("s", [{"ts": second * 1_000_000 + i * 100_000, "k": i % 3, "v": i + second} for i in range(10)])


def test_it_gives_what_each_query_gives_alone() -> None:
    together, alone = engine_at(None), engine_at(None)
    for second in range(6):
        push(together, second)
        push(alone, second)
        parts: list[Part] = []
        count = together.hand_over_all(parts.extend)
        expected: list[Part] = []
        for name in QUERIES:
            alone.hand_over(name, lambda table, first, to=expected, name=name: to.append((name, table, first)))
        assert [(name, first) for name, _, first in parts] == [(name, first) for name, _, first in expected]
        assert all(found[1].equals(wanted[1]) for found, wanted in zip(parts, expected, strict=True))
        assert count == sum(table.num_rows for _, table, _ in parts)
    assert "silent" not in [name for name, _, _ in parts]
    assert together.hand_over_all(parts.extend) == 0


@pytest.mark.parametrize("durable", [True, False])
def test_what_was_not_taken_comes_again_under_its_numbers(durable: bool, tmp_path: Path) -> None:
    path = tmp_path / "engine" if durable else None
    engine = engine_at(path)
    push(engine, 0)
    engine.hand_over_all(lambda parts: None)
    push(engine, 1)
    seen: list[Part] = []

    def fail(parts: list[Part]) -> None:
        seen.extend(parts)
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        engine.hand_over_all(fail)
    if durable:
        engine.close(snapshot=False)
        engine = engine_at(path)
    again: list[Part] = []
    assert engine.hand_over_all(again.extend) == sum(table.num_rows for _, table, _ in seen) > 0
    assert [(name, first) for name, _, first in again] == [(name, first) for name, _, first in seen]
    assert all(one[1].equals(other[1]) for one, other in zip(again, seen, strict=True))
    engine.close()


@pytest.mark.parametrize("snapshot", [False, True])
def test_numbers_go_on_where_a_replay_has_fewer_results(snapshot: bool, tmp_path: Path) -> None:
    """A query began early because of what another one held, and that one was dropped while nothing ran."""
    numbered: dict[int, int] = {}

    def take(table: pa.Table, first: int) -> None:
        for number, end in enumerate(table["window_end"].cast(pa.int64()).to_pylist(), first):
            assert number not in numbered
            numbered[number] = end // 1_000_000

    engine = pw.Engine(tmp_path, sync="never")
    engine.execute("CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (epoch = 'microseconds', late = 'drop')")
    engine.execute("CREATE QUERY long AS SELECT SUM(v) AS s FROM s [RANGE 20 SECONDS SLIDE 1 SECOND]")
    for second in range(10):
        engine.push("s", {"ts": second * 1_000_000, "v": 1})
    engine.execute("CREATE QUERY short AS SELECT SUM(v) AS s FROM s [RANGE 5 SECONDS SLIDE 1 SECOND]")
    for second in range(10, 14):
        engine.push("s", {"ts": second * 1_000_000, "v": 1})
    engine.hand_over("short", take)
    engine.close(snapshot=False)
    with pw.Engine(tmp_path, suspended=True) as suspended:
        suspended.execute("DROP QUERY long")
    with pytest.warns(pw.DurabilityWarning, match="another number of results"):
        engine = pw.Engine(tmp_path, sync="never")
    if snapshot:
        engine.close(snapshot=True)
        engine = pw.Engine(tmp_path, sync="never")
    for second in range(14, 20):
        engine.push("s", {"ts": second * 1_000_000, "v": 1})
    engine.hand_over("short", take)
    engine.close()
    assert numbered == dict(enumerate(range(9, 20)))
