"""The clock of a micro-batch is noted once, so that a retry judges rows by the same one."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from panewise.spark.environment.folder import FOLDERS, Folder
from panewise.spark.tasks.batch_clock import CLOCKS_KEPT, note_clock, read_clock


def test_a_retry_finds_the_clock_that_was_noted_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder(str(tmp_path))
    folder.make(*FOLDERS)
    assert read_clock(folder, 3) is None
    monkeypatch.setattr(time, "time_ns", lambda: 5_000_000)
    note_clock(folder, 3)
    monkeypatch.setattr(time, "time_ns", lambda: 9_000_000)
    note_clock(folder, 3)
    note_clock(folder, 4)
    assert (read_clock(folder, 3), read_clock(folder, 4)) == (5_000, 9_000)
    note_clock(folder, 3 + CLOCKS_KEPT)
    assert read_clock(folder, 3) is None
