"""A fresh process: range 60 s of `windows` where nothing else has run, against the same after range 300 s has run.

How fast a query runs must not depend on what else its process has run: what serves until a loop is compiled must lead
to its being compiled. Rows, pushes and the fetching after each push are those of `windows`. The two processes take
turns; before that both have run the range of 60 s a few times, the second one after as many runs of 300 s. Once they
have the user's compile cache, and once each has an empty one of its own, where no loop is on the disk.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench import floor, window_rows
from bench.measure import Setting, in_turn, median_clock, median_cpu, ratio
from bench.report import Aim, Report
from bench.windows import session, statements

RANGE_S, PAST_S = 60, 300
QUICK_ROWS = 200_000
WARM_UPS = 4  # runs; enough work without a loop for it to be compiled
RATIO_WANTED = 0.8  # about 1; a busy machine makes the difference
USERS, EMPTY = "the user's", "empty"
FRESH, AFTER = "fresh", f"after {PAST_S} s"


def run(quick: bool) -> Report:
    count, repeat = (QUICK_ROWS, 3) if quick else (floor.ROWS, 15)
    report = Report(
        "fresh_process",
        f"fresh_process: {count:,} rows, {floor.GROUPS} groups, SUM and MAX, range {RANGE_S} s, slide 1 s, "
        f"pushes of {window_rows.PUSH_ROWS:,}, one core",
        ("compile cache", "process", "rows/s", "fresh to after", "clock/CPU", "agrees"),
    )
    report.notes = [
        "rows/s: by the median of processor seconds; fresh to after: median ratio of rows/s of runs in turn"
    ]
    for cache in (USERS,) if quick else (USERS, EMPTY):
        figure = measure(cache, count, repeat)
        for name in (FRESH, AFTER):
            side = figure[name]
            report.rows.append(
                {"compile cache": cache, "process": name, "rows/s": count / side["seconds"],
                 "fresh to after": figure["ratio"] if name == FRESH else 1.0,
                 "clock/CPU": side["clock_s"] / side["seconds"], "agrees": not side["disagreement"]}
            )  # fmt: skip
            report.agree &= not side["disagreement"]
        report.rows[-1]["section"] = True
        what = f"range {RANGE_S} s, {cache} compile cache: rows/s in a fresh process to those {AFTER}"
        report.aims.append(Aim.at_least(what, RATIO_WANTED, figure["ratio"]))
    return report


def measure(cache: str, count: int, repeat: int) -> dict[str, Any]:
    """Both in turn, each in a process of its own."""
    settings = {FRESH: {"past": [], "count": count}, AFTER: {"past": [PAST_S], "count": count}}
    with tempfile.TemporaryDirectory() as folder:
        found = in_turn(setting_of, settings, repeat, Path(folder) if cache == EMPTY else None)
    answer: dict[str, Any] = {
        name: side.told | {"seconds": median_cpu(side.timings), "clock_s": median_clock(side.timings)}
        for name, side in found.items()
    }
    return answer | {"ratio": ratio(found[AFTER].timings, found[FRESH].timings)}


# -- in a process of its own -----------------------------------------------------------------------------------------


def setting_of(past: list[int], count: int) -> Setting:
    """The range that is judged, in a process that has run those of the past before."""
    pushes = window_rows.batches("BIGINT", count)
    tables: list[pa.Table] = []
    for range_s in (*past, RANGE_S):
        for _ in range(WARM_UPS):
            tables = session(statements("BIGINT", range_s), pushes)()
    told = {"disagreement": window_rows.disagreement(pa.concat_tables(tables), count, RANGE_S)}
    return Setting(lambda: session(statements("BIGINT", RANGE_S), pushes), told)
