"""What the wall clock showed before a micro-batch ran: rows far after it are bad (`window_limit`).

It is noted once, when Spark hands the micro-batch over and nothing of it has run, so that every task, retry and restart
judges its rows alike. Cost: a small file a micro-batch.
"""

from __future__ import annotations

import time

from panewise.spark.environment.folder import Folder

CLOCKS_KEPT = 50


def note_clock(folder: Folder, batch: int) -> None:
    """Notes the clock for a micro-batch, where that has not been done."""
    if not folder.exists(_file(batch)):
        folder.write_json(_file(batch), time.time_ns() // 1000)
        folder.remove(_file(batch - CLOCKS_KEPT))


def read_clock(folder: Folder, batch: int) -> int | None:
    """In microseconds since 1970; None where nobody has noted it."""
    noted: int | None = folder.read_json(_file(batch))
    return noted


def _file(batch: int) -> str:
    return f"clocks/{batch:012d}.json"
