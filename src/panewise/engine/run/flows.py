"""Batches from several sources in one order: that of event time, as far as batches allow.

The next batch comes from the source whose event time is furthest behind. So streams that are joined or compared move
together, and little has to be buffered.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from panewise.catalog import Catalog, StreamDefinition
from panewise.connectors.by_name import open_source
from panewise.connectors.json_rows import Rows
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
    batches: int = 0  # number of batches from the beginning of its files on, also those of earlier runs
    files_before: int = 0  # number of files that were read before, and are not opened again
    file: int = 0  # number of files that have been begun
    rows_before: int = 0  # rows of the last of these files before the last batch
    has_failed: bool = False  # whether it is read no further
    before_file: Callable[[int], None] = lambda position: None  # see `check_files_by`

    def check_files_by(self, check: Callable[[int], None]) -> None:
        """`check` is called with the number of each file before that is read, and after the last one."""
        self.before_file = check

    def begin_after(self, files: int, batches: int) -> None:
        """Skips files that were read before. `batches`: how many batches they had."""
        self.files_before = self.file = files
        self.batches = batches

    def fail(self) -> None:
        """The source cannot be read further."""
        self.has_failed = True

    @property
    def place(self) -> str:
        """The file that the last batch came from; empty if the source has no files."""
        files = self.source.files
        return str(files[self.file - 1]) if files else ""

    def read(self) -> Iterator[pa.RecordBatch | Rows]:
        """The batches, file by file, counted as they are handed on."""
        files = self.source.files
        parts = [[file] for file in files[self.files_before :]] if files else [None]
        for position, part in enumerate(parts, self.files_before + 1):
            self.before_file(position)
            of_file = 0
            for batch in self.source.batches(part):
                self.file, self.rows_before = position, of_file
                of_file += len(batch)
                self.rows += len(batch)
                self.batches += 1
                yield batch
        self.before_file(self.files_before + len(parts) + 1)


def flows_of(catalog: Catalog, only: Collection[str] | None = None) -> list[Flow]:
    """A flow for each stream with a connector, with its options and files checked. `only`: of these streams.

    Tables have no flows: they are read when they are created.
    """
    flows = []
    for definition in catalog:
        if isinstance(definition, StreamDefinition) and (only is None or definition.name in only):
            source = open_source(definition)
            if source is not None:
                flows.append(Flow(definition, source))
    return flows


def interleaved(
    flows: list[Flow], fail: Callable[[Flow, Exception], None]
) -> Iterator[tuple[Flow, pa.RecordBatch | Rows]]:
    """All batches of all flows: each flow's in order, and the flow that is furthest behind in event time first.

    `fail` is called with a flow that cannot be read. It raises, or marks the flow as failed, and the others go on.
    """
    readers = [flow.read() for flow in flows]
    waiting = [(_EVENT_TIME_UNKNOWN, position) for position in range(len(readers))]
    while waiting:
        reached, position = heapq.heappop(waiting)
        flow = flows[position]
        try:
            batch = next(readers[position], None)
        except Exception as problem:  # noqa: BLE001 - a file may hold anything; `fail` raises or reports it
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
        return _EVENT_TIME_UNKNOWN  # texts that did not convert, which the engine judges
    greatest = pc.max(column.cast(pa.int64())).as_py()
    return _EVENT_TIME_UNKNOWN if greatest is None else int(greatest)
