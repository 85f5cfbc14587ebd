"""Delivers a server's results to the sinks of its run. Results are read by number from the log, as subscribers do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from panewise.catalog import Catalog
from panewise.connectors.numbered_sinks import NumberedSink
from panewise.connectors.sinks import PrintTable
from panewise.engine.run.outlets import close_all, numbered_sinks
from panewise.engine.run.sink_notes import SinkNotes
from panewise.errors import CatalogError

if TYPE_CHECKING:
    from panewise.serve.http.results.result_log import ResultLog

READ_ROWS = 100_000


class Subscribed:
    """The sinks as readers of the server's result log; each continues at the number of the row that it needs next."""

    def __init__(self, results: ResultLog, catalog: Catalog, notes: SinkNotes, print_table: PrintTable) -> None:
        self._results = results
        self._sinks = numbered_sinks(catalog, notes, print_table)
        self.counts = dict.fromkeys(self._sinks, 0)
        for query, sinks in self._sinks.items():
            for sink in sinks:
                sink.begin(_next(results, query))
            # The log keeps rows beyond its limits until the sinks have them.
            self._want(query, partial(_first_missing, sinks))

    def release(self) -> None:
        """Call when the sinks are fed no more: the log then keeps no extra rows for them."""
        for query in self._sinks:
            self._want(query, lambda: None)

    def _want(self, query: str, rows_from: Callable[[], int | None]) -> None:
        with suppress(CatalogError):  # the query was dropped
            self._results.series(query).wanted_from = rows_from

    def pushed(self) -> bool:
        return any(
            _next(self._results, query) - (sink.next or 0) > READ_ROWS
            for query, sinks in self._sinks.items()
            for sink in sinks
        )

    def drain(self) -> None:
        for query, rows in read_on(self._results, self._sinks).items():
            self.counts[query] += rows

    def close(self) -> None:
        close_all([sink for sinks in self._sinks.values() for sink in sinks])


def _first_missing(sinks: list[NumberedSink]) -> int:
    """The number of the first row that at least one sink still needs."""
    return min(sink.next or 0 for sink in sinks)


def _next(results: ResultLog, query: str) -> int:
    return results.bounds(query)[1] if query in results.names() else 0


def read_on(results: ResultLog, sinks: dict[str, list[NumberedSink]]) -> dict[str, int]:
    """Writes new results to each sink that has begun; returns the number of rows written for each query."""
    counts = dict.fromkeys(sinks, 0)
    for query, of_query in sinks.items():
        for sink in of_query:
            while sink.next is not None and sink.next < _next(results, query):
                first, table = results.read(query, sink.next, READ_ROWS)
                sink.write(table, first)
                counts[query] += table.num_rows
    return counts
