"""The contract of a kind of sinks: all sinks on Spark with one connector.

One foreachBatch on the driver hands the results of a micro-batch to all sinks, as Arrow tables; sinks of one kind get
them in one call of `write`. After a crash at any point (in `write`, after it, or between two kinds) a micro-batch may
be handed over again, whole and with the same content. Every sink must end as if the batch had come once, or its module
says what it guarantees instead.

A checkpoint numbers its batches from 0. `checkpoint_id` stays the same over restarts. So (checkpoint_id, batch_id)
identifies a batch for ever, even if several pipelines write to one place.

A kind keeps only its arguments and caches (connections, producers), so another process may go on with an equal object.
It can be pickled at any time, without its caches.
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

# Prints a table for the console sink: title, table, and the greatest number of rows to show.
PrintTable = Callable[[str, "pa.Table", int], None]


@dataclass(frozen=True)
class SinkTarget:
    """One sink. If `keyed`, `time_column` and `group_columns` identify a row.

    Rows of a change log, of a selection without aggregates and of a window that counts rows are not keyed: two of them
    may be equal.
    """

    name: str
    query: str
    # Not in the representation, because they may have a password.
    options: Options = field(repr=False)
    schema: pa.Schema
    time_column: str
    group_columns: tuple[str, ...]
    keyed: bool

    @property
    def owner(self) -> str:
        """The sink's name for error messages."""
        return f"sink '{self.name}'"

    @property
    def key_columns(self) -> tuple[str, ...]:
        return (self.time_column, *self.group_columns)


Tables = Sequence[tuple[SinkTarget, "pa.Table"]]


class SinkKind(Protocol):
    """All sinks with one connector."""

    def check(self, targets: Sequence[SinkTarget], spark: SparkSession | None = None) -> None:
        """ConnectorError if an option is wrong or a package is missing. Changes nothing; called at any time.

        With a session, also checks that the session has what the sinks need.
        """

    def prepare(self, targets: Sequence[SinkTarget], first_batch: int) -> None:
        """Called when sinks begin, before `first_batch`, the first batch that they may get.

        Applies `existing` to the results of earlier runs. What this checkpoint wrote from `first_batch` on is not such
        a result: that batch will be repeated. Called again if the pipeline died before `first_batch` was complete, but
        not for a sink that goes on after a restart.
        """

    def write(self, batch_id: int, tables: Tables, spark: SparkSession | None) -> None:
        """Writes the results of a batch; empty tables write nothing. Another process may have called `prepare`."""


def sink_target(sink: SinkDefinition, query: Query, schema: pa.Schema) -> SinkTarget:
    """The target of a sink; `query` is the query that it reads, `schema` that of the query's results."""
    groups, keyed = identifying_columns(query)
    return SinkTarget(sink.name, sink.source, sink.options, schema, event_time(query) or "", groups, keyed)


def identifying_columns(query: Query) -> tuple[tuple[str, ...], bool]:
    """The columns of the results that are grouping keys, and whether their values identify a row of a report."""
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
