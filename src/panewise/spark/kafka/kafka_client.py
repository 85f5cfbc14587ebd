"""What Kafka's source and sink share: the options of a cluster, and settings for clients of confluent-kafka.

`properties = 'security.protocol=SASL_SSL; sasl.username=me'` passes settings on to librdkafka. `properties_file` names
a file with one setting per line, for settings that no statement should show. Each process that makes a client reads the
file: the driver and every executor.
"""

from __future__ import annotations

import importlib.util
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from panewise.connectors.options import ConnectorOption, text
from panewise.errors import ConnectorError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

CLUSTER_OPTIONS = (
    ConnectorOption("bootstrap", text),
    ConnectorOption("topic", text),
    ConnectorOption("format", text, "json"),
    ConnectorOption("properties", text, ""),
    ConnectorOption("properties_file", text, ""),
)

# Longer than a cluster needs to elect leaders.
TIMEOUT_SECONDS = 30.0

HOW_TO_GET = "pip install 'panewise[kafka]', or give the session org.apache.spark:spark-sql-kafka-0-10_2.13"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Cluster:
    """The address and settings of a cluster; equal ones share a client."""

    bootstrap: str
    properties: str = ""
    properties_file: str = ""

    def settings(self, **more: object) -> dict[str, Any]:
        """The settings of a client. `more` has underscores for dots; the user's own settings override it."""
        settings: dict[str, Any] = {name.replace("_", "."): value for name, value in more.items()}
        settings |= self.written()
        settings["bootstrap.servers"] = self.bootstrap
        # librdkafka reconnects by itself, but without a logger it prints to the terminal.
        settings.setdefault("logger", _log)
        return settings

    def written(self) -> dict[str, str]:
        """The settings in `properties_file` and `properties`."""
        lines = self.properties.split(";")
        if self.properties_file:
            try:
                lines = Path(self.properties_file).read_text(encoding="utf-8").splitlines() + lines
            except OSError as error:
                raise ConnectorError(f"the properties file '{self.properties_file}' cannot be read: {error}") from None
        settings = {}
        for line in lines:
            if not line.strip() or line.strip().startswith("#"):
                continue
            name, equals, value = line.partition("=")
            if not equals:
                # The message does not show the text, which may be a secret.
                raise ConnectorError("a Kafka property has no '='", hint="write 'name=value; name=value'")
            settings[name.strip()] = value.strip()
        return settings


def cluster_of(values: dict[str, object], owner: str) -> Cluster:
    """The cluster of checked options; ConnectorError if one is wrong."""
    if values["format"] != "json":
        raise ConnectorError(f"option 'format' of {owner} is {values['format']!r}, expected 'json'")
    cluster = Cluster(str(values["bootstrap"]), str(values["properties"]), str(values["properties_file"]))
    cluster.written()
    return cluster


def has_confluent_kafka() -> bool:
    return importlib.util.find_spec("confluent_kafka") is not None


def received(consumer: Consumer, count: int) -> list[Message]:
    """Waits for one message or event and returns it with those that have come too, up to `count`.

    Empty if the brokers do not answer. (`consume` alone would wait for `count` messages.)
    """
    first = consumer.poll(TIMEOUT_SECONDS)
    return [] if first is None else [first, *consumer.consume(count - 1, timeout=0)]


def partitions_of(client: Any, topic: str) -> list[int]:
    """The numbers of a topic's partitions; ConnectorError if the topic or the cluster cannot be reached."""
    from confluent_kafka import KafkaException

    try:
        found = client.list_topics(topic, timeout=TIMEOUT_SECONDS).topics[topic]
    except KafkaException as error:
        raise ConnectorError(f"the Kafka cluster cannot be reached: {error.args[0].str()}") from error
    if found.error is not None:
        raise ConnectorError(f"the Kafka topic '{topic}' cannot be read: {found.error.str()}")
    return sorted(found.partitions)
