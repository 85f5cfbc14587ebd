"""`pw.SparkPipeline` as a host of cases: one pipeline for many of them (see `lockstep`), or one that never starts.

The pipeline starts with the first rows, so that the statements before them cost no restart.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import panewise as pw
from tests.case_files import Case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_READS_OR_RUNS = ("push", "advance", "flush", "results", "lookup", "late", "late rows", "bad", "status", "snapshot")


class SparkJob:
    """See `lockstep.Job` for the verbs."""

    def __init__(self, spark: SparkSession, checkpoint: Path) -> None:
        self.spark, self.checkpoint = spark, str(checkpoint)
        self.pipeline = pw.SparkPipeline(spark, checkpoint=self.checkpoint)
        self.handle: Any = None
        self._delivered: dict[str, int] = {}  # by query, the results read so far
        self._repeated: dict[str, int] = {}  # by query, those of them that a new handle gives once more

    @property
    def started(self) -> bool:
        return self.handle is not None

    def _running(self) -> Any:
        """The handle of the pipeline, which starts where it has not yet."""
        if self.handle is None:
            self.handle = self.pipeline.start()
        return self.handle

    def stop(self) -> None:
        if self.handle is not None:
            self.handle.stop()
            self.handle = None

    def execute(self, text: str) -> pa.Table | None:
        return self.pipeline.execute(text)

    def push(self, name: str, rows: list[dict[str, Any]]) -> None:
        self._running()
        self.pipeline.push(name, rows)

    def advance(self, name: str, until: int) -> None:
        self._running().advance(name, until)

    def flush(self, streams: Sequence[str]) -> None:
        self._running().flush(streams=list(streams))

    def process(self) -> None:
        self._running().process_all()

    def results(self, name: str) -> pa.Table:
        """A new handle reads the log from its beginning: what was read before the restart is left out."""
        table = self._running().fetch(name)
        repeated = self._repeated.pop(name, 0)
        assert table.num_rows >= repeated, f"{name} has lost results"
        fresh = table.slice(repeated)
        self._delivered[name] = self._delivered.get(name, 0) + fresh.num_rows
        return fresh

    def lookup(self, name: str, at: int | None) -> pa.Table:
        return self._running().lookup(name, at=at)

    def late_rows(self, name: str) -> pa.Table:
        return self._running().late_rows(name)

    def stats(self) -> dict[str, Any]:
        return dict(self._running().stats())

    def restart(self) -> None:
        """A new pipeline from the checkpoint alone, as after a crash of the driver between two micro-batches."""
        self.stop()
        self._repeated = dict(self._delivered)
        self.pipeline = pw.SparkPipeline(self.spark, checkpoint=self.checkpoint)
        self._running()


def never_runs(case: Case) -> bool:
    """Whether a case only executes statements, of which some are refused: it needs no running pipeline."""
    actions = {step.action for step in case.steps}
    return "error" in actions and not actions.intersection(_READS_OR_RUNS)


def prefixes_of(cases: Sequence[Case]) -> list[str]:
    return [f"c{at}_" for at, _ in enumerate(cases)]
