"""Measuring: seconds of one core, memory at its peak, and processes of one's own.

A setting of a benchmark (a range, a number of queries, a way of sharing) is measured in a process that has run nothing
else: what is compiled, cached or chosen must not depend on other settings. Where settings are compared, their processes
take turns (`in_turn`), so that a disturbance still hits all of them.

Times are CPU seconds of a process that is pinned to one core. On a quiet machine that is the time on the clock; on a
busy one the clock also counts what others did in between. Both are kept, so that waiting would show. Spark alone has
all cores, and its times are of the clock.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import importlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.report import ROOT

if TYPE_CHECKING:
    import pyarrow as pa

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


def digest(tables: Iterable[pa.Table]) -> str:
    """Equal for tables that hold the same rows, in whichever order: how processes compare their answers."""
    hashed = hashlib.sha256()
    for table in tables:
        ordered = table.sort_by([(name, "ascending") for name in table.column_names]).combine_chunks()
        hashed.update(repr((ordered.schema.names, ordered.to_pydict())).encode())
    return hashed.hexdigest()


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


@dataclass
class Setting:
    """One setting, prepared and warmed up in a process of its own."""

    session: Callable[[], Callable[[], Any]]  # makes what is timed, anew for each run
    told: dict[str, Any]  # what is known of it beside its times
    after: Callable[[], dict[str, Any]] = dict  # what is known after all runs
    settle: Callable[[], object] = lambda: None  # called after each run, outside its time, before others run


@dataclass(frozen=True)
class Measured:
    """What a process has said of its setting, and the times of its runs."""

    told: dict[str, Any]
    timings: list[Timing]


def in_turn(
    function: Callable[..., Setting],
    settings: Mapping[str, dict[str, Any]],
    repeat: int,
    compile_caches: Path | None = None,
) -> dict[str, Measured]:
    """Settings that are compared, each in a process of its own on one core: runs of all of them in turn.

    `function` makes a setting of its arguments. With a folder for `compile_caches` each process has a compile cache of
    its own there; otherwise all of them have the user's.
    """
    name = f"{function.__module__}:{function.__qualname__}"
    processes: dict[str, _SettingProcess] = {}
    try:
        for setting, arguments in settings.items():
            cache = {} if compile_caches is None else {"NUMBA_CACHE_DIR": str(compile_caches / setting)}
            processes[setting] = _SettingProcess(name, arguments, ONE_THREAD | cache)
        timings: dict[str, list[Timing]] = {setting: [] for setting in settings}
        for _ in range(repeat):
            for setting, process in processes.items():
                timings[setting].append(Timing(**process.ask("run")))
        told = {setting: process.told | process.ask("end") for setting, process in processes.items()}
        return {setting: Measured(told[setting], timings[setting]) for setting in settings}
    finally:
        for process in processes.values():
            process.close()


class _SettingProcess:
    """Waits between runs, and so disturbs no other."""

    def __init__(self, name: str, arguments: dict[str, Any], environment: dict[str, str]) -> None:
        self._name = name
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - open as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.measure", name, "--pin", "--setting"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, cwd=ROOT,
            env=os.environ | environment,
        )  # fmt: skip
        self.told = self.ask(json.dumps(arguments))

    def ask(self, line: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            self._errors.seek(0)
            raise ProcessFailed(f"{self._name}\n{self._errors.read()}")
        found: dict[str, Any] = json.loads(answer)
        return found

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()
        self._errors.close()


def serve_setting(function: Callable[..., Setting]) -> None:
    """The other side of `in_turn`."""
    setting = function(**json.loads(sys.stdin.readline()))
    print(json.dumps(setting.told), flush=True)
    for line in sys.stdin:
        print(json.dumps(asked(setting, line.strip())), flush=True)


def asked(setting: Setting, line: str) -> dict[str, Any]:
    """What a setting answers: to `run` the time of one session, to anything else what it says at the end."""
    if line != "run":
        return setting.after()
    taken = timed(setting.session())[0]
    setting.settle()
    return {"cpu": taken.cpu, "clock": taken.clock}


def pin() -> None:
    """This process stays on one core, the last one that it may use."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def main() -> None:
    if "--pin" in sys.argv:
        pin()
    module, _, name = sys.argv[1].partition(":")
    function = getattr(importlib.import_module(module), name)
    if "--setting" in sys.argv:
        serve_setting(function)
        return
    print(json.dumps(function(**json.load(sys.stdin))))


if __name__ == "__main__":
    main()
