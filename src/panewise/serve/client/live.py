"""Live results: each row once and in order, across lost connections and restarts of the server.

The server numbers the results of a query from 0 and keeps them (durably, if it has a path). Invariant: `next` is the
number of the next row; every row before it has been returned, or reported as a gap, and none twice. A connection is
opened at `next`; received rows below `next` are dropped, and missing rows are always reported.

        server    ... 17 18 19 20 21 22 23 ...
        before            19] lost               next = 20
        again                [20 21 22 ...       start = 20

The numbers belong to one series of results, from CREATE QUERY to DROP QUERY, which has an identifier. If the query was
dropped, the iteration ends, also if another query of that name exists: its rows do not continue these. A slow reader
delays only its own connection; the server has no queue for it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any, Protocol, Self

import pyarrow as pa

from panewise.errors import CatalogError, NotHeldError, PanewiseError, ServerError
from panewise.serve.client.backoff import Backoff
from panewise.serve.client.wire import batch_of, schema_of

OnGap = Callable[[int, int], None]
SERVER_ENDS = "the server ends"  # the client then reconnects


class Lost(Exception):
    """A connection broke, or could not be opened for now. Retry after `at_least_s` seconds, as the server asks."""

    def __init__(self, reason: PanewiseError, at_least_s: float = 0.0) -> None:
        super().__init__(str(reason))
        self.reason = reason
        self.at_least_s = at_least_s


class Connection(Protocol):
    """A connection that delivers messages of one query; both methods raise only Lost and PanewiseError."""

    def receive(self) -> str | bytes:
        """Waits for the next message and returns it."""

    def close(self) -> None:
        """Ends the connection, from any thread; a waiting `receive` raises Lost."""


class Live:
    """An iterator over Arrow batches of one query's results; the constructor opens the first connection.

    `next` is the number of the next row, `series` identifies the results that the number belongs to. After iteration
    has ended, `ended` is the reason. One thread may iterate; `close` may be called from any.
    """

    def __init__(
        self,
        query: str,
        opened: Callable[[int | None, str | None], Connection],
        *,
        start: int | None = None,
        series: str | None = None,
        on_gap: OnGap | None = None,
        timeout_s: float = 30.0,
        wait_s: float = 300.0,
    ) -> None:
        """`timeout_s` limits the first connection, `wait_s` each attempt to reach a lost server again."""
        self.query = query
        self.next = start
        self.series = series
        self.ended: str | None = None
        self._opened = opened
        self._on_gap = on_gap
        self._wait_s = wait_s
        self._schema: pa.Schema | None = None
        self._connection: Connection | None = None
        self._closed = threading.Event()
        self._lock = threading.Lock()  # protects `_connection`: `close` may run in another thread
        self._connect(timeout_s)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        while self.ended is None:
            if self._connection is None:
                self._reconnect()
                continue
            try:
                message = json.loads(self._connection.receive())
            except Lost:
                self._disconnect()
                continue
            batch = self._taken(message)
            if batch is not None:
                return batch
        self._disconnect()
        raise StopIteration

    def close(self) -> None:
        """Ends the iteration, from any thread; rows that were not returned stay on the server."""
        self._closed.set()
        self._disconnect()

    def __del__(self) -> None:
        # A loop that ends with `break` does not close the iterator.
        if getattr(self, "_connection", None) is not None:
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- messages ------------------------------------------------------------------------------------------------

    def _taken(self, message: dict[str, Any]) -> pa.RecordBatch | None:
        match message["type"]:
            case "rows":
                return self._rows(message["first"], message["rows"])
            case "gap":
                self._skip(message["to"], has_other_numbers=message.get("reset", False))
            case "end" if message.get("reason") == SERVER_ENDS:
                self._disconnect()
            case "end":
                self.ended = str(message.get("reason"))
            case "error":
                self._disconnect()
                raise ServerError(f"live results of '{self.query}': {message['error']['message']}")
        return None  # also for unknown messages, which a newer server may send

    def _rows(self, first: int, rows: list[list[Any]]) -> pa.RecordBatch | None:
        assert self.next is not None and self._schema is not None
        if first > self.next:
            self._skip(first)
        known = self.next - first
        if known >= len(rows):
            return None
        batch = batch_of(rows[known:], self._schema)
        self.next += batch.num_rows
        return batch

    def _skip(self, until: int, has_other_numbers: bool = False) -> None:
        """Rows before `until` are no longer held: calls `on_gap`, or raises NotHeldError if there is none.

        If the caller's number is greater than the number of rows so far, `until` may lie below it.
        """
        assert self.next is not None
        since = self.next
        if until <= since and not has_other_numbers:
            return
        self.next = until
        if self._on_gap is not None:
            self._on_gap(since, until)
            return
        # A caller that continues after the exception gets the rows from `until` on over a new connection.
        self._disconnect()
        if has_other_numbers:
            raise NotHeldError(
                f"query '{self.query}' has no row {since:,}",
                hint=f"its next row is {until:,}; has the query been created again?",
            )
        raise NotHeldError(
            f"rows {since:,} to {until - 1:,} of query '{self.query}' are no longer held",
            hint="read faster, let the server keep more, or pass on_gap to continue without them",
        )

    # -- connections ---------------------------------------------------------------------------------------------

    def _reconnect(self) -> None:
        try:
            self._connect(self._wait_s)
        except CatalogError as problem:  # the query was dropped while the connection was down
            self.ended = problem.message

    def _connect(self, patience_s: float) -> None:
        backoff = Backoff(patience_s, self._closed.wait)
        while not self._closed.is_set():
            try:
                connection = self._opened(self.next, self.series)
                with self._lock:
                    self._connection = connection
                if self._closed.is_set():  # `close` ran before this connection was stored, so close it here
                    break
                self._greeted(json.loads(connection.receive()))
                return
            except Lost as lost:
                self._disconnect()
                if not backoff.wait(lost.at_least_s):
                    raise lost.reason from None
            except BaseException:
                self._disconnect()
                raise
        self._disconnect()
        self.ended = "closed"

    def _greeted(self, hello: dict[str, Any]) -> None:
        if hello["type"] != "hello":
            self._taken(hello)  # an end or an error instead of a greeting
            return
        if self.series is not None and hello["series"] != self.series:
            self.ended = f"query '{self.query}' was dropped and created again; these are results of the new one"
            return
        self.series = hello["series"]
        self._schema = schema_of(hello["columns"])
        if self.next is None:
            self.next = hello["next"]

    def _disconnect(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
