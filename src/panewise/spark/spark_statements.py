"""Runs statements on Spark: the books check and register them, and a run hears of the changes.

Invariant: the books never hold what Spark cannot run. Statements that only the embedded engine can run are refused
before the books hear of them. What a new source, sink or archive finds at its place is checked before a run is stopped
for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from panewise.catalog import ArchiveDefinition, SinkDefinition, StreamDefinition, TableDefinition
from panewise.connectors.places import check_against_sources
from panewise.engine.books.engine_archives import check_place, layout_of, opened
from panewise.engine.channels.hosted_query import overflow_remark
from panewise.engine.ingest.shedding import refuse_overload_options
from panewise.engine.statements.statement_runner import located
from panewise.errors import CatalogError, PlanError
from panewise.language import statements as s
from panewise.language.bind.binder import ParsedStatement, parse
from panewise.language.sql_text import name_to_sql
from panewise.optimize.refusals import HostKind, check_host
from panewise.spark.archives.archive_reading import with_files
from panewise.spark.environment.session import is_connect
from panewise.spark.ingest.stream_sources import INBOX, check_source, connector_of, source_frame
from panewise.spark.program.changes import ChangeStatement
from panewise.spark.program.identity import DefinedPipeline
from panewise.spark.spark_explaining import SparkExplainer
from panewise.spark.tables.table_readers import table_reader

if TYPE_CHECKING:
    from panewise.spark.handle import Handle


class SparkStatements:
    """The statements of one pipeline. Its `Handle` is passed to each call, or None before the first start."""

    def __init__(self, pipeline: DefinedPipeline, explainer: SparkExplainer) -> None:
        self._pipeline = pipeline
        self._books = pipeline.books
        self._explainer = explainer

    def execute(self, text: str, handle: Handle | None) -> pa.Table | None:
        """Runs statements; returns the table of the last one that yields one. The handle gets them as one change."""
        result = None
        changed: list[ChangeStatement] = []
        changed_rows = False
        try:
            for parsed in parse(text):
                statement = self._books.statements.bound(parsed)
                if isinstance(statement, s.SelectOnce):
                    with _refused_by_spark():
                        table = self._select_once(statement, parsed, handle)
                elif isinstance(statement, s.Show | s.Explain):
                    table = self._shown(statement, parsed, handle, changed)
                else:
                    if handle is not None:
                        self._note_progress(handle)
                    table = self._registered(statement, parsed, handle)
                    if isinstance(statement, s.Insert | s.Update | s.Delete):
                        changed_rows = True
                    else:
                        own_text = parsed.text[parsed.span.start : parsed.span.end]
                        changed.append(ChangeStatement(own_text, statement))
                        self._pipeline.queries_made.note_text(own_text, statement)
                result = table if table is not None else result
        finally:
            if changed and handle is not None:
                handle.change(changed)
            elif changed_rows and handle is not None:
                handle.change_tables()
        return result

    def read_table(self, definition: TableDefinition) -> pa.RecordBatch:
        """The rows of a table with a connector, as the session reads them now."""
        check_against_sources(self._books.catalog, [definition])
        reader = table_reader(definition, self._pipeline.spark)
        return reader.rows(reader.seen())

    # -- statements that define or change ------------------------------------------------------------------------

    def _registered(self, statement: s.Statement, parsed: ParsedStatement, handle: Handle | None) -> pa.Table | None:
        with _refused_by_spark():
            if isinstance(statement, s.CreateStream | s.AlterStream):
                refuse_overload_options(statement.name, statement.options)
            check_host(statement, HostKind.SPARK)
        if isinstance(statement, s.CreateStream):
            self._check_stream(statement, handle)
        if isinstance(statement, s.CreateSink):
            self._check_sink(statement, handle)
        if isinstance(statement, s.SuspendQuery | s.ResumeQuery) and handle is not None:
            # Queries fail in the workers; the books do not know.
            reason = handle.failed().get(statement.name.lower())
            if reason is not None:
                raise CatalogError(f"query '{statement.name}' has failed: {reason}", hint="drop it and create it anew")
        new = isinstance(statement, s.CreateArchive) and self._books.catalog.find(statement.name) is None
        table = self._books.execute_parsed(parsed, statement)
        if new and isinstance(statement, s.CreateArchive):
            self._make_archive(statement.name, handle)
        return table

    def _check_stream(self, statement: s.CreateStream, handle: Handle | None) -> None:
        definition = StreamDefinition(
            statement.name, statement.schema, statement.timestamp, statement.delay_us, statement.options
        )
        if statement.name.lower() not in self._pipeline.frames:
            check_source(definition)
            if connector_of(definition) not in INBOX:
                # Finds a missing path or package now, before a run is stopped for the new stream.
                source_frame(self._pipeline.spark, definition, None, definition.schema)
        check_against_sources(self._books.catalog, [definition])
        if handle is not None:
            handle.check_new_stream(definition)

    def _check_sink(self, statement: s.CreateSink, handle: Handle | None) -> None:
        from panewise.spark.sinks import SinkTarget, sink_kinds

        source = self._books.catalog.get(statement.source, "query")
        definition = SinkDefinition(statement.name, statement.source, statement.options)
        schema = source.schema.to_arrow()  # type: ignore[union-attr]
        target = SinkTarget(definition.name, definition.source, definition.options, schema, "", (), keyed=False)
        for kind, targets in sink_kinds([target], "", _print_nothing):
            kind.check(targets, self._pipeline.spark)
        check_against_sources([definition], self._books.catalog)
        if handle is not None and handle.active:
            handle.prepare_new_sink(definition)

    def _make_archive(self, name: str, handle: Handle | None) -> None:
        """Makes the files of an archive if a run is active; otherwise checks only that they can be made at the start.

        Drops the archive from the books if its place is refused.
        """
        if is_connect(self._pipeline.spark):
            return  # the server has the files
        definition = self._books.catalog.get(name, "archive")
        assert isinstance(definition, ArchiveDefinition)
        try:
            if handle is None or not handle.active:
                check_place(definition)
            else:
                opened(definition, layout_of(definition.options)).close()
        except BaseException:
            self._books.execute(f"DROP ARCHIVE {name_to_sql(name)}")
            raise

    def _note_progress(self, handle: Handle) -> None:
        """Tells the books how far streams have come: some statements are refused once there were rows."""
        marks, keys = handle.marks(), handle.stream_keys()
        for name, stream in self._books.streams.items():
            of_stream = marks.streams.get(keys.get(name, ""))
            if of_stream is not None and of_stream.reached is not None:
                stream.rows_seen = stream.released = max(1, of_stream.rows)
                stream.watermark = of_stream.watermark(stream.progress.delay)
        for name, query in self._books.hosting.queries.items():
            if handle.begins_late(name):
                query.count_not_all()
        handle.tables.go_on()

    # -- statements that answer ----------------------------------------------------------------------------------

    def _select_once(self, statement: s.SelectOnce, parsed: ParsedStatement, handle: Handle | None) -> pa.Table | None:
        from panewise.engine.reads.one_time_query import rows_of_answer
        from panewise.operators.once.one_time import relation
        from panewise.plan.blocks import block_of
        from panewise.plan.build import build
        from panewise.plan.inputs import named_answer
        from panewise.plan.nodes import Scan

        plan = build(statement.query, self._books.find_aggregate)
        scans = [node for node in plan.walk() if isinstance(node, Scan)]
        if all(scan.kind in s.WINDOWLESS for scan in scans):  # the driver holds their rows, or finds them in files
            if handle is not None:
                handle.tables.refresh({scan.name for scan in scans if scan.kind == "table"})
            with with_files(self._books.archives, {scan.name for scan in scans if scan.kind == "archive"}):
                return self._books.execute_parsed(parsed, statement)
        answered = named_answer(plan)
        if answered is None:
            raise PlanError(
                "on Spark a one-time query reads the answer of a registered query, or tables and archives",
                hint="SELECT ... FROM its name, without a window",
            )
        if handle is None:
            raise PlanError("there are no answers before the pipeline is started")
        return relation(block_of(plan), rows_of_answer(handle.lookup(answered)))

    def _shown(
        self,
        statement: s.Show | s.Explain,
        parsed: ParsedStatement,
        handle: Handle | None,
        pending: list[ChangeStatement],
    ) -> pa.Table:
        """`pending`: statements before this one that the handle has not heard of yet."""
        archives = self._books.archives
        if isinstance(statement, s.Explain) and statement.query is None:
            with located(parsed):
                lines = self._explainer.lines(statement.name, handle, pending)
            return pa.table({"plan": pa.array(lines, pa.string())})
        with with_files(archives, archives.keepers, must_be_there=False):
            table = self._books.execute_parsed(parsed, statement)
        assert table is not None
        if isinstance(statement, s.Show) and statement.kind == "queries" and handle is not None:
            return _with_failures(table, handle.failed(), handle.overflows())
        return table


def _with_failures(table: pa.Table, failed: dict[str, str], overflows: dict[str, int]) -> pa.Table:
    """SHOW QUERIES with what the workers have reported: which queries have failed or had answers outside their type."""
    columns = {column: table.column(column).to_pylist() for column in table.column_names}
    for row, name in enumerate(name.lower() for name in table.column("name").to_pylist()):
        if name in failed:
            columns["status"][row], columns["reason"][row] = "FAILED", failed[name]
        elif name in overflows:
            columns["reason"][row] = overflow_remark(overflows[name])
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


@contextmanager
def _refused_by_spark() -> Iterator[None]:
    """Marks a PlanError: the statement is right, and the embedded engine may be able to run it."""
    try:
        yield
    except PlanError as error:
        error.refused_by_spark = True  # type: ignore[attr-defined]
        raise


def _print_nothing(title: str, table: pa.Table, rows: int) -> None:
    pass
