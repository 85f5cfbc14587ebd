"""Memory sinks, for tests: tables kept in this process, by the name of the sink.

`rows(name)` is all that has been written, in the order of batches. A batch is written once as long as the process
lives; the tables end with it. Through Spark Connect it is a process of the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from panewise.connectors.options import CONNECTOR, read_options
from panewise.errors import ConnectorError, did_you_mean
from panewise.spark.sinks.sink_kind import SinkTarget, Tables

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

# By sink, then by (checkpoint, batch). All pipelines of the process share them.
_tables: dict[str, dict[tuple[str, int], pa.Table]] = {}
_schemas: dict[str, pa.Schema] = {}


def rows(name: str) -> pa.Table:
    """All rows that the sink of that name has got so far."""
    import pyarrow as pa

    if name not in _tables:
        raise ConnectorError(f"there is no memory sink '{name}' in this process", hint=did_you_mean(name, _tables))
    # A copy of the dict, because a pipeline may write in another thread.
    return pa.concat_tables([_schemas[name].empty_table(), *dict(_tables[name]).values()])


def forget(name: str) -> None:
    """Frees the rows of the sink."""
    _tables.pop(name, None)
    _schemas.pop(name, None)


class MemorySinks:
    """See the module."""

    def __init__(self, checkpoint_id: str) -> None:
        self._checkpoint_id = checkpoint_id

    def check(self, targets: Sequence[SinkTarget], spark: SparkSession | None = None) -> None:
        for target in targets:
            read_options(target.owner, target.options, (CONNECTOR,))

    def prepare(self, targets: Sequence[SinkTarget], first_batch: int) -> None:
        for target in targets:
            forget(target.name)
            self._register(target)

    def write(self, batch_id: int, tables: Tables, spark: SparkSession | None) -> None:
        for target, table in tables:
            self._register(target)
            if table.num_rows:
                _tables[target.name][self._checkpoint_id, batch_id] = table

    def _register(self, target: SinkTarget) -> None:
        _schemas[target.name] = target.schema
        _tables.setdefault(target.name, {})
