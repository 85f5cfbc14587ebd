"""The result log: one Parquet file per micro-batch, with the results of all its queries.

A row is `batch, kind, name, rows, payload`; the payload is a query's new results, an Arrow stream in order of time. The
file of a micro-batch is written once and never changes. A micro-batch that is repeated takes its results from the file
if there is one, so that all sinks and all readers of the log see the same results. `SparkPipeline.results` is a
streaming DataFrame over these files.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from panewise.spark.environment.folder import Folder
from panewise.spark.tasks.batch_progress import Marks
from panewise.spark.tasks.packing import ipc_bytes, table_of

_FORGOTTEN = "forgotten.json"
LOG_TYPE = "batch long, kind string, name string, rows long, payload binary"
LOG = pa.schema(
    [
        ("batch", pa.int64()),
        ("kind", pa.string()),
        ("name", pa.string()),
        ("rows", pa.int64()),
        ("payload", pa.binary()),
    ]
)


@dataclass(frozen=True)
class LogEntry:
    """One row of the log: the table of a query's results, or of a stream's late or bad rows."""

    kind: str
    name: str
    table: pa.Table


def file_of(batch: int) -> str:
    return f"results/{batch:012d}.parquet"


def forget_older(folder: Folder, than: float, marks: Marks) -> None:
    """Removes files older than an instant (seconds since 1970), and notes how far the streams had come by then."""
    gone = folder.older("results", than)
    if gone:
        folder.write_json(_FORGOTTEN, marks.to_dict())
    for name in gone:
        folder.remove(name)


def forgotten(folder: Folder) -> Marks | None:
    """How far the streams had come when files were last removed from the log; None if none ever was."""
    found = folder.read_json(_FORGOTTEN)
    return None if found is None else Marks.of_dict(found)


def write_entries(folder: Folder, batch: int, entries: list[LogEntry]) -> None:
    columns = [
        pa.array([batch] * len(entries), pa.int64()),
        pa.array([entry.kind for entry in entries], pa.string()),
        pa.array([entry.name for entry in entries], pa.string()),
        pa.array([entry.table.num_rows for entry in entries], pa.int64()),
        pa.array([ipc_bytes(entry.table) for entry in entries], pa.binary()),
    ]
    sink = io.BytesIO()
    # Payloads are compressed as a whole; statistics of kind and name let a reader skip other queries' row groups.
    table = pa.Table.from_arrays(columns, schema=LOG)
    pq.write_table(table, sink, compression="lz4", use_dictionary=["kind", "name"], row_group_size=64)
    folder.write(file_of(batch), sink.getvalue())


def read_entries(folder: Folder, batch: int, kind: str | None = None, name: str | None = None) -> list[LogEntry] | None:
    """The entries of a micro-batch, of one kind and name or of all; None if it has no file."""
    data = folder.read(file_of(batch))
    if data is None:
        return None
    wanted = [("kind", "=", kind)] if kind is not None else []
    if name is not None:
        wanted.append(("name", "=", name))
    table = pq.read_table(pa.BufferReader(data), filters=wanted or None, columns=["kind", "name", "payload"])
    return [
        LogEntry(kind, name, table_of(payload))
        for kind, name, payload in zip(*(column.to_pylist() for column in table.columns), strict=True)
    ]
