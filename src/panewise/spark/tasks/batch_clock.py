"""The wall clock's time before a micro-batch ran. Rows too far after it are bad (`window_limit`).

It is written once, when Spark hands the micro-batch over and before anything of it runs, so that every task, retry and
restart judges rows alike. Cost: a small file for each micro-batch.
"""

from __future__ import annotations

import time

from panewise.spark.environment.folder import Folder

CLOCKS_KEPT = 50


def note_clock(folder: Folder, batch: int) -> None:
    """Writes the time for a micro-batch, unless that was done before."""
    if not folder.exists(_file(batch)):
        folder.write_json(_file(batch), time.time_ns() // 1000)
        folder.remove(_file(batch - CLOCKS_KEPT))


def read_clock(folder: Folder, batch: int) -> int | None:
    """The time for a micro-batch, in microseconds since 1970; None if none was written."""
    noted: int | None = folder.read_json(_file(batch))
    return noted


def _file(batch: int) -> str:
    return f"clocks/{batch:012d}.json"
