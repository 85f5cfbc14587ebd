"""Brings results to the sinks of a run.

An outlet hears of every push. It is drained about once a second and at the end, so that a folder gets few part files
and still grows while somebody watches. `EngineOutlet` is the outlet of an engine; a server, which keeps all results by
number, has another one (`serve/cli/subscribed.py`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Protocol

import pyarrow as pa

from panewise.catalog import Catalog, Definition, QueryDefinition, SinkDefinition
from panewise.connectors.numbered_sinks import NumberedSink
from panewise.connectors.places import check_places
from panewise.connectors.sinks import PrintTable
from panewise.engine.books.books import Books
from panewise.engine.run.sink_notes import SinkNotes
from panewise.errors import ConnectorWarning, PanewiseError

HandOver = Callable[[str, Callable[[pa.Table, int], None]], int]
"""`Engine.hand_over`."""

UNREAD_ROWS = 1_000_000  # Results are brought to sinks as soon as there are more than these.


class Outlet(Protocol):
    """Brings results of queries to their sinks."""

    counts: dict[str, int]  # rows so far in this run, by query

    def pushed(self) -> bool:
        """Called after a push. Whether it has to be drained now."""

    def drain(self) -> None:
        """Brings all new results to their sinks."""

    def close(self) -> None: ...


class EngineOutlet:
    """Takes results by `Engine.hand_over`: the engine keeps them until the sinks have them.

    `every_query`: results of queries without a sink are counted and dropped; otherwise they stay in the engine. `gaps`:
    warns of rows that a sink misses because a caller has read them with `results`; otherwise such a sink is refused.
    """

    def __init__(
        self,
        books: Books,
        hand_over: HandOver,
        notes: SinkNotes,
        print_table: PrintTable,
        *,
        every_query: bool,
        gaps: bool,
    ) -> None:
        self.counts: dict[str, int] = {}
        self._books = books
        self._hand_over = hand_over
        self._notes = notes
        self._print = print_table
        self._every_query = every_query
        self._gaps = gaps
        self._drained = 0
        self._drained_bytes = 0
        self._known: list[Definition] = []
        self._open: dict[str, tuple[SinkDefinition, NumberedSink]] = {}  # by lower-case name of the sink

    def open(self) -> None:
        """Opens sinks that were created, and closes those that were dropped. Checks all places before it writes."""
        definitions = list(self._books.catalog)
        if [*map(id, definitions)] == [*map(id, self._known)]:
            return
        check_places(self._books.catalog)
        self._notes.clear(self._books.catalog)
        sinks = {d.name.lower(): d for d in definitions if isinstance(d, SinkDefinition)}
        for key, (definition, sink) in list(self._open.items()):
            if sinks.get(key) is not definition:
                del self._open[key]
                sink.close()
                self._notes.forget(definition)
        for key, definition in sinks.items():
            if key not in self._open:
                self._open[key] = definition, self._notes.open(definition, self._print)
        queries = {d.name.lower(): d.name for d in definitions if isinstance(d, QueryDefinition)}
        wanted = queries if self._every_query else {d.source.lower() for d, _ in self._open.values()}
        self.counts = {name: self.counts.get(name, 0) for key, name in queries.items() if key in wanted}
        self._known = definitions

    def by_query(self) -> dict[str, list[NumberedSink]]:
        """The open sinks, by the name of their query."""
        found: dict[str, list[NumberedSink]] = {}
        for definition, sink in self._open.values():
            found.setdefault(self._books.catalog.get(definition.source).name, []).append(sink)
        return found

    def pushed(self) -> bool:
        unread = self._books.unread
        return self._rows_out() - self._drained > UNREAD_ROWS or unread.is_pressing(self._drained_bytes)

    def _rows_out(self) -> int:
        queries = self._books.hosting.queries
        return sum(queries[name.lower()].rows_out for name in self.counts if name.lower() in queries)

    def drain(self) -> None:
        """Brings each query's new results to all of its sinks or to none. The first error is raised at the end."""
        problem: Exception | None = None
        for name in self.counts:
            if self._books.catalog.find(name) is None:
                continue  # dropped meanwhile
            try:
                self.counts[name] += self._hand_over(name, self._taker(name))
            except (PanewiseError, OSError) as error:
                problem = problem or error
        if problem is not None:
            raise problem
        self._drained, self._drained_bytes = self._rows_out(), self._books.unread.taken

    def _taker(self, query: str) -> Callable[[pa.Table, int], None]:
        sinks = [(d.name, sink) for d, sink in self._open.values() if d.source.lower() == query.lower()]

        def take(table: pa.Table, first: int) -> None:
            for name, sink in sinks:
                if self._gaps and sink.next is not None and sink.next < first:
                    warnings.warn(
                        f"the results {sink.next:,} to {first - 1:,} of query '{query}' were read with results() "
                        f"or hand_over(), or dropped unread, and are missing in sink '{name}'",
                        ConnectorWarning,
                        stacklevel=2,
                    )
                    sink.skip(first)
                sink.write(table, first)

        return take

    def close(self) -> None:
        """Closes all sinks, and then raises the first error."""
        opened, self._open, self._known = self._open, {}, []
        close_all([sink for _, sink in opened.values()])


def numbered_sinks(catalog: Catalog, notes: SinkNotes, print_table: PrintTable) -> dict[str, list[NumberedSink]]:
    """The opened sinks, by query. If one cannot be opened, the others are closed again."""
    check_places(catalog)
    notes.clear(catalog)
    found: dict[str, list[NumberedSink]] = {}
    try:
        for sink in catalog:
            if isinstance(sink, SinkDefinition):
                found.setdefault(catalog.get(sink.source).name, []).append(notes.open(sink, print_table))
    except BaseException:
        close_all([sink for sinks in found.values() for sink in sinks])
        raise
    return found


def close_all(sinks: list[NumberedSink]) -> None:
    """Closes all sinks, and then raises the first error."""
    problem: Exception | None = None
    for sink in sinks:
        try:
            sink.close()
        except (PanewiseError, OSError) as error:
            problem = problem or error
    if problem is not None:
        raise problem
