"""What a sink on Spark is told, and what it promises.

One foreachBatch on the driver hands the results of a micro-batch to all sinks, as Arrow tables, those of one kind in
one call of `write`. A micro-batch may be handed over again, whole and with the same content, after a crash at any
point: within `write`, after it, or after some kinds have written and others have not. Every sink ends as if the
batch had come once, or its module says what is less.

Batches are numbered by one checkpoint, from 0. `checkpoint_id` is that checkpoint's identity and stays the same over
restarts; so (checkpoint_id, batch_id) names a batch for ever, also where several pipelines write to one place.

A kind keeps only caches (connections, producers) and what it was made with: any other process may go on with an
equal object. It can be pickled at any time; caches stay behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from panewise.catalog import Options, SinkDefinition
from panewise.language.bind.selected_columns import event_time
from panewise.language.statements import Emission, Named, Query, Select
from panewise.temporal import TimeWindow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

# What the console sink prints with: title, table, and the greatest number of rows to show.
PrintTable = Callable[[str, "pa.Table", int], None]


@dataclass(frozen=True)
class SinkTarget:
    """One sink. `time_column` with `group_columns` identifies a row where `keyed` says so.

    Rows of a change log, of a selection without aggregates and of a window that counts rows are not keyed: there two
    rows may be equal.
    """

    name: str
    query: str
    # Not in the representation: a password may be among them.
    options: Options = field(repr=False)
    schema: pa.Schema
    time_column: str
    group_columns: tuple[str, ...]
    keyed: bool

    @property
    def owner(self) -> str:
        """How messages begin."""
        return f"sink '{self.name}'"

    @property
    def key_columns(self) -> tuple[str, ...]:
        return (self.time_column, *self.group_columns)


Tables = Sequence[tuple[SinkTarget, "pa.Table"]]


class SinkKind(Protocol):
    """All sinks with one connector."""

    def check(self, targets: Sequence[SinkTarget], spark: SparkSession | None = None) -> None:
        """ConnectorError where an option is wrong or a package is missing. Changes nothing; called at any time.

        With a session, what the session must bring is checked too.
        """

    def prepare(self, targets: Sequence[SinkTarget], first_batch: int) -> None:
        """Called when sinks begin, before the batch `first_batch`, which is the first that they may get.

        Applies `existing`: what this checkpoint wrote from `first_batch` on is a batch that will come again, all else
        is the result of an earlier run. Called again where the pipeline died before that batch was complete, never
        for a sink that goes on after a restart.
        """

    def write(self, batch_id: int, tables: Tables, spark: SparkSession | None) -> None:
        """The results of a batch; `prepare` need not have been called in this process. Empty tables write nothing."""


def sink_target(sink: SinkDefinition, query: Query, schema: pa.Schema) -> SinkTarget:
    """The target of a sink over the query that it reads, whose results have the schema."""
    groups, keyed = identifying_columns(query)
    return SinkTarget(sink.name, sink.source, sink.options, schema, event_time(query) or "", groups, keyed)


def identifying_columns(query: Query) -> tuple[tuple[str, ...], bool]:
    """The results' columns that are grouping keys, and whether a report has at most one row for their values."""
    if not isinstance(query, Select) or not query.aggregated:
        return (), False
    found = [next((item.name for item in query.items if item.expression == key), None) for key in query.group_by]
    groups = tuple(dict.fromkeys(name for name in found if name is not None))
    reported = all(
        (isinstance(entry.window, TimeWindow) and entry.window.periodic)
        or (entry.window is None and isinstance(entry.relation, Named) and entry.relation.kind == "table")
        for entry in query.inputs
    )
    return groups, None not in found and reported and query.emit in (
        None,
        Emission.RSTREAM,
        Emission.ISTREAM,
        Emission.DSTREAM,
    )
