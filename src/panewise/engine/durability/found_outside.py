"""What a statement finds outside the engine when it runs, which is recorded with the statement.

When the log is replayed, files and measurements may be different. So a replayed statement uses what was recorded, and a
query is planned as it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from panewise.plan.decided import Decided

UNKNOWN = -(2**63)


@dataclass(frozen=True)
class FoundOutside:
    """`rows`: the rows in a table's file; None if it was not read. `archive_cut`: the last cut of the archive in a
    folder; None if there was no archive or no row in it, UNKNOWN if nobody has looked. `decided`: what was decided on a
    query; None if it is to be decided now."""

    rows: pa.RecordBatch | None = None
    archive_cut: int | None = UNKNOWN
    decided: Decided | None = None


NOTHING_YET = FoundOutside()
