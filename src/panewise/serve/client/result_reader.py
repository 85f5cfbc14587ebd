"""How far a client has read the results of a query: `client.results`, page by page, by number.

The cursor moves when a call returns, so that a call that failed can be made again. A query that was dropped and created
again under its name has another series of results, with numbers of its own: it is read from its first row.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pyarrow as pa

from panewise.errors import NotHeldError
from panewise.serve.client.transport import Transport, path_of
from panewise.serve.client.wire import ARROW, unpacked

PAGE_ROWS = 100_000


@dataclass(frozen=True)
class _Page:
    table: pa.Table
    series: str
    next: int
    held_from: int
    end: int  # the number of rows there have been


class ResultReader:
    """One client's place in the results of one query."""

    def __init__(self, transport: Transport, query: str) -> None:
        self._transport = transport
        self._query = query
        self._start: int | None = None  # None: the first that is held
        self._series: str | None = None
        self._lock = threading.Lock()

    def read(self) -> pa.Table:
        """All rows that are new; NotHeldError where some before them are gone, and then those that are held."""
        with self._lock:
            first = self._first_page()
            pages = [first]
            # Not beyond what was there when it was asked, or a fast query would be read for ever.
            while pages[-1].next < first.end:
                pages.append(self._page(pages[-1].next, first.series))
            self._start, self._series = pages[-1].next, first.series
        return pa.concat_tables([page.table for page in pages]) if len(pages) > 1 else first.table

    def _first_page(self) -> _Page:
        try:
            return self._page(self._start, self._series)
        except NotHeldError:
            held = self._page(None, None)
            if self._start is None or held.series != self._series:
                return held
            since, self._start = self._start, held.held_from
            raise NotHeldError(
                f"rows {since:,} to {held.held_from - 1:,} of query '{self._query}' are no longer held",
                hint="read more often, or have the server keep more; the next call goes on with what is held",
            ) from None

    def _page(self, start: int | None, series: str | None) -> _Page:
        asked = {"start": start, "series": series, "limit": PAGE_ROWS}
        answer = self._transport.request(
            "GET",
            path_of("v1", "queries", self._query, "results"),
            params={name: str(value) for name, value in asked.items() if value is not None},
            headers={"Accept": ARROW},
        )
        numbers = [int(answer.headers[f"Panewise-{name}"]) for name in ("Next", "Held-From", "End")]
        return _Page(unpacked(answer.content), answer.headers["Panewise-Series"], *numbers)
