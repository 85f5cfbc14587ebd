"""The user's session stays as it is: what a pipeline needs is set around the start of its own query, and put back.

Spark gives a streaming query a copy of the session's settings when it starts, so that settings put back afterwards do
not touch it.
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

# The only state store that transformWithState accepts, and changelogs, which make a commit as small as its change.
STATE_SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Only a metric of Spark's, and every write would read for it first.
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # A trigger without data must not run: time moves by rows and punctuations alone.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}
PARTITIONS_MAX = 64
START_TRIES = 12
SOCKET_TIMEOUT = "2m"  # until two processes of Spark have shaken hands; Spark's own 15 s are few where others are busy


def prepare_python() -> None:
    """Before a JVM starts: its Python workers must run this interpreter, whatever `python3` on the PATH is."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def own_session() -> SparkSession:
    """The session that is there, or a new local one."""
    prepare_python()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("panewise")
    return builder.config("spark.python.authenticate.socketTimeout", SOCKET_TIMEOUT).getOrCreate()


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """The session with these settings; afterwards with its own again."""
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
    """Starts a query, again where a busy server gave up: through Connect it starts a Python process for foreachBatch
    first and waits ten seconds for it, no longer. Nothing has begun then."""
    from pyspark.errors import PySparkException

    for _ in range(START_TRIES - 1):
        try:
            return stream.start()
        except PySparkException as problem:
            if not came_too_late(problem):
                raise
    return stream.start()


def came_too_late(problem: Exception) -> bool:
    """Whether Spark gave up on a Python process that it had started: on a busy machine ten seconds may be too few, and
    they are fixed. Nothing of a micro-batch has run then."""
    return "to connect back" in str(problem)


@contextmanager
def _worker_python(spark: SparkSession) -> Iterator[None]:
    """On this machine, workers run this interpreter, also where the session was made without saying so."""
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
    """As many as Spark runs tasks at once, within reason; asked for in a way that Spark Connect knows too."""
    from pyspark.sql.functions import spark_partition_id

    used = spark.range(0, 100_000).select(spark_partition_id().alias("p")).distinct().count()
    return max(1, min(used, PARTITIONS_MAX))


def check_version(spark: SparkSession) -> None:
    major, minor = (int(part) for part in spark.version.split(".")[:2])
    if (major, minor) < (4, 3):
        raise ConnectorError(f"panewise needs Spark 4.3 or later; the session is of {spark.version}")
