"""An archive of the answer of a query: its rows are there for as long as they are in the answer.

    CREATE ARCHIVE a FROM q WITH (path = '...', key = 'k', lifetime = 'own')

Invariant: at the instant t to which the query has come, rows with `_inserted <= t < _expires`, in the files and held,
are the answer of the query. Of a continuous query a row is inserted when it enters the answer and expires when it
leaves it (`entering_rows`); an archive that comes later begins with what the answer is by then. The rows of a report
are inserted at its `window_end` and expire when the next one is due; an archive that comes later begins with that.

What has left the answer is gone, so it says nothing of the past. Which queries have such rows, and how long they live
at most, says `plan/longest_life.py`; that bound, or `every` where it is longer, is the lifetime of the layout.
Golab 2006, chapter 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from panewise.aggregates.columns import integers
from panewise.arrays import INT64_MAX, Ints
from panewise.catalog import ArchiveDefinition
from panewise.engine.archives.archive_keeper import Keeper
from panewise.engine.channels.channel import Channel
from panewise.engine.channels.entering_rows import EXPIRES, EnteringRows
from panewise.engine.channels.hosted_query import HostedQuery
from panewise.operators.row_batch import Rows
from panewise.temporal import INSTANT_NEVER

if TYPE_CHECKING:
    from panewise.archive.archive import Archive
    from panewise.archive.layout import Layout


class OwnLifetimesKeeper(Keeper):
    """What the archives of both kinds of answers have in common: they know nothing of the past of their channel."""

    longest_us: int

    def __init__(self, definition: ArchiveDefinition, channel: Channel, layout: Layout, longest_us: int) -> None:
        super().__init__(definition, channel, layout)
        self.longest_us = longest_us

    def attach(self) -> None:
        """It takes rows from now on."""
        self.channel.attach(self)

    def detach(self) -> None:
        self.channel.detach(self)

    @property
    def held_from(self) -> int:
        """There is no such instant: what has left the answer is gone."""
        return INT64_MAX

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {"come_to": self.channel.watermark}


class ReportsKeeper(OwnLifetimesKeeper):
    """Of a periodic query, whose reports its channel gives: each row lives as long as `longest_us`."""

    def expirations(self, rows: Rows) -> Ints:
        return np.minimum(rows.times, INSTANT_NEVER - self.longest_us) + self.longest_us

    @property
    def oldest(self) -> int | None:
        """At the watermark itself a report is there, and the one before it is not."""
        oldest = super().oldest
        return None if oldest is None else oldest + 1


class AnswerKeeper(OwnLifetimesKeeper):
    """Of a continuous query: its channel gives the rows that enter the answer, as long as some keeper reads it."""

    channel: EnteringRows

    def __init__(
        self, definition: ArchiveDefinition, query: HostedQuery, entering: EnteringRows, layout: Layout, longest_us: int
    ) -> None:
        super().__init__(definition, entering, layout, longest_us)
        self._query = query

    def attach(self) -> None:
        """It takes the answer as it is now, and the rows that enter it from now on."""
        self._query.show_entering(self.channel)
        self.channel.attach(self, self.channel.present())

    def detach(self) -> None:
        super().detach()
        if not self.channel.consumers:
            self._query.show_entering(None)

    def adopt(self, archive: Archive) -> None:
        """Where rows were lost, or files, the answer is still known."""
        done, lost = self._done, self.covered_from == INT64_MAX
        super().adopt(archive)
        if lost or self._done < done:
            self._held = [self.channel.present()]
            self._drop_done()

    def _tell_missing(self, archive: Archive, now: int | None) -> None:
        """Nothing is missing."""

    def expirations(self, rows: Rows) -> Ints:
        return np.minimum(integers(rows.batch.column(EXPIRES)), INSTANT_NEVER)

    def restore(self, snapshot: dict[str, Any]) -> None:
        super().restore(snapshot)
        self.channel.watermark = snapshot["come_to"]
