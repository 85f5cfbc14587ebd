"""An archive of a stream on Spark: staged rows become updates, exactly once, when the watermark has passed them.

    times of rows    ...|....|..r.r|.r..|r...r.r..      r: a row that is staged, |: a slot ends
                     in files  ^done    ^cut  ^watermark

As in the embedded engine (`archive_keeper.py`), an update has all rows up to a *cut* that are not in the archive yet,
and the cut gives its number. All good rows that are still to come are after the watermark, so all rows up to a cut
below it are staged. The archive's own instant says up to where it has the rows. So after any crash the next driver
finds there where to go on.

The driver holds one staged file and the rows of one update: at most `HELD_MAX`, and those of one more instant. A slot
with more rows becomes several updates. Their cuts are found by reading only the column of times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from panewise.archive.sought import TIME
from panewise.arrays import INT64_MIN, Ints
from panewise.engine.archives.archive_keeper import number_of
from panewise.engine.books.engine_archives import layout_of
from panewise.spark.archives.archive_staging import StagedFile, StagedRows
from panewise.spark.archives.archive_target import (
    HELD_MAX,
    ArchiveStart,
    ArchiveTarget,
    foreign,
    manifest_of,
    with_lifetimes,
)

if TYPE_CHECKING:
    from panewise.archive.archive import Archive

FILES_MAX = 1_000  # staged files that wait for the end of their slot; more are archived at once


class StreamArchive:
    """Writes one archive. Its state is found again in the archive's files, which have all rows up to `done`."""

    def __init__(self, target: ArchiveTarget, start: ArchiveStart, staged: StagedRows) -> None:
        self._target = target
        self._staged = staged
        self._lifetime_us = layout_of(target.definition.options).lifetime_us
        manifest = manifest_of(target)
        known = [instant for instant in (manifest.now_us, start.at) if instant is not None]
        self.done = max(known, default=INT64_MIN)
        self._number = manifest.update
        self._looked_at = INT64_MIN  # the last cut at which expired files were looked for

    def write(self, now: int | None, at_once: bool) -> None:
        """Call when the watermark has passed `now`. With `at_once`, also writes rows of the slot that is not over."""
        if now is None or now <= self.done:
            return
        layout = layout_of(self._target.definition.options)
        files = [file for file in self._staged.of(self._target.stream, self.done) if file.least <= now]
        over = layout.origin_us + (now - layout.origin_us) // layout.every_us * layout.every_us
        cut = now if at_once or self._too_many(files, now) else over
        due = [file for file in files if file.least <= cut]
        if cut > self.done and (due or cut > self._looked_at):
            self._update(due, cut)
            self._looked_at = cut

    def _too_many(self, files: list[StagedFile], now: int) -> bool:
        passed = sum(file.greatest <= now for file in files)
        return passed >= FILES_MAX or sum(file.rows_between(self.done, now) for file in files) >= HELD_MAX

    def _update(self, files: list[StagedFile], cut: int) -> None:
        from panewise.archive.archive import Archive

        with Archive.open(self._target.definition.path) as archive:
            if archive.manifest.update != self._number:
                raise foreign(self._target)
            # Rows that expire before the last of these updates are skipped.
            self.done = max(self.done, cut - self._lifetime_us)
            while self.done < cut:
                until = self._part(files, cut)
                # An update also without rows: staged files are removed only up to the archive's instant.
                if files or any(file.expires_min <= until for file in archive.manifest.files):
                    self._bring(archive, self._rows(files, until), until)
                self.done = until

    def _bring(self, archive: Archive, rows: pa.Table | None, cut: int) -> None:
        if archive.update(cut, rows, number_of(cut)).repeated:
            raise foreign(self._target)
        self._number = number_of(cut)

    def _part(self, files: list[StagedFile], cut: int) -> int:
        """The instant up to which there are as many rows as one update may have; the cut if there are fewer."""
        ahead = sorted((file for file in files if file.greatest > self.done), key=lambda file: file.least)
        if sum(file.rows for file in ahead) <= HELD_MAX:
            return cut
        first: Ints = np.empty(0, np.int64)  # times of the first rows
        for file in ahead:
            if len(first) == HELD_MAX and file.least > first[-1]:
                break
            first = np.sort(np.concatenate([first, self._times(file, cut)]))[:HELD_MAX]
        return int(first[-1]) if len(first) == HELD_MAX else cut

    def _times(self, file: StagedFile, cut: int) -> Ints:
        name = self._target.definition.timestamp
        column = self._staged.read(file, name, self.done, cut, [name])[name]
        times: Ints = np.asarray(column.cast(TIME).cast(pa.int64()))
        return times

    def _rows(self, files: list[StagedFile], until: int) -> pa.Table | None:
        name = self._target.definition.timestamp
        ahead = [file for file in files if file.greatest > self.done and file.least <= until]
        tables = [self._staged.read(file, name, self.done, until, None) for file in ahead]
        found = [with_lifetimes(table, name, self._lifetime_us, None) for table in tables if table.num_rows]
        return pa.concat_tables(found) if found else None
