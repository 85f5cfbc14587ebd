"""Reads the results of a query page by page, by row number, and remembers the position: `client.results`.

The position moves only when a call returns, so a failed call can be repeated. If the query is dropped and created
again, it has a new series of results with its own numbers; the reader then begins at its first row.
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
    end: int  # the number of rows produced so far


class ResultReader:
    """One client's position in the results of one query."""

    def __init__(self, transport: Transport, query: str) -> None:
        self._transport = transport
        self._query = query
        self._start: int | None = None  # None: the first row that is held
        self._series: str | None = None
        self._lock = threading.Lock()

    def read(self) -> pa.Table:
        """All new rows. Raises NotHeldError if some of them are gone; the next call returns those that are held."""
        with self._lock:
            first = self._first_page()
            pages = [first]
            # Stop at the end that the first page reported, or a fast query would be read for ever.
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
                hint="read more often, or let the server keep more; the next call returns the rows that are held",
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
