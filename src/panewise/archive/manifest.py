"""A version of an archive: one small JSON file, the manifest, names the Parquet files of all sub-indices.

    archive/
      LOCK                             held by the process that writes (local folders)
      manifests/00000012.json          version 12: schema, key, layout, the last update, files and their ranges of time
      data/00000012-I03-7f3a9c01.parquet   written for version 12, sub-index 3; later versions may name it too

A file is written once and never changed. A commit writes new files, syncs them, and publishes the next manifest; then
the version exists. Readers of version N never see anything of version N + 1. A crash leaves at worst files that no
manifest names, which the next writer removes.

An old version is removed when it has been superseded for longer than the grace period and no snapshot of this process
holds it: first its manifest, then the files that no other manifest names.

A manifest ends in a checksum of itself. Cost: O(number of files) a commit, some 300 bytes each.
"""

from __future__ import annotations

import json
import re
import secrets
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from panewise.archive.layout import Layout
from panewise.archive.storage import UNFINISHED, Storage, VanishedFile, explained
from panewise.errors import ArchiveError, SnapshotError
from panewise.schema import TYPE_NAMES, Column, DataType, Schema
from panewise.state.records import Record

FORMAT = "panewise archive"
FORMAT_VERSION = 1
MANIFESTS = "manifests"
DATA = "data"
_NAME = re.compile(rf"{MANIFESTS}/(\d{{8,}})\.json")
# The files that an update writes before its manifest is published. Only such files are removed as leftovers.
_DATA_FILE = re.compile(rf"{DATA}/(\d{{8,}})-I\d{{2,}}-[0-9a-f]{{8}}\.parquet")
_UNPUBLISHED = re.compile(rf"{MANIFESTS}/(\d{{8,}})\.json{re.escape(UNFINISHED)}")
_TYPE = re.compile(r"(\w+)(?:\((\d+), (\d+)\))?")


@dataclass(frozen=True)
class FileEntry:
    """A Parquet file of a sub-index; ranges are closed, in microseconds."""

    name: str
    sub_index: int
    generation: int  # generation of the layout that placed its rows
    rows: int
    bytes: int
    inserted_min: int
    inserted_max: int
    expires_min: int
    expires_max: int
    # The checksum covers the footer, which locates all pages; pages have their own checksums.
    footer_bytes: int
    footer_checksum: int


FILE_ENTRY = Record(
    FileEntry,
    "name sub_index generation rows bytes inserted_min inserted_max expires_min expires_max footer_bytes "
    "footer_checksum",
)


@dataclass(frozen=True)
class Manifest:
    """The description of one version."""

    version: int
    update: int  # number of the last update in this version; 0 before the first
    now_us: int | None  # instant of that update; rows that expired by then are gone
    committed_at: float  # seconds since the epoch, by the writer's clock
    schema: Schema
    key: tuple[str, ...]
    layout: Layout
    generation: int  # generation of the layout; files of an earlier one must still be moved
    files: tuple[FileEntry, ...]

    @property
    def moving(self) -> bool:
        """Whether a migration has begun and is not complete."""
        return any(file.generation != self.generation for file in self.files)

    @property
    def name(self) -> str:
        return manifest_name(self.version)

    def encoded(self) -> pa.Buffer:
        fields = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            **{name: getattr(self, name) for name in ("version", "update", "now_us", "committed_at", "generation")},
            "schema": [[column.name, str(column.type)] for column in self.schema],
            "key": list(self.key),
            "layout": self.layout.to_dict(),
            "files": [FILE_ENTRY.to_dict(file) for file in self.files],
        }
        return pa.py_buffer(json.dumps({**fields, "checksum": _checksum(fields)}, indent=1).encode())


def manifest_name(version: int) -> str:
    return f"{MANIFESTS}/{version:08d}.json"


def new_data_name(version: int, sub_index: int) -> str:
    """A new unique name for a data file of a sub-index."""
    return f"{DATA}/{version:08d}-I{sub_index:02d}-{secrets.token_hex(4)}.parquet"


def _version_of(name: str) -> int | None:
    """The version for which a file was written; None if the name is not one of an archive's own."""
    match = _DATA_FILE.fullmatch(name) or _UNPUBLISHED.fullmatch(name)
    return int(match[1]) if match else None


def _checksum(fields: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode())


def _type(text: str) -> DataType:
    match = _TYPE.fullmatch(text)
    if match is None or match[1] not in TYPE_NAMES:
        raise ValueError(f"'{text}' is not a type")
    return DataType(match[1], int(match[2] or 0), int(match[3] or 0))


def decoded(data: bytes, name: str, where: str) -> Manifest:
    """The manifest in some bytes. ArchiveError if they are not a complete manifest of this format."""
    hint = "`open(..., version=...)` reads an older version, as long as it is kept"
    try:
        fields = json.loads(data)
        if not isinstance(fields, dict) or fields.pop("format", None) != FORMAT:
            raise ArchiveError(f"'{name}' in '{where}' is not a manifest of an archive", hint=hint)
        if fields["format_version"] != FORMAT_VERSION:
            raise ArchiveError(
                f"'{name}' in '{where}' has format {fields['format_version']}, not {FORMAT_VERSION}",
                hint="read it with the panewise that wrote it, or a newer one",
            )
        checksum = fields.pop("checksum")
        if checksum != _checksum({"format": FORMAT, **fields}):
            raise ArchiveError(f"the manifest '{name}' of the archive '{where}' is damaged: wrong checksum", hint=hint)
        del fields["format_version"]
        return Manifest(
            **{
                **fields,
                "schema": Schema(tuple(Column(column, _type(text)) for column, text in fields["schema"])),
                "key": tuple(fields["key"]),
                "layout": Layout.from_dict(fields["layout"]),
                "files": tuple(FILE_ENTRY.of_dict(file) for file in fields["files"]),
            }
        )
    except (ValueError, KeyError, TypeError, SnapshotError) as problem:
        raise ArchiveError(
            f"the manifest '{name}' of the archive '{where}' is damaged: {problem}", hint=hint
        ) from problem


class Manifests:
    """The versions of an archive in a storage."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def versions(self) -> list[int]:
        """The numbers of all versions, in order; empty if there is no archive."""
        with explained("list the versions", self.storage.where):
            names = self.storage.names(MANIFESTS)
        return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))

    def load(self, version: int) -> Manifest:
        name = manifest_name(version)
        with explained(f"read '{name}'", self.storage.where):
            data = self.storage.read(name)
        manifest = decoded(data, name, self.storage.where)
        if manifest.version != version:
            raise ArchiveError(
                f"the manifest '{name}' of the archive '{self.storage.where}' is that of version {manifest.version}",
                hint="it was copied or renamed: remove it",
            )
        return manifest

    def publish(self, manifest: Manifest) -> None:
        """Publishes a version. ArchiveError if another writer has published one in the meantime."""
        versions = self.versions()
        if versions and versions[-1] >= manifest.version:
            raise ArchiveError(
                f"the archive '{self.storage.where}' has version {versions[-1]}, made by another writer",
                hint="an archive has one writer; open it again to go on from that version",
            )
        with explained(f"write '{manifest.name}'", self.storage.where):
            self.storage.settle(DATA)
            data = manifest.encoded()
            self.storage.publish(manifest.name, data)
            written = data if self.storage.exclusive else self.storage.read(manifest.name)
        if written != data:
            raise ArchiveError(
                f"another writer has made version {manifest.version} of '{self.storage.where}' at the same time",
                hint="an archive has one writer: stop the other one, and repeat the update",
            )

    def leftovers(self, kept: Iterable[Manifest]) -> list[str]:
        """Files with an archive's own names that no version uses: the leftovers of interrupted updates.

        Such an update wrote for the version after the newest. Without a lock another writer may be writing files for
        that version, so they are not included.
        """
        kept = list(kept)
        named = {file.name for manifest in kept for file in manifest.files}
        newest = max((manifest.version for manifest in kept), default=0)
        with explained("list the files", self.storage.where):
            data, manifests = self.storage.names(DATA), self.storage.names(MANIFESTS)
        versions = {name: _version_of(name) for name in (*data, *manifests) if name not in named}
        last = newest + 1 if self.storage.exclusive else newest
        return [name for name, version in versions.items() if version is not None and version <= last]

    def load_all(self) -> dict[int, Manifest]:
        """All versions, without those that are removed during the call."""
        found: dict[int, Manifest] = {}
        for version in self.versions():
            try:
                found[version] = self.load(version)
            except VanishedFile:
                continue
        return found
