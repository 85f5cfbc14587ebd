"""Starting up: what a user waits for before the first answer, each time in a fresh process.

Seconds are of the clock, from the start of the process to its end: the interpreter's own start is in them. The compile
cache of Numba is an empty folder for each cold start, and the same folder again, now full, for the warm ones.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.measure import ProcessFailed, Timing, median_cpu
from bench.report import ROOT, Aim, Report

IMPORT = """
import sys, time
clock, cpu = time.perf_counter(), time.process_time()
import panewise
clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
assert "pyspark" not in sys.modules, "pyspark was imported"
print(clock, cpu)
"""
ANSWER = """
import panewise as pw
engine = pw.Engine()
engine.execute('''CREATE STREAM s (ts TIMESTAMP, k STRING, v DOUBLE); CREATE QUERY q AS {query};''')
rows = [{{"ts": second * 1_000_000, "k": "ab"[second % 2], "v": float(second)}} for second in range(100)]
engine.push("s", rows)
answers = engine.results("q").num_rows
assert answers > 0, "no answer"
print(answers)
"""
FIRST_QUERIES = {
    "periodic": "SELECT k, SUM(v) AS s, MAX(v) AS m FROM s [RANGE 10 SECONDS SLIDE 1 SECOND] GROUP BY k",
    "continuous": "SELECT k, SUM(v) AS s, MAX(v) AS m FROM s [RANGE 10 SECONDS] GROUP BY k",
    "last rows": "SELECT k, AVG(v) AS a, MIN(v) AS m FROM s [ROWS 10 SLIDE 5] WHERE v > 1 GROUP BY k",
}
IMPORT_S, HELP_S, COLD_S, WARM_S = 0.7, 0.5, 8.0, 1.5


def run(quick: bool) -> Report:
    repeat = 1 if quick else 5
    columns = ("what", "median s", "least s", "most s", "CPU s", "runs")
    report = Report("start_up", "start_up: seconds of the clock, fresh processes", columns)

    def add(what: str, runs: list[Timing], wanted: float) -> None:
        clock = [run.clock for run in runs]
        median = statistics.median(clock)
        figures = (what, median, min(clock), max(clock), median_cpu(runs), len(runs))
        report.rows.append(dict(zip(columns, figures, strict=True)))
        report.aims.append(Aim.at_most(what, wanted, median, " s"))

    importing = [sys.executable, "-c", IMPORT]
    _spawned(importing)  # the files come from the disk only once
    add("import panewise, without pyspark", [_imported(importing) for _ in range(repeat)], IMPORT_S)
    add("panewise --help", [_spawned([*_command(), "--help"])[0] for _ in range(repeat)], HELP_S)
    for name in ["periodic"] if quick else FIRST_QUERIES:
        cold, warm = _first_answers(FIRST_QUERIES[name], 1 if quick else 2, repeat)
        add(f"first answer, {name}, empty compile cache", cold, COLD_S)
        add(f"first answer, {name}, full compile cache", warm, WARM_S)
    report.notes = ["import: from within the process; all others from the start of the process to its end"]
    return report


def _imported(command: list[str]) -> Timing:
    clock, cpu = _spawned(command)[1].split()
    return Timing(cpu=float(cpu), clock=float(clock))


def _command() -> list[str]:
    """The installed command, or the module where the package is only on the path."""
    beside = Path(sys.executable).parent / "panewise"
    return [str(beside)] if beside.is_file() else [sys.executable, "-m", "panewise.serve.cli.cli"]


def _first_answers(query: str, cold_runs: int, warm_runs: int) -> tuple[list[Timing], list[Timing]]:
    command = [sys.executable, "-c", ANSWER.format(query=query)]
    cold: list[Timing] = []
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "compiled"
        for _ in range(cold_runs):
            shutil.rmtree(cache, ignore_errors=True)
            cache.mkdir()
            cold.append(_spawned(command, NUMBA_CACHE_DIR=str(cache))[0])
        warm = [_spawned(command, NUMBA_CACHE_DIR=str(cache))[0] for _ in range(warm_runs)]
    return cold, warm


def _spawned(command: list[str], **environment: Any) -> tuple[Timing, str]:
    """Seconds of a process, and what it printed."""
    clock, cpu = time.perf_counter(), _children_cpu()
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=os.environ | environment, check=False)
    taken = Timing(cpu=_children_cpu() - cpu, clock=time.perf_counter() - clock)
    if run.returncode:
        raise ProcessFailed(f"{command[0]}\n{run.stderr}")
    return taken, run.stdout


def _children_cpu() -> float:
    """Processor seconds of all processes that have been waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
