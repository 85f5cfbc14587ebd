"""Rows of archived streams on their way from tasks to archives: files of the checkpoint.

    staged/000000000012-<hex>.parquet   rows of one task of micro-batch 12, in order of time, at most `STAGED_MAX`
    staged/000000000012.json            the list: the files with the rows of micro-batch 12, by stream

A task writes its good rows to files with unique names, and sends the names in its packet. So the driver gets the names
from one attempt of each task. It writes the list before anything is archived, and a list never changes: a micro-batch
has one list, however often it is repeated. Files in no list come from failed or repeated attempts, and are removed.

Cost: a row is written and read once more than without an archive. A task holds at most `STAGED_MAX` rows and one batch;
the driver holds a name and three numbers for each file.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from panewise.archive.sought import moment
from panewise.arrays import Ints
from panewise.spark.environment.folder import Folder

STAGED_MAX = 131_072  # rows of a file
_ROW_GROUP = 16_384  # rows; small, so that a stretch of time needs few of the groups
_FOLDER = "staged"


@dataclass(frozen=True)
class StagedFile:
    """Rows of one stream; `least` and `greatest` are their times."""

    name: str
    rows: int
    least: int
    greatest: int

    def to_list(self) -> list[Any]:
        return [self.name, self.rows, self.least, self.greatest]

    def rows_between(self, after: int, until: int) -> float:
        """An estimate of the rows after one instant and up to another."""
        inside = min(self.greatest, until) - max(self.least - 1, after)
        return self.rows * max(0, inside) / (self.greatest - self.least + 1)


class TaskStaging:
    """Stages the rows of one stream in one task."""

    def __init__(self, folder: Folder, batch: int) -> None:
        self._folder = folder
        self._batch = batch
        self._waiting: list[tuple[pa.RecordBatch, Ints]] = []
        self._waiting_rows = 0
        self._files: list[StagedFile] = []

    def take(self, rows: pa.RecordBatch, times: Ints) -> None:
        """Takes good rows, all of one schema."""
        self._waiting.append((rows, times))
        self._waiting_rows += len(rows)
        if self._waiting_rows >= STAGED_MAX:
            self._write()

    def files(self) -> list[StagedFile]:
        """Writes the rest; returns the files that have all rows taken."""
        if self._waiting:
            self._write()
        return self._files

    def _write(self) -> None:
        rows = pa.Table.from_batches([batch for batch, _ in self._waiting])
        times = np.concatenate([own for _, own in self._waiting])
        order = np.argsort(times, kind="stable")
        for part in np.array_split(order, -(-len(order) // STAGED_MAX)):
            name = f"{_FOLDER}/{self._batch:012d}-{uuid.uuid4().hex}.parquet"
            sink = io.BytesIO()
            pq.write_table(rows.take(pa.array(part)), sink, compression="lz4", row_group_size=_ROW_GROUP)
            self._folder.write(name, sink.getvalue())
            self._files.append(StagedFile(name, len(part), int(times[part[0]]), int(times[part[-1]])))
        self._waiting, self._waiting_rows = [], 0


def write_list(folder: Folder, batch: int, files: dict[str, list[StagedFile]]) -> None:
    """Writes the list of a micro-batch, by stream. If it has one already, that list stays; these files are surplus."""
    if files and not folder.exists(_list_of(batch)):
        folder.write_json(_list_of(batch), {key: [file.to_list() for file in own] for key, own in files.items()})


@dataclass
class StagedRows:
    """The staged files that the driver knows, by their lists."""

    folder: Folder
    _lists: dict[int, dict[str, list[StagedFile]]] = field(default_factory=dict)
    _read: bool = False

    def begin_batch(self, batch: int) -> None:
        """Reads the lists up to a micro-batch that are not known yet."""
        if self._read:
            self._read_list(batch)
            return
        for number in self.folder.numbers(_FOLDER):
            if number <= batch:
                self._read_list(number)
        self._read = True

    def _read_list(self, batch: int) -> None:
        found: dict[str, list[list[Any]]] | None = self.folder.read_json(_list_of(batch))
        if found:
            self._lists[batch] = {key: [StagedFile(*file) for file in own] for key, own in found.items()}

    def of(self, stream: str, after: int) -> list[StagedFile]:
        """The files that have rows of a stream after an instant."""
        return [file for own in self._lists.values() for file in own.get(stream, ()) if file.greatest > after]

    def read(self, file: StagedFile, timestamp: str, after: int, until: int, columns: list[str] | None) -> pa.Table:
        """The rows of a file after one instant and up to another."""
        data = self.folder.read(file.name)
        if data is None:
            raise FileNotFoundError(f"'{file.name}' of '{self.folder.place}' is gone before it was archived")
        wanted = (pc.field(timestamp) > moment(after)) & (pc.field(timestamp) <= moment(until))
        return pq.read_table(pa.BufferReader(data), columns=columns, filters=wanted)

    # -- removal -------------------------------------------------------------------------------------------------------

    def forget(self, done: dict[str, int]) -> None:
        """Removes files whose rows are in all archives.

        `done` has for each stream the instant up to which its slowest archive has the rows. A stream that is not in it
        has no archive any more.
        """
        for batch, files in list(self._lists.items()):
            left: dict[str, list[StagedFile]] = {}
            for stream, own in files.items():
                for file in own:
                    if stream in done and file.greatest > done[stream]:
                        left.setdefault(stream, []).append(file)
                    else:
                        self.folder.remove(file.name)
            if left:
                self._lists[batch] = left
            else:
                # The files are removed before the list, because files without a list would be surplus.
                self.folder.remove(_list_of(batch))
                del self._lists[batch]

    def sweep(self, batch: int) -> None:
        """Removes files that are in no list, up to a micro-batch whose list is written."""
        listed = {file.name for files in self._lists.values() for own in files.values() for file in own}
        for name in self._surplus(batch):
            if name not in listed:
                self.folder.remove(name)

    def _surplus(self, batch: int) -> Iterator[str]:
        for name in self.folder.names(_FOLDER):
            number, dash, _ = name.partition("-")
            if dash and number.isdigit() and int(number) <= batch:
                yield f"{_FOLDER}/{name}"


def _list_of(batch: int) -> str:
    return f"{_FOLDER}/{batch:012d}.json"
