"""What a Python worker knows: the program, the marks of the micro-batch before, and what it keeps from task to task.

Spark uses workers for later micro-batches again, in any order. So what a worker keeps may be lost at any time, and is
checked before it is used.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from panewise.spark.environment.folder import Folder
from panewise.spark.program.known_programs import program_of
from panewise.spark.program.program import Program
from panewise.spark.program.reference import Reference
from panewise.spark.program.version import Version
from panewise.spark.tables.table_log import PinnedTables
from panewise.spark.tasks.batch_clock import read_clock
from panewise.spark.tasks.batch_progress import Marks, read_marks

BATCH_ID = "streaming.sql.batchId"  # local property in which Spark tells a task its micro-batch


@dataclass
class BatchTask:
    """One task: its micro-batch and partition, and the version and marks that govern it."""

    folder: Folder
    batch: int
    partition: int
    program: Program
    version: Version
    marks: Marks
    kept: dict[Any, Any]
    tables: PinnedTables

    def clock(self) -> int | None:
        """The wall clock's time before the micro-batch ran; None if none was written."""
        return read_clock(self.folder, self.batch)


_kept: OrderedDict[str, dict[Any, Any]] = OrderedDict()
_marks: OrderedDict[tuple[str, int], Marks] = OrderedDict()
PIPELINES_KEPT = 8


def task_of(reference: Reference) -> BatchTask:
    """The task that this thread works on."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    noted = context.getLocalProperty(BATCH_ID)
    # Through Spark Connect a task is not told. But Spark commits each micro-batch before the next one begins.
    batch = int(noted) if noted is not None else max(reference.folder.numbers("spark/commits"), default=-1) + 1
    return task_at(reference, batch, context.partitionId())


def task_at(reference: Reference, batch: int, partition: int) -> BatchTask:
    program = program_of(reference)
    marks = _marks_before(reference, batch)
    marks.take_hold(program.beginning(batch))
    kept = _recent(_kept, reference.pipeline, dict)
    pinned = PinnedTables(reference.folder, batch)
    return BatchTask(reference.folder, batch, partition, program, program.at(batch), marks, kept, pinned)


def _marks_before(reference: Reference, batch: int) -> Marks:
    key = reference.pipeline, batch - 1
    marks: Marks = _recent(_marks, key, lambda: read_marks(reference.folder, batch - 1))
    return marks


def _recent(kept: OrderedDict[Any, Any], key: Any, make: Any) -> Any:
    if key not in kept:
        kept[key] = make()
        while len(kept) > PIPELINES_KEPT:
            kept.popitem(last=False)
    kept.move_to_end(key)
    return kept[key]
