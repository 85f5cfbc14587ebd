"""Checks the folder of a new archive: it must be empty or not exist, and must not lie inside another archive.

A folder with other contents is refused, because an archive removes files of old versions and must not meet foreign
files, or an archive further down. The leftovers of an interrupted creation are accepted: the lock, the two folders
without data, a first manifest that was not renamed yet. A folder with data files but without manifests is refused: the
manifests were lost, and the files are all that is left of an archive.

Nothing is written or removed here. Cost: one listing of the folder, and of `manifests` in every folder above it.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.fs as pafs

from panewise.archive.manifest import DATA, FORMAT, MANIFESTS, Manifests, manifest_name
from panewise.archive.storage import LOCK, UNFINISHED, Storage, making
from panewise.errors import ArchiveError

_SHOWN = 3  # most names in a message


def check_new_place(storage: Storage) -> None:
    """ArchiveError if no archive may be made in this folder."""
    for folder in storage.above():
        if is_archive(folder):
            raise ArchiveError(
                f"'{storage.where}' lies in the folder of another archive, '{folder.where}'",
                hint="an archive needs a folder of its own: name one that lies outside of it",
            )
    with making(storage.where):
        found = sorted(_foreign(storage))
    if found:
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        listed = ", ".join(f"'{name}'" for name in found[:_SHOWN])
        raise ArchiveError(
            f"'{storage.where}' cannot become an archive: it holds {listed}{more}",
            hint="an archive needs a folder of its own: name one that is empty or does not exist",
        )


def is_archive(storage: Storage) -> bool:
    """Whether a folder holds an archive's manifest; False if it cannot be read."""
    try:
        versions = Manifests(storage).versions()
        # Other programs may name a file `20261116.json` too, so its text is checked.
        return bool(versions) and FORMAT.encode() in storage.read(manifest_name(versions[-1]))[:200]
    except (OSError, ArchiveError, pa.ArrowException):
        return False


def _foreign(storage: Storage) -> list[str]:
    """The contents of a folder that are not leftovers of an interrupted creation."""
    own_folders = {MANIFESTS: [manifest_name(1) + UNFINISHED], DATA: []}
    found = []
    for name, info in storage.entries("").items():
        if name in own_folders and info.type == pafs.FileType.Directory and not storage.is_link(name):
            found += [inner for inner in storage.entries(name) if inner not in own_folders[name]]
        elif not (name == LOCK and info.type == pafs.FileType.File and not info.size):
            found.append(name)
    return found
