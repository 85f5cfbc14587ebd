"""Moves batches from sources into the engine, and drains the outlet from time to time.

Invariant: an interrupt ends the pump between two batches. A batch is taken and its number noted, or neither.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING

from panewise.catalog import StreamDefinition
from panewise.engine.run.flows import Flow, interleaved
from panewise.engine.run.held_interrupts import interrupts_held
from panewise.engine.run.outlets import Outlet
from panewise.engine.run.source_notes import SourceNotes, producer_of
from panewise.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

    from panewise.connectors.json_rows import Rows
    from panewise.engine.run.progress import Bars

DRAIN_SECONDS = 1.0


@dataclass
class Pump:
    """Reads sources to their end.

    `push`: `Engine.push`, or another way into the engine. `stop` ends the pump between two batches. `failed` is called
    with a source that cannot be read further, and the others go on; without it the error is raised.
    """

    push: Callable[..., object]
    outlet: Outlet
    notes: SourceNotes
    stop: Event = field(default_factory=Event)
    bars: Bars | None = None
    failed: Callable[[StreamDefinition, Exception], None] | None = None
    rows: dict[str, int] = field(default_factory=dict, init=False)  # pushed in this run, by stream
    seconds: float = field(default=0.0, init=False)

    def show_by(self, bars: Bars) -> None:
        """Progress is shown by these bars from now on."""
        self.bars = bars

    @property
    def rows_total(self) -> int:
        return sum(self.rows.values())

    def open(self, only: Collection[str] | None = None) -> list[Flow]:
        """The sources that may have new rows. `only`: of these streams."""
        flows = self.notes.flows(only)
        for flow in flows:
            self.rows.setdefault(flow.stream.name, 0)
        return [flow for flow in flows if self.notes.goes_on(flow)]

    def run(self, flows: list[Flow]) -> None:
        """Reads every source to its end."""
        taken = {flow.stream.name: self.notes.taken(flow) for flow in flows}
        started = drained = time.monotonic()
        before = self.seconds
        for flow, batch in interleaved(flows, self._fail):
            if self.stop.is_set():
                return
            with interrupts_held():
                try:
                    if flow.batches > taken[flow.stream.name]:
                        self._push(flow, batch)
                except Exception as problem:  # noqa: BLE001 - `_fail` raises or reports it
                    self._fail(flow, problem)
                else:
                    self.notes.took(flow)
            now = time.monotonic()
            self.seconds = before + now - started
            if self.bars is not None:
                self.bars.show(flow, self.seconds)
            if self.outlet.pushed() or now - drained > DRAIN_SECONDS:
                with interrupts_held():
                    self.outlet.drain()
                drained = time.monotonic()
        for flow in flows:
            if not flow.has_failed:
                self.notes.ended(flow)
        self.seconds = before + time.monotonic() - started

    def _push(self, flow: Flow, batch: pa.RecordBatch | Rows) -> None:
        name = flow.stream.name
        try:
            if self.notes.is_numbered(name):
                self.push(name, batch, producer=producer_of(name), sequence=flow.batches)
            else:
                self.push(name, batch)
        except DataError as error:
            if not flow.place:
                raise
            raise error.of_file(flow.place, flow.rows_before) from error
        self.rows[name] += len(batch)

    def _fail(self, flow: Flow, problem: Exception) -> None:
        if self.failed is None:
            raise problem
        flow.fail()
        self.failed(flow.stream, problem)
