"""Rows of archived streams between the tasks that read them and the archives that get them: files of the checkpoint.

    staged/000000000012-<hex>.parquet   rows of one task of micro-batch 12, in order of time, at most `STAGED_MAX`
    staged/000000000012.json            the list: which of these files are the rows of micro-batch 12, by stream

A task writes its rows, late and bad ones left out, under names that nobody else has, and its packet brings these names
to the driver; so the driver gets those of one attempt of each task. It writes the list before anything is archived, and
a list never changes: whatever comes again, after whatever was killed, a micro-batch has one list. Files that are in no
list are from attempts that failed, or came again, and go.

Cost: a row is written and read once more than without an archive. A task holds at most `STAGED_MAX` rows for it and one
batch, the driver a name and three numbers a file.
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

STAGED_MAX = 131_072
_ROW_GROUP = 16_384  # rows; of a file in order of time few groups are decoded for a stretch of it
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
        """About how many rows lie after one instant and up to another."""
        inside = min(self.greatest, until) - max(self.least - 1, after)
        return self.rows * max(0, inside) / (self.greatest - self.least + 1)


class TaskStaging:
    """The rows of one stream in one task, on their way into files."""

    def __init__(self, folder: Folder, batch: int) -> None:
        self._folder = folder
        self._batch = batch
        self._waiting: list[tuple[pa.RecordBatch, Ints]] = []
        self._waiting_rows = 0
        self._files: list[StagedFile] = []

    def take(self, rows: pa.RecordBatch, times: Ints) -> None:
        """Good rows, all of one schema."""
        self._waiting.append((rows, times))
        self._waiting_rows += len(rows)
        if self._waiting_rows >= STAGED_MAX:
            self._write()

    def files(self) -> list[StagedFile]:
        """All that was taken is in these."""
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
    """What a micro-batch has staged, by stream. Where there is a list already it holds, and these files are surplus."""
    if files and not folder.exists(_list_of(batch)):
        folder.write_json(_list_of(batch), {key: [file.to_list() for file in own] for key, own in files.items()})


@dataclass
class StagedRows:
    """The lists, as the driver knows them."""

    folder: Folder
    _lists: dict[int, dict[str, list[StagedFile]]] = field(default_factory=dict)
    _read: bool = False

    def come_to(self, batch: int) -> None:
        """The lists up to a micro-batch are known."""
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
        """Its rows after one instant and up to another."""
        data = self.folder.read(file.name)
        if data is None:
            raise FileNotFoundError(f"'{file.name}' of '{self.folder.place}' is gone before it was archived")
        wanted = (pc.field(timestamp) > moment(after)) & (pc.field(timestamp) <= moment(until))
        return pq.read_table(pa.BufferReader(data), columns=columns, filters=wanted)

    # -- what goes -----------------------------------------------------------------------------------------------------

    def forget(self, done: dict[str, int]) -> None:
        """Files whose rows all archives have go; `done`: by stream, up to where the slowest of its archives has them.

        A stream that has no archive any more is not in it.
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
                # Files first: a list without files is read again as nothing to do, files without a list are surplus.
                self.folder.remove(_list_of(batch))
                del self._lists[batch]

    def sweep(self, batch: int) -> None:
        """Files up to a micro-batch, which has its list, that are in no list go."""
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
