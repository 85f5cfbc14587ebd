"""The books of an engine: what is defined, what runs for it, and what is written down of it.

Who works on the state of an engine has its books: statements, one-time queries, snapshots, the replay of a log, runs.
They are kept inside turns; only names are looked up outside. Invariant: what the catalog defines is hosted here, under
the same name in lower case, but for what a statement is in the middle of changing.
"""

from __future__ import annotations

from collections.abc import Callable

from panewise.aggregates import builtin as registry
from panewise.aggregates.aggregate_functions import AggregateFunction
from panewise.catalog import Catalog
from panewise.engine.books.engine_archives import Archives
from panewise.engine.channels.channel import Channel
from panewise.engine.channels.hosted_query import HostedQuery
from panewise.engine.channels.turns import Turns
from panewise.engine.channels.unread_total import UnreadTotal
from panewise.engine.durability.durability import Durability
from panewise.engine.hosting.query_registry import QueryRegistry
from panewise.engine.ingest.stream import Stream
from panewise.engine.tables.table import Table
from panewise.errors import DurabilityError
from panewise.state.forked import let_go_in_children


class Books:
    """Of one engine. `log`: what it writes down before it happens, where it has a folder."""

    def __init__(self, turns: Turns, sharing: str, unread_bytes: int | None) -> None:
        self.turns = turns
        self.catalog = Catalog()
        self.streams: dict[str, Stream] = {}  # by lower-case name, as in `hosting`
        self.tables: dict[str, Table] = {}
        self.unread = UnreadTotal(unread_bytes)
        self.hosting = QueryRegistry(self.channel, sharing, self.table, self.unread)
        self.archives = Archives(self.catalog, self.hosting, self.channel)
        self.user_aggregates: dict[str, AggregateFunction] = {}  # by upper-case name
        self.log: Durability | None = None
        self.closed = False  # an engine without a folder; one with a folder has that in its log
        self.replaying = False  # while a log is read: what it says has happened once

    # -- by name ---------------------------------------------------------------------------------------------------

    def stream(self, name: str) -> Stream:
        definition = self.catalog.get(name, "stream")
        return self.streams[definition.name.lower()]

    def table(self, name: str) -> Table:
        return self.tables[name.lower()]

    def query(self, name: str) -> HostedQuery:
        definition = self.catalog.get(name, "query")
        return self.hosting.queries[definition.name.lower()]

    def asked(self, name: str) -> HostedQuery:
        """A query whose results or answer somebody wants; NotHeldError where nothing runs."""
        hosted = self.query(name)
        if self.log is not None:
            self.log.check_runs(hosted)
        return hosted

    def channel(self, name: str) -> Channel:
        key = name.lower()
        if key in self.streams:
            return self.streams[key]
        query = self.hosting.queries[key]
        query.stand_apart()  # somebody wants its results as they come
        return query

    def find_channel(self, name: str) -> Channel | None:
        """The stream or query of that name as it is, if it is still there."""
        stream = self.streams.get(name.lower())
        return stream if stream is not None else self.hosting.queries.get(name.lower())

    def find_aggregate(self, name: str) -> AggregateFunction | None:
        """An aggregate of panewise or of the user, by name in any case."""
        return registry.find(name) or self.user_aggregates.get(name.upper())

    def aggregate_names(self) -> list[str]:
        """The names of all of them, for "did you mean"."""
        return [*registry.names(), *self.user_aggregates]

    # -- rows --------------------------------------------------------------------------------------------------------

    def waits(self) -> bool:
        """Whether rows have been pushed and not been processed."""
        return any(stream.waiting for stream in self.streams.values())

    def flush(self) -> bool:
        """Processes everything that waits; returns whether anything did."""
        moved = False
        for stream in self.streams.values():
            if stream.waiting or stream.postponed:
                stream.flush()
                moved = True
        return moved

    # -- the log -----------------------------------------------------------------------------------------------------

    def attach(self, log: Durability) -> None:
        """Everything is written down from now on."""
        self.log = log
        self.turns.remedy = log.remedy
        for stream in self.streams.values():
            stream.journal = log
        let_go_in_children(self)

    def end_replay(self) -> None:
        """The log has been read, and what it says has happened again; remarks were made when it happened first."""
        self.flush()
        for stream in self.streams.values():
            stream.late.remarks.forget(stream.late.count)
            stream.bad.remarks.forget(stream.bad.count)
        self.hosting.remarks.clear()
        self.replaying = False

    def changed(self, snapshot: Callable[[], bytes]) -> None:
        """A change is complete, and is in the log; where it is time for it, a snapshot takes the place of that."""
        if self.log is not None:
            told, self.hosting.took_history = self.hosting.took_history, False
            self.log.changed(told, snapshot)

    def check_open(self) -> None:
        """Refuses rows for an engine without a folder that has been closed; its answers can still be read."""
        if self.closed:
            raise DurabilityError("the engine has been closed, and takes no rows any more", hint="make a new one")

    def check_state(self) -> None:
        """Refuses where nothing runs, and only definitions are known."""
        if self.log is not None:
            self.log.check_state()

    def forked(self) -> None:
        """This is a child process of the one that opened the folder: every call is refused from now on."""
        assert self.log is not None
        self.log.forked()
        self.turns.refused = self.log.refusal_in_child()
        for stream in self.streams.values():
            if stream.queue is not None:
                stream.queue.forked()
