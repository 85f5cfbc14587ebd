"""CREATE ARCHIVE on Spark: the results of a query go from the result log to the archive, exactly once.

The log is the buffer. It has the results of every micro-batch, it survives, and it says the same when a micro-batch is
done again. So rows wait in it until a slot of time (`every`) is over, and then all of them, of whole micro-batches, are
one update of the archive:

    micro-batch      5    6    7    8    9        number of the update = base + (micro-batch - first) + 1
    rows in the log  .    .    .    .    .
    archive          |----update----|  wait        base, first: what the archive had, and the first micro-batch it gets

An update's number says which micro-batches the archive holds. A micro-batch that comes again finds its number there, or
the number before and makes the same update; nothing else has to be remembered, whoever goes on. The archive changes all
at once or not at all, so there is no third case.

Time is the query's watermark: a row is inserted at its own time, lives for `lifetime`, and what has expired by the
watermark goes. Rows are written before their slot is over where the pipeline stops, where the archive is dropped, and
where time stands still for so long that the log's retention would take them. Rows up to the instant of an archive that
was there before are passed over, as in the engine.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from panewise.catalog import ArchiveDefinition
from panewise.errors import ArchiveError
from panewise.runtime.archives import layout_of, opened
from panewise.runtime.spark.folder import Folder
from panewise.runtime.spark.marks import INT64_MIN, Marks, read_marks
from panewise.runtime.spark.packing import RESULT
from panewise.runtime.spark.result_log import file_of, read_entries
from panewise.temporal import INSTANT_MAX

if TYPE_CHECKING:
    from panewise.archive.manifest import Manifest
    from panewise.runtime.spark.program import Program, Version

STATE = "archives.json"
HELD_MAX = 262_144  # rows that wait; more are written before their slot is over
_TIME = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class ArchiveTarget:
    """An archive, from its first micro-batch to the one before `until`."""

    definition: ArchiveDefinition
    name: str  # in this checkpoint: by the version that created it
    query: str  # its name in the log
    streams: tuple[tuple[str, int], ...]  # what the query reads in the end, by key, and their delays
    first: int
    until: int | None  # None: it goes on

    def now(self, marks: Marks) -> int | None:
        """The last instant that is over for the query; None before there is one."""
        least = min((marks.of(key).watermark(delay) for key, delay in self.streams), default=INT64_MIN)
        return None if least == INT64_MIN else min(least - 1, INSTANT_MAX)


@dataclass
class _Begun:
    """Of an archive when its first micro-batch came: the number and the instant of its last update."""

    base: int
    at: int | None
    ended: bool = False


@dataclass
class _Waiting:
    """What of an archive is in the log and not yet in its files."""

    written: int  # the last micro-batch that is in the files
    now: int | None  # the instant of the last update
    batches: list[int] = field(default_factory=list)
    rows: int = 0


@dataclass
class ArchiveWriter:
    """Picklable; what it keeps in memory is found again in the log and the archives."""

    folder: Folder
    targets: list[ArchiveTarget]
    retention_seconds: float
    _waiting: dict[str, _Waiting] = field(default_factory=dict)
    _prepared: bool = False

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_waiting": {}, "_prepared": False}

    def prepare(self) -> None:
        """Makes the archives that there are to be, with the layouts they are to have; once, where they are written."""
        for target in self.targets:
            if target.until is None:
                opened(target.definition, layout_of(target.definition.options)).close()
        self._prepared = True

    def write(self, batch: int, marks: Marks) -> None:
        """The results of a micro-batch are in the log. May come again."""
        if not self._prepared:
            self.prepare()
        targets = [target for target in self.targets if target.first <= batch]
        state = self._begun() if targets else {}
        # Those that have ended come first: another one may go on in the same folder.
        for target in sorted(targets, key=lambda one: one.until is None):
            begun = state.get(target.name)
            if begun is None:
                begun = state[target.name] = _begin(target)
                self._keep(state)
            if begun.ended:
                continue
            if target.until is None or batch < target.until:
                self._write(target, begun, batch, marks, at_once=False)
            else:
                # Time stands where it stood: another one in the same folder begins with this micro-batch.
                last = target.until - 1
                self._write(target, begun, last, read_marks(self.folder, last), at_once=True)
                begun.ended = True
                self._keep(state)

    def settle(self, marks: Marks) -> None:
        """None comes soon, and none is under way: what waits in the log is written before its slot is over."""
        state = self._begun()
        for target in self.targets:
            begun = state.get(target.name)
            if begun is None or target.until is not None:
                continue
            # A micro-batch that died before it was marked may be there already.
            if _written(target, begun, _manifest(target)) < marks.batch:
                self._write(target, begun, marks.batch, marks, at_once=True)

    def _begun(self) -> dict[str, _Begun]:
        return {name: _Begun(**begun) for name, begun in (self.folder.read_json(STATE) or {}).items()}

    def _keep(self, state: dict[str, _Begun]) -> None:
        self.folder.write_json(STATE, {name: asdict(begun) for name, begun in state.items()})

    def _write(self, target: ArchiveTarget, begun: _Begun, batch: int, marks: Marks, at_once: bool) -> None:
        waiting = self._waiting_for(target, begun, batch)
        layout, now = layout_of(target.definition.options), target.now(marks)
        if now is None:
            return  # no time has passed, so there is no result either
        moved = waiting.now is None or layout.slot(now) > layout.slot(waiting.now)
        if moved or (waiting.rows and (at_once or waiting.rows > HELD_MAX or self._in_danger(waiting))):
            # Where this fails, the next one looks at what is there.
            del self._waiting[target.name]
            self._update(target, begun, waiting, batch, now)
            self._waiting[target.name] = waiting

    def _update(self, target: ArchiveTarget, begun: _Begun, waiting: _Waiting, batch: int, now: int) -> None:
        from panewise.archive.archive import Archive

        with Archive.open(target.definition.path) as archive:
            manifest = archive.manifest
            if _written(target, begun, manifest) != waiting.written:
                raise _foreign(target)
            now = now if manifest.now_us is None else max(now, manifest.now_us)
            if waiting.rows or any(file.expires_min <= now for file in manifest.files):
                rows = self._rows(target, begun, waiting.batches, manifest.layout.lifetime_us)
                archive.update(now, rows, begun.base + batch - target.first + 1)
                waiting.written, waiting.batches, waiting.rows = batch, [], 0
        waiting.now = now

    def _waiting_for(self, target: ArchiveTarget, begun: _Begun, batch: int) -> _Waiting:
        """With this micro-batch. Read from the log and the archive where this process has not seen all of it."""
        waiting = self._waiting.get(target.name)
        if waiting is None:
            manifest = _manifest(target)
            written = _written(target, begun, manifest)
            if not target.first - 1 <= written <= batch:
                raise _foreign(target)
            waiting = _Waiting(written, manifest.now_us)
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

    def _in_danger(self, waiting: _Waiting) -> bool:
        """Whether the log may lose the oldest rows before they are written."""
        written_at = self.folder.written_at(file_of(waiting.batches[0])) if waiting.batches else None
        return written_at is not None and time.time() - written_at > self.retention_seconds / 2

    def _rows(self, target: ArchiveTarget, begun: _Begun, batches: list[int], lifetime_us: int) -> pa.Table | None:
        """The rows of micro-batches as the archive has them."""
        tables = [e.table for b in batches for e in read_entries(self.folder, b, RESULT, target.query) or []]
        if not tables:
            return None
        table = pa.concat_tables(tables)
        times = np.asarray(table[target.definition.timestamp].cast(_TIME).cast(pa.int64()))
        own = times < INSTANT_MAX
        if begun.at is not None:
            own &= times > begun.at
        table, times = table.filter(pa.array(own)), times[own]
        expires = np.minimum(times, INSTANT_MAX - lifetime_us) + lifetime_us
        for name, values in (("_inserted", times), ("_expires", expires)):
            table = table.append_column(name, pa.array(values, pa.int64()).cast(_TIME))
        return table


def _manifest(target: ArchiveTarget) -> Manifest:
    from panewise.archive.archive import Archive

    with Archive.open(target.definition.path) as archive:
        return archive.manifest


def _begin(target: ArchiveTarget) -> _Begun:
    manifest = _manifest(target)
    return _Begun(manifest.update, manifest.now_us)


def _written(target: ArchiveTarget, begun: _Begun, manifest: Manifest) -> int:
    """The last micro-batch that is in an archive; the one before the first where none is."""
    return target.first - 1 + manifest.update - begun.base


def _foreign(target: ArchiveTarget) -> ArchiveError:
    return ArchiveError(
        f"the archive in '{target.definition.path}' has updates that are not of this pipeline",
        hint="an archive has one writer: drop this one, and create it anew from where it is, or with another path",
    )


def archive_writer(folder: Folder, program: Program, retention_seconds: float) -> ArchiveWriter:
    """For all archives that the program has had."""
    newest: dict[str, tuple[ArchiveTarget, int]] = {}
    for version in program.versions:
        for archive in version.archives.values():
            known = newest.get(archive.log_name)
            query = version.queries[archive.definition.source.lower()]
            first = version.from_batch if known is None else known[0].first
            streams = tuple(sorted(_streams(query.name, version)))
            target = ArchiveTarget(archive.definition, archive.log_name, query.log_name, streams, first, None)
            newest[archive.log_name] = (target, version.number)
    targets = []
    for target, last in newest.values():
        later = [version for version in program.versions if version.number > last]
        until = later[0].from_batch if later else None
        targets.append(replace(target, until=until))
    return ArchiveWriter(folder, targets, retention_seconds)


def _streams(query: str, version: Version) -> set[tuple[str, int]]:
    """The streams below a query, and how late their rows may be."""
    keys = {stream.name.lower(): key for key, stream in version.streams.items()}
    found: set[tuple[str, int]] = set()
    for name in (each.lower() for each in version.queries[query].definition.inputs):
        if name in keys:
            found.add((keys[name], version.streams[keys[name]].delay_us))
        elif name in version.queries:
            found |= _streams(name, version)
    return found
