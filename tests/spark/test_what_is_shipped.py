"""What Spark pickles is where the program is found: the folder and numbers, with the functions of users' aggregates.

A process of a Connect server gets it, and has nothing else. Here it has forgotten all that this process knows.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from panewise.spark.archives.archive_writer import ArchiveWriter
from panewise.spark.delivery.batch_writer import BatchWriter
from panewise.spark.environment.folder import Folder
from panewise.spark.program import known_programs
from panewise.spark.program.known_programs import versions_of
from panewise.spark.results.batch_log import LogEntry
from panewise.spark.sinks import memory
from panewise.spark.stages.stage_one import fold_stage, path_stage
from panewise.spark.stages.stage_two import FragmentProcessor
from panewise.spark.tables.table_pins import TablePins
from panewise.spark.tasks.batch_progress import last_marks
from panewise.spark.tasks.packing import RESULT
from tests.spark.local_run import LocalRun, no_print
from tests.spark.local_tables import JOIN, NAMES, TRADES, TableRun, names_at

SECOND = 1_000_000
ROWS = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("k", pa.string())])
QUERY = "CREATE QUERY q AS SELECT k AS told_of, COUNT(*) AS n FROM t [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k"
SINK = "CREATE SINK {} FROM q WITH (connector = 'memory')"
WORDS = (b"told_of", b"secret_name", b"Definition", b"SinkTarget", b"PlannedQuery", b"Version", b"Schema", b"Emit")


def elsewhere(told: Any) -> Any:
    """As another process gets it; nothing of what was defined is in the pickle."""
    data = cloudpickle.dumps(told)
    assert [word for word in WORDS if word in data] == []
    known_programs._of_runs.clear()
    known_programs._known.clear()
    return pickle.loads(data)


def push(run: LocalRun, second: int) -> None:
    run.push("t", pa.RecordBatch.from_pylist([{"ts": second * SECOND, "k": "a"}], ROWS))
    run.advance("t", (second + 1) * SECOND)


class Elsewhere(LocalRun):
    """Each micro-batch is written by another process."""

    def deliver(self, writer: BatchWriter, frame: Any) -> None:
        super().deliver(elsewhere(writer), frame)


def test_sinks_are_fed_by_a_process_that_knows_the_folder_alone(tmp_path: Path) -> None:
    for name in ("secret_name", "secret_name_2"):
        memory.forget(name)
    run = Elsewhere(tmp_path)
    run.change(TRADES, QUERY, SINK.format("secret_name"))
    for second in range(3):
        push(run, second)
        run.run()
    run.change("DROP SINK secret_name", SINK.format("secret_name_2"))
    for second in range(3, 6):
        push(run, second)
        run.run()
    ends = {name: [row["window_end"].second for row in memory.rows(name).to_pylist()] for name in memory._tables}
    assert (ends["secret_name"], ends["secret_name_2"]) == ([1, 2, 3], [4, 5, 6])


def test_a_micro_batch_gets_the_sinks_that_hold_in_it(tmp_path: Path) -> None:
    """Those of the version that governs it, where later ones are there already."""
    run = LocalRun(tmp_path)
    run.change(TRADES, QUERY, SINK.format("secret_name"))
    push(run, 0)
    run.run()
    run.change(SINK.format("secret_name_2"))
    writer = elsewhere(BatchWriter(run.reference, 0, "id", 1.0, no_print))
    targets = [writer.targets.sinks_of(batch) for batch in (0, 1)]
    names = [[target.name for _, own in sinks.kinds for target in own] for sinks in targets]
    assert names == [["secret_name"], ["secret_name", "secret_name_2"]]
    assert writer.targets.beginnings == [(0, 0), (1, 1)] and writer.targets.time_columns == {"q@0": "window_end"}
    (entry,) = writer._entries([(RESULT, "q@0", 1, 1, _payload())])
    assert isinstance(entry, LogEntry)


def _payload() -> bytes:
    from panewise.spark.tasks.packing import ipc_bytes

    return ipc_bytes(pa.table({"n": [1]}))


def test_a_reference_counts_changes(tmp_path: Path) -> None:
    """What was written after it is not seen by who was told of it."""
    run = LocalRun(tmp_path)
    run.change(TRADES)
    reference = run.reference
    run.change(QUERY)
    versions_of(run.reference)
    assert [version.number for version in versions_of(reference)] == [0]
    known_programs._of_runs.clear()
    assert [version.number for version in versions_of(reference)] == [0]


def test_tables_are_pinned_by_a_process_that_knows_the_folder_alone(tmp_path: Path) -> None:
    class Pinned(TableRun):
        def pins(self) -> TablePins:
            pins: TablePins = elsewhere(super().pins())
            return pins

    run = Pinned(tmp_path)
    for text in (TRADES, NAMES, "INSERT INTO names VALUES ('a', 'secret_name')", JOIN):
        run.execute(text)
    assert names_at(run, 1, "a", "b") == ["secret_name"]
    run.execute("INSERT INTO names VALUES ('b', 'Ben')")
    assert names_at(run, 2, "a", "b") == ["Ben", "secret_name"]


def test_archives_are_written_by_a_process_that_knows_the_folder_alone(tmp_path: Path) -> None:
    from panewise.archive.archive import Archive

    run = LocalRun(tmp_path / "run")
    path = tmp_path / "secret_name"
    options = f"path = '{path}', lifetime = '1 day', every = '1 hour', key = 'told_of', layout = '2x2'"
    run.change(TRADES, QUERY, f"CREATE ARCHIVE kept FROM q WITH ({options})")
    for second in range(3):
        push(run, second)
        run.run()
    elsewhere(ArchiveWriter(run.reference, 60.0)).settle(last_marks(run.folder))
    with Archive.open(str(path)) as archive:
        assert archive.scan().num_rows == 3


@pytest.mark.parametrize(
    "shipped",
    [
        lambda reference: fold_stage(reference, "t@0", 1, None),
        lambda reference: path_stage(reference, {}),
        FragmentProcessor,
    ],
)
def test_stages_are_told_a_reference(shipped: Callable[[Any], Any], tmp_path: Path) -> None:
    run = LocalRun(tmp_path)
    run.change(TRADES, QUERY, SINK.format("secret_name"))
    elsewhere(shipped(run.reference))
    assert isinstance(elsewhere(run.reference).folder, Folder)
