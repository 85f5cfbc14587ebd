"""One version of an archive: all reads of a snapshot see the same committed version.

A snapshot *pins* its version: writers of this process do not remove its files until the snapshot is closed. Writers in
other processes do not know of it, and remove superseded versions after the grace period. Then a read may find that a
file is gone, and raises `VanishedFile`. The reads of `Archive` itself then use the newest version instead.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import pyarrow as pa

from panewise.archive.manifest import FileEntry, Manifest
from panewise.archive.sought import (
    ANY_KEY,
    EXPIRES,
    INSERTED,
    Instant,
    KeyColumns,
    KeySought,
    Span,
    all_of,
    visible_at,
    within,
)
from panewise.archive.sub_index import SubIndexFiles
from panewise.errors import ArchiveError, NotHeldError, did_you_mean
from panewise.temporal import format_instant, instant_us


class Pins:
    """The versions of an archive that snapshots of this process hold."""

    def __init__(self) -> None:
        self.turn = threading.RLock()
        self._held: Counter[int] = Counter()

    def forked(self) -> None:
        """Called in a forked child: replaces the lock, which a thread that does not exist here may hold."""
        self.turn = threading.RLock()

    def pin(self, newest: Callable[[], int]) -> int:
        """Pins the version that `newest` returns. No version is removed in between."""
        with self.turn:
            version = newest()
            self._held[version] += 1
            return version

    def release(self, version: int) -> None:
        with self.turn:
            self._held[version] -= 1

    def holds(self, version: int) -> bool:
        return self._held[version] > 0


_PINS: dict[str, Pins] = {}
_PINS_TURN = threading.Lock()


def pins_of(where: str) -> Pins:
    """The pins of an archive, shared by all objects that have it open in this process."""
    with _PINS_TURN:
        return _PINS.setdefault(where, Pins())


@dataclass(frozen=True)
class Touched:
    """What a read touches: sub-indices, files, and row groups that their minima and maxima do not rule out."""

    sub_indices: int
    files: int
    row_groups: int


class Snapshot:
    """One version, opened by `Archive.snapshot()`; a context manager."""

    def __init__(self, manifest: Manifest, files: SubIndexFiles, release: Callable[[], None]) -> None:
        self.manifest = manifest
        self._files = files
        self._release: Callable[[], None] | None = release
        self._key = KeyColumns(manifest.schema, manifest.key)

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        release, self._release = self._release, None
        if release is not None:
            release()

    @property
    def version(self) -> int:
        return self.manifest.version

    @property
    def files(self) -> tuple[FileEntry, ...]:
        """All Parquet files of this version, which other tools can read."""
        return self.manifest.files

    # -- answers -----------------------------------------------------------------------------------------------------

    def probe(self, *keys: Any, **options: Any) -> Any:
        """Rows with one of the keys; options as for `scan`."""
        listed = list(keys[0]) if len(keys) == 1 and isinstance(keys[0], list | set | frozenset) else list(keys)
        return self._answer(self._key.equal_to(listed), **options)

    def range(self, low: Any = None, high: Any = None, **options: Any) -> Any:
        """Rows whose first key column is between two values, both included; None leaves an end open."""
        return self._answer(self._key.between(low, high), **options)

    def scan(self, **options: Any) -> Any:
        """An Arrow table of the rows, in no particular order. Options:

        - `at`: an instant; only rows with `inserted <= at < expires`. Not before the last update, since rows that
          expired before it are gone
        - `inserted`, `expires`: only rows within a pair of instants, both included, None for an open end
        - `where`: an Arrow expression over the columns
        - `columns`: names of columns; all unless given
        - `each`: called with every batch before the next one is read; if it raises, the read ends
        """
        return self._answer(ANY_KEY, **options)

    def batches(self, condition: Any = None, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """The rows in batches, file by file, so that at most one file is in memory."""
        for file in self.manifest.files:
            yield from self._files.read([file], all_of([condition, self._unexpired([file])]), columns).to_batches()

    def sought(self, keys: Sequence[Any] | None = None, between: tuple[Any, Any] = (None, None)) -> KeySought:
        """The condition on the key of `probe(keys)` or `range(between)`; without either no condition, as in `scan`."""
        return self._key.between(*between) if keys is None else self._key.equal_to(keys)

    def touched(self, sought: KeySought = ANY_KEY, **options: Any) -> Touched:
        """How much of the archive a read touches; options as for `scan`. Reads footers, but no rows."""
        files, condition = self._planned(sought.condition, **options)
        groups = self._files.row_groups(files, condition, sought.spans)
        met = [file for file, count in zip(files, groups, strict=True) if count]
        return Touched(len({(file.generation, file.sub_index) for file in met}), len(met), sum(groups))

    def _answer(
        self,
        sought: KeySought,
        *,
        columns: Sequence[str] | None = None,
        each: Callable[[pa.RecordBatch], None] | None = None,
        **options: Any,
    ) -> Any:
        files, condition = self._planned(sought.condition, columns=columns, **options)
        return self._files.read(files, condition, columns, sought.spans, each)

    def _planned(
        self,
        condition: Any,
        *,
        at: Instant | None = None,
        inserted: Span = (None, None),
        expires: Span = (None, None),
        where: Any = None,
        columns: Sequence[str] | None = None,
    ) -> tuple[list[FileEntry], Any]:
        """The files that may have matching rows, and the condition on their rows."""
        self._check(at, columns, where)
        files = [file for file in self.manifest.files if may_hold(file, at, inserted, expires)]
        conditions = [
            condition,
            self._unexpired(files),
            None if at is None else visible_at(at),
            within(INSERTED, inserted),
            within(EXPIRES, expires),
            where,
        ]
        return files, all_of(conditions)

    def _unexpired(self, files: Sequence[FileEntry]) -> Any:
        """The condition that hides rows which expired by the last update but are still in these files."""
        now = self.manifest.now_us
        if now is None or all(file.expires_min > now for file in files):
            return None
        return within(EXPIRES, (now + 1, None))

    def _check(self, at: Instant | None, columns: Sequence[str] | None, where: Any) -> None:
        now = self.manifest.now_us
        if at is not None and now is not None and instant_us(at) < now:
            raise NotHeldError(
                f"rows that expired by {format_instant(now)} are gone, so {format_instant(instant_us(at))} is not held",
                hint="`at` must not be before the last update; leave it out to read all rows that are held",
            )
        known = [*self.manifest.schema.names, INSERTED, EXPIRES]
        for name in columns or ():
            if name not in known:
                raise ArchiveError(f"the archive has no column '{name}'", hint=did_you_mean(name, known))
        if where is not None:
            try:
                self._files.schema.empty_table().filter(where)
            except (pa.ArrowException, TypeError) as problem:
                raise ArchiveError(
                    f"the condition does not fit the archive: {problem}",
                    hint="`where` is an Arrow expression, such as pyarrow.compute.field('bytes') > 10",
                ) from problem


def may_hold(file: FileEntry, at: Instant | None, inserted: Span, expires: Span) -> bool:
    """Whether a file may have rows in these ranges of time."""
    asked = [
        (inserted[0], inserted[1], file.inserted_min, file.inserted_max),
        (expires[0], expires[1], file.expires_min, file.expires_max),
    ]
    if at is not None:
        asked.append((None, at, file.inserted_min, file.inserted_max))
        asked.append((instant_us(at) + 1, None, file.expires_min, file.expires_max))
    return all(
        (low is None or instant_us(low) <= greatest) and (high is None or instant_us(high) >= least)
        for low, high, least, greatest in asked
    )
