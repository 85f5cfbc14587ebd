"""Ports: the inputs of consumers that take rows in event-time order, as readers of their channels.

Rows wait at their port until the watermarks of all inputs have passed them. A clock is an input without rows: it has
the watermark of a stream that changes a table of the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from panewise.arrays import INT64_MIN, Ints
from panewise.engine.channels.channel import Channel
from panewise.engine.channels.readers import PortOwner, Reader
from panewise.operators.partition_tail import RowCounts
from panewise.operators.relation_delta import NONE
from panewise.operators.row_batch import Rows, concatenated
from panewise.plan.explanation import Explanation
from panewise.temporal import SECOND


class Clock(Reader):
    """The watermark of a channel. The reader that applies the channel's rows to a table takes them before the clock."""

    def __init__(self, owner: PortOwner, channel: Channel) -> None:
        self.owner = owner
        self.channel = channel
        self.watermark = INT64_MIN

    def next_due(self) -> int:
        return INT64_MIN

    def take(self, rows: Rows, watermark: int) -> None:
        self.move_to(watermark)
        self.owner.advance()

    def move_to(self, watermark: int) -> None:
        """The channel's watermark is at least this."""
        self.watermark = max(self.watermark, watermark)

    def fail(self, reason: str) -> None:
        self.owner.fail(reason)

    def explained(self) -> Explanation:
        return self.owner.explained()

    @property
    def running(self) -> list[str]:
        return self.owner.running

    def counted_rows(self, partition_by: tuple[str, ...]) -> RowCounts | None:
        return self.owner.counted_rows(partition_by)


class Port(Clock):
    """A clock whose rows wait here, in order of time, until their owner takes them."""

    def __init__(self, owner: PortOwner, channel: Channel) -> None:
        super().__init__(owner, channel)
        self._waiting: list[Rows] = []
        self._rows, self._first, self._last = 0, 0, 0  # Number of rows that have come, their first and last times.

    def take(self, rows: Rows, watermark: int) -> None:
        if len(rows):
            self._waiting.append(rows)
            self._first = self._first if self._rows else int(rows.times[0])
            self._rows, self._last = self._rows + len(rows), int(rows.times[-1])
        super().take(rows, watermark)

    def forget(self) -> None:
        """Drops the waiting rows."""
        self._waiting = []

    def first_times(self, count: int) -> Ints:
        """The times of the first `count` waiting rows, in order; of all if there are fewer."""
        found, left = [NONE], count
        for rows in self._waiting:
            found.append(rows.times[:left])
            left -= len(found[-1])
        return np.concatenate(found)

    def released(self, until: int) -> Rows:
        """Takes out the rows before an instant, in order."""
        if not self._waiting:
            return self.channel.empty_rows()
        rows = concatenated(self._waiting)
        cut = int(np.searchsorted(rows.times, until, side="left"))
        self._waiting = [rows.slice(cut, len(rows))] if cut < len(rows) else []
        return rows.slice(0, cut)

    @property
    def rate(self) -> float | None:
        """Rows per second of event time since it began or was restored; None before there are two times."""
        return self._rows * SECOND / (self._last - self._first) if self._last > self._first else None

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


def attach_ports(ports: Sequence[Port], history: Sequence[Rows] | None) -> None:
    """Attaches the ports to their channels, each with the rows of its history first. Attaching the last one makes their
    owner advance."""
    for number, port in enumerate(ports):
        port.channel.attach(port, None if history is None else history[number])
