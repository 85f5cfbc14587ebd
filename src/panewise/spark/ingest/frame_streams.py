"""A user's streaming DataFrame as a stream: its columns of types that panewise knows, and its event time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from panewise.catalog import StreamDefinition
from panewise.errors import ConnectorError
from panewise.schema import Column, Schema, from_arrow
from panewise.temporal import duration_us

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def stream_of_frame(
    frame: DataFrame, name: str, timestamp: str, watermark: str | None, options: Mapping[str, str]
) -> StreamDefinition:
    """The definition of a stream over the DataFrame; ConnectorError where it is not streaming or has no event time."""
    if not frame.isStreaming:
        raise ConnectorError(
            f"the DataFrame of stream '{name}' is not a streaming one", hint="make it with spark.readStream"
        )
    schema = _schema_of(frame, name, timestamp)
    delay_us = duration_us(watermark) if watermark is not None else 0
    return StreamDefinition(name, schema, timestamp, delay_us, (("connector", "dataframe"), *sorted(options.items())))


def _schema_of(frame: DataFrame, name: str, timestamp: str) -> Schema:
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import TimestampNTZType, TimestampType

    columns = []
    for field in frame.schema.fields:
        try:
            arrow = to_arrow_type(field.dataType, timezone="UTC")
        except Exception:  # noqa: BLE001 - a type that Arrow does not know
            continue
        found = from_arrow(arrow)
        if found is not None:
            columns.append(Column(field.name, found))
    of_time = next((f for f in frame.schema.fields if f.name.lower() == timestamp.lower()), None)
    if of_time is None or not isinstance(of_time.dataType, TimestampType | TimestampNTZType):
        found_type = "there is none" if of_time is None else f"it is {of_time.dataType.simpleString()}"
        raise ConnectorError(
            f"stream '{name}' needs a timestamp column '{timestamp}': {found_type}",
            hint=f"the DataFrame has {', '.join(frame.columns)}",
        )
    return Schema(tuple(columns))
