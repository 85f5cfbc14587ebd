"""Sources on their way into the engine.

Batches are taken from the source whose event time is furthest behind, so that streams which are joined or compared
move together and little has to be buffered.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from panewise.catalog import Catalog, StreamDefinition
from panewise.connectors.json_rows import Rows
from panewise.connectors.registry import open_source
from panewise.connectors.sources import Source

if TYPE_CHECKING:
    import pyarrow as pa

_EVENT_TIME_UNKNOWN = -(1 << 63)


@dataclass
class Flow:
    """One source, the stream that it fills, and what has been read from it so far."""

    stream: StreamDefinition
    source: Source
    rows: int = 0
    batches: int = 0  # from the beginning of its files on, those included that were read before
    files_before: int = 0  # which are not opened again
    file: int = 0  # how many of its files have been begun

    def read(self) -> Iterator[pa.RecordBatch | Rows]:
        """Its batches, file by file, counted as they are handed on."""
        files = self.source.files
        parts = [[file] for file in files[self.files_before :]] if files else [None]
        for position, part in enumerate(parts, self.files_before + 1):
            for batch in self.source.batches(part):
                self.file = position
                self.rows += len(batch)
                self.batches += 1
                yield batch


def flows_of(catalog: Catalog) -> list[Flow]:
    """A flow for each stream with a connector, its options and files checked. Tables are read when they are created."""
    flows = []
    for definition in catalog:
        if isinstance(definition, StreamDefinition):
            source = open_source(definition)
            if source is not None:
                flows.append(Flow(definition, source))
    return flows


def interleaved(flows: list[Flow]) -> Iterator[tuple[Flow, pa.RecordBatch | Rows]]:
    """All batches of all flows, each flow's in order, the flow furthest behind in event time first."""
    readers = [flow.read() for flow in flows]
    waiting = [(_EVENT_TIME_UNKNOWN, position) for position in range(len(readers))]
    while waiting:
        reached, position = heapq.heappop(waiting)
        batch = next(readers[position], None)
        if batch is None:
            continue
        flow = flows[position]
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
