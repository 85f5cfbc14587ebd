"""Finds the kinds of sinks by their connectors."""

from __future__ import annotations

from collections.abc import Sequence

from panewise.connectors.options import written_option
from panewise.errors import ConnectorError, did_you_mean
from panewise.spark.sinks.console import ConsoleSinks
from panewise.spark.sinks.delta import DeltaSinks
from panewise.spark.sinks.jdbc import JdbcSinks
from panewise.spark.sinks.json import JsonSinks
from panewise.spark.sinks.kafka import KafkaSinks
from panewise.spark.sinks.memory import MemorySinks
from panewise.spark.sinks.parquet import ParquetSinks
from panewise.spark.sinks.sink_kind import PrintTable, SinkKind, SinkTarget

CONNECTORS = ("parquet", "json", "console", "memory", "kafka", "delta", "jdbc")


def sink_kinds(
    targets: Sequence[SinkTarget], checkpoint_id: str, print_table: PrintTable
) -> list[tuple[SinkKind, list[SinkTarget]]]:
    """The kinds that the targets need, each with its targets; ConnectorError for an unknown connector.

    Console sinks print with `print_table`, which must be picklable for Spark Connect.
    """
    by_connector: dict[str, list[SinkTarget]] = {}
    for target in targets:
        by_connector.setdefault(_connector(target), []).append(target)
    return [(_kind(name, checkpoint_id, print_table), found) for name, found in by_connector.items()]


def _connector(target: SinkTarget) -> str:
    written = written_option(target.options, "connector")
    if written is None:
        raise ConnectorError(f"{target.owner} needs the option 'connector'", hint=f"one of {', '.join(CONNECTORS)}")
    name = str(written).lower()
    if name == "postgresql":
        return "jdbc"
    if name not in CONNECTORS:
        raise ConnectorError(
            f"{target.owner} wants an unknown connector '{written}'", hint=did_you_mean(name, CONNECTORS)
        )
    return name


def _kind(connector: str, checkpoint_id: str, print_table: PrintTable) -> SinkKind:
    match connector:
        case "parquet":
            return ParquetSinks(checkpoint_id)
        case "json":
            return JsonSinks(checkpoint_id)
        case "console":
            return ConsoleSinks(print_table)
        case "memory":
            return MemorySinks(checkpoint_id)
        case "kafka":
            return KafkaSinks(checkpoint_id)
        case "delta":
            return DeltaSinks(checkpoint_id)
    return JdbcSinks(checkpoint_id)
