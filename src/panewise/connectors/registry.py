"""Connectors by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from panewise.catalog import SinkDefinition, StreamDefinition
from panewise.connectors.generator import GeneratorSource
from panewise.connectors.options import STREAM_OPTIONS, read_options, written_option
from panewise.connectors.sinks import ConsoleSink, JsonSink, ParquetSink, Sink
from panewise.connectors.sources import CsvSource, JsonSource, ParquetSource, Source
from panewise.errors import ConnectorError, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

SOURCES: dict[str, Callable[[StreamDefinition], Source]] = {
    "parquet": ParquetSource,
    "csv": CsvSource,
    "json": JsonSource,
    "generator": GeneratorSource,
}
SINKS = ("parquet", "json", "console")

# Connectors that only Spark brings.
SPARK_ONLY = ("delta", "iceberg", "jdbc", "kafka", "kinesis", "orc", "rate", "socket")


def open_source(stream: StreamDefinition) -> Source | None:
    """The source of a stream, its options checked; None for a stream without a connector, which is pushed to."""
    name = written_option(stream.options, "connector")
    if name is None:
        read_options(f"stream '{stream.name}'", stream.options, STREAM_OPTIONS)
        return None
    source = SOURCES.get(str(name).lower())
    if source is None:
        raise _unknown(f"stream '{stream.name}'", str(name), SOURCES)
    return source(stream)


def open_sink(sink: SinkDefinition, print_table: Callable[[str, pa.Table, int], None]) -> Sink:
    """The sink, its options checked; `print_table(title, table, rows)` is what a console sink prints with."""
    name = written_option(sink.options, "connector")
    match str(name).lower():
        case "parquet":
            return ParquetSink(sink)
        case "json":
            return JsonSink(sink)
        case "console":
            return ConsoleSink(sink, print_table)
    if name is None:
        raise ConnectorError(f"sink '{sink.name}' needs the option 'connector'", hint=f"one of {', '.join(SINKS)}")
    raise _unknown(f"sink '{sink.name}'", str(name), SINKS)


def _unknown(
    owner: str, name: str, known: dict[str, Callable[[StreamDefinition], Source]] | tuple[str, ...]
) -> ConnectorError:
    if name.lower() in SPARK_ONLY:
        return ConnectorError(
            f"{owner} wants the connector '{name}', which only Spark has",
            hint=f"the embedded engine has {', '.join(known)}",
        )
    return ConnectorError(f"{owner} wants an unknown connector '{name}'", hint=did_you_mean(name, known))
