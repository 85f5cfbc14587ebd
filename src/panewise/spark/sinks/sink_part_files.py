"""Part files in a folder, named by checkpoint and batch: writing a batch again replaces its file.

A part has a name with a leading dot, which readers skip, until it is complete. Renaming within a folder is atomic, so a
process may die at any point. Files are not forced to the disk: like those of Spark's own sinks, they may be lost if the
machine fails.

Part names sort by batch, and do not clash with those of another checkpoint or of the embedded engine.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from panewise.connectors.part_files import parts_in, remove_parts
from panewise.errors import ConnectorError
from panewise.spark.sinks.sink_kind import SinkTarget


class PartFolder:
    """A folder in which a sink writes parts with one file ending."""

    def __init__(self, target: SinkTarget, path: Path, checkpoint_id: str, ending: str) -> None:
        self._target = target
        self._path = path
        self._checkpoint_id = checkpoint_id
        self._ending = ending

    def prepare(self, existing: str, first_batch: int) -> None:
        """Creates the folder and, as `existing` says, keeps, refuses or removes the parts of earlier runs."""
        self._make()
        parts = parts_in(self._path, self._ending)
        earlier = [part for part in parts if not self._comes_again(part, first_batch)]
        if earlier and existing == "fail":
            raise exists_already(self._path, self._target)
        if existing == "replace":
            remove_parts(self._path, self._ending, earlier, self._target.owner)

    def write(self, batch_id: int, write_file: Callable[[Path], None]) -> None:
        """`write_file` makes the file at the path that it is given."""
        part = self._part(batch_id)
        unfinished = part.with_name(f".{part.name}.unfinished")
        try:
            write_file(unfinished)
        except FileNotFoundError:
            self._make()
            write_file(unfinished)
        unfinished.replace(part)

    def _part(self, batch_id: int) -> Path:
        # With the sink's name, because several sinks may share a folder.
        sink = quote(self._target.name, safe="")
        return self._path / f"part-{batch_id:010d}-{self._checkpoint_id}-{sink}{self._ending}"

    def _comes_again(self, part: Path, first_batch: int) -> bool:
        number, _, owner = part.name.removeprefix("part-").partition("-")
        return owner.startswith(f"{self._checkpoint_id}-") and number.isdigit() and int(number) >= first_batch

    def _make(self) -> None:
        make_folder(self._path, self._target)


def local_path(written: object, target: SinkTarget) -> Path:
    """The option `path` as a local path of the driver; ConnectorError for other file systems."""
    path = str(written).removeprefix("file://")
    if "://" in path:
        raise ConnectorError(
            f"the path '{written}' of {target.owner} is not one of the driver's file system",
            hint="write elsewhere from pipeline.results(...), a streaming DataFrame that takes any sink of Spark",
        )
    return Path(path)


def make_folder(folder: Path, target: SinkTarget) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConnectorError(f"'{folder}' of {target.owner} cannot be made: {error}") from error


def exists_already(path: object, target: SinkTarget) -> ConnectorError:
    return ConnectorError(
        f"'{path}' of {target.owner} exists already", hint="existing = 'append' or 'replace' would go on"
    )
