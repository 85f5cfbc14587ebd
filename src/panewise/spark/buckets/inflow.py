"""What comes into a bucket from one stream.

Invariant: `arrived` counts the good rows of all tasks, also those that came as partials or went to another bucket. So
rows and partials have the same numbers in every bucket.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from panewise.arrays import INT64_MIN
from panewise.catalog import StreamDefinition
from panewise.engine.channels.channel import Channel
from panewise.engine.ingest.watermark import Watermark
from panewise.operators.row_batch import Rows, concatenated
from panewise.spark.tasks.packing import Packet


class BucketChannel(Channel):
    """A stream as a bucket sees it. Queries that begin now have not seen the rows before `begun_at`."""

    def __init__(self, stream: StreamDefinition, folds_only: bool) -> None:
        super().__init__(stream.name, stream.schema, stream.timestamp)
        self.folds_only = folds_only
        self.version = -1  # version whose queries are being hosted

    @property
    def moment(self) -> object:
        """The version: its queries begin together, also in a bucket that is built anew later."""
        return self.version

    @property
    def held_from(self) -> int | None:
        held = super().held_from
        if self.begun_at is None:
            return held
        return self.begun_at if held is None else max(held, self.begun_at)

    def host(self, version: int) -> None:
        """Call before the queries of a version begin or end."""
        self.version = version

    def begin_after(self, reached: int | None) -> None:
        """Queries that begin now have not seen the rows up to `reached`; None if there were none."""
        self.begun_at = None if reached is None else reached + 1

    def cut_after(self, reached: int | None) -> int:
        """Cuts slices after `reached`, where queries begin now; returns the instant of the cut."""
        self.begin_after(reached)
        self.cut = INT64_MIN if reached is None else reached + 1
        return self.cut

    def number_rows_from(self, rows: int) -> None:
        """Rows are numbered from the beginning of the stream, which had `rows` rows before."""
        self.rows_seen = rows

    def stand_at(self, watermark: int) -> None:
        """Sets the watermark that the partials in the state had reached, without closing windows."""
        self.watermark = watermark


class Inflow:
    """The input from one stream: its channel, its progress, and `arrived`, the number of good rows in all tasks."""

    def __init__(self, stream: StreamDefinition, folds_only: bool = False) -> None:
        self.channel = BucketChannel(stream, folds_only)
        self.progress = Watermark(stream.delay_us)
        self.arrived = 0
        self._rows: list[Rows] = []  # rows of this micro-batch

    def take(self, packet: Packet) -> None:
        """Takes the rows of a packet and what it tells of the stream; `flow` lets the rows go on."""
        if packet.greatest is not None:
            self.progress.greatest = max(self.progress.greatest, packet.greatest)
        if packet.floor is not None:
            self.progress.advance(packet.floor)
        if packet.batch is not None:
            times = np.asarray(packet.batch.column(self.channel.timestamp).view(pa.int64()))
            self._rows.append(Rows(packet.batch, times, self.arrived))
        self.arrived += packet.rows

    def flow(self) -> None:
        """Lets the rows taken since the last call flow on, and moves the watermark once."""
        rows, self._rows = self._rows, []
        self.channel.flow(concatenated(rows) if rows else self.channel.empty_rows(), self.progress.value)

    def resume(self, greatest: int, floor: int, arrived: int, rows_seen: int) -> None:
        """Brings the progress of a new bucket to what its head says."""
        self.progress.greatest, self.progress.floor = greatest, floor
        self.arrived = arrived
        self.channel.number_rows_from(rows_seen)

    def snapshot(self) -> dict[str, Any]:
        return {
            "begun_at": self.channel.begun_at,
            "arrived": self.arrived,
            "progress": self.progress.snapshot(),
            "channel": self.channel.snapshot(),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.channel.begun_at = snapshot["begun_at"]
        self.arrived = snapshot["arrived"]
        self.progress.restore(snapshot["progress"])
        self.channel.restore(snapshot["channel"])
