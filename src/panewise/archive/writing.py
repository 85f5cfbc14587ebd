"""Writes the files of the next version for an update, a merge or a migration.

Rebuild reads every sub-index that gains or loses rows and writes it as one file. NoRebuild writes new rows as a run. It
rewrites only the runs with expired rows, as a single file, since they are read and written anyway; and all of a
sub-index that would have more than `RUNS_MAX` runs. A file whose rows have all expired is dropped unread. Nothing is
visible before the next manifest is published.

Files of an earlier layout, in a migration that is not complete, lose expired rows like all others, and gain none.

Cost of an update in a steady state: Rebuild reads and writes G + E - 1 sub-indices, NoRebuild G and the new rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.archive.layout import Layout
from panewise.archive.manifest import FileEntry, Manifest
from panewise.archive.sought import EXPIRES, INSERTED
from panewise.archive.sub_index import RUNS_MAX, SubIndexFiles, sorted_rows


@dataclass
class Written:
    """The files of the next version, the sub-indices touched, and the bytes written."""

    files: list[FileEntry] = field(default_factory=list)
    touched: set[int] = field(default_factory=set)  # changed sub-indices of the current layout
    bytes: int = 0


def by_sub_index(files: Sequence[FileEntry]) -> dict[tuple[int, int], list[FileEntry]]:
    """Files by (generation, sub-index), within a sub-index in the order in which they were written."""
    groups: dict[tuple[int, int], list[FileEntry]] = {}
    for file in files:
        groups.setdefault((file.generation, file.sub_index), []).append(file)
    return groups


def placed(rows: Any, layout: Layout) -> Iterator[tuple[int, Any]]:
    """The rows of each sub-index."""
    if not rows.num_rows:
        return
    inserted, expires = (rows[name].cast(pa.int64()).to_numpy() for name in (INSERTED, EXPIRES))
    places = layout.places(inserted, expires)
    order = np.argsort(places, kind="stable")
    numbers, starts = np.unique(places[order], return_index=True)
    for number, own in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
        yield number, rows.take(pa.array(own))


class NextVersion:
    """Writes the files of the version after a given one."""

    def __init__(self, files: SubIndexFiles, base: Manifest) -> None:
        self._files = files
        self._base = base

    def updated(self, now: int, rows: Any) -> Written:
        """Adds new rows, none of which has expired at `now`, and drops the rows that have."""
        base, written = self._base, Written()
        new: Mapping[int, Any] = dict(placed(rows, base.layout))
        groups = by_sub_index(base.files)
        keys = dict.fromkeys([*groups, *((base.generation, number) for number in new)])
        for generation, number in keys:
            present = generation == base.generation
            own, own_new = groups.get((generation, number), []), new.get(number) if present else None
            if own_new is None and all(file.expires_min > now for file in own):
                written.files += own
                continue
            if present:
                written.touched.add(number)
            runs = sum(file.expires_max > now for file in own)
            too_many = own_new is not None and runs >= RUNS_MAX
            all_of_it = present and (base.layout.style == "rebuild" or too_many)
            rewritten = [file for file in own if all_of_it or file.expires_min <= now]
            written.files += [file for file in own if file not in rewritten]
            self._add(written, number, generation, [self._alive(rewritten, now), own_new])
        return written

    def merged(self, number: int) -> Written:
        """Merges all files of a sub-index into one, without expired rows."""
        base, written = self._base, Written()
        own = [file for file in base.files if (file.generation, file.sub_index) == (base.generation, number)]
        written.files += [file for file in base.files if file not in own]
        written.touched.add(number)
        self._add(written, number, base.generation, [self._alive(own, base.now_us)])
        return written

    def moved(self, generation: int, number: int) -> Written:
        """Moves the rows of a sub-index of an earlier layout to the current layout, as runs."""
        base, written = self._base, Written()
        own = [file for file in base.files if (file.generation, file.sub_index) == (generation, number)]
        written.files += [file for file in base.files if file not in own]
        alive = self._alive(own, base.now_us)
        if alive is not None:
            for target, rows in placed(alive, base.layout):
                written.touched.add(target)
                self._add(written, target, base.generation, [rows])
        return written

    def _alive(self, files: Sequence[FileEntry], now: int | None) -> Any:
        """The rows of these files that have not expired; None if there is no file with such rows."""
        left = [file for file in files if now is None or file.expires_max > now]
        if not left:
            return None
        return self._files.read(left) if now is None else self._files.read_alive(left, now)

    def _add(self, written: Written, number: int, generation: int, parts: Sequence[Any]) -> None:
        """Writes one new file of all parts that have rows."""
        given = [part for part in parts if part is not None and part.num_rows]
        if given:
            rows = sorted_rows(pa.concat_tables(given), self._files.key)
            entry = self._files.write(rows, number, generation, self._base.version + 1)
            written.files.append(entry)
            written.bytes += entry.bytes


def next_manifest(base: Manifest, files: Sequence[FileEntry], committed_at: float, **changes: Any) -> Manifest:
    return replace(base, version=base.version + 1, committed_at=committed_at, files=tuple(files), **changes)
