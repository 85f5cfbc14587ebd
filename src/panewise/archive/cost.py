"""Chooses the cheapest layout G x E for the rates at which an archive is updated, probed and scanned.

With n = G x E sub-indices, D bytes in all, and seconds per file (`..._file_s`) and per byte (`..._byte_s`):

    update   touched * update_file_s + rewritten * update_byte_s
             touched = G + E - 1
             rewritten = D * touched / n                          Rebuild
                         D * G / n + new                          NoRebuild: each sub-index of a column loses rows and
                                                                  becomes one file; those of a row gain runs
    probe    files * read_file_s
             files = n                                            Rebuild
                     n * (1 + (E - 1) / 2G)                       NoRebuild: a run every G updates, which stays until
                                                                  its column loses rows, at most E - 1 updates later;
                                                                  never more than RUNS_MAX
    scan     files * read_file_s + D * read_byte_s

    cost = updates * update + probes * probe + scans * scan       with the numbers of operations per second

With more sub-indices, updates rewrite less and queries open more files. For a given n, G + E is least if G = E. Seconds
are measured on the archive's storage (`calibrated`), rates on the archive in use (`workload_of`).

Source: Golab 2006, section 4.3.2, which compares numbers of accesses; the seconds are ours.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.archive.archive import Archive
from panewise.archive.layout import Layout, Style
from panewise.archive.sub_index import RUNS_MAX

STYLES: tuple[Style, ...] = ("rebuild", "no_rebuild")
SIDE_MAX = 16  # G and E


@dataclass(frozen=True)
class ArchiveWorkload:
    """The bytes held, the new bytes of an update, and the rates of operations per second."""

    bytes_held: float
    bytes_new: float
    updates: float
    probes: float
    scans: float


@dataclass(frozen=True)
class Seconds:
    """Seconds per file and per byte; the defaults are those of a local disk."""

    update_file_s: float = 6e-3
    update_byte_s: float = 6e-9
    read_file_s: float = 1e-3
    read_byte_s: float = 2e-9


def cost(layout: Layout, workload: ArchiveWorkload, seconds: Seconds) -> float:
    """Seconds of work per second."""
    insertion, expiration, parts = layout.insertion_parts, layout.expiration_parts, layout.parts
    touched = insertion + expiration - 1
    if layout.style == "rebuild":
        rewritten, files = workload.bytes_held * touched / parts, float(parts)
    else:
        rewritten = workload.bytes_held * insertion / parts + workload.bytes_new
        files = parts * min(1 + (expiration - 1) / (2 * insertion), RUNS_MAX)
    probe = files * seconds.read_file_s
    return (
        workload.updates * (touched * seconds.update_file_s + rewritten * seconds.update_byte_s)
        + workload.probes * probe
        + workload.scans * (probe + workload.bytes_held * seconds.read_byte_s)
    )


def cheapest(
    workload: ArchiveWorkload,
    every_us: int,
    lifetime_us: int,
    seconds: Seconds | None = None,
    styles: Sequence[Style] = STYLES,
) -> Layout:
    """The cheapest round-robin layout; of equally cheap ones that with the fewest sub-indices.

    >>> often_probed = ArchiveWorkload(5e8, 1e7, updates=0.01, probes=100, scans=0)
    >>> cheapest(often_probed, 1, 36).name
    'Rebuild1x1'
    >>> cheapest(ArchiveWorkload(5e8, 1e7, updates=1, probes=1, scans=0), 1, 36, styles=["rebuild"]).name
    'Rebuild12x12'
    """
    sides = range(1, min(SIDE_MAX, lifetime_us // every_us) + 1)
    candidates = [
        Layout(insertion, expiration, every_us, lifetime_us, style=style)
        for insertion in sides
        for expiration in sides
        for style in styles
    ]
    known = seconds or Seconds()
    return min(candidates, key=lambda layout: (cost(layout, workload, known), layout.parts))


def workload_of(archive: Archive) -> ArchiveWorkload:
    """The bytes that an archive holds, and its rates of operations since it was opened."""
    manifest, usage = archive.manifest, archive.usage
    held = float(sum(file.bytes for file in manifest.files))
    elapsed = max(time.time() - usage.since, 1e-3)
    layout = manifest.layout
    # In a steady state, if lifetimes are half the longest on average, all bytes are replaced within this time.
    new = held * 2 * layout.every_us / layout.lifetime_us
    return ArchiveWorkload(held, new, usage.updates / elapsed, usage.probes / elapsed, usage.scans / elapsed)


def calibrated(where: str | Path, filesystem: Any = None) -> Seconds:
    """Seconds measured with a small and a large archive in two new folders, which are not removed."""
    small, large = (_measured(f"{where}/{rows}", rows, filesystem) for rows in (100, 50_000))
    more = large[2] - small[2]
    return Seconds(
        update_file_s=small[0],
        update_byte_s=max(large[0] - small[0], 0) / more,
        read_file_s=small[1],
        read_byte_s=max(large[1] - small[1], 0) / more,
    )


def _measured(where: str, rows: int, filesystem: Any) -> tuple[float, float, int]:
    """The least seconds of an update and of a scan of one file, and its bytes."""
    chance = np.random.default_rng(1)
    texts = chance.integers(97, 123, (rows, 100), dtype=np.uint8).view("S100").ravel().astype("U100")
    columns = {"key": chance.integers(0, 100, rows), "text": texts}
    table = pa.table({**columns, "_inserted": [1] * rows, "_expires": [9] * rows})
    schema, layout = pa.schema([("key", pa.int64()), ("text", pa.string())]), Layout(1, 1, 1, 9)
    updates, scans = [], []
    with Archive.create(where, schema, key="key", layout=layout, filesystem=filesystem, grace_s=0) as archive:
        archive.update(1, table)
        for number in range(2, 5):
            began = time.perf_counter()
            # One new row makes the update read, sort and write the file.
            archive.update(1, table.slice(number, 1))
            updates.append(time.perf_counter() - began)
            began = time.perf_counter()
            archive.scan()
            scans.append(time.perf_counter() - began)
        return min(updates), min(scans), archive.manifest.files[0].bytes
