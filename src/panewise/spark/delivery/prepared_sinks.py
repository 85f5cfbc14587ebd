"""Which sinks have been prepared in a checkpoint: what an earlier run left at their places has been dealt with."""

from __future__ import annotations

from collections.abc import Iterable

from panewise.spark.environment.folder import Folder
from panewise.state.records import FORMAT, check_format

_FILE = "sinks.json"
SINKS_FORMAT = 2  # 1 was the list of names alone


def read_prepared(folder: Folder) -> set[str]:
    """By their names in the checkpoint, with the version that created them."""
    data = folder.read_json(_FILE) or []
    if isinstance(data, list):
        return set(data)
    check_format(data, SINKS_FORMAT, "the record of a checkpoint's sinks")
    return set(data["prepared"])


def write_prepared(folder: Folder, names: Iterable[str]) -> None:
    folder.write_json(_FILE, {FORMAT: SINKS_FORMAT, "prepared": sorted(names)})
