"""One-time queries over 5 million retained rows while another thread pushes: how long does a push have to wait?

A thread asks the same SELECT again and again; another one pushes batches of 1,024 rows at an even pace, and notes how
long each push takes. `isolation = 'serial'` is the yardstick: there every push waits until the SELECT that is running
has ended. Every answer is compared with the rows themselves at the watermark that it reports.

Rows come 100 microseconds apart, so that the window moves with every push that is processed.
"""

from __future__ import annotations

import statistics
import threading
import time
from typing import Any

import numpy as np
import pyarrow as pa

from bench.measure import isolated_on_all_cores
from bench.report import Aim, Report
from panewise.arrays import Ints

ROWS, ROWS_QUICK = 5_000_000, 1_000_000
STEP_US, GROUPS, PERIOD = 100, 100, 1 << 16
ROWS_PER_PUSH, PUSHES_PER_S = 1024, 100
SECONDS, SECONDS_QUICK = 6.0, 1.0
SHARE_WANTED = 0.5
TIME = pa.timestamp("us", tz="UTC")
STREAM = "CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT) WITH (retain = '1 hour')"
# A registered query makes every push be processed at once, as a subscriber would see to it.
QUERY = "CREATE QUERY q AS SELECT COUNT(*) AS n FROM s [RANGE 1 SECOND SLIDE 1 MILLISECOND]"


def groups_and_values(numbers: Ints) -> tuple[Ints, Ints]:
    """Of rows by their numbers: a mixture that repeats after PERIOD rows."""
    mixed = numbers % PERIOD * 40503 % 65521
    return mixed % GROUPS, mixed % 1009


def batch_of(first: int, count: int) -> pa.RecordBatch:
    numbers = np.arange(first, first + count, dtype=np.int64)
    groups, values = groups_and_values(numbers)
    times = pa.array(numbers * STEP_US).view(TIME)
    return pa.RecordBatch.from_arrays([times, pa.array(groups), pa.array(values)], ["ts", "k", "v"])


class Session:
    """An engine that holds `rows` rows, its writer (the caller's thread) and its reader."""

    def __init__(self, level: str, rows: int) -> None:
        import panewise as pw

        self.rows = rows
        self.engine = pw.Engine(isolation=level)
        self.engine.execute(STREAM)
        self.engine.execute(QUERY)
        self._pushed = 0
        while self._pushed < rows + ROWS_PER_PUSH:
            self._push(65_536)
        self.engine.subscribe("q", lambda batch: None)
        self.range_us = rows * STEP_US
        self.select = f"SELECT k, COUNT(*) AS n, SUM(v) AS s FROM s [RANGE {self.range_us} MICROSECONDS] GROUP BY k"
        self.answers: list[pa.Table] = []
        self.seconds: list[float] = []
        self._over = threading.Event()

    def run(self, seconds: float, read: bool) -> list[float]:
        """How long each push took."""
        self.engine.execute(self.select)  # loops are compiled
        reader = threading.Thread(target=self._read)
        if read:
            reader.start()
        waits: list[float] = []
        begun = time.perf_counter()
        while time.perf_counter() - begun < seconds:
            due = begun + len(waits) / PUSHES_PER_S
            time.sleep(max(due - time.perf_counter(), 0))
            since = time.perf_counter()
            self._push(ROWS_PER_PUSH)
            waits.append(time.perf_counter() - since)
        self._over.set()
        if read:
            reader.join()
        return waits

    def _push(self, count: int) -> None:
        self.engine.push("s", batch_of(self._pushed, count))
        self._pushed += count

    def _read(self) -> None:
        while not self._over.is_set():
            since = time.perf_counter()
            table = self.engine.execute(self.select)
            self.seconds.append(time.perf_counter() - since)
            assert table is not None
            self.answers.append(table)

    def agrees(self) -> bool:
        return all(self._is_right(table) for table in self.answers)

    def _is_right(self, table: pa.Table) -> bool:
        from panewise.engine.reads.published_answers import watermark_us

        watermark = watermark_us(table)
        assert watermark is not None
        first, last = -(-(watermark - self.range_us) // STEP_US), -(-watermark // STEP_US)
        groups, values = groups_and_values(np.arange(max(first, 0), last, dtype=np.int64))
        counts, totals = np.bincount(groups, minlength=GROUPS), np.bincount(groups, values, GROUPS)
        found = {row["k"]: (row["n"], row["s"]) for row in table.to_pylist()}
        return found == {k: (int(counts[k]), int(totals[k])) for k in range(GROUPS) if counts[k]}


def run(quick: bool) -> Report:
    rows = ROWS_QUICK if quick else ROWS
    report = Report(
        "one_time_reads",
        f"one_time_reads: SELECT over {rows:,} retained rows, {PUSHES_PER_S} pushes/s of {ROWS_PER_PUSH} meanwhile",
        ("isolation", "selects", "select ms", "push p50 ms", "push p99 ms", "push max ms", "aborted", "inside",
         "agrees"),
    )  # fmt: skip
    longest = {}
    for level in ("nobody reads", "serial", "window", "latest-in-order", "latest"):
        figures = isolated_on_all_cores(measure, level=level, quick=quick)
        report.rows.append({"isolation": level, **figures})
        report.agree &= figures["agrees"]
        longest[level] = figures["push max ms"]
    share = longest["latest"] / longest["serial"]
    report.aims.append(Aim.at_most("longest push, latest / serial", SHARE_WANTED, share))
    report.notes.append("select ms: median; inside: reads that scanned more than a little inside the turn")
    return report


def measure(level: str, quick: bool) -> dict[str, Any]:
    reads = level != "nobody reads"
    session = Session(level if reads else "latest", ROWS_QUICK if quick else ROWS)
    waits = sorted(session.run(SECONDS_QUICK if quick else SECONDS, reads))
    counts = session.engine.stats()["reads"]
    return {
        "selects": len(session.answers),
        "select ms": 1e3 * statistics.median(session.seconds) if reads else 0.0,
        "push p50 ms": 1e3 * waits[len(waits) // 2],
        "push p99 ms": 1e3 * waits[len(waits) * 99 // 100],
        "push max ms": 1e3 * waits[-1],
        "aborted": counts["aborted"],
        "inside": counts["inside_the_turn"],
        "agrees": session.agrees(),
    }
