"""The embedded engine: statements, rows and answers in the caller's own process, without a JVM.

Every statement is all or nothing. Rows that are pushed are visible to `results`, `lookup` and subscribers when the push
returns. Any number of threads may call: they take turns (`turns`), in the order in which they come. Lookups by others
while one writes find answers that it publishes after every window move (`answers`), and wait for nobody. One-time
queries over many rows scan them outside all turns (`window_reads`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event, get_ident
from typing import Any, Self

import pyarrow as pa

from panewise.aggregates import builtin as registry
from panewise.catalog import Catalog, Definition
from panewise.engine.books.books import Books
from panewise.engine.channels.hosted_query import Subscriber
from panewise.engine.channels.turns import Turns
from panewise.engine.channels.unread_total import UNREAD_BYTES_MAX
from panewise.engine.consumers.report_schedule import DEFAULT, ReportSchedule
from panewise.engine.durability.durability import Durability
from panewise.engine.ingest.bad_row_remarks import BadRows
from panewise.engine.ingest.journal import is_repeated
from panewise.engine.ingest.late_remarks import Lateness, nothing_kept
from panewise.engine.ingest.stream import Stream
from panewise.engine.reads.lookups import answer_of, lookup_instant
from panewise.engine.reads.one_group import of_key
from panewise.engine.reads.published_answers import PublishedAnswer, PublishedAnswers
from panewise.engine.reads.read_isolation import ReadIsolation, SourceGone
from panewise.engine.reads.read_out import read_out
from panewise.engine.reads.window_reads import WindowReads
from panewise.engine.recovery.durable_opening import SNAPSHOT_EVERY_BYTES, open_folder
from panewise.engine.recovery.engine_snapshot import restore_into, sharing_of, snapshot_of
from panewise.engine.run.driver import Driver, Manner, RunSummary
from panewise.engine.statements.engine_report import family_stats, query_stats
from panewise.engine.statements.explaining import explain_all, explain_query, sharing_report
from panewise.engine.statements.listeners import Listeners
from panewise.engine.statements.statement_runner import StatementRunner, Unfinished, located
from panewise.errors import CatalogError, DataError, EngineBroken, PlanError
from panewise.language import statements as s
from panewise.language.bind.binder import ParsedStatement, bind_one, parse
from panewise.operators.read_budget import ReadLimits
from panewise.optimize.sharing.report.sharing_report import SharingReport
from panewise.plan.explanation import Explanation
from panewise.plan.physical_plan import SHARING
from panewise.schema import DOUBLE, DataType
from panewise.state.snapshot_format import loaded
from panewise.temporal import INSTANT_MAX, instant_us

LONG_TEXT = 1_000  # characters of statements that are bound outside all turns
TURN_ROWS = 65_536  # are processed at a stretch where nobody reads: many enough for speed, few enough to make room soon


class Engine:
    """A data stream management system in this process.

    >>> engine = Engine()
    >>> engine.execute("CREATE STREAM t (ts TIMESTAMP, v BIGINT)")
    >>> engine.execute("CREATE QUERY q AS SELECT SUM(v) AS total FROM t [RANGE 2 SECONDS SLIDE 1 SECOND]")
    >>> engine.push("t", [{"ts": 0, "v": 1}, {"ts": 1_000_000, "v": 2}, {"ts": 2_000_000, "v": 4}])
    >>> engine.results("q")["total"].to_pylist()
    [1, 3]
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
        """With a `path` everything is logged in that folder, and an engine on it goes on where the last one ended.

        `sync`: when the log is brought to the disk: 'batch' (about once a second), 'always' (with every call) or
        'never' (when the system likes). `snapshot_every`: bytes of log after which a snapshot takes its place.
        `prepare` is called before anything is restored, to register aggregates (docs/durability.md).
        `suspended`: nothing runs, and queries of a folder that does not open otherwise can be dropped.
        `sharing`: 'weave' (by cost), 'full' (one tree for all that may share) or 'none', for experiments.
        `isolation`: of one-time queries from rows that arrive meanwhile: 'latest', 'latest-in-order', 'window' or
        'serial' (docs/isolation.md).
        `read_rows`, `read_bytes`, `read_seconds`: what a one-time query may make and take; None: no limit.
        `unread_bytes`: of results of all queries that nobody has read; the oldest go where there are more.
        `schedule`: which reports are computed first while a stream's queue is filling up (docs/scheduling.md).
        """
        if not isinstance(sharing, str) or sharing not in SHARING:
            raise PlanError(
                f"there is no sharing '{sharing}'", hint=f"it is {', '.join(SHARING[:-1])} or {SHARING[-1]}"
            )
        if isinstance(snapshot_every, bool) or not isinstance(snapshot_every, int) or snapshot_every < 1:
            raise PlanError(
                f"snapshot_every is a number of bytes, a whole number of at least 1, and not {snapshot_every!r}",
                hint="for a snapshot only at close() and checkpoint(), give a number larger than the log will be",
            )
        self._lock = self.turns = Turns(self._hand_out)
        self.books = books = Books(self.turns, sharing, unread_bytes)
        self.catalog, self.streams, self.tables = books.catalog, books.streams, books.tables
        self.hosting, self.archives, self.unread = books.hosting, books.archives, books.unread
        self.user_aggregates = books.user_aggregates
        self.stream = books.stream
        self.find_aggregate, self.aggregate_names = books.find_aggregate, books.aggregate_names
        self.schedule = ReportSchedule(schedule)
        # Whether a push makes the reports that it completes, as it does for subscribers, or whoever wants them does.
        self.prompt = False
        self.listeners = Listeners(books)
        self.reads = WindowReads(
            books, ReadIsolation(self.turns, isolation), ReadLimits(read_rows, read_bytes, read_seconds)
        )
        self._answers = PublishedAnswers(self._lock, self._answer, books.waits)
        self.driver = Driver(books, self)
        self.statements = StatementRunner(books, self.reads, self.driver, self.listeners, self.process)
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
        """Runs one or more statements; returns the table of the last one that yields one (SHOW, EXPLAIN, SELECT)."""
        statements = parse(text)
        if len(statements) == 1:
            result = self.execute_parsed(statements[0])
        else:
            with self._lock:
                result = None
                for parsed in statements:
                    table = self.execute_parsed(parsed)
                    result = table if table is not None else result
        self.driver.tell()
        return result

    def execute_parsed(self, parsed: ParsedStatement, bound: s.Statement | None = None) -> pa.Table | None:
        """Runs one statement. A long SELECT begins and ends in a turn, and lets others in while it reads.

        `bound`: the statement, where the caller has bound it and sees to it that nothing is defined meanwhile.
        """
        while True:
            ahead, result = None if bound is not None else self._bound_ahead(parsed), None
            try:
                with self._lock:
                    result = self._execute(parsed, ahead, bound)
                    self.listeners.note()
                    self._changed()
            except BaseException:  # also of subscribers, when the turn has ended
                if isinstance(result, Unfinished):
                    result.give_up()
                raise
            if not isinstance(result, Unfinished):
                return result
            try:
                with located(parsed):
                    return result.finished()
            except SourceGone:
                continue

    def _bound_ahead(self, parsed: ParsedStatement) -> tuple[s.Statement, dict[str, Definition]] | None:
        """A long statement is bound outside all turns, which takes time, to the definitions that there are then."""
        self._lock.check()
        if len(parsed.text) < LONG_TEXT or self._lock.owner == get_ident():
            return None
        definitions = self.catalog.copy()
        seen = Catalog()
        seen.restore(definitions)
        return bind_one(parsed, seen, self.books.find_aggregate, self.books.aggregate_names), definitions

    def _execute(
        self,
        parsed: ParsedStatement,
        ahead: tuple[s.Statement, dict[str, Definition]] | None,
        bound: s.Statement | None,
    ) -> pa.Table | Unfinished | None:
        self._flush_all()
        if bound is None and ahead is not None and self.catalog.is_as(ahead[1]):
            bound = ahead[0]
        statement = self.statements.bound(parsed) if bound is None else bound
        if not isinstance(statement, s.Show | s.Explain | s.SelectOnce):
            self._answers.change()
            if not isinstance(statement, s.Insert | s.Update | s.Delete):
                self._answers.forget()
        with located(parsed):
            return self.statements.execute(statement)

    # -- sources and sinks ---------------------------------------------------------------------------------------

    def run_available(self, *, flush: bool = False, progress: bool = True) -> RunSummary:
        """Reads the sources of `CREATE STREAM ... WITH (connector = ...)` to their end and feeds the sinks.

        A later call goes on with what is new: files behind those that were read, results that no sink has yet. Results
        of queries without a sink stay for `results`. `flush`: at the end close all windows that hold rows, as `flush()`
        does; rows that come for them later are late. `progress`: show it, where the standard output is a terminal.
        Ctrl-C is held until the batch is whole and the sinks have its results; then KeyboardInterrupt is raised.
        """
        summary = self.driver.run(self._manner(None, flush, progress))
        if summary.interrupted:
            raise KeyboardInterrupt
        return summary

    def run(self, *, stop: Event | None = None, progress: bool = True) -> RunSummary:
        """The same, on and on: new files are read and new results written about once a second, until Ctrl-C or until
        another thread sets `stop`; then it returns, with all results in the sinks. Other threads may use the engine."""
        return self.driver.run(self._manner(Event() if stop is None else stop, False, progress))

    def _manner(self, stop: Event | None, flush: bool, progress: bool) -> Manner:
        from panewise.engine.run.terminal_tables import output_console

        if stop is not None and not isinstance(stop, Event):
            raise DataError(f"a run is stopped by a threading.Event, not by a {type(stop).__name__}")
        return Manner(output_console(), stop, flush, bars=progress)

    # -- what there is -------------------------------------------------------------------------------------------

    def explain(self, query: str | None = None) -> Explanation:
        """How a query, or everything together, is run. `str(...)` is text, `.to_dict()` data."""
        with self._lock:
            self._flush_all()
            if query is None:
                return explain_all(self.streams, self.hosting)
            return explain_query(self.books.query(query), self.hosting)

    def sharing_report(self) -> SharingReport:
        """What queries share, in which trees and at what estimated cost; `.to_dict()` is data."""
        with self._lock:
            self._flush_all()
            return sharing_report(self.hosting)

    # -- rows and answers ----------------------------------------------------------------------------------------

    def push(
        self,
        stream: str,
        data: Any,
        *,
        timeout: float | None = None,
        producer: str | None = None,
        sequence: int | None = None,
    ) -> None:
        """Rows for a stream: an Arrow batch or table, a pandas or polars frame, a dict or a list of dicts.

        `timeout`: how many seconds to wait for room in the stream's queue, where it has one (docs/overload.md).
        `producer` and `sequence` (1, 2, 3, ...) make it safe to push again: a number that was taken is ignored.
        """
        self._lock.check()
        self.books.check_open()
        queue = self._named(stream).queue
        if queue is not None and self.books.log is None and producer is None:
            queue.put(data, timeout)  # without the lock: it may have to wait for those who hold it
            self._answers.queued()
            return
        with self._lock:
            self._answers.change()
            target = self._named(stream)
            stamp = None
            if producer is not None or sequence is not None:
                if is_repeated(target.name, target.producers, producer, sequence):
                    return
                assert producer is not None and sequence is not None
                stamp = producer, sequence
            if queue is not None and queue.waiting:
                target.flush()  # what waits came before
            due = target.push(data, stamp) or ((self.listeners.present or self.prompt) and target.completes())
            if due or (self._answers.wanted and target.waiting_rows >= target.portion_rows):
                self._move(target)
                self.listeners.note()
            self._changed()

    def last_sequence(self, stream: str, producer: str) -> int:
        """The number of the last push of a producer that was taken; 0 where there was none."""
        with self._lock:
            self.books.check_state()
            return self.stream(stream).producers.get(producer, 0) if isinstance(producer, str) else 0

    def process(self, stream: Stream) -> bool:
        """Processes a portion of what waits for a stream; called by the thread of its queue.

        Returns whether a part of a push is left.
        """
        with self._lock:
            self._answers.change()
            stream.flush(stream.portion_rows if self._answers.wanted else TURN_ROWS, self.schedule)
            self._answers.commit()
            self.listeners.note()
            return stream.waiting_rows > 0

    def advance(self, stream: str, until: Any) -> None:
        """A punctuation: no row before this instant (microseconds, a datetime or a text) will come."""
        with self._lock:
            self.books.check_open()
            self._answers.change()
            target, instant = self.stream(stream), instant_us(until)
            target.judge.limit.check_clock(target.name, instant)
            target.advance(instant)
            self.listeners.note()
            self._changed()

    def flush(self, streams: Sequence[str] | None = None) -> None:
        """Advances streams, or all, so far past their last row that every window that holds rows has closed."""
        if streams is not None and not isinstance(streams, list | tuple):
            raise DataError(f"streams are named in a list, not in a {type(streams).__name__}")
        with self._lock:
            self.books.check_open()
            self.books.check_state()
            self._answers.change()
            self._flush_all()
            wanted = self.streams.values() if streams is None else list(map(self.stream, streams))
            ended = [stream for stream in wanted if stream.newest is not None]
            for stream in ended:
                stream.check_advance(self._last_end(stream), stream.judge.limit, stream.judge.extent)
            for stream in ended:
                stream.advance(self._last_end(stream))
            self.listeners.note()
            self._changed()

    def _last_end(self, stream: Stream) -> int:
        assert stream.newest is not None
        return min(self.hosting.last_end(stream, stream.newest), INSTANT_MAX + 1)

    def results(self, query: str) -> pa.Table:
        """What the query has produced since the last call."""
        with self._lock:
            self._flush_all()
            hosted = self.books.asked(query)
            return read_out(self.books, [hosted], lambda tables: None)[0]

    def hand_over(self, query: str, take: Callable[[pa.Table, int], None]) -> int:
        """Calls `take` with what the query has produced since the last call, which counts as read when it returns.

        Beside the table it gets the number of the first row among all results of the query. Where the process dies in
        between, a durable engine hands over the same rows under the same number again, perhaps with others after them:
        who puts them in a place of that number has each of them once. Returns how many rows there were. `take` is
        called inside the engine: it must not wait for other threads that use it.
        """
        with self._lock:
            self._flush_all()
            hosted = self.books.asked(query)

            def hand(tables: list[pa.Table]) -> None:
                if tables[0].num_rows:
                    take(tables[0], hosted.rows_out - tables[0].num_rows)

            return int(read_out(self.books, [hosted], hand)[0].num_rows)

    def hand_over_all(self, take: Callable[[list[tuple[str, pa.Table, int]]], None]) -> int:
        """`hand_over` of all queries in one turn: `take` is called once, with the name of each that has results."""
        with self._lock:
            self.books.check_state()
            self._flush_all()
            queries = list(self.hosting.queries.values())

            def hand(tables: list[pa.Table]) -> None:
                read = [(query, table) for query, table in zip(queries, tables, strict=True) if table.num_rows]
                if read:
                    take([(query.name, table, query.rows_out - table.num_rows) for query, table in read])

            return sum(int(table.num_rows) for table in read_out(self.books, queries, hand))

    def subscribe(self, query: str, callback: Subscriber) -> Callable[[], None]:
        """Calls back with a batch whenever results appear; returns a function that ends the subscription."""
        if not callable(callback):
            raise DataError(f"a subscriber is called with batches, and a {type(callback).__name__} cannot be called")
        with self._lock:
            self._flush_all()
            hosted = self.books.asked(query)
            with self._lock.change:
                return self.listeners.add(hosted, callback)

    def lookup(self, query: str, at: Any = None, key: Any = None) -> pa.Table:
        """The answer now, or at an instant still held; `key` picks one group: a value, or a dict of columns.

        The metadata of its schema say how far the query had come, as `panewise.watermark_us` (docs/isolation.md).
        """
        if not isinstance(query, str):
            raise CatalogError(f"the name of a query is a text, not a {type(query).__name__}", missing=True)
        instant = None if at is None else lookup_instant(at)
        answer = (self._answers.found(query) or self._answers.awaited(query)) if instant is None else None
        if answer is None:
            with self._lock:
                self._answers.settle(self._flush_all)
                answer = self._answers.answer(query) if instant is None else self._answer(query, instant)
        return answer.table if key is None else of_key(answer.name, answer.block, answer.table, key)

    def lookup_now(self, query: str) -> pa.Table | None:
        """The answer now where it is published already; None where it takes a turn: ask `lookup` then. Never waits."""
        answer = self._answers.found(query) if isinstance(query, str) else None
        return None if answer is None else answer.table

    def _answer(self, query: str, at: int | None = None) -> PublishedAnswer:
        hosted = self.books.asked(query)
        consumer = self.hosting.consumers[hosted.name]
        if consumer.is_postponed:
            with self._lock.change:
                consumer.catch_up()
            self.listeners.note()
        return answer_of(self.books, hosted, query, at)

    def late_rows(self, stream: str) -> pa.Table:
        """The late rows since the last call, where the stream says late = 'keep'; elsewhere a LateRowsWarning."""
        with self._lock:
            self.books.check_state()
            self._flush_all()
            asked = self.stream(stream)
            if not asked.late.can_be_fetched:
                self.listeners.remark(nothing_kept(asked.definition, asked.late.count))
            return asked.late_rows()

    def badness(self, stream: str) -> BadRows | None:
        """How many rows were bad and set aside so far and what is to be said of them; None where there are none, or
        somebody has asked for them. Never waits."""
        return self.stream(stream).badness()

    def lateness(self, stream: str) -> Lateness | None:
        """How many rows have come late so far and what is to be said of them; None where the stream says what becomes
        of late rows, or there are none. Never waits."""
        return self.stream(stream).lateness()

    def bad_rows(self, stream: str) -> pa.Table:
        """The rows set aside since the last call, where the stream says on_bad_row = 'skip'."""
        with self._lock:
            self.books.check_state()
            self._flush_all()
            return self.stream(stream).bad_rows()

    def stats(self) -> dict[str, Any]:
        """Rows, late rows, slices and bytes of state, per stream, table, query and tree.

        Of an engine with `suspended=True` figures are None: they are in the folder, and nobody has read them.
        """
        with self._lock:
            waiting = {stream.name: stream.waiting_now() for stream in self.streams.values()}
            postponed = {id(consumer): consumer.postponed_reports for consumer in self.hosting.families}
            self._flush_all()
            found = {
                "streams": {stream.name: stream.stats() | waiting[stream.name] for stream in self.streams.values()},
                "tables": {table.name: table.stats() for table in self.tables.values()},
                "queries": query_stats(self.catalog, self.hosting),
                "trees": family_stats(self.hosting, postponed),
                "archives": self.archives.stats(),
                "reads": self.reads.isolation.stats(),
            }
            return found if self.books.log is None else self.books.log.with_stats(found)

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
        """An aggregate of your own, compiled by Numba, under a new name; see `panewise.aggregates.user`."""
        from panewise.aggregates.user import user_aggregate

        with self._lock:
            if not isinstance(name, str):
                raise CatalogError(f"the name of an aggregate is a text, not a {type(name).__name__}")
            if registry.find(name) is not None or name.upper() in self.user_aggregates:
                raise CatalogError(f"there is already an aggregate '{name.upper()}'")
            self.user_aggregates[name.upper()] = user_aggregate(
                name.upper(), lift=lift, combine=combine, lower=lower, identity=identity, inverse=inverse,
                arguments=arguments, returns=returns,
            )  # fmt: skip

    # -- snapshots and durability --------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Writes a snapshot into the engine's folder now, and lets the log before it go. Without a path, nothing."""
        with self._lock:
            self._flush_all()
            with self._lock.change:
                self.archives.settle()
            if self.books.log is not None:
                self.books.log.checkpoint(self.snapshot)

    def close(self, *, snapshot: bool = True) -> None:
        """Ends the use of the engine, and of its folder, with a snapshot so that the next one starts fast.

        A broken engine only lets its folder go. In a forked child process nothing happens: the folder is its parent's.
        """
        if self._lock.refused is not None:
            return
        log = self.books.log
        try:
            with self._lock:
                if self.archives.keepers:
                    self._flush_all()
                    with self._lock.change:
                        self.archives.close(logged=log is not None)
                if log is not None:
                    log.close(self.snapshot if snapshot else None)
                self.books.closed = log is None
        except EngineBroken:  # nobody is inside, and nobody gets in
            self.archives.let_go()
            if log is not None:
                log.close(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def durability(self) -> Durability | None:
        """The log of an engine with a folder."""
        return self.books.log

    def snapshot(self) -> bytes:
        """All state as bytes, from which `restore` makes an engine that goes on as this one would."""
        with self._lock:
            self._flush_all()
            return snapshot_of(self.books, self.statements)

    @classmethod
    def restore(cls, snapshot: bytes, engine: Engine | None = None) -> Engine:
        """The engine of a snapshot. Give a fresh `engine` that has its aggregates registered where queries use some."""
        tree = loaded(snapshot)
        result = engine if engine is not None else cls(sharing=sharing_of(tree))
        restore_into(result.books, result.statements, tree)
        return result

    # -- inside --------------------------------------------------------------------------------------------------

    def _flush_all(self) -> None:
        """Processes everything that waits."""
        if self.books.flush():
            self._answers.moved()
        self.listeners.note()

    def _changed(self) -> None:
        self.books.changed(self.snapshot)

    def _move(self, stream: Stream) -> None:
        """Processes what waits. While other threads read, portion by portion: answers are published after each as far
        as time allows, and who waits for a turn gets it."""
        left = stream.waiting_now()["waiting_rows"] if self._answers.wanted else 0
        if not left:
            stream.flush()
            self._answers.moved()
        while left > 0 and stream.waiting:
            left -= max(stream.flush(stream.portion_rows), 1)
            self.listeners.note()
            if self._answers.commit():
                self._lock.give_way()

    def _hand_out(self) -> list[Exception]:
        return self.listeners.hand_out()

    def _named(self, name: str) -> Stream:
        """The stream of a name, in the least time where it is spelled in lower case."""
        found = self.streams.get(name) if type(name) is str else None
        return found or self.books.stream(name)
