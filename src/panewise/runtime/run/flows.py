"""Sources on their way into the engine.

Batches are taken from the source whose event time is furthest behind, so that streams which are joined or compared
move together and little has to be buffered.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from panewise.catalog import Catalog, StreamDefinition
from panewise.connectors.json_rows import Rows
from panewise.connectors.registry import open_source
from panewise.connectors.sources import Source
from panewise.errors import PanewiseError

if TYPE_CHECKING:
    import pyarrow as pa

SOURCE_PROBLEMS = (PanewiseError, OSError)  # what reading a source, or pushing its rows, may raise
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
    has_failed: bool = False  # it is read no further

    @property
    def place(self) -> str:
        """The file that the last batch came from; empty where a source has none."""
        files = self.source.files
        return str(files[self.file - 1]) if files else ""

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


def interleaved(
    flows: list[Flow], fail: Callable[[Flow, Exception], None]
) -> Iterator[tuple[Flow, pa.RecordBatch | Rows]]:
    """All batches of all flows, each flow's in order, the flow furthest behind in event time first.

    `fail` is told of a flow that cannot be read. It raises, or marks the flow as failed and the others are read on.
    """
    readers = [flow.read() for flow in flows]
    waiting = [(_EVENT_TIME_UNKNOWN, position) for position in range(len(readers))]
    while waiting:
        reached, position = heapq.heappop(waiting)
        flow = flows[position]
        try:
            batch = next(readers[position], None)
        except SOURCE_PROBLEMS as problem:
            fail(flow, problem)
            continue
        if batch is None:
            continue
        yield flow, batch
        if not flow.has_failed:
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
