"""A Kafka cluster for tests: the mock that is built into librdkafka, on loopback, in this process.

It speaks Kafka's protocol with any client, but its transactions are not whole or nothing: what a transaction sent
before it was aborted can be read. Topics appear when they are first named, with four partitions; a partition holds
about 5 MB and drops its oldest messages.
"""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.waiting import PATIENCE_S

PARTITIONS = 4


class MockCluster:
    """Lives as long as the client that hosts it."""

    def __init__(self) -> None:
        self._host = AdminClient({"bootstrap.servers": "none:1", "test.mock.num.brokers": 1, "log_level": 0})
        brokers = self._host.list_topics(timeout=PATIENCE_S).brokers.values()
        self.bootstrap = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)

    def produce(self, topic: str, values: list[bytes | None], partition: int | None = None) -> None:
        """The values in order, to one partition or to all in turn."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0})
        for number, value in enumerate(values):
            place = number % PARTITIONS if partition is None else partition
            producer.produce(topic, key=str(number).encode(), value=value, partition=place)
        assert producer.flush(PATIENCE_S) == 0

    def transact(self, topic: str, values: list[bytes], partition: int) -> None:
        """The values in a transaction, which leaves a mark at the partition's end that is no message."""
        settings = {"bootstrap.servers": self.bootstrap, "transactional.id": "tests", "log_level": 0}
        producer = Producer(settings)
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value=value, partition=partition)
        producer.commit_transaction(PATIENCE_S)

    def messages(self, topic: str) -> list[Message]:
        """All that stands in the topic."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "tests",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        found: list[Message] = []
        unread = PARTITIONS
        while unread:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, "the mock cluster is silent"
            error = message.error()
            if error is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                unread -= 1
        consumer.close()
        return found


@pytest.fixture(scope="session")
def kafka() -> MockCluster:
    """One cluster for all tests of a run; each test takes topics of its own."""
    return MockCluster()
