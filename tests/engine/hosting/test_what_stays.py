"""What an engine keeps does not grow with what it has said, and a snapshot not with the number of empty queries."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
import pyarrow as pa

import panewise as pw

STREAM = "CREATE STREAM s (ts TIMESTAMP, k BIGINT)"
COUNT = "SELECT k, COUNT(*) AS n FROM s [RANGE {} SECONDS SLIDE 1 SECOND] GROUP BY k"
GROUPS = 5_000


def test_memory_does_not_follow_reports_that_were_read() -> None:
    engine = pw.Engine()
    engine.execute(STREAM)
    engine.execute(f"CREATE QUERY q AS {COUNT.format(1)}")
    held = []
    for second in range(20):
        if second == 5:
            tracemalloc.start()
        times = pa.array(np.arange(GROUPS) + second * 1_000_000, pa.timestamp("us", "UTC"))
        engine.push("s", pa.table({"ts": times, "k": np.arange(GROUPS)}))
        assert engine.results("q").num_rows == (GROUPS if second else 0)
        if second in (9, 19):
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert held[1] - held[0] < GROUPS * 24, "less than one report more, after ten"


def test_a_snapshot_of_many_queries_and_few_rows_is_small() -> None:
    engine = pw.Engine()
    engine.execute(STREAM)
    for number in range(1, 21):
        engine.execute(f"CREATE QUERY q{number} AS {COUNT.format(number)} HAVING COUNT(*) > {number}")
    engine.push("s", [{"ts": second * 1_000_000, "k": second} for second in range(101)])
    for number in range(1, 21):
        engine.results(f"q{number}")
    assert len(engine.snapshot()) < 60_000
