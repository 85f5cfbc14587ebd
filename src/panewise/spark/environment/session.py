"""Spark sessions: settings of the user's session are changed only while a pipeline's query starts.

Spark gives a streaming query a copy of the session's settings at its start, so restoring them afterwards does not
change the query.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from panewise.errors import ConnectorError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

# transformWithState accepts only this state store. Changelogs make a commit as small as its change.
STATE_SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # The number is only a metric, and counting costs a read before every write.
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # No micro-batches without data: only rows and punctuations move time.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}
PARTITIONS_MAX = 64
START_TRIES = 12
SOCKET_TIMEOUT = "2m"  # for two processes of Spark to connect; Spark's own 15 s are too short on a busy machine


def prepare_python() -> None:
    """Call before a JVM starts. Makes its Python workers run this interpreter, whatever `python3` is on the PATH."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def own_session() -> SparkSession:
    """The active session, or a new local one."""
    prepare_python()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("panewise")
    return builder.config("spark.python.authenticate.socketTimeout", SOCKET_TIMEOUT).getOrCreate()


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Changes settings of the session for the body of a `with`, and restores them afterwards."""
    before = {name: spark.conf.get(name, None) for name in values}
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        with _worker_python(spark):
            yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def started(stream: DataStreamWriter) -> StreamingQuery:
    """Starts a query, and tries again if Spark gave up on a Python process.

    Through Connect, the server first starts a Python process for foreachBatch, and waits only ten seconds for it.
    """
    from pyspark.errors import PySparkException

    for _ in range(START_TRIES - 1):
        try:
            return stream.start()
        except PySparkException as problem:
            if not came_too_late(problem):
                raise
    return stream.start()


def came_too_late(problem: Exception) -> bool:
    """Whether Spark gave up on a Python process that it had started. Nothing of the micro-batch has run then.

    Spark waits ten seconds, which may be too short on a busy machine and cannot be changed.
    """
    return "to connect back" in str(problem)


@contextmanager
def _worker_python(spark: SparkSession) -> Iterator[None]:
    """Makes local workers run this interpreter, also if the session was made without `prepare_python`."""
    context: Any = None if is_connect(spark) else spark.sparkContext
    if context is None or "PYSPARK_PYTHON" in os.environ or not context.master.startswith("local"):
        yield
        return
    before = context.pythonExec
    context.pythonExec = sys.executable
    try:
        yield
    finally:
        context.pythonExec = before


def is_connect(spark: SparkSession) -> bool:
    return "connect" in type(spark).__module__


def default_partitions(spark: SparkSession) -> int:
    """The number of tasks that Spark runs at once, at most PARTITIONS_MAX; works through Spark Connect too."""
    from pyspark.sql.functions import spark_partition_id

    used = spark.range(0, 100_000).select(spark_partition_id().alias("p")).distinct().count()
    return max(1, min(used, PARTITIONS_MAX))


def check_version(spark: SparkSession) -> None:
    major, minor = (int(part) for part in spark.version.split(".")[:2])
    if (major, minor) < (4, 3):
        raise ConnectorError(f"panewise needs Spark 4.3 or later; the session has {spark.version}")
