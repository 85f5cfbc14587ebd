"""`Engine.lookup_now`: what is published, or None, and never a wait."""

from __future__ import annotations

import threading

from panewise.engine.engine import Engine
from tests.waiting import PATIENCE_S


def test_published_answers_are_found_without_a_turn():
    engine = Engine()
    engine.execute("CREATE STREAM t (ts TIMESTAMP, v BIGINT)")
    engine.execute("CREATE QUERY q AS SELECT SUM(v) AS total FROM t [RANGE 2 SECONDS SLIDE 1 SECOND]")
    engine.push("t", [{"ts": second * 1_000_000, "v": second} for second in range(5)])
    assert engine.lookup_now("nothing") is None
    assert engine.lookup_now("q") is None  # nobody has asked for it, and rows are not processed
    table = engine.lookup("q")
    assert engine.lookup_now("q") is table

    inside, leave, found = threading.Event(), threading.Event(), []

    def stay() -> None:
        with engine.turns:
            inside.set()
            leave.wait(PATIENCE_S)

    thread = threading.Thread(target=stay)
    thread.start()
    assert inside.wait(PATIENCE_S)
    found.append(engine.lookup_now("q"))  # while another thread has the turn
    leave.set()
    thread.join()
    assert found[0] is table
    engine.push("t", [{"ts": 9_000_000, "v": 1}])
    assert engine.lookup_now("q") is None  # this thread has changed what the answer does not cover
    assert engine.lookup("q")["total"].to_pylist() != table["total"].to_pylist()
