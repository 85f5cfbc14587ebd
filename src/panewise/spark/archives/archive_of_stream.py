"""An archive of a stream on Spark: staged rows that the watermark has passed become updates, exactly once.

    times of rows    ...|....|..r.r|.r..|r...r.r..      r: a row that is staged, |: a slot ends
                     in files  ^done    ^cut  ^watermark

As in the embedded engine (`archive_keeper.py`) an update brings all rows up to a *cut* that none before it has brought,
and its number is the cut. Rows that are yet to come lie behind the watermark of the last micro-batch, since others are
late, so all rows up to a cut below it are staged. The archive's own instant says up to where it has them: whatever was
killed, who goes on finds it there, and nothing else has to be remembered.

The driver holds the rows of one update, at most `HELD_MAX` of them and those of one instant more, and one staged file;
where a slot has more rows it is several updates, cut between them by reading the column of times alone.
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
from panewise.spark.archives.archive_target import HELD_MAX, ArchiveTarget, Begun, foreign, manifest_of, with_lives

if TYPE_CHECKING:
    from panewise.archive.archive import Archive

FILES_MAX = 1_000  # staged files that wait for a slot to be over; for more nobody waits


class StreamArchive:
    """What a driver knows of one archive, found again in its files. `done`: up to there they have what is theirs."""

    def __init__(self, target: ArchiveTarget, begun: Begun, staged: StagedRows) -> None:
        self._target = target
        self._staged = staged
        self._lifetime_us = layout_of(target.definition.options).lifetime_us
        manifest = manifest_of(target)
        known = [instant for instant in (manifest.now_us, begun.at) if instant is not None]
        self.done = max(known, default=INT64_MIN)
        self._number = manifest.update
        self._looked_at = INT64_MIN  # the last cut at which it was asked whether something has expired

    def write(self, now: int | None, at_once: bool) -> None:
        """The watermark has passed `now`. `at_once`: also rows of the slot that is not over."""
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
            # What is gone when the last of these updates is made is brought by none of them.
            self.done = max(self.done, cut - self._lifetime_us)
            while self.done < cut:
                until = self._part(files, cut)
                # Staged files that are done may go, so the archive has to know that they are, rows or not.
                if files or any(file.expires_min <= until for file in archive.manifest.files):
                    self._bring(archive, self._rows(files, until), until)
                self.done = until

    def _bring(self, archive: Archive, rows: pa.Table | None, cut: int) -> None:
        if archive.update(cut, rows, number_of(cut)).repeated:
            raise foreign(self._target)
        self._number = number_of(cut)

    def _part(self, files: list[StagedFile], cut: int) -> int:
        """The instant up to which there are as many rows as one update may have; the cut where there are fewer."""
        ahead = sorted((file for file in files if file.greatest > self.done), key=lambda file: file.least)
        if sum(file.rows for file in ahead) <= HELD_MAX:
            return cut
        first: Ints = np.empty(0, np.int64)  # the times of the first rows
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
        found = [with_lives(table, name, self._lifetime_us, None) for table in tables if table.num_rows]
        return pa.concat_tables(found) if found else None
