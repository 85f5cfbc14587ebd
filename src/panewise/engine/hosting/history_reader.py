"""Archived and retained rows with which new queries begin, and whether any query has begun with some.

The log of an engine does not hold what archives answered, and they may know less when it is read again. So whoever
writes it asks `was_used`, and writes a snapshot where the answer is yes.
"""

from __future__ import annotations

from panewise.engine.archives.archive_history import ArchivedHistory, PlanHistory, history_of
from panewise.engine.channels.channel import Channel
from panewise.plan.blocks import Block


class HistoryReader:
    """Reads the past for the queries of one host."""

    def __init__(self) -> None:
        self._used = False

    def read(self, block: Block, channel: Channel) -> ArchivedHistory | None:
        """Rows with which a query over one channel can begin at once; None where some are not known."""
        history = history_of(block, channel)
        self.note(history)
        return history

    def note(self, history: ArchivedHistory | PlanHistory | None) -> None:
        """A query begins with this history."""
        self._used = self._used or history is not None

    def was_used(self) -> bool:
        """Whether a query has begun with history since the last call."""
        used, self._used = self._used, False
        return used
