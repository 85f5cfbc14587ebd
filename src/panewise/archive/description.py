"""Describes a version of an archive as a dict, for display."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from panewise.archive.manifest import Manifest
from panewise.archive.writing import by_sub_index
from panewise.temporal import format_instant


def described(manifest: Manifest, where: str, versions: Sequence[int]) -> dict[str, Any]:
    """The description of a manifest; reads no file."""
    return {
        "where": where,
        "version": manifest.version,
        "versions": list(versions),
        "update": manifest.update,
        "now": None if manifest.now_us is None else format_instant(manifest.now_us),
        "schema": str(manifest.schema),
        "key": list(manifest.key),
        "layout": manifest.layout.name,
        "migrating": manifest.moving,
        "rows": sum(file.rows for file in manifest.files),
        "bytes": sum(file.bytes for file in manifest.files),
        "sub_indices": [
            {
                "sub_index": number,
                "layout": "present" if generation == manifest.generation else "earlier",
                "files": len(files),
                "rows": sum(file.rows for file in files),
                "bytes": sum(file.bytes for file in files),
            }
            for (generation, number), files in sorted(by_sub_index(manifest.files).items())
        ],
    }
