"""Windows: SUM and MAX of 100 groups, slide 1 s, ranges of 1 to 300 s, in memory on one core.

Two million rows 1 ms apart arrive in pushes of 65,536, and after each push the results are fetched. Registering the
query is not counted; closing the last windows is. The engine and the floor run in turn in one process, for each range
another one that has run no other; the longest and the least range are compared by processes in turn. The peers get all
rows at once, in their own format, before the clock starts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from bench import floor, window_peers, window_rows
from bench.machine import peer_figure, version
from bench.measure import (
    MEBIBYTE,
    Setting,
    Timing,
    forget_peak,
    in_turn,
    interleaved,
    isolated,
    median_clock,
    median_cpu,
    peak_bytes,
    ratio,
    resident_bytes,
)
from bench.report import Aim, Report

RATIO_WANTED = {"BIGINT": 0.5, "STRING": 0.25, "STRING dictionary": 0.25}
SLOWDOWN_WANTED = 1.3
QUICK_ROWS = 200_000


def run(quick: bool) -> Report:
    count, repeat = (QUICK_ROWS, 3) if quick else (floor.ROWS, 15)
    report = Report(
        "windows",
        f"windows: {count:,} rows, {floor.GROUPS} groups, SUM and MAX, slide 1 s, "
        f"pushes of {window_rows.PUSH_ROWS:,}, one core",
        ("system", "key", "range s", "rows/s", "results/s", "of floor", "clock/CPU", "peak MiB", "agrees", "figure"),
    )
    figures: dict[tuple[str, int], dict[str, Any]] = {}
    for key_type in window_rows.KEY_TYPES:
        for range_s in window_rows.RANGES:
            figure = isolated(measure, key_type=key_type, range_s=range_s, count=count, repeat=repeat)
            figures[key_type, range_s] = figure
            _add_rows(report, figure, key_type, range_s, count)
            for peer in window_peers.PEERS:
                _add_peer(report, peer, figure["floor_s"], key_type, range_s, count, quick)
            report.rows[-1]["section"] = True
    report.notes = [
        "rows/s: by the median of processor seconds, registering not counted; of floor: median ratio of runs in turn",
        "peak MiB: growth of the resident memory from before the first push to its highest",
        "duckdb and polars answer one query over all rows at once, with one thread, from tables of their own",
    ]
    _add_aims(report, figures, {key_type: slowdown(key_type, count, repeat) for key_type in window_rows.KEY_TYPES})
    return report


def _add_rows(report: Report, figure: dict[str, Any], key_type: str, range_s: int, count: int) -> None:
    place = {"key": key_type, "range s": range_s}
    report.rows.append(
        place | {"system": "floor", "rows/s": count / figure["floor_s"],
                 "results/s": figure["results"] / figure["floor_s"], "of floor": 1.0,
                 "clock/CPU": figure["floor_clock_s"] / figure["floor_s"]}
    )  # fmt: skip
    report.rows.append(
        place | {"system": "panewise", "rows/s": count / figure["engine_s"],
                 "results/s": figure["results"] / figure["engine_s"], "of floor": figure["ratio"],
                 "clock/CPU": figure["engine_clock_s"] / figure["engine_s"],
                 "peak MiB": figure["peak_bytes"] / MEBIBYTE, "agrees": not figure["disagreement"]}
    )  # fmt: skip
    if figure["disagreement"]:
        report.agree = False
        report.notes.append(f"panewise, {key_type}, {range_s} s: {figure['disagreement']}")


def _add_peer(report: Report, peer: str, floor_s: float, key_type: str, range_s: int, count: int, quick: bool) -> None:
    place = {"system": peer, "key": key_type, "range s": range_s}
    if version(peer) is None:
        report.rows.append(place | {"figure": "not installed"})
        return
    parameters = {"peer": peer, "key_type": key_type, "range_s": range_s, "count": count, "repeat": 1 if quick else 3}
    scripts = [Path(str(module.__file__)) for module in (window_peers, window_rows, floor)]
    figure = peer_figure(peer, scripts, parameters, lambda: isolated(window_peers.measure, **parameters))
    report.rows.append(
        place | {"rows/s": count / figure["seconds"], "results/s": figure["results"] / figure["seconds"],
                 "of floor": floor_s / figure["seconds"], "clock/CPU": figure["clock_s"] / figure["seconds"],
                 "peak MiB": figure["peak_bytes"] / MEBIBYTE, "agrees": not figure["disagreement"],
                 "figure": "cached" if figure["cached"] else "measured"}
    )  # fmt: skip


def slowdown(key_type: str, count: int, repeat: int) -> float:
    """The time for the longest range to that for the least one."""
    least, longest = min(window_rows.RANGES), max(window_rows.RANGES)
    settings = {
        str(range_s): {"key_type": key_type, "range_s": range_s, "count": count} for range_s in (least, longest)
    }
    found = in_turn(setting_of, settings, repeat)
    return ratio(found[str(longest)].timings, found[str(least)].timings)


def _add_aims(report: Report, figures: dict[tuple[str, int], dict[str, Any]], slowdowns: dict[str, float]) -> None:
    for key_type, wanted in RATIO_WANTED.items():
        worst = min(window_rows.RANGES, key=lambda range_s: figures[key_type, range_s]["ratio"])
        what = f"{key_type}: part of the floor's rows/s, least of all ranges ({worst} s)"
        report.aims.append(Aim.at_least(what, wanted, figures[key_type, worst]["ratio"]))
    for key_type in window_rows.KEY_TYPES:
        what = f"{key_type}: time for range 300 s to time for 1 s, runs in turn"
        report.aims.append(Aim.at_most(what, SLOWDOWN_WANTED, slowdowns[key_type]))


# -- in a process of its own -----------------------------------------------------------------------------------------


def statements(key_type: str, range_s: int) -> str:
    return f"""
        CREATE STREAM s (ts TIMESTAMP, k {key_type.split()[0]}, v DOUBLE);
        CREATE QUERY q AS SELECT k, SUM(v) AS s, MAX(v) AS m
          FROM s [RANGE {range_s} SECONDS SLIDE 1 SECOND] GROUP BY k;
    """


def session(cql: str, pushes: list[pa.RecordBatch]) -> Any:
    """What is timed: all pushes, each followed by the fetching of its results, then the last windows."""
    import panewise as pw

    engine = pw.Engine()
    engine.execute(cql)

    def work() -> list[pa.Table]:
        tables = []
        for batch in pushes:
            engine.push("s", batch)
            tables.append(engine.results("q"))
        engine.flush()
        tables.append(engine.results("q"))
        return tables

    return work


def setting_of(key_type: str, range_s: int, count: int) -> Setting:
    cql, pushes = statements(key_type, range_s), window_rows.batches(key_type, count)
    session(cql, pushes)()  # compiled, or loaded from the compile cache
    return Setting(lambda: session(cql, pushes), {})


def measure(key_type: str, range_s: int, count: int, repeat: int) -> dict[str, Any]:
    """Runs of the engine and of the floor in turn; registered anew for each."""
    cql = statements(key_type, range_s)
    pushes = window_rows.batches(key_type, count)
    rows = floor.rows(count)
    floor.answer(*rows, range_s)
    session(cql, pushes[:2])()  # compiled, or loaded from the compile cache

    before = resident_bytes()
    forget_peak()
    tables = session(cql, pushes)()
    peak = peak_bytes() - before
    results = pa.concat_tables(tables)
    disagreement = window_rows.disagreement(results, count, range_s)
    expected = floor.answer(*rows, range_s)[0]
    if results.num_rows != expected:
        disagreement = disagreement or f"{results.num_rows} results, the floor has {expected}"
    del tables, results

    timings: dict[str, list[Timing]] = {"engine": [], "floor": []}
    for _ in range(repeat):
        works = {"engine": session(cql, pushes), "floor": lambda: floor.answer(*rows, range_s)}
        for name, taken in interleaved(works, 1).items():
            timings[name] += taken
    return {
        "results": expected,
        "engine_s": median_cpu(timings["engine"]),
        "engine_clock_s": median_clock(timings["engine"]),
        "floor_s": median_cpu(timings["floor"]),
        "floor_clock_s": median_clock(timings["floor"]),
        "ratio": ratio(timings["floor"], timings["engine"]),
        "peak_bytes": peak,
        "disagreement": disagreement,
    }
