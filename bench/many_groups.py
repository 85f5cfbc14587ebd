"""Very many groups: who was seen more than 10,000 times within 24 hours, asked every minute.

Memory has to follow what is touched: a slice of a minute sees a few thousand of the million keys. The engine runs in a
process of its own, whose peak of resident memory is printed in full; making the rows is not counted. A sample of the
windows is counted again by NumPy from the same rows.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.measure import MEBIBYTE, isolated, peak_bytes, resident_bytes, timed
from bench.report import Aim, Report
from bench.zipf_rows import BEGIN_US, SPAN_US, ZipfRows

ROWS_PER_S_WANTED = 5_000_000
PEAK_MIB_WANTED = 4096
RANGE_US = 24 * 3600 * 1_000_000
SLIDE_US = 60 * 1_000_000
SAMPLED_WINDOWS = 48
COLUMNS = (
    *("rows/s", "results/s", "results", "seconds", "clock/CPU"),
    *("peak MiB", "before MiB", "state MiB", "windows checked", "agrees"),
)


def run(quick: bool) -> Report:
    rows = ZipfRows(300_000, 50_000) if quick else ZipfRows(20_000_000, 1_000_000)
    threshold = rows.count // 2000
    report = Report(
        "many_groups",
        f"many_groups: {rows.count:,} rows over 48 h, {rows.keys:,} STRING keys (Zipf, exponent 1), range 24 h, "
        f"slide 1 min, HAVING COUNT(*) > {threshold:,}, one core",
        COLUMNS,
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.parquet"
        figure = isolated(measure, count=rows.count, keys=rows.keys, threshold=threshold, path=str(path))
        problems = disagreements(pq.read_table(path), rows, threshold)
    rows_per_s = rows.count / figure["seconds"]
    report.rows.append(
        {"rows/s": rows_per_s, "results/s": figure["results"] / figure["seconds"], "results": figure["results"],
         "seconds": figure["seconds"], "clock/CPU": figure["clock_s"] / figure["seconds"],
         "peak MiB": figure["peak_bytes"] / MEBIBYTE, "before MiB": figure["before_bytes"] / MEBIBYTE,
         "state MiB": figure["state_bytes"] / MEBIBYTE, "windows checked": SAMPLED_WINDOWS, "agrees": not problems}
    )  # fmt: skip
    report.agree = not problems
    report.notes = [
        "peak MiB: the most resident memory of the process, Python and the generator of rows ('before') included",
        "state MiB: what stats() says of the tree, at its greatest",
        *problems[:5],
    ]
    report.aims = [
        Aim.at_least("rows of many groups", ROWS_PER_S_WANTED, rows_per_s, " rows/s"),
        Aim.at_most("peak of resident memory", PEAK_MIB_WANTED, figure["peak_bytes"] / MEBIBYTE, " MiB"),
    ]
    return report


def disagreements(results: pa.Table, rows: ZipfRows, threshold: int) -> list[str]:
    """The windows of a sample, counted again; empty where all agree."""
    cumulative = rows.cumulative()
    ranks = np.concatenate([rows.ranks(batch, cumulative).astype(np.int32) for batch in range(rows.batches)])
    names = rows.names().to_numpy(zero_copy_only=False)
    reports = (SPAN_US + RANGE_US) // SLIDE_US
    chosen = np.unique(np.linspace(1, reports, SAMPLED_WINDOWS).astype(np.int64))
    ends = results.column("window_end").cast(pa.int64())
    problems = []
    for number in chosen:
        end = BEGIN_US + int(number) * SLIDE_US
        counts = np.bincount(ranks[rows.rows_before(end - RANGE_US) : rows.rows_before(end)], minlength=rows.keys)
        often = np.flatnonzero(counts > threshold)
        expected = {str(names[rank]): int(counts[rank]) for rank in often}
        window = results.filter(pc.equal(ends, end))
        found = dict(zip(window.column("k").to_pylist(), window.column("n").to_pylist(), strict=True))
        if found != expected or window.num_rows != len(expected):
            problems.append(f"window {number}: {window.num_rows} results, {len(expected)} expected")
    return problems


# -- in a process of its own -----------------------------------------------------------------------------------------


def measure(count: int, keys: int, threshold: int, path: str) -> dict[str, Any]:
    import panewise as pw

    rows = ZipfRows(count, keys)
    cumulative, names = rows.cumulative(), rows.names()
    warm_up(threshold)
    engine = pw.Engine()
    engine.execute(statements(threshold))
    before = resident_bytes()
    seconds = clock_s = 0.0
    state = results = 0
    writer = None
    for number in range(rows.batches + 1):
        last = number == rows.batches
        batch = None if last else _batch(rows, number, cumulative, names)

        def work(batch: pa.RecordBatch | None = batch) -> pa.Table:
            if batch is None:
                engine.flush()
            else:
                engine.push("s", batch)
            return engine.results("q")

        timing, table = timed(work)
        seconds, clock_s = seconds + timing.cpu, clock_s + timing.clock
        results += table.num_rows
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
        if number % 20 == 0:
            state = max(state, sum(tree["bytes"] for tree in engine.stats()["trees"]))
    assert writer is not None
    writer.close()
    return {
        "seconds": seconds,
        "clock_s": clock_s,
        "results": results,
        "peak_bytes": peak_bytes(),
        "before_bytes": before,
        "state_bytes": state,
    }


def statements(threshold: int) -> str:
    return f"""
        CREATE STREAM s (ts TIMESTAMP, k STRING);
        CREATE QUERY q AS SELECT k, COUNT(*) AS n FROM s [RANGE 24 HOURS SLIDE 1 MINUTE]
          GROUP BY k HAVING COUNT(*) > {threshold};
    """


def warm_up(threshold: int) -> None:
    """A small load of the same shape, with more groups than stay dense: all is compiled before the clock starts."""
    import panewise as pw

    rows = ZipfRows(100_000, 20_000)
    engine = pw.Engine()
    engine.execute(statements(threshold))
    cumulative, names = rows.cumulative(), rows.names()
    for number in range(rows.batches):
        engine.push("s", _batch(rows, number, cumulative, names))
    engine.flush()
    engine.results("q")


def _batch(rows: ZipfRows, number: int, cumulative: Any, names: pa.Array) -> pa.RecordBatch:
    times = pa.array(rows.times(number)).view(pa.timestamp("us", "UTC"))
    return pa.RecordBatch.from_arrays([times, names.take(pa.array(rows.ranks(number, cumulative)))], names=["ts", "k"])
