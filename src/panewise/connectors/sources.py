"""Sources that read files: parquet, csv and json (one object per line).

A source yields batches of at most BATCH_ROWS rows in the order of its files, each with the columns of its stream. A
text that is not a row (a broken line of JSON, a csv line with too many fields) raises an error that names the file. If
the stream skips bad rows, the text is instead yielded as a row with the text in place of the event time, so that the
engine counts and skips it like every other bad row.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

from panewise.catalog import StreamDefinition
from panewise.connectors.conform import conform, matching_names
from panewise.connectors.files import ENDINGS, files_of
from panewise.connectors.json_rows import Rows, broken_rows, check_keys, parse_objects, rows_batch
from panewise.connectors.options import STREAM_OPTIONS, ConnectorOption, boolean, read_options, single_character, text
from panewise.errors import ConnectorError

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 65_536
_BLOCK_BYTES = 8 << 20


class Source(Protocol):
    """Yields a stream's rows: Arrow batches, and lists of rows for texts that are not rows.

    The same options and `files` yield the same batches again. Further files yield further batches after these.
    """

    rows_total: int | None
    files: list[Path]

    def batches(self, files: list[Path] | None = None) -> Iterator[pa.RecordBatch | Rows]:
        """The batches of these files, or of all files of the source."""


FILE_OPTIONS = (ConnectorOption("path", text),)


class ParquetSource:
    """Reads only the declared columns. Knows its number of rows beforehand."""

    options = (*STREAM_OPTIONS, *FILE_OPTIONS)

    def __init__(self, stream: StreamDefinition) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        values = read_options(f"stream '{stream.name}'", stream.options, self.options)
        self._schema = stream.schema
        self._epoch = _optional_text(values["epoch"])
        self.files = files_of(str(values["path"]), ENDINGS["parquet"], f"stream '{stream.name}'")
        self.rows_total: int | None = 0
        for file in self.files:
            try:
                with pq.ParquetFile(file) as parquet:
                    self.rows_total += parquet.metadata.num_rows
                    matching_names(parquet.schema_arrow.names, self._schema, f"'{file}'")
            except (pa.ArrowInvalid, OSError) as error:
                raise _unreadable(file, error) from error

    def batches(self, files: list[Path] | None = None) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        for file in self.files if files is None else files:
            try:
                with pq.ParquetFile(file) as parquet:
                    columns = matching_names(parquet.schema_arrow.names, self._schema, f"'{file}'")
                    for batch in parquet.iter_batches(batch_size=BATCH_ROWS, columns=columns):
                        yield conform(batch, self._schema, f"'{file}'", self._epoch)
            except (pa.ArrowInvalid, OSError) as error:
                raise _unreadable(file, error) from error


class CsvSource:
    """Reads files with a header line or, without one, with the columns as declared. Compressed files are read too.

    An unquoted text equal to the option `null`, which is empty by default, is NULL.
    """

    options = (
        *STREAM_OPTIONS,
        *FILE_OPTIONS,
        ConnectorOption("delimiter", single_character, ","),
        ConnectorOption("header", boolean, True),
        ConnectorOption("null", text, ""),
    )

    def __init__(self, stream: StreamDefinition) -> None:
        values = read_options(f"stream '{stream.name}'", stream.options, self.options)
        self._schema = stream.schema
        self._timestamp = stream.timestamp
        self._epoch = _optional_text(values["epoch"])
        self._skip = values["on_bad_row"] == "skip"
        self._delimiter = str(values["delimiter"])
        self._null = str(values["null"])
        self._header = bool(values["header"])
        self.files = files_of(str(values["path"]), ENDINGS["csv"], f"stream '{stream.name}'")
        self.rows_total: int | None = None

    def batches(self, files: list[Path] | None = None) -> Iterator[pa.RecordBatch | Rows]:
        for file in self.files if files is None else files:
            yield from self._read(file)

    def _read(self, file: Path) -> Iterator[pa.RecordBatch | Rows]:
        import pyarrow as pa
        import pyarrow.csv as csv

        broken: list[str] = []

        def broken_line(line: csv.InvalidRow) -> str:
            broken.append(str(line.text))
            return "skip" if self._skip else "error"

        parse = csv.ParseOptions(delimiter=self._delimiter, invalid_row_handler=broken_line)
        try:
            declared = list(self._schema.names)
            columns = declared
            if self._header:
                columns = matching_names(_csv_header(file, self._delimiter), self._schema, f"'{file}'")
            # Every column is read as text, so that a value that does not convert reaches the engine unchanged.
            convert = csv.ConvertOptions(
                include_columns=columns,
                column_types=dict.fromkeys(columns, pa.string()),
                null_values=[self._null],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            )
            read = csv.ReadOptions(block_size=_BLOCK_BYTES, column_names=None if self._header else declared)
            with csv.open_csv(file, read_options=read, parse_options=parse, convert_options=convert) as reader:
                for block in reader:
                    for start in range(0, block.num_rows, BATCH_ROWS):
                        yield conform(block.slice(start, BATCH_ROWS), self._schema, f"'{file}'", self._epoch)
            if broken:
                yield broken_rows(broken, self._timestamp, self._schema.names)
        except (pa.ArrowInvalid, OSError) as error:
            raise _unreadable(file, error) from error


def _csv_header(file: Path, delimiter: str) -> list[str]:
    import pyarrow.csv as csv

    parse = csv.ParseOptions(delimiter=delimiter, invalid_row_handler=lambda line: "skip")
    with csv.open_csv(file, read_options=csv.ReadOptions(block_size=1 << 20), parse_options=parse) as reader:
        return list(reader.schema.names)


class JsonSource:
    """Reads one object per line. A missing key is NULL. Compressed files are read too."""

    options = (*STREAM_OPTIONS, *FILE_OPTIONS)

    def __init__(self, stream: StreamDefinition) -> None:
        values = read_options(f"stream '{stream.name}'", stream.options, self.options)
        self._schema = stream.schema
        self._timestamp = stream.timestamp
        self._epoch = _optional_text(values["epoch"])
        self._skip = values["on_bad_row"] == "skip"
        self.files = files_of(str(values["path"]), ENDINGS["json"], f"stream '{stream.name}'")
        self.rows_total: int | None = None

    def batches(self, files: list[Path] | None = None) -> Iterator[pa.RecordBatch | Rows]:
        import pyarrow as pa

        for file in self.files if files is None else files:
            try:
                with pa.input_stream(file, compression="detect") as stream:
                    yield from self._read(file, stream)
            except (pa.ArrowInvalid, OSError) as error:
                raise _unreadable(file, error) from error

    def _read(self, file: Path, stream: IO[bytes]) -> Iterator[pa.RecordBatch | Rows]:
        line_first = 1
        for block in _whole_lines(stream):
            lines = block.splitlines()
            for start in range(0, len(lines), BATCH_ROWS):
                number = line_first + start
                objects = parse_objects(lines[start : start + BATCH_ROWS], self._skip, "line", f"'{file}'", number)
                rows, broken = objects
                if number == 1 and rows:
                    check_keys(rows, self._schema, self._timestamp, f"'{file}'")
                if rows:
                    yield rows_batch(rows, self._schema, f"'{file}'", self._epoch)
                if broken:
                    yield broken_rows(broken, self._timestamp, self._schema.names)
            line_first += len(lines)


def _whole_lines(stream: IO[bytes]) -> Iterator[bytes]:
    """The stream's bytes in blocks that end where a line ends."""
    rest = b""
    while block := stream.read(_BLOCK_BYTES):
        end = block.rfind(b"\n") + 1
        if end:
            yield rest + block[:end]
            rest = block[end:]
        else:
            rest += block
    if rest:
        yield rest


def _optional_text(value: object) -> str | None:
    return None if value is None else str(value)


def _unreadable(file: Path, error: Exception) -> ConnectorError:
    return ConnectorError(f"'{file}' cannot be read: {error}")
