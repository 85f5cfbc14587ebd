"""Decoders: how a worker turns what Spark gives it into rows of a stream.

A user's DataFrame comes as Arrow batches. Of files, Spark gives only the paths: the worker reads them with the embedded
engine's readers, so that a file means the same on both hosts and rows never become JVM objects. Texts (Kafka, a socket)
are one JSON object each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from panewise.catalog import StreamDefinition
from panewise.connectors.by_name import SOURCES
from panewise.connectors.options import epoch_of

Piece: TypeAlias = pa.RecordBatch | list[dict[str, Any]]


@dataclass(frozen=True)
class Wanted:
    """What a decoder should deliver: rows of the whole stream, or only the columns that its queries need."""

    whole: StreamDefinition
    needed: StreamDefinition
    place: Place


@dataclass
class Place:
    """The file that the last piece came from, and the number of its rows before the piece; empty without a file."""

    file: str = ""
    rows_before: int = 0


class RowDecoder(Protocol):
    """Turns batches of Spark into pieces of rows. Picklable, because it is sent to the workers."""

    def pieces(self, batch: pa.RecordBatch, wanted: Wanted) -> Iterator[Piece]: ...


@dataclass(frozen=True)
class FrameDecoder:
    """Rows of a DataFrame, unchanged."""

    def pieces(self, batch: pa.RecordBatch, wanted: Wanted) -> Iterator[Piece]:
        yield batch


@dataclass(frozen=True)
class FileDecoder:
    """Paths of files in one of the embedded engine's formats."""

    format: str

    def pieces(self, batch: pa.RecordBatch, wanted: Wanted) -> Iterator[Piece]:
        # Text formats are read with all columns: whether a row is bad must not depend on the queries.
        definition = wanted.needed if self.format == "parquet" else wanted.whole
        for path in batch.column(0).to_pylist():
            wanted.place.file, wanted.place.rows_before = local_path(path), 0
            for piece in SOURCES[self.format](_of_file(definition, local_path(path))).batches():
                yield piece
                wanted.place.rows_before += len(piece)


@dataclass(frozen=True)
class TextDecoder:
    """JSON objects, one for each value of a column."""

    column: str

    def pieces(self, batch: pa.RecordBatch, wanted: Wanted) -> Iterator[Piece]:
        from panewise.connectors.json_rows import decode_json

        stream = wanted.whole
        options = dict(stream.options)
        yield from decode_json(
            batch.column(self.column).cast(pa.binary()),
            stream.schema,
            stream.timestamp,
            skip=options.get("on_bad_row") == "skip",
            epoch=epoch_of(stream.options),
            place=f"stream '{stream.name}'",
        )


def local_path(path: str) -> str:
    """The path of a file on this machine, as Spark names it: `file:/data/a b.parquet`, nothing escaped."""
    return re.sub("^file:/+", "/", path)


def _of_file(definition: StreamDefinition, file: str) -> StreamDefinition:
    """The stream as if this were its only file."""
    own = ("path", "connector", *SPARK_FILE_OPTIONS)
    options = [(name, value) for name, value in definition.options if name.lower() not in own]
    return replace(definition, options=(("path", file), *options))


# Options of file sources that only Spark uses.
SPARK_FILE_OPTIONS = ("max_files_per_trigger",)
