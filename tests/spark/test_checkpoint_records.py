"""Records of a checkpoint have a number of their format: those of before had none and are read, newer ones are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from panewise.errors import SnapshotError
from panewise.spark.archives.archive_target import ArchiveStart, read_archive_starts, write_archive_starts
from panewise.spark.delivery.prepared_sinks import read_prepared, write_prepared
from panewise.spark.environment.folder import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(str(tmp_path))
    assert (read_archive_starts(folder), read_prepared(folder)) == ({}, set())
    return folder


def test_archives(folder: Folder) -> None:
    begun = {"kept@3": ArchiveStart(4, None), "gone@0": ArchiveStart(0, 17, ended=True)}
    write_archive_starts(folder, begun)
    assert read_archive_starts(folder) == begun
    written = {"kept@3": {"base": 4, "at": None, "ended": False}, "gone@0": {"base": 0, "at": 17, "ended": True}}
    assert folder.read_json("archives.json") == {"format": 2, "archives": written}
    folder.write_json("archives.json", written)  # as it was written before
    assert read_archive_starts(folder) == begun


def test_sinks(folder: Folder) -> None:
    write_prepared(folder, ["out@3", "alerts@0"])
    assert read_prepared(folder) == {"out@3", "alerts@0"}
    assert folder.read_json("sinks.json") == {"format": 2, "prepared": ["alerts@0", "out@3"]}
    folder.write_json("sinks.json", ["alerts@0", "out@3"])  # as it was written before
    assert read_prepared(folder) == {"out@3", "alerts@0"}


@pytest.mark.parametrize(("name", "read"), [("archives", read_archive_starts), ("sinks", read_prepared)])
def test_what_a_newer_panewise_has_written(name: str, read: Callable[[Folder], Any], folder: Folder) -> None:
    folder.write_json(f"{name}.json", {"format": 3})
    with pytest.raises(SnapshotError, match=f"the record of a checkpoint's {name} has format 3"):
        read(folder)
