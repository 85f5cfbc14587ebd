"""The embedded engine: statements, rows and answers in the caller's own process, without a JVM.

Every statement is all or nothing. When a push returns, its rows are visible to `results`, `lookup` and subscribers. Any
number of threads may call: they take turns (`turns`), in the order in which they come. Lookups beside a writer find
answers that the writer publishes after every window move (`published_answers`), and wait for nobody. One-time queries
over many rows scan them outside all turns (`window_reads`).

`Engine` is the public face. It owns the parts that do the work (`calls`), and hands each call to one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, Self

import pyarrow as pa

from panewise.engine.books.books import Books
from panewise.engine.calls.checkpoints import Checkpoints
from panewise.engine.calls.flusher import Flusher
from panewise.engine.calls.lookup_calls import LookupCalls
from panewise.engine.calls.result_calls import ResultCalls
from panewise.engine.calls.statement_calls import StatementCalls
from panewise.engine.calls.stream_calls import StreamCalls
from panewise.engine.channels.hosted_query import Subscriber
from panewise.engine.channels.turns import Turns
from panewise.engine.channels.unread_total import UNREAD_BYTES_MAX
from panewise.engine.consumers.report_schedule import DEFAULT, ReportSchedule
from panewise.engine.durability.durability import Durability
from panewise.engine.ingest.bad_row_remarks import BadRows
from panewise.engine.ingest.late_remarks import Lateness
from panewise.engine.ingest.stream import Stream
from panewise.engine.reads.lookups import Lookups
from panewise.engine.reads.published_answers import PublishedAnswers
from panewise.engine.reads.read_isolation import ReadIsolation
from panewise.engine.reads.window_reads import WindowReads
from panewise.engine.recovery.durable_opening import SNAPSHOT_EVERY_BYTES, open_folder
from panewise.engine.recovery.engine_snapshot import restore_into, sharing_of
from panewise.engine.run.driver import Driver, RunOptions, RunSummary
from panewise.engine.statements.engine_report import family_stats, query_stats
from panewise.engine.statements.explaining import explain_all, explain_query, sharing_report
from panewise.engine.statements.listeners import Listeners
from panewise.engine.statements.statement_runner import StatementRunner
from panewise.errors import DataError, EngineBroken, PlanError
from panewise.language import statements as s
from panewise.language.bind.binder import ParsedStatement
from panewise.operators.read_budget import ReadLimits
from panewise.optimize.sharing.report.sharing_report import SharingReport
from panewise.plan.explanation import Explanation
from panewise.plan.physical_plan import SHARING
from panewise.schema import DOUBLE, DataType
from panewise.state.snapshot_format import loaded


class Engine:
    """A data stream management system in this process.

    Statements define streams and queries, `push` brings rows, and `results`, `lookup` or `subscribe` give answers:

    >>> engine = Engine()
    >>> engine.execute("CREATE STREAM t (ts TIMESTAMP, v BIGINT)")
    >>> engine.execute("CREATE QUERY q AS SELECT SUM(v) AS total FROM t [RANGE 2 SECONDS SLIDE 1 SECOND]")
    >>> engine.push("t", [{"ts": 0, "v": 1}, {"ts": 1_000_000, "v": 2}, {"ts": 2_000_000, "v": 4}])
    >>> engine.results("q")["total"].to_pylist()
    [1, 3]
    >>> engine.lookup("q")["total"].to_pylist()
    [3]
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        sync: str = "batch",
        snapshot_every: int = SNAPSHOT_EVERY_BYTES,
        prepare: Callable[[Engine], None] | None = None,
        sharing: str = "weave",
        schedule: str = DEFAULT,
        isolation: str = "latest",
        suspended: bool = False,
        read_rows: int | None = ReadLimits.rows,
        read_bytes: int | None = ReadLimits.bytes,
        read_seconds: float | None = ReadLimits.seconds,
        unread_bytes: int | None = UNREAD_BYTES_MAX,
    ) -> None:
        """With a `path`, all changes are logged in that folder, and an engine that is opened on it later goes on there.

        `sync`: when the log is flushed to disk: 'batch' (about once a second), 'always' (with every call) or 'never'
        (when the system does it). `snapshot_every`: bytes of log after which a snapshot replaces it.
        `prepare` is called with the engine before anything is restored, to register aggregates (docs/durability.md).
        `suspended`: nothing runs, so that queries can be dropped from a folder that does not open otherwise.
        `sharing`: 'weave' (by cost), 'full' (one tree for all queries that may share) or 'none'; for experiments.
        `isolation` of one-time queries from rows that arrive meanwhile: 'latest', 'latest-in-order', 'window' or
        'serial' (docs/isolation.md).
        `read_rows`, `read_bytes`, `read_seconds`: the limits of a one-time query; None: no limit.
        `unread_bytes`: the limit of unread results of all queries together; the oldest are dropped beyond it.
        `schedule`: which reports are computed first while a stream's queue fills up (docs/scheduling.md).
        """
        if not isinstance(sharing, str) or sharing not in SHARING:
            raise PlanError(
                f"there is no sharing '{sharing}'", hint=f"it is {', '.join(SHARING[:-1])} or {SHARING[-1]}"
            )
        if isinstance(snapshot_every, bool) or not isinstance(snapshot_every, int) or snapshot_every < 1:
            raise PlanError(
                f"snapshot_every is in bytes, a whole number of at least 1, and not {snapshot_every!r}",
                hint="for a snapshot only at close() and checkpoint(), give a number larger than the log will be",
            )
        self.turns = Turns(self._hand_out)
        self.books = books = Books(self.turns, sharing, unread_bytes)
        self.catalog, self.streams, self.tables = books.catalog, books.streams, books.tables
        self.hosting, self.archives, self.unread = books.hosting, books.archives, books.unread
        self.user_aggregates = books.user_aggregates
        self.stream = books.stream
        self.find_aggregate, self.aggregate_names = books.find_aggregate, books.aggregate_names
        self.schedule = ReportSchedule(schedule)
        self.listeners = listeners = Listeners(books)
        self.reads = WindowReads(
            books, ReadIsolation(self.turns, isolation), ReadLimits(read_rows, read_bytes, read_seconds)
        )
        self.driver = Driver(books, self)
        self.statements = StatementRunner(books, self.reads, self.driver, listeners, self.process)
        self._lookups = lookups = Lookups(books, listeners.note)
        self._answers = answers = PublishedAnswers(self.turns, lookups.answer, books.has_pending)
        self._flusher = flusher = Flusher(books, answers, listeners, self.schedule)
        self._checkpoints = checkpoints = Checkpoints(books, flusher)
        self._statement_calls = StatementCalls(books, self.statements, flusher, answers, listeners, checkpoints)
        self._stream_calls = StreamCalls(books, flusher, answers, listeners, checkpoints)
        self._result_calls = ResultCalls(books, flusher, listeners)
        self._lookup_calls = LookupCalls(self.turns, lookups, answers, flusher)
        if prepare is not None:
            prepare(self)
        if path is not None:
            open_folder(books, self.statements, path, sync, snapshot_every, suspended=suspended)
        elif suspended:
            raise PlanError(
                "suspended=True opens a folder, and none is given", hint="name it: Engine(path, suspended=True)"
            )

    # -- statements ----------------------------------------------------------------------------------------------

    def execute(self, text: str) -> pa.Table | None:
        """Runs one or more statements. Returns the table of the last SHOW, EXPLAIN or SELECT among them, if any."""
        result = self._statement_calls.run_text(text)
        self.driver.tell()
        return result

    def execute_parsed(self, parsed: ParsedStatement, bound: s.Statement | None = None) -> pa.Table | None:
        """Runs one statement. A long SELECT begins and ends in a turn, and lets others in while it reads.

        `bound`: the bound statement, if the caller has it already and makes sure that nothing is defined meanwhile.
        """
        return self._statement_calls.run(parsed, bound)

    # -- sources and sinks ---------------------------------------------------------------------------------------

    def run_available(self, *, flush: bool = False, progress: bool = True) -> RunSummary:
        """Reads the sources of `CREATE STREAM ... WITH (connector = ...)` to their end and feeds the sinks.

        A later call continues with new files, and with results that no sink has yet. Results of queries without a sink
        stay for `results`. `flush`: closes all windows with rows at the end, as `flush()` does; rows that come for them
        later are late. `progress`: shows progress if the standard output is a terminal. Ctrl-C takes effect when the
        current batch is processed and the sinks have its results; then KeyboardInterrupt is raised.
        """
        summary = self.driver.run(self._run_options(None, flush, progress))
        if summary.interrupted:
            raise KeyboardInterrupt
        return summary

    def run(self, *, stop: Event | None = None, progress: bool = True) -> RunSummary:
        """Reads the sources and feeds the sinks as `run_available` does, until Ctrl-C or until `stop` is set.

        New files are read and new results written about once a second. Returns when the sinks have all results. Other
        threads may use the engine meanwhile.
        """
        return self.driver.run(self._run_options(Event() if stop is None else stop, False, progress))

    def _run_options(self, stop: Event | None, flush: bool, progress: bool) -> RunOptions:
        from panewise.engine.run.terminal_tables import output_console

        if stop is not None and not isinstance(stop, Event):
            raise DataError(f"a run is stopped by a threading.Event, not by a {type(stop).__name__}")
        return RunOptions(output_console(), stop, flush, bars=progress)

    # -- explanations and figures --------------------------------------------------------------------------------

    def explain(self, query: str | None = None) -> Explanation:
        """How a query is run, or all queries together. `str(...)` is the text, `.to_dict()` the data."""
        with self.turns:
            self._flusher.flush_all()
            if query is None:
                return explain_all(self.streams, self.hosting)
            return explain_query(self.books.query(query), self.hosting)

    def sharing_report(self) -> SharingReport:
        """What queries share, in which trees and at what estimated cost. `.to_dict()` is the data."""
        with self.turns:
            self._flusher.flush_all()
            return sharing_report(self.hosting)

    def stats(self) -> dict[str, Any]:
        """Rows, late rows, slices and bytes of state, by stream, table, query, tree and archive.

        With `suspended=True` the figures are None, because nobody has read them from the folder.
        """
        with self.turns:
            waiting = {stream.name: stream.waiting_now() for stream in self.streams.values()}
            postponed = {id(consumer): consumer.postponed_reports for consumer in self.hosting.families}
            self._flusher.flush_all()
            found = {
                "streams": {stream.name: stream.stats() | waiting[stream.name] for stream in self.streams.values()},
                "tables": {table.name: table.stats() for table in self.tables.values()},
                "queries": query_stats(self.catalog, self.hosting),
                "trees": family_stats(self.hosting, postponed),
                "archives": self.archives.stats(),
                "reads": self.reads.isolation.stats(),
            }
            return found if self.books.log is None else self.books.log.with_stats(found)

    # -- rows ----------------------------------------------------------------------------------------------------

    def push(
        self,
        stream: str,
        data: Any,
        *,
        timeout: float | None = None,
        producer: str | None = None,
        sequence: int | None = None,
    ) -> None:
        """Puts rows into a stream: an Arrow batch or table, a pandas or polars frame, a dict or a list of dicts.

        `timeout`: how many seconds to wait for room in the stream's queue, if it has one (docs/overload.md).
        `producer` and `sequence` (1, 2, 3, ...) make it safe to repeat a push: a number that was taken is ignored.
        """
        self._stream_calls.push(stream, data, timeout, producer, sequence)

    def last_sequence(self, stream: str, producer: str) -> int:
        """The number of the last push of a producer that was taken; 0 if there was none."""
        return self._stream_calls.last_sequence(stream, producer)

    def process(self, stream: Stream) -> bool:
        """Processes a portion of a stream's pending rows; returns whether part of a push is left.

        The thread of the stream's queue calls this.
        """
        return self._stream_calls.process(stream)

    def report_promptly(self) -> None:
        """From now on a push makes the reports that it completes, as if there were subscribers."""
        self._stream_calls.report_promptly()

    def advance(self, stream: str, until: Any) -> None:
        """A punctuation: no rows older than this instant (microseconds, a datetime or a text) will come."""
        self._stream_calls.advance(stream, until)

    def flush(self, streams: Sequence[str] | None = None) -> None:
        """Advances streams, or all streams, past their last row until every window with rows has closed."""
        self._stream_calls.close_windows(streams)

    def late_rows(self, stream: str) -> pa.Table:
        """The late rows since the last call, if the stream has the option late = 'keep'; else a LateRowsWarning."""
        return self._stream_calls.late_rows(stream)

    def badness(self, stream: str) -> BadRows | None:
        """How many bad rows were set aside so far, and a remark on them; None if there are none, or if they have been
        fetched. Never waits."""
        return self.stream(stream).badness()

    def lateness(self, stream: str) -> Lateness | None:
        """How many rows came late so far, and a remark on them; None if there are none, or if the stream has an option
        for late rows. Never waits."""
        return self.stream(stream).lateness()

    def bad_rows(self, stream: str) -> pa.Table:
        """The bad rows since the last call, if the stream has the option on_bad_row = 'skip'."""
        return self._stream_calls.bad_rows(stream)

    # -- results and answers -------------------------------------------------------------------------------------

    def results(self, query: str) -> pa.Table:
        """The results of a query since the last call."""
        return self._result_calls.results(query)

    def hand_over(self, query: str, take: Callable[[pa.Table, int], None]) -> int:
        """Calls `take` with the results since the last call; they count as read when `take` returns.

        `take` gets a table, and the number of its first row among all results of the query. If the process dies before
        `take` returns, a durable engine hands over the same rows with the same number again, perhaps with more behind
        them; a receiver that stores rows by number has each row once. `take` is called inside the engine: it must not
        wait for other threads that use it. Returns the number of rows.
        """
        return self._result_calls.hand_over(query, take)

    def hand_over_all(self, take: Callable[[list[tuple[str, pa.Table, int]]], None]) -> int:
        """`hand_over` for all queries in one turn: `take` is called once, with the queries that have results."""
        return self._result_calls.hand_over_all(take)

    def subscribe(self, query: str, callback: Subscriber) -> Callable[[], None]:
        """Calls `callback` with a batch whenever there are results; returns a function that ends the subscription."""
        return self._result_calls.subscribe(query, callback)

    def lookup(self, query: str, at: Any = None, key: Any = None) -> pa.Table:
        """The answer now, or at an instant that is still held; `key` picks one group: a value, or a dict of columns.

        `panewise.watermark_us` in the metadata of the schema says how far the query had come (docs/isolation.md).
        """
        return self._lookup_calls.lookup(query, at, key)

    def lookup_now(self, query: str) -> pa.Table | None:
        """The answer if it is published already; None if only `lookup` can tell, in a turn. Never waits."""
        return self._lookup_calls.published(query)

    # -- aggregates of users -------------------------------------------------------------------------------------

    def register_aggregate(
        self,
        name: str,
        *,
        lift: Callable[..., tuple[Any, ...]],
        combine: Callable[[Any, Any], tuple[Any, ...]],
        lower: Callable[[Any], Any],
        identity: tuple[Any, ...],
        inverse: Callable[[Any, Any], tuple[Any, ...]] | None = None,
        arguments: int = 1,
        returns: DataType = DOUBLE,
    ) -> None:
        """Defines an aggregate of your own, compiled by Numba, under a new name; see `panewise.aggregates.user`."""
        from panewise.aggregates.user import user_aggregate

        make = partial(
            user_aggregate, lift=lift, combine=combine, lower=lower, identity=identity, inverse=inverse,
            arguments=arguments, returns=returns,
        )  # fmt: skip
        with self.turns:
            self.books.register_aggregate(name, make)

    # -- snapshots and durability --------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Writes a snapshot into the engine's folder, which replaces the log, and all rows of archives into files."""
        self._checkpoints.write()

    def close(self, *, snapshot: bool = True) -> None:
        """Ends the use of the engine and releases its folder; a snapshot there lets the next engine start fast.

        A broken engine only releases its folder. In a forked child process `close` does nothing, because the folder
        belongs to the parent.
        """
        if self.turns.refused is not None:
            return
        log = self.books.log
        try:
            with self.turns:
                if self.archives.keepers:
                    self._flusher.flush_all()
                    with self.turns.change:
                        self.archives.close(logged=log is not None)
                if log is not None:
                    log.close(self.snapshot if snapshot else None)
                self.books.close()
        except EngineBroken:  # No other thread can be inside.
            self.archives.release()
            if log is not None:
                log.close(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def durability(self) -> Durability | None:
        """The log, if the engine has a folder."""
        return self.books.log

    def snapshot(self) -> bytes:
        """All state as bytes, from which `restore` makes an engine that continues as this one would."""
        return self._checkpoints.snapshot()

    @classmethod
    def restore(cls, snapshot: bytes, engine: Engine | None = None) -> Engine:
        """Makes an engine from a snapshot. `engine`: a fresh one with your aggregates, if queries use some."""
        tree = loaded(snapshot)
        result = engine if engine is not None else cls(sharing=sharing_of(tree))
        restore_into(result.books, result.statements, tree)
        return result

    def _hand_out(self) -> list[Exception]:
        return self.listeners.hand_out()
