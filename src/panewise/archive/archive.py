"""An archive: rows with lifetimes on disk, found by key, insertion and expiration time, with atomic updates.

>>> import pyarrow as pa, tempfile
>>> from panewise.archive.layout import Layout
>>> folder = tempfile.TemporaryDirectory()
>>> schema = pa.schema([("host", pa.string()), ("bytes", pa.int64())])
>>> archive = Archive.create(folder.name, schema, key="host", layout=Layout(2, 2, every_us=2, lifetime_us=16))
>>> rows = pa.table({"host": ["a", "b"], "bytes": [3, 5], "_inserted": [1, 2], "_expires": [9, 4]})
>>> archive.update(2, rows).version
2
>>> archive.probe("a", columns=["bytes"]).to_pylist(), archive.scan(at=5).num_rows
([{'bytes': 3}], 1)
>>> archive.close()
>>> folder.cleanup()

Invariant: once `update` returns, the update is committed and durable; an update that raises changes nothing that
readers see. Readers need no lock and never wait. One process writes, and its threads take turns.

Source: Golab 2006, chapter 4. docs/archive.md is its page.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow.compute as pc

from panewise.archive.description import described
from panewise.archive.layout import Layout
from panewise.archive.manifest import DATA, MANIFESTS, Manifest, Manifests
from panewise.archive.place import check_new_place
from panewise.archive.retention import Retention
from panewise.archive.snapshot import Snapshot, pins_of
from panewise.archive.sought import EXPIRES, Instant, moment
from panewise.archive.storage import Storage, VanishedFile, explained, locked, making, storage_at
from panewise.archive.sub_index import SubIndexFiles
from panewise.archive.update_rows import checked_rows, checked_schema
from panewise.archive.verification import Verification, verified
from panewise.archive.writing import NextVersion, Written, by_sub_index, next_manifest
from panewise.archive.writing_right import WritingRight
from panewise.errors import ArchiveError
from panewise.state.forked import let_go_in_children
from panewise.temporal import INSTANT_MAX, INSTANT_MIN, format_instant, instant_us

GRACE_S = 60.0
_TRIES = 10
_NOT_THERE = "were its files removed? restore them, or start again with DROP and CREATE ARCHIVE (or `Archive.create`)"


@dataclass(frozen=True)
class ArchiveUpdate:
    """The effect of an update."""

    version: int
    number: int
    repeated: bool = False  # an update with this number existed already, and nothing was changed
    inserted: int = 0
    removed: int = 0
    touched: frozenset[int] = frozenset()  # sub-indices that changed
    bytes_written: int = 0


@dataclass
class Usage:
    """Numbers of operations since this archive was opened; the cost model chooses layouts by them."""

    since: float
    updates: int = 0
    probes: int = 0
    scans: int = 0


class Archive:
    """Made by `create` or `open`. Thread-safe, and a context manager."""

    def __init__(self, storage: Storage, grace_s: float, fixed: int | None = None) -> None:
        self._storage = storage
        self._manifests = Manifests(storage)
        self._pins = pins_of(storage.where)
        self._retention = Retention(self._manifests, self._pins, grace_s)
        self._fixed = fixed
        self._current = self._manifests.load(self._newest())
        self._files = SubIndexFiles(storage, self._current.schema, self._current.key)
        self._writing = threading.RLock()
        self._adopting = threading.Lock()
        self._right = WritingRight(storage)
        let_go_in_children(self)
        self.usage = Usage(time.time())

    @property
    def where(self) -> str:
        """The archive's folder, for messages."""
        return self._storage.where

    @classmethod
    def create(
        cls,
        where: str | Path,
        schema: Any,
        *,
        key: str | Sequence[str],
        layout: Layout,
        filesystem: Any = None,
        grace_s: float = GRACE_S,
    ) -> Archive:
        """Makes an empty archive in a folder that is empty or does not exist, outside all other archives."""
        storage = storage_at(where, filesystem)
        own_schema, own_key = checked_schema(schema, key if isinstance(key, str) else tuple(key))
        manifests = Manifests(storage)
        _check_none(manifests)
        check_new_place(storage)
        with making(storage.where):
            storage.make_folder(MANIFESTS)
            storage.make_folder(DATA)
        with locked(storage):
            _check_none(manifests)  # Another process may have made one before the lock was taken.
            manifests.publish(Manifest(1, 0, None, time.time(), own_schema, own_key, layout, 1, ()))
        return cls(storage, grace_s)

    @classmethod
    def open(
        cls, where: str | Path, *, filesystem: Any = None, grace_s: float = GRACE_S, version: int | None = None
    ) -> Archive:
        """Opens an existing archive. With `version`: that version of it, read-only."""
        return cls(storage_at(where, filesystem), grace_s, version)

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Releases the right to write."""
        if not self._right.is_of_parent:
            with self._writing:
                self._right.give_back()

    def forked(self) -> None:
        """Called in a forked child: releases the child's copy of the lock. Reading goes on as before."""
        self._right.give_back()
        # Threads that do not exist in the child may hold the old lock.
        self._adopting = threading.Lock()
        self._pins.forked()

    # -- what it is --------------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The newest committed version, also if another process committed it."""
        return self._newest()

    @property
    def manifest(self) -> Manifest:
        """The manifest of the newest version."""
        with self.snapshot() as snapshot:
            return snapshot.manifest

    @property
    def layout(self) -> Layout:
        return self.manifest.layout

    def describe(self) -> dict[str, Any]:
        """Version, layout, rows and bytes, also by sub-index."""
        return described(self.manifest, self._storage.where, self._manifests.versions())

    def path(self, name: str) -> str:
        """The path of a file of a manifest in its file system."""
        return self._storage.path(name)

    def verify(self) -> Verification:
        """Reads all files of the newest version. Returns the problems found, and does not raise them."""
        with self.snapshot() as snapshot:
            return verified(snapshot.manifest, self._files, lambda: self.manifest)

    # -- reading -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """The newest version. Its files are kept until the snapshot is closed."""
        for _ in range(_TRIES):
            version = self._pins.pin(self._newest)
            try:
                manifest = self._current
                if manifest.version != version:
                    manifest = self._manifests.load(version)
                    self._adopt(manifest)
            except VanishedFile:
                self._pins.release(version)
                continue
            except BaseException:
                self._pins.release(version)
                raise
            return Snapshot(manifest, self._files, partial(self._pins.release, version))
        raise ArchiveError(
            f"versions of the archive '{self._storage.where}' are removed faster than they can be opened",
            hint="give its writer a longer grace period",
        )

    def probe(self, *keys: Any, **options: Any) -> Any:
        """Rows with one of the keys; see `Snapshot.probe` and `Snapshot.scan` for the options."""
        self.usage.probes += 1
        return self._read(lambda snapshot: snapshot.probe(*keys, **options))

    def range(self, low: Any = None, high: Any = None, **options: Any) -> Any:
        """Rows with keys between two values; see `Snapshot.range`."""
        self.usage.probes += 1
        return self._read(lambda snapshot: snapshot.range(low, high, **options))

    def scan(self, **options: Any) -> Any:
        """All rows, or those that the options leave; see `Snapshot.scan`."""
        self.usage.scans += 1
        return self._read(lambda snapshot: snapshot.scan(**options))

    def _read(self, ask: Callable[[Snapshot], Any]) -> Any:
        seen = 0
        while True:
            with self.snapshot() as snapshot:
                try:
                    return ask(snapshot)
                except VanishedFile:
                    # A missing file is an error unless there is a newer version.
                    if snapshot.version == seen:
                        raise
                    seen = snapshot.version

    def _newest(self) -> int:
        versions = self._manifests.versions()
        if not versions:
            raise ArchiveError(f"there is no archive in '{self._storage.where}'", hint=_NOT_THERE)
        if self._fixed is None:
            return versions[-1]
        if self._fixed not in versions:
            raise ArchiveError(
                f"version {self._fixed} of the archive '{self._storage.where}' is not kept",
                hint=f"kept versions: {', '.join(map(str, versions[-8:]))}",
            )
        return self._fixed

    def _adopt(self, manifest: Manifest) -> None:
        # A reader may adopt its version after the writer has adopted the next one.
        with self._adopting:
            if manifest.version > self._current.version:
                self._current = manifest
                self._files.forget_all_but(manifest.files)

    # -- writing -----------------------------------------------------------------------------------------------------

    def update(self, now: Instant, rows: Any = None, number: int | None = None) -> ArchiveUpdate:
        """Inserts rows and drops those that have expired at `now`.

        `rows` is a table or batch with the archive's columns, `_inserted` and `_expires` (timestamps, or microseconds),
        or None. An update whose number is not above the last one changes nothing, so that an update can be repeated
        after a failure. Without a number it gets the next one. Numbers begin with 1.
        """
        instant = _checked(now, number)
        stored = self._files.schema
        table = stored.empty_table() if rows is None else checked_rows(rows, stored)
        self.usage.updates += 1
        with self._committing() as base:
            number = base.update + 1 if number is None else number
            if number <= base.update:
                return ArchiveUpdate(base.version, number, repeated=True)
            if base.now_us is not None and instant < base.now_us:
                raise ArchiveError(
                    f"an update at {format_instant(instant)} is before the last one, at {format_instant(base.now_us)}",
                    hint="updates must be in the order of time",
                )
            alive = table.filter(pc.field(EXPIRES) > moment(instant))
            written = NextVersion(self._files, base).updated(instant, alive)
            self._commit(base, written, update=number, now_us=instant)
            removed = sum(f.rows for f in base.files) + alive.num_rows - sum(f.rows for f in written.files)
            return ArchiveUpdate(
                base.version + 1, number, False, alive.num_rows, removed, frozenset(written.touched), written.bytes
            )

    def compact(self) -> int:
        """Merges each sub-index into one file, and removes old versions past their grace. Returns the version."""
        return self._settle(merge_all=True)

    def migrate(self, layout: Layout) -> int:
        """Changes the layout, one sub-index after the other; other threads can read and update in between.

        If it is interrupted, each sub-index is in the old or in the new layout. Another call, or `compact`, completes
        it.
        """
        with self._committing() as base:
            if layout != base.layout:
                kept = Written(files=list(base.files))
                self._commit(base, kept, layout=layout, generation=base.generation + 1)
        return self._settle(merge_all=layout.style == "rebuild")

    def _settle(self, merge_all: bool) -> int:
        # At most one round over the sub-indices of both layouts, however many runs concurrent updates add.
        manifest = self.manifest
        for _ in range(len(by_sub_index(manifest.files)) + manifest.layout.parts):
            if not self._settle_one(merge_all):
                break
        with self._committing() as base:
            self._retention.remove_obsolete()
            return base.version

    def _settle_one(self, merge_all: bool) -> bool:
        """Moves one sub-index of an earlier layout, or merges one with several files. False if there is none."""
        with self._committing() as base:
            groups = by_sub_index(base.files)
            earlier = [group for group in groups if group[0] != base.generation]
            several = [number for (_, number), files in groups.items() if len(files) > 1]
            following = NextVersion(self._files, base)
            if earlier:
                self._commit(base, following.moved(*min(earlier)))
            elif several and merge_all:
                self._commit(base, following.merged(min(several)))
            else:
                return False
            return True

    def hold(self) -> None:
        """Takes the right to write now instead of with the first update. ArchiveError if another writer has it.

        `close` releases it, and so do a failed update and the garbage collection of this object.
        """
        self._right.check_process()
        with self._writing:
            self._begin_writing()

    @contextlib.contextmanager
    def _committing(self) -> Iterator[Manifest]:
        """Holds the right to write; gives the version to start from."""
        self._right.check_process()
        with self._writing:
            self._begin_writing()
            try:
                yield self._current
            except BaseException as problem:
                # The update may be committed or not; the next one finds out. Leftover files are removed at once,
                # because the disk may be full.
                if isinstance(problem, ArchiveError):
                    self._retention.take_stock()
                self.close()
                raise

    def _begin_writing(self) -> None:
        if self._fixed is not None:
            raise ArchiveError(f"version {self._fixed} was opened read-only", hint="open without a version")
        if self._right.lost:
            self.close()
            raise self._replaced()
        if self._right.held:
            return
        self._right.take()
        try:
            with explained("sync the versions", self._storage.where):
                # The newest version may have been published but not synced.
                self._storage.settle(MANIFESTS)
            newest = self._manifests.load(self._newest())
            before = self._current
            if newest.version < before.version or (newest.schema, newest.key) != (before.schema, before.key):
                raise self._replaced()
            self._adopt(newest)
            self._retention.take_stock()
        except BaseException:
            self._right.give_back()
            raise

    def _replaced(self) -> ArchiveError:
        return ArchiveError(
            f"the files of the archive '{self._storage.where}' were removed or replaced", hint=_NOT_THERE
        )

    def _commit(self, base: Manifest, written: Written, **changes: Any) -> None:
        following = next_manifest(base, written.files, time.time(), **changes)
        self._manifests.publish(following)
        self._adopt(following)
        self._retention.commit(following)


def _check_none(manifests: Manifests) -> None:
    if manifests.versions():
        raise ArchiveError(f"'{manifests.storage.where}' already has an archive", hint="`Archive.open` opens it")


def _checked(now: Instant, number: int | None) -> int:
    """The instant of an update in microseconds; ArchiveError if it or the number is invalid."""
    instant = instant_us(now)
    if not INSTANT_MIN <= instant <= INSTANT_MAX:
        raise ArchiveError(f"an update at {instant} us is outside the years 1 to 9999")
    if number is not None and (not isinstance(number, int) or number < 1):
        # An archive without updates has the number 0, so an update 0 would count as repeated.
        raise ArchiveError(f"{number!r} is not a valid number of an update", hint="use whole numbers from 1 on")
    return instant
