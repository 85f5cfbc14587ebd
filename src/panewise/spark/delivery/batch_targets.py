"""To whom the results of micro-batches go, and how they are put together: found in the program, where they are written.

With Spark Connect that is a process of the server. It is told by a `Reference`, and never gets a definition.
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
    """The sinks that get the results of micro-batches from `from_batch` on; `log_names` of the queries they read."""

    from_batch: int
    kinds: list[tuple[SinkKind, list[SinkTarget]]]
    log_names: dict[str, str]


@dataclass
class BatchTargets:
    """What holds for the micro-batches of a run."""

    beginnings: list[tuple[int, int]]  # (version, its first micro-batch)
    time_columns: dict[str, str]  # by query, under its name in the log
    sinks: list[VersionSinks]  # of the versions that may still have micro-batches to come

    def sinks_of(self, batch: int) -> VersionSinks | None:
        return next((sinks for sinks in reversed(self.sinks) if sinks.from_batch <= batch), None)


def batch_targets(versions: Sequence[Version], first: int, checkpoint_id: str, print_table: PrintTable) -> BatchTargets:
    """`first`: the version of the next micro-batch, which is an older one where it was under way."""
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
