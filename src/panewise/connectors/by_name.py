"""Finds, checks and opens connectors by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from panewise.catalog import Definition, SinkDefinition, StreamDefinition
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

# Connectors that only Spark has.
SPARK_ONLY = ("delta", "iceberg", "jdbc", "kafka", "kinesis", "memory", "orc", "rate", "socket")
DATAFRAME = "dataframe"  # connector of streams that are passed to a pipeline as DataFrames
SPARK_SINKS = ("delta", "jdbc", "kafka", "memory", "postgresql")
SPARK_OPTIONS = ("max_files_per_trigger",)  # options that Spark adds to sources that the engine has too


def open_source(stream: StreamDefinition) -> Source | None:
    """The source of a stream, with its options checked. None for a stream without a connector: rows are pushed."""
    name = written_option(stream.options, "connector")
    if name is None:
        read_options(f"stream '{stream.name}'", stream.options, STREAM_OPTIONS)
        return None
    source = SOURCES.get(str(name).lower())
    if source is None:
        raise _unknown(f"stream '{stream.name}'", str(name), SOURCES)
    return source(stream)


def is_for_spark(definition: Definition) -> bool:
    """Whether it is a stream or sink whose connector only Spark has."""
    if not isinstance(definition, StreamDefinition | SinkDefinition):
        return False
    names = SPARK_ONLY if isinstance(definition, StreamDefinition) else SPARK_SINKS
    return str(written_option(definition.options, "connector")).lower() in names


def check_source(stream: StreamDefinition) -> None:
    """Raises ConnectorError for an unknown connector, or a wrong option of a known one. Opens nothing.

    Connectors and options that only Spark has are accepted; the engine refuses them when it opens the source.
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
    """Raises ConnectorError for an unknown connector of a sink, or a wrong option. Opens nothing."""
    name = written_option(sink.options, "connector")
    if name is not None and str(name).lower() in SPARK_SINKS:
        return
    options = {"parquet": ParquetSink.options, "json": JsonSink.options, "console": ConsoleSink.options}
    read_options(f"sink '{sink.name}'", sink.options, options[_sink_connector(sink)])


def open_sink(sink: SinkDefinition, print_table: PrintTable) -> Sink:
    """The sink, with its options checked. A console sink prints with `print_table(title, table, rows)`."""
    match _sink_connector(sink):
        case "parquet":
            return ParquetSink(sink)
        case "json":
            return JsonSink(sink)
        case _:
            return ConsoleSink(sink, print_table)


def open_numbered_sink(sink: SinkDefinition, print_table: PrintTable, keep: Path | None) -> NumberedSink:
    """The sink for a caller that numbers its rows. `keep`: the durable folder for the sink's state, if any."""
    if keep is None:
        return CountedSink(open_sink(sink, print_table))
    match _sink_connector(sink):
        case "parquet":
            return NumberedParquet(sink, keep)
        case "json":
            return NumberedJson(sink, keep)
        case _:
            # Printed rows cannot be taken back, so after a fault rows may be printed again.
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
