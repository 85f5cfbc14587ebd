"""What all archives of a pipeline have in common: from where to where each goes, and what its rows look like."""

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
ARCHIVES_FORMAT = 2  # 1 was what is now under `archives` alone
HELD_MAX = 262_144  # rows that wait; more are written before their slot is over


@dataclass(frozen=True)
class ArchiveTarget:
    """An archive, from its first micro-batch to the one before `until`."""

    definition: ArchiveDefinition
    name: str  # in this checkpoint: by the version that created it
    query: str | None  # its name in the log; None: the rows of a stream are archived
    streams: tuple[tuple[str, int], ...]  # what it has its rows from in the end, by key, and their delays
    first: int
    until: int | None  # None: it goes on

    @property
    def stream(self) -> str:
        """The key of the stream whose rows are archived."""
        assert self.query is None
        return self.streams[0][0]

    def now(self, marks: Marks) -> int | None:
        """The last instant that is over for the source; None before there is one."""
        least = min((marks.of(key).watermark(delay) for key, delay in self.streams), default=INT64_MIN)
        return None if least == INT64_MIN else min(least - 1, INSTANT_MAX)


@dataclass
class Begun:
    """Of an archive when its first micro-batch came: the number of its last update, and up to where rows are not its.

    That is the instant of the last update, or, of a stream, what the watermark had passed before that micro-batch.
    """

    base: int
    at: int | None
    ended: bool = False


BEGUN = Record(Begun, "base at ended")


def read_begun(folder: Folder) -> dict[str, Begun]:
    """All archives whose first micro-batch has come, by their names in the checkpoint."""
    data = folder.read_json(_STATE) or {}
    check_format(data, ARCHIVES_FORMAT, "the record of a checkpoint's archives")
    begun = data["archives"] if FORMAT in data else data  # a name in a checkpoint has an @
    return {name: BEGUN.of_dict(each) for name, each in begun.items()}


def write_begun(folder: Folder, state: dict[str, Begun]) -> None:
    archives = {name: BEGUN.to_dict(begun) for name, begun in state.items()}
    folder.write_json(_STATE, {FORMAT: ARCHIVES_FORMAT, "archives": archives})


def manifest_of(target: ArchiveTarget) -> Manifest:
    from panewise.archive.archive import Archive

    with Archive.open(target.definition.path) as archive:
        return archive.manifest


def foreign(target: ArchiveTarget) -> ArchiveError:
    return ArchiveError(
        f"the archive in '{target.definition.path}' has updates that are not of this pipeline",
        hint="an archive has one writer: drop this one, and create it anew from where it is, or with another path",
    )


def with_lives(table: pa.Table, timestamp: str, lifetime_us: int, after: int | None) -> pa.Table:
    """Rows as an archive has them; without those up to an instant, and after the last one of all."""
    times = np.asarray(table[timestamp].cast(TIME).cast(pa.int64()))
    own = times <= INSTANT_MAX
    if after is not None:
        own &= times > after
    table, times = table.filter(pa.array(own)), times[own]
    expires = np.minimum(times, INSTANT_NEVER - lifetime_us) + lifetime_us
    for name, values in (("_inserted", times), ("_expires", expires)):
        table = table.append_column(name, pa.array(values, pa.int64()).cast(TIME))
    return table
