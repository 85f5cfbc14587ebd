"""Sources on Spark: the streaming DataFrame of a stream, and the decoder that turns what it gives into rows.

| connector          | Spark reads                          | decoder                              |
| ------------------ | ------------------------------------ | --------------------------------- |
| parquet, csv, json | the names of files                   | the embedded engine's readers     |
| kafka              | messages, with its jar or without it | a JSON object each                |
| socket             | lines                                | a JSON object each                |
| rate               | `timestamp`, `value`                 | as they are                       |
| delta              | rows                                 | as they are                       |
| generator, none    | the pipeline's inbox                 | pushed or generated rows          |

Files on another file system than this machine's are read by Spark itself; it reads Parquet and CSV by declared types.
"""

from __future__ import annotations

import glob
import re
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from panewise.catalog import StreamDefinition
from panewise.connectors.by_name import SOURCES
from panewise.connectors.files import ENDINGS, files_of
from panewise.connectors.options import (
    STREAM_OPTIONS,
    ConnectorOption,
    read_options,
    text,
    whole_number,
    written_option,
)
from panewise.errors import ConnectorError, did_you_mean
from panewise.schema import Schema
from panewise.spark.environment.data_sources import check_delta
from panewise.spark.ingest.row_decoders import (
    SPARK_FILE_OPTIONS,
    FileDecoder,
    FrameDecoder,
    RowDecoder,
    TextDecoder,
    local_path,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

FILES = ENDINGS
CONNECTORS = (*FILES, "kafka", "socket", "rate", "delta", "generator")
INBOX = (None, "memory", "generator")  # connectors whose rows come through the inbox
_FILE_LISTING = "path string, modificationTime timestamp, length long, content binary"


def connector_of(stream: StreamDefinition) -> str | None:
    written = written_option(stream.options, "connector")
    return None if written is None else str(written).lower()


def check_source(stream: StreamDefinition) -> None:
    """Checks connector and options before anything is started; ConnectorError if they are wrong."""
    name = connector_of(stream)
    owner = f"stream '{stream.name}'"
    if name is None or name == "memory":
        read_options(owner, stream.options, STREAM_OPTIONS)
    elif name in FILES:
        read_options(owner, stream.options, _file_options(name))
    elif name == "generator":
        SOURCES["generator"](stream)
    elif name in ("socket", "rate", "delta"):
        read_options(owner, stream.options, _OPTIONS[name])
    elif name == "kafka":
        from panewise.spark.kafka.kafka_source import read_kafka_options

        read_kafka_options(stream)
    else:
        raise ConnectorError(f"{owner} wants an unknown connector '{name}'", hint=did_you_mean(name, CONNECTORS))


def source_frame(
    spark: SparkSession, stream: StreamDefinition, name: str | None, needed: Schema
) -> tuple[DataFrame, RowDecoder]:
    """The streaming DataFrame of a stream with a connector; `name` names its source in the checkpoint."""
    connector = connector_of(stream)
    owner = f"stream '{stream.name}'"
    reader = spark.readStream if name is None else spark.readStream.name(name)
    if connector in FILES:
        return _files(reader, stream, connector, needed)
    if connector == "kafka":
        from panewise.spark.kafka.kafka_source import kafka_stream

        return kafka_stream(spark, stream, reader).select("value"), TextDecoder("value")
    assert connector is not None
    values: dict[str, Any] = read_options(owner, stream.options, _OPTIONS[connector])
    if connector == "socket":
        reader = reader.format("socket").option("host", values["host"]).option("port", values["port"])
        return reader.load(), TextDecoder("value")
    if connector == "rate":
        reader = reader.format("rate").option("rowsPerSecond", values["rows_per_second"])
        return reader.load(), FrameDecoder()
    check_delta(spark, owner)
    return reader.format("delta").load(str(values["path"])).select(*_columns(needed)), FrameDecoder()


def _files(
    reader: DataStreamReader, stream: StreamDefinition, connector: str, needed: Schema
) -> tuple[DataFrame, RowDecoder]:
    values: dict[str, Any] = read_options(f"stream '{stream.name}'", stream.options, _file_options(connector))
    if values["max_files_per_trigger"] is not None:
        reader = reader.option("maxFilesPerTrigger", values["max_files_per_trigger"])
    path = str(values["path"])
    if "://" in path and not path.startswith("file:"):
        if connector == "json":
            return reader.text(path), TextDecoder("value")
        ddl = ", ".join(f"`{column.name}` {column.type}" for column in stream.schema)
        reader = reader.schema(ddl)
        frame = reader.parquet(path) if connector == "parquet" else reader.csv(path, header=values["header"])
        return frame.select(*_columns(needed)), FrameDecoder()
    folder, pattern = _place(local_path(path), connector, stream)
    reader = reader.format("binaryFile").schema(_FILE_LISTING).option("recursiveFileLookup", "true")
    if pattern is not None:
        reader = reader.option("pathGlobFilter", pattern)
    return reader.load(folder).select("path"), FileDecoder(connector)


def _place(path: str, connector: str, stream: StreamDefinition) -> tuple[str, str | None]:
    """The folder or glob that Spark watches, and the pattern of file names in it."""
    place = Path(path)
    if place.is_dir():
        endings = ",".join(ending + packed for ending in FILES[connector] for packed in ("", ".gz", ".bz2", ".zst"))
        return str(place.absolute()), "*{" + endings + "}"
    if place.is_file():
        # A glob that only this file matches: a name filter on the folder would match files in its subfolders too.
        return f"{_escaped(str(place.absolute().parent))}/{{{_escaped(place.name)}}}", None
    if glob.has_magic(path):
        return str(place.absolute()), None
    files_of(path, FILES[connector], f"stream '{stream.name}'")  # raises, with what exists
    raise AssertionError(path)


def _escaped(name: str) -> str:
    return re.sub(r"([\\*?{}\[\]^,])", r"\\\1", name)


def _columns(schema: Schema) -> list[str]:
    return [f"`{column.name}`" for column in schema]


def source_name(key: str) -> str:
    """The name of a source in the checkpoint. A stream that is dropped and created anew has another key, and name."""
    plain = re.sub(r"\W", "_", key, flags=re.ASCII)
    return f"{plain}_{zlib.crc32(key.encode()):08x}"


def _file_options(connector: str) -> tuple[ConnectorOption, ...]:
    spark_only = tuple(ConnectorOption(name, whole_number(1), None) for name in SPARK_FILE_OPTIONS)
    return (*SOURCES[connector].options, *spark_only)  # type: ignore[attr-defined]


_OPTIONS: dict[str, tuple[ConnectorOption, ...]] = {
    "socket": (*STREAM_OPTIONS, ConnectorOption("host", text, "127.0.0.1"), ConnectorOption("port", whole_number(1))),
    "rate": (*STREAM_OPTIONS, ConnectorOption("rows_per_second", whole_number(1), 1)),
    "delta": (*STREAM_OPTIONS, ConnectorOption("path", text)),
}
