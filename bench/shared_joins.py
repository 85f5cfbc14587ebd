"""Queries over one join, or with one DISTINCT, and windows of their own: together, against each for itself.

Two streams bring a row a millisecond each, in pushes of 8,192 in turn. The queries of a set differ in the ranges of
their windows only, 5 to 60 s. *Together* is the engine as it is, *alone* with `sharing='none'`: every query probes for
itself. All results are fetched after every round of pushes and counted; those of the last round are compared.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from bench.joins import PUSH, rows_of
from bench.measure import isolated, median_cpu, ratio, timed
from bench.report import Aim, Report

RANGES_S = (5, 60)
WARM_UP_ROUNDS = 8  # 65 s: all windows are full
JOINED = "FROM a [RANGE {r} SECONDS{rest}], b [RANGE {r} SECONDS{rest}] WHERE a.k = b.k"
SETS = {
    "pairs": "SELECT a.v AS v, b.v AS w " + JOINED.replace("{rest}", " INTERNAL"),
    "by group": "SELECT a.v % 100 AS g, COUNT(*) AS n, MAX(b.v) AS m, SUM(b.v) AS s "
    + JOINED.replace("{rest}", " SLIDE 1 SECOND") + " GROUP BY a.v % 100",
    "distinct": "SELECT DISTINCT k % 1000 AS k FROM a [RANGE {r} SECONDS SLIDE 1 SECOND]",
}  # fmt: skip
COUNTS = (1, 10, 100)
KEYS = 100_000
WANTED = 3.0  # times as fast as alone, of ten queries; twenty probes against two


def run(quick: bool) -> Report:
    report = Report(
        "shared_joins",
        f"shared_joins: windows of {RANGES_S[0]} to {RANGES_S[1]} s over one join or DISTINCT, {KEYS:,} keys, one core",
        ("set", "queries", "rows", "results", "together_s", "alone_s", "to alone", "state MiB", "agrees"),
    )
    report.notes = [
        "together_s, alone_s: processor seconds; to alone: how many times faster together",
        "distinct: 1,000 values a report and query, so that most of the time goes into writing results",
    ]
    rounds, repeat = (1, 1) if quick else (4, 3)
    for name in SETS:
        for queries in (1, 3) if quick else COUNTS:
            row = isolated(measure, name=name, queries=queries, rounds=rounds, repeat=repeat)
            report.rows.append({"set": name, "queries": queries, **row})
            report.agree = report.agree and row["agrees"]
            if queries == 10 and name != "distinct":
                report.aims.append(Aim.at_least(f"{name}, 10 queries, to alone", WANTED, row["to alone"]))
    return report


# -- in a process of its own -----------------------------------------------------------------------------------------


def measure(name: str, queries: int, rounds: int, repeat: int) -> dict[str, Any]:
    import panewise as pw

    first, last = RANGES_S
    ranges = [last - (last - first) * number / max(1, queries - 1) for number in range(queries)]
    total = WARM_UP_ROUNDS + repeat * rounds
    batches = [[rows_of(stream, turn * PUSH, PUSH, KEYS) for stream in range(2)] for turn in range(total)]
    engines = {}
    for system, sharing in (("together", "weave"), ("alone", "none")):
        engine = engines[system] = pw.Engine(sharing=sharing)
        for stream in "ab":
            engine.execute(f"CREATE STREAM {stream} (ts TIMESTAMP, k BIGINT, v BIGINT)")
        for number, range_s in enumerate(ranges):
            window = f"{round(range_s * 1000)} MILLI"
            engine.execute(
                f"CREATE QUERY q{number} AS {SETS[name].format(r=window).replace('MILLI SECONDS', 'MILLISECONDS')}"
            )
    results: dict[str, list[pa.Table]] = {}
    counts = dict.fromkeys(engines, 0)

    def play(system: str, begin: int, end: int) -> None:
        engine = engines[system]
        for turn in range(begin, end):
            for stream, batch in zip("ab", batches[turn], strict=True):
                engine.push(stream, batch)
            results[system] = [engine.results(f"q{number}") for number in range(queries)]
            counts[system] += sum(table.num_rows for table in results[system])

    timings: dict[str, list[Any]] = {system: [] for system in engines}
    agrees = True
    for part in range(repeat + 1):
        begin = 0 if part == 0 else WARM_UP_ROUNDS + (part - 1) * rounds
        end = WARM_UP_ROUNDS + part * rounds
        for system in engines:
            timing, _ = timed(lambda system=system, begin=begin, end=end: play(system, begin, end))
            if part:
                timings[system].append(timing)
        agrees = agrees and counts["together"] == counts["alone"]
        agrees = agrees and all(map(_same, results["together"], results["alone"]))
    held = {id(consumer): consumer for consumer in engines["together"].hosting.consumers.values()}
    return {
        "rows": 2 * rounds * PUSH,
        "results": counts["together"],
        "together_s": median_cpu(timings["together"]),
        "alone_s": median_cpu(timings["alone"]),
        "to alone": ratio(timings["alone"], timings["together"]),
        "state MiB": sum(consumer.bytes_held for consumer in held.values()) / (1 << 20),
        "agrees": agrees,
    }


def _same(one: pa.Table, other: pa.Table) -> bool:
    order = [(name, "ascending") for name in one.column_names]
    return one.sort_by(order).combine_chunks().equals(other.sort_by(order).combine_chunks())
