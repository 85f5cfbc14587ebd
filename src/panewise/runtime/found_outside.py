"""What a statement finds outside the engine when it is run: it is written down with the statement.

A file may be another one when the log is read. So a statement that happens again finds what it found then.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

UNKNOWN = -(2**63)


@dataclass(frozen=True)
class FoundOutside:
    """`rows`: of the file of a table, None where nobody has read it. `archive_cut`: how far the archive in a folder had
    come, None where there was none, or nothing in it, UNKNOWN where nobody has looked."""

    rows: pa.RecordBatch | None = None
    archive_cut: int | None = UNKNOWN


NOTHING_YET = FoundOutside()
