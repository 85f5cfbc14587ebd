"""One join for queries with many windows: every query answers as if it ran alone, however they come and go."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

import panewise as pw
from panewise.engine.consumers.shared_plan import SharingConsumer
from panewise.optimize import node_of_plan as physical
from panewise.optimize.rewrites.rewriting import Rewritten
from tests.now_or_soak import soaking

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
    """Random queries over random rows, sharing and each with a plan of its own; how many had others to share with."""
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
            shared.execute(f"CREATE QUERY {name} AS {text}")
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(physical, "core_of", lambda plan: None)
                patch.setattr(physical, "rewrite", lambda plan, *_: Rewritten(plan))
                alone.execute(f"CREATE QUERY {name} AS {text}")
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
                assert state(shared, name) in (state(alone, name), ["not held"]), (seed, step, name)
        consumers = [found for found in shared.hosting.consumers.values() if isinstance(found, SharingConsumer)]
        sharing += sum(len(found.shared.members) > 1 for found in consumers)
        for name in list(names):
            if chance.random() < 0.08:
                names.remove(name)
                for engine in (shared, alone):
                    engine.execute(f"DROP QUERY {name}")
    return sharing


@pytest.mark.parametrize("seed", soaking(range(12), now=range(6)))
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


def engine_with(*queries: str) -> pw.Engine:
    engine = pw.Engine()
    for stream in STREAMS:
        engine.execute(f"CREATE STREAM {stream} (ts TIMESTAMP, k BIGINT, v BIGINT, WATERMARK FOR ts AS ts)")
    for number, text in enumerate(queries):
        engine.execute(f"CREATE QUERY q{number} AS {text}")
    return engine


def push(engine: pw.Engine, stream: str, *found: tuple[float, int, int]) -> None:
    engine.push(stream, [{"ts": int(ts * SECOND), "k": k, "v": v} for ts, k, v in found])


LARGE = 2**62
PAIRED = "FROM a [RANGE {r} SECONDS SLIDE {s} SECONDS] JOIN b [RANGE {r} SECONDS SLIDE {s} SECONDS] ON a.k = b.k"


def test_a_query_that_overflows_leaves_the_others_alone_and_survives_a_snapshot() -> None:
    text = PAIRED.format(r=4, s=2) + " GROUP BY a.k"
    engine = engine_with(f"SELECT a.k AS k, COUNT(*) AS n {text}", f"SELECT a.k AS k, SUM(a.v) AS s {text}")
    push(engine, "a", (0, 1, LARGE), (1, 1, LARGE), (1.5, 1, LARGE))
    push(engine, "b", (0, 1, 1), (1, 1, 1))
    for stream in STREAMS:
        engine.advance(stream, 3 * SECOND)
    assert (engine.stats()["queries"]["q1"]["status"], engine.stats()["queries"]["q1"]["overflows"]) == ("RUNNING", 1)
    assert engine.stats()["queries"]["q0"]["overflows"] == 0
    restored = pw.Engine.restore(engine.snapshot())
    assert restored.stats()["queries"]["q1"]["overflows"] == 1
    for one in (engine, restored):
        push(one, "a", (5, 1, 1))
        push(one, "b", (5, 1, 1))
        one.flush()
    assert answers(engine, "q0") == answers(restored, "q0") != []
    assert answers(engine, "q1") == answers(restored, "q1")


@pytest.mark.parametrize("instants", [(9,), (3, 5, 9)])
def test_reports_before_and_after_an_overflow_are_not_lost(instants: tuple[int, ...]) -> None:
    engine = engine_with("SELECT SUM(a.v) AS n " + PAIRED.format(r=2, s=2))
    push(engine, "a", (1, 1, 5), (3, 1, 6), (5, 1, LARGE), (5, 1, LARGE))
    push(engine, "b", (1, 1, 0), (3, 1, 0), (5, 1, 0))
    for instant in instants:
        for stream in STREAMS:
            engine.advance(stream, instant * SECOND)
    assert engine.stats()["queries"]["q0"]["status"] == "RUNNING"
    assert engine.results("q0").column("n").to_pylist() == [5, 6, None, None]


def test_an_internal_join_that_comes_late_tells_nothing_before_its_time() -> None:
    engine = engine_with()
    for stream in STREAMS:
        push(engine, stream, (-1, 1, 1), (0, 1, 1))  # the first of them has gone by when the query comes
    windows = "a [RANGE 10 SECONDS INTERNAL], b [RANGE 10 SECONDS INTERNAL]"
    engine.execute(f"CREATE QUERY q AS SELECT a.v AS v FROM {windows} WHERE a.k = b.k")
    push(engine, "a", (1, 1, 1))
    push(engine, "b", (1, 1, 1))
    for instant, expected in ((2, 0), (9, 0), (11, 4)):
        for stream in STREAMS:
            engine.advance(stream, instant * SECOND)
        assert engine.results("q").num_rows == expected
        engine = pw.Engine.restore(engine.snapshot())


@pytest.mark.parametrize("inside", ["", " INTERNAL"])
def test_a_join_that_comes_before_any_row_has_gone_by_has_missed_nothing(inside: str) -> None:
    engine = engine_with()
    for stream in STREAMS:
        push(engine, stream, (0, 1, 1))
    windows = f"a [RANGE 10 SECONDS{inside}], b [RANGE 10 SECONDS{inside}]"
    engine.execute(f"CREATE QUERY q AS SELECT ISTREAM a.v AS v FROM {windows} WHERE a.k = b.k")
    for stream in STREAMS:
        engine.advance(stream, 1 * SECOND)
    assert engine.results("q").column("v").to_pylist() == [1]


@pytest.mark.parametrize("sharing", ["weave", "none"])
def test_a_row_that_is_yet_to_go_by_does_not_begin_a_series_that_shows_no_row(sharing: str) -> None:
    engine = pw.Engine(sharing=sharing)
    for stream in STREAMS:
        engine.execute(f"CREATE STREAM {stream} (ts TIMESTAMP, k BIGINT, v BIGINT)")
    push(engine, "b", (2.5, 1, 1))
    away = "a [RANGE 4 SECONDS SLIDE 2 SECONDS] WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 1 SECOND SLIDE 2 SECONDS]"
    engine.execute(f"CREATE QUERY q AS SELECT COUNT(*) AS n FROM {away} WHERE b.k = a.k)")
    for stream in STREAMS:
        engine.advance(stream, 20 * SECOND)
    assert engine.results("q").num_rows == 0


@pytest.mark.parametrize("sharing", ["weave", "none"])
@pytest.mark.parametrize("other", [", b {} WHERE a.k = b.k", "WHERE EXISTS (SELECT 1 FROM b {} WHERE a.k = b.k)"])
def test_rows_between_two_reports_begin_no_series_before_a_query_comes(sharing: str, other: str) -> None:
    engine = pw.Engine(sharing=sharing)
    for stream in STREAMS:
        engine.execute(f"CREATE STREAM {stream} (ts TIMESTAMP, k BIGINT, v BIGINT)")
    window = "[RANGE 1 SECOND SLIDE 3 SECONDS]"
    created = f"CREATE QUERY q AS SELECT COUNT(*) AS n FROM a {window} {other.format(window)}"
    for stream in STREAMS:
        push(engine, stream, (1, 1, 1), (4, 1, 1))  # no report shows them: those before 6 seconds begin at 2 and 5
        engine.advance(stream, 7 * SECOND)
    engine.execute(created)
    engine = pw.Engine.restore(engine.snapshot())
    for stream in STREAMS:
        push(engine, stream, (14, 1, 1))
        engine.advance(stream, 19 * SECOND)
    assert engine.results("q").column("n").to_pylist() == [1, 0]


def test_rows_leave_when_the_longest_window_has_gone() -> None:
    engine = engine_with("SELECT a.v AS v " + PAIRED.format(r=1000, s=1), "SELECT a.v AS v " + PAIRED.format(r=1, s=1))
    engine.execute("DROP QUERY q0")
    for second in range(0, 6000, 50):
        for stream in ("a", "b"):
            push(engine, stream, *((second + n / 10, n, n) for n in range(400)))
        engine.results("q1")
    (consumer,) = engine.hosting.consumers.values()
    assert isinstance(consumer, SharingConsumer)
    assert sum(consumer.operators[0].rows_held) < 3000


def test_time_without_rows_is_nothing_missed() -> None:
    """An answer for no rows comes from the first row on, as over one stream."""
    engine = engine_with()
    for stream in STREAMS:
        engine.advance(stream, 3 * SECOND)
    engine.execute("CREATE QUERY joined AS SELECT COUNT(*) AS n " + PAIRED.format(r=5, s=5))
    engine.execute("CREATE QUERY alone AS SELECT COUNT(*) AS n FROM a [RANGE 5 SECONDS SLIDE 5 SECONDS]")
    push(engine, "a", (23, 1, 1))
    push(engine, "b", (23, 1, 1))
    engine.flush()
    assert answers(engine, "joined")[0] == answers(engine, "alone")[0]
