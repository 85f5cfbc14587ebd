"""The pipeline's folder: everything that outlives a run, Spark's own checkpoint included.

    spark/      Spark's checkpoint: offsets, commits, state
    catalog/    one file per change of definitions, with the first micro-batch that it governs
    inbox/      pushed rows, punctuations, lookups and wake-ups, which Spark reads as a stream
    marks/      after each micro-batch: how far the streams have come
    stats/      after each micro-batch: counts for people
    results/    the result log: one file per micro-batch
    staged/     rows of archived streams that are not in their archives yet
    tables/     the versions of tables
    pins/       before each micro-batch: which versions of tables it sees
    clocks/     before each micro-batch: the time, by which rows are judged as too far ahead
    producers/  for each producer, the number of the last push that was taken

A file appears under its name only when it is complete, so no reader sees a part of one. Any file system of Arrow will
do; workers and driver must see the same one.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from panewise.errors import ConnectorError


@dataclass(frozen=True)
class FileStamp:
    """A file that is named by a number, with its size and time, which differ if its content does."""

    number: int
    size: int
    written_ns: int | None


FOLDERS = ("catalog", "inbox", "marks", "stats", "results", "staged", "tables", "pins", "clocks", "producers")


class Folder:
    """Files by their path inside the folder. Picklable: each process opens the file system itself."""

    def __init__(self, place: str) -> None:
        if any(character in place for character in "*?[]{}"):
            raise ConnectorError(f"the folder '{place}' has a character that Spark reads as a pattern")
        if "://" not in place and not place.startswith("file:"):
            # Workers and the JVM have working folders of their own.
            place = str(Path(place).absolute())
        self.place = place.rstrip("/") or "/"
        self._opened: tuple[pafs.FileSystem, str] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"place": self.place, "_opened": None}

    def _at(self, name: str) -> tuple[pafs.FileSystem, str]:
        if self._opened is None:
            if "://" in self.place or self.place.startswith("file:"):
                self._opened = pafs.FileSystem.from_uri(self.place)
            else:
                self._opened = pafs.LocalFileSystem(), self.place
        system, root = self._opened
        return system, f"{root}/{name}" if name else root

    def path(self, name: str) -> str:
        """The path for Spark's own readers and writers."""
        is_address = "://" in self.place or self.place.startswith("file:")
        return f"{self.place}/{name}" if is_address else f"file:{self.place}/{name}"

    def make(self, *names: str) -> None:
        for name in names:
            system, path = self._at(name)
            system.create_dir(path, recursive=True)

    def write(self, name: str, data: bytes | pa.Buffer) -> None:
        """Writes a file, which appears whole or not at all."""
        system, path = self._at(name)
        folder, _, last = path.rpartition("/")
        # Spark's readers ignore names that begin with a dot.
        unfinished = f"{folder}/.{uuid.uuid4().hex}-{last}"
        with system.open_output_stream(unfinished) as stream:
            stream.write(data)
        system.move(unfinished, path)

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if there is none."""
        system, path = self._at(name)
        try:
            with system.open_input_stream(path) as stream:
                content: bytes = stream.read()
                return content
        except FileNotFoundError:
            return None

    def write_json(self, name: str, value: Any) -> None:
        self.write(name, json.dumps(value).encode())

    def read_json(self, name: str) -> Any:
        data = self.read(name)
        return None if data is None else json.loads(data)

    def names(self, folder: str) -> list[str]:
        """The complete files of a folder inside, in name order."""
        system, path = self._at(folder)
        selector = pafs.FileSelector(path, allow_not_found=True)
        found = [info.base_name for info in system.get_file_info(selector) if info.is_file]
        return sorted(name for name in found if not name.startswith((".", "_")))

    def exists(self, name: str) -> bool:
        system, path = self._at(name)
        return bool(system.get_file_info(path).type != pafs.FileType.NotFound)

    def size(self, name: str) -> int:
        """Bytes of a file; 0 where there is none."""
        system, path = self._at(name)
        return int(system.get_file_info(path).size or 0)

    def written_at(self, name: str) -> float | None:
        """When a file was last written, in seconds since 1970; None if there is no file, or its time is unknown."""
        system, path = self._at(name)
        written: int | None = system.get_file_info(path).mtime_ns
        return None if written is None else written / 1e9

    def remove(self, name: str) -> None:
        system, path = self._at(name)
        try:
            system.delete_file(path)
        except FileNotFoundError:
            return

    def is_empty(self, folder: str) -> bool:
        """Whether a folder inside has no files, hidden ones included, or does not exist."""
        system, path = self._at(folder)
        return not system.get_file_info(pafs.FileSelector(path, allow_not_found=True))

    def older(self, folder: str, than: float) -> list[str]:
        """The files of a folder, named by a number, that were last written before an instant (seconds since 1970)."""
        system, path = self._at(folder)
        found = system.get_file_info(pafs.FileSelector(path, allow_not_found=True))
        numbered = [info for info in found if info.is_file and info.base_name.split(".")[0].isdigit()]
        written = [info for info in numbered if info.mtime_ns is not None]
        return [f"{folder}/{info.base_name}" for info in written if info.mtime_ns / 1e9 < than]

    def stamps(self, folder: str) -> list[FileStamp]:
        """The files of a folder that are named by a number, in the order of the numbers; costs one listing."""
        system, path = self._at(folder)
        found = system.get_file_info(pafs.FileSelector(path, allow_not_found=True))
        numbered = [(info.base_name.split(".")[0], info) for info in found if info.is_file]
        stamps = [FileStamp(int(stem), info.size, info.mtime_ns) for stem, info in numbered if stem.isdigit()]
        return sorted(stamps, key=lambda stamp: stamp.number)

    def numbers(self, folder: str) -> list[int]:
        """The numbers of the files of a folder that are named by one, as in Spark's logs; in ascending order."""
        return sorted(int(stem) for name in self.names(folder) if (stem := name.split(".")[0]).isdigit())
