"""Sinks that take numbered results, so that results delivered again after a fault are stored once.

A durable engine delivers results at least once: after a fault the same rows come again with the same numbers, perhaps
followed by others. Each sink here keeps, in a folder of the run, the last *points* at which a write ended, as (number
of the next row, bytes of the file). A write begins at a point and truncates the file to it. When the write is on disk,
its end becomes the next point:

    rows     0 ......... 100 ........ 250 .... 300
    points   (0, 0)   (100, 4 kB)  (250, 9 kB)   ^ killed here: the rows from 250 on come again, and the file is first
                                                   truncated to 9 kB

So whenever the process dies, a later run produces the same content as an undisturbed run. Files are synced before their
point is, and the point before the engine is told that the rows were taken, so this also holds for a power failure.
Cost: two syncs a write, and some bytes a point. The number of part files may differ.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from panewise.catalog import SinkDefinition
from panewise.connectors.options import read_options
from panewise.connectors.part_files import parts_in, remove_parts
from panewise.connectors.sinks import (
    JsonSink,
    ParquetSink,
    Sink,
    already_there,
    check_parquet,
    json_lines,
    unwritable,
)
from panewise.errors import ConnectorError

if TYPE_CHECKING:
    import pyarrow as pa

# Enough for more than a second of writes, because a power failure may lose the last second of the engine's own log.
POINTS_KEPT = 100


class NumberedSink(Protocol):
    """Takes results together with the number of the first row among all results of the query."""

    @property
    def next(self) -> int | None:
        """The number of the row that it expects next, or None if it accepts any number."""

    def begin(self, number: int) -> None:
        """Starts the sink at this row number, unless it has started already."""

    def skip(self, number: int) -> None:
        """Expects this row number next: the rows before it were given to somebody else."""

    def write(self, table: pa.Table, first: int) -> None: ...

    def close(self) -> None: ...


class Points:
    """The points at which writes of a sink ended, in a file that is replaced atomically."""

    def __init__(self, file: Path, sink: SinkDefinition, place: Path) -> None:
        self._file = file
        self._name = sink.name
        self.is_new = not file.exists()
        self.content: dict[str, Any] = {"place": str(place.absolute()), "points": []}
        if not self.is_new:
            self.content = json.loads(file.read_text(encoding="utf-8"))
            if self.content["place"] != str(place.absolute()):
                raise ConnectorError(
                    f"sink '{sink.name}' wrote to '{self.content['place']}' before, but its path is now "
                    f"'{place.absolute()}'",
                    hint="restore the sink's path, or start a new run in another folder",
                )

    @property
    def next(self) -> int | None:
        points = self.content["points"]
        return points[-1][0] if points else None

    def begin(self, number: int, size: int) -> None:
        if not self.content["points"]:
            self.content["points"] = [[number, size]]
            self.save()

    def size_at(self, number: int) -> int:
        """The bytes that the sink had when it expected this row. Later points are dropped."""
        points = self.content["points"]
        for position in range(len(points) - 1, -1, -1):
            if points[position][0] == number:
                del points[position + 1 :]
                return int(points[position][1])
        raise ConnectorError(
            f"sink '{self._name}' expects row {self.next} of its query, and row {number} was handed over",
            hint="the folders of the sink and of the engine belong to different runs",
        )

    def skip(self, number: int) -> None:
        """Expects row `number` next, at the current end of the file."""
        self.add(number, int(self.content["points"][-1][1]))

    def add(self, number: int, size: int) -> None:
        points = self.content["points"]
        points.append([number, size])
        del points[:-POINTS_KEPT]
        self.save()

    def save(self) -> None:
        unfinished = self._file.with_name(f".{self._file.name}")
        with unfinished.open("w", encoding="utf-8") as file:
            json.dump(self.content, file)
            _sync_to_disk(file.fileno())
        _rename_synced(unfinished, self._file)


class NumberedJson:
    """Appends lines to a file. Before a write, the file is truncated to the last point."""

    def __init__(self, sink: SinkDefinition, keep: Path) -> None:
        values = read_options(f"sink '{sink.name}'", sink.options, JsonSink.options)
        self._path = Path(str(values["path"]))
        self._sink = sink
        self._points = Points(keep / f"{file_name(sink)}.json", sink, self._path)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self._points.is_new:
                if values["existing"] == "fail" and self._path.exists():
                    raise already_there(self._path, sink)
                with self._path.open("wb" if values["existing"] == "replace" else "ab") as file:
                    self._points.content["begun_at"] = file.tell()
                self._points.save()
        except OSError as error:
            raise unwritable(self._path, sink.name, error) from error

    @property
    def next(self) -> int | None:
        return self._points.next

    def begin(self, number: int) -> None:
        self._points.begin(number, self._points.content["begun_at"])

    def write(self, table: pa.Table, first: int) -> None:
        self.begin(first)
        size = self._points.size_at(first)
        try:
            with self._path.open("r+b") as file:
                if file.seek(0, os.SEEK_END) < size:
                    raise ConnectorError(
                        f"'{self._path}' of sink '{self._sink.name}' is shorter than what was written to it",
                        hint="restore the file, or start a new run in another folder",
                    )
                file.truncate(size)
                file.seek(size)
                file.write("".join(json_lines(table)).encode())
                size = file.tell()
                file.flush()
                _sync_to_disk(file.fileno())
            self._points.add(first + table.num_rows, size)
        except OSError as error:
            raise unwritable(self._path, self._sink.name, error) from error

    def skip(self, number: int) -> None:
        self._points.skip(number)

    def close(self) -> None:
        pass


class NumberedParquet:
    """Writes a part file per write, named by its first row. A part that is delivered again replaces the old one.

    If the path ends in `.parquet`, parts are kept in the run's folder and become one file on `close`.
    """

    def __init__(self, sink: SinkDefinition, keep: Path) -> None:
        values = read_options(f"sink '{sink.name}'", sink.options, ParquetSink.options)
        path = Path(str(values["path"]))
        self._sink = sink
        self._single = path if path.suffix == ".parquet" else None
        self._folder = path if self._single is None else keep / file_name(sink)
        self._points = Points(keep / f"{file_name(sink)}.json", sink, path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(path, sink.name, error) from error
        if self._points.is_new:
            self._begin_anew(path, str(values["existing"]))
        self._prefix = f"part-{self._points.content['generation']:05d}-"

    def _begin_anew(self, path: Path, existing: str) -> None:
        parts = parts_in(self._folder, ".parquet")
        if existing == "fail" and (parts or (self._single is not None and path.exists())):
            raise already_there(path, self._sink)
        if existing == "replace":
            remove_parts(self._folder, ".parquet", parts, f"sink '{self._sink.name}'")
            parts = []
        elif self._single is not None and path.exists():
            check_parquet(path, self._sink)
            # The file's old content becomes the first of the parts from which the new file is made.
            parts = [self._folder / "part-00000.parquet"]
            _copy(path, parts[0])
        # Parts of other runs keep their names; the new ones sort behind them.
        numbers = [part.stem.removeprefix("part-").split("-")[0] for part in parts]
        self._points.content["generation"] = 1 + max((int(n) for n in numbers if n.isdigit()), default=-1)
        self._points.save()

    @property
    def next(self) -> int | None:
        return self._points.next

    def begin(self, number: int) -> None:
        self._points.begin(number, 0)

    def write(self, table: pa.Table, first: int) -> None:
        import pyarrow.parquet as pq

        self.begin(first)
        again = first != self.next
        self._points.size_at(first)
        part = self._folder / f"{self._prefix}{first:012d}.parquet"
        unfinished = part.with_name(f".{part.name}.unfinished")
        try:
            with unfinished.open("wb") as file:
                pq.write_table(table, file)
                file.flush()
                _sync_to_disk(file.fileno())
            _rename_synced(unfinished, part)
            for later in parts_in(self._folder, ".parquet") if again else ():
                if later.name.startswith(self._prefix) and later.name > part.name:
                    later.unlink()  # its rows will be delivered again
            self._points.add(first + table.num_rows, 0)
        except OSError as error:
            raise unwritable(part, self._sink.name, error) from error

    def skip(self, number: int) -> None:
        self._points.skip(number)

    def close(self) -> None:
        if self._single is None:
            return
        import pyarrow.parquet as pq

        parts = parts_in(self._folder, ".parquet")
        if not parts:
            return
        unfinished = self._single.with_name(f".{self._single.name}.unfinished")
        try:
            with pq.ParquetWriter(unfinished, pq.read_schema(parts[0])) as writer:
                for part in parts:
                    writer.write_table(pq.read_table(part))
            _rename_synced(unfinished, self._single)
        except OSError as error:
            raise unwritable(self._single, self._sink.name, error) from error


class CountedSink:
    """Adds row numbers to a sink that has none, in memory only. `following`: the number of the row it expects."""

    def __init__(self, sink: Sink, following: int | None = None) -> None:
        self._sink = sink
        self.next = following

    def begin(self, number: int) -> None:
        self.next = number if self.next is None else self.next

    def skip(self, number: int) -> None:
        self.next = number

    def write(self, table: pa.Table, first: int) -> None:
        # Rows are delivered again to all sinks of the query if one of them could not write.
        self._sink.write(table.slice(max(0, (self.next or 0) - first)))
        self.next = first + table.num_rows

    def close(self) -> None:
        self._sink.close()


def file_name(sink: SinkDefinition) -> str:
    """A file name for a sink, whose name may contain any character. Names are unique regardless of case."""
    name = quote(sink.name.lower(), safe="")
    return f"%2E{name[1:]}" if name.startswith(".") else name  # neither a hidden file nor `..`


def _sync_to_disk(descriptor: int) -> None:
    os.fsync(descriptor)


def _copy(path: Path, copy: Path) -> None:
    with path.open("rb") as file, copy.open("wb") as to:
        shutil.copyfileobj(file, to)
        to.flush()
        _sync_to_disk(to.fileno())


def _rename_synced(unfinished: Path, file: Path) -> None:
    """Renames the finished file to its final name and syncs the folder."""
    unfinished.replace(file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        _sync_to_disk(folder)
    finally:
        os.close(folder)
