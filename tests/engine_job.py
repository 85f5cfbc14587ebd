"""One `pw.Engine` with the face of a Spark job: what many cases in lockstep and random queries are proved with."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

import panewise as pw
from panewise.catalog import StreamDefinition


class EngineJob:
    """One engine behind the face of a Spark job (see `lockstep.Job`); it counts the rounds.

    Its watermark moves between pushes and not within one, as Spark's does between micro-batches: to an engine that gets
    the rows of a push in the order of time, no row comes late because of a row of the same push.
    """

    def __init__(self) -> None:
        self.engine = pw.Engine()
        self.started = False
        self.rounds = 0
        self.changes = 0

    def execute(self, text: str) -> pa.Table | None:
        self.changes += self.started
        return self.engine.execute(text)

    def push(self, name: str, rows: list[dict[str, Any]]) -> None:
        self.engine.push(name, self._in_time_order(name, rows))

    def _in_time_order(self, name: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        definition = self.engine.catalog.find(name)
        if not isinstance(definition, StreamDefinition):
            return rows
        times = [row.get(definition.timestamp) for row in rows]
        newest = max((time for time in times if isinstance(time, datetime)), default=datetime.max)
        # A bad row has no time of its own: it stays where it is, among the last ones.
        order = sorted(zip(times, rows, strict=True), key=lambda it: it[0] if isinstance(it[0], datetime) else newest)
        return [row for _, row in order]

    def advance(self, name: str, until: int) -> None:
        self.engine.advance(name, until)

    def flush(self, streams: Sequence[str]) -> None:
        self.engine.flush(streams)

    def process(self) -> None:
        self.started = True
        self.rounds += 1

    def results(self, name: str) -> pa.Table:
        return self.engine.results(name)

    def lookup(self, name: str, at: int | None) -> pa.Table:
        return self.engine.lookup(name, at=at)

    def late_rows(self, name: str) -> pa.Table:
        return self.engine.late_rows(name)

    def stats(self) -> dict[str, Any]:
        return self.engine.stats()

    def restart(self) -> None:
        self.engine = pw.Engine.restore(self.engine.snapshot())
