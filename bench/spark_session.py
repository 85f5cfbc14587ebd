"""What the Spark benchmarks share in their processes: a session, the processor seconds of all its processes, triggers.

Every system runs in a process of its own on all cores, from a stock `SparkSession.builder.getOrCreate()`; the peers get
as many shuffle partitions as there are cores, because the 200 of a stock session would cost them seconds.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tools.spark_cluster import cpu_seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# HotSpot leaves methods beyond 8,000 bytes of bytecode to its interpreter, and Spark generates such methods.
BETTER_JVM = "-XX:-DontCompileHugeMethods"


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def session(java_options: str = "", **settings: str) -> Iterator[SparkSession]:
    """A stock session with the settings given, by names with `__` for each dot; stopped at the end."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.config("spark.ui.showConsoleProgress", "false")
    if java_options:
        builder = builder.config("spark.driver.extraJavaOptions", java_options)
    for name, value in settings.items():
        builder = builder.config(name.replace("__", "."), value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


@dataclass
class Stopwatch:
    """Seconds of the clock and of the processors, over all processes below this one and itself."""

    clock: float = 0.0
    cpu: float = 0.0
    _begun: tuple[float, float] = field(default=(0.0, 0.0), repr=False)

    def __enter__(self) -> Stopwatch:
        self._begun = time.perf_counter(), cpu_seconds(os.getpid())
        return self

    def __exit__(self, *_: object) -> None:
        clock, cpu = self._begun
        self.clock, self.cpu = time.perf_counter() - clock, cpu_seconds(os.getpid()) - cpu


def trigger_seconds(progress: list[Any], leave_out: int = 0) -> list[float]:
    """How long each micro-batch with rows took, in order of batches, without the first ones."""
    taken = {
        one["batchId"]: one["durationMs"]["triggerExecution"] / 1000 for one in map(_plain, progress)
        if one["durationMs"].get("addBatch") and one["numInputRows"]
    }  # fmt: skip
    return [seconds for _, seconds in sorted(taken.items())][leave_out:]


def first_end(progress: list[Any]) -> float:
    """When the first micro-batch ended, in seconds since the epoch."""
    first = min((one for one in map(_plain, progress) if one["numInputRows"]), key=lambda one: one["batchId"])
    return datetime.fromisoformat(first["timestamp"]).timestamp() + first["durationMs"]["triggerExecution"] / 1000


def median(seconds: list[float]) -> float:
    return statistics.median(seconds) if seconds else float("nan")


def _plain(progress: Any) -> dict[str, Any]:
    """A progress event as a dict, whichever form this Spark gives it in."""
    import json

    return progress if isinstance(progress, dict) else json.loads(progress.json)
