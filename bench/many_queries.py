"""Many queries: a hundred that share a tree, against one.

A hundred queries have a hundred times as many results, and those are worth their price; what must not multiply is the
reading, grouping and folding of rows. So the cost is judged net of results: the hundred slide a hundred times more
slowly than the one, so that both give about the same number of results in all, and the figure is the ratio of the plain
times. What the hundred cost on top, their own batches and bookkeeping, is in it.

Beside it, not judged, stands a mixture of windows with 26 times as many results, once with all of them and once with a
HAVING that lets none through: what is left then is everything up to the answers.
"""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

from bench import floor, window_rows
from bench.measure import (
    MEBIBYTE,
    Setting,
    forget_peak,
    in_turn,
    median_clock,
    median_cpu,
    peak_bytes,
    ratio,
    resident_bytes,
)
from bench.report import Aim, Report

QUERIES = 100
RATIO_WANTED = 3.0

Window = tuple[int, int]  # range and slide in seconds


def run(quick: bool) -> Report:
    count, repeat = (200_000, 1) if quick else (floor.ROWS, 7)
    report = Report(
        "many_queries",
        f"many_queries: {count:,} rows, {floor.GROUPS} groups by a BIGINT, SUM and MAX, one core",
        (
            "windows",
            "queries",
            "seconds",
            "rows/s",
            "results",
            "results/s",
            "to one",
            "trees",
            "clock/CPU",
            "peak MiB",
            "agrees",
        ),
    )
    for name, one, hundred, having in cases():
        figure = measure(one, hundred, having, count, repeat)
        for queries, part in ((1, "one"), (QUERIES, "hundred")):
            side = figure[part]
            report.rows.append(
                {"windows": name, "queries": queries, "seconds": side["seconds"], "rows/s": count / side["seconds"],
                 "results": side["results"], "results/s": side["results"] / side["seconds"],
                 "to one": figure["ratio"] if queries > 1 else 1.0, "trees": side["trees"],
                 "clock/CPU": side["clock_s"] / side["seconds"], "peak MiB": side["peak_bytes"] / MEBIBYTE,
                 "agrees": not side["disagreement"]}
            )  # fmt: skip
            report.agree &= not side["disagreement"]
        report.rows[-1]["section"] = True
        if name == "equal results":
            report.aims.append(Aim.at_most(f"{QUERIES} queries to one, {name}", RATIO_WANTED, figure["ratio"]))
    report.notes = [
        "equal results: the hundred slide a hundred times more slowly, so that the results are about as many",
        "mixed, unreported: slides of 1 to 60 s, ranges of 1 to 60 slides; HAVING lets no result through",
    ]
    return report


def cases() -> list[tuple[str, list[Window], list[Window], bool]]:
    """Name, the one query's window, the hundred's windows, whether HAVING drops every result."""
    draw = random.Random(7)
    slow = [(draw.randint(1, 300), draw.randint(80, 130)) for _ in range(QUERIES)]
    slides = [draw.choice([1, 2, 5, 10, 20, 30, 60]) for _ in range(QUERIES)]
    mixed = [(slide * draw.randint(1, 60), slide) for slide in slides]
    return [
        ("equal results", [(150, 1)], slow, False),
        ("mixed, unreported", [(150, 1)], mixed, True),
        ("mixed, with results", [(150, 1)], mixed, False),
    ]


# -- in a process of its own -----------------------------------------------------------------------------------------


def session(windows: list[Window], having: bool, pushes: list[pa.RecordBatch]) -> Any:
    import panewise as pw

    engine = pw.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT, v DOUBLE)")
    for number, (range_s, slide_s) in enumerate(windows):
        engine.execute(
            f"CREATE QUERY q{number} AS SELECT k, SUM(v) AS s, MAX(v) AS m"
            f" FROM s [RANGE {range_s} SECONDS SLIDE {slide_s} SECONDS] GROUP BY k"
            + (" HAVING COUNT(*) < 0" if having else "")
        )
    names = [f"q{number}" for number in range(len(windows))]

    def work() -> tuple[Any, list[list[pa.Table]]]:
        tables: list[list[pa.Table]] = [[] for _ in names]
        for batch in pushes:
            engine.push("s", batch)
            for name, held in zip(names, tables, strict=True):
                held.append(engine.results(name))
        engine.flush()
        for name, held in zip(names, tables, strict=True):
            held.append(engine.results(name))
        return engine, tables

    return work


def setting_of(windows: list[Window], having: bool, count: int) -> Setting:
    pushes = window_rows.batches("BIGINT", count)
    session(windows, having, pushes[:2])()
    before = resident_bytes()
    forget_peak()
    engine, tables = session(windows, having, pushes)()
    told = {
        "peak_bytes": peak_bytes() - before,
        "results": sum(table.num_rows for held in tables for table in held),
        "trees": len(engine.stats()["trees"]),
        "disagreement": disagreement(tables, windows, having, count),
    }
    return Setting(lambda: session(windows, having, pushes), told)


def measure(one: list[Window], hundred: list[Window], having: bool, count: int, repeat: int) -> dict[str, Any]:
    """The one query and the hundred in turn, each side in a process of its own."""
    sides = {"one": one, "hundred": hundred}
    settings = {name: {"windows": windows, "having": having, "count": count} for name, windows in sides.items()}
    found = in_turn(setting_of, settings, repeat)
    answer: dict[str, Any] = {
        name: side.told | {"seconds": median_cpu(side.timings), "clock_s": median_clock(side.timings)}
        for name, side in found.items()
    }
    return answer | {"ratio": ratio(found["hundred"].timings, found["one"].timings)}


def disagreement(tables: list[list[pa.Table]], windows: list[Window], having: bool, count: int) -> str:
    """Compares some of the queries with NumPy's answers."""
    if having:
        return "" if not sum(table.num_rows for held in tables for table in held) else "results that HAVING excludes"
    for number in range(0, len(windows), 9):
        range_s, slide_s = (int(part) for part in windows[number])
        problem = window_rows.disagreement(pa.concat_tables(tables[number]), count, range_s, slide_s)
        if problem:
            return f"query {number}: {problem}"
    return ""
