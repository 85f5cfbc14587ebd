"""What a statement finds when it is run and would find otherwise another day: it is written down with the statement.

A file may be another one when the log is read, and what is measured is. So a statement that happens again finds what it
found then, and a query is planned as it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from panewise.plan.decided import Decided

UNKNOWN = -(2**63)


@dataclass(frozen=True)
class FoundOutside:
    """`rows`: of the file of a table, None where nobody has read it. `archive_cut`: how far the archive in a folder had
    come, None where there was none, or nothing in it, UNKNOWN where nobody has looked. `decided`: on a query, None
    where it is to be decided now."""

    rows: pa.RecordBatch | None = None
    archive_cut: int | None = UNKNOWN
    decided: Decided | None = None


NOTHING_YET = FoundOutside()
