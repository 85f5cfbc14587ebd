"""The rows of a report have one order, whatever the steps in which rows were taken: readers resume by row number."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import panewise as pw
from tests.now_or_soak import soaking

STREAM = "(ts TIMESTAMP, k STRING, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL 1 SECOND)"
WINDOW = "[RANGE 3 SECONDS SLIDE 1 SECOND]"
QUERIES = {
    "distinct": f"SELECT DISTINCT v FROM s {WINDOW}",
    "wider": "SELECT DISTINCT v FROM s [RANGE 5 SECONDS SLIDE 2 SECONDS]",
    "changes": "SELECT DISTINCT k, v FROM s [RANGE 3 SECONDS]",
    "joined": f"SELECT a.v, b.k FROM s {WINDOW} a, r {WINDOW} b WHERE a.v = b.v",
    "grouped": f"SELECT a.v, COUNT(*) AS n FROM s {WINDOW} a, r {WINDOW} b WHERE a.k = b.k GROUP BY a.v",
    "except": f"SELECT v FROM s {WINDOW} EXCEPT SELECT v FROM r {WINDOW}",
    "union": f"SELECT v FROM s {WINDOW} UNION SELECT v FROM r {WINDOW}",
    "all": f"SELECT v FROM s {WINDOW} UNION ALL SELECT v FROM r {WINDOW}",
    "union changes": "SELECT v FROM s [RANGE 3 SECONDS] UNION SELECT v FROM r [RANGE 2 SECONDS]",
    "exists": f"SELECT a.v FROM s {WINDOW} a WHERE NOT EXISTS (SELECT 1 FROM r {WINDOW} b WHERE b.v = a.v)",
    "summed": f"SELECT v, COUNT(*) AS n FROM s {WINDOW} GROUP BY v",
    "selected": f"SELECT v, k FROM s {WINDOW}",
}


def rows(chance: Random, count: int) -> list[tuple[str, dict[str, Any]]]:
    """Out of order by less than the delay, and often at the same instant."""
    now, found = 0, []
    for _ in range(count):
        now += chance.choice((0, 0, 1, 2, 7)) * chance.choice((1_000, 20_000))
        late = chance.choice((0, 0, 500_000))
        found.append(
            (chance.choice("ssr"), {"ts": max(0, now - late), "k": chance.choice("ab"), "v": chance.randrange(40)})
        )
    return found


def told(rows: list[tuple[str, dict[str, Any]]], breaks: dict[int, str]) -> dict[str, list[dict[str, Any]]]:
    engine = pw.Engine()
    for stream in "sr":
        engine.execute(f"CREATE STREAM {stream} {STREAM}")
    for name, query in QUERIES.items():
        engine.execute(f'CREATE QUERY "{name}" AS {query}')
    for number, (stream, row) in enumerate(rows):
        engine.push(stream, row)
        if breaks.get(number) == "flush":
            engine.snapshot()
        elif breaks.get(number) == "restore":
            engine = pw.Engine.restore(engine.snapshot())
    for stream in "sr":
        engine.advance(stream, rows[-1][1]["ts"] + 10_000_000)
    return {name: engine.results(name).to_pylist() for name in QUERIES}


@pytest.mark.parametrize("seed", soaking(range(4), now=[0, 2]))
def test_it_depends_on_no_step_and_no_snapshot(seed: int) -> None:
    chance = Random(seed)
    pushed = rows(chance, 800)
    wanted = told(pushed, {})
    for kind in ("flush", "restore"):
        found = told(pushed, dict.fromkeys(chance.sample(range(800), 6), kind))
        for name in QUERIES:
            assert found[name] == wanted[name], (name, kind)
