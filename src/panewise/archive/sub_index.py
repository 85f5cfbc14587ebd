"""The files of a sub-index: Parquet, sorted by key, then by expiration; the row's columns, `_inserted`, `_expires`.

*Rebuild* keeps one file: all rows of a key lie together. *NoRebuild* keeps a few runs, one per update that brought
rows, until there are more than `RUNS_MAX`. Both are the same kind of file: small row groups with minima and maxima of
keys and times in the footer (the key directory: a probe reads one or two row groups of each file), page indices,
checksums of pages, and a bloom filter of the key where this pyarrow writes one, for tools that use it.

Invariant: a file is written whole, once, under a name of its own; its entry in the manifest has its size, its rows, its
ranges of time and the checksum of its footer, so that a file that is cut, changed or foreign is noticed when it is
opened and not answered from. Cost: O(rows log rows) to write, O(row groups) a file to plan a read.

Source: Golab 2006, section 4.3.1 (Rebuild, NoRebuild) and figure 4.3.
"""

from __future__ import annotations

import inspect
import secrets
import threading
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from panewise.archive.manifest import DATA, FileEntry
from panewise.archive.sought import EXPIRES, INSERTED, TIME, moment
from panewise.archive.storage import Storage, explained
from panewise.errors import ArchiveError
from panewise.schema import Schema

RUNS_MAX = 4
# A probe reads whole row groups: as many of them a file, so that it reads the same share of a small file and of a large
# one, but none so small that its directory is longer than its rows, and none too large to be read for a few of them.
ROW_GROUPS = 32
ROW_GROUP_BYTES_MIN, ROW_GROUP_BYTES_MAX = 1 << 18, 1 << 20
ROW_GROUPS_MAX = 1_024

_FORMAT = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)
_HAS_BLOOM_FILTERS = "bloom_filter_options" in inspect.signature(pq.write_table).parameters


def stored_schema(schema: Schema) -> Any:
    """Arrow's schema of the files."""
    own = [pa.field(column.name, column.type.to_arrow()) for column in schema]
    return pa.schema([*own, pa.field(INSERTED, TIME, nullable=False), pa.field(EXPIRES, TIME, nullable=False)])


def sorted_rows(rows: Any, key: Sequence[str]) -> Any:
    try:
        return rows.sort_by([(name, "ascending") for name in (*key, EXPIRES, INSERTED)])
    except pa.ArrowInvalid as problem:
        # Arrow's texts of one column end at 2 GiB.
        raise ArchiveError(
            f"{rows.num_rows} rows of a sub-index are too many to be sorted: {problem}",
            hint="migrate to a layout with more sub-indices, or update more often",
        ) from problem


def _row_group_rows(rows: Any) -> int:
    size: int = rows.nbytes
    groups = max(min(ROW_GROUPS, size // ROW_GROUP_BYTES_MIN), size // ROW_GROUP_BYTES_MAX, 1)
    count: int = rows.num_rows
    return -(-count // min(groups, ROW_GROUPS_MAX))


def encoded(rows: Any, key: Sequence[str]) -> pa.Buffer:
    """The bytes of a Parquet file; the rows are sorted already."""
    group_rows = _row_group_rows(rows)
    fields = rows.schema
    # Minima of long texts would make the footer, which every reader loads, as large as the data.
    described = [f.name for f in fields if f.name in key or not pa.types.is_string(f.type)]
    # Arrow leaves NaN out of minima and maxima; to tools that have NaN above all numbers they would be wrong.
    described = [name for name in described if not _has_nan(rows[name])]
    options: dict[str, Any] = {}
    # Zeros of both signs are equal, and have different hashes.
    unhashed = (pa.types.is_boolean, pa.types.is_floating)
    filtered = [name for name in key if not any(of_type(fields.field(name).type) for of_type in unhashed)]
    if _HAS_BLOOM_FILTERS and filtered:
        options["bloom_filter_options"] = {name: {"ndv": group_rows, "fpp": 0.05} for name in filtered}
    sink = pa.BufferOutputStream()
    pq.write_table(
        rows,
        sink,
        row_group_size=group_rows,
        compression="zstd",
        write_statistics=described,
        write_page_index=True,
        write_page_checksum=True,
        sorting_columns=pq.SortingColumn.from_ordering(fields, [(n, "ascending") for n in (*key, EXPIRES, INSERTED)]),
        **options,
    )
    return sink.getvalue()


def _has_nan(column: Any) -> bool:
    return pa.types.is_floating(column.type) and bool(pc.any(pc.is_nan(column)).as_py())


class SubIndexFiles:
    """Writes and opens the files of an archive; keeps the footers of those in use. May be used by several threads."""

    def __init__(self, storage: Storage, schema: Schema, key: tuple[str, ...]) -> None:
        self.schema = stored_schema(schema)
        self.key = key
        self._storage = storage
        self._opened: dict[str, Any] = {}
        self._turn = threading.Lock()

    def write(self, rows: Any, sub_index: int, generation: int, version: int) -> FileEntry:
        """A new file of rows that are sorted."""
        assert rows.num_rows, "an empty file is no file"
        data = encoded(rows, self.key)
        name = f"{DATA}/{version:08d}-I{sub_index:02d}-{secrets.token_hex(4)}.parquet"
        with explained(f"write '{name}'", self._storage.where):
            self._storage.write(name, data)
        # A Parquet file ends in its footer, the footer's length and a mark of four bytes.
        footer_bytes = int.from_bytes(data[-8:-4].to_pybytes(), "little") + 8
        inserted, expires = (pc.min_max(rows[column].cast(pa.int64())) for column in (INSERTED, EXPIRES))
        return FileEntry(
            name, sub_index, generation, rows.num_rows, data.size,
            inserted["min"].as_py(), inserted["max"].as_py(), expires["min"].as_py(), expires["max"].as_py(),
            footer_bytes, zlib.crc32(data[-footer_bytes:]),
        )  # fmt: skip

    def read(self, files: Sequence[FileEntry], condition: Any = None, columns: Sequence[str] | None = None) -> Any:
        """The rows of files, of each in its order."""
        fragments = [self._fragment(file) for file in files]
        dataset = ds.FileSystemDataset(fragments, self.schema, _FORMAT, self._storage.filesystem)
        shown = ", ".join(file.name for file in files[:3]) + (", ..." if len(files) > 3 else "")
        with explained(f"read '{shown}'", self._storage.where):
            return dataset.to_table(filter=condition, columns=None if columns is None else list(columns))

    def row_groups(self, files: Sequence[FileEntry], condition: Any = None) -> list[int]:
        """How many row groups of each file may hold rows that pass a condition."""
        return [len(self._fragment(file).split_by_row_group(condition, schema=self.schema)) for file in files]

    def read_alive(self, files: Sequence[FileEntry], now: int) -> Any:
        """The rows of files that have not expired at `now`."""
        expired = any(file.expires_min <= now for file in files)
        return self.read(files, pc.field(EXPIRES) > moment(now) if expired else None)

    def forget_all_but(self, files: Iterable[FileEntry]) -> None:
        """Drops footers of files that are no longer of any use."""
        kept = {file.name for file in files}
        with self._turn:
            self._opened = {name: fragment for name, fragment in self._opened.items() if name in kept}

    def _fragment(self, file: FileEntry) -> Any:
        """The opened file, known to be the one that was written."""
        fragment = self._opened.get(file.name)
        if fragment is None:
            self.check_footer(file)
            fragment = _FORMAT.make_fragment(self._storage.path(file.name), self._storage.filesystem)
            with explained(f"read '{file.name}'", self._storage.where):
                fragment.ensure_complete_metadata()
            with self._turn:
                self._opened[file.name] = fragment
        return fragment

    def check_footer(self, file: FileEntry) -> None:
        """ArchiveError where the file on the disk is not the one that the manifest names."""
        with explained(f"read '{file.name}'", self._storage.where):
            size, footer = self._storage.read_end(file.name, file.footer_bytes)
        if size != file.bytes:
            problem = f"it has {size} bytes and not {file.bytes}"
        elif zlib.crc32(footer) != file.footer_checksum:
            problem = "its footer is not the one that was written"
        else:
            return
        raise ArchiveError(
            f"the file '{file.name}' of the archive '{self._storage.where}' is damaged or foreign: {problem}",
            hint="bring the file back from a copy, or read an older version with `open(..., version=...)`",
        )
