"""Removes files of old versions: after a grace period, and when no snapshot of this process holds the version.

A version is superseded when the next one is committed. Its manifest is removed first, then the files that no version
names any more. A file that cannot be removed is tried again later, and never makes an update fail.
"""

from __future__ import annotations

import contextlib
import itertools
import time

from panewise.archive.manifest import Manifest, Manifests
from panewise.archive.snapshot import Pins
from panewise.errors import ArchiveError


class Retention:
    """Knows all versions on disk after `take_stock`. Used by the writer only."""

    def __init__(self, manifests: Manifests, pins: Pins, grace_s: float) -> None:
        self._manifests = manifests
        self._pins = pins
        self._grace_s = grace_s
        self._kept: dict[int, Manifest] = {}
        self._unremoved: set[str] = set()

    def take_stock(self) -> None:
        """Reads the versions, and removes the leftovers of interrupted updates."""
        self._unremoved.clear()
        try:
            self._kept = self._manifests.load_all()
            self._unremoved.update(self._manifests.leftovers(self._kept.values()))
        except ArchiveError:
            # With an unreadable manifest it is not known which files are in use, so none is removed.
            self._kept = {}
            return
        self._remove_files()

    def commit(self, manifest: Manifest) -> None:
        if self._kept:
            self._kept[manifest.version] = manifest
            self.remove_obsolete()

    def remove_obsolete(self) -> None:
        """Removes old versions past their grace period that no snapshot holds, and their files."""
        now = time.time()
        versions = sorted(self._kept)
        for version, following in itertools.pairwise(versions):
            if self._kept[following].committed_at + self._grace_s > now:
                break
            with self._pins.turn:
                if self._pins.holds(version):
                    continue
                try:
                    self._manifests.storage.remove(self._kept[version].name)
                except OSError:
                    continue
            self._unremoved.update(file.name for file in self._kept.pop(version).files)
        self._remove_files()

    def _remove_files(self) -> None:
        named = {file.name for manifest in self._kept.values() for file in manifest.files}
        for name in sorted(self._unremoved):
            if name not in named:
                with contextlib.suppress(OSError):
                    self._manifests.storage.remove(name)
                    self._unremoved.discard(name)
