"""The Parquet files of a sub-index: the row's columns, `_inserted` and `_expires`, sorted by key, then by expiration.

*Rebuild* keeps one file, in which all rows of a key lie together. *NoRebuild* keeps up to `RUNS_MAX` runs, one for each
update that brought rows. The format is the same: row groups of whole keys with minima and maxima of keys and times in
the footer (`key_directory`), page indices, checksums of pages, and a bloom filter of the key if this pyarrow writes
one, for tools that use it.

Invariant: a file is written once, under a unique name. Its entry in the manifest has its size, rows, ranges of time and
the checksum of its footer, so that a truncated, changed or foreign file is detected when it is opened. Cost:
O(rows log rows) to write, O(log row groups) a file to plan a probe, O(row groups) to plan any other read.

Source: Golab 2006, section 4.3.1 (Rebuild, NoRebuild) and figure 4.3.
"""

from __future__ import annotations

import inspect
import threading
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from panewise.archive.key_directory import KeyDirectory, KeySpan, row_group_ends
from panewise.archive.manifest import FileEntry, new_data_name
from panewise.archive.sought import EXPIRES, INSERTED, TIME, moment
from panewise.archive.storage import Storage, explained
from panewise.errors import ArchiveError
from panewise.schema import Schema

RUNS_MAX = 4

_FORMAT = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)
_HAS_BLOOM_FILTERS = "bloom_filter_options" in inspect.signature(pq.write_table).parameters


def stored_schema(schema: Schema) -> Any:
    """The Arrow schema of the files."""
    own = [pa.field(column.name, column.type.to_arrow()) for column in schema]
    return pa.schema([*own, pa.field(INSERTED, TIME, nullable=False), pa.field(EXPIRES, TIME, nullable=False)])


def sorted_rows(rows: Any, key: Sequence[str]) -> Any:
    try:
        return rows.sort_by([(name, "ascending") for name in (*key, EXPIRES, INSERTED)])
    except pa.ArrowInvalid as problem:
        # The strings of an Arrow column are limited to 2 GiB.
        raise ArchiveError(
            f"the {rows.num_rows} rows of a sub-index cannot be sorted: {problem}",
            hint="migrate to a layout with more sub-indices, or update more often",
        ) from problem


def encoded(rows: Any, key: Sequence[str]) -> pa.Buffer:
    """The bytes of a Parquet file of these rows, which must be sorted."""
    ends = row_group_ends(rows, key)
    starts = [0, *ends[:-1]]
    largest = max(end - start for start, end in zip(starts, ends, strict=True))
    fields = rows.schema
    # Minima of long strings would make the footer, which every reader loads, as large as the data.
    described = [f.name for f in fields if f.name in key or not pa.types.is_string(f.type)]
    # Arrow's minima and maxima ignore NaN, which is wrong for tools that order NaN above all numbers.
    described = [name for name in described if not _has_nan(rows[name])]
    options: dict[str, Any] = {}
    # The two zeros are equal but have different hashes.
    unhashed = (pa.types.is_boolean, pa.types.is_floating)
    filtered = [name for name in key if not any(of_type(fields.field(name).type) for of_type in unhashed)]
    if _HAS_BLOOM_FILTERS and filtered:
        options["bloom_filter_options"] = {name: {"ndv": largest, "fpp": 0.05} for name in filtered}
    sink = pa.BufferOutputStream()
    writer = pq.ParquetWriter(
        sink,
        fields,
        compression="zstd",
        use_dictionary=[*key, *(f.name for f in fields if f.name not in key and _repeats(rows[f.name]))],
        write_statistics=described,
        write_page_index=True,
        write_page_checksum=True,
        sorting_columns=pq.SortingColumn.from_ordering(fields, [(n, "ascending") for n in (*key, EXPIRES, INSERTED)]),
        **options,
    )
    with writer:
        for start, end in zip(starts, ends, strict=True):
            writer.write_table(rows.slice(start, end - start), row_group_size=end - start)
    return sink.getvalue()


def _repeats(column: Any) -> bool:
    """Whether a dictionary of the values is worth it, from a sample. It is not for most instants and many strings."""
    sample = column.slice(0, 1_024)
    return len(sample.unique()) * 2 <= len(sample)


def _has_nan(column: Any) -> bool:
    return pa.types.is_floating(column.type) and bool(pc.any(pc.is_nan(column)).as_py())


class SubIndexFiles:
    """Writes and opens the files of an archive, and caches the footers of those in use. Thread-safe."""

    def __init__(self, storage: Storage, schema: Schema, key: tuple[str, ...]) -> None:
        self.schema = stored_schema(schema)
        self.key = key
        self._storage = storage
        self._opened: dict[str, tuple[Any, KeyDirectory | None]] = {}
        self._turn = threading.Lock()

    def write(self, rows: Any, sub_index: int, generation: int, version: int) -> FileEntry:
        """Writes a new file of sorted rows."""
        assert rows.num_rows, "a file has at least one row"
        data = encoded(rows, self.key)
        name = new_data_name(version, sub_index)
        with explained(f"write '{name}'", self._storage.where):
            self._storage.write(name, data)
        # A Parquet file ends with its footer, the footer's length and four magic bytes.
        footer_bytes = int.from_bytes(data[-8:-4].to_pybytes(), "little") + 8
        inserted, expires = (pc.min_max(rows[column].cast(pa.int64())) for column in (INSERTED, EXPIRES))
        return FileEntry(
            name, sub_index, generation, rows.num_rows, data.size,
            inserted["min"].as_py(), inserted["max"].as_py(), expires["min"].as_py(), expires["max"].as_py(),
            footer_bytes, zlib.crc32(data[-footer_bytes:]),
        )  # fmt: skip

    def read(
        self,
        files: Sequence[FileEntry],
        condition: Any = None,
        columns: Sequence[str] | None = None,
        keys: Sequence[KeySpan] | None = None,
        each: Callable[[pa.RecordBatch], None] | None = None,
    ) -> Any:
        """The rows of files, each file's rows in order. `keys`: the condition's ranges of the first key column.

        `each` is called with every batch before the next one is read; if it raises, the read ends.
        """
        fragments = [part for part in (self._part(file, keys) for file in files) if part is not None]
        dataset = ds.FileSystemDataset(fragments, self.schema, _FORMAT, self._storage.filesystem)
        shown = ", ".join(file.name for file in files[:3]) + (", ..." if len(files) > 3 else "")
        with explained(f"read '{shown}'", self._storage.where):
            asked = {"filter": condition, "columns": None if columns is None else list(columns)}
            if each is None:
                return dataset.to_table(**asked)
            scanner = dataset.scanner(**asked, batch_readahead=2, fragment_readahead=1)
            batches = []
            for batch in scanner.to_batches():
                each(batch)
                batches.append(batch)
            return pa.Table.from_batches(batches, scanner.projected_schema)

    def row_groups(
        self, files: Sequence[FileEntry], condition: Any = None, keys: Sequence[KeySpan] | None = None
    ) -> list[int]:
        """The number of row groups of each file that a condition reads."""
        parts = [self._part(file, keys) for file in files]
        return [0 if part is None else len(part.split_by_row_group(condition, schema=self.schema)) for part in parts]

    def read_alive(self, files: Sequence[FileEntry], now: int) -> Any:
        """The rows of these files that have not expired at `now`."""
        expired = any(file.expires_min <= now for file in files)
        return self.read(files, pc.field(EXPIRES) > moment(now) if expired else None)

    def forget_all_but(self, files: Iterable[FileEntry]) -> None:
        """Drops the cached footers of all other files."""
        kept = {file.name for file in files}
        with self._turn:
            self._opened = {name: opened for name, opened in self._opened.items() if name in kept}

    def _part(self, file: FileEntry, keys: Sequence[KeySpan] | None) -> Any:
        """The part of a file that may have the keys; None if there is none."""
        fragment, directory = self._fragment(file)
        if keys is None or directory is None:
            return fragment
        groups = directory.row_groups(keys)
        return fragment.subset(row_group_ids=groups) if groups else None

    def _fragment(self, file: FileEntry) -> tuple[Any, KeyDirectory | None]:
        """The opened file, whose footer has been checked."""
        opened = self._opened.get(file.name)
        if opened is None:
            self.check_footer(file)
            fragment = _FORMAT.make_fragment(self._storage.path(file.name), self._storage.filesystem)
            with explained(f"read '{file.name}'", self._storage.where):
                fragment.ensure_complete_metadata()
                opened = fragment, KeyDirectory.of(fragment.metadata, self.key[0])
            with self._turn:
                self._opened[file.name] = opened
        return opened

    def check_footer(self, file: FileEntry) -> None:
        """ArchiveError if the file on disk is not the one that the manifest describes."""
        with explained(f"read '{file.name}'", self._storage.where):
            size, footer = self._storage.read_end(file.name, file.footer_bytes)
        if size != file.bytes:
            problem = f"it has {size} bytes instead of {file.bytes}"
        elif zlib.crc32(footer) != file.footer_checksum:
            problem = "its footer is not the one that was written"
        else:
            return
        raise ArchiveError(
            f"the file '{file.name}' of the archive '{self._storage.where}' is damaged or foreign: {problem}",
            hint="restore the file from a copy, or read an older version with `open(..., version=...)`",
        )
