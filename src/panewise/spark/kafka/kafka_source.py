"""Kafka as a stream, without a jar: the Python data source `panewise_kafka`, on confluent-kafka.

    driver     finds where the partitions end (`latestOffset`), at most `max_offsets_per_trigger` after the last offsets
    executors  one task for each partition of the topic with new messages, which reads [start, end) into Arrow batches

Columns: key, value (binary), topic, partition, offset, timestamp. Offsets are in Spark's checkpoint; nothing is
committed to Kafka, and the consumer group is only a name. Exactly once: a range of offsets is the same when it is read
again, as long as the brokers hold it. If they no longer do, the read fails or, with `fail_on_data_loss = false`, goes
on with the rest. Only committed messages are read. New partitions are read from their beginning.

`kafka_stream` gives the frame of a stream with `connector = 'kafka'`. It uses Spark's own source if the session has its
jar, and otherwise this one. Stage 1 decodes the values (`connectors.json_rows.decode_json`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from panewise.catalog import StreamDefinition
from panewise.connectors.options import STREAM_OPTIONS, ConnectorOption, boolean, one_of, read_options, whole_number
from panewise.errors import ConnectorError
from panewise.spark.environment.data_sources import has_data_source
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

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import Consumer, Message
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

KAFKA_OPTIONS = (
    *STREAM_OPTIONS,
    *CLUSTER_OPTIONS,
    ConnectorOption("starting", one_of("earliest", "latest"), "earliest"),
    ConnectorOption("max_offsets_per_trigger", whole_number(1), None),
    ConnectorOption("fail_on_data_loss", boolean, True),
)
SCHEMA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"
BATCH_MESSAGES = 10_000

# The offset of the next message, by number of the partition, which is a text because offsets are JSON.
Offsets = dict[str, int]


def has_kafka_jar(spark: SparkSession) -> bool:
    """Whether the session has Spark's own Kafka source."""
    return has_data_source(spark, "kafka")


def read_kafka_options(stream: StreamDefinition) -> dict[str, object]:
    """The options of a stream with `connector = 'kafka'`; ConnectorError if one is wrong. Contacts no broker."""
    owner = f"stream '{stream.name}'"
    values = read_options(owner, stream.options, KAFKA_OPTIONS)
    cluster_of(values, owner)
    return values


def kafka_stream(spark: SparkSession, stream: StreamDefinition, reader: DataStreamReader | None = None) -> DataFrame:
    """The messages of a stream's topic, in the columns of SCHEMA.

    `reader` is `spark.readStream` by default; it may be one with a name in the checkpoint.
    """
    values = read_kafka_options(stream)
    reader = spark.readStream if reader is None else reader
    if has_kafka_jar(spark):
        return _with_spark(reader, cluster_of(values, f"stream '{stream.name}'"), values)
    if not has_confluent_kafka():
        raise ConnectorError(f"stream '{stream.name}' needs confluent-kafka", hint=HOW_TO_GET)
    spark.dataSource.register(KafkaSource)
    reader = reader.format(KafkaSource.name())
    for name in ("bootstrap", "topic", "properties", "properties_file", "starting", "fail_on_data_loss"):
        reader = reader.option(name, str(values[name]))
    if values["max_offsets_per_trigger"] is not None:
        reader = reader.option("max_offsets_per_trigger", str(values["max_offsets_per_trigger"]))
    return reader.load()


def _with_spark(reader: DataStreamReader, cluster: Cluster, values: dict[str, object]) -> DataFrame:
    """Reads with Spark's own source. Not tested: the wheel of pyspark does not have its jar."""
    reader = reader.format("kafka").option("subscribe", str(values["topic"]))
    reader = reader.option("kafka.bootstrap.servers", cluster.bootstrap)
    reader = reader.option("kafka.isolation.level", "read_committed")
    for name, setting in cluster.written().items():
        reader = reader.option(f"kafka.{name}", setting)
    reader = reader.option("startingOffsets", str(values["starting"]))
    reader = reader.option("failOnDataLoss", str(values["fail_on_data_loss"]).lower())
    if values["max_offsets_per_trigger"] is not None:
        reader = reader.option("maxOffsetsPerTrigger", str(values["max_offsets_per_trigger"]))
    return reader.load().select("key", "value", "topic", "partition", "offset", "timestamp")


class KafkaSource(DataSource):
    """See the module; options as in KAFKA_OPTIONS."""

    @classmethod
    def name(cls) -> str:
        return "panewise_kafka"

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: object) -> KafkaStreamReader:  # noqa: N802 - Spark's name
        return KafkaStreamReader(dict(self.options))


@dataclass
class OffsetRange(InputPartition):
    """What one task reads of one partition: the offsets from `start` to `end`, which is not included."""

    partition: int
    start: int
    end: int


class KafkaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets on the driver, messages on the executors. The pickled reader carries options only."""

    def __init__(self, options: dict[str, str]) -> None:
        self._topic = options["topic"]
        self._cluster = Cluster(options["bootstrap"], options.get("properties", ""), options.get("properties_file", ""))
        self._starting = options.get("starting", "earliest")
        self._fail_on_data_loss = options.get("fail_on_data_loss", "true").lower() == "true"
        limit = options.get("max_offsets_per_trigger")
        self._offsets_max = int(limit) if limit else None
        self._target: Offsets | None = None
        self._consumer: Consumer | None = None

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_consumer": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's names, here and below
        ends = self._ends()
        return {number: bounds[0 if self._starting == "earliest" else 1] for number, bounds in ends.items()}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self._offsets_max is None else ReadMaxRows(self._offsets_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = {number: high for number, (_, high) in self._ends().items()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        if self._target is not None:
            # Messages and partitions that came after the start with AvailableNow are left to the next run.
            available = self._target
            lows = dict.fromkeys(available, 0) if available.keys() <= start.keys() else self._lows()
        else:
            bounds = self._ends()
            available = {number: high for number, (_, high) in bounds.items()}
            lows = {number: low for number, (low, _) in bounds.items()}
        # A new partition is read from its beginning; a partition that is gone keeps its offset.
        begin = {number: start.get(number, lows[number]) for number in available} | start
        ahead = {number: max(available.get(number, begin[number]), begin[number]) for number in begin}
        if not isinstance(limit, ReadMaxRows):
            return ahead
        return admitted(begin, ahead, limit.max_rows)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        return {number: high for number, (_, high) in self._ends().items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        lows = self._lows() if end.keys() - start.keys() else {}
        ranges = [
            OffsetRange(int(number), start.get(number, lows.get(number, 0)), offset) for number, offset in end.items()
        ]
        return [part for part in ranges if part.start < part.end]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, OffsetRange)
        consumer = self._new_consumer()
        try:
            for messages in self._messages(consumer, partition):
                yield _batch(self._topic, partition.partition, messages)
        finally:
            consumer.close()

    def stop(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _messages(self, consumer: Consumer, part: OffsetRange) -> Iterator[list[Message]]:
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        low, _ = consumer.get_watermark_offsets(TopicPartition(self._topic, part.partition), timeout=TIMEOUT_SECONDS)
        if low > part.start and self._fail_on_data_loss:
            raise self._lost(part, low)
        consumer.assign([TopicPartition(self._topic, part.partition, max(part.start, low))])
        done = low >= part.end
        while not done:
            found = received(consumer, BATCH_MESSAGES)
            if not found:
                raise ConnectorError(
                    f"partition {part.partition} of the Kafka topic '{self._topic}' gave nothing for "
                    f"{TIMEOUT_SECONDS:.0f} s, though offsets {part.start} to {part.end} were announced"
                )
            wanted = []
            for message in found:
                offset, error = message.offset(), message.error()
                if error is None:
                    assert offset is not None
                    done = done or offset >= part.end - 1
                    if offset < part.end:
                        wanted.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    # The last offsets may have no message: transaction markers, or messages removed by compaction.
                    done = done or (offset is not None and offset >= part.end)
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                    if self._fail_on_data_loss:
                        raise self._lost(part, low)
                    done = True
                elif error.fatal():
                    raise KafkaException(error)
            if wanted:
                yield wanted

    def _lost(self, part: OffsetRange, low: int) -> ConnectorError:
        return ConnectorError(
            f"offsets {part.start} to {part.end} of partition {part.partition} of the Kafka topic '{self._topic}' "
            f"are no longer all there: it begins at {low}",
            hint="fail_on_data_loss = false goes on with what is left",
        )

    def _ends(self) -> dict[str, tuple[int, int]]:
        """The first offset of each partition, and the offset after its last committed message."""
        from confluent_kafka import KafkaException, TopicPartition

        if self._consumer is None:
            self._consumer = self._new_consumer()
        ends = {}
        try:
            for number in partitions_of(self._consumer, self._topic):
                partition = TopicPartition(self._topic, number)
                ends[str(number)] = self._consumer.get_watermark_offsets(partition, timeout=TIMEOUT_SECONDS)
        except KafkaException as error:
            raise ConnectorError(f"the Kafka topic '{self._topic}' cannot be read: {error.args[0].str()}") from error
        return ends

    def _lows(self) -> Offsets:
        return {number: low for number, (low, _) in self._ends().items()}

    def _new_consumer(self) -> Consumer:
        from confluent_kafka import Consumer

        return Consumer(
            self._cluster.settings(
                group_id="panewise",
                enable_auto_commit=False,
                enable_partition_eof=True,
                isolation_level="read_committed",
                auto_offset_reset="error",
                fetch_wait_max_ms=100,
            )
        )


def admitted(begin: Offsets, ahead: Offsets, offsets_max: int) -> Offsets:
    """The end offsets if about `offsets_max` are read: partitions get shares of it by what waits, and at least one.

    >>> admitted({"0": 0, "1": 10}, {"0": 90, "1": 20}, 50)
    {'0': 45, '1': 15}
    """
    waiting = {number: ahead[number] - begin[number] for number in begin}
    total = sum(waiting.values())
    if total <= offsets_max:
        return ahead
    # At least one, as in Spark's own source: a partition whose share is rounded to 0 could wait for ever.
    return {
        number: begin[number] + min(count, max(1, count * offsets_max // total)) for number, count in waiting.items()
    }


def _batch(topic: str, partition: int, messages: list[Message]) -> pa.RecordBatch:
    import pyarrow as pa

    count = len(messages)
    milliseconds = [message.timestamp()[1] for message in messages]
    instants = pa.array([instant if instant >= 0 else None for instant in milliseconds], pa.timestamp("ms", tz="UTC"))
    return pa.RecordBatch.from_arrays(
        [
            pa.array([message.key() for message in messages], pa.binary()),
            pa.array([message.value() for message in messages], pa.binary()),
            pa.array([topic] * count, pa.string()),
            pa.array([partition] * count, pa.int32()),
            pa.array([message.offset() for message in messages], pa.int64()),
            instants.cast(pa.timestamp("us", tz="UTC")),
        ],
        names=["key", "value", "topic", "partition", "offset", "timestamp"],
    )
