"""Durability: an engine with a path against one without, beside what the disk can do by itself.

The same batches of 65,536 rows are pushed to an engine without a path and to one for each `sync`, in turn, each in a
process of its own, and the clock runs until the last push has returned and all results are fetched. In each round as
many bytes as the log has are also written by themselves, in blocks of a push, once with one sync at the end and once
with a sync after each block: the disk's own sequential speed, and the most that `sync = 'always'` can have.

A folder with many queries and few rows is closed and opened too: what a query costs there whatever its rows. Folders
are opened by processes that have done nothing else, as after a restart.

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
from bench.measure import MEBIBYTE, Setting, in_turn, isolated
from bench.report import ROOT, Aim, Report

ROWS = 6_000_000
QUERIES = 2_800
QUERY_ROWS = 101
SPEED_WANTED = 0.5
DISK_SPEED_WANTED = 0.7
RANGE_S = 60
SYNCS = ("batch", "always", "never")
ENGINES = ("none", *SYNCS)
DISKS = {"disk": False, "disk, synced": True}  # whether each block is synced
MEANINGS = {"batch": "about once a second", "always": "every push", "never": "when the system likes"}


def run(quick: bool) -> Report:
    count, repeat = (400_000, 1) if quick else (ROWS, 5)
    figure = measure(count, repeat)
    report = Report(
        "durability",
        f"durability: {count:,} rows in pushes of {window_rows.PUSH_ROWS:,}, 24 bytes a row, SUM and MAX of 100 groups",
        ("engine", "sync", "seconds", "rows/s", "to none", "log MiB", "MiB/s", "to disk", "agrees"),
    )
    disk = figure["disk"]
    for name in ENGINES:
        side = figure[name]
        report.rows.append(
            {"engine": "without a path" if name == "none" else f"sync = '{name}'", "sync": MEANINGS.get(name, ""),
             "seconds": side["seconds"], "rows/s": count / side["seconds"], "to none": side["to_none"],
             "log MiB": side["log_bytes"] / MEBIBYTE, "MiB/s": side["log_bytes"] / MEBIBYTE / side["seconds"],
             "to disk": side["to_disk"], "agrees": not side["disagreement"]}
        )  # fmt: skip
        report.agree &= not side["disagreement"]
    for name, what in zip(DISKS, ("one sync at the end", "every push"), strict=True):
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
    many = measure_queries(queries)
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


def measure(count: int, repeat: int) -> dict[str, Any]:
    """All sides in turn, each in a process of its own; then the folder of the default is opened, closed and opened."""
    with tempfile.TemporaryDirectory(dir=_build()) as place:
        given: dict[str, Any] = {"place": place, "count": count}
        block_bytes = isolated(log_bytes, **given)["bytes"] // -(-count // window_rows.PUSH_ROWS)
        settings = {name: given | {"side": name} for name in ENGINES}
        settings |= {name: given | {"side": name, "block_bytes": block_bytes} for name in DISKS}
        found = in_turn(setting_of, settings, repeat)
        folder = str(Path(place) / "batch")
        opened = isolated(open_and_close, folder=folder) | {"reopen_s": isolated(open_only, folder=folder)["open_s"]}
    seconds = {name: [timing.clock for timing in side.timings] for name, side in found.items()}
    answer: dict[str, Any] = {
        "replay_s": opened["open_s"],
        "close_s": opened["close_s"],
        "reopen_s": opened["reopen_s"],
    }
    for name, side in found.items():
        answer[name] = side.told | {
            "seconds": statistics.median(seconds[name]),
            "to_none": middle(seconds["none"], seconds[name]),
            # The logs differ by a few records only.
            "to_disk": None if name == "none" else middle(seconds["disk"], seconds[name]),
        }
    return answer


def measure_queries(queries: int) -> dict[str, float]:
    """The size of a snapshot of many queries that share little, and what it takes to write it and to go on from it."""
    with tempfile.TemporaryDirectory(dir=_build()) as folder:
        closed = isolated(close_many_queries, folder=folder, queries=queries)
        opened = isolated(open_only, folder=folder)
    return {"close_s": closed["close_s"], "bytes": opened["snapshot_bytes"], "reopen_s": opened["open_s"]}


def middle(numerator: list[float], denominator: list[float]) -> float:
    return statistics.median(n / d for n, d in zip(numerator, denominator, strict=True))


def _build() -> Path:
    """Beside the sources, and so on a disk, where the folder of temporary files may be memory."""
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    return build


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


def log_bytes(place: str, count: int) -> dict[str, int]:
    """How large the log of all pushes is."""
    engine, _ = session(window_rows.batches("BIGINT", count), Path(place) / "measured", "never")
    size = engine.stats()["durability"]["log_bytes"]
    engine.close(snapshot=False)
    return {"bytes": size}


def setting_of(side: str, place: str, count: int, block_bytes: int = 0) -> Setting:
    """An engine, or the disk alone."""
    pushes = window_rows.batches("BIGINT", count)
    if side in DISKS:
        # Of no pattern: some disks are fast with bytes that are all the same.
        block = os.urandom(block_bytes)
        work = partial(disk_alone, Path(place), block, len(pushes), DISKS[side])
        return Setting(lambda: work, {"bytes": block_bytes * len(pushes)})
    folder = None if side == "none" else Path(place) / side
    held: list[tuple[Any, list[pa.Table]]] = []
    told: dict[str, Any] = {"disagreement": ""}

    def begin() -> Callable[[], None]:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        return lambda: held.append(session(pushes, folder, side))

    def settle() -> None:
        engine, tables = held.pop()
        told["log_bytes"] = engine.stats().get("durability", {"log_bytes": 0})["log_bytes"]
        told["disagreement"] = told["disagreement"] or window_rows.disagreement(
            pa.concat_tables(tables), count, RANGE_S
        )
        engine.close(snapshot=False)
        os.sync()  # what one side has left to the system is not paid for by the next

    session(pushes[:2], folder, side)[0].close(snapshot=False)
    return Setting(begin, {}, lambda: told, settle)


def open_only(folder: str) -> dict[str, float]:
    """What it takes to open a folder, and how large its snapshot is."""
    import panewise as pw

    open_s, engine = clocked(lambda: pw.Engine(folder))
    size = engine.stats()["durability"]["snapshot_bytes"]
    engine.close(snapshot=False)
    return {"open_s": open_s, "snapshot_bytes": float(size)}


def open_and_close(folder: str) -> dict[str, float]:
    """What it takes to open a folder, and to close it with a snapshot."""
    import panewise as pw

    open_s, engine = clocked(lambda: pw.Engine(folder))
    close_s, _ = clocked(engine.close)
    return {"open_s": open_s, "close_s": close_s}


def close_many_queries(folder: str, queries: int) -> dict[str, float]:
    import panewise as pw

    engine = pw.Engine(folder)
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k STRING, v BIGINT)")
    for i in range(queries):
        window = f"[RANGE {10 + i % 50} SECONDS SLIDE {1 + i % 5} SECONDS]"
        engine.execute(f"CREATE QUERY q{i} AS SELECT k, SUM(v) AS s FROM s {window} WHERE v > {i} GROUP BY k")
    engine.push("s", [{"ts": i * 1_000_000, "k": "ab"[i % 2], "v": i} for i in range(QUERY_ROWS)])
    close_s, _ = clocked(engine.close)
    return {"close_s": close_s}
