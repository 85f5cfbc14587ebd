"""Lookups of old reports, which neither the log nor the buckets hold, in an archive of the query's results.

All rows of a report come in one micro-batch, and an update has whole micro-batches, so an archive has a whole report or
none of it. An empty report cannot be told from a missing one, and is not answered.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from panewise.catalog import ArchiveDefinition
from panewise.errors import ArchiveError
from panewise.language.statements import Emission
from panewise.spark.archives.archive_target import ArchiveStart
from panewise.spark.program.version import PlannedQuery, Version
from panewise.temporal import TimeWindow


def archived_report(version: Version, query: PlannedQuery, at: int, starts: dict[str, ArchiveStart]) -> pa.Table | None:
    """The report of a periodic query at an instant; None if no archive has it. `starts` has archives by log name."""
    window = query.block.window
    if query.block.emission is not Emission.RSTREAM or query.block.restore:
        return None
    if not isinstance(window, TimeWindow) or window.slide_us is None:
        return None
    report = window.last_report(at)
    for archive in version.archives.values():
        own = starts.get(archive.log_name)
        # Rows up to `own.at` were in the archive before, perhaps from another query.
        if archive.definition.source.lower() == query.name and own is not None and (own.at is None or report > own.at):
            table = _rows_at(archive.definition, report)
            if table is not None and table.num_rows:
                return table.cast(query.definition.schema.to_arrow())
    return None


def _rows_at(definition: ArchiveDefinition, report: int) -> Any:
    from panewise.archive.archive import Archive

    try:
        with Archive.open(definition.path) as archive:
            return archive.scan(inserted=(report, report), columns=list(definition.schema.names))
    except ArchiveError:
        return None
