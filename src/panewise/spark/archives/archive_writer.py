"""CREATE ARCHIVE on Spark: writes results and rows of streams to archives, in the foreachBatch, exactly once.

For rows of streams see `archive_of_stream.py`. Results of a query wait in the log, which survives and is the same when
a micro-batch is repeated. When a slot of time (`every`) is over, they all become one update of the archive, with whole
micro-batches:

    micro-batch      5    6    7    8    9        number of the update = base + (micro-batch - first) + 1
    rows in the log  .    .    .    .    .
    archive          |----update----|  wait        base: number before `first`, the first micro-batch that it gets

An update's number says which micro-batches the archive has. An update is atomic. So a micro-batch that is repeated
finds either its own number, and the update is done, or the number before, and makes the same update. No other state is
needed.

Time is the query's watermark: a row is inserted at its own time and lives for `lifetime`; rows that have expired by the
watermark are removed. Rows are written before the end of their slot if the pipeline stops, if the archive is dropped,
or if time stands still for so long that the log's retention would remove them. Rows up to the instant of an archive
that existed before are skipped, as in the engine.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from panewise.engine.books.engine_archives import layout_of, opened
from panewise.spark.archives.archive_of_stream import StreamArchive
from panewise.spark.archives.archive_staging import StagedRows
from panewise.spark.archives.archive_target import (
    HELD_MAX,
    ArchiveStart,
    ArchiveTarget,
    foreign,
    manifest_of,
    read_archive_starts,
    with_lifetimes,
    write_archive_starts,
)
from panewise.spark.environment.folder import Folder
from panewise.spark.program.known_programs import versions_of
from panewise.spark.program.reference import Reference
from panewise.spark.program.version import Version
from panewise.spark.results.batch_log import file_of, read_entries
from panewise.spark.tasks.batch_progress import Marks, read_marks
from panewise.spark.tasks.packing import RESULT

if TYPE_CHECKING:
    from panewise.archive.manifest import Manifest

SWEPT_EVERY = 100  # micro-batches between two sweeps of staged files


@dataclass
class _WaitingUpdate:
    """The results for an archive that are in the log and not yet in its files."""

    written: int  # last micro-batch that is in the files
    now: int | None  # instant of the last update
    batches: list[int] = field(default_factory=list)
    rows: int = 0


@dataclass
class ArchiveWriter:
    """Writes all archives of a pipeline. Pickled as its reference and retention: all other state is found again in the
    program, the log and the archives."""

    reference: Reference
    retention_seconds: float
    _waiting: dict[str, _WaitingUpdate] = field(default_factory=dict)  # archives of queries, by name
    _of_streams: dict[str, StreamArchive] = field(default_factory=dict)  # by name
    _staged: StagedRows | None = None
    _swept: bool = False
    _prepared: bool = False

    def __reduce__(self) -> tuple[type[ArchiveWriter], tuple[Reference, float]]:
        return ArchiveWriter, (self.reference, self.retention_seconds)

    @property
    def folder(self) -> Folder:
        return self.reference.folder

    @cached_property
    def targets(self) -> list[ArchiveTarget]:
        """All archives of all versions."""
        return archive_targets(versions_of(self.reference))

    def prepare(self) -> None:
        """Creates the archives that are defined now, with their layouts. Call it once, in the process that writes."""
        for target in self.targets:
            if target.until is None:
                opened(target.definition, layout_of(target.definition.options)).close()
        self._prepared = True

    def write(self, batch: int, marks: Marks) -> None:
        """Call when the log has the results of a micro-batch and its staged files are listed. May be repeated."""
        if not self._prepared:
            self.prepare()
        targets = [target for target in self.targets if target.first <= batch]
        state = read_archive_starts(self.folder) if targets else {}
        # Dropped archives first, because another one may use the same folder.
        for target in sorted(targets, key=lambda one: one.until is None):
            start = state.get(target.name)
            if start is None:
                start = state[target.name] = self._begin(target)
                write_archive_starts(self.folder, state)
            if start.ended:
                continue
            if target.until is None or batch < target.until:
                self._write(target, start, batch, marks, at_once=False)
            else:
                # With the time before this micro-batch, from which another archive in the same folder begins.
                last = target.until - 1
                self._write(target, start, last, read_marks(self.folder, last), at_once=True)
                start.ended = True
                write_archive_starts(self.folder, state)
        self._clear(batch, {target: state[target.name] for target in targets if target.query is None})

    def settle(self, marks: Marks) -> None:
        """Writes what waits before its slot is over. Call when no micro-batch is under way or will come soon."""
        state = read_archive_starts(self.folder)
        for target in self.targets:
            start = state.get(target.name)
            if start is None or target.until is not None:
                continue
            # The archive may have a micro-batch already that died before it was marked.
            if target.query is None or _written(target, start, manifest_of(target)) < marks.batch:
                self._write(target, start, marks.batch, marks, at_once=True)

    def _begin(self, target: ArchiveTarget) -> ArchiveStart:
        manifest = manifest_of(target)
        known = [manifest.now_us]
        if target.query is None:
            known.append(target.now(read_marks(self.folder, target.first - 1)))
        return ArchiveStart(manifest.update, max((instant for instant in known if instant is not None), default=None))

    def _write(self, target: ArchiveTarget, start: ArchiveStart, batch: int, marks: Marks, at_once: bool) -> None:
        if target.query is None:
            archive = self._of_stream(target, start, batch)
            del self._of_streams[target.name]  # if this fails, the next call reads the archive again
            archive.write(target.now(marks), at_once)
            self._of_streams[target.name] = archive
        else:
            self._write_results(target, start, batch, marks, at_once)

    # -- rows of streams -----------------------------------------------------------------------------------------------

    def _of_stream(self, target: ArchiveTarget, start: ArchiveStart, batch: int) -> StreamArchive:
        if self._staged is None:
            self._staged = StagedRows(self.folder)
        self._staged.begin_batch(batch)
        if target.name not in self._of_streams:
            self._of_streams[target.name] = StreamArchive(target, start, self._staged)
        return self._of_streams[target.name]

    def _clear(self, batch: int, targets: dict[ArchiveTarget, ArchiveStart]) -> None:
        """Removes staged rows that all archives of their stream have."""
        if not targets:
            return
        done: dict[str, int] = {}
        for target, start in targets.items():
            if not start.ended:
                archive = self._of_stream(target, start, batch)
                done[target.stream] = min(archive.done, done.get(target.stream, archive.done))
        staged = self._staged = self._staged or StagedRows(self.folder)
        staged.begin_batch(batch)
        staged.forget(done)
        if batch % SWEPT_EVERY == 0 or not self._swept:
            staged.sweep(batch)
            self._swept = True

    # -- results of queries --------------------------------------------------------------------------------------------

    def _write_results(
        self, target: ArchiveTarget, start: ArchiveStart, batch: int, marks: Marks, at_once: bool
    ) -> None:
        waiting = self._waiting_for(target, start, batch)
        layout, now = layout_of(target.definition.options), target.now(marks)
        if now is None:
            return  # no time has passed, so there is no result either
        moved = waiting.now is None or layout.slot(now) > layout.slot(waiting.now)
        if moved or (waiting.rows and (at_once or waiting.rows > HELD_MAX or self._in_danger(waiting))):
            # If this fails, the next call reads the archive again.
            del self._waiting[target.name]
            self._update(target, start, waiting, batch, now)
            self._waiting[target.name] = waiting

    def _update(
        self, target: ArchiveTarget, start: ArchiveStart, waiting: _WaitingUpdate, batch: int, now: int
    ) -> None:
        from panewise.archive.archive import Archive

        with Archive.open(target.definition.path) as archive:
            manifest = archive.manifest
            if _written(target, start, manifest) != waiting.written:
                raise foreign(target)
            now = now if manifest.now_us is None else max(now, manifest.now_us)
            if waiting.rows or any(file.expires_min <= now for file in manifest.files):
                rows = self._rows(target, start, waiting.batches, manifest.layout.lifetime_us)
                archive.update(now, rows, start.base + batch - target.first + 1)
                waiting.written, waiting.batches, waiting.rows = batch, [], 0
        waiting.now = now

    def _waiting_for(self, target: ArchiveTarget, start: ArchiveStart, batch: int) -> _WaitingUpdate:
        """What waits, this micro-batch included; read from the log and the archive if this process does not know it."""
        waiting = self._waiting.get(target.name)
        if waiting is None:
            manifest = manifest_of(target)
            written = _written(target, start, manifest)
            if not target.first - 1 <= written <= batch:
                raise foreign(target)
            waiting = _WaitingUpdate(written, manifest.now_us)
            self._waiting[target.name] = waiting
            numbers = [number for number in self.folder.numbers("results") if written < number <= batch]
        else:
            numbers = [batch] if batch > max([waiting.written, *waiting.batches]) else []
        for number in numbers:
            rows = sum(e.table.num_rows for e in read_entries(self.folder, number, RESULT, target.query) or [])
            if rows:
                waiting.batches.append(number)
                waiting.rows += rows
        return waiting

    def _in_danger(self, waiting: _WaitingUpdate) -> bool:
        """Whether the log may lose the oldest rows before they are written."""
        written_at = self.folder.written_at(file_of(waiting.batches[0])) if waiting.batches else None
        return written_at is not None and time.time() - written_at > self.retention_seconds / 2

    def _rows(
        self, target: ArchiveTarget, start: ArchiveStart, batches: list[int], lifetime_us: int
    ) -> pa.Table | None:
        """The results of micro-batches in the form of the archive; None if there are none."""
        tables = [e.table for b in batches for e in read_entries(self.folder, b, RESULT, target.query) or []]
        if not tables:
            return None
        return with_lifetimes(pa.concat_tables(tables), target.definition.timestamp, lifetime_us, start.at)


def _written(target: ArchiveTarget, start: ArchiveStart, manifest: Manifest) -> int:
    """The last micro-batch that is in an archive of a query; the one before `first` if none is."""
    return target.first - 1 + manifest.update - start.base


def archive_targets(versions: Sequence[Version]) -> list[ArchiveTarget]:
    """All archives of the versions, each with its first micro-batch and its end."""
    newest: dict[str, tuple[ArchiveTarget, int]] = {}
    for version in versions:
        for archive in version.archives.values():
            known = newest.get(archive.log_name)
            query = version.queries.get(archive.definition.source.lower())
            first = version.from_batch if known is None else known[0].first
            streams = tuple(sorted(_streams([archive.definition.source], version)))
            name = None if query is None else query.log_name
            target = ArchiveTarget(archive.definition, archive.log_name, name, streams, first, None)
            newest[archive.log_name] = (target, version.number)
    targets = []
    for target, last in newest.values():
        later = [version for version in versions if version.number > last]
        until = later[0].from_batch if later else None
        targets.append(replace(target, until=until))
    return targets


def _streams(names: Iterable[str], version: Version) -> set[tuple[str, int]]:
    """The keys of the streams below these streams and queries, with how late their rows may be."""
    keys = {stream.name.lower(): key for key, stream in version.streams.items()}
    found: set[tuple[str, int]] = set()
    for name in (each.lower() for each in names):
        if name in keys:
            found.add((keys[name], version.streams[keys[name]].delay_us))
        elif name in version.queries:
            found |= _streams(version.queries[name].definition.inputs, version)
    return found
