"""Results on their way to callers: each is read once, by one of these calls, or goes to all subscribers."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from panewise.engine.books.books import Books
from panewise.engine.calls.flusher import Flusher
from panewise.engine.channels.hosted_query import Subscriber
from panewise.engine.reads.read_out import read_out
from panewise.engine.statements.listeners import Listeners
from panewise.errors import DataError


class ResultCalls:
    """Calls that take the results of one engine's queries."""

    def __init__(self, books: Books, flusher: Flusher, listeners: Listeners) -> None:
        self._books = books
        self._turns = books.turns
        self._flusher = flusher
        self._listeners = listeners

    def results(self, query: str) -> pa.Table:
        """The results of a query since the last call."""
        with self._turns:
            self._flusher.flush_all()
            hosted = self._books.query_to_read(query)
            return read_out(self._books, [hosted], lambda tables: None)[0]

    def hand_over(self, query: str, take: Callable[[pa.Table, int], None]) -> int:
        """Calls `take` with new results and the number of the first; they count as read when it returns."""
        with self._turns:
            self._flusher.flush_all()
            hosted = self._books.query_to_read(query)

            def hand(tables: list[pa.Table]) -> None:
                if tables[0].num_rows:
                    take(tables[0], hosted.unread.next_number - tables[0].num_rows)

            return int(read_out(self._books, [hosted], hand)[0].num_rows)

    def hand_over_all(self, take: Callable[[list[tuple[str, pa.Table, int]]], None]) -> int:
        """`hand_over` of all queries in one turn: `take` is called once, with those that have new results."""
        with self._turns:
            self._books.check_state()
            self._flusher.flush_all()
            queries = list(self._books.hosting.queries.values())

            def hand(tables: list[pa.Table]) -> None:
                read = [(query, table) for query, table in zip(queries, tables, strict=True) if table.num_rows]
                if read:
                    take([(query.name, table, query.unread.next_number - table.num_rows) for query, table in read])

            return sum(int(table.num_rows) for table in read_out(self._books, queries, hand))

    def subscribe(self, query: str, callback: Subscriber) -> Callable[[], None]:
        """Hands batches of results to `callback` from now on; returns a function that ends that."""
        if not callable(callback):
            raise DataError(f"a subscriber is called with batches, and a {type(callback).__name__} cannot be called")
        with self._turns:
            self._flusher.flush_all()
            hosted = self._books.query_to_read(query)
            with self._turns.change:
                return self._listeners.add(hosted, callback)
