"""The names of the part files that sinks write. They distinguish these files from the files of other programs.

    part-00007.parquet                          the embedded engine
    part-00001-000000000250.parquet             the embedded engine with --path, by the number of the first row
    part-0000000012-<checkpoint>-<sink>.json    a pipeline on Spark, by micro-batch

`existing = 'replace'` removes only files with such names. It is refused if the folder has other data files, because
readers of the folder would take them for results too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from panewise.errors import ConnectorError

_PART = re.compile(r"part-(\d{5,}(-\d{12})?|\d{10}-[^-]+-.+)")


def parts_in(folder: Path, ending: str) -> list[Path]:
    """The parts of all sinks that wrote to a folder, in name order."""
    return [file for file in _data_files(folder, ending) if _PART.fullmatch(file.name.removesuffix(ending))]


def remove_parts(folder: Path, ending: str, parts: Iterable[Path], owner: str) -> None:
    """Removes parts of earlier runs. Raises ConnectorError, and removes none, if there are other data files."""
    own = set(parts_in(folder, ending))
    others = [file.name for file in _data_files(folder, ending) if file not in own]
    if others:
        raise ConnectorError(
            f"{owner} would replace the files in '{folder}', but '{others[0]}' was not written by a sink of panewise",
            hint="name another folder, or move the other files out of this one",
        )
    for part in parts:
        part.unlink()


def _data_files(folder: Path, ending: str) -> list[Path]:
    """The files that a reader of the folder would read."""
    return sorted(file for file in folder.glob(f"*{ending}") if not file.name.startswith((".", "_")))
