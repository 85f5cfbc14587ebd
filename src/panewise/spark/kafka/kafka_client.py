"""What Kafka's source and sink share: the options that name a cluster, and clients of confluent-kafka for them.

`properties = 'security.protocol=SASL_SSL; sasl.username=me'` passes settings on to librdkafka; `properties_file` names
a file with one setting per line, for those that no statement should show. A file is read where a client is made: on
the driver and on every executor.
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

# Long enough for a cluster that is electing leaders, short enough to see that there is none.
TIMEOUT_SECONDS = 30.0

HOW_TO_GET = "pip install 'panewise[kafka]', or give the session org.apache.spark:spark-sql-kafka-0-10_2.13"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Cluster:
    """Where a cluster is and how to speak with it; equal ones share a client."""

    bootstrap: str
    properties: str = ""
    properties_file: str = ""

    def settings(self, **more: object) -> dict[str, Any]:
        """The settings of a client; `more` uses underscores for dots and yields to what the user wrote."""
        settings: dict[str, Any] = {name.replace("_", "."): value for name, value in more.items()}
        settings |= self.written()
        settings["bootstrap.servers"] = self.bootstrap
        # Lost connections are mended by librdkafka itself; it would print them to the terminal.
        settings.setdefault("logger", _log)
        return settings

    def written(self) -> dict[str, str]:
        """What `properties_file` and `properties` say."""
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
                # Without the text itself, which may be a secret.
                raise ConnectorError("a Kafka property has no '='", hint="write 'name=value; name=value'")
            settings[name.strip()] = value.strip()
        return settings


def cluster_of(values: dict[str, object], owner: str) -> Cluster:
    """The cluster that read options name."""
    if values["format"] != "json":
        raise ConnectorError(f"option 'format' of {owner} is {values['format']!r}, expected 'json'")
    cluster = Cluster(str(values["bootstrap"]), str(values["properties"]), str(values["properties_file"]))
    cluster.written()
    return cluster


def has_confluent_kafka() -> bool:
    return importlib.util.find_spec("confluent_kafka") is not None


def received(consumer: Consumer, count: int) -> list[Message]:
    """At least one message or event, and what else has come by then, up to `count`; none where the brokers are silent.

    (`consume` alone would wait until it has all of them.)
    """
    first = consumer.poll(TIMEOUT_SECONDS)
    return [] if first is None else [first, *consumer.consume(count - 1, timeout=0)]


def partitions_of(client: Any, topic: str) -> list[int]:
    """The numbers of a topic's partitions; ConnectorError where the topic or the cluster is not there."""
    from confluent_kafka import KafkaException

    try:
        found = client.list_topics(topic, timeout=TIMEOUT_SECONDS).topics[topic]
    except KafkaException as error:
        raise ConnectorError(f"the Kafka cluster cannot be reached: {error.args[0].str()}") from error
    if found.error is not None:
        raise ConnectorError(f"the Kafka topic '{topic}' cannot be read: {found.error.str()}")
    return sorted(found.partitions)
