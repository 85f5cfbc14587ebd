"""Queries over one join, or with one DISTINCT, and windows of their own: together, against each for itself.

Two streams bring a row a millisecond each, in pushes of 8,192 in turn. The queries of a set differ in the ranges of
their windows only, 5 to 60 s. *Together* is the engine as it is, *alone* with `sharing='none'`: every query probes for
itself. All results are fetched after every round of pushes and counted; those of the last round are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from bench.joins import PUSH, rows_of
from bench.measure import Setting, digest, in_turn, median_cpu, ratio
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
            row = measure(name, queries, rounds, repeat)
            report.rows.append({"set": name, "queries": queries, **row})
            report.agree = report.agree and row["agrees"]
            if queries == 10 and name != "distinct":
                report.aims.append(Aim.at_least(f"{name}, 10 queries, to alone", WANTED, row["to alone"]))
    return report


# -- in a process of its own -----------------------------------------------------------------------------------------


def setting_of(name: str, queries: int, rounds: int, repeat: int, system: str) -> Setting:
    """One way of running the queries; each run takes the next rounds of rows."""
    import panewise as pw

    first, last = RANGES_S
    ranges = [last - (last - first) * number / max(1, queries - 1) for number in range(queries)]
    total = WARM_UP_ROUNDS + repeat * rounds
    batches = [[rows_of(stream, turn * PUSH, PUSH, KEYS) for stream in range(2)] for turn in range(total)]
    engine = pw.Engine(sharing="weave" if system == "together" else "none")
    for stream in "ab":
        engine.execute(f"CREATE STREAM {stream} (ts TIMESTAMP, k BIGINT, v BIGINT)")
    for number, range_s in enumerate(ranges):
        window = f"{round(range_s * 1000)} MILLI"
        engine.execute(
            f"CREATE QUERY q{number} AS {SETS[name].format(r=window).replace('MILLI SECONDS', 'MILLISECONDS')}"
        )
    done, count = 0, 0
    answers: list[tuple[int, str]] = []
    last_results: list[pa.Table] = []

    def play(rounds: int) -> None:
        nonlocal done, count, last_results
        for turn in range(done, done + rounds):
            for stream, batch in zip("ab", batches[turn], strict=True):
                engine.push(stream, batch)
            last_results = [engine.results(f"q{number}") for number in range(queries)]
            count += sum(table.num_rows for table in last_results)
        done += rounds

    def session() -> Callable[[], None]:
        answers.append((count, digest(last_results)))  # of the run before, outside the time that is taken
        return lambda: play(rounds)

    def after() -> dict[str, Any]:
        held = {id(consumer): consumer for consumer in engine.hosting.consumers.values()}
        return {
            "answers": [*answers, (count, digest(last_results))],
            "results": count,
            "bytes": sum(consumer.bytes_held for consumer in held.values()),
        }

    play(WARM_UP_ROUNDS)
    return Setting(session, {}, after)


def measure(name: str, queries: int, rounds: int, repeat: int) -> dict[str, Any]:
    """Both ways in turn, each in a process of its own."""
    given = {"name": name, "queries": queries, "rounds": rounds, "repeat": repeat}
    found = in_turn(setting_of, {system: given | {"system": system} for system in ("together", "alone")}, repeat)
    together, alone = found["together"], found["alone"]
    return {
        "rows": 2 * rounds * PUSH,
        "results": together.told["results"],
        "together_s": median_cpu(together.timings),
        "alone_s": median_cpu(alone.timings),
        "to alone": ratio(alone.timings, together.timings),
        "state MiB": together.told["bytes"] / (1 << 20),
        "agrees": together.told["answers"] == alone.told["answers"],
    }
