"""An archive of the answer of a query: it has a row as long as the row is in the answer.

    CREATE ARCHIVE a FROM q WITH (path = '...', key = 'k', lifetime = 'own')

Invariant: at the watermark t of the query, the rows with `_inserted <= t < _expires`, in the files and held, are the
answer of the query. For a continuous query, a row is inserted when it enters the answer and expires when it leaves it
(`entering_rows.py`); an archive that is created later begins with the answer at that time. For a periodic query, the
rows of a report are inserted at its `window_end` and expire when the next report is due; an archive that is created
later begins with the next report.

Rows that have left the answer are gone, so the archive knows no past. `plan/longest_life.py` says which queries may
have such an archive, and how long their rows live at most. That bound, or `every` if it is longer, is the lifetime of
the layout. Golab 2006, chapter 4.
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
    """The base of both kinds of keepers, which do not know the past of their channel."""

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
        """No past is held: rows that have left the answer are gone."""
        return INT64_MAX

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {"come_to": self.channel.watermark}


class ReportsKeeper(OwnLifetimesKeeper):
    """For a periodic query, whose reports are the rows of its channel: each row lives for `longest_us`."""

    def expirations(self, rows: Rows) -> Ints:
        return np.minimum(rows.times, INSTANT_NEVER - self.longest_us) + self.longest_us

    @property
    def oldest(self) -> int | None:
        """At the watermark itself, the report before it has expired."""
        oldest = super().oldest
        return None if oldest is None else oldest + 1


class AnswerKeeper(OwnLifetimesKeeper):
    """For a continuous query: its channel has the rows that enter the answer, while a keeper reads it."""

    channel: EnteringRows

    def __init__(
        self, definition: ArchiveDefinition, query: HostedQuery, entering: EnteringRows, layout: Layout, longest_us: int
    ) -> None:
        super().__init__(definition, entering, layout, longest_us)
        self._query = query

    def attach(self) -> None:
        """It takes the present answer, and the rows that enter it from now on."""
        self._query.show_entering(self.channel)
        self.channel.attach(self, self.channel.present())

    def detach(self) -> None:
        super().detach()
        if not self.channel.consumers:
            self._query.show_entering(None)

    def adopt(self, archive: Archive) -> None:
        """Even if rows or files were lost, the answer is known, and is held anew."""
        done, lost = self._done, self.covered_from == INT64_MAX
        super().adopt(archive)
        if lost or self._done < done:
            self._held = [self.channel.present()]
            self._drop_done()

    def _tell_missing(self, archive: Archive, now: int | None) -> None:
        """There is no warning: no row of the answer is missing."""

    def expirations(self, rows: Rows) -> Ints:
        return np.minimum(integers(rows.batch.column(EXPIRES)), INSTANT_NEVER)

    def restore(self, snapshot: dict[str, Any]) -> None:
        super().restore(snapshot)
        self.channel.go_on_from(snapshot["come_to"])
