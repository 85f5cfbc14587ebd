"""JSON sinks: one object per line, in a folder with a part file for each batch, or in a single file.

A path that ends in `.json`, `.jsonl` or `.ndjson` is one file, any other is a folder. Values are written as in the
embedded engine. Exactly once: for parts see `sink_part_files`. A single file has a note beside it, written before each
batch, with the batch and the file's length before it. A batch that is repeated cuts the file back to that length. So a
reader of a single file may see rows disappear and come again; a reader of a folder never does.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from panewise.connectors.options import read_options
from panewise.connectors.sinks import JsonSink, json_lines
from panewise.errors import ConnectorError
from panewise.spark.sinks.sink_kind import SinkTarget, Tables
from panewise.spark.sinks.sink_part_files import PartFolder, exists_already, local_path, make_folder

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_SINGLE = (".json", ".jsonl", ".ndjson")


class JsonSinks:
    """See the module."""

    def __init__(self, checkpoint_id: str) -> None:
        self._checkpoint_id = checkpoint_id

    def check(self, targets: Sequence[SinkTarget], spark: SparkSession | None = None) -> None:
        files: dict[Path, SinkTarget] = {}
        for target in targets:
            place, _ = self._place(target)
            if isinstance(place, NotedFile):
                other = files.setdefault(place.path.absolute(), target)
                if other is not target:
                    raise ConnectorError(
                        f"{target.owner} writes to '{place.path}', and so does {other.owner}",
                        hint="two sinks may share a folder, not a file",
                    )

    def prepare(self, targets: Sequence[SinkTarget], first_batch: int) -> None:
        for target in targets:
            place, existing = self._place(target)
            place.prepare(existing, first_batch)

    def write(self, batch_id: int, tables: Tables, spark: SparkSession | None) -> None:
        for target, table in tables:
            if not table.num_rows:
                continue
            place, _ = self._place(target)
            if isinstance(place, NotedFile):
                place.write(batch_id, "".join(json_lines(table)).encode())
            else:
                place.write(batch_id, partial(_write_lines, table))

    def _place(self, target: SinkTarget) -> tuple[PartFolder | NotedFile, str]:
        values = read_options(target.owner, target.options, JsonSink.options)
        path = local_path(values["path"], target)
        existing = str(values["existing"])
        if path.suffix in _SINGLE:
            return NotedFile(target, path, self._checkpoint_id), existing
        return PartFolder(target, path, self._checkpoint_id, ".json"), existing


def _write_lines(table: pa.Table, path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json_lines(table))


class NotedFile:
    """A file that grows batch by batch, and the note that says where its last batch begins."""

    def __init__(self, target: SinkTarget, path: Path, checkpoint_id: str) -> None:
        self.path = path
        self._target = target
        self._checkpoint_id = checkpoint_id
        # Readers, the embedded engine too, skip names that begin with a dot.
        self._note = path.with_name(f".{path.name}.batch")

    def prepare(self, existing: str, first_batch: int) -> None:
        make_folder(self.path.parent, self._target)
        batch_id, start = self._noted()
        earlier = start if batch_id is not None and batch_id >= first_batch else self._length()
        if earlier and existing == "fail":
            raise exists_already(self.path, self._target)
        if existing == "replace":
            self.path.unlink(missing_ok=True)
            self._note.unlink(missing_ok=True)

    def write(self, batch_id: int, content: bytes) -> None:
        noted, start = self._noted()
        if noted is not None and noted > batch_id:
            return
        if noted != batch_id:
            start = self._length()
            self._write_note(batch_id, start)
        self._append(start, content)

    def _append(self, start: int, content: bytes) -> None:
        with self.path.open("ab") as file:
            # The file must not grow here: it may have been removed since.
            os.truncate(file.fileno(), min(start, self._length()))
            file.write(content)

    def _length(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def _noted(self) -> tuple[int | None, int]:
        """This checkpoint's last batch in the file, if any, and the file's length before it."""
        try:
            note = json.loads(self._note.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None, 0
        return (note["batch"], note["start"]) if note["checkpoint"] == self._checkpoint_id else (None, 0)

    def _write_note(self, batch_id: int, start: int) -> None:
        make_folder(self.path.parent, self._target)
        note = {"checkpoint": self._checkpoint_id, "batch": batch_id, "start": start}
        unfinished = self._note.with_name(self._note.name + ".unfinished")
        unfinished.write_text(json.dumps(note), encoding="utf-8")
        unfinished.replace(self._note)
