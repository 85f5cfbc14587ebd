"""Results of a server on their way to the sinks of its run: read by number from its log, as subscribers do."""

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
    """Results as a server's log has them; each sink reads on from the number that it expects."""

    def __init__(self, results: ResultLog, catalog: Catalog, notes: SinkNotes, print_table: PrintTable) -> None:
        self._results = results
        self._sinks = numbered_sinks(catalog, notes, print_table)
        self.counts = dict.fromkeys(self._sinks, 0)
        for query, sinks in self._sinks.items():
            for sink in sinks:
                sink.begin(_next(results, query))
            # However many rows come at once: none is given up before the sinks have it.
            self._want(query, partial(_first_missing, sinks))

    def release(self) -> None:
        """The sinks get no more: rows are held for them no longer than for anybody."""
        for query in self._sinks:
            self._want(query, lambda: None)

    def _want(self, query: str, rows_from: Callable[[], int | None]) -> None:
        with suppress(CatalogError):  # it was dropped
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
    """The number of the first row that some sink has not got."""
    return min(sink.next or 0 for sink in sinks)


def _next(results: ResultLog, query: str) -> int:
    return results.bounds(query)[1] if query in results.names() else 0


def read_on(results: ResultLog, sinks: dict[str, list[NumberedSink]]) -> dict[str, int]:
    """Each sink that has begun gets what it has not; returns how many rows the sinks of each query have got."""
    counts = dict.fromkeys(sinks, 0)
    for query, of_query in sinks.items():
        for sink in of_query:
            while sink.next is not None and sink.next < _next(results, query):
                first, table = results.read(query, sink.next, READ_ROWS)
                sink.write(table, first)
                counts[query] += table.num_rows
    return counts
