"""Sources on their way into the engine.

Batches are taken from the source whose event time is furthest behind, so that streams which are joined or compared
move together and little has to be buffered.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from panewise.catalog import Catalog, StreamDefinition, TableDefinition
from panewise.connectors.json_rows import Rows
from panewise.connectors.options import written_option
from panewise.connectors.registry import open_source
from panewise.connectors.sources import Source
from panewise.errors import ConnectorError

if TYPE_CHECKING:
    import pyarrow as pa

_EVENT_TIME_UNKNOWN = -(1 << 63)


@dataclass
class Flow:
    """One source, the stream that it fills, and the rows taken from it so far."""

    stream: StreamDefinition
    source: Source
    rows: int = 0


def flows_of(catalog: Catalog) -> list[Flow]:
    """A flow for each stream with a connector, its options and files checked."""
    flows = []
    for definition in catalog:
        if isinstance(definition, TableDefinition) and written_option(definition.options, "connector") is not None:
            raise ConnectorError(
                f"table '{definition.name}' has a connector, and only streams are read from one so far",
                hint="fill it with INSERT INTO",
            )
        if isinstance(definition, StreamDefinition):
            source = open_source(definition)
            if source is not None:
                flows.append(Flow(definition, source))
    return flows


def interleaved(flows: list[Flow]) -> Iterator[tuple[Flow, pa.RecordBatch | Rows]]:
    """All batches of all flows, each flow's in order, the flow furthest behind in event time first."""
    readers = [flow.source.batches() for flow in flows]
    waiting = [(_EVENT_TIME_UNKNOWN, position) for position in range(len(readers))]
    while waiting:
        reached, position = heapq.heappop(waiting)
        batch = next(readers[position], None)
        if batch is None:
            continue
        flow = flows[position]
        flow.rows += len(batch)
        yield flow, batch
        heapq.heappush(waiting, (max(reached, _greatest_instant(batch, flow.stream.timestamp)), position))


def _greatest_instant(batch: pa.RecordBatch | Rows, timestamp: str) -> int:
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(batch, list):
        return _EVENT_TIME_UNKNOWN
    column = batch.column(timestamp)
    if not pa.types.is_timestamp(column.type):
        return _EVENT_TIME_UNKNOWN  # texts that did not convert; the engine judges them
    greatest = pc.max(column.cast(pa.int64())).as_py()
    return _EVENT_TIME_UNKNOWN if greatest is None else int(greatest)
