"""One row at a time: each push is a single dict, as a program writes it that gets its rows one by one.

The rows are made before the clock starts. Results are fetched at the end, or every thousand pushes, or come to a
subscriber; the sum over all results is compared with the sum of the rows (the windows tumble, so each row counts once).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bench.measure import (
    MEBIBYTE,
    Timing,
    forget_peak,
    isolated,
    median_clock,
    median_cpu,
    peak_bytes,
    resident_bytes,
    timed,
)
from bench.report import Aim, Report

ROWS = 300_000
ROWS_PER_S_WANTED = 100_000
ROWS_PER_FETCH = 1000
ROW_STEP_MS = 1
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
STATEMENTS = """
    CREATE STREAM s (ts TIMESTAMP, k STRING, v DOUBLE, n BIGINT);
    CREATE QUERY q AS SELECT k, SUM(v) AS total, MAX(v) AS most, COUNT(*) AS rows
      FROM s [RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY k;
"""
FORMS = ("dict, datetime", "dict, microseconds", "list of one dict")
FETCHES = ("at the end", f"every {ROWS_PER_FETCH} rows", "by a subscriber")


def run(quick: bool) -> Report:
    count, repeat = (20_000, 1) if quick else (ROWS, 3)
    report = Report(
        "one_row",
        f"one_row: {count:,} rows {ROW_STEP_MS} ms apart, one a push, 100 groups by a STRING, one core",
        ("push", "results", "rows/s", "clock/CPU", "peak MiB", "agrees"),
    )
    cases = [(form, FETCHES[0]) for form in FORMS] + [(FORMS[0], fetch) for fetch in FETCHES[1:]]
    for form, fetch in cases:
        # A subscriber is called by the push that completes a window, so nothing can wait: fewer rows say enough.
        rows = count // 10 if fetch == "by a subscriber" else count
        figure = isolated(measure, form=form, fetch=fetch, count=rows, repeat=repeat)
        rows_per_s = rows / figure["seconds"]
        report.rows.append(
            {"push": form, "results": fetch, "rows/s": rows_per_s, "clock/CPU": figure["clock_s"] / figure["seconds"],
             "peak MiB": figure["peak_bytes"] / MEBIBYTE, "agrees": figure["agrees"]}
        )  # fmt: skip
        report.agree &= figure["agrees"]
        report.aims.append(Aim.at_least(f"{form}, results {fetch}", ROWS_PER_S_WANTED, rows_per_s, " rows/s"))
    return report


# -- in a process of its own -----------------------------------------------------------------------------------------


def rows_of(form: str, count: int) -> list[Any]:
    step = timedelta(milliseconds=ROW_STEP_MS)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    rows: list[Any] = []
    for i in range(count):
        time = BEGIN + i * step
        row = {"ts": time, "k": f"station-{i * 37 % 100:03}", "v": float(i % 1000), "n": i}
        if form == "dict, microseconds":
            row["ts"] = (time - epoch) // timedelta(microseconds=1)
        rows.append([row] if form == "list of one dict" else row)
    return rows


def session(rows: list[Any], fetch: str) -> Callable[[], list[Any]]:
    import panewise as pw

    engine = pw.Engine()
    engine.execute(STATEMENTS)
    results: list[Any] = []
    if fetch == "by a subscriber":
        engine.subscribe("q", results.append)

    def work() -> list[Any]:
        push = engine.push
        if fetch.startswith("every"):
            for i, row in enumerate(rows, 1):
                push("s", row)
                if i % ROWS_PER_FETCH == 0:
                    results.append(engine.results("q"))
        else:
            for row in rows:
                push("s", row)
        engine.flush()
        if fetch != "by a subscriber":
            results.append(engine.results("q"))
        return results

    return work


def measure(form: str, fetch: str, count: int, repeat: int) -> dict[str, Any]:
    rows = rows_of(form, count)
    session(rows[:3000], fetch)()
    before = resident_bytes()
    forget_peak()
    agrees = agree(session(rows, fetch)(), count)
    peak = peak_bytes() - before
    timings: list[Timing] = [timed(session(rows, fetch))[0] for _ in range(repeat)]
    return {"seconds": median_cpu(timings), "clock_s": median_clock(timings), "peak_bytes": peak, "agrees": agrees}


def agree(results: list[Any], count: int) -> bool:
    tables = [piece if isinstance(piece, pa.Table) else pa.Table.from_batches([piece]) for piece in results]
    table = pa.concat_tables(tables)
    total = sum(float(i % 1000) for i in range(count))
    found = pc.sum(table.column("total")).as_py()
    return bool(pc.sum(table.column("rows")).as_py() == count and abs(found - total) < 1e-9 * total)
