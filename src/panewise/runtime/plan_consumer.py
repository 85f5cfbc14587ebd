"""The consumer of a plan over several inputs: it reads several channels and goes as far as the slowest of them.

Each input has a port on its channel. Rows wait at their port until the watermarks of all inputs have passed them.
Tables hold nothing up: their changes are there when the plan takes its next step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.errors import NotHeldError, QueryFailed
from panewise.operators.delta_plan import DeltaPlan
from panewise.operators.reports import Piece
from panewise.operators.rows import Rows, concatenated
from panewise.runtime.channel import INT64_MIN, Channel
from panewise.runtime.hosted_query import HostedQuery
from panewise.runtime.table import Table


class Port:
    """One input of the plan, as its channel sees it."""

    ordered = True

    def __init__(self, owner: PlanConsumer, channel: Channel) -> None:
        self.owner = owner
        self.channel = channel
        self.watermark = INT64_MIN
        self._waiting: list[Rows] = []

    def next_due(self) -> int:
        return INT64_MIN

    def take(self, rows: Rows, watermark: int) -> None:
        if len(rows):
            self._waiting.append(rows)
        self.watermark = max(self.watermark, watermark)
        self.owner.go_on()

    def released(self, until: int) -> Rows:
        """The rows below an instant, which are in order."""
        if not self._waiting:
            return self.channel.empty_rows()
        rows = concatenated(self._waiting)
        cut = int(np.searchsorted(rows.times, until, side="left"))
        self._waiting = [rows.slice(cut, len(rows))] if cut < len(rows) else []
        return rows.slice(0, cut)

    @property
    def bytes_held(self) -> int:
        return sum(int(rows.batch.nbytes) for rows in self._waiting)

    def snapshot(self) -> dict[str, Any]:
        rows = concatenated(self._waiting) if self._waiting else self.channel.empty_rows()
        waiting = {"batch": rows.batch, "times": rows.times, "arrivals": rows.arrivals}
        return {"watermark": self.watermark, "waiting": waiting}

    def restore(self, snapshot: dict[str, Any]) -> None:
        waiting = snapshot["waiting"]
        rows = Rows(waiting["batch"], waiting["times"], waiting["arrivals"])
        self.watermark, self._waiting = snapshot["watermark"], [rows] if len(rows) else []


class PlanConsumer:
    """A plan, its ports and its query."""

    def __init__(self, query: HostedQuery, channels: list[Channel], tables: Sequence[Table] = ()) -> None:
        self.query = query
        self.ports = [Port(self, channel) for channel in channels]
        self.plan = DeltaPlan(query.plan, [channel.held_from for channel in channels])
        self._tables = tables
        self._watermark = INT64_MIN

    @property
    def channel(self) -> Channel:
        """The first input: what the query counts as reading where one only can be named."""
        return self.ports[0].channel

    @property
    def read_queries(self) -> list[HostedQuery]:
        return [self.query] if self.query.consumers else []

    def attach(self) -> None:
        for port in self.ports:
            port.channel.attach(port)
        for table, source in zip(self._tables, self.plan.tables, strict=True):
            table.attach(source)

    def detach(self) -> None:
        for port in self.ports:
            port.channel.detach(port)
        self._leave_tables()

    def _leave_tables(self) -> None:
        for table, source in zip(self._tables, self.plan.tables, strict=True):
            table.detach(source)

    def go_on(self) -> None:
        """As far as all inputs have come."""
        until = min(port.watermark for port in self.ports)
        if until <= self._watermark or self.query.status == "FAILED":
            return
        self._watermark = until
        try:
            table = self.plan.process([port.released(until) for port in self.ports], until)
        except QueryFailed as problem:
            self.query.status, self.query.reason = "FAILED", problem.message
            self._leave_tables()
            return
        pieces: list[Piece] = list(table.to_batches()) if table.num_rows else []
        self.query.receive(pieces, until)

    def lookup(self, name: str, at: int | None) -> pa.Table:
        """The relation now or then; of a periodic query the last report."""
        periodic = self.query.block.periodic
        if self._watermark == INT64_MIN:
            names = self.query.arrow.names if periodic else [item.name for item in self.query.block.items]
            return self.query.arrow.empty_table().select(names)
        if at is not None and at > self._watermark:
            raise NotHeldError(f"'{name}' has not come so far yet")
        if at is None:
            at = self._watermark if periodic else self._watermark - 1
        return self.plan.lookup(at)

    @property
    def bytes_held(self) -> int:
        return self.plan.bytes_held + sum(port.bytes_held for port in self.ports)

    def snapshot(self) -> dict[str, Any]:
        return {
            "plan": self.plan.snapshot(),
            "ports": [port.snapshot() for port in self.ports],
            "watermark": self._watermark,
            "failed": self.query.status == "FAILED",
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.plan.restore(snapshot["plan"])
        for port, saved in zip(self.ports, snapshot["ports"], strict=True):
            port.restore(saved)
        self._watermark = snapshot["watermark"]
        if snapshot.get("failed"):
            self._leave_tables()
