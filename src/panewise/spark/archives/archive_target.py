"""What archives of queries and of streams have in common: their sources, micro-batches and the form of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from panewise.archive.sought import TIME
from panewise.arrays import INT64_MIN
from panewise.catalog import ArchiveDefinition
from panewise.errors import ArchiveError
from panewise.spark.environment.folder import Folder
from panewise.spark.tasks.batch_progress import Marks
from panewise.state.records import FORMAT, Record, check_format
from panewise.temporal import INSTANT_MAX, INSTANT_NEVER

if TYPE_CHECKING:
    from panewise.archive.manifest import Manifest

_STATE = "archives.json"
ARCHIVES_FORMAT = 2  # format 1 was only what is now under `archives`
HELD_MAX = 262_144  # rows that wait for the end of their slot; more are written before it


@dataclass(frozen=True)
class ArchiveTarget:
    """An archive, from its first micro-batch to the one before `until`."""

    definition: ArchiveDefinition
    name: str  # its log name
    query: str | None  # log name of the query; None if the rows of a stream are archived
    streams: tuple[tuple[str, int], ...]  # keys and delays of the streams that its rows come from in the end
    first: int
    until: int | None  # None while the archive is defined

    @property
    def stream(self) -> str:
        """The key of the stream whose rows are archived."""
        assert self.query is None
        return self.streams[0][0]

    def now(self, marks: Marks) -> int | None:
        """The last instant that the watermarks of the source have passed; None before there is one."""
        least = min((marks.of(key).watermark(delay) for key, delay in self.streams), default=INT64_MIN)
        return None if least == INT64_MIN else min(least - 1, INSTANT_MAX)


@dataclass
class ArchiveStart:
    """An archive at its first micro-batch: `base` is the number of its last update, and rows up to `at` are skipped.

    `at` is the instant of that update or, for a stream, what the watermark had passed before the micro-batch if later.
    """

    base: int
    at: int | None
    ended: bool = False


ARCHIVE_START = Record(ArchiveStart, "base at ended")


def read_archive_starts(folder: Folder) -> dict[str, ArchiveStart]:
    """All archives whose first micro-batch has come, by log name."""
    data = folder.read_json(_STATE) or {}
    check_format(data, ARCHIVES_FORMAT, "the record of a checkpoint's archives")
    starts = data["archives"] if FORMAT in data else data  # a log name has an @, so none is `format`
    return {name: ARCHIVE_START.of_dict(each) for name, each in starts.items()}


def write_archive_starts(folder: Folder, state: dict[str, ArchiveStart]) -> None:
    archives = {name: ARCHIVE_START.to_dict(start) for name, start in state.items()}
    folder.write_json(_STATE, {FORMAT: ARCHIVES_FORMAT, "archives": archives})


def manifest_of(target: ArchiveTarget) -> Manifest:
    from panewise.archive.archive import Archive

    with Archive.open(target.definition.path) as archive:
        return archive.manifest


def foreign(target: ArchiveTarget) -> ArchiveError:
    return ArchiveError(
        f"the archive in '{target.definition.path}' has updates that are not of this pipeline",
        hint="an archive has one writer: drop it and create it anew, with the same path or another",
    )


def with_lifetimes(table: pa.Table, timestamp: str, lifetime_us: int, after: int | None) -> pa.Table:
    """Rows with `_inserted` and `_expires`, without those up to `after` and those later than INSTANT_MAX."""
    times = np.asarray(table[timestamp].cast(TIME).cast(pa.int64()))
    own = times <= INSTANT_MAX
    if after is not None:
        own &= times > after
    table, times = table.filter(pa.array(own)), times[own]
    expires = np.minimum(times, INSTANT_NEVER - lifetime_us) + lifetime_us
    for name, values in (("_inserted", times), ("_expires", expires)):
        table = table.append_column(name, pa.array(values, pa.int64()).cast(TIME))
    return table
