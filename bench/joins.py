"""Joins: equality joins of two and four streams over 60 s windows, in memory on one core.

Every stream brings a row a millisecond, in pushes of 8,192 rows in turn; keys are drawn from 100,000 or 1,000. The
windows are INTERNAL, so that each pair is a result once, when it is found; results are fetched after every round of
pushes, as Arrow tables, counted and let go. Timing begins when the windows are full. DuckDB joins the same rows at
once, by range of time, and must count as many pairs.

Four streams with 1,000 keys have 216,000 results a row, 864 for every microsecond of the streams' time. The first of
them stays empty until the windows of the others are full, and pushes are of 16 rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from bench.measure import Timing, isolated, median_clock, median_cpu, timed
from bench.report import Aim, Report

RANGE_S = 60
PUSH = 8192
WARM_UP_MS = 65_536  # the windows are full after 60,000
# streams, distinct keys, rounds timed, rows a push in these
CASES = ((2, 100_000, 64, PUSH), (2, 1_000, 12, PUSH), (4, 100_000, 32, PUSH), (4, 1_000, 8, 16))
QUICK_CASES = ((2, 100_000, 1, PUSH), (2, 1_000, 1, PUSH), (4, 100_000, 1, PUSH), (4, 1_000, 2, 4))
ROWS_WANTED, RESULTS_WANTED = 3e6, 30e6


def run(quick: bool) -> Report:
    report = Report(
        "joins",
        f"joins: equality joins over {RANGE_S} s windows, a row a millisecond and stream, pushes of {PUSH:,}, one core",
        ("streams", "keys", "rows", "seconds", "rows/s", "results", "results/s", "state MiB", "clock/CPU", "agrees"),
    )
    report.notes = [
        "seconds: processor seconds of pushing all rows after the windows were full, and of fetching every result",
        "agrees: as many results as DuckDB counts pairs within the range of time",
    ]
    for streams, keys, rounds, push in QUICK_CASES if quick else CASES:
        warm_up = PUSH if quick else WARM_UP_MS
        figure = isolated(measure, streams=streams, keys=keys, rounds=rounds, warm_up=warm_up, push=push)
        report.rows.append({"streams": streams, "keys": keys, **figure["row"]})
        report.agree = report.agree and figure["row"]["agrees"]
        if streams == 2 and not quick:
            what = f"two streams, {keys:,} keys: "
            if keys == 100_000:
                report.aims.append(Aim.at_least(what + "rows/s", ROWS_WANTED, figure["row"]["rows/s"]))
            else:
                report.aims.append(Aim.at_least(what + "results/s", RESULTS_WANTED, figure["row"]["results/s"]))
    return report


# -- in a process of its own -----------------------------------------------------------------------------------------


def rows_of(stream: int, first: int, count: int, keys: int) -> pa.RecordBatch:
    chance = np.random.default_rng([stream, first])
    times = (np.arange(first, first + count, dtype=np.int64)) * 1000
    return pa.record_batch(
        {
            "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
            "k": chance.integers(0, keys, count),
            "v": np.arange(first, first + count, dtype=np.int64),
        }
    )


def measure(streams: int, keys: int, rounds: int, warm_up: int, push: int = PUSH) -> dict[str, Any]:
    """Pushes are of `PUSH` rows until the windows are full; where later ones are smaller, not to the first stream."""
    import panewise as pw

    engine = pw.Engine()
    names = [f"s{number}" for number in range(streams)]
    for name in names:
        engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, v BIGINT)")
    inputs = ", ".join(f"{name} [RANGE {RANGE_S} SECONDS INTERNAL]" for name in names)
    equal = " AND ".join(f"s0.k = {name}.k" for name in names[1:])
    values = ", ".join(f"{name}.v AS {name}" for name in names)
    engine.execute(f"CREATE QUERY q AS SELECT s0.k AS k, {values} FROM {inputs} WHERE {equal}")
    total = 0

    def play(begin: int, end: int, step: int) -> int:
        found = 0
        for first in range(begin, end, step):
            for number, name in enumerate(names):
                if (number, first) in batches:
                    engine.push(name, batches[number, first])
                else:
                    engine.advance(name, first * 1000)
            found += engine.results("q").num_rows
        return found

    end = warm_up + rounds * push
    early = range(0 if push == PUSH else 1, streams)
    batches = {(n, first): rows_of(n, first, PUSH, keys) for n in early for first in range(0, warm_up, PUSH)}
    batches |= {
        (n, first): rows_of(n, first, push, keys) for n in range(streams) for first in range(warm_up, end, push)
    }
    total += play(0, warm_up, PUSH)
    taken: list[Timing] = []
    timing, results = timed(lambda: play(warm_up, end, push))
    taken.append(timing)
    total += results
    state = engine.hosting.consumers["q"].bytes_held
    for name in names:
        engine.advance(name, end * 1000)
    total += engine.results("q").num_rows
    rows, seconds = streams * rounds * push, median_cpu(taken)
    return {
        "row": {
            "rows": rows,
            "seconds": seconds,
            "rows/s": rows / seconds,
            "results": results,
            "results/s": results / seconds,
            "state MiB": state / (1 << 20),
            "clock/CPU": median_clock(taken) / seconds,
            "agrees": total == pairs(batches, streams),
        }
    }


def pairs(batches: dict[tuple[int, int], pa.RecordBatch], streams: int) -> int:
    """How many results there are, by DuckDB: all rows of a result lie within the range."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        for number in range(streams):
            parts = [batch for (stream, _), batch in sorted(batches.items()) if stream == number]
            connection.register(f"s{number}", pa.Table.from_batches(parts).select(["k", "v"]))
        tables = ", ".join(f"s{number}" for number in range(streams))
        equal = [f"s0.k = s{number}.k" for number in range(1, streams)]
        near = [
            f"abs(s{one}.v - s{other}.v) < {RANGE_S * 1000}"
            for one in range(streams)
            for other in range(one + 1, streams)
        ]
        return int(connection.sql(f"SELECT count(*) FROM {tables} WHERE {' AND '.join(equal + near)}").fetchall()[0][0])
