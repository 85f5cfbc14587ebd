"""`pw.SparkPipeline`: statements, streams and results on Spark.

The *books* are an embedded engine that never gets a row. It checks and registers all statements, so both hosts accept
and refuse the same ones, with the same messages.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panewise.catalog import QueryDefinition, StreamDefinition
from panewise.engine.books.definitions import statement_of
from panewise.engine.books.made_queries import MadeQueries
from panewise.engine.engine import Engine
from panewise.errors import CatalogError, ConnectorError, DataError
from panewise.optimize.sharing.report.sharing_report import SharingReport
from panewise.plan.explanation import Explanation
from panewise.schema import DOUBLE, DataType
from panewise.spark.environment.folder import Folder
from panewise.spark.environment.session import check_version, own_session, settings
from panewise.spark.ingest.frame_streams import stream_of_frame
from panewise.spark.program.identity import read_identity
from panewise.spark.program.known_programs import read_program
from panewise.spark.program.version import log_name
from panewise.spark.spark_explaining import SparkExplainer
from panewise.spark.spark_statements import SparkStatements
from panewise.temporal import duration_us

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from panewise.spark.handle import Handle
    from panewise.spark.sinks.sink_kind import PrintTable


class SparkPipeline:
    """Many sliding-window queries as one Structured Streaming query.

    `spark` is a session, classic or Spark Connect; without one a local session is made. `checkpoint` is the pipeline's
    folder, which outlives the pipeline; without one `start` makes a temporary folder. `partitions` is how far the work
    can spread; the default is the number of tasks that Spark runs at once. `retention` is how long results stay in the
    log. `sharing`, for experiments, is 'weave' (by cost), 'full' or 'none'. The first start from a checkpoint fixes
    `partitions` and `sharing` for all later ones.
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
        self.partitions = partitions  # of the checkpoint, once there is one
        self.retention_us = duration_us(retention)
        self.print_table: PrintTable | None = None
        self._checkpoint = str(checkpoint) if checkpoint is not None else None
        self.sharing = sharing  # of the checkpoint, once there is one
        self.books = Engine(sharing=sharing)
        self.books.driver.expect()  # Spark drives the run
        self.books.archives.keep_only_books()  # files are written by micro-batches
        self.queries_made = MadeQueries()
        self.books.statements.share_queries(self.queries_made)
        self.frames: dict[str, DataFrame] = {}  # given with `add_stream`, by lower-case name of the stream
        self._explainer = SparkExplainer(self)
        self._statements = SparkStatements(self, self._explainer)
        self.books.statements.read_tables_by(self._statements.read_table)
        self._handle: Handle | None = None
        self._lock = threading.RLock()

    # -- definitions ---------------------------------------------------------------------------------------------

    def add_stream(
        self, name: str, frame: DataFrame, *, timestamp: str, watermark: str | None = None, **options: str
    ) -> None:
        """Defines a stream over a streaming DataFrame; `timestamp` is its event time, `watermark` how late rows may be.

        Columns of types that panewise does not know are left out: a query that names one is refused.
        """
        definition = stream_of_frame(frame, name, timestamp, watermark, options)
        with self._lock:
            before = dict(self.frames)  # may have another DataFrame of this name
            self.frames[name.lower()] = frame
            try:
                self.execute(statement_of(definition))
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
        """Registers your own aggregate, as `pw.Engine.register_aggregate` does; do it again before every start."""
        self.books.register_aggregate(
            name, lift=lift, combine=combine, lower=lower, identity=identity, inverse=inverse, arguments=arguments,
            returns=returns,
        )  # fmt: skip

    def execute(self, text: str) -> pa.Table | None:
        """Runs one or more statements; returns the table of the last one that yields one (SHOW, EXPLAIN, SELECT).

        If a statement is refused, those before it stay. While the pipeline runs, the statements of one call are one
        change, which holds from the next micro-batch boundary on. Rows of tables change with the next micro-batch,
        without a restart of the Spark query.
        """
        with self._lock:
            return self._statements.execute(text, self._handle)

    def queries(self) -> list[QueryDefinition]:
        """The registered queries, in the order of their creation."""
        return [query for query in self.books.catalog.of_kind("query") if isinstance(query, QueryDefinition)]

    def explain(self, query: str | None = None) -> str:
        """How a query runs, or all queries together."""
        with self._lock:
            return "\n".join(self._explainer.lines(query, self._handle))

    def explanation(self, query: str | None = None) -> Explanation:
        """The plan of a query, or of all, as data: what `explain` says without its lines about Spark."""
        return self._explainer.explanation(query, self._handle)

    def sharing_report(self) -> SharingReport:
        """What queries share, in which trees and at what estimated cost; `.to_dict()` is data."""
        return self._explainer.report(self._handle)

    # -- rows and results ----------------------------------------------------------------------------------------

    def push(self, stream: str, data: Any, *, producer: str | None = None, sequence: int | None = None) -> bool:
        """Posts rows of a stream without a connector for the next micro-batches. Takes what `pw.Engine.push` takes.

        `producer` and `sequence` (1, 2, 3, ...) make it safe to push again: False if the number was taken before.
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
            with settings(self.spark, {}):  # its workers run this interpreter
                return result_frame(self.spark, folder, name, definition.schema)

    def _log_name(self, folder: Folder, query: QueryDefinition) -> str:
        """The query's name in the log, with the change that created it or that the next start will write for it."""
        identity = read_identity(folder)
        if identity is None:  # nothing was started from this checkpoint
            return log_name(query.name, 0)
        fixed = identity.partitions, self.books.user_aggregates, identity.sharing
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
        """Starts a run, or goes on from where the checkpoint was left; returns its handle.

        `trigger` is the least time between micro-batches, such as '5 seconds'. `available_now` processes what is there
        and ends. Definitions that only the checkpoint has stay. If a definition differs, the start is refused. With
        `replace`, the definitions of this pipeline replace those of the checkpoint; those that it lacks are dropped.
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
                self._handle.stop_threads()
            handle = Handle(self, Folder(place), trigger, available_now)
            self.partitions, self.sharing = handle.identity.partitions, handle.identity.sharing
            handle.begin(replace)
            self._handle = handle
            return handle

    def _running(self) -> Handle:
        if self._handle is None:
            raise CatalogError("the pipeline has not been started", hint="start it first")
        return self._handle
