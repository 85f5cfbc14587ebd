"""Who listens to an engine: subscribers of queries, and whoever hears its warnings.

Both run code of others, which may take locks that somebody holds who waits for a turn. So they are called when the turn
has ended, in the order of results, and by one thread at a time. What they raise disturbs nobody else.
"""

from __future__ import annotations

from collections.abc import Callable

from panewise.engine.books.books import Books
from panewise.engine.channels.hosted_query import HostedQuery, Subscriber
from panewise.engine.channels.turns import Turns
from panewise.engine.ingest.late_remarks import tell_all, warn
from panewise.errors import BadRowsWarning, LateRowsWarning


class Listeners:
    """Of one engine. `tell` hears of late rows, bad rows and overflows."""

    def __init__(self, books: Books) -> None:
        self.tell: Callable[[Warning], None] = warn
        self._books = books
        self._remarks = books.hosting.remarks  # for whoever is inside when its turn has ended
        self._listened: dict[str, HostedQuery] = {}  # queries that somebody has subscribed to
        self._offered = 0  # batches for subscribers so far
        self._delivering = Turns(list)  # one thread at a time calls subscribers, and outside its turn

    @property
    def present(self) -> bool:
        """Whether somebody has subscribed to a query."""
        return bool(self._listened)

    def add(self, query: HostedQuery, callback: Subscriber) -> Callable[[], None]:
        """Batches of results go to a subscriber from now on; returns a function that ends that."""
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
        """The query is gone."""
        self._listened.pop(query, None)

    # -- inside a turn -----------------------------------------------------------------------------------------------

    def note(self) -> None:
        """Looks for what there is to hand out when the turn has ended."""
        offered = sum(query.offered for query in self._listened.values())
        if offered != self._offered:  # in this turn: those of others are delivered by who was inside then
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
        """Warns when the turn has ended: a filter may make an error of it, and nothing must be in the middle then."""
        self._remarks.append(kind(text))
        self._books.turns.outstanding = True

    # -- when it has ended -------------------------------------------------------------------------------------------

    def hand_out(self) -> list[Exception]:
        """Calls subscribers, in the order of results; returns what was raised. Where that is being done already, by
        this thread further up or by another one, the one that does it goes on with what is new."""
        raised = tell_all(self._remarks, self.tell)
        while self._undelivered() and self._delivering.entered_at_once():
            try:
                for query in list(self._listened.values()):
                    raised.extend(query.deliver())
            finally:
                self._delivering.__exit__(None, None, None)
        return raised

    def _undelivered(self) -> bool:
        return any(query.undelivered for query in list(self._listened.values()))
