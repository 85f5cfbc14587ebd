"""Verifies a version against its manifest: reads every file, and checks that every row is in the right sub-index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panewise.archive.manifest import FileEntry, Manifest
from panewise.archive.sought import EXPIRES, INSERTED
from panewise.archive.storage import VanishedFile
from panewise.archive.sub_index import SubIndexFiles, sorted_rows
from panewise.errors import ArchiveError


@dataclass(frozen=True)
class Verification:
    """The result of a verification; the version is sound if there are no problems."""

    version: int
    files: int
    rows: int
    problems: tuple[str, ...]

    @property
    def sound(self) -> bool:
        return not self.problems


def verified(manifest: Manifest, files: SubIndexFiles, newest: Callable[[], Manifest]) -> Verification:
    """Reads every file of a version once, one at a time.

    A writer in another process may make versions meanwhile and remove files. A removed file is ignored if the newest
    version does not name it either.
    """
    problems, gone, rows = [], 0, 0
    for file in manifest.files:
        try:
            files.check_footer(file)
            table = files.read([file])
        except ArchiveError as problem:
            if isinstance(problem, VanishedFile) and file not in newest().files:
                gone += 1
            else:
                problems.append(problem.message)
            continue
        rows += table.num_rows
        problems += [f"the file '{file.name}': {told}" for told in _wrong(manifest, file, table)]
    return Verification(manifest.version, len(manifest.files) - gone, rows, tuple(problems))


def _wrong(manifest: Manifest, file: FileEntry, table: Any) -> list[str]:
    found = []
    if table.num_rows != file.rows:
        return [f"it has {table.num_rows} rows instead of {file.rows}"]
    times = {name: table[name].cast(pa.int64()).to_numpy() for name in (INSERTED, EXPIRES)}
    ranges = [(int(values.min()), int(values.max())) for values in times.values()]
    if ranges != [(file.inserted_min, file.inserted_max), (file.expires_min, file.expires_max)]:
        found.append("its ranges of time are not those of the manifest")
    if not _is_sorted(table, manifest.key):
        found.append("its rows are not sorted by key")
    if file.generation == manifest.generation:
        places = manifest.layout.places(times[INSERTED], times[EXPIRES])
        if not np.all(places == file.sub_index):
            found.append(f"it has rows that do not belong to sub-index {file.sub_index}")
    return found


def _is_sorted(table: Any, key: tuple[str, ...]) -> bool:
    columns = [*key, EXPIRES, INSERTED]
    own = table.select(columns)
    # Rows with equal values in all of these may have any order.
    return all(
        pc.all(_same(own[name], ordered)).as_py()
        for name, ordered in zip(columns, sorted_rows(own, key).columns, strict=True)
    )


def _same(left: Any, right: Any) -> Any:
    """Where the values are equal; NULL equals NULL, and NaN equals NaN."""
    equal = pc.fill_null(pc.equal(left, right), False)
    both_null = pc.and_(pc.is_null(left, nan_is_null=True), pc.is_null(right, nan_is_null=True))
    return pc.or_(equal, both_null)
