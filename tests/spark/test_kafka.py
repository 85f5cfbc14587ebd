"""Kafka without a jar: the source and the sink against the mock cluster of librdkafka."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from panewise.catalog import StreamDefinition
from panewise.connectors.json_rows import decode_json
from panewise.errors import ConnectorError
from panewise.schema import BIGINT, STRING, TIMESTAMP, Column, Schema
from panewise.spark.environment.data_sources import has_data_source
from panewise.spark.kafka.kafka_client import Cluster
from panewise.spark.kafka.kafka_source import KafkaStreamReader, OffsetRange, has_kafka_jar, kafka_stream
from panewise.spark.sinks import SinkKind, SinkTarget, sink_kinds
from panewise.spark.sinks.kafka import HEADER, KafkaSinks, TransactionalWriter
from tests.kafka import PARTITIONS, MockCluster, kafka
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["kafka"]

SCHEMA = Schema((Column("ts", TIMESTAMP), Column("symbol", STRING), Column("n", BIGINT)))
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def stream(topic: str, cluster: MockCluster, **options: object) -> StreamDefinition:
    given = {"connector": "kafka", "topic": topic, "bootstrap": cluster.bootstrap} | options
    return StreamDefinition("trades", SCHEMA, "ts", 0, tuple(given.items()))


def reader(topic: str, cluster: MockCluster, **options: str) -> KafkaStreamReader:
    return KafkaStreamReader({"topic": topic, "bootstrap": cluster.bootstrap} | options)


def values_of(source: KafkaStreamReader, start: dict[str, int], end: dict[str, int]) -> list[bytes]:
    copy: KafkaStreamReader = pickle.loads(pickle.dumps(source))
    return [
        value.as_py()
        for partition in source.partitions(start, end)
        for batch in copy.read(partition)
        for value in batch["value"]
    ]


class Collected:
    """What a streaming query has seen, batch by batch; and a query that collects it."""

    def __init__(self) -> None:
        self.batches: dict[int, list[tuple[Any, ...]]] = {}

    def run(self, frame: DataFrame, checkpoint: Path, during: Callable[[], None] | None = None) -> None:
        """All that is there, and what comes while `during` runs; then the query is stopped."""
        writer = frame.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(self._collect)
        query = writer.trigger(availableNow=True).start() if during is None else writer.start()
        try:
            if during is None:
                query.awaitTermination(PATIENCE_S)
                return
            query.processAllAvailable()
            during()
            query.processAllAvailable()
        finally:
            query.stop()

    def _collect(self, frame: DataFrame, batch_id: int) -> None:
        self.batches[batch_id] = [tuple(row) for row in frame.collect()]

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        return [row for rows in self.batches.values() for row in rows]

    @property
    def values(self) -> list[bytes]:
        return sorted(bytes(row[1]) for row in self.rows)


@pytest.mark.spark
def test_a_stream_goes_on_from_its_checkpoint(spark: SparkSession, kafka: MockCluster, tmp_path: Path) -> None:
    sent = [f"{number:04d}".encode() for number in range(1_000)]
    kafka.produce("restarts", sent[:300])
    seen = Collected()
    frame = kafka_stream(spark, stream("restarts", kafka, max_offsets_per_trigger=100))
    seen.run(frame, tmp_path)
    assert [len(rows) for rows in seen.batches.values()] == [100, 100, 100]
    kafka.produce("restarts", sent[300:500])
    seen.run(frame, tmp_path, during=lambda: kafka.produce("restarts", sent[500:900]))
    kafka.transact("restarts", sent[900:], partition=2)
    seen.run(kafka_stream(spark, stream("restarts", kafka)), tmp_path)
    assert seen.values == sent, "nothing lost, nothing repeated"
    assert len({(row[3], row[4]) for row in seen.rows}) == 1_000
    key, _, topic, partition, offset, timestamp = seen.rows[0]
    assert (topic, partition in range(PARTITIONS), offset >= 0) == ("restarts", True, True)
    assert int(key) % PARTITIONS == partition
    assert abs((timestamp - datetime.now()).total_seconds()) < 3_600 * 24


@pytest.mark.spark
def test_a_batch_that_fails_is_read_again(spark: SparkSession, kafka: MockCluster, tmp_path: Path) -> None:
    sent = [f"{number:04d}".encode() for number in range(200)]
    kafka.produce("fails", sent)
    attempts: list[list[bytes]] = []

    def collect(frame: DataFrame, batch_id: int) -> None:
        attempts.append(sorted(bytes(row.value) for row in frame.collect()))
        if len(attempts) == 1:
            raise RuntimeError("dies after it was read")

    frame = kafka_stream(spark, stream("fails", kafka))
    writer = frame.writeStream.option("checkpointLocation", str(tmp_path)).foreachBatch(collect)
    query = writer.start()
    with pytest.raises(Exception, match="dies after it was read"):
        query.awaitTermination(PATIENCE_S)
    kafka.produce("fails", [b"later"])
    query = writer.start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert attempts == [sent, sent, [b"later"]]


@pytest.mark.spark
def test_which_sources_a_session_has(spark: SparkSession) -> None:
    assert not has_kafka_jar(spark)
    assert not has_data_source(spark, "delta")
    assert has_data_source(spark, "parquet")
    assert has_data_source(spark, "jdbc")


def test_offsets_of_a_reader(kafka: MockCluster) -> None:
    kafka.produce("offsets", [b"%d" % number for number in range(10)], partition=1)
    earliest, latest = reader("offsets", kafka), reader("offsets", kafka, starting="latest")
    assert earliest.initialOffset() == {"0": 0, "1": 0, "2": 0, "3": 0}
    assert latest.initialOffset() == {"0": 0, "1": 10, "2": 0, "3": 0}
    assert earliest.latestOffset(earliest.initialOffset(), ReadAllAvailable()) == latest.initialOffset()
    limited = earliest.latestOffset(earliest.initialOffset(), ReadMaxRows(4))
    assert limited == {"0": 0, "1": 4, "2": 0, "3": 0}
    assert values_of(earliest, earliest.initialOffset(), limited) == [b"0", b"1", b"2", b"3"]
    # Partitions 0, 2 and 3 came after the checkpoint was made, partition 7 has gone since.
    assert earliest.latestOffset({"1": 3, "7": 5}, ReadAllAvailable()) == latest.initialOffset() | {"7": 5}
    assert values_of(earliest, {"1": 8, "7": 5}, latest.initialOffset() | {"7": 5}) == [b"8", b"9"]
    assert earliest.partitions(limited, limited) == []
    earliest.stop()
    latest.stop()


def test_available_now_ends_where_it_began(kafka: MockCluster) -> None:
    kafka.produce("target", [b"before"], partition=0)
    source = reader("target", kafka)
    start = source.initialOffset()
    source.prepareForTriggerAvailableNow()
    kafka.produce("target", [b"after"] * 5, partition=0)
    end = source.latestOffset(start, ReadAllAvailable())
    assert values_of(source, start, end) == [b"before"]
    assert source.latestOffset(end, ReadAllAvailable()) == end
    source.stop()


def test_the_marks_of_transactions_are_no_messages(kafka: MockCluster) -> None:
    for value in (b"first", b"second"):
        kafka.transact("marks", [value], partition=0)
    source = reader("marks", kafka)
    end = source.latestOffset(source.initialOffset(), ReadAllAvailable())
    assert end["0"] == 4, "two messages and two marks"
    for last in range(5):
        expected = [b"first", b"second"][: (last + 1) // 2]
        assert values_of(source, source.initialOffset(), end | {"0": last}) == expected
    source.stop()


def test_offsets_that_the_brokers_no_longer_hold(kafka: MockCluster) -> None:
    """Oldest messages that were dropped, and a topic that was made anew and is shorter now."""
    for _ in range(6):
        kafka.produce("lost", [b"%0100000d" % number for number in range(10)], partition=0)
    strict, lenient = reader("lost", kafka), reader("lost", kafka, fail_on_data_loss="false")
    low, high = strict.initialOffset()["0"], strict.reportLatestOffset()["0"]
    assert 0 < low < high == 60
    with pytest.raises(ConnectorError, match=r"offsets 0 to 60 of partition 0 .* no longer all there: it begins at"):
        values_of(strict, {"0": 0}, {"0": high})
    assert [int(value[-2:]) for value in values_of(lenient, {"0": 0}, {"0": high})] == [
        n % 10 for n in range(low, high)
    ]
    assert values_of(lenient, {"0": 0}, {"0": low}) == []
    with pytest.raises(ConnectorError, match=r"offsets 500 to 600 .* no longer all there"):
        list(strict.read(OffsetRange(0, 500, 600)))
    assert list(lenient.read(OffsetRange(0, 500, 600))) == []
    strict.stop()


def test_wrong_options_of_a_stream(kafka: MockCluster) -> None:
    session: Any = None  # not needed before the options are right
    for options, message in (
        ({"topics": "x"}, r"has no option 'topics'\nhint: did you mean topic"),
        ({"format": "avro"}, "'avro', expected 'json'"),
        ({"starting": "noon"}, "expected 'earliest' or 'latest'"),
        ({"max_offsets_per_trigger": 0}, "expected a whole number of at least 1"),
        ({"properties_file": "/absent"}, "properties file '/absent' cannot be read"),
    ):
        with pytest.raises(ConnectorError, match=message):
            kafka_stream(session, stream("t", kafka, **options))


# Values


def test_values_become_rows() -> None:
    values = pa.array(
        [
            b'{"ts": "2026-01-01T12:00:00Z", "symbol": "A", "n": 1, "more": {}}',
            None,
            b'{"n": 2, "ts": "2026-01-01 12:00:00Z"}',
            b"",
        ],
        pa.binary(),
    )
    (batch,) = decode_json(values, SCHEMA, "ts", skip=False)
    assert isinstance(batch, pa.RecordBatch)
    assert batch.to_pylist() == [{"ts": NOON, "symbol": "A", "n": 1}, {"ts": NOON, "symbol": None, "n": 2}]
    assert decode_json(pa.array([None], pa.binary()), SCHEMA, "ts", skip=False) == []


def test_values_that_are_no_objects() -> None:
    values = pa.array([b'{"ts": "2026-01-01 12:00:00"}', b"{", b"[1]", b"\xff", b"[" * 100_000], pa.binary())
    with pytest.raises(ConnectorError, match="value 2 of the topic 't' is not a JSON object"):
        decode_json(values, SCHEMA, "ts", skip=False, place="the topic 't'")
    batch, broken = decode_json(values, SCHEMA, "ts", skip=True)
    assert len(batch) == 1
    assert [row["ts"] for row in broken][:3] == ["{", "[1]", "\ufffd"]
    assert len(broken) == 4


def test_values_of_wrong_types_are_handed_on() -> None:
    values = pa.array([b'{"n": 1}', b'{"n": "x"}', b'{"n": 1180591620717411303424}'], pa.binary())
    (mixed,) = decode_json(values, SCHEMA, "ts", skip=False)
    assert isinstance(mixed, pa.RecordBatch)
    assert mixed["n"].to_pylist() == [1, "x", str(2**70)]
    counted = pa.array([b'{"ts": 1767268800}'], pa.binary())
    (batch,) = decode_json(counted, SCHEMA, "ts", skip=False, epoch="seconds")
    assert isinstance(batch, pa.RecordBatch)
    assert batch["ts"].to_pylist() == [NOON]


# The sink

RESULTS = pa.schema([("window_end", pa.timestamp("us", tz="UTC")), ("symbol", pa.string()), ("n", pa.int64())])


def results(batch_id: int) -> pa.Table:
    return pa.table([[NOON] * 3, ["A", "B", None], [batch_id * 10 + n for n in range(3)]], schema=RESULTS)


def target(topic: str, cluster: MockCluster) -> SinkTarget:
    options = {"connector": "kafka", "topic": topic, "bootstrap": cluster.bootstrap}
    return SinkTarget(topic, "q", tuple(options.items()), RESULTS, "window_end", ("symbol",), True)


def kind_of(targets: list[SinkTarget]) -> SinkKind:
    ((kind, _),) = sink_kinds(targets, "c1", print)
    kind.check(targets)
    copy: SinkKind = pickle.loads(pickle.dumps(kind))
    return copy


def numbers(topic: str, cluster: MockCluster) -> list[int]:
    return sorted(json.loads(message.value() or b"")["n"] for message in cluster.messages(topic))


def test_messages_of_a_sink(kafka: MockCluster) -> None:
    each = target("messages", kafka)
    kind_of([each]).write(7, [(each, results(7))], None)
    found = {message.key(): message for message in kafka.messages("messages")}
    assert set(found) == {b'{"symbol": "A"}', b'{"symbol": "B"}', b'{"symbol": null}'}
    message = found[b'{"symbol": "A"}']
    assert message.value() == b'{"window_end": "2026-01-01T12:00:00Z", "symbol": "A", "n": 70}'
    assert message.headers() == [(HEADER, b"c1/7")]


def test_a_batch_that_comes_again_is_recognised(kafka: MockCluster) -> None:
    targets = [target("again-1", kafka), target("again-2", kafka)]
    kind = kind_of(targets)
    for batch_id in (0, 1):
        kind.write(batch_id, [(each, results(batch_id)) for each in targets], None)
    kafka.produce("again-1", [b'{"n": -1}'])  # of another producer, after the batch
    kind_of(targets).write(1, [(each, results(1)) for each in targets], None)
    kind.write(1, [(each, results(1)) for each in targets], None)
    kind_of(targets).write(2, [(each, results(2)) for each in targets], None)
    assert numbers("again-2", kafka) == [0, 1, 2, 10, 11, 12, 20, 21, 22]
    assert numbers("again-1", kafka) == [-1, *numbers("again-2", kafka)]


def test_the_transactional_id_is_the_one_that_brokers_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was once a hash of the `repr` of the cluster, and does not follow the names in the code."""
    monkeypatch.setattr(Cluster, "__repr__", lambda self: "Renamed()")
    sinks = KafkaSinks("c1")
    assert sinks._identity(Cluster("broker:9092")) == "panewise-c1-1b6e14c0ca5f"
    secured = Cluster("broker:9092", "security.protocol=SASL_SSL", "it's.properties")
    assert sinks._identity(secured) == "panewise-c1-94ce54e391f6"


@pytest.mark.parametrize("written", [False, True], ids=["before its transaction", "after it"])
def test_a_batch_that_died(kafka: MockCluster, monkeypatch: pytest.MonkeyPatch, written: bool) -> None:
    """Within its transaction is the brokers' promise, which the mock does not keep."""
    targets = [target(f"died-{written}", kafka)]
    kind_of(targets).write(0, [(targets[0], results(0))], None)
    transact = TransactionalWriter._transact

    def dying(*arguments: Any) -> None:
        if written:
            transact(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TransactionalWriter, "_transact", dying)
        with pytest.raises(KeyboardInterrupt):
            kind_of(targets).write(1, [(targets[0], results(1))], None)
    for batch_id in (1, 2):
        kind_of(targets).write(batch_id, [(targets[0], results(batch_id))], None)
    assert numbers(f"died-{written}", kafka) == [0, 1, 2, 10, 11, 12, 20, 21, 22]
