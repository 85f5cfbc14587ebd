"""A change log that was suspended and resumed can be replayed: it begins with the net difference."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

import panewise as pw
from tests.engine.durability.suspended_logs import CREATES, LOGS, STREAMS, Replayed, random_rows

SECOND = 1_000_000


@pytest.mark.parametrize("again", ["in one go", "snapshot", "reopened", "log"])
def test_every_log_can_be_replayed(tmp_path: Path, again: str) -> None:
    chance = random.Random(again)
    durable = tmp_path if again in ("reopened", "log") else None
    engine = pw.Engine(durable)
    for statement in STREAMS + CREATES:
        engine.execute(statement)
    replayed = {name: Replayed() for name in LOGS}
    suspended: set[str] = set()
    for second in range(24):
        for stream in ("a", "b"):
            engine.push(stream, random_rows(chance, second * SECOND))
        for name in LOGS:
            if chance.random() < 0.3:
                engine.execute(f"{'RESUME' if name in suspended else 'SUSPEND'} QUERY {name}")
                suspended ^= {name}
        if again == "snapshot" and second % 5 == 4:
            engine = pw.Engine.restore(engine.snapshot())
        elif durable is not None and second % 5 == 4:
            engine.close(snapshot=again == "reopened")
            engine = pw.Engine(durable)
        for name in LOGS:
            log = engine.results(name)
            replayed[name].take(log)
            if name not in suspended:
                now = zip(*(column.to_pylist() for column in engine.lookup(name).columns), strict=True)
                assert replayed[name].rows == Counter(now), (name, second)
    engine.close()


def test_a_resumed_log_says_the_difference_at_the_watermark() -> None:
    engine = pw.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, v BIGINT); CREATE QUERY q AS SELECT v FROM s [RANGE 10 SECONDS]")
    engine.push("s", [{"ts": 0, "v": 1}, {"ts": SECOND, "v": 2}])
    assert engine.results("q")["change"].to_pylist() == [1]
    engine.execute("SUSPEND QUERY q")
    engine.push("s", [{"ts": 5 * SECOND, "v": 3}, {"ts": 12 * SECOND, "v": 4}])
    assert engine.results("q").num_rows == 0
    engine.execute("RESUME QUERY q")
    log = engine.results("q").to_pydict()
    assert (log["change"], log["v"]) == ([-1, 1], [1, 3])  # 2 came and went meanwhile
    assert {instant.second for instant in log["instant"]} == {12}
    engine.push("s", {"ts": 14 * SECOND, "v": 5})
    assert engine.results("q").to_pydict()["v"] == [4]


def test_istream_leaves_out_what_came_meanwhile() -> None:
    """It is a stream of events: those of the suspension are not told later, also not by comparison."""
    engine = pw.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, v BIGINT)")
    engine.execute("CREATE QUERY now AS SELECT ISTREAM v FROM s [RANGE 10 SECONDS]")
    engine.execute("CREATE QUERY each AS SELECT ISTREAM v FROM s [RANGE 10 SECONDS SLIDE 1 SECOND]")
    engine.push("s", [{"ts": 0, "v": 1}, {"ts": SECOND, "v": 2}])
    engine.execute("SUSPEND QUERY now; SUSPEND QUERY each")
    engine.push("s", {"ts": 3 * SECOND, "v": 3})
    engine.execute("RESUME QUERY now; RESUME QUERY each")
    engine.push("s", {"ts": 5 * SECOND, "v": 4})
    assert engine.results("now")["v"].to_pylist() == [1, 3]
    assert engine.results("each")["v"].to_pylist() == [1, 3]
