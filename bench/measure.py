"""Measuring: seconds of one core, memory at its peak, and processes of one's own.

Times are CPU seconds of a process that is pinned to one core. On a quiet machine that is the time on the clock; on a
busy one the clock also counts what others did in between. Both are kept, so that waiting would show. Spark alone has
all cores, and its times are of the clock.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.report import ROOT

MEBIBYTE = 1 << 20
# One core means one thread: set before the libraries that read these names are imported.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS"), "1")


class ProcessFailed(Exception):
    """A process of a benchmark ended with an error; the message holds what it said."""


@dataclass(frozen=True)
class Timing:
    """Seconds of one run: of the processor and of the clock."""

    cpu: float
    clock: float


def timed(work: Callable[[], Any]) -> tuple[Timing, Any]:
    """One run, with the garbage of earlier runs collected before it."""
    gc.collect()
    clock, cpu = time.perf_counter(), time.process_time()
    answer = work()
    return Timing(time.process_time() - cpu, time.perf_counter() - clock), answer


def interleaved(works: Mapping[str, Callable[[], Any]], repeat: int) -> dict[str, list[Timing]]:
    """Runs of several works in turn, so that a disturbance hits all of them; each must have been warmed up."""
    timings: dict[str, list[Timing]] = {name: [] for name in works}
    for _ in range(repeat):
        for name, work in works.items():
            timings[name].append(timed(work)[0])
    return timings


def median_cpu(timings: list[Timing]) -> float:
    return statistics.median(timing.cpu for timing in timings)


def median_clock(timings: list[Timing]) -> float:
    return statistics.median(timing.clock for timing in timings)


def ratio(numerator: list[Timing], denominator: list[Timing]) -> float:
    """The median of the ratios of runs that followed each other."""
    return statistics.median(n.cpu / d.cpu for n, d in zip(numerator, denominator, strict=True))


# -- memory ----------------------------------------------------------------------------------------------------------


def resident_bytes() -> int:
    """The memory of this process now."""
    return _status("VmRSS") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def peak_bytes() -> int:
    """The most memory this process has held, since the last `forget_peak` where the system can forget."""
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def forget_peak() -> None:
    """The peak begins anew; where the system does not allow it, the peak is that of the whole process."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def _status(name: str) -> int:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), 0)


# -- processes -------------------------------------------------------------------------------------------------------


def isolated(function: Callable[..., dict[str, Any]], **arguments: Any) -> dict[str, Any]:
    """Calls a function of a module in a fresh process on one core; arguments and answer travel as JSON."""
    return _called(function, arguments, ONE_THREAD, "--pin")


def isolated_on_all_cores(function: Callable[..., dict[str, Any]], **arguments: Any) -> dict[str, Any]:
    """The same for what spreads over cores by itself, as Spark does."""
    return _called(function, arguments, {})


def _called(
    function: Callable[..., dict[str, Any]], arguments: dict[str, Any], environment: dict[str, str], *options: str
) -> dict[str, Any]:
    name = f"{function.__module__}:{function.__qualname__}"
    run = subprocess.run(
        [sys.executable, "-m", "bench.measure", name, *options],
        input=json.dumps(arguments), capture_output=True, text=True, cwd=ROOT, env=os.environ | environment,
        check=False,
    )  # fmt: skip
    if run.returncode:
        raise ProcessFailed(f"{name}\n{run.stderr}")
    answer: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return answer


def pin() -> None:
    """This process stays on one core, the last one that it may use."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def main() -> None:
    if "--pin" in sys.argv:
        pin()
    module, _, function = sys.argv[1].partition(":")
    answer = getattr(importlib.import_module(module), function)(**json.load(sys.stdin))
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
