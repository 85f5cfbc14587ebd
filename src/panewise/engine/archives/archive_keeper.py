"""An archive while its engine runs: the rows of a query or stream, in files and, before they are written, in memory.

Rows come in order of time, when the watermark has passed them. They are held until their slot of time (`every`) is
over. Then all held rows of that slot, or of several slots if time passes quickly, become one update:

    times     ....|....|..r.r|.r..|r...r.        r: a row, |: a slot ends
                   in files   ^cut  held

A *cut* is an instant. The update of a cut writes all rows up to it that no earlier update has written, and is numbered
by the cut. So the last cut alone says which rows are in the files, whatever the batches were. An engine that goes back
to a snapshot and takes the same rows again writes none twice and omits none. A new engine passes over rows up to the
last cut that the files had when it opened them, and counts these.

The number of held rows is bounded: `HELD_MAX` of them also cause a cut. If an update fails, the archive is FAILED, and
up to `LOST_FROM` rows are held. Beyond that they are dropped, and the past is not known any more.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from panewise.arrays import INT64_MAX, INT64_MIN, Ints
from panewise.catalog import ArchiveDefinition
from panewise.credentials import masked
from panewise.engine.archives.archived_past import ArchivedPast
from panewise.engine.channels.channel import Channel
from panewise.engine.channels.readers import Reader
from panewise.errors import ArchiveError, DurabilityWarning
from panewise.operators.row_batch import Rows, concatenated
from panewise.plan.explanation import Explanation
from panewise.temporal import INSTANT_MAX, INSTANT_MIN, INSTANT_NEVER, format_instant

if TYPE_CHECKING:
    from panewise.archive.archive import Archive
    from panewise.archive.layout import Layout
    from panewise.archive.snapshot import Snapshot

HELD_MAX = 262_144
LOST_FROM = 4 * HELD_MAX
TIME = pa.timestamp("us", tz="UTC")


class Keeper(Reader):
    """A reader of the archived channel. Without `archive`, it keeps no rows.

    `covered_from`: all rows from this instant on were taken; INT64_MIN: all rows that ever came.
    `longest_us`: the longest lifetime of a row, if rows have lifetimes of their own.
    """

    longest_us: int | None = None

    def __init__(self, definition: ArchiveDefinition, channel: Channel, layout: Layout) -> None:
        self.definition = definition
        self.channel = channel
        self.layout = layout
        held_from = channel.held_from
        self.covered_from = INT64_MIN if held_from is None else held_from
        self.archive: Archive | None = None
        self.status = "RUNNING"
        self.reason = ""
        self.taken_rows = 0
        self.passed_over_rows = 0
        self.lost_rows = 0
        self._begun_at = INT64_MIN  # The cut of the files when this keeper was new.
        self._done = INT64_MIN  # The last cut: rows up to it are in the files.
        self._looked_at = INT64_MIN  # The last end of a slot at which it looked for expired rows.
        self._held: list[Rows] = []
        self.held_count = 0  # Number of rows that are not in the files.

    # -- the channel -----------------------------------------------------------------------------------------------

    def attach(self) -> None:
        """It takes rows from now on, and answers for the channel's past."""
        self.channel.attach(self)
        self.channel.past.append(self)

    def detach(self) -> None:
        """It takes no more rows."""
        self.channel.detach(self)
        self.channel.past.remove(self)

    # -- the files -------------------------------------------------------------------------------------------------

    def adopt(self, archive: Archive) -> None:
        """Sets the archive, and goes on from the last cut of its files."""
        self.archive = archive
        self.layout = archive.layout
        now = archive.manifest.now_us
        if now is not None and now > self._done:
            self._done = now
        elif self._done != INT64_MIN and (now is None or now < self._done):
            # Files are missing, and the rows in them.
            self._tell_missing(archive, now)
            self.covered_from = max(self.covered_from, self._done + 1)
            self._done = INT64_MIN if now is None else now
        if self.covered_from == INT64_MAX:  # Rows were lost; from now on none are.
            self.covered_from = self.channel.watermark
        self._drop_done()

    def _tell_missing(self, archive: Archive, now: int | None) -> None:
        left = "none" if now is None else f"those up to {format_instant(now)}"
        warnings.warn(
            f"the archive '{self.definition.name}' had rows up to {format_instant(self._done)}, and '{archive.where}' "
            f"has {left}: it goes on there without them; were the files removed, or is its path relative to another "
            "folder?",
            DurabilityWarning,
            stacklevel=3,
        )

    def begin(self, cut: int | None) -> None:
        """Called if the archive is new to the engine; `cut`: the last cut of its files. Rows may be missing among
        them."""
        if cut is not None:
            self.covered_from = max(self.covered_from, cut + 1)
            self._begun_at = cut

    def suspend(self, reason: str) -> None:
        """It takes no rows and writes nothing until it is resumed."""
        self.status, self.reason = "SUSPENDED", reason

    def fail(self, reason: str) -> None:
        self.status, self.reason = "FAILED", reason

    def explained(self) -> Explanation:
        said = {"key": ", ".join(self.definition.key), "layout": self.layout.name}
        return Explanation(f"ARCHIVE {self.definition.name}", said)

    @property
    def running(self) -> list[str]:
        """Empty: it belongs to no query."""
        return []

    def resume(self) -> None:
        """It goes on after a failure or suspension. If the cause is not removed, the next update fails again."""
        if self.archive is not None:
            try:
                self.archive.hold()
                self.adopt(self.archive)  # A failed update may still have been committed.
            except ArchiveError as problem:
                self.fail(problem.message)
                return
        self.status, self.reason = "RUNNING", ""
        if self.channel.watermark != INT64_MIN:
            self._write_due(self.channel.watermark)

    def close(self) -> None:
        """Writes all rows to the files, and lets others write these."""
        try:
            self.settle()
        finally:
            self.let_go()

    def let_go(self) -> None:
        """Lets others write the files."""
        if self.archive is not None:
            self.archive.close()

    def settle(self) -> None:
        """Writes all rows to the files, if possible; for a query, also its newest report."""
        watermark = self.channel.watermark
        if self.status != "RUNNING" or self.archive is None or watermark == INT64_MIN:
            return
        newest = self._newest()
        rows = concatenated([*self._held, newest]) if self._held else newest
        if len(rows):
            self._write(rows, min(watermark if len(newest) else watermark - 1, INSTANT_MAX))

    # -- rows --------------------------------------------------------------------------------------------------------

    def next_due(self) -> int:
        """Never: it has no results."""
        return INT64_MAX

    def take(self, rows: Rows, watermark: int) -> None:
        """Takes rows in order of time, all before the watermark."""
        if len(rows):
            self._hold(rows)
        if self.status == "RUNNING" and watermark != INT64_MIN:
            self._write_due(watermark)
        elif self.held_count > LOST_FROM:
            self.lost_rows += self.held_count
            self._held, self.held_count = [], 0
            self.covered_from = INT64_MAX

    def _hold(self, rows: Rows) -> None:
        self.taken_rows += len(rows)
        if self.archive is not None and rows.times[0] <= self._done:
            self.passed_over_rows += int(np.searchsorted(rows.times, self._begun_at, side="right"))
            rows = rows.slice(int(np.searchsorted(rows.times, self._done, side="right")), len(rows))
        if len(rows):
            self._held.append(rows)
            self.held_count += len(rows)

    def _write_due(self, watermark: int) -> None:
        if self.archive is None:  # No rows are kept.
            self._held, self.held_count = [], 0
            return
        every, origin = self.layout.every_us, self.layout.origin_us
        over = min(origin + (watermark - 1 - origin) // every * every, INSTANT_MAX)
        if self.held_count >= HELD_MAX:
            self._write(concatenated(self._held), min(watermark - 1, INSTANT_MAX))
        elif self._held and self._held[0].times[0] <= over:
            self._write(concatenated(self._held), over)
        elif over > self._looked_at:
            self._looked_at = over
            self._update(over, None, only_if=lambda archive: any(f.expires_min <= over for f in archive.manifest.files))

    def _write(self, rows: Rows, cut: int) -> None:
        """Writes all rows up to a cut in one update; later rows stay held."""
        stop = int(np.searchsorted(rows.times, cut, side="right"))
        if not self._update(cut, self.stored(rows.slice(0, stop))):
            return
        self._held = [rows.slice(stop, len(rows))] if stop < len(rows) else []
        self.held_count = len(rows) - stop

    def _update(self, cut: int, rows: pa.Table | None, only_if: Callable[[Archive], bool] | None = None) -> bool:
        assert self.archive is not None
        try:
            if only_if is None or only_if(self.archive):
                self.archive.update(cut, rows, number_of(cut))
                self._done = max(self._done, cut)
        except (ArchiveError, OSError, pa.ArrowException) as problem:
            self.fail(problem.message if isinstance(problem, ArchiveError) else str(problem))
            return False
        return True

    def _drop_done(self) -> None:
        if self._held:
            rows = concatenated(self._held)
            rows = rows.slice(int(np.searchsorted(rows.times, self._done, side="right")), len(rows))
            self._held, self.held_count = ([rows] if len(rows) else []), len(rows)

    def stored(self, rows: Rows) -> pa.Table:
        """Rows in the form of the archive's files; without reports after the last instant."""
        rows = rows.slice(0, int(np.searchsorted(rows.times, INSTANT_MAX, side="right")))
        expires = self.expirations(rows)
        own = pa.Table.from_batches([rows.batch]).select(list(self.definition.schema.names))
        times = {"_inserted": rows.times, "_expires": expires}
        for name, values in times.items():
            own = own.append_column(name, pa.array(values, pa.int64()).cast(TIME))
        return own

    def expirations(self, rows: Rows) -> Ints:
        """When each row expires; all rows have the same lifetime."""
        lifetime = self.layout.lifetime_us
        expires: Ints = np.minimum(rows.times, INSTANT_NEVER - lifetime) + lifetime
        return expires

    # -- what it has -------------------------------------------------------------------------------------------------

    @property
    def held_from(self) -> int:
        """All rows of the channel between this instant and the watermark are in the files or held."""
        gone = INT64_MIN if self._done == INT64_MIN else self._done - self.layout.lifetime_us + 1
        return max(self.covered_from, gone)

    def held(self, written_to: int | None) -> Rows:
        """The rows that are not in files with this last cut; for a query, also its newest report.

        A failed update may still have been committed: then its rows are both held and in the files.
        """
        rows = concatenated([*self._held, self._newest()])
        return rows if written_to is None else rows.take(rows.times > written_to)

    def _newest(self) -> Rows:
        """The report of a query at the watermark itself, which is whole but not released to readers yet."""
        if not self.channel.of_query:
            return self.channel.empty_rows()
        rows = self.channel.recent()
        return rows.take((rows.times > self._done) & (rows.times <= self.channel.watermark))

    @property
    def oldest(self) -> int | None:
        """Rows that expire up to this instant have expired; None before there is a watermark."""
        watermark = self.channel.watermark
        return None if watermark == INT64_MIN else watermark - 1

    def rows_between(self, start: int, end: int) -> Rows | None:
        """All rows from `start` to before `end`, in order of time; None if some may be missing."""
        if self.archive is None:
            return None
        return self.past(self.channel, self.archive.snapshot, self.held).rows_between(start, end)

    def past(
        self,
        channel: Channel,
        snapshot: Callable[[], AbstractContextManager[Snapshot]],
        held: Callable[[int | None], Rows],
        each: Callable[[pa.RecordBatch], None] | None = None,
    ) -> ArchivedPast:
        """The past that is known now from these files and rows. `channel`: its channel, or a pinned copy."""
        counts = self.taken_rows, self.held_count
        names = self.definition.schema.names
        return ArchivedPast(channel, names, self.held_from, self.covered_from, *counts, snapshot, held, each)

    def stats(self) -> dict[str, Any]:
        held_from = self.held_from
        files: dict[str, Any] = {}
        if self.archive is not None:
            try:
                manifest = self.archive.manifest
                files = {
                    "version": manifest.version,
                    "layout": manifest.layout.name,
                    "migrating": manifest.moving,
                    "rows": sum(file.rows for file in manifest.files),
                    "bytes": sum(file.bytes for file in manifest.files),
                    "files": len(manifest.files),
                }
            except ArchiveError as problem:
                files = {"problem": problem.message, "reason": self.reason or problem.message}
        return {
            "source": self.definition.source,
            "path": masked(self.definition.path),
            "status": self.status,
            "reason": self.reason,
            **files,
            "held_rows": self.held_count,
            "taken_rows": self.taken_rows,
            "passed_over_rows": self.passed_over_rows,
            "lost_rows": self.lost_rows,
            "written_to": None if self._done == INT64_MIN else format_instant(self._done),
            "held_from": None if held_from in (INT64_MIN, INT64_MAX) else format_instant(held_from),
        }

    def snapshot(self) -> dict[str, Any]:
        rows = concatenated(self._held) if self._held else self.channel.empty_rows()
        counts = {name: getattr(self, name) for name in _COUNTS}
        held = {"batch": rows.batch, "times": rows.times, "arrivals": rows.arrivals}
        return {
            **counts,
            "covered_from": self.covered_from,
            "begun_at": self._begun_at,
            "done": self._done,
            "held": held,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Called before `adopt`. A keeper that had failed tries again."""
        for name in _COUNTS:
            setattr(self, name, snapshot[name])
        self.covered_from, self._begun_at = snapshot["covered_from"], snapshot["begun_at"]
        self._done = snapshot["done"]
        kept = snapshot["held"]
        rows = Rows(kept["batch"], kept["times"], kept["arrivals"])
        self._held, self.held_count = ([rows] if len(rows) else []), len(rows)


_COUNTS = ("taken_rows", "passed_over_rows", "lost_rows")


def number_of(cut: int) -> int:
    """The number of the update of a cut: positive, and greater for a later cut."""
    return cut - INSTANT_MIN + 1
