"""One join for queries with many windows: every query answers as if it ran alone, however they come and go."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

import panewise as pw
from panewise.runtime.shared_plan import SharingConsumer

SECOND = 1_000_000
STREAMS = ("a", "b", "c")
TWO = "a [RANGE {0} SECONDS{s}] AS {x} JOIN b [RANGE {1} SECONDS{s}] AS {y} ON {x}.k = {y}.k"
SHAPES = [
    "SELECT {x}.v AS v, {y}.v AS w FROM " + TWO,
    "SELECT ISTREAM {x}.k AS k, {y}.v AS w FROM " + TWO,
    "SELECT {x}.k AS k, COUNT(*) AS n, SUM({y}.v) AS s, MAX({x}.v) AS m FROM " + TWO + " GROUP BY {x}.k",
    "SELECT {x}.k AS k, AVG({y}.v) AS s FROM " + TWO + " GROUP BY {x}.k HAVING COUNT(*) > 2",
    "SELECT COUNT(*) AS n, MIN({y}.v) AS s FROM " + TWO,
    "SELECT DISTINCT {x}.k AS k FROM " + TWO,
    "SELECT {x}.v AS v FROM " + TWO + " WHERE {x}.v < {y}.v",
    "SELECT {x}.k AS k, COUNT(*) AS n FROM " + TWO + " WHERE {x}.v < {y}.v GROUP BY {x}.k",
    "SELECT {x}.v AS v, c.v AS w FROM " + TWO + " JOIN c [RANGE {2} SECONDS{s}] ON c.k = {y}.k",
    "SELECT DSTREAM {x}.v AS v FROM " + TWO,
    "SELECT {x}.v AS v, {y}.v AS w FROM " + TWO.replace("]", " INTERNAL]"),
    "SELECT {x}.v AS v, {y}.v AS w FROM " + TWO.replace("]", " INTERNAL]", 1),
    "SELECT DISTINCT k FROM a [RANGE {0} SECONDS{s}]",
    "SELECT DISTINCT k, v FROM a [RANGE {0} SECONDS{s}] WHERE v > 2",
]  # fmt: skip


def random_query(chance: Random) -> str:
    x, y = chance.choice([("a", "b"), ("l", "r")])
    slide = chance.choice(
        ["", "", " SLIDE 2 SECONDS", " SLIDE 3 SECONDS", " SLIDE 5 SECONDS ALIGN '1970-01-01 00:00:01'"]
    )
    shape = chance.choice(SHAPES)
    ranges = [chance.randint(1, 12) for _ in range(3)]
    if chance.random() < 0.4:
        ranges[1] = ranges[0]
    return shape.format(*ranges, s=slide, x=x, y=y)


def rows(chance: Random, begin: int, end: int) -> pa.RecordBatch:
    times = sorted(
        chance.randrange(begin * SECOND, end * SECOND) // 250_000 * 250_000 for _ in range(chance.randint(0, 12))
    )
    return pa.record_batch(
        {
            "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
            "k": pa.array([chance.choice([1, 2, 3, None]) for _ in times], pa.int64()),
            "v": pa.array([chance.choice([*range(6), None]) for _ in times], pa.int64()),
        }
    )


def answers(engine: pw.Engine, name: str) -> list[str]:
    """The rows of one instant come in no order."""
    return sorted(map(repr, engine.results(name).to_pylist()))


def state(engine: pw.Engine, name: str) -> list[str]:
    try:
        return sorted(map(repr, engine.lookup(name).to_pylist()))
    except pw.NotHeldError:
        return ["not held"]


def play(seed: int, minutes: int = 12) -> int:
    """Random queries over random rows with both engines; how many queries had others to share with."""
    chance = Random(seed)
    shared, alone = pw.Engine(), pw.Engine(sharing="none")
    for engine in (shared, alone):
        for stream in STREAMS:
            engine.execute(f"CREATE STREAM {stream} (ts TIMESTAMP, k BIGINT, v BIGINT, WATERMARK FOR ts AS ts)")
    names: list[str] = []
    sharing = number = 0
    for step in range(minutes):
        for _ in range(chance.choice([0, 1, 3]) if step else 6):
            name, text = f"q{number}", random_query(chance)
            number += 1
            names.append(name)
            for engine in (shared, alone):
                engine.execute(f"CREATE QUERY {name} AS {text}")
        for stream in chance.sample(STREAMS, chance.randint(1, 3)):
            batch = rows(chance, 3 * step, 3 * step + chance.choice([1, 3]))
            for engine in (shared, alone):
                engine.push(stream, batch)
        if chance.random() < 0.5:
            for stream in STREAMS:
                for engine in (shared, alone):
                    engine.advance(stream, (3 * step + 3) * SECOND)
        if chance.random() < 0.2:
            shared = pw.Engine.restore(shared.snapshot())
        for name in names:
            assert answers(shared, name) == answers(alone, name), (seed, step, name)
            if chance.random() < 0.3:
                assert state(shared, name) == state(alone, name), (seed, step, name)
        consumers = [found for found in shared.hosting.consumers.values() if isinstance(found, SharingConsumer)]
        sharing += sum(len(found.shared.members) > 1 for found in consumers)
        for name in list(names):
            if chance.random() < 0.08:
                names.remove(name)
                for engine in (shared, alone):
                    engine.execute(f"DROP QUERY {name}")
    return sharing


@pytest.mark.parametrize("seed", range(12))
def test_many_windows_as_one_by_one(seed: int) -> None:
    assert play(seed) > 0


def test_rows_probe_once() -> None:
    """Queries with the same join and other windows, names and selected columns are one join."""
    engine = pw.Engine()
    for stream in STREAMS:
        engine.execute(f"CREATE STREAM {stream} (ts TIMESTAMP, k BIGINT, v BIGINT, WATERMARK FOR ts AS ts)")
    for number in range(20):
        text = SHAPES[number % 5].format(number + 1, 25 - number, 0, s="", x=f"x{number}", y="y")
        engine.execute(f"CREATE QUERY q{number} AS {text}")
    consumers = list(engine.hosting.consumers.values())
    assert all(isinstance(found, SharingConsumer) for found in consumers)
    assert len({id(found.shared) for found in consumers if isinstance(found, SharingConsumer)}) == 1
