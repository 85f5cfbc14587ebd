"""Which sinks of a checkpoint are prepared: `existing` was applied to what they found at their place."""

from __future__ import annotations

from collections.abc import Iterable

from panewise.spark.environment.folder import Folder
from panewise.state.records import FORMAT, check_format

_FILE = "sinks.json"
SINKS_FORMAT = 2  # format 1 was only the list of names


def read_prepared(folder: Folder) -> set[str]:
    """The log names of the prepared sinks."""
    data = folder.read_json(_FILE) or []
    if isinstance(data, list):
        return set(data)
    check_format(data, SINKS_FORMAT, "the record of a checkpoint's sinks")
    return set(data["prepared"])


def write_prepared(folder: Folder, names: Iterable[str]) -> None:
    folder.write_json(_FILE, {FORMAT: SINKS_FORMAT, "prepared": sorted(names)})
