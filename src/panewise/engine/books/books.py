"""The books of an engine: what is defined, what runs for it, and the log.

Whatever works on the state of an engine gets its books: statements, one-time queries, snapshots, replays, runs. They
change inside turns only; outside, names are looked up. Invariant: everything that the catalog defines runs here under
the same name in lower case, except while a statement changes it.
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
from panewise.errors import CatalogError, DurabilityError
from panewise.state.forked import let_go_in_children


class Books:
    """The books of one engine. `log`: None if it has no folder."""

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
        self._closed = False  # only without a log, which knows it itself
        self._replaying = False

    # -- by name ---------------------------------------------------------------------------------------------------

    def stream(self, name: str) -> Stream:
        definition = self.catalog.get(name, "stream")
        return self.streams[definition.name.lower()]

    def table(self, name: str) -> Table:
        return self.tables[name.lower()]

    def query(self, name: str) -> HostedQuery:
        definition = self.catalog.get(name, "query")
        return self.hosting.queries[definition.name.lower()]

    def query_to_read(self, name: str) -> HostedQuery:
        """A query for a caller of its results or its answer; NotHeldError if the folder is suspended."""
        hosted = self.query(name)
        if self.log is not None:
            self.log.check_runs(hosted)
        return hosted

    def channel(self, name: str) -> Channel:
        key = name.lower()
        if key in self.streams:
            return self.streams[key]
        query = self.hosting.queries[key]
        query.detach_from_ledger()  # its results are wanted as they come
        return query

    def find_channel(self, name: str) -> Channel | None:
        """The stream or query of a name, unchanged; None if there is none."""
        stream = self.streams.get(name.lower())
        return stream if stream is not None else self.hosting.queries.get(name.lower())

    def find_aggregate(self, name: str) -> AggregateFunction | None:
        """An aggregate of panewise or of the user, by name in any case."""
        return registry.find(name) or self.user_aggregates.get(name.upper())

    def aggregate_names(self) -> list[str]:
        """The names of all aggregates, for "did you mean"."""
        return [*registry.names(), *self.user_aggregates]

    def register_aggregate(self, name: str, make: Callable[[str], AggregateFunction]) -> None:
        """Adds an aggregate of the user; `make` compiles it under its name in upper case."""
        if not isinstance(name, str):
            raise CatalogError(f"the name of an aggregate is a text, not a {type(name).__name__}")
        if registry.find(name) is not None or name.upper() in self.user_aggregates:
            raise CatalogError(f"there is already an aggregate '{name.upper()}'")
        self.user_aggregates[name.upper()] = make(name.upper())

    # -- rows --------------------------------------------------------------------------------------------------------

    def has_pending(self) -> bool:
        """Whether there are pending rows."""
        return any(stream.waiting for stream in self.streams.values())

    def flush(self) -> bool:
        """Processes all pending rows and postponed reports; returns whether there were any."""
        moved = False
        for stream in self.streams.values():
            if stream.waiting or stream.postponed:
                stream.flush()
                moved = True
        return moved

    # -- the log -----------------------------------------------------------------------------------------------------

    def attach(self, log: Durability) -> None:
        """Every change is logged from now on."""
        self.log = log
        self.turns.remedy = log.remedy
        for stream in self.streams.values():
            stream.journal = log
        let_go_in_children(self)

    def detach(self) -> Durability | None:
        """Nothing is logged until the log that this returns is attached again."""
        log, self.log = self.log, None
        return log

    @property
    def replaying(self) -> bool:
        """Whether a log is being replayed."""
        return self._replaying

    def begin_replay(self) -> None:
        """Records of a log are repeated from now on."""
        self._replaying = True

    def end_replay(self) -> None:
        """The log has been replayed. Remarks are dropped: they were made when the records were written."""
        self.flush()
        for stream in self.streams.values():
            stream.late.remarks.forget(stream.late.count)
            stream.bad.remarks.forget(stream.bad.count)
        self.hosting.remarks.clear()
        self._replaying = False

    def changed(self, snapshot: Callable[[], bytes]) -> None:
        """A change is complete, and logged. Writes a snapshot, which replaces the log, if one is due."""
        if self.log is not None:
            self.log.changed(self.hosting.history.was_used(), snapshot)

    def close(self) -> None:
        """An engine without a folder takes no rows from now on; one with a folder is closed by its log."""
        self._closed = self.log is None

    def check_open(self) -> None:
        """Refuses rows for a closed engine without a folder; its answers can still be read."""
        if self._closed:
            raise DurabilityError("the engine has been closed, and takes no rows any more", hint="make a new one")

    def check_state(self) -> None:
        """Refuses what a suspended folder cannot do, where only definitions are known."""
        if self.log is not None:
            self.log.check_state()

    def forked(self) -> None:
        """In a child process of the one that opened the folder: refuses every call from now on."""
        assert self.log is not None
        self.log.forked()
        self.turns.refused = self.log.refusal_in_child()
        for stream in self.streams.values():
            if stream.queue is not None:
                stream.queue.forked()
