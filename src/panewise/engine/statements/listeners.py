"""The listeners of an engine: subscribers of queries, and whoever hears its warnings.

Both are code of the user, and may take locks that another thread holds while it waits for a turn. So they are called
when the turn has ended, in the order of the results, by one thread at a time. What one of them raises does not disturb
the others.
"""

from __future__ import annotations

from collections.abc import Callable

from panewise.engine.books.books import Books
from panewise.engine.channels.hosted_query import HostedQuery, Subscriber
from panewise.engine.channels.turns import Turns
from panewise.engine.ingest.late_remarks import tell_all, warn
from panewise.errors import BadRowsWarning, LateRowsWarning


class Listeners:
    """The listeners of one engine."""

    def __init__(self, books: Books) -> None:
        self._tell: Callable[[Warning], None] = warn
        self._books = books
        self._remarks = books.hosting.remarks
        self._listened: dict[str, HostedQuery] = {}  # queries with subscribers
        self._offered = 0  # number of batches for subscribers so far
        self._delivering = Turns(list)  # one thread at a time calls subscribers

    def tell_by(self, tell: Callable[[Warning], None]) -> None:
        """Warnings of late rows, bad rows and overflows go to this function from now on."""
        self._tell = tell

    @property
    def present(self) -> bool:
        """Whether a query has subscribers."""
        return bool(self._listened)

    def add(self, query: HostedQuery, callback: Subscriber) -> Callable[[], None]:
        """Hands batches of results to a subscriber from now on; returns a function that ends that."""
        query.listen(callback)
        self._listened[query.name] = query

        def unsubscribe() -> None:
            with self._books.turns:
                if callback in query.subscribers:
                    query.subscribers.remove(callback)
                if not query.subscribers and self._listened.get(query.name) is query:
                    del self._listened[query.name]

        return unsubscribe

    def forget(self, query: str) -> None:
        """The query was dropped."""
        self._listened.pop(query, None)

    # -- inside a turn -----------------------------------------------------------------------------------------------

    def note(self) -> None:
        """Notes what is to be handed out when the turn has ended: results, and remarks that are due."""
        offered = sum(query.offered for query in self._listened.values())
        if offered != self._offered:  # Batches of earlier turns are delivered by the threads of those turns.
            self._offered = offered
            self._books.turns.outstanding = True
        for stream in self._books.streams.values():
            if stream.late.remarks.due(stream.late.count):
                lateness = stream.lateness()
                assert lateness is not None, stream.name
                self.remark(lateness.remark)
            if stream.bad.remarks.due(stream.bad.count):
                badness = stream.badness()
                assert badness is not None, stream.name
                self.remark(badness.remark, BadRowsWarning)
        if self._remarks:
            self._books.turns.outstanding = True

    def remark(self, text: str, kind: type[Warning] = LateRowsWarning) -> None:
        """Warns when the turn has ended: a filter may raise an error, and no change must be unfinished then."""
        self._remarks.append(kind(text))
        self._books.turns.outstanding = True

    # -- when the turn has ended -------------------------------------------------------------------------------------

    def hand_out(self) -> list[Exception]:
        """Calls subscribers in the order of the results; returns what they raised.

        If this thread or another one is doing that already, it goes on with the new results, and this call returns.
        """
        raised = tell_all(self._remarks, self._tell)
        while self._undelivered() and self._delivering.entered_at_once():
            try:
                for query in list(self._listened.values()):
                    raised.extend(query.deliver())
            finally:
                self._delivering.__exit__(None, None, None)
        return raised

    def _undelivered(self) -> bool:
        return any(query.undelivered for query in list(self._listened.values()))
