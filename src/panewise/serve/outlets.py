"""Results on their way to the sinks of a run, from wherever they come.

An outlet is told after every push, and drained about once a second and at the end, so that a folder gets few part files
and a watcher still sees it grow. There is one for an engine without a folder (`Fetched`), one for an engine with a
folder, which hands rows over with their numbers (`HandedOver`), and one for a server, which keeps all results by number
and is read like by any other subscriber (`Subscribed`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from panewise.catalog import Catalog, QueryDefinition, SinkDefinition
from panewise.connectors.numbered_sinks import NumberedSink
from panewise.connectors.places import check_places
from panewise.connectors.registry import open_numbered_sink, open_sink
from panewise.connectors.sinks import PrintTable
from panewise.errors import CatalogError

if TYPE_CHECKING:
    import pyarrow as pa

    from panewise.runtime.engine import Engine
    from panewise.serve.http.result_log import ResultLog

UNREAD_ROWS = 1_000_000  # after which sinks get what there is, whatever the time
READ_ROWS = 100_000
S = TypeVar("S")


class Outlet(Protocol):
    """Takes results of all queries."""

    counts: dict[str, int]  # rows so far in this run, by query

    def pushed(self) -> bool:
        """Rows have gone in. Whether it wants to be drained soon."""

    def drain(self) -> None:
        """All new results are with their sinks."""

    def close(self) -> None: ...


class Fetched:
    """Results as `Engine.results` gives them; those without a sink are counted and let go."""

    def __init__(self, engine: Engine, print_table: PrintTable) -> None:
        self._engine = engine
        self.counts = {d.name: 0 for d in engine.catalog if isinstance(d, QueryDefinition)}
        check_places(engine.catalog)
        self._sinks = _by_query(engine.catalog, lambda sink: open_sink(sink, print_table))
        self._waiting: dict[str, list[pa.Table]] = {query: [] for query in self._sinks}

    def pushed(self) -> bool:
        # The engine keeps only so many results that nobody reads.
        for name in self.counts:
            table = self._engine.results(name)
            self.counts[name] += table.num_rows
            if table.num_rows and name in self._sinks:
                self._waiting[name].append(table)
        return False

    def drain(self) -> None:
        import pyarrow as pa

        self.pushed()
        for name, tables in self._waiting.items():
            if tables:
                table = pa.concat_tables(tables)
                for sink in self._sinks[name]:
                    sink.write(table)
                tables.clear()

    def close(self) -> None:
        for sinks in self._sinks.values():
            for sink in sinks:
                sink.close()


class HandedOver:
    """Results as `Engine.hand_over` gives them: they stay the engine's until the sinks have them on the disk."""

    def __init__(self, engine: Engine, print_table: PrintTable, keep: Path) -> None:
        self._engine = engine
        self.counts = {d.name: 0 for d in engine.catalog if isinstance(d, QueryDefinition)}
        self._sinks = numbered_sinks(engine.catalog, print_table, keep)
        self._drained = 0

    def catch_up(self, results: ResultLog) -> None:
        """Rows that a server has taken from the engine, and that it was killed before the sinks had."""
        _read_on(results, self._sinks)

    def pushed(self) -> bool:
        return self._rows_out() - self._drained > UNREAD_ROWS

    def _rows_out(self) -> int:
        return sum(query.rows_out for query in self._engine.hosting.queries.values())

    def drain(self) -> None:
        for name in self.counts:
            self.counts[name] += self._engine.hand_over(name, self._taker(self._sinks.get(name, [])))
        self._drained = self._rows_out()

    def _taker(self, sinks: list[NumberedSink]) -> Callable[[pa.Table, int], None]:
        def take(table: pa.Table, first: int) -> None:
            for sink in sinks:
                sink.write(table, first)

        return take

    def close(self) -> None:
        _close(self._sinks)


class Subscribed:
    """Results as a server's log has them; each sink reads on from the number that it expects."""

    def __init__(self, results: ResultLog, catalog: Catalog, print_table: PrintTable, keep: Path | None) -> None:
        self._results = results
        self._sinks = numbered_sinks(catalog, print_table, keep)
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
        for query, rows in _read_on(self._results, self._sinks).items():
            self.counts[query] += rows

    def close(self) -> None:
        _close(self._sinks)


def numbered_sinks(catalog: Catalog, print_table: PrintTable, keep: Path | None) -> dict[str, list[NumberedSink]]:
    """The sinks by query; `keep` is the folder in which they note how far they have come."""
    check_places(catalog)
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
    return _by_query(catalog, lambda sink: open_numbered_sink(sink, print_table, keep))


def _by_query(catalog: Catalog, opened: Callable[[SinkDefinition], S]) -> dict[str, list[S]]:
    found: dict[str, list[S]] = {}
    for definition in catalog:
        if isinstance(definition, SinkDefinition):
            found.setdefault(catalog.get(definition.source).name, []).append(opened(definition))
    return found


def _first_missing(sinks: list[NumberedSink]) -> int:
    """The number of the first row that some sink has not got."""
    return min(sink.next or 0 for sink in sinks)


def _next(results: ResultLog, query: str) -> int:
    return results.bounds(query)[1] if query in results.names() else 0


def _read_on(results: ResultLog, sinks: dict[str, list[NumberedSink]]) -> dict[str, int]:
    """Each sink that has begun gets what it has not; returns how many rows the sinks of each query have got."""
    counts = dict.fromkeys(sinks, 0)
    for query, of_query in sinks.items():
        for sink in of_query:
            while sink.next is not None and sink.next < _next(results, query):
                first, table = results.read(query, sink.next, READ_ROWS)
                sink.write(table, first)
                counts[query] += table.num_rows
    return counts


def _close(sinks: dict[str, list[NumberedSink]]) -> None:
    for of_query in sinks.values():
        for sink in of_query:
            sink.close()
