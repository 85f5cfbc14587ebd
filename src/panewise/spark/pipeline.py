"""`pw.SparkPipeline`: statements, streams and results on Spark.

An embedded engine that never gets a row keeps the books: it checks and registers statements, so that both hosts accept
and refuse the same and say so in the same words. What changes definitions is kept, in order, for the program that
driver and workers share.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panewise.catalog import ArchiveDefinition, QueryDefinition, SinkDefinition, StreamDefinition, TableDefinition
from panewise.connectors.places import check_against_sources
from panewise.engine.books.definitions import statement_of
from panewise.engine.books.engine_archives import check_place, layout_of, opened
from panewise.engine.books.made_queries import MadeQueries
from panewise.engine.channels.hosted_query import overflow_remark
from panewise.engine.engine import Engine
from panewise.engine.ingest.shedding import refuse_overload_options
from panewise.engine.statements.statement_runner import located
from panewise.errors import CatalogError, ConnectorError, DataError, PlanError
from panewise.language import statements as s
from panewise.language.bind.binder import ParsedStatement, parse
from panewise.language.sql_text import name_to_sql
from panewise.optimize.refusals import HostKind, check_host
from panewise.optimize.sharing.report.sharing_report import SharingReport
from panewise.plan.explanation import Explanation
from panewise.schema import DOUBLE, Column, DataType, Schema, from_arrow
from panewise.spark.archives.archive_reading import with_files
from panewise.spark.environment.folder import Folder
from panewise.spark.environment.session import check_version, is_connect, own_session, settings
from panewise.spark.ingest.stream_sources import INBOX, check_source, connector_of, source_frame
from panewise.spark.program.changes import Changing
from panewise.spark.program.known_programs import read_program
from panewise.spark.program.version import log_name
from panewise.spark.spark_explaining import Explaining
from panewise.spark.tables.table_readers import table_reader
from panewise.temporal import duration_us

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from panewise.spark.handle import Handle
    from panewise.spark.sinks.sink_kind import PrintTable


class SparkPipeline:
    """Many sliding-window queries as one Structured Streaming query.

    `spark` is any session, classic or Spark Connect; a local one is made where none is given. `checkpoint` is the
    pipeline's folder, which outlives it. `partitions`, fixed with the first start, is how far the work can spread: as
    many as Spark runs tasks at once unless told otherwise. `retention` is how long results stay in the log. `sharing`,
    fixed with the first start too, is 'weave' (by cost), 'full' or 'none', for experiments.
    """

    def __init__(
        self,
        spark: SparkSession | None = None,
        checkpoint: str | None = None,
        *,
        name: str = "panewise",
        partitions: int | None = None,
        retention: str = "1 day",
        sharing: str = "weave",
    ) -> None:
        self.spark = spark if spark is not None else own_session()
        check_version(self.spark)
        self.name = name
        self.partitions = partitions
        self.retention_us = duration_us(retention)
        self.print_table: PrintTable | None = None
        self._checkpoint = str(checkpoint) if checkpoint is not None else None
        self.sharing = sharing  # that of the checkpoint, once there is one
        self.books = Engine(sharing=sharing)
        self.books.driver.expect()  # by Spark
        self.queries_made = MadeQueries()
        self.books.statements.read_tables_by(self._read_table)
        self.books.statements.share_queries(self.queries_made)
        self.books.archives.keep_only_books()  # files are written by micro-batches
        self._explaining = Explaining(self)
        self.frames: dict[str, DataFrame] = {}  # the user's own, by lower-case name of the stream
        self._handle: Handle | None = None
        self._lock = threading.RLock()

    # -- definitions ---------------------------------------------------------------------------------------------

    def add_stream(
        self, name: str, frame: DataFrame, *, timestamp: str, watermark: str | None = None, **options: str
    ) -> None:
        """A streaming DataFrame of yours as a stream; `timestamp` is its event time, `watermark` how late rows may be.

        Columns of types that panewise does not know are left out; a query that names one is told that there is none.
        """
        if not frame.isStreaming:
            raise ConnectorError(
                f"the DataFrame of stream '{name}' is not a streaming one", hint="make it with spark.readStream"
            )
        schema = _schema_of(frame, name, timestamp)
        delay = duration_us(watermark) if watermark is not None else 0
        written = (("connector", "dataframe"), *sorted(options.items()))
        with self._lock:
            before = dict(self.frames)  # which may hold another one of this name
            self.frames[name.lower()] = frame
            try:
                self.execute(statement_of(StreamDefinition(name, schema, timestamp, delay, written)))
            except BaseException:
                self.frames = before
                raise

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
        """An aggregate of your own, as `pw.Engine` has it; register it again before every start."""
        self.books.register_aggregate(
            name, lift=lift, combine=combine, lower=lower, identity=identity, inverse=inverse, arguments=arguments,
            returns=returns,
        )  # fmt: skip

    def execute(self, text: str) -> pa.Table | None:
        """Runs one or more statements; returns the table of the last one that yields one (SHOW, EXPLAIN, SELECT).

        While the pipeline runs, the statements of one call are one change: the query goes on with it from the next
        micro-batch boundary. Where a statement is refused, those before it stay. Rows of tables change with the next
        micro-batch, for which nothing is stopped.
        """
        result = None
        with self._lock:
            changed: list[Changing] = []
            changed_rows = False
            try:
                for parsed in parse(text):
                    statement = self.books.statements.bound(parsed)
                    if isinstance(statement, s.SelectOnce):
                        with _only_here():
                            table = self._select_once(statement, parsed)
                    elif isinstance(statement, s.Show | s.Explain):
                        table = self._shown(statement, parsed, changed)
                    else:
                        self._note_rows()
                        table = self._registered(statement, parsed)
                        if isinstance(statement, s.Insert | s.Update | s.Delete):
                            changed_rows = True
                        else:
                            said = parsed.text[parsed.span.start : parsed.span.end]
                            changed.append(Changing(said, statement))
                            self.queries_made.note_text(said, statement)
                    result = table if table is not None else result
            finally:
                if changed and self._handle is not None:
                    self._handle.change(changed)
                elif changed_rows and self._handle is not None:
                    self._handle.change_tables()
        return result

    def _registered(self, statement: s.Statement, parsed: ParsedStatement) -> pa.Table | None:
        with _only_here():
            self._check_possible(statement)
        if isinstance(statement, s.CreateStream):
            definition = StreamDefinition(
                statement.name, statement.schema, statement.timestamp, statement.delay_us, statement.options
            )
            if statement.name.lower() not in self.frames:
                check_source(definition)
                if connector_of(definition) not in INBOX:
                    # A path that is not there, or a package, is found here and not when everything is stopped for it.
                    source_frame(self.spark, definition, None, definition.schema)
            check_against_sources(self.books.catalog, [definition])
            if self._handle is not None:
                self._handle.check_new_stream(definition)
        if isinstance(statement, s.CreateSink):
            self._check_sink(statement)
        if isinstance(statement, s.SuspendQuery | s.ResumeQuery) and self._handle is not None:
            # The books know nothing of failures.
            reason = self._handle.failed().get(statement.name.lower())
            if reason is not None:
                raise CatalogError(f"query '{statement.name}' has failed: {reason}", hint="drop it and create it anew")
        new = isinstance(statement, s.CreateArchive) and self.books.catalog.find(statement.name) is None
        table = self.books.execute_parsed(parsed, statement)
        if new and isinstance(statement, s.CreateArchive):
            self._make_archive(statement.name)
        return table

    def _make_archive(self, name: str) -> None:
        """What an archive finds at its place is looked at before everything is stopped for it."""
        if is_connect(self.spark):
            return  # the files are the server's
        definition = self.books.catalog.get(name, "archive")
        assert isinstance(definition, ArchiveDefinition)
        try:
            if self._handle is None or not self._handle.active:
                check_place(definition)  # it is made when the pipeline starts
            else:
                opened(definition, layout_of(definition.options)).close()
        except BaseException:
            self.books.execute(f"DROP ARCHIVE {name_to_sql(name)}")
            raise

    def _check_possible(self, statement: s.Statement) -> None:
        """Refuses what only the embedded engine does."""
        if isinstance(statement, s.CreateStream | s.AlterStream):
            refuse_overload_options(statement.name, statement.options)
        check_host(statement, HostKind.SPARK)

    def _read_table(self, definition: TableDefinition) -> pa.RecordBatch:
        check_against_sources(self.books.catalog, [definition])
        reader = table_reader(definition, self.spark)
        return reader.rows(reader.seen())

    def _check_sink(self, statement: s.CreateSink) -> None:
        from panewise.spark.sinks import SinkTarget, sink_kinds

        source = self.books.catalog.get(statement.source, "query")
        definition = SinkDefinition(statement.name, statement.source, statement.options)
        schema = source.schema.to_arrow()  # type: ignore[union-attr]
        target = SinkTarget(definition.name, definition.source, definition.options, schema, "", (), keyed=False)
        for kind, targets in sink_kinds([target], "", _silent):
            kind.check(targets, self.spark)
        check_against_sources([definition], self.books.catalog)
        if self._handle is not None and self._handle.active:
            self._handle.check_new_sink(definition)

    def _note_rows(self) -> None:
        """The books learn how far streams have come: some statements come too late once there were rows."""
        if self._handle is None:
            return
        marks, keys = self._handle.marks(), self._handle.stream_keys()
        for name, stream in self.books.streams.items():
            of_stream = marks.streams.get(keys.get(name, ""))
            if of_stream is not None and of_stream.reached is not None:
                stream.rows_seen = stream.released = max(1, of_stream.rows)
                stream.watermark = of_stream.watermark(stream.progress.delay)
        for name, query in self.books.hosting.queries.items():
            if self._handle.begins_late(name):
                query.count_not_all()
        self._handle.tables.go_on()

    def _select_once(self, statement: s.SelectOnce, parsed: ParsedStatement) -> pa.Table | None:
        from panewise.engine.reads.one_time_query import rows_of_answer
        from panewise.operators.once.one_time import relation
        from panewise.plan.blocks import block_of
        from panewise.plan.build import build
        from panewise.plan.inputs import named_answer
        from panewise.plan.nodes import Scan

        plan = build(statement.query, self.books.find_aggregate)
        scans = [node for node in plan.walk() if isinstance(node, Scan)]
        if all(scan.kind in s.WINDOWLESS for scan in scans):  # the driver holds their rows, or finds them in files
            if self._handle is not None:
                self._handle.tables.refresh({scan.name for scan in scans if scan.kind == "table"})
            with with_files(self.books.archives, {scan.name for scan in scans if scan.kind == "archive"}):
                return self.books.execute_parsed(parsed, statement)
        answered = named_answer(plan)
        if answered is None:
            raise PlanError(
                "on Spark a one-time query reads the answer of a registered query, or tables and archives",
                hint="SELECT ... FROM its name, without a window",
            )
        if self._handle is None:
            raise PlanError("there are no answers before the pipeline is started")
        return relation(block_of(plan), rows_of_answer(self._handle.lookup(answered)))

    def _shown(self, statement: s.Show | s.Explain, parsed: ParsedStatement, pending: list[Changing]) -> pa.Table:
        """`pending`: the statements before it that the handle has yet to hear of."""
        archives = self.books.archives
        if isinstance(statement, s.Explain) and statement.query is None:
            with located(parsed):
                lines = self._explaining.lines(statement.name, self._handle, pending)
            return pa.table({"plan": pa.array(lines, pa.string())})
        with with_files(archives, archives.keepers, must_be_there=False):
            table = self.books.execute_parsed(parsed, statement)
        assert table is not None
        if isinstance(statement, s.Show) and statement.kind == "queries" and self._handle is not None:
            failed, overflows = self._handle.failed(), self._handle.overflows()
            names = [name.lower() for name in table.column("name").to_pylist()]
            columns = {column: table.column(column).to_pylist() for column in table.column_names}
            for row, name in enumerate(names):
                if name in failed:
                    columns["status"][row], columns["reason"][row] = "FAILED", failed[name]
                elif name in overflows:
                    columns["reason"][row] = overflow_remark(overflows[name])
            return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
        return table

    def queries(self) -> list[QueryDefinition]:
        """The registered queries, in the order of their creation."""
        return [query for query in self.books.catalog.of_kind("query") if isinstance(query, QueryDefinition)]

    def explain(self, query: str | None = None) -> str:
        """How a query, or everything together, is run."""
        with self._lock:
            return "\n".join(self._explaining.lines(query, self._handle))

    def explanation(self, query: str | None = None) -> Explanation:
        """The same for programs, without what Spark does around it."""
        return self._explaining.explanation(query, self._handle)

    def sharing_report(self) -> SharingReport:
        """What queries share, in which trees and at what estimated cost; `.to_dict()` is data."""
        return self._explaining.report(self._handle)

    # -- rows and results ----------------------------------------------------------------------------------------

    def push(self, stream: str, data: Any, *, producer: str | None = None, sequence: int | None = None) -> bool:
        """Rows for a stream without a connector, as `pw.Engine.push` takes them; they are processed soon after.

        `producer` and `sequence` (1, 2, 3, ...) make it safe to push again: False where the number was taken before.
        """
        if (producer is None) != (sequence is None):
            raise DataError("a push has both a producer and a sequence, or neither")
        stamp = None if producer is None or sequence is None else (producer, sequence)
        with self._lock:
            definition = self.books.catalog.get(stream, "stream")
            assert isinstance(definition, StreamDefinition)
            return self._running().push(definition, data, stamp)

    def results(self, query: str) -> DataFrame:
        """The query's results as a streaming DataFrame with its own columns and types, for any Spark sink."""
        from panewise.spark.results.result_frame import result_frame

        with self._lock:
            definition = self.books.catalog.get(query, "query")
            if self._checkpoint is None:
                raise ConnectorError(
                    "where the results will be is not known yet",
                    hint="give the checkpoint to SparkPipeline(...), or start the pipeline first",
                )
            assert isinstance(definition, QueryDefinition)
            folder = Folder(self._checkpoint)
            folder.make("results")
            name = self._log_name(folder, definition)
            with settings(self.spark, {}):  # its workers are ours
                return result_frame(self.spark, folder, name, definition.schema)

    def _log_name(self, folder: Folder, query: QueryDefinition) -> str:
        """As what the log knows a query: by the change that created it, or that will when the pipeline is started."""
        # A checkpoint that was begun has its own partitions and sharing; before there is one, there are no changes.
        identity = {"partitions": 1, "sharing": "weave", **(folder.read_json("pipeline.json") or {})}
        fixed = identity["partitions"], self.books.user_aggregates, identity["sharing"]
        program = read_program(folder, *fixed, self.queries_made)
        stored = program.newest.queries.get(query.name.lower()) if program.versions else None
        if stored is not None and stored.definition.text == query.text:
            return stored.log_name
        return log_name(query.name, program.next_version)

    # -- running -------------------------------------------------------------------------------------------------

    def start(
        self,
        checkpoint: str | None = None,
        *,
        trigger: str | None = None,
        available_now: bool = False,
        replace: bool = False,
    ) -> Handle:
        """Starts, or goes on where the checkpoint has been left.

        `trigger` is the least time between micro-batches, such as '5 seconds'. `available_now` processes what is there
        and ends. Definitions of an earlier run go on where they are the same here; where one has changed the start is
        refused, or, with `replace`, what is defined here holds.
        """
        from panewise.spark.handle import Handle

        with self._lock:
            if self._handle is not None and self._handle.active:
                raise CatalogError("the pipeline runs already", hint="stop it first")
            place = str(checkpoint) if checkpoint is not None else self._checkpoint
            if self._checkpoint is not None and place != self._checkpoint:
                raise ConnectorError(f"this pipeline's checkpoint is '{self._checkpoint}', not '{place}'")
            if place is None:
                place = tempfile.mkdtemp(prefix="panewise-")
            self._checkpoint = place
            if self._handle is not None:
                self._handle.stop_helpers()
            handle = Handle(self, Folder(place), trigger, available_now)
            handle.begin(replace)
            self._handle = handle
            return handle

    def _running(self) -> Handle:
        if self._handle is None:
            raise CatalogError("the pipeline has not been started", hint="start it first")
        return self._handle


def _schema_of(frame: DataFrame, name: str, timestamp: str) -> Schema:
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import TimestampNTZType, TimestampType

    columns = []
    for field in frame.schema.fields:
        try:
            arrow = to_arrow_type(field.dataType, timezone="UTC")
        except Exception:  # noqa: BLE001 - a type that even Arrow does not know
            continue
        found = from_arrow(arrow)
        if found is not None:
            columns.append(Column(field.name, found))
    of_time = next((f for f in frame.schema.fields if f.name.lower() == timestamp.lower()), None)
    if of_time is None or not isinstance(of_time.dataType, TimestampType | TimestampNTZType):
        found_type = "there is none" if of_time is None else f"it is {of_time.dataType.simpleString()}"
        raise ConnectorError(
            f"stream '{name}' needs a timestamp column '{timestamp}': {found_type}",
            hint=f"the DataFrame has {', '.join(frame.columns)}",
        )
    return Schema(tuple(columns))


@contextmanager
def _only_here() -> Iterator[None]:
    """What has no operator here may have one in the embedded engine: the statement is right, and the host is wrong."""
    try:
        yield
    except PlanError as error:
        error.refused_by_spark = True  # type: ignore[attr-defined]
        raise


def _silent(title: str, table: pa.Table, rows: int) -> None:
    pass
