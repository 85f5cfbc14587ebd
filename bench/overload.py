"""Overload: rows at twice the rate that the engine sustains, for a minute, with and without load shedding.

The sustainable rate is measured before each case, in a process of its own, by pushing as fast as the engine takes rows.
Then, in another process, one thread offers rows at twice that rate, by the clock, to a stream with a queue:

- without shedding it is slowed to what the engine sustains, no row is lost and the queue stays within its bound;
- with shedding (by the queue, or by `max_rate` at the sustainable rate) it is not slowed, taken and dropped rows add up
  to those pushed, and COUNT and SUM of every window lie within three standard errors of the truth. The standard error
  of a sum over independently taken rows is the root of the sum of (1 / p - 1) * x^2 over all rows.

Answers agree where all that holds; of windows, as many as three standard errors allow a normal error to miss.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pyarrow as pa

import panewise as pw
from bench.measure import isolated_on_all_cores
from bench.report import Aim, Report

PUSH_ROWS = 10_000
PUSHES_A_WINDOW = 20
WARM_UP_PUSHES = 3 * PUSHES_A_WINDOW
QUEUE_ROWS = 200_000
KEYS = 1000
SECONDS = 60
VALUES = 16  # different pushes, repeated
QUERIES = """
    CREATE QUERY totals AS SELECT COUNT(*) AS n, SUM(v) AS s FROM s [RANGE 1 SECOND SLIDE 1 SECOND];
    CREATE QUERY by_key AS SELECT k, COUNT(*) AS n, AVG(v) AS mean FROM s [RANGE 10 SECONDS SLIDE 1 SECOND] GROUP BY k;
    CREATE QUERY recent AS SELECT k, COUNT(*) AS n FROM s [PARTITION BY k ROWS 20 SLIDE 5] GROUP BY k;
"""
CASES = ("back-pressure", "shedding by the queue", "shedding by max_rate")


def run(quick: bool) -> Report:
    seconds = 3 if quick else SECONDS
    report = Report(
        "overload",
        f"overload: twice the sustainable rate for {seconds} s, pushes of {PUSH_ROWS:,} rows, queue of {QUEUE_ROWS:,}",
        ("case", "sustained rows/s", "offered rows/s", "accepted rows/s", "taken", "slowed", "queue most",
         "windows", "worst error", "within 3", "together", "agrees"),
    )  # fmt: skip
    for case in CASES:
        sustained = isolated_on_all_cores(sustainable, seconds=max(1.0, seconds / 20))["rows/s"]
        figure = isolated_on_all_cores(measure, case=case, seconds=seconds, sustained=sustained)
        report.rows.append(figure)
        report.agree &= figure["agrees"]
        if case == CASES[0]:
            report.aims.append(Aim.at_least("the pusher is slowed, by the factor", 1.5, figure["slowed"]))
        else:
            report.aims.append(Aim.at_most(f"{case}: the pusher is slowed, by the factor", 1.1, figure["slowed"]))
    report.notes.append("errors in standard errors of COUNT and SUM; of normal ones 0.3 % lie outside of three")
    report.notes.append(
        "together: the errors of all windows added up, in standard errors of that sum: a bias would show"
    )
    return report


def measure(case: str, seconds: float, sustained: float) -> dict[str, Any]:
    """One case, in this process."""
    options = [f"queue = {QUEUE_ROWS}"]
    if case != CASES[0]:
        options.append("shedding = 'random'")
    if case == CASES[2]:
        options.append(f"max_rate = {round(sustained)}")
    with_options = f"WITH ({', '.join(options)})"
    values = drawn()
    warmed_up(with_options, values)
    engine = engine_with(with_options)
    stream = engine.streams["s"]
    pushes = math.ceil(2 * sustained * seconds / PUSH_ROWS / PUSHES_A_WINDOW) * PUSHES_A_WINDOW
    shares = []
    began = time.perf_counter()
    for number in range(pushes):
        due = began + number * PUSH_ROWS / (2 * sustained)
        time.sleep(max(0.0, due - time.perf_counter()))
        engine.push("s", push_of(number, values))
        shares.append(1.0 if stream.judge.shedder is None else stream.judge.shedder.share)
    elapsed = time.perf_counter() - began
    engine.flush()
    errors = errors_of(engine.results("totals")[: pushes // PUSHES_A_WINDOW], values, shares)
    stats = engine.stats()["streams"]["s"]
    rows = pushes * PUSH_ROWS
    dropped = stats.get("shed_rows", 0)
    within = sum(abs(error) <= 3 for error in errors)
    together = [sum(some) / math.sqrt(len(some)) for some in (errors[::2], errors[1::2])]
    outside = 0.0027 * len(errors)  # of so many normal errors, and by chance some more
    allowed = 0 if case == CASES[0] else 1 + math.ceil(outside + 3 * math.sqrt(outside))
    whole = stats["rows"] == rows == stats.get("taken_rows", rows) + dropped and stats["late_rows"] == 0
    return {
        "case": case,
        "sustained rows/s": sustained,
        "offered rows/s": 2 * sustained,
        "accepted rows/s": rows / elapsed,
        "taken": (rows - dropped) / rows,
        "slowed": elapsed / (pushes * PUSH_ROWS / (2 * sustained)),
        "queue most": stats["queue"]["rows_most"],
        "windows": len(errors) // 2,
        "worst error": max(map(abs, errors)),
        "together": max(map(abs, together)),
        "within 3": within / len(errors),
        "agrees": whole
        and len(errors) == 2 * pushes // PUSHES_A_WINDOW
        and within >= len(errors) - allowed
        and stats["queue"]["rows_most"] <= QUEUE_ROWS + PUSH_ROWS,
    }


def engine_with(options: str) -> pw.Engine:
    engine = pw.Engine()
    engine.execute(f"CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT) {options}")
    engine.execute(QUERIES)
    return engine


def warmed_up(options: str, values: list[tuple[Any, Any]]) -> pw.Engine:
    """An engine that has processed WARM_UP_PUSHES pushes: its loops are compiled."""
    engine = engine_with(options)
    for number in range(WARM_UP_PUSHES):
        engine.push("s", push_of(number, values))
    engine.stats()
    return engine


def sustainable(seconds: float) -> dict[str, float]:
    """Rows a second that an engine without a queue takes, after it has been warmed up."""
    values = drawn()
    engine = warmed_up("", values)
    began, first = time.perf_counter(), WARM_UP_PUSHES
    number = first
    while time.perf_counter() - began < seconds:
        engine.push("s", push_of(number, values))
        number += 1
    engine.stats()
    return {"rows/s": (number - first) * PUSH_ROWS / (time.perf_counter() - began)}


def drawn() -> list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Keys and values of the pushes, the same in every process."""
    random = np.random.default_rng(5)
    return [(random.integers(0, KEYS, PUSH_ROWS), random.integers(-100, 1000, PUSH_ROWS)) for _ in range(VALUES)]


def push_of(number: int, values: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]) -> pa.RecordBatch:
    """One push: a twentieth of a second of event time."""
    keys, amounts = values[number % VALUES]
    step = 1_000_000 // PUSHES_A_WINDOW
    times = number * step + np.arange(PUSH_ROWS) * step // PUSH_ROWS
    return pa.record_batch({"ts": pa.array(times).cast(pa.timestamp("us", tz="UTC")), "k": keys, "v": amounts})


def errors_of(results: pa.Table, values: list[tuple[Any, Any]], shares: list[float]) -> list[float]:
    """Of each window the errors of COUNT and SUM in standard errors; infinite where an exact answer is wrong."""
    sums = [int(amounts.sum()) for _, amounts in values]
    squares = [int((amounts**2).sum()) for _, amounts in values]
    errors = []
    for window, result in enumerate(results.to_pylist()):
        numbers = range(window * PUSHES_A_WINDOW, (window + 1) * PUSHES_A_WINDOW)
        variance_count = sum((1 / shares[number] - 1) * PUSH_ROWS for number in numbers)
        variance_sum = sum((1 / shares[number] - 1) * squares[number % VALUES] for number in numbers)
        off_count = result["n"] - PUSHES_A_WINDOW * PUSH_ROWS
        off_sum = result["s"] - sum(sums[number % VALUES] for number in numbers)
        for off, variance in ((off_count, variance_count), (off_sum, variance_sum)):
            errors.append(off / math.sqrt(variance) if variance else math.inf if off else 0.0)
    return errors
