"""`python -m bench [NAME ...] [--only NAME] [--quick]`: runs the benchmarks and prints their tables.

The exit code is 1 where answers differ or a benchmark cannot run; a missed aim is printed, not punished, because a busy
machine misses aims. `--strict` punishes those as well.
"""

from __future__ import annotations

import argparse
import importlib
import sys

from rich.console import Console

from bench.machine import machine
from bench.measure import ProcessFailed

# In the order in which they run: what is short comes first.
BENCHMARKS = {
    "start_up": "import, help, first answers with an empty and a full compile cache",
    "one_row": "rows pushed one at a time",
    "overload": "a minute at twice the sustainable rate: back-pressure, and load shedding with its errors",
    "report_schedule": "200 queries at 1.5 times the sustainable rate: how late reports are, by schedule",
    "concurrent_readers": "eight threads that look up while one pushes at full speed, every answer checked",
    "server_load": "200 WebSocket subscribers and 2,000 lookups a second against `panewise serve`, and kill -9",
    "hostile_callers": "eight writers and readers beside callers that ask for too much, never read, push the year 9999",
    "one_time_reads": "SELECT over 5 million retained rows while another thread pushes: how long pushes wait",
    "quantiles": "exact quantiles of windows of 100,000 values, against sorting them",
    "techniques": "every technique: rows/s and latencies of windows of 1 slice to 4 Mi, one range and 1,000",
    "windows": "2 million rows, 100 groups, ranges of 1 to 300 s, against the floor, DuckDB and Polars",
    "fresh_process": "range 60 s of `windows` in a process that has run nothing else, against one that has run 300 s",
    "many_queries": "100 queries that share a tree, against one",
    "shared_queries": "1 to 10,000 MAX queries over 2 million rows, against the floor, DuckDB and Polars",
    "shared_selections": "queries that differ in WHERE or GROUP BY, folded in one pass, against one by one",
    "joins": "equality joins of two and four streams, 100,000 and 1,000 keys",
    "shared_joins": "windows of many lengths over one join or one DISTINCT, against each query alone",
    "durability": "an engine with a path against one without, beside the disk's own speed",
    "planning": "10,000 queries as text and a million as arrays: bound and woven",
    "many_groups": "20 million rows, 1 million keys, a window of 24 hours",
    "spark_windows": "2 million rows in Parquet, ranges of 1 to 300 s, against Spark's own windows",
    "spark_steady": "24 million rows in steady state, and the least that a trigger takes",
    "spark_many_queries": "200 sinks on 200 queries, against one",
    "spark_joins": "a join of two streams, against Spark's own join of streams",
    "spark_shared_queries": "100 queries against Spark's own window() for each, 1,000 against one",
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="The benchmarks of panewise.",
        epilog="\n".join(f"{name:14} {what}" for name, what in BENCHMARKS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these benchmarks")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="only this benchmark")
    parser.add_argument("--quick", action="store_true", help="small versions, as the tests run them")
    parser.add_argument("--strict", action="store_true", help="a missed aim is a failure")
    options = parser.parse_args(arguments)
    chosen = [*options.names, *options.only] or list(BENCHMARKS)
    unknown = [name for name in chosen if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark '{unknown[0]}'; there are {', '.join(BENCHMARKS)}")

    # A table folded to 80 columns in a file or a log is hard to read.
    console = Console(width=None if sys.stdout.isatty() else 150)
    described = machine()
    console.print(", ".join(f"{name} {value}" for name, value in described.items()), style="dim", highlight=False)
    failed = False
    for name in chosen:
        console.print(f"{name} ...", style="dim")
        try:
            report = importlib.import_module(f"bench.{name}").run(options.quick)
        except ProcessFailed as problem:
            console.print(f"{name} failed: {problem}", style="red", markup=False, highlight=False)
            failed = True
            continue
        report.show(console)
        report.save(described, options.quick)
        failed |= not report.agree or (options.strict and not all(aim.met for aim in report.aims))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
