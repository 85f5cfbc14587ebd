"""Which data sources a Spark session has. Works through Spark Connect too, where there is no sparkContext."""

from __future__ import annotations

from typing import TYPE_CHECKING

from panewise.errors import ConnectorError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Error conditions, because the class of the exception depends on the source and the kind of session.
_ABSENT = ("DATA_SOURCE_NOT_FOUND", "KAFKA_DATA_SOURCE_NOT_ENABLED")


def has_data_source(spark: SparkSession, name: str) -> bool:
    """Whether the session has a data source of that name, or lacks its jar. Analyses a plan, and reads nothing."""
    try:
        spark.read.format(name).load("panewise-looks-whether-there-is-such-a-source").schema  # noqa: B018
    except Exception as error:  # noqa: BLE001 - an existing source complains about its options or the path
        return not any(condition in str(error) for condition in _ABSENT)
    return True


def check_delta(spark: SparkSession, owner: str) -> None:
    """ConnectorError if the session does not have Delta Lake; `owner` begins the message."""
    if not has_data_source(spark, "delta"):
        series = ".".join(spark.version.split(".")[:2])
        raise ConnectorError(
            f"{owner} needs Delta Lake, which this session does not have",
            hint=f"give the session the package io.delta:delta-spark_{series}_2.13 (spark.jars.packages), in a version "
            "for that Spark, and Delta's extension and catalog",
        )
