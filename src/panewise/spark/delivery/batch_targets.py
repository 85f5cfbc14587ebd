"""Where the results of micro-batches go, and how they are put together, as the program says.

The process that writes results reads the program itself. With Spark Connect it is a process of the server, which gets a
`Reference` and no definitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from panewise.catalog import SinkDefinition
from panewise.spark.program.version import Version
from panewise.spark.sinks import SinkTarget, sink_kinds, sink_target

if TYPE_CHECKING:
    from panewise.spark.sinks.sink_kind import PrintTable, SinkKind


@dataclass
class VersionSinks:
    """The sinks that get the results of micro-batches from `from_batch` on, and the log names of their queries."""

    from_batch: int
    kinds: list[tuple[SinkKind, list[SinkTarget]]]
    log_names: dict[str, str]


@dataclass
class BatchTargets:
    """What the writer needs to know for the micro-batches of a run."""

    beginnings: list[tuple[int, int]]  # each version with its first micro-batch
    time_columns: dict[str, str]  # by log name of the query
    sinks: list[VersionSinks]  # of the versions that may still govern micro-batches

    def sinks_of(self, batch: int) -> VersionSinks | None:
        return next((sinks for sinks in reversed(self.sinks) if sinks.from_batch <= batch), None)


def batch_targets(versions: Sequence[Version], first: int, checkpoint_id: str, print_table: PrintTable) -> BatchTargets:
    """The targets of all versions; `first` is the version of the next micro-batch."""
    queries = [query for version in versions for query in version.queries.values()]
    return BatchTargets(
        [(version.number, version.from_batch) for version in versions],
        {query.log_name: query.definition.timestamp for query in queries},
        [version_sinks(version, checkpoint_id, print_table) for version in versions if version.number >= first],
    )


def version_sinks(version: Version, checkpoint_id: str, print_table: PrintTable) -> VersionSinks:
    targets = [target_of(sink.definition, version) for sink in version.sinks.values()]
    log_names = {name: query.log_name for name, query in version.queries.items()}
    return VersionSinks(version.from_batch, sink_kinds(targets, checkpoint_id, print_table), log_names)


def target_of(sink: SinkDefinition, version: Version) -> SinkTarget:
    query = version.queries[sink.source.lower()]
    return sink_target(sink, query.query, query.definition.schema.to_arrow())
