"""Connectors by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from panewise.catalog import SinkDefinition, StreamDefinition
from panewise.connectors.generator import GeneratorSource
from panewise.connectors.numbered_sinks import CountedSink, NumberedJson, NumberedParquet, NumberedSink
from panewise.connectors.options import STREAM_OPTIONS, ConnectorOption, read_options, written_option
from panewise.connectors.sinks import ConsoleSink, JsonSink, ParquetSink, PrintTable, Sink
from panewise.connectors.sources import CsvSource, JsonSource, ParquetSource, Source
from panewise.errors import ConnectorError, did_you_mean

SOURCES: dict[str, Callable[[StreamDefinition], Source]] = {
    "parquet": ParquetSource,
    "csv": CsvSource,
    "json": JsonSource,
    "generator": GeneratorSource,
}
SINKS = ("parquet", "json", "console")

# Connectors that only Spark brings.
SPARK_ONLY = ("delta", "iceberg", "jdbc", "kafka", "kinesis", "memory", "orc", "rate", "socket")
DATAFRAME = "dataframe"  # of streams that a pipeline was given as DataFrames
SPARK_SINKS = ("delta", "iceberg", "jdbc", "kafka", "kinesis", "memory", "orc", "postgresql")
SPARK_OPTIONS = ("max_files_per_trigger",)  # of sources that the engine has too


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


def check_source(stream: StreamDefinition) -> None:
    """ConnectorError where a connector does not exist, or an option of one that is known here; opens nothing.

    A connector or an option that only Spark has passes: the engine says so when it would read.
    """
    name, owner = written_option(stream.options, "connector"), f"stream '{stream.name}'"
    connector = None if name is None else str(name).lower()
    if connector in (None, DATAFRAME, *SPARK_ONLY):
        return
    if connector not in SOURCES:
        raise _unknown(owner, str(name), (*SOURCES, *SPARK_ONLY))
    known: tuple[ConnectorOption, ...] = SOURCES[connector].options  # type: ignore[attr-defined]
    read_options(owner, tuple(o for o in stream.options if o[0].lower() not in SPARK_OPTIONS), known)


def check_sink(sink: SinkDefinition) -> None:
    """The same of a sink."""
    name = written_option(sink.options, "connector")
    if name is not None and str(name).lower() in SPARK_SINKS:
        return
    options = {"parquet": ParquetSink.options, "json": JsonSink.options, "console": ConsoleSink.options}
    read_options(f"sink '{sink.name}'", sink.options, options[_sink_connector(sink)])


def open_sink(sink: SinkDefinition, print_table: PrintTable) -> Sink:
    """The sink, its options checked; `print_table(title, table, rows)` is what a console sink prints with."""
    match _sink_connector(sink):
        case "parquet":
            return ParquetSink(sink)
        case "json":
            return JsonSink(sink)
        case _:
            return ConsoleSink(sink, print_table)


def open_numbered_sink(sink: SinkDefinition, print_table: PrintTable, keep: Path | None) -> NumberedSink:
    """The same for who has numbers of rows. `keep`: the folder, if there is one, in which it outlives the process."""
    if keep is None:
        return CountedSink(open_sink(sink, print_table))
    match _sink_connector(sink):
        case "parquet":
            return NumberedParquet(sink, keep)
        case "json":
            return NumberedJson(sink, keep)
        case _:
            # What was printed stays printed: after a fault rows may be shown again.
            return CountedSink(ConsoleSink(sink, print_table))


def _sink_connector(sink: SinkDefinition) -> str:
    name = written_option(sink.options, "connector")
    if name is None:
        raise ConnectorError(f"sink '{sink.name}' needs the option 'connector'", hint=f"one of {', '.join(SINKS)}")
    if str(name).lower() not in SINKS:
        raise _unknown(f"sink '{sink.name}'", str(name), SINKS)
    return str(name).lower()


def _unknown(
    owner: str, name: str, known: dict[str, Callable[[StreamDefinition], Source]] | tuple[str, ...]
) -> ConnectorError:
    if name.lower() in SPARK_ONLY:
        return ConnectorError(
            f"{owner} wants the connector '{name}', which only Spark has",
            hint=f"the embedded engine has {', '.join(known)}",
        )
    return ConnectorError(f"{owner} wants an unknown connector '{name}'", hint=did_you_mean(name, known))
