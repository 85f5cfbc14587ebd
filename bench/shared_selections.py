"""Shared selections: queries that differ in WHERE or GROUP BY, folded in one pass, against each family for itself.

Two million rows 1 ms apart arrive in pushes of 65,536; windows slide by 1, 2, 5 or 10 s. Three engines run in turn,
each in a process of its own: `together` as it is, `by family` with what families have in common not used, `alone` with
nothing shared (`sharing = 'none'`). Registering is not counted; every result is fetched at the end, and the three must
say the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from bench import window_rows
from bench.measure import Setting, digest, in_turn, median_cpu, ratio
from bench.report import Report

ROWS, QUICK_ROWS = 2_000_000, 100_000
NEVER = 1 << 60
SLIDES = (1, 2, 5, 10)
STATIONS = 200


def _window(number: int) -> str:
    return f"[RANGE {10 + number % 7 * 10} SECONDS SLIDE {SLIDES[number % len(SLIDES)]} SECONDS]"


def _by_value(number: int) -> str:
    return f"SELECT MAX(v) AS m, COUNT(*) AS n FROM s {_window(number)} WHERE station = 's{number % STATIONS:03d}'"


def _by_threshold(number: int) -> str:
    return f"SELECT MAX(v) AS m, COUNT(*) AS n FROM s {_window(number)} WHERE v > {number % 20 * 500}"


def _by_threshold_and_group(number: int) -> str:
    where = f"WHERE v > {number % 10 * 1000}"
    return f"SELECT kind, MAX(v) AS m, SUM(v) AS n FROM s {_window(number)} {where} GROUP BY kind"


def _by_grouping(number: int) -> str:
    keys = ("kind, area", "kind", "area", "")[number % 4]
    listed, by = (f"{keys}, ", f" GROUP BY {keys}") if keys else ("", "")
    return f"SELECT {listed}MAX(v) AS m, SUM(v) AS n FROM s {_window(number)}{by}"


SETS: dict[str, tuple[int, Callable[[int], str]]] = {
    "100 stations, one each": (100, _by_value),
    "100 queries, 20 thresholds": (100, _by_threshold),
    "40 queries, 10 thresholds, by kind": (40, _by_threshold_and_group),
    "12 queries, 4 groupings": (12, _by_grouping),
}
ENGINES = ("together", "by family", "alone")


def run(quick: bool) -> Report:
    count = QUICK_ROWS if quick else ROWS
    report = Report(
        "shared_selections",
        f"shared_selections: {count:,} rows, MAX and COUNT or SUM, pushes of {window_rows.PUSH_ROWS:,}, one core",
        ("queries", "system", "families", "seconds", "rows/s", "results", "to by family", "to alone", "agrees"),
    )
    report.notes = ["seconds: median of processor seconds; to ...: median of rows/s against theirs, in runs in turn"]
    for name, (queries, _) in SETS.items():
        figure = measure(name, min(queries, 12) if quick else queries, count, repeat=1 if quick else 5)
        for system in ENGINES:
            seconds = figure[f"{system}_s"]
            report.rows.append(
                {"queries": name, "system": system, "families": figure["families"], "seconds": seconds,
                 "rows/s": count / seconds, "results": figure["results"]}
            )  # fmt: skip
        report.rows[-3] |= {
            "to by family": figure["to by family"],
            "to alone": figure["to alone"],
            "agrees": figure["agrees"],
        }
        report.agree = report.agree and figure["agrees"]
        report.rows[-1]["section"] = True
    return report


# -- in a process of its own -----------------------------------------------------------------------------------------


def rows(count: int) -> list[pa.RecordBatch]:
    chance = np.random.default_rng(7)
    stations = pa.array([f"s{number:03d}" for number in range(STATIONS)])
    table = pa.table(
        {
            "ts": pa.array(np.arange(count) * 1000 + 1_700_000_000_000_000, pa.timestamp("us", tz="UTC")),
            "station": stations.take(pa.array(chance.integers(0, STATIONS, count))),
            "kind": chance.integers(0, 8, count),
            "area": chance.integers(0, 20, count),
            "v": chance.integers(0, 10_000, count),
        }
    )
    batches: list[pa.RecordBatch] = table.combine_chunks().to_batches(max_chunksize=window_rows.PUSH_ROWS)
    return batches


def registered(name: str, queries: int, sharing: str) -> Any:
    import panewise as pw

    engine = pw.Engine(sharing=sharing)
    engine.execute("CREATE STREAM s (ts TIMESTAMP, station STRING, kind BIGINT, area BIGINT, v BIGINT)")
    for number in range(queries):
        engine.execute(f"CREATE QUERY q{number} AS {SETS[name][1](number)}")
    return engine


def setting_of(name: str, queries: int, count: int, system: str) -> Setting:
    """One of the three, after a run that compiles."""
    from panewise.operators.shared_fold import shared_fold

    pushes = rows(count)
    told: dict[str, Any] = {}
    if system != "together":
        shared_fold.ROWS_LEAST = NEVER

    def session() -> Callable[[], None]:
        engine = registered(name, queries, "none" if system == "alone" else "weave")

        def work() -> None:
            for batch in pushes:
                engine.push("s", batch)
            engine.flush()
            found = [engine.results(f"q{number}") for number in range(queries)]
            told["results"] = sum(table.num_rows for table in found)
            told["families"] = len(engine.hosting.families)
            told["answers"] = found

        return work

    session()()
    return Setting(session, {}, lambda: told | {"answers": digest(told["answers"])})


def measure(name: str, queries: int, count: int, repeat: int) -> dict[str, Any]:
    """The three in turn, each in a process of its own."""
    settings = {s: {"name": name, "queries": queries, "count": count, "system": s} for s in ENGINES}
    found = in_turn(setting_of, settings, repeat)
    together = found["together"]
    return {f"{system}_s": median_cpu(found[system].timings) for system in ENGINES} | {
        "families": found["by family"].told["families"],
        "results": together.told["results"],
        "agrees": all(side.told["answers"] == together.told["answers"] for side in found.values()),
        "to by family": ratio(found["by family"].timings, together.timings),
        "to alone": ratio(found["alone"].timings, together.timings),
    }
