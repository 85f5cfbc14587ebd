"""Many readers while rows arrive: eight threads at 250 lookups a second each, against a writer at full speed.

The writer pushes as fast as the engine takes rows, alone and with the readers, in turns, each run in a process of its
own; the ratio of its rows a second is the aim. Every answer of every reader is compared with the answer at the
watermark that it reports, computed from the rows themselves, and with what had been seen before the lookup began:
nobody may be shown an older state.

Rows come 20 microseconds apart in event time, out of order by up to 140, and the watermark waits for 200. Row number i
has a group and a value that follow from i, so that the oracle needs no copy of the stream.
"""

from __future__ import annotations

import statistics
import threading
import time
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from bench.measure import isolated_on_all_cores
from bench.report import Aim, Report
from panewise.arrays import Ints

READERS = 8
LOOKUPS_PER_S = 250
RATIO_WANTED = 0.8
FULL_SPEED_ROWS = 65_536  # a push; smaller ones are measured and promise nothing
STEP_US, DELAY_US, GROUPS, PERIOD = 20, 200, 100, 1 << 16
WARM_PUSHES = 20
STREAM = f"""CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT,
    WATERMARK FOR ts AS ts - INTERVAL {DELAY_US} MICROSECONDS)"""

TIME = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class Query:
    """A window in microseconds; `slide_us` None: continuous, for lookups only."""

    name: str
    range_us: int
    slide_us: int | None

    @property
    def statement(self) -> str:
        slide = "" if self.slide_us is None else f" SLIDE {self.slide_us} MICROSECONDS"
        mode = " WITH (mode = 'lookup')" if self.slide_us is None else ""
        window = f"[RANGE {self.range_us} MICROSECONDS{slide}]"
        return f"CREATE QUERY {self.name}{mode} AS SELECT k, SUM(v) AS total, COUNT(*) AS n FROM s {window} GROUP BY k"

    def expected(self, watermark: int) -> tuple[Ints, Ints]:
        """Sums and counts by group at a watermark, from the rows themselves."""
        end = watermark if self.slide_us is None else watermark - watermark % self.slide_us
        # Both kinds of window show [end - range, end): a continuous one is looked up a microsecond before.
        first, last = max(-(-(end - self.range_us) // STEP_US), 0), max(-(-end // STEP_US), 0)
        groups, values = groups_and_values(np.arange(first, last, dtype=np.int64))
        totals = np.bincount(groups, weights=values, minlength=GROUPS).astype(np.int64)
        return totals, np.bincount(groups, minlength=GROUPS).astype(np.int64)

    def agrees(self, table: pa.Table, watermark: int) -> bool:
        totals, counts = self.expected(watermark)
        found_totals, found_counts = np.zeros(GROUPS, np.int64), np.zeros(GROUPS, np.int64)
        groups = table.column("k").to_numpy()
        found_totals[groups], found_counts[groups] = table.column("total").to_numpy(), table.column("n").to_numpy()
        return len(groups) == np.count_nonzero(counts) and bool(
            np.array_equal(totals, found_totals) and np.array_equal(counts, found_counts)
        )


PERIODIC = Query("periodic", 1_000_000, 100_000)
UNEVEN = Query("uneven", 700_000, 300_000)
CONTINUOUS = Query("continuous", 500_000, None)


def groups_and_values(numbers: Ints) -> tuple[Ints, Ints]:
    """Of rows by their numbers: a mixture that repeats after PERIOD rows."""
    mixed = numbers % PERIOD * 40503 % 65521
    return mixed % GROUPS, mixed % 1009


def batch_of(first: int, count: int) -> pa.RecordBatch:
    """Rows `first` to `first + count`, both multiples of 8, a little out of order."""
    numbers = np.arange(first, first + count, dtype=np.int64) ^ 7
    groups, values = groups_and_values(numbers)
    times = pa.array(numbers * STEP_US).view(TIME)
    return pa.RecordBatch.from_arrays([times, pa.array(groups), pa.array(values)], ["ts", "k", "v"])


@dataclass
class Outcome:
    """What one session saw. `wrong`: what it should not have seen."""

    rows_per_s: float = 0.0
    seconds: float = 0.0
    cpu_s: float = 0.0  # of all threads
    latencies_s: list[float] = field(default_factory=list)
    answers: dict[tuple[str, int], pa.Table] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    @property
    def rows_per_cpu_s(self) -> float:
        return self.rows_per_s * self.seconds / self.cpu_s


@dataclass(frozen=True)
class Run:
    """What a process tells of its session."""

    rows_per_s: float
    rows_per_cpu_s: float
    seconds: float
    latencies_s: list[float]
    versions: int  # different states that readers saw
    wrong: list[str]


class Session:
    """An engine, its writer (the caller's thread) and its readers."""

    def __init__(self, queries: tuple[Query, ...], rows_per_push: int, idle: bool = False) -> None:
        """`idle`: the readers wake up as often, and ask for nothing."""
        import panewise as pw

        self.idle = idle
        self.queries = queries
        self.rows_per_push = rows_per_push
        self.engine = pw.Engine()
        self.engine.execute(STREAM)
        for query in queries:
            self.engine.execute(query.statement)
        self.outcome = Outcome()
        self._pushed = 0
        self._over = threading.Event()
        self._seen = -1  # the newest watermark that any reader has been shown
        self._seen_lock = threading.Lock()
        # Groups and values repeat, and are made once: a writer at full speed spends its time in the engine.
        assert PERIOD % rows_per_push == 0
        self._batches = [batch_of(first, rows_per_push) for first in range(0, PERIOD, rows_per_push)]

    def run(self, seconds: float, readers: int) -> Outcome:
        for _ in range(WARM_PUSHES):
            self._push()
        for query in self.queries:
            self.engine.lookup(query.name)
        threads = [threading.Thread(target=self._read, args=(i,)) for i in range(readers)]
        for thread in threads:
            thread.start()
        before, since, cpu = self._pushed, time.perf_counter(), time.process_time()
        while time.perf_counter() - since < seconds:
            self._push()
        outcome = self.outcome
        outcome.seconds, outcome.cpu_s = time.perf_counter() - since, time.process_time() - cpu
        outcome.rows_per_s = (self._pushed - before) / outcome.seconds
        self._over.set()
        for thread in threads:
            thread.join()
        self._judge()
        return outcome

    def _push(self) -> None:
        round_us = self._pushed // PERIOD * PERIOD * STEP_US
        batch = self._batches[self._pushed % PERIOD // self.rows_per_push]
        times = pa.array(batch.column(0).view(pa.int64()).to_numpy() + round_us).view(TIME)
        self.engine.push("s", pa.RecordBatch.from_arrays([times, *batch.columns[1:]], batch.schema.names))
        self._pushed += self.rows_per_push
        if self._pushed % (64 * self.rows_per_push) == 0:
            for query in self.queries:
                self.engine.results(query.name)

    def _read(self, number: int) -> None:
        from panewise.engine.reads.published_answers import watermark_us

        due = time.perf_counter() + number / (LOOKUPS_PER_S * READERS)
        turn = number
        while not self._over.is_set():
            time.sleep(max(due - time.perf_counter(), 0))
            if self.idle:
                due += 1 / LOOKUPS_PER_S
                continue
            query = self.queries[turn % len(self.queries)]
            seen, begun = self._seen, time.perf_counter()
            table = self.engine.lookup(query.name)
            self.outcome.latencies_s.append(time.perf_counter() - begun)
            watermark = watermark_us(table)
            if watermark is None or watermark < seen:
                self.outcome.wrong.append(f"{query.name} at {watermark} after {seen} had been shown")
                continue
            with self._seen_lock:
                self._seen = max(self._seen, watermark)
            known = self.outcome.answers.setdefault((query.name, watermark), table)
            if known is not table and not known.equals(table):
                self.outcome.wrong.append(f"{query.name} has two answers at {watermark}")
            turn += 1
            due = max(due + 1 / LOOKUPS_PER_S, time.perf_counter() - 1 / LOOKUPS_PER_S)

    def _judge(self) -> None:
        by_name = {query.name: query for query in self.queries}
        for (name, watermark), table in self.outcome.answers.items():
            if not by_name[name].agrees(table, watermark):
                self.outcome.wrong.append(f"{name} is wrong at {watermark}")
        newest = (self._pushed - 1) * STEP_US - DELAY_US
        for query in self.queries:  # nothing was lost, and the writer sees what it has written
            if not query.agrees(self.engine.lookup(query.name), newest):
                self.outcome.wrong.append(f"{query.name} is wrong at the end")


CASES = {
    "periodic": ((PERIODIC, UNEVEN), 65_536, 20.0),
    "periodic, continuous": ((PERIODIC, CONTINUOUS), 65_536, 5.0),
    "periodic, small pushes": ((PERIODIC,), 1024, 5.0),
}


def run(quick: bool) -> Report:
    report = Report(
        "concurrent_readers",
        f"concurrent_readers: {READERS} readers at {LOOKUPS_PER_S} lookups/s each against a writer at full speed",
        ("queries", "rows a push", "alone rows/s", "rows/s", "ratio", "idle ratio", "CPU ratio", "lookups/s", "p50 us",
         "p99 us", "max ms", "versions", "agrees"),
    )  # fmt: skip
    for name in CASES:
        figures = measure(name, quick)
        report.rows.append({"queries": name, "rows a push": CASES[name][1], **figures})
        report.agree &= figures["agrees"]
        if CASES[name][1] >= FULL_SPEED_ROWS:
            report.aims.append(Aim.at_least(f"{name}: writer with readers / alone", RATIO_WANTED, figures["ratio"]))
    report.notes.append("rows/s of the clock, medians of runs in turns; versions: different states that readers saw")
    report.notes.append("idle ratio: the same with readers that wake up as often and ask for nothing, the limit here")
    report.notes.append("CPU ratio: rows per second of the process's CPU time, in which the readers' own work counts")
    return report


def measure(case: str, quick: bool) -> dict[str, Any]:
    seconds, repeat = (0.5, 1) if quick else (CASES[case][2], 3)
    lasting = {"idle": min(seconds, 5.0), "alone": min(seconds, 5.0), "read": seconds}
    runs: dict[str, list[Run]] = {side: [] for side in lasting}
    for _ in range(repeat):
        for side, lasts in lasting.items():
            runs[side].append(Run(**isolated_on_all_cores(measure_side, case=case, side=side, seconds=lasts)))
    alone, read, idle = runs["alone"], runs["read"], runs["idle"]
    latencies = sorted(latency for run in read for latency in run.latencies_s)
    return {
        "alone rows/s": statistics.median(run.rows_per_s for run in alone),
        "rows/s": statistics.median(run.rows_per_s for run in read),
        "ratio": statistics.median(r.rows_per_s / a.rows_per_s for r, a in zip(read, alone, strict=True)),
        "idle ratio": statistics.median(i.rows_per_s / a.rows_per_s for i, a in zip(idle, alone, strict=True)),
        "CPU ratio": statistics.median(r.rows_per_cpu_s / a.rows_per_cpu_s for r, a in zip(read, alone, strict=True)),
        "lookups/s": len(latencies) / sum(run.seconds for run in read),
        "p50 us": 1e6 * latencies[len(latencies) // 2],
        "p99 us": 1e6 * latencies[len(latencies) * 99 // 100],
        "max ms": 1e3 * latencies[-1],
        "versions": sum(run.versions for run in read),
        "agrees": not any(run.wrong for run in read),
    }


def measure_side(case: str, side: str, seconds: float) -> dict[str, Any]:
    """One run in this process: the writer alone, with readers, or with readers that are idle."""
    queries, rows_per_push, _ = CASES[case]
    readers = 0 if side == "alone" else READERS
    for lasts in (0.2, seconds):  # the first one compiles
        outcome = Session(queries, rows_per_push, idle=side == "idle").run(lasts, readers)
    return asdict(
        Run(
            outcome.rows_per_s,
            outcome.rows_per_cpu_s,
            outcome.seconds,
            outcome.latencies_s,
            len({at for _, at in outcome.answers}),
            outcome.wrong,
        )
    )
