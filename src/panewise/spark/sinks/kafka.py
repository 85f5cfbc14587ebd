"""Kafka sinks: one message per row, its value a JSON object, its key the JSON object of its group columns.

Through confluent-kafka, exactly once for readers with `isolation.level = read_committed`:

    1  Note where each topic ends, and the batch's number, as committed offsets of a consumer group of the checkpoint.
    2  Write the batch's messages for all sinks of the cluster in one transaction, each with the batch in a header.
    3  If a batch is repeated, search from the noted offsets for a message with its header. One is enough, because
       transactions are atomic: if there is one, the batch is skipped; otherwise step 2 runs again.

The transactional id is fixed by checkpoint and cluster. So a new producer ends the open transaction of a dead one
before step 3, and fences a driver that was believed dead. The note is kept as long as the brokers keep offsets of a
group without members (`offsets.retention.minutes`, by default seven days): a pipeline that is restarted later than that
after a crash may write its last batch twice.

Without confluent-kafka, Spark's own writer is used if the session has its jar: at least once. After a crash the last
batch may be written twice; both copies have the same header. (Not tested: no jar here.)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from panewise.connectors.options import CONNECTOR, read_options
from panewise.connectors.sinks import json_lines
from panewise.errors import ConnectorError
from panewise.spark.kafka.kafka_client import (
    CLUSTER_OPTIONS,
    HOW_TO_GET,
    TIMEOUT_SECONDS,
    Cluster,
    cluster_of,
    has_confluent_kafka,
    partitions_of,
    received,
)
from panewise.spark.kafka.kafka_source import has_kafka_jar
from panewise.spark.sinks.sink_kind import SinkTarget, Tables

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import Message, TopicPartition
    from pyspark.sql import SparkSession

HEADER = "panewise"
_OPTIONS = (CONNECTOR, *CLUSTER_OPTIONS)
_SCAN_MESSAGES = 500


class KafkaSinks:
    """See the module."""

    def __init__(self, checkpoint_id: str) -> None:
        self._checkpoint_id = checkpoint_id
        self._writers: dict[Cluster, TransactionalWriter] = {}

    def __getstate__(self) -> dict[str, object]:
        return {"_checkpoint_id": self._checkpoint_id, "_writers": {}}

    def check(self, targets: Sequence[SinkTarget], spark: SparkSession | None = None) -> None:
        for target in targets:
            _place(target)
            if not has_confluent_kafka() and (spark is None or not has_kafka_jar(spark)):
                raise ConnectorError(f"{target.owner} needs confluent-kafka", hint=HOW_TO_GET)

    def prepare(self, targets: Sequence[SinkTarget], first_batch: int) -> None:
        """Does nothing: topics are appended to, and the broker or its owner creates them."""

    def write(self, batch_id: int, tables: Tables, spark: SparkSession | None) -> None:
        by_cluster: dict[Cluster, list[tuple[str, SinkTarget, pa.Table]]] = {}
        for target, table in tables:
            if table.num_rows:
                cluster, topic = _place(target)
                by_cluster.setdefault(cluster, []).append((topic, target, table))
        for cluster, written in by_cluster.items():
            if not has_confluent_kafka():
                assert spark is not None
                _write_with_spark(cluster, written, self._header(batch_id), spark)
                continue
            writer = self._writers.pop(cluster, None) or TransactionalWriter(cluster, self._identity(cluster))
            writer.write(batch_id, self._header(batch_id), written)
            # Kept only after success: a writer that has failed may be fenced for good.
            self._writers[cluster] = writer

    def _identity(self, cluster: Cluster) -> str:
        """The transactional id, one for each cluster: two producers with the same id would fence each other."""
        # Brokers know the id from earlier runs, so its words must stay, whatever is renamed in the code.
        text = (
            f"Cluster(bootstrap={cluster.bootstrap!r}, properties={cluster.properties!r}, "
            f"properties_file={cluster.properties_file!r})"
        )
        return f"panewise-{self._checkpoint_id}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    def _header(self, batch_id: int) -> bytes:
        return f"{self._checkpoint_id}/{batch_id}".encode()


class TransactionalWriter:
    """Writes batches to one cluster, each in one transaction, and skips a batch that is there already."""

    def __init__(self, cluster: Cluster, identity: str) -> None:
        from confluent_kafka import Consumer, KafkaException, Producer

        self._producer = Producer(cluster.settings(transactional_id=identity, linger_ms=20))
        self._consumer = Consumer(
            cluster.settings(
                group_id=identity,
                enable_auto_commit=False,
                isolation_level="read_committed",
                enable_partition_eof=True,
                auto_offset_reset="earliest",
            )
        )
        self._batch_last: int | None = None
        try:
            self._producer.init_transactions(TIMEOUT_SECONDS)
        except KafkaException as error:
            raise ConnectorError(f"the Kafka cluster cannot be reached: {error.args[0].str()}") from error

    def write(self, batch_id: int, header: bytes, written: list[tuple[str, SinkTarget, pa.Table]]) -> None:
        from confluent_kafka import KafkaException

        topics = sorted({topic for topic, _, _ in written})
        try:
            # A batch after the last one that this object wrote cannot be there already.
            if self._batch_last is None or batch_id <= self._batch_last:
                noted = self._noted(batch_id, topics)
                if self._holds(header, noted):
                    return
                if not noted:
                    self._note(batch_id, topics)
            else:
                self._note(batch_id, topics)
            self._transact(header, written)
            self._batch_last = batch_id
        except KafkaException as error:
            raise ConnectorError(f"batch {batch_id} cannot be written to Kafka: {error.args[0].str()}") from error

    def _transact(self, header: bytes, written: list[tuple[str, SinkTarget, pa.Table]]) -> None:
        from confluent_kafka import KafkaException

        self._producer.begin_transaction()
        try:
            for topic, target, table in written:
                for key, value in messages(target, table):
                    self._produce(topic, key, value, header)
            self._producer.commit_transaction(TIMEOUT_SECONDS)
        except KafkaException as error:
            if error.args[0].txn_requires_abort():
                self._producer.abort_transaction(TIMEOUT_SECONDS)
            raise

    def _produce(self, topic: str, key: bytes | None, value: bytes, header: bytes) -> None:
        while True:
            try:
                return self._producer.produce(topic, key=key, value=value, headers={HEADER: header})
            except BufferError:
                # The queue is full: wait until some of it has been sent.
                self._producer.poll(1.0)

    def _partitions(self, topics: list[str]) -> list[TopicPartition]:
        from confluent_kafka import TopicPartition

        return [TopicPartition(topic, number) for topic in topics for number in partitions_of(self._producer, topic)]

    def _note(self, batch_id: int, topics: list[str]) -> None:
        """Commits the ends of the topics as offsets, with `batch_id` as the next batch."""
        from confluent_kafka import TopicPartition

        noted = []
        for each in self._partitions(topics):
            _, end = self._consumer.get_watermark_offsets(each, timeout=TIMEOUT_SECONDS)
            noted.append(TopicPartition(each.topic, each.partition, end, str(batch_id)))
        self._consumer.commit(offsets=noted, asynchronous=False)

    def _noted(self, batch_id: int, topics: list[str]) -> list[TopicPartition]:
        """The ends of the topics before the batch; empty if the batch was not begun before."""
        found = self._consumer.committed(self._partitions(topics), timeout=TIMEOUT_SECONDS)
        return [partition for partition in found if partition.offset >= 0 and partition.metadata == str(batch_id)]

    def _holds(self, header: bytes, noted: list[TopicPartition]) -> bool:
        """Whether there is a committed message with the header at or after the noted offsets."""
        from confluent_kafka import KafkaError, KafkaException

        if not noted:
            return False
        self._consumer.assign(noted)
        unread = {(partition.topic, partition.partition) for partition in noted}
        try:
            while unread:
                found = received(self._consumer, _SCAN_MESSAGES)
                if not found:
                    raise ConnectorError("the end of a Kafka topic cannot be read: the brokers do not answer")
                for message in found:
                    error = message.error()
                    if error is None:
                        if (HEADER, header) in (message.headers() or ()):
                            return True
                    elif error.code() == KafkaError._PARTITION_EOF:
                        unread.discard(_place_of(message))
                    else:
                        raise KafkaException(error)
            return False
        finally:
            self._consumer.unassign()


def messages(target: SinkTarget, table: pa.Table) -> Iterator[tuple[bytes | None, bytes]]:
    """Key and value of each row; without group columns there is no key.

    >>> import pyarrow as pa
    >>> table = pa.table({"symbol": ["A"], "n": [1]})
    >>> list(messages(SinkTarget("s", "q", (), table.schema, "window_end", ("symbol",), True), table))
    [(b'{"symbol": "A"}', b'{"symbol": "A", "n": 1}')]
    """
    values = (line.rstrip("\n").encode() for line in json_lines(table))
    if not target.group_columns:
        return ((None, value) for value in values)
    keys = (line.rstrip("\n").encode() for line in json_lines(table.select(list(target.group_columns))))
    return zip(keys, values, strict=True)


def _place(target: SinkTarget) -> tuple[Cluster, str]:
    values = read_options(target.owner, target.options, _OPTIONS)
    return cluster_of(values, target.owner), str(values["topic"])


def _place_of(message: Message) -> tuple[Any, Any]:
    return message.topic(), message.partition()


def _write_with_spark(
    cluster: Cluster, written: list[tuple[str, SinkTarget, pa.Table]], header: bytes, spark: SparkSession
) -> None:
    rows = [
        (topic, key, value, [(HEADER, header)])
        for topic, target, table in written
        for key, value in messages(target, table)
    ]
    schema = "topic string, key binary, value binary, headers array<struct<key: string, value: binary>>"
    writer = spark.createDataFrame(rows, schema).write.format("kafka").option("includeHeaders", "true")
    writer = writer.option("kafka.bootstrap.servers", cluster.bootstrap)
    for name, setting in cluster.written().items():
        writer = writer.option(f"kafka.{name}", setting)
    writer.save()
