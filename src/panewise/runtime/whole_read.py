"""A one-time query over several streams, or over windows of rows, as a transaction of one step.

What it reads is pinned inside a turn, and computed outside all of them. Such a query has no parts that could be put
together, so its window is one sub-window, and every move that changes what it would answer is a conflict: where it has
to answer as of its commit, and such a move has come in between, it is aborted and begins again. After a few times it is
computed inside the turn, so that it ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from panewise.runtime.answers import with_watermark
from panewise.runtime.channel import INT64_MIN, Channel
from panewise.runtime.stepwise_read import SourceGone
from panewise.schedule.transactions import Priority, WindowRead

if TYPE_CHECKING:
    from panewise.runtime.window_reads import WindowReads

TRIES = 3  # outside: each costs as much as the whole query

Compute = Callable[[Callable[[str], Channel]], pa.Table]


class WholeRead:
    """One SELECT. Made inside a turn: that is its begin."""

    def __init__(
        self,
        reads: WindowReads,
        names: list[str],
        find: Callable[[str], Channel | None],
        compute: Compute,
        until: Callable[[list[Channel]], int],
    ) -> None:
        """`compute` answers from channels by their names, `until` says as of which instant that is."""
        self._reads = reads
        self._names = names
        self._find = find
        self._compute = compute
        self._until = until
        self._number = reads.numbered()
        self._channels = self._found()
        self._pinned = self._pin()

    def finished(self) -> pa.Table:
        """The answer. Called outside all turns."""
        for attempt in range(1, TRIES + 1):
            name = f"Q{self._number}_{attempt}"
            scheduler = self._reads.scheduler(1)
            scheduler.begin(WindowRead(name, 1, Priority.ONE_TIME))
            scheduler.next_step(name)
            answer = self._answer()
            self._reads.pause()
            if not self._reads.latest:
                scheduler.commit(name)
                self._reads.committed(inside=False)
                return answer
            with self._reads.turns:
                if self._moved():
                    scheduler.move()
                    self._reads.aborted()
                    self._pinned = self._pin()
                    continue
                scheduler.commit(name)
                self._reads.committed(inside=False)
                return answer
        with self._reads.turns:
            self._moved()
            self._pinned = self._pin()
            self._reads.committed(inside=True)
            return self._answer()

    def _answer(self) -> pa.Table:
        table = self._compute(lambda name: self._pinned[name.lower()])
        come_to = min(channel.watermark for channel in self._pinned.values())
        return with_watermark(table, None if come_to == INT64_MIN else come_to)

    def _moved(self) -> bool:
        """Inside a turn: whether the answer as of now is as of another instant."""
        if any(self._find(name) is not channel for name, channel in self._channels.items()):
            raise SourceGone
        return self._until(list(self._channels.values())) != self._until(list(self._pinned.values()))

    def _found(self) -> dict[str, Channel]:
        channels = {}
        for name in self._names:
            channel = self._find(name)
            assert channel is not None, "the statement was bound in this turn"
            channels[name.lower()] = channel
        return channels

    def _pin(self) -> dict[str, Channel]:
        return {name: channel.pinned() for name, channel in self._channels.items()}
