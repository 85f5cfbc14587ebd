"""Durability: an engine with a path against one without, beside what the disk can do by itself.

The same batches of 65,536 rows are pushed to an engine without a path and to one for each `sync`, in turn, and the
clock runs until the last push has returned and all results are fetched. In each round as many bytes as the log has are
also written by themselves, in blocks of a push, once with one sync at the end and once with a sync after each block:
the disk's own sequential speed, and the most that `sync = 'always'` can have.

A folder with many queries and few rows is closed and opened too: what a query costs there whatever its rows.

Judged is the default: it should run at half the speed of the engine without a path, or write its log at 0.7 of the
disk's speed where the disk is the slower one.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench import window_rows
from bench.measure import MEBIBYTE, isolated
from bench.report import ROOT, Aim, Report

ROWS = 6_000_000
QUERIES = 2_800
QUERY_ROWS = 101
SPEED_WANTED = 0.5
DISK_SPEED_WANTED = 0.7
RANGE_S = 60
SYNCS = ("batch", "always", "never")
MEANINGS = {"batch": "about once a second", "always": "every push", "never": "when the system likes"}


def run(quick: bool) -> Report:
    count, repeat = (400_000, 1) if quick else (ROWS, 5)
    figure = isolated(measure, count=count, repeat=repeat)
    report = Report(
        "durability",
        f"durability: {count:,} rows in pushes of {window_rows.PUSH_ROWS:,}, 24 bytes a row, SUM and MAX of 100 groups",
        ("engine", "sync", "seconds", "rows/s", "to none", "log MiB", "MiB/s", "to disk", "agrees"),
    )
    disk = figure["disk"]
    for name in ("none", *SYNCS):
        side = figure[name]
        report.rows.append(
            {"engine": "without a path" if name == "none" else f"sync = '{name}'", "sync": MEANINGS.get(name, ""),
             "seconds": side["seconds"], "rows/s": count / side["seconds"], "to none": side["to_none"],
             "log MiB": side["log_bytes"] / MEBIBYTE, "MiB/s": side["log_bytes"] / MEBIBYTE / side["seconds"],
             "to disk": side["to_disk"], "agrees": not side["disagreement"]}
        )  # fmt: skip
        report.agree &= not side["disagreement"]
    for name, what in (("disk", "one sync at the end"), ("disk, synced", "every push")):
        side = figure[name]
        report.rows.append(
            {"engine": "the disk alone", "sync": what, "seconds": side["seconds"], "log MiB": disk["bytes"] / MEBIBYTE,
             "MiB/s": disk["bytes"] / MEBIBYTE / side["seconds"], "to disk": side["to_disk"]}
        )  # fmt: skip
    default = figure["batch"]
    met = default["to_none"] >= SPEED_WANTED or default["to_disk"] >= DISK_SPEED_WANTED
    report.aims.append(
        Aim(
            "the default to the engine without a path, or its log to the disk's own speed",
            f">= {SPEED_WANTED} or >= {DISK_SPEED_WANTED}",
            f"{default['to_none']:.2f} and {default['to_disk']:.2f}",
            met,
        )
    )
    opening = (
        f"the folder that was not closed opens in {figure['replay_s']:.2f} s, by replay; close() then takes "
        f"{figure['close_s']:.2f} s, and after it the folder opens in {figure['reopen_s']:.2f} s"
    )
    queries = 100 if quick else QUERIES
    many = isolated(many_queries, queries=queries)
    of_queries = (
        f"{queries:,} queries, each with a WHERE of its own, and {QUERY_ROWS} rows: close() takes "
        f"{many['close_s']:.2f} s, the snapshot has {many['bytes'] / MEBIBYTE:.1f} MiB, and the folder opens in "
        f"{many['reopen_s']:.2f} s"
    )
    report.notes = [
        "seconds of the clock, medians; each round runs all sides in turn, and ratios are medians of a round's",
        opening,
        of_queries,
    ]
    return report


# -- in a process of its own -------------------------------------------------------------------------------------------


def session(pushes: list[pa.RecordBatch], folder: Path | None, sync: str) -> tuple[Any, list[pa.Table]]:
    import panewise as pw

    engine = pw.Engine() if folder is None else pw.Engine(folder, sync=sync)
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT, v DOUBLE)")
    window = f"[RANGE {RANGE_S} SECONDS SLIDE 1 SECOND]"
    engine.execute(f"CREATE QUERY q AS SELECT k, SUM(v) AS s, MAX(v) AS m FROM s {window} GROUP BY k")
    tables = []
    for batch in pushes:
        engine.push("s", batch)
        tables.append(engine.results("q"))
    engine.flush()
    tables.append(engine.results("q"))
    return engine, tables


def clocked(work: Callable[[], Any]) -> tuple[float, Any]:
    since = time.perf_counter()
    answer = work()
    return time.perf_counter() - since, answer


def disk_alone(folder: Path, block: bytes, blocks: int, every: bool) -> None:
    descriptor = os.open(folder / "disk", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    for _ in range(blocks):
        os.write(descriptor, block)
        if every:
            os.fdatasync(descriptor)
    os.fdatasync(descriptor)
    os.close(descriptor)
    (folder / "disk").unlink()


def measure(count: int, repeat: int) -> dict[str, Any]:
    pushes = window_rows.batches("BIGINT", count)
    session(pushes[:2], None, "batch")
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    seconds: dict[str, list[float]] = {}
    answer: dict[str, Any] = {name: {} for name in ("none", *SYNCS)}
    with tempfile.TemporaryDirectory(dir=build) as temporary:
        for _ in range(repeat):
            for name in ("none", *SYNCS):
                folder = None if name == "none" else Path(temporary) / name
                if folder is not None:
                    shutil.rmtree(folder, ignore_errors=True)
                taken, (engine, tables) = clocked(partial(session, pushes, folder, name))
                seconds.setdefault(name, []).append(taken)
                of_log = engine.stats().get("durability", {"log_bytes": 0})
                problem = window_rows.disagreement(pa.concat_tables(tables), count, RANGE_S)
                answer[name] = {"log_bytes": of_log["log_bytes"], "disagreement": problem}
                engine.close(snapshot=False)
                os.sync()  # what one side has left to the system is not paid for by the next
            # Of no pattern: some disks are fast with bytes that are all the same.
            block = os.urandom(answer["batch"]["log_bytes"] // len(pushes))
            for name, every in (("disk", False), ("disk, synced", True)):
                work = partial(disk_alone, Path(temporary), block, len(pushes), every)
                seconds.setdefault(name, []).append(clocked(work)[0])
        answer |= again(Path(temporary) / "batch")
    answer |= {name: {"bytes": len(block) * len(pushes)} for name in ("disk", "disk, synced")}
    for name, taken in seconds.items():
        answer[name]["seconds"] = statistics.median(taken)
        answer[name]["to_none"] = middle(seconds["none"], taken)
        # The logs differ by a few records only.
        answer[name]["to_disk"] = None if name == "none" else middle(seconds["disk"], taken)
    return answer


def middle(numerator: list[float], denominator: list[float]) -> float:
    return statistics.median(n / d for n, d in zip(numerator, denominator, strict=True))


def again(folder: Path) -> dict[str, float]:
    """What it takes to open the folder of an engine that was not closed, to close it, and to open it then."""
    import panewise as pw

    replay_s, engine = clocked(lambda: pw.Engine(folder))
    close_s, _ = clocked(engine.close)
    reopen_s, engine = clocked(lambda: pw.Engine(folder))
    engine.close(snapshot=False)
    return {"replay_s": replay_s, "close_s": close_s, "reopen_s": reopen_s}


def many_queries(queries: int) -> dict[str, float]:
    """The size of a snapshot of many queries that share little, and what it takes to write it and to go on from it."""
    import panewise as pw

    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build) as folder:
        engine = pw.Engine(folder)
        engine.execute("CREATE STREAM s (ts TIMESTAMP, k STRING, v BIGINT)")
        for i in range(queries):
            window = f"[RANGE {10 + i % 50} SECONDS SLIDE {1 + i % 5} SECONDS]"
            engine.execute(f"CREATE QUERY q{i} AS SELECT k, SUM(v) AS s FROM s {window} WHERE v > {i} GROUP BY k")
        engine.push("s", [{"ts": i * 1_000_000, "k": "ab"[i % 2], "v": i} for i in range(QUERY_ROWS)])
        close_s, _ = clocked(engine.close)
        reopen_s, engine = clocked(lambda: pw.Engine(folder))
        size = engine.stats()["durability"]["snapshot_bytes"]
        engine.close(snapshot=False)
    return {"close_s": close_s, "bytes": float(size), "reopen_s": reopen_s}
