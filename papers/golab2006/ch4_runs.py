"""The experiments of Golab 2006, section 4.4, over archives: rows, techniques, and what is timed.

Rows of about 1,000 bytes have one of 100 keys and a uniform lifetime up to S. An index begins with the rows that are
alive after S at a constant rate, its steady state, and every update brings 1/36 of that and drops what has expired:
S = 72 Delta. After each update keys are probed, and from time to time all of it is scanned. The techniques of a number
of sub-indices take turns update by update, so that what else the machine does meets all of them alike.

Files are in the page cache: what is timed is work, and what `fsync` takes. Making the rows is not timed.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from panewise.archive.archive import Archive
from panewise.archive.layout import Layout

SLOTS = 72  # S / Delta
EVERY = 1_000_000
LIFETIME = SLOTS * EVERY
KEYS = 100
ROW_BYTES = 1_000
TEXT_BYTES = ROW_BYTES - 3 * 8
FLUCTUATION = 4.0  # the fastest rate over the slowest
BUILD_BYTES_MAX = 600e6  # of one update, when an index is built
SCHEMA = pa.schema([("key", pa.int64()), ("text", pa.string())])


@dataclass(frozen=True)
class ArchiveExtent:
    """How much of it is run."""

    bytes: float
    updates: int
    probes: int = 8  # after each update
    scan_every: int = 4  # updates

    @property
    def rows(self) -> int:
        return int(self.bytes // ROW_BYTES)


class RowsWithLifetimes:
    """The rows of every slot, the same for all techniques; slots up to `SLOTS` make the initial state."""

    def __init__(self, extent: ArchiveExtent, fluctuating: bool = False) -> None:
        chance = np.random.default_rng(7)
        rates = chance.uniform(1, FLUCTUATION, SLOTS + extent.updates + 1)
        self._rates = rates / rates.mean() if fluctuating else np.ones_like(rates)
        self._rows = extent.rows / (SLOTS / 2)

    def slot(self, slot: int, alive_at: int | None = None) -> pa.Table:
        """What is inserted in a slot; where an instant is given, only what is still alive then."""
        chance = np.random.default_rng((11, slot))
        count = int(self._rows * self._rates[slot])
        inserted = np.sort(chance.integers((slot - 1) * EVERY + 1, slot * EVERY + 1, count))
        expires = inserted + chance.integers(1, LIFETIME + 1, count)
        keys = chance.integers(0, KEYS, count)
        if alive_at is not None:
            kept = expires > alive_at
            inserted, expires, keys = inserted[kept], expires[kept], keys[kept]
            count = len(keys)
        letters = chance.integers(97, 123, count * TEXT_BYTES, dtype=np.uint8)
        offsets = np.arange(count + 1, dtype=np.int32) * TEXT_BYTES
        text = pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(letters))
        return pa.table({"key": keys, "text": text, "_inserted": inserted, "_expires": expires})

    def initial(self) -> Iterator[pa.Table]:
        """What is alive when the updates begin, in a few parts."""
        parts: list[pa.Table] = []
        for slot in range(1, SLOTS + 1):
            parts.append(self.slot(slot, SLOTS * EVERY))
            if sum(part.nbytes for part in parts) > BUILD_BYTES_MAX:
                yield pa.concat_tables(parts)
                parts.clear()
        if parts:
            yield pa.concat_tables(parts)


@dataclass
class Timed:
    """Seconds of each operation, and what must be the same for all techniques."""

    layout: Layout
    update_s: list[float] = field(default_factory=list)
    probe_s: list[float] = field(default_factory=list)
    scan_s: list[float] = field(default_factory=list)
    touched: list[int] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    # The same in processor time of all threads, which does not depend on what else runs.
    update_processor_s: list[float] = field(default_factory=list)
    probe_processor_s: list[float] = field(default_factory=list)
    files: int = 0
    bytes: int = 0

    @property
    def update(self) -> float:
        return statistics.fmean(self.update_s)

    @property
    def update_processor(self) -> float:
        return statistics.fmean(self.update_processor_s)

    @property
    def probe_processor(self) -> float:
        return statistics.median(self.probe_processor_s)

    @property
    def probe(self) -> float:
        # A probe takes milliseconds: one that something else interrupts would count for many.
        return statistics.median(self.probe_s)

    @property
    def scan(self) -> float:
        return statistics.median(self.scan_s)


def techniques(parts: int) -> list[Layout]:
    """Those of figures 4.5 to 4.7."""
    side = round(parts**0.5)
    return [
        Layout(side, side, EVERY, LIFETIME),
        Layout(side, side, EVERY, LIFETIME, style="no_rebuild"),
        Layout(side, side, EVERY, LIFETIME, "chronological"),
        Layout.wave_by_insertion(parts, EVERY, LIFETIME),
        Layout.wave_by_insertion(parts, EVERY, LIFETIME, "no_rebuild"),
    ]


def other_techniques() -> list[Layout]:
    """Of 16 sub-indices: by expiration, and sides that differ (figure 4.4)."""
    return [
        Layout.wave_by_expiration(16, EVERY, LIFETIME),
        Layout.wave_by_expiration(16, EVERY, LIFETIME, "no_rebuild"),
        Layout(2, 8, EVERY, LIFETIME),
        Layout(8, 2, EVERY, LIFETIME),
    ]


def timed(
    layouts: Sequence[Layout],
    stream: RowsWithLifetimes,
    extent: ArchiveExtent,
    folder: Path,
    step_done: Callable[[], None],
) -> Mapping[str, Timed]:
    """Builds an archive of each layout and updates them in turn; by name. Steps are the updates, and the building."""
    archives, found = {}, {layout.name: Timed(layout) for layout in layouts}
    for layout in layouts:
        archives[layout.name] = Archive.create(folder / layout.name, SCHEMA, key="key", layout=layout, grace_s=0)
    for rows in stream.initial():
        for archive in archives.values():
            archive.update(SLOTS * EVERY, rows)
    step_done()
    chance = np.random.default_rng(13)
    for number in range(1, extent.updates + 1):
        rows, now = stream.slot(SLOTS + number), (SLOTS + number) * EVERY
        keys = chance.integers(0, KEYS, extent.probes).tolist()
        scanned = number % extent.scan_every == 0 or number == extent.updates
        for name, archive in archives.items():
            _step(found[name], archive, rows, now, keys, scanned)
        step_done()
    for name, archive in archives.items():
        manifest = archive.manifest
        found[name].files, found[name].bytes = len(manifest.files), sum(file.bytes for file in manifest.files)
        archive.close()
    return found


def _step(own: Timed, archive: Archive, rows: pa.Table, now: int, keys: Sequence[int], scanned: bool) -> None:
    with _clocked(own.update_s, own.update_processor_s):
        done = archive.update(now, rows)
    own.touched.append(len(done.touched))
    for key in keys:
        with _clocked(own.probe_s, own.probe_processor_s):
            found = archive.probe(key)
        own.answers.append(found.num_rows)
    if scanned:
        with _clocked(own.scan_s, []):
            found = archive.scan()
        own.answers.append(found.num_rows)


@contextmanager
def _clocked(seconds: list[float], processor_seconds: list[float]) -> Iterator[None]:
    began, processor_began = time.perf_counter(), time.process_time()
    yield
    seconds.append(time.perf_counter() - began)
    processor_seconds.append(time.process_time() - processor_began)
