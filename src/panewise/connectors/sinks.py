"""Sinks that write a query's results: parquet, json (one object per line) and console.

`write` takes a table of new results, `close` ends the sink. A parquet folder gets one part file per write. The file
gets its final name only when it is complete, so that a reader never sees half a file. A failed write leaves nothing
behind and can be repeated. The exception is a single parquet file, which then loses everything written since it was
opened.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from panewise.catalog import SinkDefinition
from panewise.connectors.options import CONNECTOR, ConnectorOption, one_of, read_options, text, whole_number
from panewise.connectors.part_files import parts_in, remove_parts
from panewise.errors import ConnectorError, ConnectorWarning

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


PrintTable = Callable[[str, "pa.Table", int], None]  # takes a title, a table and the number of rows to print


class Sink(Protocol):
    """Takes results in order."""

    def write(self, table: pa.Table) -> None: ...

    def close(self) -> None: ...


# What happens to the results of an earlier run at the same path.
EXISTING = ConnectorOption("existing", one_of("append", "replace", "fail"), "append")


class ParquetSink:
    """Writes a part file per write to a folder or, if the path ends in `.parquet`, one file that `close` completes."""

    options = (CONNECTOR, ConnectorOption("path", text), EXISTING)

    def __init__(self, sink: SinkDefinition) -> None:
        values = read_options(f"sink '{sink.name}'", sink.options, self.options)
        self._path = Path(str(values["path"]))
        self._single = self._path.suffix == ".parquet"
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0  # rows written to the single file since it was opened
        self._before: Path | None = None  # a file whose rows the new file begins with
        self._name = sink.name
        if self._single:
            if values["existing"] == "fail" and self._path.exists():
                raise already_there(self._path, sink)
            _make_folder(self._path.parent, sink)
            if values["existing"] == "append" and self._path.exists():
                check_parquet(self._path, sink)
                self._before = self._path
            return
        _make_folder(self._path, sink)
        parts = parts_in(self._path, ".parquet")
        if parts and values["existing"] == "fail":
            raise already_there(self._path, sink)
        if values["existing"] == "replace":
            remove_parts(self._path, ".parquet", parts, f"sink '{sink.name}'")
            parts = []
        self._next = 1 + max((_part_number(part) for part in parts), default=-1)

    def write(self, table: pa.Table) -> None:
        import pyarrow.parquet as pq

        if self._single:
            self._write_on(table)
            return
        if table.num_rows == 0:
            return
        part = self._path / f"part-{self._next:05d}.parquet"
        try:
            pq.write_table(table, _unfinished(part))
            _unfinished(part).replace(part)
        except OSError as error:
            with suppress(OSError):
                _unfinished(part).unlink(missing_ok=True)
            raise unwritable(part, self._name, error) from error
        self._next += 1

    def _write_on(self, table: pa.Table) -> None:
        try:
            if self._writer is None:
                self._writer = self._begin(table.schema)
            self._writer.write_table(table)
        except OSError as error:
            self._give_up()
            raise unwritable(self._path, self._name, error) from error
        self._rows += table.num_rows

    def _give_up(self) -> None:
        """Discards the unfinished file after a failed write, with a warning. An earlier file stays."""
        lost, self._rows, writer, self._writer = self._rows, 0, self._writer, None
        with suppress(OSError):
            if writer is not None:
                writer.close()
        with suppress(OSError):
            _unfinished(self._path).unlink(missing_ok=True)
        if lost:
            warnings.warn(
                f"{lost:,} results that sink '{self._name}' had before are lost with the unfinished '{self._path}'; "
                "an engine with a folder, or a sink that writes to a folder, would have kept them",
                ConnectorWarning,
                stacklevel=2,
            )

    def _begin(self, schema: pa.Schema) -> pq.ParquetWriter:
        """Opens the single file and copies the rows of the earlier file to it, if they are to stay."""
        import pyarrow.parquet as pq

        before = None if self._before is None else pq.ParquetFile(self._before)
        if before is not None and not before.schema_arrow.equals(schema):
            has = ", ".join(before.schema_arrow.names)
            raise ConnectorError(
                f"'{self._path}' of sink '{self._name}' has other columns than the results: {has}",
                hint="name another file, or write existing = 'replace'",
            )
        writer = pq.ParquetWriter(_unfinished(self._path), schema)
        if before is not None:
            for group in range(before.num_row_groups):
                writer.write_table(before.read_row_group(group))
        return writer

    def close(self) -> None:
        if self._writer is not None:
            try:
                self._writer.close()
                _unfinished(self._path).replace(self._path)
            except OSError as error:
                self._give_up()
                raise unwritable(self._path, self._name, error) from error
            self._writer = None


class JsonSink:
    """Writes one object per line. Instants are ISO texts in UTC. NaN and infinities, which JSON lacks, are texts."""

    options = (CONNECTOR, ConnectorOption("path", text), EXISTING)

    def __init__(self, sink: SinkDefinition) -> None:
        values = read_options(f"sink '{sink.name}'", sink.options, self.options)
        path = Path(str(values["path"]))
        if values["existing"] == "fail" and path.exists():
            raise already_there(path, sink)
        _make_folder(path.parent, sink)
        self._path, self._name = path, sink.name
        try:
            # Unbuffered, because lines of a failed write would stay in a buffer.
            self._file = path.open("wb" if values["existing"] == "replace" else "ab", buffering=0)
        except OSError as error:
            raise unwritable(path, sink.name, error) from error

    def write(self, table: pa.Table) -> None:
        lines = memoryview("".join(json_lines(table)).encode())
        size = os.fstat(self._file.fileno()).st_size
        try:
            while lines:
                lines = lines[self._file.write(lines) :]
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(size)
            raise unwritable(self._path, self._name, error) from error

    def close(self) -> None:
        self._file.close()


class ConsoleSink:
    """Prints a table per write, with at most the `rows` newest rows."""

    options = (CONNECTOR, ConnectorOption("rows", whole_number(1), 20))

    def __init__(self, sink: SinkDefinition, print_table: PrintTable) -> None:
        values = read_options(f"sink '{sink.name}'", sink.options, self.options)
        self._title = sink.source
        self._rows = values["rows"]
        self._print = print_table

    def write(self, table: pa.Table) -> None:
        if table.num_rows:
            assert isinstance(self._rows, int)
            self._print(self._title, table, self._rows)

    def close(self) -> None:
        pass


def json_lines(table: pa.Table) -> Iterator[str]:
    """Each row as a line with a JSON object.

    >>> import pyarrow as pa
    >>> list(json_lines(pa.table({"n": [1], "mean": [math.inf]})))
    ['{"n": 1, "mean": "Infinity"}\\n']
    """
    keys = [json.dumps(name, ensure_ascii=False) for name in table.column_names]
    columns = [[_json_text(value) for value in column.to_pylist()] for column in table.columns]
    for values in zip(*columns, strict=True):
        yield "{" + ", ".join(f"{key}: {value}" for key, value in zip(keys, values, strict=True)) + "}\n"


def _json_text(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        return f'"{value.replace(tzinfo=None).isoformat()}Z"'
    if isinstance(value, date):
        return f'"{value.isoformat()}"'
    return json.dumps(value, ensure_ascii=False)


def _make_folder(folder: Path, sink: SinkDefinition) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConnectorError(f"'{folder}' of sink '{sink.name}' cannot be made: {error}") from error


def unwritable(path: Path, sink: str, error: OSError) -> ConnectorError:
    return ConnectorError(f"'{path}' of sink '{sink}' cannot be written: {error.strerror or error}")


def _unfinished(path: Path) -> Path:
    # Readers, also Spark's, ignore names that begin with a dot.
    return path.with_name(f".{path.name}.unfinished")


def _part_number(part: Path) -> int:
    digits = part.stem.removeprefix("part-")
    return int(digits) if digits.isdigit() else -1


def check_parquet(path: Path, sink: SinkDefinition) -> None:
    """Raises ConnectorError if rows cannot be added to a file because it is not a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        pq.read_schema(path)
    except (OSError, pa.ArrowException) as error:
        raise ConnectorError(
            f"'{path}' of sink '{sink.name}' exists, but is not a Parquet file that rows can be added to: {error}",
            hint="name another file, or write existing = 'replace'",
        ) from error


def already_there(path: Path, sink: SinkDefinition) -> ConnectorError:
    return ConnectorError(
        f"'{path}' of sink '{sink.name}' exists already",
        hint="existing = 'append' adds to it, existing = 'replace' replaces it",
    )
