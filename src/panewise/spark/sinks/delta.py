"""Delta sinks: appends to a Delta table by the session's own Delta Lake.

Exactly once by Delta's transaction identifiers: every append carries `txnAppId` (checkpoint and sink) and `txnVersion`
(the batch), and Delta skips a version that the table has seen. Cost: a small Spark job for each sink and batch. Not
tested, because the wheel of pyspark has no Delta, and no jar can be fetched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from panewise.connectors.options import CONNECTOR, ConnectorOption, read_options, text
from panewise.spark.environment.data_sources import check_delta
from panewise.spark.sinks.sink_kind import SinkTarget, Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OPTIONS = (CONNECTOR, ConnectorOption("path", text))


class DeltaSinks:
    """See the module."""

    def __init__(self, checkpoint_id: str) -> None:
        self._checkpoint_id = checkpoint_id

    def check(self, targets: Sequence[SinkTarget], spark: SparkSession | None = None) -> None:
        for target in targets:
            read_options(target.owner, target.options, _OPTIONS)
            if spark is not None:
                check_delta(spark, target.owner)

    def prepare(self, targets: Sequence[SinkTarget], first_batch: int) -> None:
        """Does nothing: tables are appended to, and the first append creates them."""

    def write(self, batch_id: int, tables: Tables, spark: SparkSession | None) -> None:
        assert spark is not None
        for target, table in tables:
            if not table.num_rows:
                continue
            path = str(read_options(target.owner, target.options, _OPTIONS)["path"])
            writer = spark.createDataFrame(table).write.format("delta").mode("append")
            writer = writer.option("txnAppId", f"panewise/{self._checkpoint_id}/{target.name}")
            writer.option("txnVersion", batch_id).save(path)
