"""A query's results as an ordinary streaming DataFrame: its part of the result log, unpacked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from panewise.schema import Schema
from panewise.spark.environment.folder import Folder
from panewise.spark.results.batch_log import LOG_TYPE
from panewise.spark.tasks.packing import RESULT, batches_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def result_frame(spark: SparkSession, folder: Folder, query: str, schema: Schema) -> DataFrame:
    """The streaming DataFrame of a query's results, by its name in the log; each result appears once."""
    from pyspark.sql.functions import col

    def opened(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for payload in batch.column(0):
                yield from batches_of(payload.as_buffer())

    log = spark.readStream.schema(LOG_TYPE).option("pathGlobFilter", "*.parquet").parquet(folder.path("results"))
    own = log.where((col("kind") == RESULT) & (col("name") == query)).select("payload")
    return own.mapInArrow(opened, spark_type(schema))


def spark_type(schema: Schema) -> str:
    """The schema as Spark writes it.

    >>> from panewise.schema import BIGINT
    >>> from panewise.schema import Column as C
    >>> spark_type(Schema((C("n", BIGINT),)))
    '`n` BIGINT'
    """
    return ", ".join("`" + column.name.replace("`", "``") + "` " + str(column.type) for column in schema)
