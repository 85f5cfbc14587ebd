"""Shared queries: 1 to 10,000 MAX queries over the same rows, against the floor, in memory on one core.

Two million rows 1 ms apart arrive in pushes of 65,536. Without grouping the results of every query are fetched once,
after the last push and the closing of the last windows; a window without a row is no result, which HAVING sees to. With
100 groups there are a hundred times as many results, so they are consumed as they appear: those of every query after
every push. Registering is not counted, fetching is, a call of `results` for each query. The engine and the floor run in
turn in one process. The peers answer the first ten queries each alone, from all rows at once, and Q queries are
taken to cost them Q times the mean: they share nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench import floor, floor_of_queries, query_peers, window_rows
from bench.floor_of_queries import Window
from bench.machine import peer_figure, version
from bench.measure import Timing, interleaved, isolated, median_clock, median_cpu, ratio
from bench.report import Aim, Report

QUERIES = (1, 10, 100, 1_000, 10_000)
QUERIES_BY_GROUP = (1, 10, 100, 1_000)
QUICK_QUERIES, QUICK_QUERIES_BY_GROUP = (1, 10, 100), (1, 10)
QUICK_ROWS = 200_000
RATIOS_WANTED = {1_000: 1 / 3, 10_000: 1.0}
STATE_WANTED = 2.0  # at the most queries, to that at the fewest of these
STATE_OF = (10, 10_000)
PEERS_ASKED = 10  # queries that a peer answers
KIBIBYTE = 1 << 10
SUM_TOLERANCE = 1e-9
SAMPLED_EVERY = 97  # queries with groups, all of whose results are compared

Consumer = Callable[[int, pa.Table], None]


def run(quick: bool) -> Report:
    count = QUICK_ROWS if quick else floor.ROWS
    report = Report(
        "shared_queries",
        f"shared_queries: {count:,} rows, MAX, slides of 1 to 60 s, ranges of 1 to 60 slides, "
        f"pushes of {window_rows.PUSH_ROWS:,}, one core",
        (
            *("system", "groups", "queries", "seconds", "rows/s", "results", "results/s", "of floor"),
            *("trees", "state KiB", "clock/CPU", "agrees", "figure"),
        ),
    )
    report.notes = [
        "seconds: median of processor seconds, registering not counted; of floor: median ratio of runs in turn",
        "trees: of the weave, at the end; state KiB: what stats() says of all trees after the last push",
        f"duckdb and polars answer {PEERS_ASKED} queries, each alone over all rows; their times are scaled by query",
    ]
    figures = {}
    for grouped, sizes in (
        (False, QUICK_QUERIES if quick else QUERIES),
        (True, QUICK_QUERIES_BY_GROUP if quick else QUERIES_BY_GROUP),
    ):
        peers = {peer: _peer(peer, grouped, count, quick) for peer in query_peers.PEERS}
        for queries in sizes:
            figure = isolated(measure, queries=queries, grouped=grouped, count=count, repeat=_repeat(queries, quick))
            figures[grouped, queries] = figure
            _add(report, figure, grouped, queries, count)
            for peer, of_peer in peers.items():
                _add_peer(report, peer, of_peer, figure["floor_s"], grouped, queries, count)
            report.rows[-1]["section"] = True
    _add_aims(report, figures)
    return report


def _repeat(queries: int, quick: bool) -> int:
    """Fewer runs of very many queries, which have to be registered before each."""
    return 1 if quick else 5 if queries >= 1_000 else 9


def _peer(peer: str, grouped: bool, count: int, quick: bool) -> dict[str, Any] | None:
    """None where it is not installed."""
    if version(peer) is None:
        return None
    parameters = {"peer": peer, "queries": PEERS_ASKED, "grouped": grouped, "count": count, "repeat": 1 if quick else 3}
    scripts = [Path(str(module.__file__)) for module in (query_peers, floor_of_queries, window_rows, floor)]
    return peer_figure(peer, scripts, parameters, lambda: isolated(query_peers.measure, **parameters))


def _add(report: Report, figure: dict[str, Any], grouped: bool, queries: int, count: int) -> None:
    place = {"groups": floor.GROUPS if grouped else 1, "queries": queries, "results": figure["results"]}
    for system, name in (("floor", "floor"), ("panewise", "engine")):
        seconds = figure[f"{name}_s"]
        report.rows.append(
            place | {"system": system, "seconds": seconds, "rows/s": count / seconds,
                     "results/s": figure["results"] / seconds, "of floor": 1.0,
                     "clock/CPU": figure[f"{name}_clock_s"] / seconds}
        )  # fmt: skip
    report.rows[-1] |= {
        "of floor": figure["ratio"],
        "trees": figure["trees"],
        "state KiB": figure["state_bytes"] / KIBIBYTE,
        "agrees": not figure["disagreement"],
    }
    if figure["disagreement"]:
        report.agree = False
        report.notes.append(f"panewise, {queries} queries, grouped {grouped}: {figure['disagreement']}")


def _add_peer(
    report: Report, peer: str, figure: dict[str, Any] | None, floor_s: float, grouped: bool, queries: int, count: int
) -> None:
    place = {"system": peer, "groups": floor.GROUPS if grouped else 1, "queries": queries}
    if figure is None:
        report.rows.append(place | {"figure": "not installed"})
        return
    seconds = figure["seconds"] / PEERS_ASKED * queries
    measured = "cached" if figure["cached"] else "measured"
    report.rows.append(
        place | {"seconds": seconds, "rows/s": count / seconds, "results/s": figure["results"] / figure["seconds"],
                 "of floor": floor_s / seconds, "clock/CPU": figure["clock_s"] / figure["seconds"],
                 "agrees": not figure["disagreement"], "figure": f"{measured}, scaled"}
    )  # fmt: skip
    if figure["disagreement"]:
        report.agree = False
        report.notes.append(f"{peer}, grouped {grouped}: {figure['disagreement']}")


def _add_aims(report: Report, figures: dict[tuple[bool, int], dict[str, Any]]) -> None:
    for queries, wanted in RATIOS_WANTED.items():
        if (False, queries) in figures:
            what = f"{queries:,} queries without groups: part of the floor's rows/s"
            report.aims.append(Aim.at_least(what, wanted, figures[False, queries]["ratio"]))
    few, many = STATE_OF
    if (False, many) in figures:
        grown = figures[False, many]["state_bytes"] / figures[False, few]["state_bytes"]
        report.aims.append(Aim.at_most(f"state of {many:,} queries to that of {few}", STATE_WANTED, grown))


# -- in a process of its own -----------------------------------------------------------------------------------------


def registered(windows: list[Window], grouped: bool) -> Any:
    """An engine that has all queries."""
    import panewise as pw

    engine = pw.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT, v DOUBLE)")
    for number, (range_s, slide_s) in enumerate(windows):
        window = f"FROM s [RANGE {range_s} SECONDS SLIDE {slide_s} SECONDS]"
        engine.execute(
            f"CREATE QUERY q{number} AS SELECT k, MAX(v) AS m {window} GROUP BY k"
            if grouped
            else f"CREATE QUERY q{number} AS SELECT MAX(v) AS m {window} HAVING COUNT(*) > 0"
        )
    return engine


def session(
    engine: Any,
    queries: int,
    grouped: bool,
    pushes: list[pa.RecordBatch],
    consume: Consumer,
    after_last: Callable[[], None] | None = None,
) -> Callable[[], None]:
    """What is timed: all pushes, the closing of the last windows, and the fetching of every result.

    `after_last` is called between the last push and the closing, when there is most state.
    """
    names = [f"q{number}" for number in range(queries)]

    def fetch() -> None:
        for number, name in enumerate(names):
            consume(number, engine.results(name))

    def work() -> None:
        for batch in pushes:
            engine.push("s", batch)
            if grouped:
                fetch()
        if after_last is not None:
            after_last()
        engine.flush()
        fetch()

    return work


def measure(queries: int, grouped: bool, count: int, repeat: int) -> dict[str, Any]:
    """A run whose answers are compared, which also compiles; then runs of the engine and the floor in turn."""
    windows = floor_of_queries.queries(queries)
    pushes = window_rows.batches("BIGINT", count)
    times, keys, values = floor.rows(count)

    def by_hand() -> tuple[int, float]:
        if grouped:
            return floor_of_queries.answer_by_group(times, keys, values, windows)
        return floor_of_queries.answer(times, values, windows)

    answer = compared(windows, grouped, count, pushes, *by_hand())
    timings: dict[str, list[Timing]] = {"engine": [], "floor": []}
    for _ in range(repeat):
        consumed: list[pa.Table] = []

        def consume(number: int, table: pa.Table, held: list[pa.Table] = consumed) -> None:
            if not grouped:
                held.append(table)

        works = {
            "engine": session(registered(windows, grouped), queries, grouped, pushes, consume),
            "floor": by_hand,
        }
        for name, taken in interleaved(works, 1).items():
            timings[name] += taken
    return answer | {
        "engine_s": median_cpu(timings["engine"]),
        "engine_clock_s": median_clock(timings["engine"]),
        "floor_s": median_cpu(timings["floor"]),
        "floor_clock_s": median_clock(timings["floor"]),
        "ratio": ratio(timings["floor"], timings["engine"]),
    }


def compared(
    windows: list[Window], grouped: bool, count: int, pushes: list[pa.RecordBatch], results: int, total_maximum: float
) -> dict[str, Any]:
    """A run that is not timed, given the floor's number of results and sum of maxima: what it says and holds."""
    comparison = Comparison(windows, grouped, count)
    engine = registered(windows, grouped)
    state_bytes = 0

    def look() -> None:
        nonlocal state_bytes
        state_bytes = sum(tree["bytes"] for tree in engine.stats()["trees"])

    session(engine, len(windows), grouped, pushes, comparison.take, look)()
    return {
        "results": comparison.results,
        "trees": engine.sharing_report().tree_count,
        "state_bytes": state_bytes,
        "disagreement": comparison.disagreement(results, total_maximum),
    }


class Comparison:
    """The results of all queries are counted and added up; each, or with groups those of a sample, is compared."""

    def __init__(self, windows: list[Window], grouped: bool, count: int) -> None:
        times, keys, values = floor.rows(count)
        self._cells = floor_of_queries.seconds_maxima(times, keys if grouped else np.zeros_like(keys), values)
        self._windows = windows
        self._every = SAMPLED_EVERY if grouped else 1
        self._held: dict[int, list[pa.Table]] = {}
        self._sums: list[float] = []
        self.results = 0

    def take(self, number: int, table: pa.Table) -> None:
        self.results += table.num_rows
        self._sums.append(pc.sum(table.column("m")).as_py() or 0.0)
        if number % self._every == 0:
            self._held.setdefault(number, []).append(table)

    def disagreement(self, results: int, total_maximum: float) -> str:
        """What is wrong, given the number of the floor's results and the sum of their maxima; empty where nothing is.

        Every maximum that is compared must be the same number; the sums of millions differ in rounding.
        """
        if self.results != results:
            return f"{self.results} results, the floor has {results}"
        total = math.fsum(self._sums)
        if not abs(total - total_maximum) <= SUM_TOLERANCE * abs(total_maximum):
            return f"the maxima add up to {total}, those of the floor to {total_maximum}"
        known: dict[Window, Any] = {}
        for number, tables in self._held.items():
            window = self._windows[number]
            if window not in known:
                known[window] = floor_of_queries.expected(self._cells, window)
            problem = floor_of_queries.difference(pa.concat_tables(tables), known[window])
            if problem:
                return f"query {number}, {window}: {problem}"
        return ""
