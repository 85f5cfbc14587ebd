"""Which data sources a Spark session has, without its sparkContext: the same through Spark Connect."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Error conditions; their exceptions have several classes, by source and by whether the session is a Connect one.
_ABSENT = ("DATA_SOURCE_NOT_FOUND", "KAFKA_DATA_SOURCE_NOT_ENABLED")


def has_data_source(spark: SparkSession, name: str) -> bool:
    """Whether the session finds a data source of that name, whose jar may be missing. Analyses, reads nothing."""
    try:
        spark.read.format(name).load("panewise-looks-whether-there-is-such-a-source").schema  # noqa: B018
    except Exception as error:  # noqa: BLE001 - a source that is there complains of its options or of the path
        return not any(condition in str(error) for condition in _ABSENT)
    return True
